"""What needs no library: a queue and a task for each session; and the scheduler itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.bases import nothing, on_loop
from benchmarks.lines import PER_SESSION, over_sessions

if TYPE_CHECKING:
    from benchmarks.stopwatch import Stopwatch

__all__ = ["ours", "queues"]

ours = over_sessions


async def _serve(queue: asyncio.Queue[asyncio.Future[None]]) -> None:
    while True:
        end = await queue.get()
        await nothing()
        end.set_result(None)


@on_loop
async def queues(watch: Stopwatch, n: int) -> None:
    """A queue and a task for each session, that live until everything is over."""
    loop = asyncio.get_running_loop()
    with watch:
        lines: list[asyncio.Queue[asyncio.Future[None]]] = [
            asyncio.Queue() for _ in range(n // PER_SESSION)
        ]
        servers = [asyncio.create_task(_serve(line)) for line in lines]
        ends: list[asyncio.Future[None]] = []
        for i in range(n):
            ends.append(end := loop.create_future())
            lines[i % len(lines)].put_nowait(end)
        for end in ends:
            await end
    for server in servers:
        server.cancel()
