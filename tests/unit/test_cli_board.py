from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

from rich.console import Console

from sessionsched.cli.board import Board
from sessionsched.cli.loop import put_on
from sessionsched.cli.stage import Stage, open_stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched.cli.loop import ShowLoop


def picture(
    act: Callable[[Stage], Awaitable[object]],
    *,
    size: tuple[int, int] = (80, 24),
    sessions: tuple[str, ...] = ("a", "b", "c"),
    focus: str = "",
    encoding: str = "utf-8",
) -> list[str]:
    """What the board shows after something was done, line by line, without colours."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=size[0], height=size[1], color_system=None)

    async def show(_loop: ShowLoop) -> None:
        async with open_stage(1) as stage:
            stage.begin(sessions)
            await act(stage)
            console.print(Board(console).draw(stage, "title", "what it shows", focus=focus))

    put_on(show, 0.0)
    file.seek(0)
    return file.read().splitlines()


async def nothing(_stage: Stage) -> None:
    """Do nothing."""


def line_with(text: str, lines: list[str]) -> str:
    (found,) = [line for line in lines if text in line]
    return found


def test_it_is_exactly_as_high_as_the_terminal() -> None:
    for size in ((80, 24), (120, 40), (60, 18)):
        lines = picture(nothing, size=size)
        assert len(lines) == size[1]
        assert max(map(len, lines)) <= size[0]


def test_a_terminal_that_is_far_too_small_still_gets_a_picture() -> None:
    async def act(stage: Stage) -> None:
        for _ in range(5):
            stage.escape("a")

    lines = picture(act, size=(30, 6))
    assert max(map(len, lines)) <= 30
    assert len(lines) < 12


def test_it_shows_the_active_run_who_waits_and_what_is_said() -> None:
    async def act(stage: Stage) -> None:
        stage.send("a", "first")
        for name in ("second", "third", "4th", "5th", "6th", "7th"):
            stage.send("a", name)
        await asyncio.sleep(1.0)

    lines = picture(act)
    assert "#1 first, then #2 #3 #4 #5 #6 …: " in line_with("#1 first,", lines)
    assert " queued " in line_with("  a ", lines[:8])
    assert "1═════════" in line_with("  a ", lines[:8])


def test_it_shows_the_mark_what_stops_and_what_is_dropped() -> None:
    async def act(stage: Stage) -> None:
        stage.send("a", "first")
        stage.send("a", "second")
        await asyncio.sleep(0.5)
        stage.escape("a")
        stage.send("a", "third")
        await asyncio.sleep(0.2)

    lines = picture(act)
    below = line_with("#1 first,", lines)
    assert below.startswith("  mark 2 ")
    assert "#1 first, then #3: … stops  drop of #2 is recorded" in below
    assert " canceled " in line_with("\u2573\u2573", lines)
    assert line_with("Esc 3", lines[:8]).startswith(" " * 22 + "1 2  Esc 3")


def test_it_shows_a_line_that_is_held() -> None:
    async def act(stage: Stage) -> None:
        stage.send("b", "first")
        stage.send("b", "second")
        stage.scheduler.pause("b")
        await stage.quiet()

    assert line_with("next: #2", picture(act)).startswith("  held ")


def test_with_too_many_sessions_the_newest_and_the_one_in_focus_are_shown() -> None:
    names = tuple("abcdefgh")
    lines = picture(nothing, sessions=names, focus="b")
    assert [line[2] for line in lines if " idle " in line[:-1] and line[2] in names] == [
        "b", "g", "h",
    ]  # fmt: skip
    assert [line for line in lines if line.startswith("> b")]


def test_a_timeline_that_is_too_long_shows_its_end() -> None:
    async def act(stage: Stage) -> None:
        await asyncio.sleep(10.0)
        stage.send("a", "late")
        await asyncio.sleep(0.4)

    assert line_with("  a ", picture(act)[:6]).endswith("···1━━━")


def test_where_there_is_only_ascii_the_picture_has_nothing_else() -> None:
    async def act(stage: Stage) -> None:
        stage.send("a", "a very long prompt that does not fit into its line at all, I am afraid")
        await asyncio.sleep(0.3)
        stage.escape("a")

    lines = picture(act, encoding="ascii")
    assert "".join(lines).isascii()
    assert ". idle  o accepted  - active  = queued  x canceled" in lines[-1]
