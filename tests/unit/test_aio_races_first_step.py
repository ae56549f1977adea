"""Every prompt is seen by its handler or by on_dropped, never by both, never by neither.

A task that is canceled before its first step never runs its body (race 39), and what is cleaned up
with the canceled run's own cancel over its head is never written (race 22).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    Limits,
    RunCanceled,
    RunEnded,
    RunState,
    RunSuspended,
    Scheduler,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from sessionsched import Run, Turn

    Step: TypeAlias = Callable[[Scheduler[str, str], "Desk"], Coroutine[None, None, None]]

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)
EXTERNAL = ("suspended", "external")

#: More turns of the loop than any way in takes.
TURNS = 12


class Desk:
    """Notes who has seen which prompt."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.dropped: list[str] = []
        #: Tasks of the test's own; to be waited for.
        self.tasks: list[asyncio.Task[object]] = []

    async def handle(self, run: Run[str]) -> str:
        self.handled.append(run.prompt)
        await asyncio.sleep(1 if run.prompt == "x" else 0)
        return run.prompt

    async def on_dropped(self, run: Run[str]) -> None:
        self.dropped.append(run.prompt)
        await quiet(2)

    async def prepare(self, _run: Run[str]) -> None:
        await quiet(2)

    async def take(self, turn: Turn[str]) -> None:
        with contextlib.suppress(RunCanceled, RunSuspended):
            async with turn as run:
                await self.handle(run)


# --- ways in: each brings "x" on its way ---


