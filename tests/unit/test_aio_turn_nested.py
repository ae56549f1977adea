"""Turns within turns, timeouts and groups; and bodies that don't stop (X8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching
from hosts import Host, waits

from sessionsched import RunCanceled, RunStuck, Scheduler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched import Run


def end_of(run: Run[Any]) -> tuple[str, str | None]:
    assert run.ended is not None
    return run.ended.status.value, run.ended.cause


# --- turns within turns ---


class Nested(Host):
    """In a turn of "chat" it takes one of "inner" too."""

    def __init__(self, scheduler: Scheduler[str, str]) -> None:
        self.inner = scheduler.turn("inner", "nested")
        super().__init__(scheduler, self._nest)

    async def _nest(self, _host: Host) -> None:
        async with self.inner:
            await waits(self)


#: Which sessions are canceled, what comes out of both turns, and how the inner one ends.
NESTED: list[tuple[list[str], str, str | None, tuple[str, str | None]]] = [
    (["chat"], "canceled", "interrupt", ("suspended", "external")),
    (["chat", "inner"], "canceled", "interrupt", ("canceled", "interrupt")),
    (["inner", "chat"], "canceled", "interrupt", ("canceled", "interrupt")),
    (["inner"], "failed", None, ("canceled", "interrupt")),
]


@pytest.mark.contract("D5", "X9", "X13")
@pytest.mark.parametrize(("sessions", "status", "cause", "inner"), NESTED)
async def test_each_of_two_nested_turns_takes_its_own_cancel_back(
    sessions: list[str], status: str, cause: str | None, inner: tuple[str, str | None]
) -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Nested(scheduler)
        await quiet()
        for session_id in sessions:
            scheduler.cancel(session_id)
        assert await host.fate() == ("RunCanceled", status, cause, 0)
        assert end_of(host.inner._run) == inner
        error = await host.error()
        assert isinstance(error, RunCanceled)
        assert error.session_id == ("chat" if "chat" in sessions else "inner")


@pytest.mark.contract("X1")
async def test_a_host_inside_of_one_turn_that_waits_for_another_is_reached_by_a_cancel() -> None:
    async with Scheduler(Agent()) as scheduler:
        blocker = scheduler.submit("inner", "blocker")
        host = Nested(scheduler)
        await quiet()
        scheduler.cancel("chat")
        assert await host.fate() == ("RunCanceled", "canceled", "interrupt", 0)
        assert end_of(host.inner._run) == ("canceled", "withdrawn")
        assert blocker.state == "active"


@pytest.mark.contract("X13")
async def test_a_cancel_that_strikes_in_the_inner_turn_is_from_outside_there() -> None:
    async with Scheduler(Agent()) as scheduler:
        inner = scheduler.turn("inner", "nested")

        async def cancels_itself_and_goes_on(host: Host) -> None:
            scheduler.cancel("chat")
            async with inner:  # comes at once: the cancel is not delivered yet
                await waits(host)

        host = Host(scheduler, cancels_itself_and_goes_on)
        assert await host.fate() == ("RunCanceled", "canceled", "interrupt", 0)
        assert end_of(inner._run) == ("suspended", "external")


# --- asyncio.timeout ---


async def times_out(host: Host) -> None:
    async with asyncio.timeout(5):
        await waits(host)


@pytest.mark.contract("X13")
async def test_a_timeout_in_the_body_is_the_bodys_own_error() -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, times_out)
        assert await host.fate() == ("TimeoutError", "failed", None, 0)


@pytest.mark.contract("X1")
@pytest.mark.parametrize("deadline", [4, 5])
async def test_a_cancel_goes_through_a_timeout_in_the_body_even_in_the_same_tick(
    deadline: float,
) -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, times_out, deadline=deadline)
        assert await host.fate() == ("RunCanceled", "canceled", "deadline", 0)


@pytest.mark.contract("X13")
@pytest.mark.parametrize(
    ("deadline", "error", "end"),
    [
        (None, TimeoutError, ("suspended", "external")),
        (4, RunCanceled, ("canceled", "deadline")),
        (5, TimeoutError, ("canceled", "deadline")),
    ],
)
async def test_a_timeout_around_a_turn_stops_it_like_any_cancel_from_outside(
    deadline: float | None, error: type[Exception], end: tuple[str, str | None]
) -> None:
    me = asyncio.current_task()
    assert me is not None
    async with Scheduler(Agent()) as scheduler:
        turn = scheduler.turn("chat", "me", deadline=deadline)
        with pytest.raises(error):
            async with asyncio.timeout(5), turn:
                await asyncio.sleep(1000)
        assert me.cancelling() == 0
        assert end_of(turn._run) == end
        await quiet(3)  # nothing strikes later


# --- asyncio.TaskGroup ---


@pytest.mark.contract("X1", "X6")
async def test_a_cancel_stops_the_children_of_a_group_in_the_body() -> None:
    stopped: list[int] = []

    async def child(number: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            stopped.append(number)

    async def body(_host: Host) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(2):
                group.create_task(child(number))

    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, body)
        await quiet()
        scheduler.cancel("chat")
        assert await host.fate() == ("RunCanceled", "canceled", "interrupt", 0)
        assert sorted(stopped) == [0, 1]


async def fails_later() -> None:
    await asyncio.sleep(5)
    raise ValueError("the child's own")


@pytest.mark.contract("X13")
async def test_a_child_that_fails_stops_the_turn_of_its_group_from_outside() -> None:
    me = asyncio.current_task()
    assert me is not None
    async with Scheduler(Agent()) as scheduler:
        turn = scheduler.turn("chat", "me")

        async def take_it_in_a_group() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails_later())
                async with turn:
                    await asyncio.sleep(1000)

        with pytest.raises(ExceptionGroup) as caught:
            await take_it_in_a_group()
        assert [type(error) for error in caught.value.exceptions] == [ValueError]
        assert end_of(turn._run) == ("suspended", "external")
        assert me.cancelling() == 0
        await quiet(3)


async def test_a_canceled_turn_in_a_child_ends_the_group_as_any_error_does() -> None:
    async with Scheduler(Agent()) as scheduler:

        async def child(session_id: str) -> None:
            async with scheduler.turn(session_id, "me", run_id=session_id):
                await asyncio.sleep(1000)

        async def cancel_a() -> None:
            await quiet()
            scheduler.cancel("a")

        async def take_both_in_a_group() -> None:
            async with asyncio.TaskGroup() as group:
                for session_id in "ab":
                    group.create_task(child(session_id))
                group.create_task(cancel_a())

        with pytest.raises(ExceptionGroup) as caught:
            await take_both_in_a_group()
        assert [type(error) for error in caught.value.exceptions] == [RunCanceled]
        sibling = scheduler.submit("b", "me", run_id="b")
        assert await ends(sibling) == [("suspended", "external")]


# --- X8: bodies that don't stop ---


def hard_to_stop(times: int) -> Callable[[Host], Awaitable[None]]:
    """Don't care for so many cancels."""

    async def body(host: Host) -> None:
        for _ in range(times):
            try:
                await waits(host)
            except asyncio.CancelledError:
                continue
        await waits(host)

    return body


