"""A cancel can't stop a thread: the run carries it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from thread_tools import NEVER_S, PATIENCE_S, Agent, Clock, come, ends, spawn

from sessionsched import Cause, RunCanceled, Status, ThreadScheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import ThreadRun

CANCELED = ("canceled", "interrupt")


# --- canceled, and raise_if_canceled ---


def test_a_run_is_not_canceled_before_somebody_says_so() -> None:
    def handler(run: ThreadRun[str]) -> bool:
        run.raise_if_canceled()
        return run.canceled

    with ThreadScheduler(handler) as scheduler:
        assert scheduler.submit("chat", "a").result(PATIENCE_S) is False


def cancel(scheduler: ThreadScheduler[str, str], _: Clock) -> None:
    scheduler.cancel("chat")


def interrupt(scheduler: ThreadScheduler[str, str], _: Clock) -> None:
    scheduler.submit("chat", "b", when_busy=WhenBusy.INTERRUPT)


def close(scheduler: ThreadScheduler[str, str], _: Clock) -> None:
    scheduler.close()


def leave(scheduler: ThreadScheduler[str, str], clock: Clock) -> None:
    """Its deadline comes."""
    clock.move(scheduler, NEVER_S)


@pytest.mark.contract("X12")
@pytest.mark.parametrize(
    ("stop", "cause"),
    [
        (cancel, Cause.INTERRUPT),
        (interrupt, Cause.SUPERSEDED),
        (close, Cause.SHUTDOWN),
        (leave, Cause.DEADLINE),
    ],
)
def test_raise_if_canceled_says_why(
    stop: Callable[[ThreadScheduler[str, str], Clock], None],
    cause: Cause,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[RunCanceled] = []
    inside = threading.Event()

    def handler(run: ThreadRun[str]) -> str:
        if run.prompt == "a":
            inside.set()
            assert run.wait_canceled(PATIENCE_S)
            with pytest.raises(RunCanceled) as caught:
                run.raise_if_canceled()
            raised.append(caught.value)
        return run.prompt

    clock = Clock(monkeypatch)
    with ThreadScheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a", deadline=NEVER_S)
        come(inside)
        stop(scheduler, clock)
        outcome = handle.outcome(PATIENCE_S)
    error = raised[0]
    assert (error.cause, error.session_id, error.run_id) == (cause, "chat", handle.run_id)
    assert error.outcome is None
    assert str(cause) in str(error)
    assert outcome.cause is (None if cause is Cause.SHUTDOWN else cause), "what returned is kept"


@pytest.mark.parametrize(
    "cause", [Cause.EXPIRED, Cause.WITHDRAWN, Cause.UNPREPARED, Cause.INTERRUPT, Cause.SHUTDOWN]
)
def test_raise_if_canceled_says_why_a_run_was_dropped(cause: Cause) -> None:
    causes: list[Cause | None] = []

    def on_dropped(run: ThreadRun[str]) -> None:
        with pytest.raises(RunCanceled) as caught:
            run.raise_if_canceled()
        causes.append(caught.value.cause)

    with ThreadScheduler(Agent(), on_dropped=on_dropped) as scheduler:
        wait_at_most = 0.01 if cause is Cause.EXPIRED else None
        ticket = scheduler.accept("chat", "a", wait_at_most=wait_at_most)
        if cause is Cause.WITHDRAWN:
            ticket.close()
        elif cause is Cause.UNPREPARED:
            ticket.close(ValueError("no"))
        elif cause is Cause.INTERRUPT:
            ticket.handle.cancel()
        if cause is Cause.SHUTDOWN:
            scheduler.close()
        ticket.handle.outcome(PATIENCE_S)
    assert causes == [cause]


# --- wait_canceled ---


def ask(timeout: float | None) -> tuple[list[bool], ThreadScheduler[str, None], threading.Event]:
    """A scheduler whose handler waits once, after the event."""
    answers: list[bool] = []
    go = threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        come(go)
        answers.append(run.wait_canceled(timeout))

    return answers, ThreadScheduler(handler), go


def test_wait_canceled_is_over_at_once_when_the_cancel_came_before() -> None:
    answers, scheduler, go = ask(None)
    with scheduler:
        handle = scheduler.submit("chat", "a")
        handle.cancel()
        go.set()
        assert ends(handle) == [CANCELED]
    assert answers in ([True], []), "it may have been skipped"


@pytest.mark.parametrize("timeout", [None, NEVER_S])
def test_wait_canceled_is_ended_by_the_cancel(timeout: float | None) -> None:
    answers: list[bool] = []
    inside = threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        assert not run.wait_canceled(0)
        inside.set()
        answers.append(run.wait_canceled(timeout))

    with ThreadScheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        come(inside)
        handle.cancel()
        assert ends(handle) == [CANCELED]
    assert answers == [True]


@pytest.mark.parametrize("timeout", [0, 0.001, -1])
def test_wait_canceled_ends_after_its_time_without_a_cancel(timeout: float) -> None:
    answers, scheduler, go = ask(timeout)
    with scheduler:
        go.set()
        assert ends(scheduler.submit("chat", "a")) == [("completed", None)]
    assert answers == [False]


def test_wait_canceled_of_a_canceled_run_that_has_ended_is_over_at_once() -> None:
    agent = Agent()
    with ThreadScheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        handle.cancel()
        handle.outcome(PATIENCE_S)
    assert spawn(agent.runs["a"].wait_canceled).result(PATIENCE_S)


def test_any_number_of_threads_wait_for_one_cancel() -> None:
    agent = Agent()
    with ThreadScheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        others = [spawn(agent.runs["a"].wait_canceled, PATIENCE_S) for _ in range(5)]
        handle.cancel()
        assert [other.result(PATIENCE_S) for other in others] == [True] * 5


class Aside:
    """Somebody who works for a run that its handler has not, and wants to know of its cancel."""

    def __init__(self) -> None:
        self.inside, self.called, self.woken = (threading.Event() for _ in range(3))

    def __call__(self, run: ThreadRun[str]) -> None:
        run.on_cancel(self.called.set)
        self.inside.set()
        run.wait_canceled()
        self.woken.set()


def test_a_preparation_is_told_when_its_run_is_canceled() -> None:
    aside = Aside()
    with ThreadScheduler(Agent(), prepare=aside, grace=0.01) as scheduler:
        handle = scheduler.submit("chat", "a")
        come(aside.inside)
        handle.cancel()
        come(aside.woken)
        come(aside.called)


def test_on_dropped_is_told_at_once_that_its_run_is_canceled() -> None:
    aside = Aside()
    with ThreadScheduler(Agent(), on_dropped=aside) as scheduler:
        ticket = scheduler.accept("chat", "a")
        ticket.handle.cancel()
        assert ends(ticket.handle) == [CANCELED]
    assert aside.woken.is_set()
    assert aside.called.is_set()


def test_a_follow_up_carries_the_cancel_of_the_run_that_took_it() -> None:
    aside = Aside()
    inside, go = threading.Event(), threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        inside.set()
        come(go)
        for other in run.take_follow_ups():
            aside(other)  # type: ignore[arg-type]

    with ThreadScheduler(handler, grace=0.01, abandon_after=0.01) as scheduler:
        scheduler.submit("chat", "a")
        come(inside)
        scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
        go.set()
        come(aside.inside)
        scheduler.cancel("chat")
        come(aside.woken)
        come(aside.called)


# --- what a handler raises ---


@pytest.mark.parametrize("error", [KeyboardInterrupt("now"), SystemExit(3), GeneratorExit()])
def test_what_would_end_a_program_ends_the_run_and_the_thread_lives_on(
    error: BaseException,
) -> None:
    threads: list[threading.Thread] = []

    def handler(run: ThreadRun[str]) -> str:
        threads.append(threading.current_thread())
        if run.prompt == "a":
            raise error
        return "done"

    with ThreadScheduler(handler, threads=1) as scheduler:
        outcome = scheduler.submit("chat", "a").outcome(PATIENCE_S)
        assert (outcome.status, outcome.error) == (Status.FAILED, error)
        assert scheduler.submit("chat", "b").result(PATIENCE_S) == "done"
    assert threads[0] is threads[1]


def canceled_like(run: ThreadRun[str], run_id: str) -> RunCanceled:
    return RunCanceled("stop", run.session_id, run_id, None, Cause.INTERRUPT)


def test_a_run_canceled_of_its_own_that_nobody_asked_for_is_a_failure() -> None:
    def handler(run: ThreadRun[str]) -> None:
        raise canceled_like(run, run.run_id)

    with ThreadScheduler(handler) as scheduler:
        outcome = scheduler.submit("chat", "a").outcome(PATIENCE_S)
    assert outcome.status is Status.FAILED
    assert isinstance(outcome.error, RunCanceled)


@pytest.mark.contract("X6")
@pytest.mark.parametrize("mine", [True, False])
def test_a_canceled_run_keeps_an_error_unless_it_is_its_own_cancel(mine: bool) -> None:  # noqa: FBT001
    inside = threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        inside.set()
        run.wait_canceled(PATIENCE_S)
        raise canceled_like(run, run.run_id if mine else "another")

    with ThreadScheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        come(inside)
        handle.cancel()
        assert ends(handle) == [CANCELED]
        error = handle.outcome().error
    assert (error is None) is mine
    if error is not None:
        assert isinstance(error, RunCanceled)
        assert error.run_id == "another"


@pytest.mark.contract("X6")
def test_what_a_canceled_handler_returns_is_kept() -> None:
    agent = Agent(stubborn=True)
    with ThreadScheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        handle.cancel()
        agent.finish("a")
        assert ends(handle) == [CANCELED]
        assert handle.outcome().result == "a done"
