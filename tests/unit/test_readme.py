"""The README's code runs, and says what it claims."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_example_of_the_readme_works(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "start: start over"


def test_every_make_target_that_the_readme_names_is_there() -> None:
    makefile = README.with_name("Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z-]+)`?", README.read_text(encoding="utf-8")))
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