@pytest.mark.contract("X8")
async def test_a_body_that_does_not_stop_is_canceled_again_after_every_grace() -> None:
    agent = Agent()
    async with Scheduler(agent, grace=5) as scheduler, watching(scheduler) as watch:
        host = Host(scheduler, hard_to_stop(3))
        await quiet()
        scheduler.cancel("chat")
        after = scheduler.submit("chat", "after")
        await asyncio.sleep(12)
        assert agent.started == []
        assert await host.fate() == ("RunCanceled", "canceled", "interrupt", 0)
        assert [(it.told, it.at) for it in watch.of(RunStuck)] == [(1, 5), (2, 10), (3, 15)]
        await quiet()
        assert after.state == "active"


@pytest.mark.contract("X8")
@pytest.mark.parametrize(
    ("cancels", "fate"),
    [
        (3, (None, "canceled", "interrupt", 0)),  # it swallowed them all, and came to its end
        (2, ("RunCanceled", "canceled", "interrupt", 0)),  # the last one has stopped it
    ],
)
async def test_a_body_that_was_abandoned_goes_on_and_its_cancels_are_still_taken_back(
    cancels: int, fate: tuple[str | None, str, str | None, int]
) -> None:
    agent = Agent()
    async with Scheduler(agent, grace=5, abandon_after=7) as scheduler:
        host = Host(scheduler, hard_to_stop(cancels))
        await quiet()
        scheduler.cancel("chat")
        after = scheduler.submit("chat", "after")
        agent.finish("after")
        assert await ends(after) == [("completed", None)]
        assert asyncio.get_running_loop().time() == 7
        assert host.outcome.abandoned
        host.leave()
        assert await host.fate() == fate
        assert end_of(host.run) == ("canceled", "interrupt")
