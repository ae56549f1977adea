"""What the driver does in the moments between: overtaken, skipped, in a forked child."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import (
    PATIENCE_S,
    Agent,
    Clock,
    Overtaken,
    answer,
    ends,
    no_more_threads,
    none_left,
    nothing_is_told,
    slow_to_begin,
    spawn,
    until,
)

from sessionsched import RunState, SchedulerClosed, Status, ThreadScheduler, driver
from sessionsched.hub import Mailbox

if TYPE_CHECKING:
    from collections.abc import Iterator

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


@pytest.mark.contract("X7", "P1")
@pytest.mark.parametrize("hook", [True, False])
def test_a_run_that_is_canceled_before_its_thread_is_there_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
    hook: bool,  # noqa: FBT001
) -> None:
    seen: list[str] = []
    record = (lambda run: seen.append(f"dropped {run.prompt}")) if hook else None
    with ThreadScheduler(
        lambda run: seen.append(f"handled {run.prompt}"), on_dropped=record, threads=1
    ) as scheduler:
        with slow_to_begin(monkeypatch, "sessionsched-handler") as go:
            handle = scheduler.submit("chat", "a")
            assert handle.state is RunState.ACTIVE
            handle.cancel()
            go.set()
            assert ends(handle) == [CANCELED]
        assert not handle.outcome().started
        assert ends(scheduler.submit("chat", "b")) == [COMPLETED]
        assert scheduler._driver.waits._carriers == {}
    assert seen == (["dropped a", "handled b"] if hook else ["handled b"])


def test_an_end_that_comes_just_before_the_wait_for_it_is_not_waited_for() -> None:
    """Looked at before it is waited for, once more: it may have come in between."""
    agent = Agent()
    with ThreadScheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        run = agent.runs["a"]

        class Late(list[threading.Lock]):
            def append(self, lock: threading.Lock) -> None:
                agent.finish("a")
                until(lambda: run.announced)
                super().append(lock)

        run.waiters = Late()
        assert spawn(handle.result).result(PATIENCE_S) == "a done"


def test_a_deadline_that_is_over_before_the_handler_is_called_drops_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    with (
        slow_to_begin(monkeypatch, "sessionsched-handler") as go,
        ThreadScheduler(agent) as scheduler,
    ):
        handle = scheduler.submit("chat", "a", deadline=0)
        until(lambda: handle.run.canceled)
        go.set()
        assert ends(handle) == [("canceled", "deadline")]
    assert agent.log == []


def test_whoever_performs_is_not_waited_for() -> None:
    """A call decides and returns, also while another thread is held up by what it performs."""
    agent = Agent()
    with ThreadScheduler(agent) as scheduler, scheduler.subscribe():
        with nothing_is_told():
            telling = spawn(scheduler.submit, "chat", "a")
            until(lambda: scheduler.session("chat").in_flight)
            handle = spawn(scheduler.submit, "other", "b").result(PATIENCE_S)
            assert spawn(handle.cancel).result(PATIENCE_S)
        telling.result(PATIENCE_S).cancel()
        assert ends(handle) == [CANCELED]


def test_a_turn_that_comes_just_before_the_wait_for_it_is_not_taken_for_a_deadlock() -> None:
    """Its own run is active then, and carried by its own thread, which carries another one too."""
    agent = Agent()
    with ThreadScheduler(agent) as scheduler, scheduler.turn("other", "c"):
        scheduler.submit("chat", "a")
        agent.started("a")
        turn = scheduler.turn("chat", "b")

        def finish() -> None:
            agent.finish("a")
            until(lambda: turn._run.carrier)

        # Taken when the turn looks who is before it, and then when it waits.
        scheduler._driver.waits._lock = Overtaken(2, finish)  # type: ignore[assignment]
        with turn as run:
            assert run.prompt == "b"
        assert run.ended is not None
        assert run.ended.status is Status.COMPLETED


def test_a_hook_that_is_over_when_its_time_is_keeps_its_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(dict[Any, Any]):
        """Holds up the thread of the hook between its return and its report."""

        def pop(self, *args: Any) -> Any:
            clock.move(scheduler, 5)
            until(lambda: run.announced)
            return super().pop(*args)

    clock = Clock(monkeypatch)
    with ThreadScheduler(Agent(), on_dropped=lambda _: None, settle_timeout=5) as scheduler:
        ticket = scheduler.accept("chat", "a")
        run: Any = ticket.run
        scheduler._driver._kept = Slow()
        ticket.close()
        assert isinstance(ticket.handle.outcome(PATIENCE_S).error, TimeoutError)
        assert len(scheduler._driver._aside._members) == 1


def test_a_hook_that_has_reported_when_its_time_is_over_is_in_time() -> None:
    class Slow(threading.Condition):
        """Holds up the timer thread between its wake-up and the call."""

        def __exit__(self, *how: object) -> None:
            super().__exit__(*how)  # type: ignore[arg-type]
            if threading.current_thread().name == "sessionsched-timer":
                until(lambda: run.announced)

    with ThreadScheduler(Agent(), on_dropped=lambda _: None, settle_timeout=0) as scheduler:
        ticket = scheduler.accept("chat", "a")
        run: Any = ticket.run
        scheduler._driver._timers_thread._changed = Slow()
        ticket.close()
        assert ticket.handle.outcome(PATIENCE_S).error is None
        until(lambda: scheduler._driver._timers_thread._thread is None)
        assert len(scheduler._driver._aside._members) == 1


def test_a_handler_that_is_over_while_it_is_given_up_does_not_cost_a_thread() -> None:
    """Its thread is free, or in another run, when the time has come to write it off."""
    agent = Agent(stubborn=True)
    with ThreadScheduler(agent, grace=0.02, abandon_after=0.02, threads=1) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")
        pool = scheduler._driver.handlers

        def finish() -> None:  # in the timer thread
            agent.finish("a")
            until(lambda: pool.pending == 0)

        pool._lock = Overtaken(1, finish)  # type: ignore[assignment]
        handle.cancel()
        assert ends(handle) == [CANCELED]
    none_left()


# --- orders that keep coming ---


@pytest.mark.contract("A1", "D5", "T5")
@pytest.mark.parametrize("threads", [True, False])
def test_who_makes_a_call_is_not_kept_by_the_orders_of_others(
    monkeypatch: pytest.MonkeyPatch,
    threads: bool,  # noqa: FBT001
) -> None:
    agent, performed = Agent(), list[threading.Thread]()
    with ThreadScheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.started("a")

        def more() -> None:  # as other threads can, while this one performs what they ordered
            performed.append(threading.current_thread())
            if len(performed) < 10_000:
                handle.run.emit("more")

        box: Mailbox[str] = Mailbox("", "", 100_000, more)
        with contextlib.nullcontext() if threads else no_more_threads(monkeypatch):
            scheduler._driver.watch(box)
            until(lambda: len(performed) == 10_000)
        scheduler._driver.hub.leave(box)
        mine = performed.count(threading.current_thread())
        assert mine <= 1000 if threads else mine == 10_000
        agent.finish("a")
        assert handle.result(PATIENCE_S) == "a done"


# --- in a forked child ---


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What a forked child has of a scheduler: this process plays both parts."""
    agent = Agent()
    agent.finish("a")
    scheduler, unused = ThreadScheduler(agent), ThreadScheduler(agent)
    real = scheduler._driver
    monkeypatch.setattr(driver, "_drivers", [real, unused._driver])
    ticket, table, hub = scheduler.accept("chat", "b"), real.table, real.hub
    with scheduler.subscribe() as events:
        driver._refuse_in_the_child()
        yield scheduler, ticket, events, unused
    real.table, real.hub, real.shut = table, hub, None
    ticket.close()
    scheduler.close()


