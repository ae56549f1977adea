"""Where asyncio bites a scheduler, 11, 12, 16 and 22: loops that are torn down, or busy."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import Cause, RunState, RunStuck, Scheduler, SchedulerClosed, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import CancelReceipt, Outcome, Run, RunHandle

AnswerT = TypeVar("AnswerT")


async def for_ever(run: object = None) -> None:
    await asyncio.Event().wait()


def in_a_thread(call: Callable[[], AnswerT]) -> AnswerT:
    """Call it in another thread, and block this one until that is done."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=60)


def outcome_of(handle: RunHandle[Any, Any]) -> Outcome[Any]:
    """How it ended; it has done so."""
    assert handle.run.ended is not None, "it has not ended"
    return handle.run.ended


def end_of(handle: RunHandle[Any, Any]) -> tuple[Status, Cause | None]:
    return outcome_of(handle).status, outcome_of(handle).cause


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Tasks that are lost complain when they are collected: let them do so in their own test."""
    yield
    gc.collect()


# --- 11: SystemExit and KeyboardInterrupt tear the loop down ---


@pytest.mark.contract("T1", "S8")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("inside", [True, False], ids=["async with", "bare"])
def test_pitfall_11_a_run_whose_handler_tears_the_loop_down_has_ended_when_that_surfaces(
    error: type[BaseException], *, inside: bool
) -> None:
    handles: list[RunHandle[str, None]] = []

    async def handler(run: Run[str]) -> None:
        await asyncio.sleep(0)
        raise error

    async def main() -> None:
        scheduler = Scheduler(handler)
        async with scheduler if inside else contextlib.nullcontext():
            handles.append(scheduler.submit("chat", "a"))
            await for_ever()

    with pytest.raises(error):
        asyncio.run(main())
    assert end_of(handles[0]) == (Status.FAILED, None)
    assert isinstance(outcome_of(handles[0]).error, error)


@pytest.mark.contract("T1")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_pitfall_11_it_has_ended_also_where_nobody_runs_the_loop_any_further(
    error: type[BaseException],
) -> None:
    async def handler(run: Run[str]) -> None:
        raise error

    async def main() -> None:
        handles.append(Scheduler(handler).submit("chat", "a"))
        await handles[0].outcome()

    handles: list[RunHandle[str, None]] = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    with pytest.raises(error):
        loop.run_until_complete(task)
    ended = handles[0].run.ended is not None
    loop.run_until_complete(task)
    loop.close()
    assert ended


@pytest.mark.contract("S2", "S3", "S8")
def test_pitfall_11_then_everything_else_is_suspended_and_the_scheduler_closed() -> None:
    schedulers: list[Scheduler[str, str]] = []
    handles: list[RunHandle[str, str]] = []
    agent = Agent()

    async def handler(run: Run[str]) -> str:
        if run.prompt == "exit":
            raise SystemExit(3)
        return await agent(run)

    async def main() -> None:
        async with Scheduler(handler) as scheduler:
            schedulers.append(scheduler)
            handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
            await quiet()
            handles.append(scheduler.submit("another chat", "exit"))
            await for_ever()

    with pytest.raises(SystemExit) as caught:
        asyncio.run(main())
    assert caught.value.code == 3
    assert [outcome_of(it).status for it in handles] == ["suspended", "suspended", "failed"]
    assert agent.started == ["a"]
    with pytest.raises(SchedulerClosed):
        schedulers[0].submit("chat", "too late")


@pytest.mark.contract("T1", "X6")
def test_pitfall_11_a_covered_run_that_exits_is_canceled_and_keeps_the_error() -> None:
    handles: list[RunHandle[str, None]] = []

    async def handler(run: Run[str]) -> None:
        try:
            await for_ever()
        finally:
            raise SystemExit(1)

    async def main() -> None:
        async with Scheduler(handler) as scheduler:
            handles.append(scheduler.submit("chat", "a"))
            await quiet()
            scheduler.cancel("chat")
            await for_ever()

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert end_of(handles[0]) == (Status.CANCELED, Cause.INTERRUPT)
    assert isinstance(outcome_of(handles[0]).error, SystemExit)


@pytest.mark.contract("S8")
def test_pitfall_11_a_turn_that_exits_has_ended_when_that_surfaces() -> None:
    runs: list[Run[str]] = []

    async def main() -> None:
        async with (
            Scheduler[str, None](for_ever) as scheduler,
            scheduler.turn("chat", "a") as run,
        ):
            runs.append(run)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert runs[0].ended is not None
    assert runs[0].ended.status is Status.FAILED


@pytest.fixture
def _ctrl_c() -> Iterator[None]:
    """Ctrl-C as in a terminal, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.contract("S8", "S2", "S3")
def test_pitfall_11_ctrl_c_closes_the_scheduler_before_it_surfaces() -> None:
    handles: list[RunHandle[str, str]] = []
    agent = Agent()

    async def main() -> None:
        async with Scheduler(agent) as scheduler:
            handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
            await quiet()
            signal.raise_signal(signal.SIGINT)
            await for_ever()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert [end_of(it) for it in handles] == [(Status.SUSPENDED, Cause.SHUTDOWN)] * 2
    assert agent.log == ["start a", "stop a", "over a"]


# --- 12: asyncio.run cancels all tasks at exit ---


