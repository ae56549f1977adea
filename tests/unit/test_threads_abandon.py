"""A handler that goes on after every cancel: waited for, or left behind with its thread."""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import (
    PATIENCE_S,
    Agent,
    Overtaken,
    all_gone,
    answer,
    come,
    ends,
    none_left,
    ours,
    slow_to_begin,
    spawn,
    until,
)

from sessionsched import Limits, RunEnded, RunStuck, ThreadScheduler

if TYPE_CHECKING:
    from sessionsched import ThreadRun
    from sessionsched.threads import ThreadHandle

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


def make(agent: Agent, threads: int = 1, limits: Limits | None = None) -> ThreadScheduler[str, str]:
    return ThreadScheduler(agent, threads=threads, limits=limits, grace=0.005, abandon_after=0.01)


def abandon(
    scheduler: ThreadScheduler[str, str], agent: Agent, prompt: str = "a"
) -> ThreadHandle[str, str]:
    handle = scheduler.submit("chat", prompt)
    agent.started(prompt)
    handle.cancel()
    assert ends(handle) == [CANCELED]
    assert handle.outcome().abandoned
    return handle


class Located(Agent):
    """A stubborn one that says in which thread it is."""

    def __init__(self) -> None:
        super().__init__(stubborn=True)
        self.threads: dict[str, threading.Thread] = {}

    def __call__(self, run: ThreadRun[str]) -> str:
        self.threads[run.prompt] = threading.current_thread()
        return super().__call__(run)


@pytest.mark.contract("X8")
def test_the_thread_of_an_abandoned_handler_is_replaced_and_its_session_goes_on() -> None:
    agent = Located()
    with make(agent) as scheduler:
        abandon(scheduler, agent)
        agent.finish("b")
        assert ends(scheduler.submit("chat", "b")) == [COMPLETED]
        assert agent.threads["b"] is not agent.threads["a"]
        agent.finish("a")


@pytest.mark.contract("X8")
def test_the_slot_of_an_abandoned_handler_is_given_to_whoever_waits() -> None:
    agent = Located()
    with make(agent, 3, Limits(max_active=1)) as scheduler:
        scheduler.submit("chat", "a")
        agent.started("a")
        agent.finish("b")
        other = scheduler.submit("another", "b")
        scheduler.cancel("chat")
        assert ends(other) == [COMPLETED]
        agent.finish("a")


def test_every_thread_can_be_abandoned_and_there_are_as_many_as_before() -> None:
    agent = Located()
    with make(agent, 2) as scheduler:
        for prompt in "abcd":
            abandon(scheduler, agent, prompt)
        names = "efgh"
        handles = [scheduler.submit(name, name) for name in names]
        agent.started("e", "f")
        assert len(scheduler._driver.handlers._members) == 2
        agent.finish(*names, *"abcd")
        assert ends(*handles) == [COMPLETED] * 4


@pytest.mark.contract("T1")
def test_what_an_abandoned_handler_returns_is_ignored() -> None:
    agent = Located()
    with make(agent) as scheduler, scheduler.subscribe() as events:
        handle = abandon(scheduler, agent)
        before = handle.outcome()
        agent.finish("a")
        agent.threads["a"].join(PATIENCE_S)
        assert handle.outcome() == before
        assert before.result is None
        scheduler.close()
        assert len([it for it in events if isinstance(it, RunEnded)]) == 1


def test_the_thread_of_an_abandoned_handler_leaves_when_it_is_over() -> None:
    agent = Located()
    with make(agent) as scheduler:
        abandon(scheduler, agent)
        agent.finish("a")
        agent.threads["a"].join(PATIENCE_S)
        assert not agent.threads["a"].is_alive()
        assert scheduler.close().still_going == ()


@pytest.mark.contract("S1")
def test_a_close_reports_who_is_still_going_and_does_not_wait_for_it() -> None:
    agent = Located()
    scheduler = make(agent)
    handle = abandon(scheduler, agent)
    assert answer(scheduler.close).still_going == (handle.run,)
    assert agent.threads["a"] in ours()
    agent.finish("a")
    all_gone()


@pytest.mark.contract("S7")
def test_a_close_waits_for_the_thread_of_an_abandoned_handler_that_is_over() -> None:
    agent = Located()
    scheduler = make(agent)
    abandon(scheduler, agent)
    leaving, go = threading.Event(), threading.Event()

    def finish(*_: object) -> None:  # its end is of no interest any longer
        leaving.set()
        come(go)

    scheduler._driver.finish = finish  # type: ignore[method-assign,assignment]
    agent.finish("a")
    come(leaving)
    closing = spawn(scheduler.close)
    come(scheduler._driver._closed)
    with pytest.raises(FutureTimeout):
        closing.result(0.01)
    go.set()
    assert closing.result(PATIENCE_S).still_going == ()
    none_left()


