"""The demo: five scenes on a real scheduler, live in a terminal, as text elsewhere.

Rule 1. Live or as text, fast or slow, the same seed shows the same.
Rule 2. It can be left at any time: a key goes to the next scene, q to the end, Ctrl-C out.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Console
from rich.live import Live

from sessionsched.cli import plain
from sessionsched.cli.board import Board, print_ends
from sessionsched.cli.keys import is_terminal, listen
from sessionsched.cli.loop import put_on
from sessionsched.cli.scenes import SCENES, SESSIONS
from sessionsched.cli.stage import open_stage

if TYPE_CHECKING:
    from sessionsched.cli.loop import ShowLoop
    from sessionsched.cli.scenes import Scene
    from sessionsched.cli.stage import Stage

__all__ = ["demo"]

#: Seconds to read what a scene will show, and to look at what it has shown.
BEFORE_S: Final = 1.2
AFTER_S: Final = 1.2
NEXT: Final = (
    "Now you: sessionsched play",
    "Every order of 4 prompts and 2 cancels, not just these: sessionsched explore",
)


def demo(*, seed: int = 1, speed: float = 1.0, as_text: bool = False) -> int:
    """Put on the show. Gives 0, or 1 if a prompt got lost: then the project has a bug.

    Args:
        seed: Decides what the agent says, and how fast.
        speed: 2.0 is twice as fast; 0: without any waiting.
        as_text: Plain text without waiting, also in a terminal.
    """
    console = Console(highlight=False)
    if as_text or not console.is_terminal or console.is_dumb_terminal:
        stage = put_on(lambda _loop: _as_text(seed, sys.stdout), 0.0)
    else:
        pace = 1 / speed if speed else 0.0
        stage = put_on(lambda loop: _Live(loop, console, pace).show(seed), pace)
    return 0 if stage.balanced else 1


async def _as_text(seed: int, file: TextIO) -> Stage:
    async with open_stage(seed) as stage:
        print(f"sessionsched demo: {len(SCENES)} scenes on a real scheduler", file=file)
        print(f"timelines: {plain.legend(plain.ASCII)}\n", file=file)
        for place, scene in enumerate(SCENES, 1):
            stage.begin(SESSIONS)
            await scene.play(stage)
            await asyncio.sleep(0.2)
            print(f"{plain.scene(f'{place}/{len(SCENES)}', scene, stage)}\n", file=file)
    print(plain.table(stage), plain.summary(stage), "", *NEXT, sep="\n", file=file)
    return stage


class _Live:
    """The show in a terminal."""

    def __init__(self, loop: ShowLoop, console: Console, pace: float) -> None:
        self._loop = loop
        self._console = console
        self._board = Board(console)
        self._live = Live(console=console, screen=True, auto_refresh=False)
        #: What to go back to when a scene that is skipped is over.
        self._pace = pace
        self._title = self._shows = ""

    async def show(self, seed: int) -> Stage:
        """Play every scene, then say how every run ended."""
        async with open_stage(seed) as stage:
            stage.on_tick = self._tick
            with self._keys(), self._live:
                for place, scene in enumerate(SCENES, 1):
                    await self._scene(stage, place, scene)
        print_ends(self._console, stage)
        for line in NEXT:
            self._console.print(line, style="dim")
        return stage

    async def _scene(self, stage: Stage, place: int, scene: Scene) -> None:
        self._loop.pace = self._pace
        self._title, self._shows = f"{place}/{len(SCENES)} {scene.title}", scene.shows
        stage.begin(SESSIONS)
        stage.rolling = False
        await asyncio.sleep(BEFORE_S)
        stage.begin(SESSIONS)
        await scene.play(stage)
        await asyncio.sleep(0.2)
        stage.rolling = False
        self._draw(stage)
        await asyncio.sleep(AFTER_S)

    def _tick(self, stage: Stage) -> None:
        if self._loop.pace:
            self._draw(stage)

    def _draw(self, stage: Stage) -> None:
        footer = self._board.legend("any key: next  q: end")
        self._live.update(self._board.draw(stage, self._title, self._shows, footer), refresh=True)

    def _keys(self) -> contextlib.AbstractContextManager[None]:
        """Listen to the keyboard, if there is one."""
        if not is_terminal(sys.stdin):
            return contextlib.nullcontext()
        return listen(self._loop, sys.stdin.fileno(), self._pressed)

    def _pressed(self, key: str) -> None:
        self._loop.pace = 0.0
        if key in ("q", "Q", ""):
            self._pace = 0.0