async def _at_once(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    scheduler.submit("chat", "x", run_id="x")


async def _behind_another_run(scheduler: Scheduler[str, str], desk: Desk) -> None:
    scheduler.submit("chat", "a")
    await _at_once(scheduler, desk)


async def _behind_a_drop(scheduler: Scheduler[str, str], desk: Desk) -> None:
    scheduler.accept("chat", "a").close()
    await _at_once(scheduler, desk)


async def _for_want_of_a_slot(scheduler: Scheduler[str, str], desk: Desk) -> None:
    scheduler.submit("other", "a")
    await _at_once(scheduler, desk)


async def _with_a_ticket(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    ticket = scheduler.accept("chat", "x", run_id="x")
    asyncio.get_running_loop().call_later(0, ticket.ready)


async def _as_a_turn(scheduler: Scheduler[str, str], desk: Desk) -> None:
    scheduler.submit("chat", "a")
    turn = scheduler.turn("chat", "x", run_id="x")
    desk.tasks.append(asyncio.create_task(desk.take(turn), name="x"))
    await asyncio.sleep(0)


# --- ways to stop it ---


async def _cancel(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    scheduler.cancel("chat")


async def _cancel_run(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    scheduler.cancel_run("x")


async def _supersede(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    scheduler.submit("chat", "y", when_busy=WhenBusy.INTERRUPT)


async def _from_outside(_scheduler: Scheduler[str, str], _desk: Desk) -> None:
    for task in asyncio.all_tasks():
        if task.get_name() == "x":  # the run's, or that of the turn's host
            task.cancel()


async def _close(scheduler: Scheduler[str, str], _desk: Desk) -> None:
    await scheduler.close()


@pytest.mark.contract("P1", "T1", "X7")
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("stop", [_cancel, _cancel_run, _supersede, _from_outside, _close])
@pytest.mark.parametrize(
    "bring",
    [
        _at_once,
        _behind_another_run,
        _behind_a_drop,
        _for_want_of_a_slot,
        _with_a_ticket,
        _as_a_turn,
    ],
)
async def test_race_39_whenever_a_run_is_stopped_its_handler_or_on_dropped_has_seen_its_prompt(
    bring: Step,
    stop: Step,
    *,
    prepared: bool,
) -> None:
    seen_by = set()
    for turns in range(TURNS):
        desk = Desk()
        async with Scheduler(
            desk.handle,
            on_dropped=desk.on_dropped,
            prepare=desk.prepare if prepared else None,
            limits=Limits(max_active=1),
        ) as scheduler:
            await bring(scheduler, desk)
            run = scheduler._driver.table.run("x")
            assert run is not None
            await quiet(turns)
            await stop(scheduler, desk)
            await asyncio.sleep(60)  # whatever was stopped, or not, is over
            await asyncio.gather(*desk.tasks, return_exceptions=True)
        assert run.ended is not None
        assert (desk.handled + desk.dropped).count("x") == 1, f"after {turns} turns"
        assert run.ended.started == ("x" in desk.handled)
        assert (run.ended.started_at is not None) == run.ended.started
        seen_by.add("handler" if run.ended.started else "on_dropped")
    assert seen_by == {"handler", "on_dropped"}


# --- 39: no first step ---


@pytest.mark.contract("T1", "X1")
async def test_race_39_a_run_that_is_canceled_before_its_first_step_is_announced() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        assert handle.state is RunState.ACTIVE
        handle.cancel()
        outcome = await handle.outcome()
        await quiet()
        assert (outcome.started, outcome.started_at, outcome.error) == (False, None, None)
        assert [event.outcome for event in watch.of(RunEnded)] == [outcome]
        with pytest.raises(RunCanceled):
            await handle
    assert agent.log == []


@pytest.mark.contract("X13", "D4")
async def test_race_39_a_task_canceled_from_outside_before_its_first_step_is_suspended() -> None:
    desk = Desk()
    async with Scheduler(desk.handle, on_dropped=desk.on_dropped) as scheduler:
        first, second = (scheduler.submit("chat", prompt, run_id=prompt) for prompt in "xb")
        await _from_outside(scheduler, desk)
        assert await ends(first, second) == [EXTERNAL, COMPLETED]
        assert not (await first.outcome()).started
    assert (desk.dropped, desk.handled) == (["x"], ["b"])


@pytest.mark.contract("P1", "D1", "T2")
async def test_race_39_nothing_starts_before_a_run_without_a_first_step_is_recorded() -> None:
    agent = Agent()
    agent.finish("b")

    async def on_dropped(run: Run[str]) -> None:
        agent.log.append(f"record {run.prompt}")
        await asyncio.sleep(3)
        agent.log.append(f"recorded {run.prompt}")

    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        first = scheduler.submit("chat", "a")
        second = scheduler.submit("chat", "b", when_busy=WhenBusy.INTERRUPT)
        assert await ends(first, second) == [("canceled", "superseded"), COMPLETED]
    assert agent.log == ["record a", "recorded a", "start b", "over b"]


@pytest.mark.contract("P2", "D4")
@pytest.mark.parametrize("takes", [0, 1000])
async def test_race_39_a_run_without_a_first_step_ends_also_when_recording_that_fails(
    takes: float,
) -> None:
    agent = Agent()
    agent.finish("b")

    async def on_dropped(_run: Run[str]) -> None:
        await asyncio.sleep(takes)
        raise OSError("disk full")

    async with Scheduler(agent, on_dropped=on_dropped, settle_timeout=5.0) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        first.cancel()
        assert await ends(first, second) == [CANCELED, COMPLETED]
        outcome = await first.outcome()
        assert type(outcome.error) is (TimeoutError if takes else OSError)
        assert outcome.ended_at == outcome.accepted_at + min(takes, 5.0)


@pytest.mark.contract("P1", "F1")
async def test_race_39_follow_ups_are_not_lost_with_a_run_that_never_took_its_first_step() -> None:
    desk = Desk()
    async with Scheduler(desk.handle, on_dropped=desk.on_dropped) as scheduler:
        first = scheduler.submit("chat", "x")
        follow_up = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
        first.run.take_follow_ups()  # somebody else than its handler, which has not begun
        first.cancel()
        outcome = await follow_up.outcome()
    assert (desk.handled + desk.dropped).count("b") == 1
    assert outcome.started == (outcome.started_at is not None) == ("b" in desk.handled)


# --- 22: clean-up out of the cancel's reach ---


async def _cancel_again(scheduler: Scheduler[str, str], desk: Desk) -> None:
    for stop in (_cancel, _cancel_run, _supersede, _close):
        await stop(scheduler, desk)


@pytest.mark.contract("P1", "X4")
@pytest.mark.parametrize("bring", [_at_once, _behind_another_run, _as_a_turn])
async def test_race_22_no_cancel_reaches_the_record_of_a_canceled_turn(
    bring: Step,
) -> None:
    desk, written = Desk(), []

    async def on_dropped(run: Run[str]) -> None:
        task = asyncio.current_task()
        await asyncio.sleep(3)
        assert task is not None
        written.append((run.prompt, task.cancelling()))

    async with Scheduler(desk.handle, on_dropped=on_dropped) as scheduler:
        await bring(scheduler, desk)
        waiter = asyncio.create_task(scheduler.submit("chat", "x", run_id="x").outcome())
        scheduler.cancel("chat")
        await asyncio.sleep(1)  # it is being written
        waiter.cancel()
        await _cancel_again(scheduler, desk)
        await asyncio.gather(waiter, *desk.tasks, return_exceptions=True)
    assert ("x", 0) in written


@pytest.mark.contract("X4", "X8")
async def test_race_22_nobody_strikes_a_handler_that_cleans_up_within_its_grace() -> None:
    desk, log = Desk(), []

    async def handler(run: Run[str]) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(4)
            log.append(f"{run.prompt} written")
        return run.prompt

    async with Scheduler(handler, grace=5.0) as scheduler:
        handle = scheduler.submit("chat", "x", run_id="x", deadline=10)
        await asyncio.sleep(9)
        scheduler.cancel("chat")
        await asyncio.sleep(2)  # the deadline has passed, too
        await _cancel_again(scheduler, desk)
        assert await ends(handle) == [CANCELED]
        await asyncio.gather(*desk.tasks)
    assert log == ["x written"]
