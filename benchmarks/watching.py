"""W9: W1 while somebody watches. Readers are tasks, and read on until they have seen every end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.bases import on_loop
from benchmarks.lines import PER_SESSION, names, nothing, submit_and_wait
from sessionsched import RunEnded, Scheduler

if TYPE_CHECKING:
    from benchmarks.interleave import Side
    from benchmarks.stopwatch import Stopwatch

__all__ = ["watched_by"]


async def read_ends(scheduler: Scheduler[int, None], n: int) -> None:
    """Read events until so many ends were seen."""
    async with scheduler.subscribe() as events:
        async for event in events:
            n -= isinstance(event, RunEnded)
            if not n:
                return


def watched_by(subscribers: int) -> Side:
    """W1 with so many subscribers; it is over when each of them has read every end."""

    @on_loop
    async def side(watch: Stopwatch, n: int) -> None:
        sessions = names(n // PER_SESSION)
        async with Scheduler(nothing) as scheduler:
            readers = [asyncio.create_task(read_ends(scheduler, n)) for _ in range(subscribers)]
            await asyncio.sleep(0)
            with watch:
                await submit_and_wait(scheduler, sessions, n)
                for reader in readers:
                    await reader

    return side
