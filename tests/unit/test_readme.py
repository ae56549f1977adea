"""The README: what it claims is so. Its code and its links are tried in test_docs.py."""

from __future__ import annotations

import re

from pages import blocks, text_of

from sessionsched.rows import ROWS
from sessionsched.testing.zoo import ANIMALS

TEXT = text_of("README.md")


def test_the_quickstart_is_the_one_that_is_tried_and_prints_what_that_prints() -> None:
    code, printed = text_of("examples/quickstart.py"), text_of("examples/quickstart.txt")
    for page in ("README.md", "docs/index.md"):
        assert [it.shown for it in blocks(page, "python") if it.text == code] == [printed]


def test_the_ordinary_way_loses_the_cancel_and_ours_does_not() -> None:
    lost, kept, _ = blocks("README.md", "python")
    assert "sessionsched" not in lost.text
    assert (lost.shown, kept.shown) == ("done: delete the old backups\n", "canceled\n")


def test_the_part_that_loses_it_has_ten_lines() -> None:
    head, _, _ = blocks("README.md", "python")[0].text.partition("async def load")
    assert len([line for line in head.splitlines() if line.strip()]) <= 10


def test_the_picture_is_the_one_that_is_printed_from_the_code() -> None:
    (picture,) = blocks("README.md", "mermaid")
    assert picture.text == blocks("docs/state-diagram.md", "mermaid")[0].text
    assert len(ROWS) == 27


def test_the_figures_that_can_be_counted_here_are_right() -> None:
    sentences = re.findall(r"^- [A-Z]\d+ ", text_of("docs/contract.md"), re.MULTILINE)
    assert f"{len(sentences)} numbered sentences" in TEXT
    assert f"{len(ANIMALS)} of {len(ANIMALS)} small schedulers" in TEXT
