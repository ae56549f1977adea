"""The commands as people start them: a program of its own, at a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds after which a test gives up. Nothing waits for so long unless it fails.
PATIENCE_S = 60.0
CTRL_C = b"\x03"
ESCAPE = b"\x1b"

#: Makes stdin the terminal from which Ctrl-C comes, then runs the command.
IN_ITS_TERMINAL = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("sessionsched", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """A program at a pseudo-terminal of 80 x 24."""

    def __init__(self, *args: str) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._theirs = theirs
        self.modes = termios.tcgetattr(theirs)
        env = {**os.environ, "TERM": "xterm-256color", "PYTHONWARNINGS": "error"}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
            env.pop(name, None)
        self._program = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", IN_ITS_TERMINAL, *args],
            stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True,
        )  # fmt: skip
        self.seen = ""

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def wait_for(self, text: str) -> None:
        """Read until the text has come since the last time."""
        start = len(self.seen)
        until = time.monotonic() + PATIENCE_S
        while text not in self.seen[start:]:
            ready, _, _ = select.select([self._ours], [], [], until - time.monotonic())
            assert ready, f"{text!r} never came; the last was {self.seen[-2000:]!r}"
            self.seen += os.read(self._ours, 65536).decode("utf-8", "replace")

    def code(self) -> int:
        """Read the rest, and give the exit code."""
        while self._program.poll() is None:
            ready, _, _ = select.select([self._ours], [], [], 0.02)
            if ready:
                self.seen += os.read(self._ours, 65536).decode("utf-8", "replace")
        while select.select([self._ours], [], [], 0)[0]:
            self.seen += os.read(self._ours, 65536).decode("utf-8", "replace")
        assert termios.tcgetattr(self._theirs) == self.modes, "the terminal is not as it was"
        assert "Traceback" not in self.seen
        return self._program.returncode

    def close(self) -> None:
        self._program.kill()
        self._program.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def play() -> Iterator[Terminal]:
    terminal = Terminal("play")  # what is long takes 5 s: who types may be slow, the machine too
    yield terminal
    terminal.close()


@pytest.fixture
def demo() -> Iterator[Terminal]:
    terminal = Terminal("demo")
    yield terminal
    terminal.close()


def test_escape_and_ctrl_c_reach_the_game(play: Terminal) -> None:
    play.wait_for("chat-1>")
    play.press(b"a long story\r")
    play.wait_for("#1 is handed to the agent")
    play.press(ESCAPE)
    play.wait_for("Escape: the mark is 1")
    play.press(b"another long one\r")
    play.wait_for("#2 is handed to the agent")
    play.press(CTRL_C)
    assert play.code() == 130
    assert "accepted 2 = ended 2: 1 canceled, 1 suspended" in play.seen


def test_ctrl_c_leaves_the_demo(demo: Terminal) -> None:
    demo.wait_for("1/5")
    demo.press(CTRL_C)
    assert demo.code() == 130


def test_a_reader_who_leaves_is_no_error() -> None:
    """So little text that Python would try to write it once more at exit."""
    command = [sys.executable, "-m", "sessionsched", "diagram", "--table"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(  # noqa: S603 - our own program
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 141
