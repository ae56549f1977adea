"""Play: the agent of the demo, and a person who types.

Rule 1. In a terminal there is a board and an input line, and Escape acts at once, whatever else is
        being done. Elsewhere lines are read from stdin, and notes are printed as they come.
Rule 2. It ends with /quit, Ctrl-D, Ctrl-C, or when nothing is left to read; always with a close,
        and with a table of how every run ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from sessionsched.cli import plain
from sessionsched.cli.board import Board, print_ends
from sessionsched.cli.commands import Player
from sessionsched.cli.keys import ESCAPE, is_terminal, listen, listen_to_lines
from sessionsched.cli.loop import put_on
from sessionsched.cli.scenes import SESSIONS
from sessionsched.cli.stage import open_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionsched.cli.loop import ShowLoop
    from sessionsched.cli.stage import Note, Stage

__all__ = ["play"]

TITLE: Final = "play"
SHOWS: Final = "Type `chat-1: hello`, and while it answers: another line, or the Escape key."
HINT: Final = "Esc: cancel  Tab: next session  /help"
#: The pace of somebody who can't wait but wants to see it.
HARDLY: Final = 0.05
ENTER: Final = ("\n", "\r")
BACKSPACE: Final = ("\x7f", "\b")
KILL: Final = "\x15"  # Ctrl-U
HANG_UP: Final = ("\x04", "")  # Ctrl-D, or the terminal has gone


def play(*, seed: int = 1, speed: float = 1.0) -> int:
    """Let somebody type. Gives 0, or 1 if a prompt got lost: then the project has a bug.

    Args:
        seed: Decides what the agent says, and how fast.
        speed: 2.0 is twice as fast; 0: without any waiting, or hardly any in a terminal.

    Raises:
        KeyboardInterrupt: Ctrl-C; all has been closed, and the table was shown.
    """
    console = Console(highlight=False)
    if console.is_terminal and not console.is_dumb_terminal and is_terminal(sys.stdin):
        pace = 1 / speed if speed else HARDLY
        stage = put_on(lambda loop: _Screen(loop, console).show(seed), pace)
    else:
        stage = put_on(lambda loop: _read_lines(loop, seed), 1 / speed if speed else 0.0)
    return 0 if stage.balanced else 1


async def _read_lines(loop: ShowLoop, seed: int) -> Stage:
    typed: asyncio.Queue[str | None] = asyncio.Queue()
    async with open_stage(seed, on_closed=_print_ends) as stage:
        stage.on_note = _print_note
        player = Player(stage, SESSIONS)
        with _stdin() as fd, listen_to_lines(loop, fd, typed.put_nowait):
            while not player.left and (line := await typed.get()) is not None:
                await player.do(line)
        if not player.left:
            await stage.quiet()
    return stage


@contextlib.contextmanager
def _stdin() -> Iterator[int]:
    """Where lines are read from; a program that was started without has nothing to read."""
    if sys.stdin is not None:
        yield sys.stdin.fileno()
        return
    with Path(os.devnull).open() as nothing:
        yield nothing.fileno()


def _print_note(note: Note) -> None:
    print(note.line(), flush=True)


def _print_ends(stage: Stage) -> None:
    print("", plain.table(stage), plain.summary(stage), sep="\n")


class _Screen:
    """The game in a terminal."""

    def __init__(self, loop: ShowLoop, console: Console) -> None:
        self._loop = loop
        self._console = console
        self._board = Board(console)
        self._live = Live(console=console, screen=True, auto_refresh=False)
        #: Lines that were typed and not done yet.
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        #: The line that is being typed.
        self._line = ""

    async def show(self, seed: int) -> Stage:
        """Play until somebody leaves."""
        async with open_stage(seed, on_closed=self._print_ends) as stage:
            stage.on_tick = self._draw
            self._player = Player(stage, SESSIONS)
            self._doing = asyncio.create_task(self._do_what_is_typed())
            stage.begin(SESSIONS)
            with listen(self._loop, sys.stdin.fileno(), self._pressed), self._live:
                try:
                    await asyncio.wait([self._doing])
                finally:
                    self._doing.cancel()
            if not self._doing.cancelled():
                self._doing.result()  # a bug shows
        return stage

    async def _do_what_is_typed(self) -> None:
        while not self._player.left:
            await self._player.do(await self._typed.get())

    def _pressed(self, key: str) -> None:
        if key == ESCAPE:
            self._player.escape()
        elif key == "\t":
            self._player.next_session()
        elif key in ENTER:
            self._typed.put_nowait(self._line)
            self._line = ""
        elif key in HANG_UP:
            self._doing.cancel()
        else:
            self._line = _edited(self._line, key)
        self._draw(self._player.stage)

    def _draw(self, stage: Stage) -> None:
        focus = self._player.focus
        cursor = Text.assemble((f"{focus}> ", "bold"), self._line, (" ", "reverse"), "  ")
        footer = cursor.append("" if self._line else HINT, "dim")
        self._live.update(self._board.draw(stage, TITLE, SHOWS, footer, focus), refresh=True)

    def _print_ends(self, stage: Stage) -> None:
        print_ends(self._console, stage)


def _edited(line: str, key: str) -> str:
    """The line after a key; what can't be seen changes nothing."""
    if key in BACKSPACE:
        return line[:-1]
    if key == KILL:
        return ""
    return line + key if key.isprintable() else line
