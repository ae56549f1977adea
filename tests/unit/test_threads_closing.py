"""Closing joins everything, however often and from wherever it is asked for."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from driving import overtake
from thread_tools import (
    NEVER_S,
    PATIENCE_S,
    Agent,
    Overtaken,
    all_gone,
    answer,
    come,
    ends,
    interrupted_when,
    none_left,
    nothing_is_told,
    ours,
    spawn,
    until,
)

from sessionsched import InvalidOption, SchedulerClosed, ThreadScheduler, WouldDeadlock
from sessionsched.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import CloseReport, ThreadRun

COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")


def busy(agent: Agent, **options: Any) -> ThreadScheduler[str, str]:
    """A scheduler with an active run "a" and a waiting one "b"."""
    scheduler = ThreadScheduler(agent, **options)
    for prompt in "ab":
        scheduler.submit("chat", prompt, run_id=prompt)
    agent.started("a")
    return scheduler


def ended(scheduler: ThreadScheduler[str, str]) -> list[tuple[str, str | None]]:
    handles = [scheduler.find(prompt) for prompt in "ab"]
    return ends(*(it for it in handles if it is not None))


@pytest.mark.contract("S7")
def test_nothing_is_left_after_a_close() -> None:
    agent = Agent()
    with ThreadScheduler(
        agent, on_dropped=lambda _: None, prepare=lambda _: None, prepare_timeout=NEVER_S
    ) as scheduler, scheduler.subscribe() as events:  # fmt: skip
        prompts = [str(number) for number in range(30)]
        agent.finish(*prompts[:20])
        handles = [
            scheduler.submit(str(number % 5), prompt, deadline=NEVER_S, wait_at_most=NEVER_S)
            for number, prompt in enumerate(prompts)
        ]
        handles[-1].cancel()
        ends(*handles[:20])
        scheduler.close()
        none_left()
        assert list(events)
        driver = scheduler._driver
        assert (driver.timers, driver._preparing, driver._kept) == ({}, {}, {})
        assert (driver.waits._runs, driver.waits._carriers) == ({}, {})
        assert scheduler.snapshot().sessions == ()


@pytest.mark.contract("S7")
def test_a_thread_whose_preparation_is_over_is_not_lost() -> None:
    """Whoever performs the effects may come to it when that thread is idle, or elsewhere."""
    agent, go = Agent(stubborn=True), threading.Event()
    with ThreadScheduler(agent, prepare=lambda run: run.prompt == "z" or come(go)) as scheduler:  # type: ignore[func-returns-value]
        agent.finish("a", "z")
        with scheduler.subscribe():
            scheduler.submit("other", "z")
            agent.started("z")
            handle = scheduler.submit("chat", "a")
            driver = scheduler._driver
            until(lambda: any(it.thread.is_alive() for it in driver._prepares._members))
            with nothing_is_told():
                performing = spawn(scheduler.accept, "third", "x")
                until(lambda: not driver.table.outbox.idle)
                go.set()
                until(lambda: driver._prepares.pending == 0)
            performing.result(PATIENCE_S).close()
            assert ends(handle) == [COMPLETED]
    answer(scheduler.close)
    none_left()


@pytest.mark.contract("S1", "S2", "S3", "S4")
def test_a_close_suspends_what_waits_and_interrupts_what_is_active() -> None:
    agent = Agent()
    scheduler = busy(agent)
    report = answer(scheduler.close)
    assert [run.prompt for run in report.suspended] == ["a", "b"]
    assert ended(scheduler) == [SUSPENDED, SUSPENDED]
    assert agent.log == ["start a", "over a"]
    with pytest.raises(SchedulerClosed):
        scheduler.submit("chat", "c")


@pytest.mark.contract("S1", "S3")
def test_a_close_lets_active_runs_finish() -> None:
    agent = Agent()
    scheduler = busy(agent)
    closing = spawn(scheduler.close, NEVER_S)
    until(lambda: scheduler.session("chat").waiting == ())
    assert not agent.runs["a"].canceled
    agent.finish("a")
    assert [run.prompt for run in closing.result(PATIENCE_S).suspended] == ["b"]
    assert ended(scheduler) == [COMPLETED, SUSPENDED]


@pytest.mark.contract("S1")
def test_a_close_lets_active_runs_finish_for_so_long_only() -> None:
    agent = Agent()
    scheduler = busy(agent)
    report = answer(scheduler.close, 0.01)
    assert [run.prompt for run in report.suspended] == ["a", "b"]


@pytest.mark.contract("S6")
def test_a_second_close_hurries_the_first() -> None:
    agent = Agent()
    scheduler = busy(agent)
    first = spawn(scheduler.close, NEVER_S)
    until(lambda: scheduler.session("chat").waiting == ())
    report = answer(scheduler.close)
    assert first.result(PATIENCE_S) is report
    assert answer(scheduler.close, NEVER_S) is report


@pytest.mark.contract("S6")
def test_a_second_close_does_not_slow_down_the_first() -> None:
    agent = Agent(stubborn=True)
    scheduler = busy(agent)
    first = spawn(scheduler.close)
    assert agent.runs["a"].wait_canceled(PATIENCE_S)
    second = spawn(scheduler.close, NEVER_S)
    agent.finish("a")
    assert first.result(PATIENCE_S) is second.result(PATIENCE_S)


@pytest.mark.contract("S6")
def test_many_closes_at_once_are_one() -> None:
    for _ in range(50):
        agent = Agent()
        scheduler = busy(agent)
        closing = [spawn(scheduler.close) for _ in range(4)]
        assert len({id(it.result(PATIENCE_S)) for it in closing}) == 1


@pytest.mark.contract("S6")
def test_a_close_that_is_overtaken_by_another_one_comes_to_its_end() -> None:
    agent = Agent()
    scheduler = ThreadScheduler(agent)
    handle = scheduler.submit("chat", "a")
    agent.started("a")
    others = []

    def another() -> None:
        others.append(spawn(scheduler.close))
        handle.outcome(PATIENCE_S)  # it was interrupted by that

    def overtaken() -> object:
        record = scheduler._driver.table._sessions["chat"]
        # `close` first looks whether it is called by a run, and then refuses prompts.
        overtake(record, lambda: overtake(record, another))
        return scheduler.close()

    report = answer(overtaken)
    assert others[0].result(PATIENCE_S) is report


@pytest.mark.contract("S1", "S2", "S6")
def test_nothing_starts_between_two_closes_at_once() -> None:
    agent = Agent()
    scheduler = busy(agent)

    def another() -> None:
        spawn(scheduler.close)
        ended(scheduler)

    def overtaken() -> CloseReport[str]:
        record = scheduler._driver.table._sessions["chat"]
        # `close` first looks whether it is called by a run, and then refuses prompts.
        overtake(record, lambda: overtake(record, another))
        return scheduler.close()

    try:
        report = answer(overtaken)
        assert [run.prompt for run in report.suspended] == ["a", "b"]
        assert agent.log == ["start a", "over a"]
    finally:
        agent.finish("a", "b")


@pytest.mark.contract("S1")
def test_a_drain_that_is_overtaken_by_the_last_end_does_not_keep_the_close_waiting() -> None:
    agent, hang, inside = Agent(), threading.Event(), threading.Event()

    def prepare(run: ThreadRun[str]) -> None:
        if run.prompt == "hangs":
            inside.set()
            come(hang)

    scheduler = ThreadScheduler(agent, prepare=prepare, grace=0.01)
    handle = scheduler.submit("other", "hangs")
    come(inside)
    handle.cancel()  # the preparation goes on, and is waited for no longer than the grace
    scheduler.submit("chat", "a")
    agent.started("a")
    driver = scheduler._driver
    closing = driver.closing = Closing(driver, driver._is_closed)

    def all_end() -> None:
        agent.finish("a")
        until(lambda: closing._timer is not None)

    # The second time, to take note of the timer that will interrupt what is active.
    closing._lock = cast("threading.Lock", Overtaken(2, all_end))
    try:
        assert answer(scheduler.close, NEVER_S).suspended == ()
    finally:
        hang.set()


@pytest.mark.parametrize("drain", [-1, float("nan"), float("inf"), "1", None])
def test_a_drain_that_is_no_time_is_refused(drain: Any) -> None:
    with ThreadScheduler(Agent()) as scheduler:
        with pytest.raises(InvalidOption):
            scheduler.close(drain)
        assert not scheduler.snapshot().closed


def test_closing_what_was_never_used_is_nothing() -> None:
    scheduler = ThreadScheduler(Agent())
    report = answer(scheduler.close)
    assert (report.suspended, report.still_going) == ((), ())
    assert ours() == []


# --- from wherever ---


def test_a_run_that_closes_its_scheduler_is_told() -> None:
    def handler(run: ThreadRun[str]) -> None:
        with pytest.raises(WouldDeadlock) as caught:
            scheduler.close()
        assert (caught.value.session_id, caught.value.run_id) == ("chat", run.run_id)

    with ThreadScheduler(handler) as scheduler:
        assert ends(scheduler.submit("chat", "a")) == [COMPLETED]
        assert not scheduler.snapshot().closed, "nothing has changed"
        with scheduler.turn("chat", "b"), pytest.raises(WouldDeadlock):
            scheduler.close()


def test_a_run_may_close_another_scheduler() -> None:
    other = busy(Agent())
    closes: ThreadScheduler[str, Any] = ThreadScheduler(lambda _: other.close())
    with closes as scheduler:
        report = scheduler.submit("chat", "a").result(PATIENCE_S)
    assert len(report.suspended) == 2


def close_from(where: str, close: Callable[[], object]) -> ThreadScheduler[str, str]:
    agent = Agent()
    options: dict[str, Any] = {"grace": 0.02, "settle_timeout": 0.02}
    if where != "on_cancel":
        options[where] = lambda _: close()
    scheduler = ThreadScheduler(agent, **options)
    if where == "prepare":
        scheduler.submit("chat", "a")
    elif where == "on_dropped":
        scheduler.accept("chat", "a").close()
    else:
        scheduler.submit("chat", "a")
        agent.started("a")
        agent.runs["a"].on_cancel(close)
        scheduler.cancel("chat")
    return scheduler


@pytest.mark.parametrize("where", ["on_dropped", "prepare", "on_cancel"])
def test_a_hook_that_closes_does_not_wait_for_itself_for_ever(where: str) -> None:
    made, closed = threading.Event(), threading.Event()
    reports: list[object] = []

    def close() -> None:
        come(made)
        reports.append(scheduler.close())
        closed.set()

    scheduler = close_from(where, close)
    made.set()
    come(closed)
    assert reports == [answer(scheduler.close)]
    all_gone()


@pytest.mark.contract("S8")
def test_the_block_closes_however_it_ends() -> None:
    agent = Agent()
    with pytest.raises(KeyboardInterrupt), ThreadScheduler(agent) as scheduler:  # noqa: PT012
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        raise KeyboardInterrupt
    assert ends(handle) == [SUSPENDED]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="nobody presses Ctrl-C here")
def test_a_close_that_is_interrupted_goes_on_by_itself() -> None:
    agent = Agent(stubborn=True)
    scheduler = busy(agent)
    closed: Any = scheduler._driver._closed
    with pytest.raises(KeyboardInterrupt), interrupted_when(lambda: closed._cond._waiters):
        scheduler.close()
    agent.finish("a")
    assert ended(scheduler) == [COMPLETED, SUSPENDED]
    come(scheduler._driver._closed)
    assert [run.prompt for run in answer(scheduler.close).suspended] == ["b"]
