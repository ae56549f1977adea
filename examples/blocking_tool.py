"""A blocking tool in a handler: canceled with the run, although nobody can stop a thread.

`asyncio.to_thread` hands blocking work to a thread. When the handler is canceled the thread works
on, and would write its output into the next run. So the tool looks at `run.canceled` (which any
thread may do), and the handler waits for it before it goes: what comes late has nowhere to go.
"""

import asyncio
import threading

from sessionsched import Run, Scheduler

LOG: list[str] = []
AT_WORK = threading.Event()


def tool(run: Run[str]) -> None:
    """Blocking work in small pieces."""
    for _piece in range(1000):
        if run.canceled:
            LOG.append(f"{run.prompt}: the tool stopped, because of the {run.cause}")
            return
        AT_WORK.set()
        threading.Event().wait(0.001)


async def agent(run: Run[str]) -> None:
    work = asyncio.ensure_future(asyncio.to_thread(tool, run))
    try:
        await asyncio.shield(work)
    finally:
        await asyncio.wait([work])  # the tool has seen the cancel: this is soon over
        LOG.append(f"{run.prompt}: over")


async def main() -> None:
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "build")
        await asyncio.to_thread(AT_WORK.wait)
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "build again", deadline=0.1)
        for handle in (first, second):
            outcome = await handle.outcome()
            LOG.append(f"{handle.run.prompt}: {outcome.status}, {outcome.cause}")
    print(*LOG, sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
