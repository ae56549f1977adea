"""A turn: a run in the host's own thread."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from driving import overtake
from thread_tools import (
    NEVER_S,
    PATIENCE_S,
    Agent,
    Clock,
    answer,
    come,
    ends,
    interrupted_when,
    spawn,
    until,
)

from sessionsched import (
    DuplicateRun,
    InvalidOption,
    RunCanceled,
    RunSuspended,
    SchedulerClosed,
    SessionBusy,
    Status,
    ThreadScheduler,
    WhenBusy,
    WouldDeadlock,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from sessionsched.model import Outcome
    from sessionsched.threads import ThreadTurn

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def dropped() -> list[str]:
    return []


@pytest.fixture
def scheduler(agent: Agent, dropped: list[str]) -> Iterator[ThreadScheduler[str, str]]:
    with ThreadScheduler(
        agent, on_dropped=lambda run: dropped.append(run.prompt), grace=0.01
    ) as scheduler:
        yield scheduler


def outcome_of(turn: ThreadTurn[str]) -> Outcome[Any]:
    until(lambda: turn._run.announced)
    assert turn._run.ended is not None
    return turn._run.ended


class Host:
    """A thread that takes a turn, and stays inside until it is told."""

    def __init__(self, turn: ThreadTurn[str]) -> None:
        self.turn = turn
        self.inside, self.leave = threading.Event(), threading.Event()
        self.taking: Future[str] = spawn(self._take)

    def _take(self) -> str:
        with self.turn as run:
            self.inside.set()
            come(self.leave)
            return f"{run.prompt} was {'canceled' if run.canceled else 'here'}"

    def waits(self) -> None:
        until(lambda: self.turn._run.moment)

    def result(self) -> str:
        self.leave.set()
        return self.taking.result(PATIENCE_S)


# --- inside ---


@pytest.mark.contract("D1")
def test_a_turn_is_in_the_hosts_own_thread_and_waits_in_line(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    scheduler.submit("chat", "a")
    agent.started("a")
    host = Host(scheduler.turn("chat", "b"))
    host.waits()
    behind = scheduler.submit("chat", "c")
    assert not host.inside.is_set()
    agent.finish("a", "c")
    come(host.inside)
    assert "start c" not in agent.log
    assert host.result() == "b was here"
    assert ends(behind) == [COMPLETED]
    assert "start b" not in agent.log, "the handler is not called for it"
    assert outcome_of(host.turn).status is Status.COMPLETED


def test_a_turn_carries_a_cancel_like_a_handler(scheduler: ThreadScheduler[str, str]) -> None:
    told = threading.Event()
    with pytest.raises(RunCanceled) as caught, scheduler.turn("chat", "a") as run:  # noqa: PT012
        run.raise_if_canceled()
        run.on_cancel(told.set)
        scheduler.cancel("chat")
        assert run.wait_canceled(PATIENCE_S)
        come(told)
        run.raise_if_canceled()
    assert caught.value.run_id == run.run_id
    assert (run.ended and run.ended.status, run.ended and run.ended.error) == (
        Status.CANCELED, None,
    )  # fmt: skip


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_what_is_raised_inside_is_the_outcome_and_goes_on(
    scheduler: ThreadScheduler[str, str], error: BaseException
) -> None:
    with pytest.raises(type(error)), scheduler.turn("chat", "a") as run:
        raise error
    assert run.ended is not None
    assert (run.ended.status, run.ended.error) == (Status.FAILED, error)


def test_a_turn_has_a_deadline(
    scheduler: ThreadScheduler[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with scheduler.turn("chat", "a", deadline=NEVER_S) as run:
        clock.move(scheduler, NEVER_S - 1)
        assert not run.canceled
        clock.move(scheduler, 1)
        assert run.wait_canceled(PATIENCE_S)
    assert run.ended is not None
    assert run.ended.cause == "deadline"


@pytest.mark.contract("X8")
def test_a_turn_that_goes_on_after_a_cancel_is_abandoned(agent: Agent) -> None:
    agent.finish("b")
    with ThreadScheduler(agent, threads=1, grace=0.01, abandon_after=0.02) as scheduler:
        with scheduler.turn("chat", "a") as run:
            scheduler.cancel("chat")
            assert answer(ends, scheduler.submit("chat", "b")) == [COMPLETED]
        assert run.ended is not None
        assert run.ended.abandoned
        assert scheduler.close().still_going == (), "the thread is the host's own"


# --- at the door ---


def test_a_turn_is_taken_once(scheduler: ThreadScheduler[str, str]) -> None:
    turn = scheduler.turn("chat", "a")
    with turn, pytest.raises(DuplicateRun):
        turn.__enter__()
    with pytest.raises(DuplicateRun):
        turn.__enter__()


def test_a_turn_that_two_threads_take_at_once_is_taken_once(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    scheduler.submit("chat", "a")
    agent.started("a")
    turn = scheduler.turn("chat", "b")
    hosts: list[Host] = []

    def another() -> None:
        second = Host(turn)
        hosts.append(second)
        until(lambda: second.taking.done() or len(turn._run.moment) == 1)

    overtake(scheduler._driver.table._sessions["chat"], another)
    hosts.append(Host(turn))
    until(lambda: len(turn._run.moment) == 2 or any(host.taking.done() for host in hosts))
    until(lambda: len(hosts) == 2)
    agent.finish("a")
    for host in hosts:
        host.leave.set()
    answers = [host.taking.exception(PATIENCE_S) for host in hosts]
    assert sorted(type(it).__name__ for it in answers) == ["DuplicateRun", "NoneType"]


@pytest.mark.parametrize("prompt", ["a", "b"])
def test_the_run_id_of_another_run_is_refused(
    agent: Agent, scheduler: ThreadScheduler[str, str], prompt: str
) -> None:
    scheduler.submit("chat", "a", run_id="mine")
    agent.started("a")
    with pytest.raises(DuplicateRun):
        answer(scheduler.turn("chat", prompt, run_id="mine").__enter__)


@pytest.mark.parametrize("when_busy", [WhenBusy.FOLD, "fold", "whenever"])
def test_a_turn_that_would_not_be_its_own_is_refused(
    scheduler: ThreadScheduler[str, str], when_busy: Any
) -> None:
    with pytest.raises(InvalidOption):
        scheduler.turn("chat", "a", when_busy=when_busy)


def test_a_busy_session_and_a_closed_scheduler_refuse_a_turn(
    agent: Agent, scheduler: ThreadScheduler[str, str], dropped: list[str]
) -> None:
    scheduler.submit("chat", "a")
    agent.started("a")
    with pytest.raises(SessionBusy):
        scheduler.turn("chat", "b", when_busy=WhenBusy.REJECT).__enter__()
    scheduler.close()
    with pytest.raises(SchedulerClosed):
        scheduler.turn("chat", "b").__enter__()
    assert dropped == []


def test_a_turn_behind_oneself_is_refused(
    scheduler: ThreadScheduler[str, str], dropped: list[str]
) -> None:
    with scheduler.turn("chat", "a"), pytest.raises(WouldDeadlock):
        scheduler.turn("chat", "b").__enter__()
    assert dropped == []
    with scheduler.turn("chat", "c"), scheduler.turn("other", "d") as run:
        assert run.prompt == "d"


def test_a_turn_waits_for_the_preparation(agent: Agent) -> None:
    log: list[str] = []
    with (
        ThreadScheduler(agent, prepare=lambda run: log.append(run.prompt)) as scheduler,
        scheduler.turn("chat", "a"),
    ):
        assert log == ["a"]


# --- while it waits ---


@pytest.mark.contract("P1", "X7")
@pytest.mark.parametrize("how", ["cancel", "close", "expire"])
def test_a_turn_that_is_stopped_while_it_waits_is_dropped(
    agent: Agent, scheduler: ThreadScheduler[str, str], dropped: list[str], how: str
) -> None:
    scheduler.submit("chat", "a")
    agent.started("a")
    host = Host(scheduler.turn("chat", "b", wait_at_most=0.01 if how == "expire" else NEVER_S))
    if how == "cancel":
        host.waits()
        scheduler.cancel("chat", scope="waiting")  # type: ignore[arg-type]
    elif how == "close":
        host.waits()
        scheduler.close()
    error = host.taking.exception(PATIENCE_S)
    assert type(error) is (RunSuspended if how == "close" else RunCanceled)
    assert error.outcome == outcome_of(host.turn)
    assert not error.outcome.started
    assert dropped == ["b"]
    assert not host.inside.is_set()


class Entering(list[threading.Lock]):
    """Lets a host be slow between the moment that its turn has come and its going in."""

    def __init__(self) -> None:
        self.here, self.go = threading.Event(), threading.Event()

    def remove(self, lock: threading.Lock) -> None:
        self.here.set()
        come(self.go)
        super().remove(lock)


def slow_host(scheduler: ThreadScheduler[str, str]) -> tuple[Host, Entering]:
    """A host whose turn has come, and who does not know it yet."""
    first = scheduler.accept("chat", "a")
    turn = scheduler.turn("chat", "b")
    entering = turn._run.moment = Entering()
    host = Host(turn)
    host.waits()
    first.close()
    come(entering.here)
    return host, entering


@pytest.mark.contract("P1", "X7")
@pytest.mark.parametrize("hook", [True, False])
def test_a_turn_that_is_canceled_between_its_start_and_its_entry_is_dropped(
    agent: Agent,
    hook: bool,  # noqa: FBT001
) -> None:
    dropped: list[str] = []
    record = (lambda run: dropped.append(run.prompt)) if hook else None
    with ThreadScheduler(agent, on_dropped=record, threads=1) as scheduler:
        host, entering = slow_host(scheduler)
        scheduler.cancel("chat")
        entering.go.set()
        error = host.taking.exception(PATIENCE_S)
        assert isinstance(error, RunCanceled)
        assert not outcome_of(host.turn).started
        assert dropped == (["a", "b"] if hook else [])
        agent.finish("c")
        assert ends(scheduler.submit("chat", "c")) == [COMPLETED], "its slot is free"
        assert scheduler._driver.waits._carriers == {}


@pytest.mark.contract("P1")
def test_a_turn_that_was_not_entered_is_dropped_and_not_abandoned(agent: Agent) -> None:
    """Nobody has seen its prompt: there is nothing to abandon."""
    dropped: list[str] = []
    with ThreadScheduler(
        agent, on_dropped=lambda run: dropped.append(run.prompt), grace=0.01, abandon_after=0
    ) as scheduler:
        host, entering = slow_host(scheduler)
        scheduler.cancel("chat")
        later = threading.Event()  # than it would be abandoned
        scheduler._driver.call_at(scheduler._driver.now() + 0.02, later.set)
        come(later)
        entering.go.set()
        assert isinstance(host.taking.exception(PATIENCE_S), RunCanceled)
        assert dropped == ["a", "b"]
        assert not outcome_of(host.turn).abandoned


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="nobody presses Ctrl-C here")
def test_a_host_that_is_interrupted_while_it_waits_leaves_the_line(
    agent: Agent, scheduler: ThreadScheduler[str, str], dropped: list[str]
) -> None:
    scheduler.submit("chat", "a")
    agent.started("a")
    turn = scheduler.turn("chat", "b")
    with pytest.raises(KeyboardInterrupt), interrupted_when(lambda: turn._run.moment):
        turn.__enter__()
    assert outcome_of(turn).cause == "withdrawn"
    assert dropped == ["b"]
    agent.finish("a", "c")
    assert ends(scheduler.submit("chat", "c")) == [COMPLETED]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="nobody presses Ctrl-C here")
def test_a_host_that_is_interrupted_when_its_turn_has_come_gives_it_up(
    agent: Agent, scheduler: ThreadScheduler[str, str], dropped: list[str]
) -> None:
    first = scheduler.accept("chat", "a")
    turn = scheduler.turn("chat", "b")

    class Interrupted(list[threading.Lock]):
        def remove(self, lock: threading.Lock) -> None:
            raise KeyboardInterrupt

    turn._run.moment = Interrupted()
    entering = spawn(turn.__enter__)
    until(lambda: turn._run.moment)
    first.close()
    assert isinstance(entering.exception(PATIENCE_S), KeyboardInterrupt)
    assert not outcome_of(turn).started
    assert dropped == ["a", "b"]
    agent.finish("c")
    assert ends(scheduler.submit("chat", "c")) == [COMPLETED]
