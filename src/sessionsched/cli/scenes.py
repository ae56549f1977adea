"""Five scenes: what people do to an agent, each with the one sentence that it shows.

Rule 1. A scene only does what a person could do. What comes of it is for the scheduler to decide.
Rule 2. A scene waits for things to happen (so many words, an end), never for a lucky moment: it
        shows the same with every seed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched import RunProgress, WhenBusy
from sessionsched.cli.stage import names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched import RunHandle
    from sessionsched.cli.stage import Stage

__all__ = ["SCENES", "SESSIONS", "Scene"]

SESSIONS: Final = ("chat-1", "chat-2", "chat-3")


@frozen
class Scene:
    """A part of the show."""

    title: str
    #: One plain sentence: what to see.
    shows: str
    play: Callable[[Stage], Awaitable[object]]


async def words(stage: Stage, handle: RunHandle[str, str], count: int) -> None:
    """Wait until the agent has said so many more words."""
    async with stage.scheduler.subscribe(run_id=handle.run_id) as events:
        async for event in events:
            count -= isinstance(event, RunProgress)
            if count == 0:
                return


async def hand_over(stage: Stage) -> None:
    """Escape lands before there is anything to cancel, in two ways."""
    stage.send("chat-2", "summarise the log")
    await asyncio.sleep(0.5)
    ticket = stage.prepare("chat-1", "refactor the parser")
    await asyncio.sleep(0.5)
    stage.send("chat-3", "send and regret at once")
    stage.escape("chat-3")  # the same instant: its handler has not taken a step
    await asyncio.sleep(0.5)
    stage.escape("chat-1")
    stage.send("chat-1", "just fix the typo")
    await asyncio.sleep(0.2)
    late = "is ready now" if ticket.ready() else "is ready now: too late, and it knows"
    stage.note("you", "chat-1", f"#{ticket.seq} {late}")
    await stage.quiet()


async def unwinding(stage: Stage) -> None:
    """A prompt comes after the Escape, and before the canceled run has stopped."""
    first = stage.send("chat-1", "write the docs")
    await words(stage, first, 3)
    stage.send("chat-1", "and translate them")
    await words(stage, first, 3)
    stage.escape("chat-1")
    await asyncio.sleep(0.4)
    stage.send("chat-1", "only the summary, please")
    await stage.quiet()


async def follow_ups(stage: Stage) -> None:
    """What is typed meanwhile joins the active run; what wants its own turn doesn't."""
    first = stage.send("chat-2", "write a parser")
    await words(stage, first, 1)
    stage.send("chat-2", "then a changelog")
    stage.send("chat-2", "in Python", WhenBusy.FOLD)
    await words(stage, first, 4)
    stage.send("chat-2", "with tests", WhenBusy.FOLD)
    await stage.quiet()


async def replace(stage: Stage) -> None:
    """Interrupt and replace: cover what is in flight and accept the next, in one step."""
    stage.send("chat-1", "run the benchmarks")
    first = stage.send("chat-3", "plan the release")
    await words(stage, first, 3)
    stage.send("chat-3", "draft the notes")
    await words(stage, first, 3)
    stage.send("chat-3", "no: hotfix first", WhenBusy.INTERRUPT)
    await stage.quiet()


async def shutdown(stage: Stage) -> None:
    """Close in the middle of work, with a second to drain."""
    nearly = stage.send("chat-1", "a quick question")
    await words(stage, nearly, 6)
    stage.send("chat-2", "a long migration")
    stage.send("chat-2", "then clean up")
    mistake = stage.send("chat-3", "a mistake")
    await words(stage, mistake, 2)
    closing = asyncio.create_task(stage.scheduler.close(drain=1.5))
    await asyncio.sleep(0)
    stage.note("you", "", "close: 1.5 s to finish, nothing new gets in")
    await asyncio.sleep(0.5)
    stage.escape("chat-3")
    report = await closing
    stage.note("", "", f"suspended, to be resumed: {names(report.suspended)}")


SCENES: Final = (
    Scene(
        "Escape in the hand-over window",
        "No task is there to be canceled yet, and still a covered prompt never runs.",
        hand_over,
    ),
    Scene(
        "A prompt sent while the canceled one unwinds",
        "It waits until the agent has stopped, and the Escape before it can't hit it.",
        unwinding,
    ),
    Scene(
        "Follow-ups folded into the run",
        "What you type meanwhile joins at the next step, and shares the run's end.",
        follow_ups,
    ),
    Scene(
        "Interrupt and replace",
        "One step covers what is in flight and takes its place; chat-1 goes on.",
        replace,
    ),
    Scene(
        "Shutdown",
        "What can finish does, the rest is suspended by name, Escape still counts.",
        shutdown,
    ),
)
