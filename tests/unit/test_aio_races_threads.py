"""Races between real threads (races 1, 11, 13, 23, 25, 37), through the asyncio scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import pytest
from agents import Agent, ends, quiet
from driving import PATIENCE_S, elsewhere

from sessionsched import Limits, Scheduler, SchedulerClosed, Status, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import CancelReceipt, CloseReport, Run, RunHandle

AnswerT = TypeVar("AnswerT")

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")
MANY = Limits(max_waiting=100_000)


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


async def at_once(call: Callable[[int], AnswerT], threads: int = 4) -> list[AnswerT]:
    """Have something called by several threads at the same time, and give the answers."""
    barrier = threading.Barrier(threads)
    # Then it complains of whoever touches the loop from another thread.
    asyncio.get_running_loop().set_debug(True)

    def body(number: int) -> AnswerT:
        barrier.wait(PATIENCE_S)
        return call(number)

    async with asyncio.timeout(6 * PATIENCE_S):
        return await asyncio.gather(*(asyncio.to_thread(body, it) for it in range(threads)))


class Alone:
    """A handler that notes whether it ever was called twice at once for one session."""

    def __init__(self) -> None:
        self.busy: Counter[str] = Counter()
        self.most = 0
        self.calls: Counter[str] = Counter()

    async def __call__(self, run: Run[str]) -> str:
        self.calls[run.prompt] += 1
        self.busy[run.session_id] += 1
        self.most = max(self.most, self.busy[run.session_id])
        try:
            await asyncio.sleep(0)
            return run.prompt
        finally:
            self.busy[run.session_id] -= 1


@pytest.mark.real_loop
@pytest.mark.contract("X1", "X7", "R4")
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_race_01_a_cancel_from_another_thread_counts_from_the_call_on(turns: int) -> None:
    agent = Agent()
    agent.finish("b")
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a")
        await quiet(turns)
        receipt = elsewhere(lambda: scheduler.cancel("chat"))
        second = scheduler.submit("chat", "b")  # the loop has not heard of the cancel yet
        assert (receipt.active, first.run.canceled, second.run.canceled) == (first.run, True, False)
        assert await ends(first, second) == [CANCELED, COMPLETED]


@pytest.mark.real_loop
@pytest.mark.contract("X1", "X7", "X6")
async def test_race_01_a_thread_that_submits_and_cancels_has_canceled_before_any_step() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:

        def submit_and_cancel() -> tuple[RunHandle[str, str], CancelReceipt[str]]:
            return scheduler.submit("chat", "a"), scheduler.cancel("chat")

        handle, receipt = elsewhere(submit_and_cancel)
        assert receipt.active is handle.run
        assert await ends(handle) == [CANCELED]
    assert agent.log == []


@pytest.mark.real_loop
@pytest.mark.contract("D1", "A2", "R4")
async def test_race_11_threads_that_all_find_the_session_idle_start_one_run_at_a_time() -> None:
    alone = Alone()
    async with Scheduler(alone, limits=MANY) as scheduler:
        lists = await at_once(lambda _: [scheduler.submit("chat", "a") for _ in range(200)])
        handles = [handle for handles in lists for handle in handles]
        assert await ends(*handles) == [COMPLETED] * 800
    assert alone.most == 1
    assert all([it.seq for it in each] == sorted(it.seq for it in each) for each in lists)
    assert len({handle.seq for handle in handles}) == 800


@pytest.mark.real_loop
@pytest.mark.contract("X1", "X2", "X11", "T1", "R4")
@pytest.mark.parametrize("recorded", [False, True])
async def test_race_13_no_prompt_vanishes_while_threads_clear_the_line(*, recorded: bool) -> None:
    alone, dropped = Alone(), Counter[str]()

    async def on_dropped(run: Run[str]) -> None:
        dropped[run.prompt] += 1

    def hammer(number: int) -> tuple[list[RunHandle[str, str]], list[CancelReceipt[str]]]:
        handles, receipts = [], []
        for it in range(200):
            handles.append(scheduler.submit("chat", f"{number} {it}"))
            if it % 3 == number % 3 and it < 150:  # what comes after the last cancel completes
                receipts.append(scheduler.cancel("chat"))
        return handles, receipts

    hook = on_dropped if recorded else None
    async with Scheduler(alone, on_dropped=hook, limits=MANY) as scheduler:
        answers = await at_once(hammer)
        handles = [handle for handles, _ in answers for handle in handles]
        outcomes = {handle.run_id: await handle.outcome() for handle in handles}
    covered = Counter(run.run_id for _, all_ in answers for it in all_ for run in it.covered)
    assert set(covered.values()) == {1}  # each cancel names what it covered, and no other does
    canceled = {name for name, it in outcomes.items() if it.status is Status.CANCELED}
    assert canceled == set(covered)
    assert {it.status for name, it in outcomes.items() if name not in covered} == {Status.COMPLETED}
    assert alone.most == 1
    seen = alone.calls + dropped if recorded else alone.calls
    assert set(seen.values()) == {1}
    started = [handle.run.prompt for handle in handles if outcomes[handle.run_id].started]
    assert sorted(started) == sorted(alone.calls)
    assert not recorded or len(seen) == len(handles)


@pytest.mark.real_loop
@pytest.mark.contract("X14", "R4")
async def test_race_23_of_interrupting_prompts_from_many_threads_the_newest_one_runs() -> None:
    gate = asyncio.Event()

    async def handler(run: Run[str]) -> str:
        await gate.wait()
        return run.prompt

    async with Scheduler(handler, limits=MANY) as scheduler:
        lists = await at_once(
            lambda number: [
                scheduler.submit("chat", f"{number}", when_busy=WhenBusy.INTERRUPT)
                for _ in range(50)
            ]
        )
        gate.set()
        by_seq = sorted((it for each in lists for it in each), key=lambda it: it.seq)
        assert await ends(*by_seq) == [("canceled", "superseded")] * 199 + [COMPLETED]


# --- 25: prompts from threads around the close ---


@pytest.mark.real_loop
@pytest.mark.contract("S5", "S4", "T1", "R4")
async def test_race_25_what_threads_submit_around_the_close_is_refused_or_ends() -> None:
    for _ in range(20):
        alone = Alone()
        scheduler = Scheduler(alone, limits=MANY)
        going = threading.Barrier(4 + 1)

        def hammer(
            number: int,
            scheduler: Scheduler[str, str] = scheduler,
            going: threading.Barrier = going,
        ) -> list[RunHandle[str, str]]:
            going.wait(PATIENCE_S)
            handles: list[RunHandle[str, str]] = []
            with contextlib.suppress(SchedulerClosed):
                while len(handles) < 10_000:  # or for ever, if it were never refused
                    handles.append(scheduler.submit(f"chat {len(handles) % 5}", f"{number}"))
            return handles

        threads = [asyncio.create_task(asyncio.to_thread(hammer, it)) for it in range(4)]
        await asyncio.to_thread(going.wait, PATIENCE_S)
        async with asyncio.timeout(6 * PATIENCE_S):
            report = await scheduler.close()
            lists = await asyncio.gather(*threads)
        handles = [handle for each in lists for handle in each]
        assert all(handle.run.ended for handle in handles)
        suspended = {it.run for it in handles if (await ends(it)) == [SUSPENDED]}
        assert suspended == set(report.suspended)
        assert {handle.run.ended.status for handle in handles if handle.run.ended} <= {
            Status.COMPLETED,
            Status.SUSPENDED,
        }


class Slow(str):
    """A run id that takes its time to be looked up: the thread stands still inside of `submit`."""

    __slots__ = ("inside", "release")

    inside: threading.Event
    release: threading.Event

    def __hash__(self) -> int:
        self.inside.set()
        self.release.wait(PATIENCE_S)
        return super().__hash__()


@pytest.mark.real_loop
@pytest.mark.contract("S1", "S5", "R4")
async def test_race_25_a_submit_that_is_being_refused_does_not_keep_the_close_from_its_end() -> (
    None
):
    agent = Agent()
    scheduler = Scheduler(agent)
    handle = scheduler.submit("chat", "a")
    await quiet()
    closing: asyncio.Task[CloseReport[str]] = asyncio.create_task(scheduler.close(drain=PATIENCE_S))
    await quiet()
    run_id = Slow("slow")
    run_id.inside, run_id.release = threading.Event(), threading.Event()

    def submit() -> str:
        with pytest.raises(SchedulerClosed):
            scheduler.submit("other", "b", run_id=run_id)
        return "refused"

    refused = asyncio.create_task(asyncio.to_thread(submit))
    await asyncio.to_thread(run_id.inside.wait, PATIENCE_S)
    agent.finish("a")  # the last run ends while the other thread is inside of `submit`
    assert await ends(handle) == [COMPLETED]
    run_id.release.set()
    assert await refused == "refused"
    await quiet()
    done, _ = await asyncio.wait([closing], timeout=PATIENCE_S)
    closing.cancel()
    assert done, "nothing is in flight, and the close still waits"


@pytest.mark.real_loop
@pytest.mark.contract("A5", "R4")
async def test_race_37_a_submit_that_many_threads_retry_runs_once() -> None:
    alone = Alone()
    async with Scheduler(alone, limits=MANY) as scheduler:
        lists = await at_once(
            lambda _: [
                scheduler.submit("chat", f"{it // 2}", run_id=f"{it // 2}") for it in range(200)
            ]
        )
        handles = [handle for each in lists for handle in each]
        assert await ends(*handles) == [COMPLETED] * 800
    assert alone.calls == Counter({f"{it}": 1 for it in range(100)})
    assert len({handle.seq for handle in handles}) == 100
