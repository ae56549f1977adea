"""Turns that never come, or come too late: stopped before the host is inside (X7, X13, P1, S2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere
from hosts import Host, Recorder, held_back

from sessionsched import Run, RunCanceled, RunEnded, RunState, Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    #: What came out, status, cause, and the cancels that are left (see Host.fate).
    Fate: TypeAlias = tuple[str | None, str, str | None, int]
    Moment: TypeAlias = Callable[[Scheduler[str, str], Agent], Awaitable[Host]]


# --- who stops it ---


def by_a_cancel(host: Host) -> None:
    host.scheduler.cancel("chat")


def by_its_id(host: Host) -> None:
    host.scheduler.cancel_run(host.run.run_id)


def by_a_close(host: Host) -> None:
    host.scheduler._driver.close(0.0)  # `await scheduler.close()` would let the host go first


def by_its_host(host: Host) -> None:
    host.task.cancel()


def by_both(host: Host) -> None:
    host.scheduler.cancel("chat")
    host.task.cancel()


def by_both_the_other_way_round(host: Host) -> None:
    host.task.cancel()
    host.scheduler.cancel("chat")


CANCELED = ("RunCanceled", "canceled", "interrupt", 0)
SUSPENDED = ("RunSuspended", "suspended", "shutdown", 0)
BOTH = ("CancelledError", "canceled", "interrupt", 1)

#: Who stops it, and the host's fate: while it waits, and when its turn came in the same tick.
WAYS: list[tuple[Callable[[Host], None], Fate, Fate]] = [
    (by_a_cancel, CANCELED, CANCELED),
    (by_its_id, CANCELED, CANCELED),
    (by_a_close, SUSPENDED, SUSPENDED),
    (
        by_its_host,
        ("CancelledError", "canceled", "withdrawn", 1),
        ("CancelledError", "suspended", "external", 1),
    ),
    (by_both, BOTH, BOTH),
    (by_both_the_other_way_round, BOTH, BOTH),
]


async def in_line(scheduler: Scheduler[str, str], agent: Agent) -> Host:
    """A host that waits behind an active run."""
    scheduler.submit("chat", "before")
    host = Host(scheduler)
    await quiet()
    return host


async def just_started(scheduler: Scheduler[str, str], agent: Agent) -> Host:
    """A host whose turn has come, who has not noticed yet."""
    host = await held_back(scheduler, agent)
    scheduler.resume("chat")
    assert host.run.state is RunState.ACTIVE
    assert not host.entered
    return host


MOMENTS = [in_line, just_started]


@pytest.mark.contract("P1", "S2", "X7", "X13")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(("way", "fate_in_line", "fate_just_started"), WAYS)
async def test_a_host_that_is_stopped_before_it_is_inside_never_comes_in(
    moment: Moment, way: Callable[[Host], None], fate_in_line: Fate, fate_just_started: Fate
) -> None:
    agent, recorder = Agent(), Recorder()
    async with Scheduler(agent, on_dropped=recorder) as scheduler:
        host = await moment(scheduler, agent)
        way(host)
        await quiet()
        assert await host.fate() == (fate_in_line if moment is in_line else fate_just_started)
        assert not host.entered
        assert host.outcome.started is False
        assert recorder.recorded == recorder.dropped == ["me"]


@pytest.mark.contract("D4")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", [by_a_cancel, by_its_host, by_both])
@pytest.mark.parametrize("recorder", [True, False])
async def test_the_line_moves_when_a_host_does_not_come(
    *, moment: Moment, way: Callable[[Host], None], recorder: bool
) -> None:
    agent = Agent()
    async with Scheduler(agent, on_dropped=Recorder() if recorder else None) as scheduler:
        host = await moment(scheduler, agent)
        way(host)
        after = scheduler.submit("chat", "after")
        if moment is in_line and way is by_its_host:
            agent.finish("before")
        agent.finish("after")
        assert await ends(after) == [("completed", None)]
        assert await host.error() is not None


@pytest.mark.contract("P1", "T2")
@pytest.mark.parametrize("moment", MOMENTS)
async def test_it_is_told_only_when_its_drop_is_on_record(moment: Moment) -> None:
    agent, recorder = Agent(), Recorder()
    async with Scheduler(agent, on_dropped=recorder) as scheduler, watching(scheduler) as watch:
        host = await moment(scheduler, agent)
        recorder.may_end.clear()
        scheduler.cancel("chat")
        scheduler.submit("chat", "after", run_id="after")
        await asyncio.sleep(1)
        assert (host.task.done(), host.run.ended) == (False, None)
        assert agent.started == ["before"]
        recorder.may_end.set()
        assert await host.fate() == CANCELED
        await quiet()
        news = watch.lines()
        assert news.index(f"RunEnded {host.run.run_id}") < news.index("RunStarted after")


@pytest.mark.contract("P1", "T1")
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_host_that_does_not_wait_for_the_record_does_not_disturb_it(
    moment: Moment,
) -> None:
    agent, recorder = Agent(), Recorder()
    async with Scheduler(agent, on_dropped=recorder) as scheduler, watching(scheduler) as watch:
        host = await moment(scheduler, agent)
        recorder.may_end.clear()
        scheduler.cancel("chat")
        await quiet()
        host.task.cancel()
        assert isinstance(await host.error(), asyncio.CancelledError)
        assert host.run.ended is None
        recorder.may_end.set()
        await quiet()
        assert await host.fate() == BOTH
        assert recorder.recorded == recorder.dropped == ["me"]
        assert [it.outcome for it in watch.of(RunEnded) if it.run is host.run] == [host.outcome]


async def test_the_error_says_which_run_it_was_and_how_it_ended() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        host = await in_line(scheduler, agent)
        host.scheduler.cancel("chat")
        error = await host.error()
        assert isinstance(error, RunCanceled)
        assert (error.session_id, error.run_id) == ("chat", host.run.run_id)
        assert error.outcome == host.outcome


# --- time ---


@pytest.mark.contract("P1")
async def test_a_turn_that_did_not_come_in_time_expires() -> None:
    agent, recorder = Agent(), Recorder()
    async with Scheduler(agent, on_dropped=recorder) as scheduler:
        scheduler.submit("chat", "before")
        host = Host(scheduler, wait_at_most=5)
        assert await host.fate() == ("RunCanceled", "canceled", "expired", 0)
        assert host.outcome.ended_at - host.outcome.accepted_at == 5
        assert recorder.recorded == ["me"]


@pytest.mark.parametrize(
    ("deadline", "fate"),
    [(None, (None, "completed", None, 0)), (7, ("RunCanceled", "canceled", "deadline", 0))],
)
async def test_a_turn_that_came_in_time_has_its_deadline_and_no_other(
    deadline: float | None, fate: Fate
) -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, wait_at_most=5, deadline=deadline)
        await asyncio.sleep(1000)
        host.leave()
        assert await host.fate() == fate
        assert host.outcome.ended_at - host.outcome.accepted_at == (deadline or 1000)


@pytest.mark.contract("X13")
async def test_a_host_whose_own_timeout_ends_the_wait_has_given_its_place_back() -> None:
    agent, recorder = Agent(), Recorder()
    async with Scheduler(agent, on_dropped=recorder) as scheduler:
        scheduler.submit("chat", "before")
        turn = scheduler.turn("chat", "me")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), turn:
                pytest.fail("it must not come in")
        await quiet()
        outcome = turn._run.ended
        assert outcome is not None
        assert (outcome.status, outcome.cause) == ("canceled", "withdrawn")
        assert recorder.recorded == ["me"]


# --- preparation ---


@pytest.mark.contract("P1")
@pytest.mark.parametrize(("way", "fate", "_"), WAYS)
async def test_a_preparation_that_nobody_needs_any_longer_is_stopped_first(
    way: Callable[[Host], None], fate: Fate, _: Fate
) -> None:
    log: list[str] = []

    async def prepare(_run: Run[str]) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("prepared no longer")

    async def on_dropped(_run: Run[str]) -> None:
        log.append("recorded")

    async with Scheduler(Agent(), prepare=prepare, on_dropped=on_dropped) as scheduler:
        host = Host(scheduler)
        await quiet()
        way(host)
        await quiet()
        assert await host.fate() == fate
        assert log == ["prepared no longer", "recorded"]


# --- threads ---


@pytest.mark.real_loop
@pytest.mark.contract("D4", "R4")
async def test_a_host_that_gives_up_before_the_loop_knows_that_its_turn_came_strands_nobody() -> (
    None
):
    agent = Agent()
    scheduler = Scheduler(agent)
    host = await held_back(scheduler, agent)
    host.task.cancel()
    assert elsewhere(lambda: scheduler.resume("chat"))  # decided there, performed here, later
    await quiet()
    assert host.run.state is RunState.ENDED
    assert await host.fate() == ("CancelledError", "suspended", "external", 1)
    await scheduler.close()


@pytest.mark.real_loop
@pytest.mark.contract("R4", "X1")
@pytest.mark.parametrize("moment", [held_back, just_started])
async def test_a_cancel_from_another_thread_is_not_lost_on_the_way_in(moment: Moment) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        host = await moment(scheduler, agent)
        assert elsewhere(lambda: scheduler.cancel("chat"))
        scheduler.resume("chat")
        assert await host.fate() == CANCELED
        assert not host.entered
