"""Memory: W5, bytes for each session that is idle again, and W6, for each run that waits.

Rule 1. What counts is what the process takes from the machine, whoever allocated it.
Rule 2. So each is measured in a process of its own, which is warm before it is measured.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.figures import Figure
from benchmarks.lines import names, nothing, submit_and_wait
from sessionsched import Limits, Run, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

__all__ = ["idle_sessions", "waiting_runs"]

#: What is submitted at a time while sessions come and go, and before anything is measured.
BATCH: Final = 1000
ROOT: Final = Path(__file__).parents[1]
_STATM: Final = Path("/proc/self/statm")


def held() -> int:
    """Give the bytes that this process holds.

    Where the system doesn't say, the most that it has held: on Linux that would not do, because a
    process begins with the peak of the one that started it.
    """
    if _STATM.exists():
        return int(_STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def use_once(n: int) -> float:
    """Use so many sessions once. Gives the bytes that each has left behind."""
    async with Scheduler(nothing) as scheduler:

        async def use(start: int, end: int) -> None:
            for first in range(start, end, BATCH):
                sessions = [f"session-{first + i}" for i in range(BATCH)]
                await submit_and_wait(scheduler, sessions, BATCH)

        warm = 10 * BATCH
        await use(0, warm)
        before = held()
        await use(warm, warm + n)
        return (held() - before) / n


async def line_up(n: int) -> float:
    """Let so many runs wait in one line. Gives the bytes of each, its handle included."""

    async def for_ever(_run: Run[None]) -> None:
        await asyncio.get_running_loop().create_future()

    async with Scheduler(for_ever, limits=Limits(max_waiting=n)) as scheduler:
        await submit_and_wait(Scheduler(nothing), names(BATCH), BATCH)
        before = held()
        handles = [scheduler.submit("session", None) for _ in range(n)]
        bytes_each = (held() - before) / len(handles)
        print(bytes_each)  # it is what `_in_a_process` reads
        sys.stdout.flush()
        os._exit(0)  # nobody is interested in how a million runs are dropped


_MEASURES: Final[dict[str, Callable[[int], Coroutine[Any, Any, float]]]] = {
    "idle": use_once, "waiting": line_up,
}  # fmt: skip


def _in_a_process(measure: str, n: int) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", measure, str(n)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return float(done.stdout)


def idle_sessions(n: int) -> Figure:
    """W5: what a session costs that was used once, and is idle again."""
    return Figure("W5", "1M sessions used once", "", _in_a_process("idle", n), 0, "bytes")


def waiting_runs(n: int) -> Figure:
    """W6: what a run costs that waits in line, with the handle on it."""
    return Figure("W6", "1M runs wait in one line", "", _in_a_process("waiting", n), 400, "bytes")


if __name__ == "__main__":
    print(asyncio.run(_MEASURES[sys.argv[1]](int(sys.argv[2]))))
