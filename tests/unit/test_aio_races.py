"""Cancels that come at a bad moment (races 1 to 5, 10, 12, 34), through the asyncio scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import CancelReceipt, Cause, RunEnded, RunState, Scheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sessionsched import Run, RunHandle

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)

#: More turns of the loop than anything below takes.
TURNS = 12

WAYS_TO_CANCEL: dict[str, Callable[[Scheduler[str, str], str], object]] = {
    "the session": lambda scheduler, _: scheduler.cancel("chat"),
    "the run": lambda scheduler, run_id: scheduler.cancel_run(run_id),
    "everything": lambda scheduler, _: scheduler.cancel_all(),
}


# --- 1: between accept and the first step ---


@pytest.mark.contract("X1", "X7", "A3")
@pytest.mark.parametrize("way", WAYS_TO_CANCEL)
async def test_race_01_a_cancel_between_accept_and_ready_is_not_lost(way: str) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        ticket = scheduler.accept("chat", "a")
        assert WAYS_TO_CANCEL[way](scheduler, ticket.run_id)
        assert not ticket.ready()
        assert await ends(ticket.handle) == [CANCELED]
    assert agent.log == []


@pytest.mark.contract("X1", "X7")
@pytest.mark.parametrize("way", WAYS_TO_CANCEL)
async def test_race_01_a_cancel_in_the_same_tick_as_the_submit_is_not_lost(way: str) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        assert WAYS_TO_CANCEL[way](scheduler, handle.run_id)
        assert await ends(handle) == [CANCELED]
        agent.finish("b")
        assert await scheduler.submit("chat", "b") == "b done"
    assert agent.started == ["b"]


@pytest.mark.contract("X1", "X7", "X11")
@pytest.mark.parametrize("turns", range(TURNS))
@pytest.mark.parametrize("prepared_in", [None, 0, 3])
async def test_race_01_a_cancel_is_not_lost_at_any_turn_between_submit_and_active(
    turns: int, prepared_in: int | None
) -> None:
    agent = Agent()

    async def prepare(_run: Run[str]) -> None:
        await quiet(prepared_in or 0)

    hook = None if prepared_in is None else prepare
    async with Scheduler(agent, prepare=hook) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet(turns)
        assert scheduler.cancel("chat").covered == (handle.run,)
        assert await ends(handle) == [CANCELED]


async def test_race_01_the_turns_above_reach_from_not_prepared_to_active() -> None:
    agent, seen = Agent(), set()

    async def prepare(_run: Run[str]) -> None:
        await quiet(3)

    async with Scheduler(agent, prepare=prepare) as scheduler:
        handle = scheduler.submit("chat", "a")
        for _ in range(TURNS):
            seen.add((handle.state, agent.started == ["a"]))
            await asyncio.sleep(0)
    assert seen == {
        (RunState.ACCEPTED, False),
        (RunState.ACTIVE, False),
        (RunState.ACTIVE, True),
    }


# --- 2, 3: cancels that find less than they could ---


@pytest.mark.contract("X2", "X4")
@pytest.mark.parametrize("cancels", [1, 2, 5])
async def test_race_02_cancels_are_not_counted_the_prompt_after_them_pays_for_none(
    cancels: int,
) -> None:
    agent = Agent()
    agent.finish("b")
    async with Scheduler(agent) as scheduler:
        ticket = scheduler.accept("chat", "a")
        for _ in range(cancels):
            scheduler.cancel("chat")
        later = scheduler.submit("chat", "b")
        ticket.ready()
        assert await ends(ticket.handle, later) == [CANCELED, COMPLETED]
    assert agent.started == ["b"]


@pytest.mark.contract("X2", "X4")
async def test_race_02_cancels_that_pile_up_while_a_run_unwinds_do_not_hit_the_next_one() -> None:
    agent = Agent()
    agent.finish("b")
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a")
        await quiet()
        receipts = [scheduler.cancel("chat") for _ in range(3)]
        later = scheduler.submit("chat", "b")
        assert [bool(receipt) for receipt in receipts] == [True, False, False]
        assert await ends(first, later) == [CANCELED, COMPLETED]
    assert agent.log.count("stop a") == 1


@pytest.mark.contract("X3", "X2")
@pytest.mark.parametrize("used_before", [False, True])
async def test_race_03_a_cancel_on_an_idle_session_does_not_hit_the_next_prompt(
    *, used_before: bool
) -> None:
    agent = Agent()
    agent.finish("a", "b")
    async with Scheduler(agent) as scheduler:
        if used_before:
            await scheduler.submit("chat", "a")
        assert scheduler.cancel("chat") == CancelReceipt("chat")
        assert not scheduler.cancel_all()
        assert await scheduler.submit("chat", "b") == "b done"


@pytest.mark.contract("X3", "X2", "X11")
async def test_race_03_a_cancel_just_before_or_after_the_end_does_not_hit_the_next_prompt() -> None:
    missed = set()
    for turns in range(TURNS):
        agent = Agent()
        agent.finish("b")
        async with Scheduler(agent) as scheduler:
            first = scheduler.submit("chat", "a")
            await quiet()
            agent.finish("a")
            await quiet(turns)
            receipt = scheduler.cancel("chat")
            missed.add(not receipt)
            later = scheduler.submit("chat", "b")
            assert await ends(first, later) == [CANCELED if receipt else COMPLETED, COMPLETED]
    assert missed == {True, False}


# --- 4, 5: the mark ---


@pytest.mark.contract("X1", "X7")
async def test_race_04_what_was_covered_stays_so_when_the_first_of_it_is_through() -> None:
    agent = Agent()
    agent.finish("e")
    async with Scheduler(agent) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        ticket = scheduler.accept("chat", "c")
        last = scheduler.submit("chat", "d")
        await quiet()
        scheduler.cancel("chat")
        assert await ends(first) == [CANCELED]
        later = scheduler.submit("chat", "e")
        ticket.ready()
        assert await ends(second, ticket.handle, last) == [CANCELED] * 3
        assert await later == "e done"
    assert agent.started == ["a", "e"]


@pytest.mark.contract("X1", "X2", "X5", "X11")
@pytest.mark.parametrize("fence", [*range(4), None, 99])
async def test_race_05_the_mark_is_at_the_newest_accepted_run_or_at_the_fence(
    fence: int | None,
) -> None:
    agent = Agent()
    agent.finish("d")
    async with Scheduler(agent) as scheduler:
        early = [scheduler.submit("chat", prompt) for prompt in "abc"]
        await quiet()
        receipt = scheduler.cancel("chat", up_to=fence)
        late = scheduler.submit("chat", "d")
        limit = 3 if fence is None else min(fence, 3)
        assert (receipt.mark, [run.seq for run in receipt.covered]) == (
            limit,
            list(range(1, limit + 1)),
        )
        agent.finish(*"abc"[limit:])
        expected = [CANCELED if it.seq <= limit else COMPLETED for it in [*early, late]]
        assert await ends(*early, late) == expected


# --- 10: between two runs ---


@pytest.mark.contract("X1", "X7", "X11", "D4")
async def test_race_10_no_cancel_is_lost_at_any_turn_between_two_runs() -> None:
    found = set()
    for turns in range(TURNS):
        agent = Agent()
        async with Scheduler(agent) as scheduler:
            first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
            await quiet()
            agent.finish("a")
            await quiet(turns)
            found.add((second.state, "b" in agent.started))
            receipt = scheduler.cancel("chat")
            assert second.run in receipt.covered
            how = CANCELED if first.run in receipt.covered else COMPLETED
            assert await ends(first, second) == [how, CANCELED]
    assert found == {
        (RunState.QUEUED, False),  # a is not over
        (RunState.ACTIVE, False),  # b's handler is about to be called
        (RunState.ACTIVE, True),
    }


async def _waiter(scheduler: Scheduler[str, str], first: RunHandle[str, str]) -> None:
    await first.outcome()
    scheduler.cancel("chat")


async def _subscriber(scheduler: Scheduler[str, str], first: RunHandle[str, str]) -> None:
    async with scheduler.subscribe(run_id=first.run_id) as events:
        async for event in events:
            if isinstance(event, RunEnded):
                scheduler.cancel("chat")


async def _done_callback(scheduler: Scheduler[str, str], first: RunHandle[str, str]) -> None:
    waiter = asyncio.create_task(first.outcome())
    waiter.add_done_callback(lambda _: scheduler.cancel("chat"))
    await waiter


@pytest.mark.contract("X1")
@pytest.mark.parametrize("canceler", [_waiter, _subscriber, _done_callback])
async def test_race_10_who_hears_of_the_end_of_a_run_can_cancel_the_next_one(
    canceler: Callable[..., Coroutine[Any, Any, None]],
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        canceling = asyncio.create_task(canceler(scheduler, first))
        await quiet()
        agent.finish("a")
        assert await ends(first, second) == [COMPLETED, CANCELED]
        await canceling


@pytest.mark.contract("X1", "X6")
async def test_race_10_a_handler_that_cancels_on_its_way_out_cancels_what_waits_behind_it() -> None:
    async def handler(run: Run[str]) -> str:
        try:
            await asyncio.sleep(1)
            return run.prompt
        finally:
            scheduler.cancel("chat")

    async with Scheduler(handler) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        assert await ends(first, second) == [CANCELED, CANCELED]
        assert not (await second.outcome()).started


@pytest.mark.contract("X1", "X7", "P1")
async def test_race_10_a_cancel_out_of_on_dropped_covers_what_was_to_start_after_it() -> None:
    agent, dropped = Agent(), []

    async def on_dropped(run: Run[str]) -> None:
        dropped.append(run.prompt)
        if run.prompt == "b":
            await quiet()  # until a is over
            assert scheduler.cancel("chat").dropped == (third.run,)

    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        first, second, third = (scheduler.submit("chat", prompt) for prompt in "abc")
        await quiet()
        second.cancel()
        agent.finish("a")
        assert await ends(first, second, third) == [COMPLETED, CANCELED, CANCELED]
    assert (agent.started, dropped) == (["a"], ["b", "c"])


# --- 12: what a run leaves behind ---


@pytest.mark.contract("X8", "X1")
async def test_race_12_the_grace_of_a_canceled_run_strikes_nobody_after_it() -> None:
    agent = Agent()
    async with Scheduler(agent, grace=5.0) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        first.cancel()
        assert await ends(first) == [CANCELED]
        async with watching(scheduler) as watch:
            await asyncio.sleep(20)  # four times the grace of a
            assert watch.lines() == ["RunStarted run-2"]
            assert scheduler.cancel("chat").active is second.run
            assert await ends(second) == [CANCELED]
    assert agent.log == ["start a", "stop a", "over a", "start b", "stop b", "over b"]


@pytest.mark.contract("X8", "D1")
async def test_race_12_an_abandoned_handler_that_ends_later_takes_nothing_from_the_next_run() -> (
    None
):
    log = []
    release = asyncio.Event()

    async def handler(run: Run[str]) -> str:
        while run.prompt == "a" and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                log.append(f"{run.prompt} goes on")
        try:
            await asyncio.sleep(0 if run.prompt == "a" else 100)
        finally:
            log.append(f"{run.prompt} over")
        return run.prompt

    async with Scheduler(handler, grace=1.0, abandon_after=2.0) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        first.cancel()
        outcome = await first.outcome()
        assert (outcome.abandoned, outcome.cause) == (True, Cause.INTERRUPT)
        release.set()
        await quiet()
        assert log[-1] == "a over"
        assert scheduler.session("chat").active is second.run
        assert scheduler.cancel("chat").active is second.run
        assert await ends(second) == [CANCELED]
    assert log[-1] == "b over"


# --- 34: cancels that come late ---


@pytest.mark.contract("X5", "X2")
async def test_race_34_a_cancel_that_was_late_in_the_network_does_not_hit_the_newer_prompt() -> (
    None
):
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        old = scheduler.submit("chat", "old")
        await quiet()
        agent.finish("old")
        await old
        new = scheduler.submit("chat", "new")
        behind = scheduler.submit("chat", "behind", when_busy=WhenBusy.FOLD)
        await quiet()
        receipt = scheduler.cancel("chat", up_to=old.seq)
        assert not receipt
        assert receipt.kept == (new.run, behind.run)
        assert not scheduler.cancel_run(old.run_id)
        assert not old.cancel()
        agent.finish("new", "behind")
        assert await ends(new, behind) == [COMPLETED, COMPLETED]
