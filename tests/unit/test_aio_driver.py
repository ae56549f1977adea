"""What takes time: handlers that go on after a cancel, deadlines, expiry; and slots."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    Limits,
    RunState,
    RunStuck,
    Scheduler,
    Scope,
    SessionState,
    Status,
    WhenBusy,
)

if TYPE_CHECKING:
    from sessionsched import Run, RunHandle

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")
DEADLINE = ("canceled", "deadline")
EXPIRED = ("canceled", "expired")


def now() -> float:
    return asyncio.get_running_loop().time()


def timers() -> list[Any]:
    loop: Any = asyncio.get_running_loop()
    return [it for it in loop._scheduled if not it.cancelled()]


class Stubborn:
    """A handler that swallows so many cancels, and notes when they came."""

    def __init__(self, swallows: int, error: BaseException | None = None) -> None:
        self.swallows = swallows
        self.error = error
        self.canceled_at: list[float] = []
        self.over_at: float | None = None

    async def __call__(self, run: Run[str]) -> str:
        if run.prompt != "a":
            return f"{run.prompt} done"
        while len(self.canceled_at) <= self.swallows:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                self.canceled_at.append(now())
        self.over_at = now()
        if self.error is not None:
            raise self.error
        return "at last"


# --- a cancel can't be worn out ---


@pytest.mark.contract("X8", "X6")
@pytest.mark.parametrize("watched", [False, True])
async def test_a_handler_that_goes_on_is_canceled_again_after_every_grace(*, watched: bool) -> None:
    handler = Stubborn(swallows=3)
    async with Scheduler(handler, grace=4) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await asyncio.sleep(1)
        async with watching(scheduler, session_id="chat" if watched else "no chat") as watch:
            first.cancel()
            await quiet()
            assert handler.canceled_at == [1], "at once"
            await first.outcome()
        assert handler.canceled_at == [1, 5, 9, 13]
        stuck = [(it.run, it.at, it.told) for it in watch.of(RunStuck)]
        assert stuck == ([(first.run, 5, 1), (first.run, 9, 2), (first.run, 13, 3)] * watched)
        outcome = await first.outcome()
        assert (outcome.status, outcome.result, outcome.ended_at) == ("canceled", "at last", 13)
        assert not outcome.abandoned
        assert await second == "b done"
        assert (await second.outcome()).started_at == 13, "not before the first was over"
        assert timers() == []


@pytest.mark.contract("X4", "X8")
async def test_canceling_more_often_does_not_cancel_the_handler_more_often() -> None:
    handler = Stubborn(swallows=1)
    async with Scheduler(handler, grace=4) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        assert handle.cancel()
        for _ in range(3):
            await asyncio.sleep(1)
            assert not scheduler.cancel("chat"), "it covers nothing that is not covered"
        assert await ends(handle) == [INTERRUPTED]
    assert handler.canceled_at == [0, 4]


@pytest.mark.contract("D5", "X8")
async def test_a_stuck_run_holds_up_its_own_session_only() -> None:
    async with Scheduler(Stubborn(swallows=2), grace=4) as scheduler:
        scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        behind = scheduler.submit("chat", "b")
        assert await scheduler.submit("another chat", "c") == "c done"
        assert (now(), behind.state) == (0, RunState.QUEUED)
        assert scheduler.session("chat").state is SessionState.CANCELED
        assert await behind == "b done"
        assert now() == 8


# --- abandoning ---


@pytest.mark.contract("X8")
@pytest.mark.parametrize(
    ("grace", "abandon_after", "canceled_at"),
    [
        (2, 5, [0, 2, 4, 5]),
        (2, 4, [0, 2, 4]),
        (5, 2, [0, 2]),
        (2, 2, [0, 2]),
        (5, 0, [0, 0]),
    ],
)
async def test_a_handler_that_goes_on_for_too_long_is_no_longer_waited_for(
    grace: float, abandon_after: float, canceled_at: list[float]
) -> None:
    handler = Stubborn(swallows=10)
    async with Scheduler(handler, grace=grace, abandon_after=abandon_after) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        async with watching(scheduler) as watch:
            scheduler.cancel("chat", scope=Scope.ACTIVE)
            assert await second == "b done", "the session goes on"
        assert now() == abandon_after
        assert handler.canceled_at == canceled_at
        assert [(it.at, it.told) for it in watch.of(RunStuck)] == [
            (at, count) for count, at in enumerate(canceled_at[1:], start=1)
        ]
        outcome = await first.outcome()
        assert (outcome.status, outcome.abandoned) == (Status.CANCELED, True)
        assert (outcome.ended_at, outcome.started) == (abandon_after, True)
        handler.swallows = 0  # let the close have it


@pytest.mark.contract("X8")
@pytest.mark.parametrize("abandon_after", [0, 5])
async def test_a_handler_that_stops_in_time_is_not_abandoned(abandon_after: float) -> None:
    async with Scheduler(Agent(), abandon_after=abandon_after) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        handle.cancel()
        outcome = await handle.outcome()
        assert (outcome.status, outcome.abandoned) == (Status.CANCELED, False)
        assert timers() == []


@pytest.mark.contract("T1", "X8")
@pytest.mark.parametrize(
    "error",
    [None, ValueError("too late"), asyncio.CancelledError()],
    ids=["returns", "raises", "stops"],
)
async def test_what_an_abandoned_handler_comes_to_is_forgotten_without_a_word(
    error: BaseException | None,
) -> None:
    handler = Stubborn(swallows=2, error=error)
    async with Scheduler(handler, grace=9, abandon_after=1) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        handle.cancel()
        outcome = await handle.outcome()
        [task] = scheduler._driver.kept
        task.cancel()
        await quiet()
        assert handler.over_at == now()
        assert scheduler._driver.kept == {}
        assert await handle.outcome() == outcome
        assert (outcome.result, outcome.error) == (None, None)


@pytest.mark.contract("X8")
@pytest.mark.parametrize(
    ("began_at", "abandon_after"), [(0.1, 0.1), (0.3, 0.1), (0.2, 0.2), (0.7, 0.7), (1.1, 0.1)]
)
async def test_it_is_given_up_on_once_also_where_times_are_not_exact(
    began_at: float, abandon_after: float
) -> None:
    handler = Stubborn(swallows=20)
    async with Scheduler(handler, abandon_after=abandon_after) as scheduler:
        handle = scheduler.submit("chat", "a")
        await asyncio.sleep(began_at)
        handle.cancel()
        assert (await handle.outcome()).abandoned
        await quiet(2)
        assert len(handler.canceled_at) == 2
        handler.swallows = 0


@pytest.mark.contract("X8")
async def test_a_timer_that_comes_a_little_early_is_not_set_again_for_the_rest() -> None:
    # asyncio calls a timer up to one tick of its clock too early; on some systems that is 16 ms.
    loop: Any = asyncio.get_running_loop()
    loop._clock_resolution = 0.5
    handler = Stubborn(swallows=20)
    async with Scheduler(handler, abandon_after=3) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        handle.cancel()
        await asyncio.sleep(2.75)  # now the timer is called, a quarter of a second early
        await quiet()
        assert len(handler.canceled_at) == 2
        handler.swallows = 0
        loop._clock_resolution = 1e-6


# --- deadlines and expiry ---


@pytest.mark.contract("X1", "X9")
async def test_a_deadline_counts_from_the_start_and_strikes_this_run_alone() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a")
        second = scheduler.submit("chat", "b", deadline=5)
        third = scheduler.submit("chat", "c")
        await asyncio.sleep(10)
        agent.finish("a", "c")
        assert await ends(first, second, third) == [COMPLETED, DEADLINE, COMPLETED]
        assert now() == 15
        assert agent.log.count("stop b") == 1


async def test_who_is_over_before_the_deadline_has_none() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a", deadline=5)
        await quiet()
        agent.finish("a")
        assert await handle == "a done"
        assert timers() == []


@pytest.mark.contract("X8")
async def test_a_handler_that_ignores_its_deadline_is_canceled_again() -> None:
    handler = Stubborn(swallows=2)
    async with Scheduler(handler, grace=4) as scheduler:
        assert await ends(scheduler.submit("chat", "a", deadline=5)) == [DEADLINE]
    assert handler.canceled_at == [5, 9, 13]


@pytest.mark.contract("X6")
async def test_with_a_deadline_of_zero_a_handler_has_its_first_step_and_no_more() -> None:
    steps: list[str] = []

    async def handler(run: Run[str]) -> str:
        steps.append(f"{run.prompt} 1")
        if run.prompt == "patient":
            await asyncio.sleep(0)
            steps.append(f"{run.prompt} 2")
        return "done"

    async with Scheduler(handler) as scheduler:
        handles = [scheduler.submit("chat", prompt, deadline=0) for prompt in ("patient", "quick")]
        assert await ends(*handles) == [DEADLINE, ("completed", None)], "one step was enough"
        assert (now(), steps, timers()) == (0, ["patient 1", "quick 1"], [])


@pytest.mark.contract("X7", "D4")
async def test_a_run_that_has_waited_for_too_long_is_dropped_and_the_others_wait_on() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "a")
        expiring = scheduler.submit("chat", "b", wait_at_most=5, deadline=99)
        behind = scheduler.submit("chat", "c", wait_at_most=50)
        assert await ends(expiring) == [EXPIRED]
        assert (now(), behind.state) == (5, RunState.QUEUED)
        agent.finish("a", "c")
        assert await behind == "c done"
        assert timers() == []
    assert agent.started == ["a", "c"]


async def test_who_has_started_does_not_expire() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "a")
        handle = scheduler.submit("chat", "b", wait_at_most=5)
        await asyncio.sleep(4)
        agent.finish("a")
        await quiet()
        assert timers() == []
        await asyncio.sleep(4)
        assert handle.state is RunState.ACTIVE
        agent.finish("b")
        assert await handle == "b done"


async def test_who_will_not_wait_at_all_starts_at_once_or_never() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a", wait_at_most=0)
        second = scheduler.submit("chat", "b", wait_at_most=0)
        assert await ends(second) == [EXPIRED]
        assert (now(), agent.started) == (0, ["a"])
        agent.finish("a")
        assert await first == "a done"


@pytest.mark.contract("F3")
async def test_a_follow_up_that_was_taken_neither_expires_nor_has_a_deadline_of_its_own() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a")
        second = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD, wait_at_most=5, deadline=3)
        await quiet()
        assert agent.runs["a"].take_follow_ups() == (second.run,)
        assert timers() == []
        await asyncio.sleep(20)
        agent.finish("a")
        assert await first == await second == "a done"


async def test_a_run_that_waits_in_a_held_line_expires_too() -> None:
    async with Scheduler(Agent()) as scheduler:
        scheduler.submit("chat", "a")
        handle = scheduler.submit("chat", "b", wait_at_most=5)
        scheduler.cancel("chat", scope=Scope.ACTIVE, hold=True)
        assert await ends(handle) == [EXPIRED]
        assert now() == 5


# --- slots ---


@pytest.mark.contract("D5", "D6")
async def test_slots_go_to_sessions_in_the_order_in_which_they_could_use_one() -> None:
    agent = Agent()
    async with Scheduler(agent, limits=Limits(max_active=2)) as scheduler:
        handles: list[RunHandle[str, str]] = [
            scheduler.submit(f"chat-{prompt[0]}", prompt)
            for prompt in ("a1", "a2", "b1", "c1", "d1")
        ]
        await quiet()
        assert agent.started == ["a1", "b1"]
        agent.finish("a1")  # now a2 could start: after those that could before
        await quiet()
        assert agent.started == ["a1", "b1", "c1"]
        handles[-1].cancel()  # d1 does not want one any longer
        agent.finish("b1")
        await quiet()
        assert agent.started == ["a1", "b1", "c1", "a2"]
        assert scheduler.snapshot().active == 2
        agent.finish("c1", "a2")
        await quiet()


@pytest.mark.contract("D6", "X8")
async def test_a_stuck_run_keeps_its_slot_until_it_is_given_up_on() -> None:
    handler = Stubborn(swallows=20)
    limits = Limits(max_active=1)
    async with Scheduler(handler, limits=limits, grace=2, abandon_after=5) as scheduler:
        scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        assert await scheduler.submit("another chat", "b") == "b done"
        assert now() == 5
        handler.swallows = 0
