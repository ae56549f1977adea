"""Libraries that run coroutines: anyio, aiojobs, taskiq, APScheduler."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

from benchmarks.bases import nothing, on_loop
from benchmarks.lines import PER_SESSION

if TYPE_CHECKING:
    from benchmarks.stopwatch import Stopwatch

__all__ = ["aiojobs_schedulers", "anyio_streams", "apscheduler_dates", "taskiq_in_memory"]


@on_loop
async def anyio_streams(watch: Stopwatch, n: int) -> None:
    """A memory stream for each session, read by a task of one group."""
    import anyio  # noqa: PLC0415 - a peer is there, or not

    async def serve(stream: Any) -> None:
        async for end in stream:
            await nothing()
            end.set()

    with watch:
        async with anyio.create_task_group() as group:
            pairs = [
                anyio.create_memory_object_stream[anyio.Event](math.inf)
                for _ in range(n // PER_SESSION)
            ]
            for _, stream in pairs:
                group.start_soon(serve, stream)
            ends = [anyio.Event() for _ in range(n)]
            for i, end in enumerate(ends):
                pairs[i % len(pairs)][0].send_nowait(end)
            for end in ends:
                await end.wait()
            for send, _ in pairs:
                send.close()


@on_loop
async def aiojobs_schedulers(watch: Stopwatch, n: int) -> None:
    """A scheduler with a limit of one for each session."""
    import aiojobs  # noqa: PLC0415 - see above

    with watch:
        lines = [aiojobs.Scheduler(limit=1, pending_limit=0) for _ in range(n // PER_SESSION)]
        spawned = [await lines[i % len(lines)].spawn(nothing()) for i in range(n)]
        for one in spawned:
            await one.wait()
    for line in lines:
        await line.close()


@on_loop
async def taskiq_in_memory(watch: Stopwatch, n: int) -> None:
    """The broker in memory. It has no sessions: everything runs beside everything."""
    from taskiq import InMemoryBroker  # noqa: PLC0415 - see above

    broker = InMemoryBroker(max_stored_results=n)
    task = broker.register_task(nothing, task_name="nothing")
    await broker.startup()
    with watch:
        sent = [await task.kiq() for _ in range(n)]
        await broker.wait_all()
        for one in sent:
            await one.wait_result()
    await broker.shutdown()


@on_loop
async def apscheduler_dates(watch: Stopwatch, n: int) -> None:
    """Something to be done once, now. It has no sessions either."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415 - see above

    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
    loop = asyncio.get_running_loop()
    scheduler = AsyncIOScheduler(event_loop=loop, timezone="UTC")
    scheduler.start()

    async def run(end: asyncio.Future[None]) -> None:
        await nothing()
        end.set_result(None)

    with watch:
        ends = [loop.create_future() for _ in range(n)]
        for end in ends:
            scheduler.add_job(run, args=(end,), misfire_grace_time=None)
        for end in ends:
            await end
    scheduler.shutdown(wait=False)