def test_a_close_is_done_as_soon_as_the_last_abandoned_handler_is_over() -> None:
    agent = Located()
    scheduler = ThreadScheduler(agent, grace=1000, abandon_after=0)
    abandon(scheduler, agent)
    closing = spawn(scheduler.close)
    agent.finish("a")
    assert closing.result(PATIENCE_S).still_going == ()


def test_an_abandoned_handler_can_close_the_scheduler() -> None:
    going, go = threading.Event(), threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        going.set()
        come(go)
        closed.append(scheduler.close().still_going)

    closed: list[tuple[object, ...]] = []
    scheduler = ThreadScheduler(handler, grace=0.01, abandon_after=0.01)
    handle = scheduler.submit("chat", "a")
    come(going)
    handle.cancel()
    handle.outcome(PATIENCE_S)
    go.set()
    answer(scheduler.close)
    assert [it.still_going for it in [answer(scheduler.close)]] == [(handle.run,)]
    assert closed in ([], [(handle.run,)])


# --- just at the end ---


@pytest.mark.contract("P1")
def test_a_run_whose_thread_comes_late_is_dropped_and_not_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody has seen its prompt: there is nothing to abandon."""
    log: list[str] = []
    made: ThreadScheduler[str, None] = ThreadScheduler(
        lambda run: log.append(f"handler {run.prompt}"),
        on_dropped=lambda run: log.append(f"dropped {run.prompt}"),
        threads=1, grace=0.01, abandon_after=0,
    )  # fmt: skip
    with made as scheduler:
        with slow_to_begin(monkeypatch, "sessionsched-handler") as go:
            handle = scheduler.submit("chat", "a")
            handle.cancel()
            later = threading.Event()  # than a handler would be abandoned
            scheduler._driver.call_at(scheduler._driver.now() + 0.02, later.set)
            come(later)
            go.set()
            assert ends(handle) == [CANCELED]
        assert log == ["dropped a"]
        assert ends(scheduler.submit("chat", "b")) == [COMPLETED]
        assert scheduler.close().still_going == ()
    assert log == ["dropped a", "handler b"]


@pytest.mark.parametrize("abandon_after", [0.02, None])
def test_a_handler_that_is_over_just_when_it_is_found_stuck_is_not_abandoned(
    abandon_after: float | None,
) -> None:
    agent = Located()
    with ThreadScheduler(agent, threads=1, grace=0.02, abandon_after=abandon_after) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        driver = scheduler._driver

        def finish() -> None:
            agent.finish("a")
            handle.outcome(PATIENCE_S)

        # Taken when it is told to stop: by the cancel, and then by the timer thread.
        driver.guard = Overtaken(2, finish)  # type: ignore[assignment]
        handle.cancel()
        assert ends(handle) == [CANCELED]
        assert not handle.outcome().abandoned
        assert handle.outcome().result == "a done"
        until(lambda: driver._timers_thread._thread is None)
        assert driver.timers == {}, "no timer is left behind"
        agent.finish("b")
        assert ends(scheduler.submit("chat", "b")) == [COMPLETED]
        assert agent.threads["b"] is agent.threads["a"], "it was not written off"


@pytest.mark.parametrize("first", [True, False])
def test_a_handler_that_is_over_just_after_it_was_abandoned_keeps_its_thread(
    *, first: bool
) -> None:
    agent = Located()
    with ThreadScheduler(agent, threads=1, grace=0.02, abandon_after=0.02) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        driver = scheduler._driver
        keep = driver.keep

        def finish() -> None:
            agent.finish("a")
            until(lambda: not agent.runs["a"].going)

        def overtaken(*args: Any) -> None:  # in the timer thread, before it looks who goes on
            for call in (finish, partial(keep, *args)) if first else (partial(keep, *args), finish):
                call()

        driver.keep = overtaken  # type: ignore[method-assign,assignment]
        handle.cancel()
        assert ends(handle) == [CANCELED]
        assert handle.outcome().abandoned
        agent.finish("b")
        assert ends(scheduler.submit("chat", "b")) == [COMPLETED]
        assert agent.threads["b"] is agent.threads["a"]
        assert scheduler.close().still_going == ()


def test_a_handler_that_is_over_and_not_reported_yet_is_not_stuck() -> None:
    agent = Located()
    with (
        ThreadScheduler(agent, threads=1, grace=0.02) as scheduler,
        scheduler.subscribe() as events,
    ):
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        driver = scheduler._driver
        record = driver.table._sessions["chat"]

        def wait() -> None:  # until the timer thread has looked
            until(lambda: driver._timers_thread._thread is None)

        # The cancel, and then the end.
        record.lock = Overtaken(2, wait)  # type: ignore[assignment]
        driver.call_at(0.0, lambda: until(lambda: not agent.runs["a"].going))
        handle.cancel()
        agent.finish("a")
        assert ends(handle) == [CANCELED]
        scheduler.close()
        assert RunStuck not in {type(it) for it in events}
