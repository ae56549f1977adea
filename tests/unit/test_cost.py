"""What a run costs, without a clock: Python calls, bytes, and what is left behind.

A benchmark tells how fast the scheduler is; these tell, on any machine and in a second, that a
change has made it slower. Each count is exact: the same code on the same Python gives the same.

When a ceiling is broken: the message says the present count. If the change is worth its price, set
the ceiling a little (two calls, ten bytes) above the highest count of the Pythons that we support,
and say in the commit what the price buys. When a change makes runs cheaper, lower it likewise.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

import pytest
from thread_tools import until

from sessionsched import Limits, Run, RunEnded, Scheduler, ThreadRun, ThreadScheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

#: Python calls of one run, beyond those of a task that does the same: submit, accept, start, call
#: the handler, finish. W2 and W7 add a waiter for each run, who goes on in that turn of the loop.
CALLS: Final = {"W1": 26.5, "W2": 37.5, "W7": 25.5}

#: Python calls of one run more when somebody watches, who reads each of its four events.
CALLS_WATCHED: Final = 16.5

#: Bytes of a run that waits, with its handle and its seq; its submitter has no context variables.
BYTES_WAITING: Final = 314.0

RUNS: Final = 1000

#: They refer to each other: one pair for each reader, however many runs it reads about.
READERS: Final = {"Subscription", "Mailbox"}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Let reference counts do everything, and nobody be called in between."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def nothing(_run: Run[int]) -> None:
    pass


async def nothing_at_all() -> None:
    pass


# --- calls ---


async def over_sessions(runs: int) -> None:
    async with Scheduler(nothing) as scheduler:
        handles = [scheduler.submit(f"session-{i % (runs // 10)}", i) for i in range(runs)]
        for handle in handles:
            await handle.outcome()


async def in_one_line(runs: int) -> None:
    async with Scheduler(nothing, limits=Limits(max_waiting=runs)) as scheduler:
        handles = [scheduler.submit("session", i) for i in range(runs)]
        for handle in handles:
            await handle.outcome()


async def round_trips(runs: int) -> None:
    async with Scheduler(nothing) as scheduler:
        for i in range(runs):
            await scheduler.submit("session", i).outcome()


async def tasks(runs: int) -> None:
    for task in [asyncio.create_task(nothing_at_all()) for _ in range(runs)]:
        await task


async def tasks_one_by_one(runs: int) -> None:
    for _ in range(runs):
        await asyncio.create_task(nothing_at_all())


def calls_of(work: Callable[[int], Awaitable[None]], runs: int) -> int:
    """Count the Python functions that are called, and coroutines that go on, until all is done."""
    calls = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def main() -> None:
        sys.setprofile(note)
        try:
            await work(runs)
        finally:
            sys.setprofile(None)

    asyncio.run(main())
    return calls


def calls_per_run(work: Callable[[int], Awaitable[None]]) -> float:
    """Count for two numbers of runs: what is left is what each run adds, and nothing else."""
    return (calls_of(work, 2 * RUNS) - calls_of(work, RUNS)) / RUNS


@pytest.mark.contract("R2")
@pytest.mark.parametrize(
    ("name", "work", "base"),
    [
        ("W1", over_sessions, tasks),
        ("W2", in_one_line, tasks),
        ("W7", round_trips, tasks_one_by_one),
    ],
)
def test_a_run_takes_no_more_calls_than_it_did(
    name: str,
    work: Callable[[int], Awaitable[None]],
    base: Callable[[int], Awaitable[None]],
) -> None:
    extra = calls_per_run(work) - calls_per_run(base)
    assert extra <= CALLS[name], f"{name}: {extra:.1f} calls per run"


async def watched(runs: int) -> None:
    async with Scheduler(nothing) as scheduler, scheduler.subscribe(buffer=9 * RUNS) as events:
        for i in range(runs):
            scheduler.submit(f"session-{i % (runs // 10)}", i)
        left = runs
        async for event in events:
            left -= isinstance(event, RunEnded)
            if not left:
                return


@pytest.mark.contract("T5")
def test_a_reader_takes_no_more_calls_than_it_did() -> None:
    extra = calls_per_run(watched) - calls_per_run(over_sessions)
    assert extra <= CALLS_WATCHED, f"{extra:.1f} calls per run"


# --- bytes ---


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("_traced")
def test_a_run_that_waits_takes_no_more_bytes_than_it_did() -> None:
    async def for_ever(_run: Run[None]) -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> float:
        async with Scheduler(for_ever, limits=Limits(max_waiting=3 * RUNS)) as scheduler:
            kept = [scheduler.submit("session", None) for _ in range(RUNS)]
            before = held()
            kept += [scheduler.submit("session", None) for _ in range(RUNS)]
            return (held() - before) / RUNS

    each = Context().run(asyncio.run, main())
    assert each <= BYTES_WAITING, f"{each:.0f} bytes per waiting run"


@pytest.mark.contract("R1")
@pytest.mark.usefixtures("_traced")
def test_sessions_that_are_idle_again_leave_no_byte_behind() -> None:
    async def main() -> list[int]:
        async with Scheduler(nothing) as scheduler:
            left = []
            for batch in range(4):
                for i in range(RUNS // 2):
                    await scheduler.submit(f"session-{batch}-{i}", i).outcome()
                left.append(held())
            return left

    left = asyncio.run(main())
    assert left[3] - left[1] < RUNS // 2, left  # less than half a byte for each of them


@pytest.mark.contract("X3")
def test_a_hundred_thousand_cancels_on_idle_sessions_leave_no_allocation_behind() -> None:
    async def main() -> int:
        async with Scheduler(nothing) as scheduler:
            for i in range(RUNS):
                scheduler.cancel(f"session-{i}")
            before = sys.getallocatedblocks()  # exact, and unlike a trace it costs nothing
            for i in range(100 * RUNS):
                scheduler.cancel(f"session-{i}")
            return sys.getallocatedblocks() - before

    assert asyncio.run(main()) < RUNS / 10


# --- nothing of a run that has ended is part of a cycle ---


def ours_and_tasks() -> Counter[str]:
    """Count what is alive: everything of our own types, tasks and futures."""
    kinds = Counter(type(thing) for thing in gc.get_objects())
    return Counter(
        {
            kind.__qualname__: count
            for kind, count in kinds.items()
            if (kind.__module__.startswith("sessionsched") and kind.__qualname__ not in READERS)
            or issubclass(kind, asyncio.Future)
        }
    )


async def handler(run: Run[str]) -> str:
    """Do what the prompt says."""
    match run.prompt:
        case "raise":
            raise ValueError(run.prompt)
        case "stay":
            await asyncio.get_running_loop().create_future()
        case "take":
            await asyncio.sleep(0)
            run.take_follow_ups()
    return run.prompt


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def complete(scheduler: Scheduler[str, str]) -> None:
    for handle in [scheduler.submit("session", "return") for _ in range(3)]:
        await handle.outcome()


async def cancel(scheduler: Scheduler[str, str]) -> None:
    handles = [scheduler.submit("session", "stay") for _ in range(3)]
    await settle()
    scheduler.cancel("session")
    for handle in handles:
        await handle.outcome()


async def supersede(scheduler: Scheduler[str, str]) -> None:
    handles = [scheduler.submit("session", "stay") for _ in range(3)]
    await settle()
    last = scheduler.submit("session", "return", when_busy=WhenBusy.INTERRUPT)
    for handle in (*handles, last):
        await handle.outcome()


async def fold(scheduler: Scheduler[str, str]) -> None:
    first = scheduler.submit("session", "take")
    follow_up = scheduler.submit("session", "more", when_busy=WhenBusy.FOLD)
    assert (await follow_up.outcome()).folded_into == first.run_id


async def be_late(scheduler: Scheduler[str, str]) -> None:
    await scheduler.submit("session", "stay", deadline=0.0).outcome()


async def give_back(scheduler: Scheduler[str, str]) -> None:
    with scheduler.accept("session", "return") as ticket:
        pass
    await ticket.handle.outcome()


async def take_a_turn(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.turn("session", "mine"):
        pass


async def fail(scheduler: Scheduler[str, str]) -> None:
    """Fail, and let the traceback go: its frames refer to the run, which refers to the error."""
    outcome = await scheduler.submit("session", "raise").outcome()
    assert outcome.error is not None
    outcome.error.__traceback__ = None


async def watch(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.subscribe() as events:
        handle = scheduler.submit("session", "return")
        await handle.outcome()
        async for event in events:
            if isinstance(event, RunEnded):
                break


LIVES: Final = [
    complete, cancel, supersede, fold, be_late, give_back, take_a_turn, fail, watch,
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_what_has_ended_dies_by_reference_counting_alone(
    life: Callable[[Scheduler[str, str]], Awaitable[None]],
) -> None:
    async def main() -> Counter[str]:
        async with Scheduler(handler) as scheduler:
            await life(scheduler)
            await settle()
            before = ours_and_tasks()
            for _ in range(3):
                await life(scheduler)
                await settle()
            return ours_and_tasks() - before

    assert asyncio.run(main()) == Counter()


def at_rest(scheduler: ThreadScheduler[str, str]) -> None:
    """Wait until the thread of the handler has let go of its last run, and waits for the next."""
    pool = scheduler._driver.handlers
    until(lambda: pool.pending == 0)


def test_what_has_ended_on_threads_dies_by_reference_counting_alone() -> None:
    def plain(run: ThreadRun[str]) -> str:
        return run.prompt

    def life(scheduler: ThreadScheduler[str, str]) -> None:
        for handle in [scheduler.submit("session", "return") for _ in range(3)]:
            handle.outcome()

    with ThreadScheduler(plain, threads=1) as scheduler:
        life(scheduler)
        at_rest(scheduler)
        before = ours_and_tasks()
        for _ in range(3):
            life(scheduler)
        at_rest(scheduler)
        left = ours_and_tasks() - before
    assert left == Counter()


def test_a_cycle_would_be_seen() -> None:
    async def main() -> Counter[str]:
        async with Scheduler(handler) as scheduler:
            before = ours_and_tasks()
            handle: Any = scheduler.submit("session", "raise")
            assert (await handle.outcome()).error is not None
            del handle
            await settle()
            return ours_and_tasks() - before

    assert asyncio.run(main())["AioRun"] == 1  # by way of the traceback: see `fail`
