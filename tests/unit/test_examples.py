"""Every example runs, without a warning, and prints what the file beside it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
#: They need a real clock, and print the same however slow the machine is.
WITH_THREADS = {"blocking_tool", "threads"}
#: Runs an example on virtual time: on a busy machine two naps may end in another order.
ON_VIRTUAL_TIME = """
import asyncio, runpy, sys
from pages import VirtualLoop

def run(main):
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

asyncio.run = run
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= WITH_THREADS | {
        "quickstart", "escape_key", "follow_ups", "http_202", "resume_after_shutdown",
    }  # fmt: skip


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_prints_what_it_should(path: Path) -> None:
    virtual = [] if path.stem in WITH_THREADS else ["-c", ON_VIRTUAL_TIME]
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-X", "dev", "-W", "error", *virtual, str(path)],
        capture_output=True, text=True, timeout=600, check=False, cwd=Path(__file__).parent,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".txt").read_text(encoding="utf-8")
