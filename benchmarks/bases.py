"""What everything is compared with: the least that asyncio, a dict or a thread pool can do."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from benchmarks.interleave import Side
    from benchmarks.stopwatch import Stopwatch

__all__ = [
    "all_tasks", "cancel_tasks", "create_only", "in_batches", "look_up", "on_loop", "one_by_one",
    "pool",
]  # fmt: skip

BATCH: Final = 100


def on_loop(work: Callable[[Stopwatch, int], Coroutine[Any, Any, None]]) -> Side:
    """Make a side of a coroutine function: every pass has an event loop of its own."""

    @functools.wraps(work)
    def side(watch: Stopwatch, n: int) -> None:
        asyncio.run(work(watch, n))

    return side


async def nothing() -> None:
    """Do what the handlers do."""


async def for_ever() -> None:
    """Be suspended until canceled."""
    await asyncio.get_running_loop().create_future()


@on_loop
async def all_tasks(watch: Stopwatch, n: int) -> None:
    """Base (a): a task each, all at once; then each is awaited."""
    with watch:
        tasks = [asyncio.create_task(nothing()) for _ in range(n)]
        for task in tasks:
            await task


@on_loop
async def in_batches(watch: Stopwatch, n: int) -> None:
    """Base (b): the same, never more than a hundred at a time: little for the collector to walk."""
    with watch:
        for start in range(0, n, BATCH):
            tasks = [asyncio.create_task(nothing()) for _ in range(min(BATCH, n - start))]
            for task in tasks:
                await task


@on_loop
async def one_by_one(watch: Stopwatch, n: int) -> None:
    """A task, awaited before there is another."""
    with watch:
        for _ in range(n):
            await asyncio.create_task(nothing())


@on_loop
async def create_only(watch: Stopwatch, n: int) -> None:
    """What the caller of `create_task` pays; what follows is not counted."""
    with watch:
        tasks = [asyncio.create_task(nothing()) for _ in range(n)]
    for task in tasks:
        await task


@on_loop
async def cancel_tasks(watch: Stopwatch, n: int) -> None:
    """Cancel suspended tasks, until all are over. Nobody awaits them: the least that it can be."""
    tasks = [asyncio.create_task(for_ever()) for _ in range(n)]
    await asyncio.sleep(0)
    with watch:
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):  # noqa: ASYNC110 - an event would cost more
            await asyncio.sleep(0)


def look_up(watch: Stopwatch, n: int) -> None:
    """Call a function that looks for a session, and finds none."""
    sessions: dict[str, object] = {}

    def find(session_id: str) -> object:
        return sessions.get(session_id)

    names = [f"idle-{number}" for number in range(n)]
    with watch:
        for name in names:
            find(name)


def pool(watch: Stopwatch, n: int) -> None:
    """Two threads of a pool; every result is awaited."""

    def plain() -> None:
        return

    with ThreadPoolExecutor(2) as executor, watch:
        futures = [executor.submit(plain) for _ in range(n)]
        for future in futures:
            future.result()