@pytest.mark.contract("X13")
def test_pitfall_12_what_the_teardown_of_the_loop_stops_is_suspended_and_not_canceled() -> None:
    handles: list[RunHandle[str, str]] = []

    async def main() -> None:
        scheduler = Scheduler(Agent())
        handles.extend(scheduler.submit(prompt, prompt) for prompt in ["a", "b"])
        await quiet()
        scheduler.cancel("b")

    asyncio.run(main())
    assert end_of(handles[0]) == (Status.SUSPENDED, Cause.EXTERNAL)
    assert end_of(handles[1]) == (Status.CANCELED, Cause.INTERRUPT), "somebody had asked for it"


@pytest.mark.contract("X13")
def test_pitfall_12_so_is_a_turn() -> None:
    runs: list[Run[str]] = []
    hosts: list[asyncio.Task[None]] = []

    async def host(scheduler: Scheduler[str, str]) -> None:
        async with scheduler.turn("chat", "a") as run:
            runs.append(run)
            await for_ever()

    async def main() -> None:
        hosts.append(asyncio.create_task(host(Scheduler(Agent()))))
        await quiet()

    asyncio.run(main())
    assert hosts[0].cancelled()
    assert [(it.ended.status, it.ended.cause) for it in runs if it.ended is not None] == [
        (Status.SUSPENDED, Cause.EXTERNAL)
    ]


@pytest.mark.contract("X13", "S8", "T1")
@pytest.mark.parametrize("inside", [True, False], ids=["async with", "bare"])
def test_pitfall_12_nothing_that_was_accepted_is_left_without_an_end_by_the_teardown(
    *, inside: bool
) -> None:
    handles: list[RunHandle[str, str]] = []
    hosting: list[asyncio.Task[None]] = []
    agent = Agent()

    async def host() -> None:
        scheduler = Scheduler(agent)
        async with scheduler if inside else contextlib.nullcontext():
            handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
            await for_ever()

    async def main() -> None:
        hosting.append(asyncio.create_task(host()))
        await quiet()

    asyncio.run(main())
    assert [outcome_of(it).status for it in handles] == [Status.SUSPENDED] * 2


@pytest.mark.contract("S8")
async def test_pitfall_12_cancels_that_strike_while_the_block_closes_leave_nothing_behind() -> None:
    handles: list[RunHandle[str, None]] = []

    async def handler(run: Run[str]) -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(3)

    async def host() -> None:
        async with Scheduler(handler) as scheduler:
            handles.append(scheduler.submit("chat", "a"))
            await for_ever()

    hosting = asyncio.create_task(host())
    await quiet()
    for _ in range(3):
        hosting.cancel()
        await asyncio.sleep(0.5)
    assert not hosting.done()
    await asyncio.wait([hosting])
    assert hosting.cancelled()
    assert end_of(handles[0]) == (Status.SUSPENDED, Cause.SHUTDOWN)


# --- 16 and 22: a busy loop ---


@pytest.mark.real_loop
@pytest.mark.contract("X6", "X11")
async def test_pitfall_16_a_handler_that_never_yields_is_canceled_and_keeps_what_it_returns() -> (
    None
):
    receipts: list[CancelReceipt[str]] = []

    async def handler(run: Run[str]) -> str:
        receipts.append(in_a_thread(lambda: scheduler.cancel("chat")))
        return f"covered: {run.canceled}"

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        assert await ends(handle) == [("canceled", "interrupt")]
        assert [it.active for it in receipts] == [handle.run]
        assert outcome_of(handle).result == "covered: True"


@pytest.mark.real_loop
@pytest.mark.contract("X8")
async def test_pitfall_16_a_handler_that_blocked_the_loop_is_stuck_as_soon_as_that_is_free() -> (
    None
):
    async def handler(run: Run[str]) -> None:
        in_a_thread(lambda: scheduler.cancel("chat"))  # takes longer than the grace
        with contextlib.suppress(asyncio.CancelledError):
            await for_ever()
        await for_ever()

    async with Scheduler(handler, grace=1e-9) as scheduler, watching(scheduler) as watch:
        assert await ends(scheduler.submit("chat", "a")) == [("canceled", "interrupt")]
        await quiet()
        assert [it.told for it in watch.of(RunStuck)][:1] == [1]


@pytest.mark.real_loop
@pytest.mark.contract("R4", "X1", "X2", "X11", "A1")
async def test_pitfall_22_a_cancel_from_another_thread_is_final_however_busy_the_loop_is() -> None:
    agent = Agent()
    seen: list[RunState] = []

    def cancel_and_go_on() -> tuple[CancelReceipt[str], RunHandle[str, str]]:
        receipt = scheduler.cancel("chat")
        later = scheduler.submit("chat", "later")
        seen.extend(it.state for it in (*handles, later))
        return receipt, later

    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        await quiet()
        agent.finish("a", "later")  # too late: the loop does not get to it before the cancel
        receipt, later = in_a_thread(cancel_and_go_on)
        assert receipt.covered == tuple(it.run for it in handles)
        assert (receipt.mark, receipt.kept) == (handles[-1].seq, ())
        assert seen == [RunState.ACTIVE, RunState.ENDING, RunState.QUEUED]
        assert await ends(*handles, later) == [
            ("canceled", "interrupt"), ("canceled", "interrupt"), ("completed", None),
        ]  # fmt: skip
        assert agent.started == ["a", "later"]
