"""Threads: W10, runs on threads, and W12, runs that come to the loop from another thread."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final

from benchmarks.bases import on_loop
from benchmarks.lines import PER_SESSION, names, nothing
from sessionsched import RunHandle, Scheduler, ThreadRun, ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.stopwatch import Stopwatch

__all__ = ["call_soon", "on_threads", "submit_from_afar"]

#: Calls before the loop has its turn. More of them, and the pipe that wakes it would be full.
BATCH: Final = 100


def plain(_run: ThreadRun[int]) -> None:
    """The handler, for threads."""


def on_threads(watch: Stopwatch, n: int) -> None:
    """W10: ten runs for each session on two threads, and every outcome is awaited."""
    sessions = names(n // PER_SESSION)
    with ThreadScheduler(plain, threads=2) as scheduler, watch:
        handles = [scheduler.submit(sessions[i % len(sessions)], i) for i in range(n)]
        for handle in handles:
            handle.outcome()


async def from_afar(watch: Stopwatch, n: int, call: Callable[[int], object]) -> None:
    """Time calls in another thread, while the loop's thread stands still: the calls, no more."""

    def calls(start: int) -> None:
        with watch:
            for i in range(start, min(start + BATCH, n)):
                call(i)

    for start in range(0, n, BATCH):
        thread = threading.Thread(target=calls, args=(start,))
        thread.start()
        thread.join()
        await asyncio.sleep(0)


@on_loop
async def submit_from_afar(watch: Stopwatch, n: int) -> None:
    """W12: what `submit` costs a thread that is not the loop's."""
    sessions = names(n)
    handles: list[RunHandle[int, None]] = []
    async with Scheduler(nothing) as scheduler:
        await from_afar(watch, n, lambda i: handles.append(scheduler.submit(sessions[i], i)))
        for handle in handles:
            await handle.outcome()


@on_loop
async def call_soon(watch: Stopwatch, n: int) -> None:
    """What `call_soon_threadsafe` costs such a thread."""
    loop = asyncio.get_running_loop()
    handles: list[asyncio.Handle] = []
    await from_afar(watch, n, lambda _: handles.append(loop.call_soon_threadsafe(int)))
