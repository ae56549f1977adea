"""Every example runs, without a warning, and prints what the file beside it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "quickstart", "escape_key", "follow_ups", "http_202", "resume_after_shutdown",
    }  # fmt: skip


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_what_it_should(path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-X", "dev", "-W", "error", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".txt").read_text(encoding="utf-8")
