"""Turns that are stopped while the host is inside: what comes out, and that nothing leaks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere
from hosts import Host, waits

from sessionsched import Cause, RunCanceled, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts import Body

    #: What came out, status, cause, and the cancels that are left (see Host.fate).
    Fate: TypeAlias = tuple[str | None, str, str | None, int]


# --- who stops it ---


def cancel(host: Host) -> None:
    host.scheduler.cancel("chat")


def close(host: Host) -> None:
    host.scheduler._driver.close(0.0)


def outer(host: Host) -> None:
    host.task.cancel()


def nobody(host: Host) -> None:
    host.leave()


# --- what the body makes of it ---


async def swallows(host: Host) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await waits(host)


async def converts(host: Host) -> None:
    try:
        await waits(host)
    except asyncio.CancelledError:
        raise ValueError("the body's own") from None


async def takes_its_time(host: Host) -> None:
    try:
        await waits(host)
    finally:
        await asyncio.sleep(1)


async def raises(host: Host) -> None:
    await waits(host)
    raise ValueError("the body's own")


async def makes_one_up(host: Host) -> None:
    await waits(host)
    raise asyncio.CancelledError


CANCELED: Fate = ("RunCanceled", "canceled", "interrupt", 0)
SUSPENDED: Fate = ("RunSuspended", "suspended", "shutdown", 0)
EXTERNAL: Fate = ("CancelledError", "suspended", "external", 1)
BOTH: Fate = ("CancelledError", "canceled", "interrupt", 1)

WAYS: list[tuple[Body, tuple[Callable[[Host], None], ...], Fate]] = [
    (waits, (nobody,), (None, "completed", None, 0)),
    (waits, (cancel,), CANCELED),
    (waits, (close,), SUSPENDED),
    (waits, (close, cancel), CANCELED),
    (waits, (cancel, close), CANCELED),
    (waits, (outer,), EXTERNAL),
    (waits, (cancel, outer), BOTH),
    (waits, (outer, cancel), BOTH),
    (waits, (close, outer), ("CancelledError", "suspended", "shutdown", 1)),
    (takes_its_time, (cancel,), CANCELED),
    (takes_its_time, (outer,), EXTERNAL),
    (swallows, (cancel,), (None, "canceled", "interrupt", 0)),
    (swallows, (close,), (None, "completed", None, 0)),
    (swallows, (outer,), (None, "completed", None, 1)),
    (converts, (cancel,), ("ValueError", "canceled", "interrupt", 0)),
    (converts, (close,), ("ValueError", "suspended", "shutdown", 0)),
    (converts, (outer,), ("ValueError", "failed", None, 1)),
    (raises, (nobody,), ("ValueError", "failed", None, 0)),
    (raises, (cancel,), CANCELED),
]


@pytest.mark.contract("X6", "X12", "X13", "S3")
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("body", "ways", "fate"), WAYS)
async def test_what_comes_out_of_a_turn_says_who_has_stopped_it(
    body: Body, ways: tuple[Callable[[Host], None], ...], fate: Fate, before: int
) -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, body, canceled_before=before == 1)
        await quiet()
        assert host.entered
        for way in ways:
            way(host)
        *expected, left = fate
        assert await host.fate() == (*expected, left + before)
        assert host.outcome.started
        if "ValueError" in fate:
            assert host.outcome.error is host.task.exception()


@pytest.mark.contract("X13")
async def test_race_27_a_cancel_that_nobody_sent_is_a_failure_of_the_body() -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, makes_one_up)
        host.leave()
        assert await host.fate() == ("CancelledError", "failed", None, 0)
        assert isinstance(host.outcome.error, asyncio.CancelledError)


@pytest.mark.contract("X6")
async def test_the_error_carries_the_outcome_and_the_cancel_that_it_comes_from() -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler)
        await quiet()
        scheduler.cancel("chat")
        error = await host.error()
        assert isinstance(error, RunCanceled)
        assert isinstance(error.__cause__, asyncio.CancelledError)
        assert (error.session_id, error.run_id) == ("chat", host.run.run_id)
        assert error.outcome == host.outcome


@pytest.mark.contract("D1", "D4", "X2")
@pytest.mark.parametrize("way", [cancel, outer])
async def test_the_next_in_line_starts_when_the_body_is_over_and_not_sooner(
    way: Callable[[Host], None],
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        host = Host(scheduler, takes_its_time)
        await quiet()
        way(host)
        after = scheduler.submit("chat", "after")
        agent.finish("after")
        await quiet()
        assert agent.started == []
        assert await ends(after) == [("completed", None)]
        assert after.run.started_at == host.outcome.ended_at
        assert await host.error() is not None


# --- a cancel that is sent, and not delivered before the body is over ---


async def cancels_itself(host: Host) -> None:
    host.scheduler.cancel("chat")


async def cancels_itself_and_raises(host: Host) -> None:
    host.scheduler.cancel("chat")
    raise ValueError("the body's own")


async def cancels_itself_and_raises_a_cancel(host: Host) -> None:
    host.scheduler.cancel("chat")
    raise asyncio.CancelledError


async def cancels_itself_by_its_deadline(host: Host) -> None:
    host.scheduler.cancel("chat", cause=Cause.DEADLINE)


async def cancels_the_session_when_it_is_canceled(host: Host) -> None:
    host.task.cancel()
    try:
        await waits(host)
    except asyncio.CancelledError:
        host.scheduler.cancel("chat")
        raise


async def group_fails_in_the_same_tick(host: Host) -> None:
    async def fails() -> None:
        host.scheduler.cancel("chat")
        raise ValueError("the child's own")

    async with asyncio.TaskGroup() as group:
        group.create_task(fails())


NOT_DELIVERED: list[tuple[Body, Fate]] = [
    (cancels_itself, (None, "canceled", "interrupt", 0)),
    (cancels_itself_and_raises, ("ValueError", "canceled", "interrupt", 0)),
    (cancels_itself_and_raises_a_cancel, CANCELED),
    (cancels_itself_by_its_deadline, (None, "canceled", "deadline", 0)),
    (cancels_the_session_when_it_is_canceled, BOTH),
    (group_fails_in_the_same_tick, ("ExceptionGroup", "canceled", "interrupt", 0)),
]


@pytest.mark.contract("X2", "X6")
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("body", "fate"), NOT_DELIVERED)
async def test_a_cancel_that_comes_as_the_body_ends_does_not_strike_the_host_later(
    body: Body, fate: Fate, before: int
) -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, body, canceled_before=before == 1)
        *expected, left = fate
        assert await host.fate() == (*expected, left + before)
        assert host.cleaned_up


@pytest.mark.real_loop
@pytest.mark.contract("R4", "X2")
async def test_nor_does_one_from_another_thread() -> None:
    async def body(host: Host) -> None:
        assert elsewhere(lambda: scheduler.cancel("chat"))
        host.run.emit("what was decided before this is performed now, in the body's last step")

    async with Scheduler(Agent()) as scheduler, watching(scheduler):
        host = Host(scheduler, body)
        assert await host.fate() == (None, "canceled", "interrupt", 0)
        assert host.cleaned_up


@pytest.mark.contract("X13")
@pytest.mark.parametrize("body", [cancels_itself, cancels_itself_and_raises])
async def test_the_hosts_own_cancel_is_not_lost_while_ours_is_taken_back(body: Body) -> None:
    async def and_is_canceled_right_after(host: Host) -> None:
        asyncio.get_running_loop().call_soon(host.task.cancel)
        await body(host)

    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, and_is_canceled_right_after)
        error = await host.error()
        assert isinstance(error, asyncio.CancelledError)
        assert host.task.cancelling() == 1


@pytest.mark.contract("X13", "T1")
async def test_a_cancel_that_is_on_its_way_when_the_body_is_left_strikes_nobody() -> None:
    async def body(host: Host) -> None:
        scheduler._driver._rest()  # others have their turn on the loop first
        scheduler.cancel("chat")

    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, body)
        assert await host.fate() == (None, "canceled", "interrupt", 0)
        assert host.run.seen == "end", "nobody stumbled on the way there"


@pytest.mark.contract("X13")
async def test_a_body_that_takes_our_cancel_back_itself_keeps_what_is_the_hosts() -> None:
    async def body(host: Host) -> None:
        await swallows(host)
        host.task.uncancel()

    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, body, canceled_before=True)
        await quiet()
        scheduler.cancel("chat")
        assert await host.fate() == (None, "canceled", "interrupt", 1)
