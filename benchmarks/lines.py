"""Runs and cancels on the asyncio scheduler: W1, W2, W3, W4, W7, W8."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import TYPE_CHECKING, Final

from benchmarks.bases import on_loop
from sessionsched import Limits, Run, Scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.stopwatch import Stopwatch

__all__ = [
    "cancel_all", "cancel_idle", "cancels_leave", "in_one_line", "over_sessions", "round_trips",
    "submit_only",
]  # fmt: skip

PER_SESSION: Final = 10


async def nothing(_run: Run[int]) -> None:
    """The handler: what is measured is everything else."""


def names(n: int) -> list[str]:
    """Give the names of so many sessions."""
    return [f"session-{number}" for number in range(max(1, n))]


async def submit_and_wait(scheduler: Scheduler[int, None], sessions: Sequence[str], n: int) -> None:
    """Submit to the sessions in turns, then wait for every outcome."""
    handles = [scheduler.submit(sessions[i % len(sessions)], i) for i in range(n)]
    for handle in handles:
        await handle.outcome()


@on_loop
async def over_sessions(watch: Stopwatch, n: int) -> None:
    """W1: ten runs for each session, and every outcome is awaited."""
    sessions = names(n // PER_SESSION)
    async with Scheduler(nothing) as scheduler:
        with watch:
            await submit_and_wait(scheduler, sessions, n)


@on_loop
async def in_one_line(watch: Stopwatch, n: int) -> None:
    """W2: one session, and all runs in its line."""
    async with Scheduler(nothing, limits=Limits(max_waiting=n)) as scheduler:
        with watch:
            await submit_and_wait(scheduler, ["session"], n)


@on_loop
async def cancel_idle(watch: Stopwatch, n: int) -> None:
    """W3: cancel sessions that have nothing in flight."""
    sessions = names(n)
    async with Scheduler(nothing) as scheduler:
        with watch:
            for session in sessions:
                scheduler.cancel(session)


def cancels_leave(n: int) -> float:
    """W3: bytes that are left by each cancel of an idle session."""

    async def main() -> int:
        sessions = names(n)
        async with Scheduler(nothing) as scheduler:
            scheduler.cancel("warm")
            before = tracemalloc.get_traced_memory()[0]
            for session in sessions:
                scheduler.cancel(session)
            return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        return asyncio.run(main()) / n
    finally:
        tracemalloc.stop()


@on_loop
async def cancel_all(watch: Stopwatch, n: int) -> None:
    """W4: ten runs for each session, the first one active; one cancel each, until all are over."""
    sessions = names(n // PER_SESSION)
    begun = 0

    async def for_ever(_run: Run[int]) -> None:
        nonlocal begun
        begun += 1
        await asyncio.get_running_loop().create_future()

    async with Scheduler(for_ever) as scheduler:
        handles = [scheduler.submit(sessions[i % len(sessions)], i) for i in range(n)]
        while begun < len(sessions):  # noqa: ASYNC110 - until the handlers of all are suspended
            await asyncio.sleep(0)
        with watch:
            for session in sessions:
                scheduler.cancel(session)
            for handle in handles:
                await handle.outcome()


@on_loop
async def round_trips(watch: Stopwatch, n: int) -> None:
    """W7: submit to an idle session, and wait for the outcome, before there is another."""
    async with Scheduler(nothing) as scheduler:
        with watch:
            for i in range(n):
                await scheduler.submit("session", i).outcome()


@on_loop
async def submit_only(watch: Stopwatch, n: int) -> None:
    """W8: what the caller of `submit` pays on a busy session; what follows is not counted."""
    gate = asyncio.Event()

    async def handler(run: Run[int]) -> None:
        if run.prompt < 0:
            await gate.wait()

    async with Scheduler(handler, limits=Limits(max_waiting=n)) as scheduler:
        scheduler.submit("session", -1)
        await asyncio.sleep(0)
        with watch:
            handles = [scheduler.submit("session", i) for i in range(n)]
        gate.set()
        await handles[-1].outcome()
