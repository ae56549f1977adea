"""Waiting for a run: any number may, and each gets its value or what kept it from having one."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any, cast

import pytest
from agents import Agent, ends, quiet

from sessionsched import (
    Cause,
    RunCanceled,
    RunNotCompleted,
    RunState,
    RunSuspended,
    Scheduler,
    Status,
    Ticket,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run, RunHandle
    from sessionsched.aio.run import AioRun

held: contextvars.ContextVar[Token] = contextvars.ContextVar("held")

WITHDRAWN = ("canceled", "withdrawn")


async def error_of(handle: RunHandle[str, Any]) -> BaseException:
    """What waiting for the value raises."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - the tests look at it
        await handle
    return caught.value


# --- the value ---


async def test_any_number_of_tasks_may_wait_and_each_gets_the_value() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        early = [asyncio.ensure_future(handle) for _ in range(3)]
        await quiet()
        agent.finish("a")
        assert await asyncio.gather(*early, handle) == ["a done"] * 4
        assert await handle == "a done", "also long after"
        assert (await handle.outcome()).result == "a done"
        assert await handle.outcome() == await handle.outcome()


async def test_an_end_in_the_first_step_is_known_in_that_very_turn_of_the_loop() -> None:
    agent = Agent()
    agent.finish("a")
    turns: list[str] = []

    def turn() -> None:
        turns.append("one more")
        if len(turns) == 1:
            asyncio.get_running_loop().call_soon(turn)

    async with Scheduler(agent) as scheduler:
        asyncio.get_running_loop().call_soon(turn)
        assert await scheduler.submit("chat", "a") == "a done"
        assert turns == ["one more"]


async def test_who_waits_for_a_handler_that_goes_on_is_told_once_when_it_ends() -> None:
    """Also whoever began to wait before its first step, and found it still going after that."""
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        waiting = [asyncio.ensure_future(handle.outcome()) for _ in range(2)]
        await quiet()
        assert not any(task.done() for task in waiting)
        agent.finish("a")
        assert [(await task).result for task in waiting] == ["a done"] * 2


async def test_who_waits_for_a_run_in_line_or_a_handler_that_has_begun_waits_for_the_end() -> None:
    """Only a handler that is about to be called is given a turn of the loop before that."""
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        await quiet()
        waiting = [asyncio.ensure_future(handle.outcome()) for handle in handles]
        await asyncio.sleep(0)
        assert all(cast("AioRun[str]", handle).waiter for handle in handles)
        for prompt in "ab":
            agent.finish(prompt)
        assert [(await task).result for task in waiting] == ["a done", "b done"]


async def test_who_gives_up_before_the_first_step_leaves_the_run_alone() -> None:
    agent = Agent()
    agent.finish("a")
    handles: list[RunHandle[str, str]] = []

    async def submit_and_wait() -> None:
        handles.append(scheduler.submit("chat", "a"))
        await handles[0].outcome()

    async with Scheduler(agent) as scheduler:
        impatient = asyncio.ensure_future(submit_and_wait())
        await asyncio.sleep(0)
        [handle] = handles
        assert (handle.state, agent.log) == (RunState.ACTIVE, [])
        impatient.cancel()
        assert await handle == "a done"
        assert impatient.cancelled()


async def test_waiting_with_a_timeout_leaves_the_run_alone() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle, 3)
        assert handle.state is RunState.ACTIVE
        assert handle.run.waiter is None, "who gave up is forgotten"  # type: ignore[attr-defined]
        agent.finish("a")
        assert await handle == "a done"


async def test_what_the_handler_raised_is_raised_where_its_value_is_wanted() -> None:
    agent, error = Agent(), ValueError("no")
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        agent.fail("a", error)
        assert await error_of(handle) is error
        assert await error_of(handle) is error
        outcome = await handle.outcome()
        assert (outcome.status, outcome.error, outcome.result) == (Status.FAILED, error, None)


async def test_a_canceled_run_has_no_value_but_an_outcome_that_says_why() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        scheduler.cancel("chat")
        for handle in (active, waiting):
            error = await error_of(handle)
            assert isinstance(error, RunCanceled)
            assert (error.session_id, error.run_id) == ("chat", handle.run_id)
            assert (error.cause, error.outcome) == (Cause.INTERRUPT, await handle.outcome())
            assert "canceled: interrupt" in str(error)


async def test_a_suspended_run_is_no_canceled_one() -> None:
    scheduler = Scheduler(Agent())
    handle = scheduler.submit("chat", "a")
    await quiet()
    await scheduler.close()
    error = await error_of(handle)
    assert type(error) is RunSuspended
    assert error.cause is Cause.SHUTDOWN