def test_a_forked_child_is_refused_what_would_wait_for_threads_that_it_has_not(
    forked: Any,
) -> None:
    scheduler, ticket, events, unused = forked
    run: Any = ticket.run
    for call in (
        lambda: scheduler.submit("chat", "x"), scheduler.turn("chat", "x").__enter__,
        scheduler.snapshot, scheduler.close, ticket.ready, ticket.handle.outcome, events.get,
        lambda: run.emit("x"), run.wait_canceled, lambda: run.on_cancel(print),
    ):  # fmt: skip
        with pytest.raises(SchedulerClosed, match="fork"):
            spawn(call).result(PATIENCE_S)
    assert ends(unused.submit("chat", "a")) == [COMPLETED], "it was not used before"
    unused.close()


def test_a_ticket_that_a_forked_child_loses_is_not_the_childs_to_give_back(forked: Any) -> None:
    ticket = forked[1]
    ticket.__del__()  # no warning, and no thread that finds out that it can't
    assert ticket.run.state is RunState.ACCEPTED


# --- no thread can be started ---


@pytest.mark.contract("D4", "T1", "P1")
@pytest.mark.parametrize("hook", [True, False])
def test_a_prompt_that_no_thread_can_be_had_for_ends_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    hook: bool,  # noqa: FBT001
) -> None:
    dropped: list[str] = []
    record = (lambda run: dropped.append(run.prompt)) if hook else None
    with ThreadScheduler(lambda run: run.prompt, on_dropped=record) as scheduler:
        with no_more_threads(monkeypatch):
            handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
            assert ends(*handles) == [("suspended", "external")] * 2
        assert [str(it.outcome().error) for it in handles] == ["can't start new thread"] * 2
        assert not any(it.outcome().started for it in handles)
        assert scheduler.submit("chat", "c").result(PATIENCE_S) == "c"
    assert dropped == (["a", "b"] if hook else [])


@pytest.mark.contract("P1", "S1")
@pytest.mark.parametrize("drain", [0.0, 0.01])
def test_a_close_comes_to_its_end_although_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch, drain: float
) -> None:
    agent, dropped = Agent(), []
    scheduler = ThreadScheduler(agent, on_dropped=lambda run: dropped.append(run.prompt))
    handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
    agent.started("a")
    with no_more_threads(monkeypatch):
        report = answer(scheduler.close, drain)
    assert [run.prompt for run in report.suspended] == ["a", "b"]
    assert [it.outcome().started for it in handles] == [True, False]
    assert dropped == ["b"]
