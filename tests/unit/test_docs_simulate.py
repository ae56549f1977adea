"""The page about simulations: its code runs under pytest, and does what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import async_solipsism
from pages import blocks, text_of

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = "docs/simulate.md"
TEXT: Final = text_of(PAGE)
CODE: Final = "\n\n".join(block.text for block in blocks(PAGE, "python"))
FAILS: Final = "test_escape_in_the_moment_of_the_answer"


def test_what_the_page_shows_goes_well_but_for_the_one_that_fails_as_it_says(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_page.py").write_text(CODE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-rf"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    failed = re.findall(r"^FAILED test_page.py::(\w+)", done.stdout, re.MULTILINE)
    passed = int("".join(re.findall(r"(\d+) passed", done.stdout)))
    assert (failed, passed) == ([FAILS], CODE.count("def test_") - 1 + 19), done.stdout
    (shown,) = re.findall(r"```\n(AssertionError.*?)\n```", TEXT, re.DOTALL)
    for line in shown.split("\n"):
        any_seed = re.escape(line).replace("7", r"\d+")
        assert re.search(rf"^E +{any_seed}$", done.stdout, re.MULTILINE), done.stdout


def test_what_fails_there_goes_well_in_asyncios_own_order() -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(CODE, "docs/simulate.md", "exec"), names)  # noqa: S102 - our own page
    loop = async_solipsism.EventLoop()
    loop.run_until_complete(names["press_escape"](names["Chat"]()))
    loop.close()