@pytest.mark.contract("X6")
async def test_what_a_canceled_handler_raised_is_the_cause_of_the_error() -> None:
    error = ValueError("while it unwound")

    async def handler(run: Run[str]) -> None:
        try:
            await asyncio.sleep(9)
        finally:
            raise error

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        handle.cancel()
        raised = await error_of(handle)
        assert isinstance(raised, RunCanceled)
        assert raised.__cause__ is error


@pytest.mark.parametrize("inside", [asyncio.CancelledError(), KeyboardInterrupt()], ids=repr)
async def test_an_error_that_would_strike_the_waiter_does_not(inside: BaseException) -> None:
    async def handler(run: Run[str]) -> None:
        raise AssertionError("it is never ready")

    async with Scheduler(handler) as scheduler:
        ticket = scheduler.accept("chat", "a")
        ticket.close(inside)
        error = await error_of(ticket.handle)
        assert type(error) is RunNotCompleted
        assert (error.__cause__, error.cause) == (inside, Cause.UNPREPARED)
        assert (await ticket.handle.outcome()).status is Status.FAILED


async def test_a_cancel_that_the_handler_made_up_does_not_cancel_its_waiters() -> None:
    async def handler(run: Run[str]) -> None:
        raise asyncio.CancelledError("mine")

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        waiter = asyncio.ensure_future(handle)
        error = await error_of(handle)
        assert type(error) is RunNotCompleted
        assert "failed: CancelledError('mine')" in str(error)
        assert isinstance(error.__cause__, asyncio.CancelledError)
        await asyncio.wait([waiter])
        assert not waiter.cancelled()
        assert type(waiter.exception()) is RunNotCompleted


async def test_an_error_does_not_grow_with_the_number_of_those_who_waited() -> None:
    def frames(error: BaseException | None) -> int:
        count, trace = 0, error.__traceback__ if error else None
        while trace is not None:
            count, trace = count + 1, trace.tb_next
        return count

    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        agent.fail("a", ValueError("no"))
        depths = {frames(await error_of(handle)) for _ in range(5)}
    assert len(depths) == 1, "it keeps the frames of everybody who was told"


class Token:
    """Something big in a submitter's context."""


async def test_a_run_that_has_ended_keeps_neither_its_task_nor_its_context() -> None:
    async with Scheduler(Agent()) as scheduler:

        def submit() -> tuple[RunHandle[str, str], weakref.ref[Token]]:
            held.set(Token())
            return scheduler.submit("chat", "a"), weakref.ref(held.get())

        handle, token = contextvars.Context().run(submit)
        await quiet()
        assert token() is not None, "its handler may want it"
        handle.cancel()
        await handle.outcome()
        await quiet()
        gc.collect()
        assert token() is None


# --- tickets, and the loop ---


def in_a_thread(call: Callable[[], object]) -> object:
    """Do it in another thread, and give what it gave."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join(10)
    [answer] = answers
    return answer


@pytest.mark.contract("D3", "R4")
@pytest.mark.real_loop
async def test_a_ticket_may_be_made_ready_or_given_back_in_another_thread() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        given = in_a_thread(lambda: scheduler.accept("chat", "given back"))
        ready = in_a_thread(lambda: scheduler.accept("chat", "a"))
        assert isinstance(given, Ticket)
        assert isinstance(ready, Ticket)
        assert in_a_thread(ready.ready) is True
        await quiet()
        assert agent.started == [], "it stands behind one that is not ready"
        assert in_a_thread(given.close) is True
        agent.finish("a")
        assert await ends(given.handle) == [WITHDRAWN]
        assert await ready.handle == "a done"


@pytest.mark.contract("A6", "D3")
@pytest.mark.parametrize("thread", [False, True], ids=["own thread", "another thread"])
@pytest.mark.real_loop
async def test_a_ticket_that_is_lost_is_given_back_with_a_warning(*, thread: bool) -> None:
    agent = Agent()

    def lose() -> None:
        lost.pop()
        gc.collect()

    async with Scheduler(agent) as scheduler:
        lost = [scheduler.accept("chat", "lost")]
        handle = lost[0].handle
        behind = scheduler.submit("chat", "b")
        with pytest.warns(ResourceWarning, match="unclosed <Ticket of <Run run-1 of 'chat'"):
            in_a_thread(lose) if thread else lose()
        agent.finish("b")
        assert await ends(handle) == [WITHDRAWN]
        assert await behind == "b done"


@pytest.mark.filterwarnings("error::ResourceWarning")
async def test_a_ticket_that_is_lost_is_given_back_also_where_warnings_are_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda it: said.append(it.exc_type))
    async with Scheduler(Agent()) as scheduler:
        lost = [scheduler.accept("chat", "lost")]
        handle = lost[0].handle
        lost.clear()
        gc.collect()
        await quiet()
        assert handle.state is RunState.ENDED, "its session is stranded"
    assert said == [ResourceWarning]
