"""`on_cancel`: what closes a socket or kills a child at once, on a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest
from thread_tools import NEVER_S, PATIENCE_S, Agent, come, ends, slow_to_begin, spawn, until

from sessionsched import RunStuck, ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import ThreadRun

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


class Told:
    """A callback that writes down where it was called."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.come = threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.current_thread())
        self.come.set()


def started(
    agent: Agent, scheduler: ThreadScheduler[str, str], prompt: str = "a"
) -> ThreadRun[str]:
    scheduler.submit(f"chat {prompt}", prompt)
    agent.started(prompt)
    return agent.runs[prompt]


def test_a_callback_is_called_once_and_on_another_thread() -> None:
    agent, told = Agent(stubborn=True), Told()
    with ThreadScheduler(agent, grace=0.005) as scheduler, scheduler.subscribe() as events:
        run = started(agent, scheduler)
        run.on_cancel(told)
        scheduler.cancel("chat a")
        come(told.come)
        stuck = 0
        while stuck < 3:  # it is told again and again
            stuck += isinstance(events.get(PATIENCE_S), RunStuck)
        agent.finish("a")
    assert len(told.threads) == 1
    assert told.threads[0].name == "sessionsched-callback"


@pytest.mark.contract("D5")
def test_a_callback_does_not_wait_for_the_record_of_another_session() -> None:
    agent, hang, recording = Agent(), threading.Event(), threading.Event()

    def on_dropped(run: ThreadRun[str]) -> None:
        recording.set()
        hang.wait()

    with ThreadScheduler(
        agent, threads=1, on_dropped=on_dropped, settle_timeout=NEVER_S
    ) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")  # which ends by a callback of its own
        scheduler.accept("other", "b").close()
        come(recording)
        scheduler.cancel("chat")
        try:
            assert ends(handle) == [CANCELED]
            assert handle.outcome().error is None, "it did not wait in vain"
        finally:
            hang.set()


def test_a_callback_is_called_while_the_handler_is_in_something_that_takes_long() -> None:
    closed = threading.Event()
    inside = threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        run.on_cancel(closed.set)
        inside.set()
        come(closed)  # reads from a socket, say

    with ThreadScheduler(handler, threads=1) as scheduler:
        handle = scheduler.submit("chat", "a")
        come(inside)
        handle.cancel()
        assert ends(handle) == [CANCELED]


def test_a_callback_of_a_canceled_run_is_called_here_and_now() -> None:
    agent, told = Agent(stubborn=True), Told()
    with ThreadScheduler(agent) as scheduler:
        run = started(agent, scheduler)
        scheduler.cancel("chat a")
        forget = run.on_cancel(told)
        assert told.threads == [threading.current_thread()]
        forget()
        agent.finish("a")
    assert len(told.threads) == 1


def test_a_callback_that_was_forgotten_is_not_called() -> None:
    agent, told, kept = Agent(stubborn=True), Told(), Told()
    with ThreadScheduler(agent) as scheduler:
        run = started(agent, scheduler)
        forget = run.on_cancel(told)
        run.on_cancel(kept)
        forget()
        forget()
        scheduler.cancel("chat a")
        come(kept.come)
        forget()
        agent.finish("a")
    assert told.threads == []


def test_a_callback_is_not_called_when_nobody_cancels() -> None:
    agent, told = Agent(), Told()
    with ThreadScheduler(agent) as scheduler:
        run = started(agent, scheduler)
        run.on_cancel(told)
        agent.finish("a")
        handle = scheduler.find(run.run_id)
        assert handle is None or ends(handle) == [COMPLETED]
    assert told.threads == []


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_callback_that_raises_does_not_keep_the_others_from_being_called(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    agent, before, after = Agent(stubborn=True), Told(), Told()
    with ThreadScheduler(agent) as scheduler:
        run = started(agent, scheduler)
        for callback in (before, fail, after):
            run.on_cancel(callback)
        scheduler.cancel("chat a")
        come(before.come)
        come(after.come)
        agent.finish("a")
    assert [(it.levelno, it.name) for it in caplog.records] == [
        (logging.ERROR, "sessionsched.threads.run")
    ]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is error


def hang_in_a_callback(
    threads: int, hang: Callable[[], object], agent: Agent
) -> ThreadScheduler[str, str]:
    """A scheduler with a run whose handler is over, and whose callback is not."""
    scheduler = ThreadScheduler(agent, threads=threads, grace=0.01)
    run = started(agent, scheduler)
    inside = threading.Event()
    run.on_cancel(lambda: (inside.set(), hang()))  # type: ignore[func-returns-value]
    scheduler.cancel("chat a")
    come(inside)
    return scheduler


@pytest.mark.parametrize("threads", [1, 2])
def test_a_callback_that_hangs_does_not_stop_its_session_nor_another_one(threads: int) -> None:
    agent, hang, told = Agent(), threading.Event(), Told()
    with hang_in_a_callback(threads, lambda: come(hang), agent) as scheduler:
        agent.finish("b", "c")
        assert ends(*(scheduler.submit(f"chat {it}", it) for it in "bc")) == [COMPLETED] * 2
        run = started(agent, scheduler, "d")
        run.on_cancel(told)
        scheduler.cancel("chat d")
        come(told.come)
        hang.set()


def test_a_callback_that_hangs_does_not_keep_a_close_from_its_end() -> None:
    agent, hang = Agent(), threading.Event()
    scheduler = hang_in_a_callback(1, lambda: come(hang), agent)
    report = spawn(scheduler.close).result(PATIENCE_S)
    assert report.still_going == ()
    hang.set()


def test_a_callback_that_comes_late_and_hangs_does_not_keep_a_close_from_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a close has given up on after `grace` is not joined, however late it begins."""
    agent, hang = Agent(), threading.Event()
    scheduler = ThreadScheduler(agent, grace=0.01)
    scheduler.submit("chat", "a")
    agent.started("a")
    agent.runs["a"].on_cancel(hang.wait)
    with slow_to_begin(monkeypatch, "sessionsched-callback") as go:
        closing = spawn(scheduler.close)
        agent.finish("a")
        come(scheduler._driver._closed)
        go.set()
        try:
            closing.result(PATIENCE_S)
        finally:
            hang.set()


def test_a_callback_is_called_as_often_as_it_was_given() -> None:
    agent, told = Agent(stubborn=True), Told()
    with ThreadScheduler(agent) as scheduler:
        run = started(agent, scheduler)
        for _ in range(3):
            run.on_cancel(told)
        scheduler.cancel("chat a")
        agent.finish("a")
    assert len(told.threads) == 3


def test_a_callback_is_called_although_the_handler_leaves_before_it_is_told() -> None:
    told, inside, go = Told(), threading.Event(), threading.Event()

    def handler(run: ThreadRun[str]) -> None:
        run.on_cancel(told)
        inside.set()
        come(go)
        assert run.canceled  # it has seen that by itself, and leaves what it had for the callback

    with ThreadScheduler(handler) as scheduler:
        outbox = scheduler._driver.table.outbox
        handle = scheduler.submit("chat", "a")
        come(inside)
        with outbox.busy:  # another thread is about to perform the INTERRUPT
            assert scheduler.cancel("chat").active is handle.run
            go.set()
            until(lambda: handle.state == "ended")
        scheduler._driver.perform_all()
        assert ends(handle) == [CANCELED]
        come(told.come)
    assert len(told.threads) == 1
