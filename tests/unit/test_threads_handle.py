"""Handles and tickets, held by threads."""

from __future__ import annotations

import gc
import math
import sys
import threading
import warnings
from typing import TYPE_CHECKING

import pytest
from thread_tools import PATIENCE_S, Agent, come, ends, spawn, until

from sessionsched import Cause, RunCanceled, RunNotCompleted, RunState, RunSuspended, Status
from sessionsched import ThreadScheduler as Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionsched import ThreadRun

COMPLETED = ("completed", None)
WITHDRAWN = ("canceled", "withdrawn")


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def scheduler(agent: Agent) -> Iterator[Scheduler[str, str]]:
    with Scheduler(agent) as scheduler:
        yield scheduler


# --- waiting for the end ---


@pytest.mark.parametrize("timeout", [0, 0.001, -1])
def test_a_run_that_has_not_ended_in_time_goes_on(
    agent: Agent, scheduler: Scheduler[str, str], timeout: float
) -> None:
    handle = scheduler.submit("chat", "a")
    for wait in (handle.outcome, handle.result):
        with pytest.raises(TimeoutError, match="run-1"):
            wait(timeout)
    agent.finish("a")
    assert handle.result(PATIENCE_S) == "a done"


@pytest.mark.parametrize("timeout", [1e12, math.inf])
def test_a_time_that_is_longer_than_any_lock_can_wait_is_no_limit(
    agent: Agent, scheduler: Scheduler[str, str], timeout: float
) -> None:
    handle = scheduler.submit("chat", "a")
    waiting = spawn(handle.outcome, timeout)
    agent.finish("a")
    assert waiting.result(PATIENCE_S) == handle.outcome()


