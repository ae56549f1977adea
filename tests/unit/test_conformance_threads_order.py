"""On threads alone: what can come between two steps of one thread, because others go on.

In tasks there is one thread that announces and starts, so what is held up here can't be there.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, ThreadWorld

from sessionsched import RunCanceling, RunEnded, RunProgress, RunStarted, RunStuck
from sessionsched.hub import Hub
from sessionsched.outbox import Outbox
from sessionsched.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future


class SlowHub(Hub[str]):
    """A hub where the thread that announces one kind of event loses its breath just before."""

    def __init__(self, slow: type[Any]) -> None:
        super().__init__(Outbox())
        self._slow = slow
        self.there = threading.Event()
        self.go_on = threading.Event()
        self.done = threading.Event()

    def publish(self, kind: Any, run: Any, at: float, *more: object) -> None:
        if kind is self._slow:
            self.there.set()
            self.go_on.wait(STUCK_S)
        super().publish(kind, run, at, *more)
        if kind is self._slow:
            self.done.set()

    def catch_up(self, other: Future[Any]) -> None:
        """Let the slow thread go on, after something else if that does not wait for it."""
        with contextlib.suppress(TimeoutError):
            other.result(0.05)
        self.go_on.set()
        other.result(STUCK_S)
        assert self.done.wait(STUCK_S)


@pytest.fixture
def world() -> Iterator[ThreadWorld]:
    world = ThreadWorld()
    yield world
    world.end()


def slow_to_announce(world: ThreadWorld, kind: type[Any], **options: Any) -> SlowHub:
    hub = SlowHub(kind)
    scheduler = world._make({"grace": 600.0} | options)
    scheduler._driver.hub = hub
    world.scheduler = scheduler
    world.events = world.watch()
    return hub


@pytest.mark.contract("T6", "T1", "X8")
def test_nobody_is_called_stuck_after_its_end_was_announced(world: ThreadWorld) -> None:
    hub = slow_to_announce(world, RunStuck, grace=0.01)
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    handle.cancel()
    assert hub.there.wait(STUCK_S)  # the timer's thread has found that it still goes on
    world.finish("a")
    world.wait_log("over a")
    hub.catch_up(world.aside(world.events.wait_for, RunEnded, "a"))
    world.close()
    assert world.events.lines("a")[-1] == "RunEnded a"


@pytest.mark.contract("T6")
def test_what_a_handler_shows_after_it_saw_the_cancel_comes_after_the_cancel(
    world: ThreadWorld,
) -> None:
    hub = slow_to_announce(world, RunCanceling)
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    canceling = world.aside(handle.cancel)
    assert hub.there.wait(STUCK_S)
    assert handle.run.canceled
    hub.catch_up(world.aside(handle.run.emit, "I stop"))
    canceling.result(STUCK_S)
    world.finish("a")
    world.events.wait_for(RunProgress, "a")
    world.close()
    lines = world.events.lines("a")
    assert lines.index("RunCanceling a") < lines.index("RunProgress a")


class SlowWaits(Waits):
    """Where whoever takes a turn loses its breath just before it waits for it."""

    def __init__(self) -> None:
        super().__init__(8)
        self.there = threading.Event()
        self.go_on = threading.Event()

    def is_carrier(self, me: Any) -> bool:
        if me != threading.main_thread().ident:  # who waits for the other run
            self.there.set()
            self.go_on.wait(STUCK_S)
        return super().is_carrier(me)


@pytest.mark.contract("D4", "R4")
def test_a_turn_that_comes_just_before_its_host_waits_for_it_is_not_taken_for_a_deadlock(
    world: ThreadWorld,
) -> None:
    scheduler = world.open()
    waits = scheduler._driver.waits = SlowWaits()
    first, host = world.active("chat", "a"), world.turn("chat", "me")
    assert waits.there.wait(STUCK_S)  # it has looked, and its turn had not come
    world.finish("a", "me")
    world.events.wait_for(RunStarted, "me")
    world.outcome(first)
    waits.go_on.set()
    assert host.error() is None
    assert world.events.wait_for(RunEnded, "me").outcome.status == "completed"
