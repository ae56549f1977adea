"""A cancel while a step is stored, and cancels that others send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import ends, quiet
from scripted import DONE, Host, Script, call, flat, tool

from sessionsched import Cause, RunCanceled, RunStuck, Scheduler, Status
from sessionsched.steps import (
    Said,
    Text,
    run_steps,
)

if TYPE_CHECKING:
    from scripted import Item

    from sessionsched import Run, RunHandle
    from sessionsched.steps import StepsResult

CANCELED = ("canceled", "interrupt")


async def slow(run: Run[str]) -> str:
    await asyncio.sleep(10)
    return "slow"


SLOW = tool(slow)

# --- while it is stored ---


async def test_a_partial_step_is_stored_out_of_reach_of_cancels_that_come_again() -> None:
    host = Host(Script([Text("a"), 100, DONE]), grace=1.0)
    host.persist_s = 4.5
    async with host.open() as (scheduler, watch):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(10)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 14.5)
        assert len(watch.of(RunStuck)) == 4
    assert flat(*host.stored) == ["text: a"]


async def test_storing_a_partial_step_is_bounded_and_says_so_when_it_takes_too_long() -> None:
    host = Host(Script([Text("a"), 100, DONE]), grace=1.0)
    host.persist_s = 5.5
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(10)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.cause, outcome.ended_at) == (
            Status.CANCELED, Cause.INTERRUPT, 15,
        )  # fmt: skip
        assert isinstance(outcome.error, TimeoutError)
    assert (len(host.given), host.stored) == (1, [])


async def test_the_bound_counts_from_the_cancel_and_not_from_the_beginning() -> None:
    host = Host(Script([call("1", "nothing"), DONE]))
    host.persist_s = 20
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(16)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.error, outcome.ended_at) == (None, 20)
    assert len(host.stored) == 1


@pytest.mark.contract("X6")
async def test_an_error_while_a_partial_step_is_stored_is_kept_in_the_outcome() -> None:
    host = Host(Script([Text("a"), 100, DONE]))
    host.persist_error = OSError("the disk is full")
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(10)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
    assert (outcome.status, outcome.error) == (Status.CANCELED, host.persist_error)
    assert host.model.closed == 1


@pytest.mark.parametrize(
    ("why", "end"), [("close", ("completed", None)), ("cancel", CANCELED)], ids=["close", "cancel"]
)
async def test_a_turn_whose_last_step_is_being_stored_comes_to_its_end(
    why: str, end: tuple[str, str | None]
) -> None:
    host = Host(Script([Text("a"), DONE]))
    host.persist_s = 2.0
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(1)
        await (scheduler.close() if why == "close" else quiet(0))
        scheduler.cancel("chat")
        assert await ends(handle) == [end]
        result = (await handle.outcome()).result
        assert result is not None
        assert result.text == "a"
    assert host.raised is None


async def test_a_cancel_that_came_while_the_last_step_was_stored_strikes_the_handler() -> None:
    host = Host(Script([Text("a"), DONE]))
    host.persist_s = 2.0
    counts = []

    async def handler(run: Run[str]) -> str:
        me = asyncio.current_task()
        assert me is not None
        await host.handle(run)
        counts.append(me.cancelling())
        await asyncio.sleep(1000)
        return "never"

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(1)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 2)
    assert counts == [1], "as many as were sent"


async def test_a_cancel_beside_an_error_of_persist_step_strikes_the_handler_too() -> None:
    host = Host(Script([Text("a"), DONE]))
    host.persist_s, host.persist_error = 2.0, OSError("no")

    async def handler(run: Run[str]) -> str:
        with pytest.raises(OSError, match="no"):
            await host.handle(run)
        await asyncio.sleep(1000)
        return "never"

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(1)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at, outcome.error) == (Status.CANCELED, 2, None)


# --- by others ---


@pytest.mark.contract("X13")
async def test_a_task_that_is_canceled_from_outside_stores_its_step_and_is_suspended() -> None:
    host = Host(Script([Text("a"), call("1", "slow"), DONE]), [SLOW])
    host.persist_s = 1.0
    tasks: list[asyncio.Task[Any] | None] = []

    async def handler(run: Run[str]) -> object:
        tasks.append(asyncio.current_task())
        return await host.handle(run)

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        (task,) = tasks
        assert task is not None
        task.cancel()
        assert await ends(handle) == [("suspended", "external")]
    assert host.stored[0].cause is Cause.EXTERNAL


async def test_a_timeout_around_a_turn_is_a_timeout_and_its_step_is_stored() -> None:
    host = Host(Script([Text("a"), 100, DONE]))

    async def handler(run: Run[str]) -> str:
        try:
            async with asyncio.timeout(10):
                await host.handle(run)
        except TimeoutError:
            await asyncio.sleep(1)  # it is not sent again: it was raised
            return "timeout"
        return "never"

    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "hi") == "timeout"
    assert (flat(*host.stored), host.stored[0].cause) == (["text: a"], Cause.EXTERNAL)


@pytest.mark.parametrize("seconds", [5, 11])
async def test_a_turn_in_the_host_s_own_task_is_canceled_like_a_run(seconds: float) -> None:
    host = Host(Script([Text("a"), 10, DONE]))
    host.persist_s = 2.0

    async def body() -> None:
        async with scheduler.turn("chat", "hi") as run:
            await host.handle(run)
            await asyncio.sleep(100)

    async with Scheduler(host.handle) as scheduler:
        me = asyncio.create_task(body())
        await asyncio.sleep(seconds)
        scheduler.cancel("chat")
        with pytest.raises(RunCanceled):
            await me
        assert me.cancelling() == 0
    assert flat(*host.stored) == ["text: a"]


async def test_a_run_that_is_covered_before_its_turn_begins_asks_nobody() -> None:
    host = Host(Script([DONE]))

    async def handler(run: Run[str]) -> object:
        scheduler.cancel("chat")
        return await host.handle(run)

    async with Scheduler(handler) as scheduler:
        assert await ends(scheduler.submit("chat", "hi")) == [CANCELED]
    assert host.model.requests == []


async def test_a_cancel_that_is_covered_but_never_delivered_is_raised_all_the_same() -> None:
    async def handler(run: Run[str]) -> object:
        scheduler.cancel("chat")
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            return await host.handle(run)  # swallowed it, and goes on
        return "never"

    host = Host(Script([DONE]))
    async with Scheduler(handler) as scheduler:
        outcome = await scheduler.submit("chat", "hi").outcome()
    assert (outcome.status, outcome.result, outcome.ended_at) == (Status.CANCELED, None, 1.0)
    assert host.model.requests == []


async def test_a_turn_that_is_thrown_away_does_not_wait() -> None:
    host = Host(Script([Text("a"), 5, DONE]))

    async def handler(run: Run[str]) -> str:
        turn = run_steps(
            run, model=host.model, history=[Said("hi")], persist_step=host.persist
        ).__await__()
        next(turn)
        turn.close()
        await asyncio.sleep(10)
        return "gone"

    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "hi") == "gone"
    assert host.stored == []


@pytest.mark.contract("X13")
@pytest.mark.parametrize("in_tool", [False, True])
def test_a_loop_that_is_torn_down_waits_until_the_step_is_stored(*, in_tool: bool) -> None:
    begun: list[object] = []

    async def endless(run: Run[str]) -> None:
        begun.append(run)
        await asyncio.Event().wait()

    async def silent() -> None:
        begun.append(None)
        await asyncio.Event().wait()

    line: list[Item] = [Text("a"), call("1", "endless"), DONE] if in_tool else [Text("a"), silent]
    host = Host(Script(line), [tool(endless)])

    async def main() -> RunHandle[str, StepsResult]:
        scheduler = Scheduler(host.handle)  # and nobody closes it
        handle = scheduler.submit("chat", "hi")
        while not begun:
            await quiet(1)
        return handle

    run = asyncio.run(main()).run
    assert run.ended is not None
    assert (run.ended.status, run.ended.cause) == (Status.SUSPENDED, Cause.EXTERNAL)
    (step,) = host.stored
    assert (step.text, step.cause) == ("a", Cause.EXTERNAL)
    assert len(step.results) == len(step.calls) == int(in_tool)