def test_who_gave_up_waiting_leaves_nothing_behind(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    handle = scheduler.submit("chat", "a")
    agent.started("a")
    for _ in range(100):
        with pytest.raises(TimeoutError):
            handle.outcome(0)
    assert agent.runs["a"].waiters == []
    assert scheduler._driver.waits._runs == {}


def test_any_number_of_threads_wait_for_the_same_end(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    handle = scheduler.submit("chat", "a")
    agent.started("a")
    waiting = [spawn(handle.result, PATIENCE_S) for _ in range(10)]
    until(lambda: len(agent.runs["a"].waiters or ()) == 10)
    agent.finish("a")
    assert [it.result(PATIENCE_S) for it in waiting] == ["a done"] * 10
    assert agent.runs["a"].waiters == []


def test_a_timeout_is_not_looked_at_when_the_run_has_ended(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    agent.finish("a")
    handle = scheduler.submit("chat", "a")
    outcome = handle.outcome(PATIENCE_S)
    assert handle.outcome(0) == outcome
    assert handle.result(0) == "a done"


def test_result_raises_what_the_handler_raised_as_it_was_raised() -> None:
    error = ValueError("no")

    def handler(run: ThreadRun[str]) -> None:
        raise error

    with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        depths = []
        for _ in range(3):
            with pytest.raises(ValueError, match="no") as caught:
                handle.result(PATIENCE_S)
            assert caught.value is error
            depths.append(len(caught.traceback))
    assert len(set(depths)) == 1, "the frames of those who were told don't pile up"


@pytest.mark.parametrize(
    ("end", "kind"), [("cancel", RunCanceled), ("close", RunSuspended), ("exit", RunNotCompleted)]
)
def test_result_says_why_there_is_none(end: str, kind: type[RunNotCompleted]) -> None:
    inside = threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        inside.set()
        if end == "exit":
            raise KeyboardInterrupt
        run.wait_canceled(PATIENCE_S)
        run.raise_if_canceled()

    with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        come(inside)
        if end == "cancel":
            handle.cancel()
        elif end == "close":
            scheduler.close()
        with pytest.raises(kind) as caught:
            handle.result(PATIENCE_S)
    assert type(caught.value) is kind
    assert caught.value.outcome == handle.outcome()


# --- tickets ---


@pytest.mark.contract("R4")
def test_a_ticket_is_made_ready_by_another_thread(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    agent.finish("a")
    ticket = scheduler.accept("chat", "a")
    assert spawn(ticket.ready).result(PATIENCE_S)
    assert ticket.handle.result(PATIENCE_S) == "a done"
    assert not ticket.ready()


@pytest.mark.contract("R4")
def test_a_ticket_is_given_back_by_another_thread(scheduler: Scheduler[str, str]) -> None:
    ticket = scheduler.accept("chat", "a")
    assert spawn(ticket.close).result(PATIENCE_S)
    assert ends(ticket.handle) == [WITHDRAWN]


def test_of_ready_and_close_at_once_one_counts(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    for number in range(50):
        prompt = str(number)
        agent.finish(prompt)
        ticket = scheduler.accept("chat", prompt)
        answers = [spawn(it) for it in (ticket.ready, ticket.close)]
        ready, closed = (it.result(PATIENCE_S) for it in answers)
        assert ready is not closed
        assert ends(ticket.handle) == [COMPLETED if ready else WITHDRAWN]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_ticket_that_is_left_by_an_error_is_given_back(
    scheduler: Scheduler[str, str], error: BaseException
) -> None:
    with pytest.raises(type(error)), scheduler.accept("chat", "a") as ticket:
        raise error
    outcome = ticket.handle.outcome(PATIENCE_S)
    if isinstance(error, Exception):
        assert (outcome.status, outcome.error) == (Status.FAILED, error)
    else:
        assert outcome.cause is Cause.WITHDRAWN


def test_a_ticket_that_nobody_makes_ready_in_time_fails(agent: Agent) -> None:
    with Scheduler(agent, prepare_timeout=0.01) as scheduler:
        ticket = scheduler.accept("chat", "a")
        outcome = ticket.handle.outcome(PATIENCE_S)
    assert outcome.status is Status.FAILED
    assert isinstance(outcome.error, TimeoutError)


def test_a_ticket_that_is_lost_is_withdrawn_with_a_warning(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    agent.finish("b")
    ticket = scheduler.accept("chat", "a")
    handle = ticket.handle
    behind = scheduler.submit("chat", "b")
    with pytest.warns(ResourceWarning, match="unclosed <ThreadTicket"):  # noqa: PT031
        del ticket
        gc.collect()
    assert ends(handle, behind) == [WITHDRAWN, COMPLETED]


def test_a_ticket_that_is_lost_is_withdrawn_when_warnings_are_errors(
    scheduler: Scheduler[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: complaints.append(it.exc_type))
    ticket = scheduler.accept("chat", "a")
    handle = ticket.handle
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del ticket
        gc.collect()
    assert ends(handle) == [WITHDRAWN]
    assert complaints == [ResourceWarning]


class Circle:
    """Something that only the collector finds."""

    def __init__(self, ticket: object) -> None:
        self.ticket = ticket
        self.me = self


def test_a_ticket_that_is_collected_under_any_lock_does_not_deadlock(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    """The collector comes when it likes: also while this very thread holds a lock."""
    agent.finish("b", "c")
    handles = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            lost = Circle(scheduler.accept("chat", "a"))
            handles.append(lost.ticket.handle)  # type: ignore[attr-defined]
            del lost

        def collect() -> None:
            driver = scheduler._driver
            locks = (
                driver.table._sessions["chat"].lock, driver.hub._lock, driver.guard,
                driver.waits._lock, driver.handlers._lock, driver._timers_thread._changed,
            )  # fmt: skip
            for lock in locks:
                lock.acquire()
            try:
                gc.collect()
                assert {it.state for it in handles} == {RunState.ACCEPTED}
            finally:
                for lock in locks:
                    lock.release()

        spawn(collect).result(PATIENCE_S)
    assert ends(*handles) == [WITHDRAWN] * 3
    assert ends(scheduler.submit("chat", "b")) == [COMPLETED]


def test_a_ticket_of_a_repeated_accept_is_not_its_to_give_back(
    agent: Agent, scheduler: Scheduler[str, str]
) -> None:
    agent.finish("a")
    ticket = scheduler.accept("chat", "a", run_id="mine")
    again = scheduler.accept("chat", "a", run_id="mine")
    assert not again.close()
    del again
    gc.collect()
    assert ticket.ready()
    assert ends(ticket.handle) == [COMPLETED]
