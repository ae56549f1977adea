"""One thread for all timers: in order, and not there without any."""

from __future__ import annotations

import threading
import time
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

import pytest
from thread_tools import NEVER_S, answer, come, no_more_threads, none_left, spawn, until

from sessionsched.threads.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.threads.timers import ThreadTimer


@pytest.fixture
def timers() -> Iterator[Timers]:
    timers = Timers()
    yield timers
    answer(timers.close)
    assert thread_of(timers) is None


def thread_of(timers: Timers) -> threading.Thread | None:
    return timers._thread


def is_gone(thread: threading.Thread | None) -> None:
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()


class Held:
    """Keeps the timer thread in a call until it is told to go on."""

    def __init__(self, timers: Timers) -> None:
        self.called: list[str] = []
        self._timers = timers
        self._go = threading.Event()
        inside = threading.Event()

        def hold() -> None:
            inside.set()
            come(self._go)

        timers.call_at(0.0, hold)
        come(inside)

    def set(self, name: str, when: float) -> ThreadTimer:
        return self._timers.call_at(when, lambda: self.called.append(name))

    def finish(self) -> list[str]:
        """Let it go on; everything that is due has been called."""
        thread = thread_of(self._timers)
        self._go.set()
        is_gone(thread)
        return self.called


def soon(timers: Timers) -> threading.Event:
    event = threading.Event()
    timers.call_at(time.monotonic(), event.set)
    return event


def test_timers_are_called_in_the_order_of_their_times(timers: Timers) -> None:
    held = Held(timers)
    for name, when in (("c", 3.0), ("a", 1.0), ("d", 4.0), ("b", 2.0)):
        held.set(name, when)
    assert held.finish() == ["a", "b", "c", "d"]


def test_timers_for_the_same_time_are_called_in_the_order_in_which_they_were_set(
    timers: Timers,
) -> None:
    held = Held(timers)
    names = [str(number) for number in range(20)]
    for name in names:
        held.set(name, 1.0)
    assert held.finish() == names


def test_a_timer_is_not_called_before_its_time(timers: Timers) -> None:
    called: list[float] = []
    when = time.monotonic() + 0.01
    done = threading.Event()
    timers.call_at(when, lambda: (called.append(time.monotonic()), done.set()))  # type: ignore[func-returns-value]
    come(done)
    assert called[0] >= when


def test_a_timer_that_is_due_before_the_one_that_is_slept_for_is_called(timers: Timers) -> None:
    timers.call_at(time.monotonic() + NEVER_S, lambda: None)
    come(soon(timers))


def test_a_canceled_timer_is_not_called(timers: Timers) -> None:
    held = Held(timers)
    a, _, c = held.set("a", 1.0), held.set("b", 2.0), held.set("c", 3.0)
    a.cancel()
    c.cancel()
    assert held.finish() == ["b"]


def test_canceling_twice_or_after_the_call_is_nothing(timers: Timers) -> None:
    held = Held(timers)
    a, b = held.set("a", 1.0), held.set("b", 2.0)
    a.cancel()
    a.cancel()
    assert held.finish() == ["b"]
    b.cancel()
    assert timers._live == 0


def test_the_thread_is_not_there_before_the_first_timer_nor_after_the_last(timers: Timers) -> None:
    assert thread_of(timers) is None
    held = Held(timers)
    thread = thread_of(timers)
    assert thread is not None
    assert (thread.name, thread.daemon) == ("sessionsched-timer", True)
    held.finish()
    assert thread_of(timers) is None


def test_the_thread_goes_when_the_last_timer_is_canceled(timers: Timers) -> None:
    far = [timers.call_at(time.monotonic() + NEVER_S, lambda: None) for _ in range(3)]
    thread = thread_of(timers)
    for timer in far:
        timer.cancel()
    is_gone(thread)
    assert timers._heap == []


def test_the_thread_comes_back_for_a_later_timer(timers: Timers) -> None:
    Held(timers).finish()
    come(soon(timers))


def test_there_is_one_thread_however_many_timers_there_are(timers: Timers) -> None:
    for number in range(1000):
        timers.call_at(time.monotonic() + NEVER_S + number, lambda: None)
    assert [it.name for it in threading.enumerate()].count("sessionsched-timer") == 1


def test_a_time_that_no_lock_can_wait_for_is_waited_for_all_the_same(timers: Timers) -> None:
    timer = timers.call_at(1e300, lambda: None)
    come(soon(timers))
    timer.cancel()


def test_canceled_timers_do_not_pile_up(timers: Timers) -> None:
    alive = timers.call_at(time.monotonic() + NEVER_S, lambda: None)
    for _ in range(10_000):
        timers.call_at(time.monotonic() + NEVER_S, lambda: None).cancel()
    assert len(timers._heap) <= 101
    assert timers._live == 1
    assert alive in {timer for _, _, timer in timers._heap}


def test_canceled_timers_are_thrown_out_without_disturbing_the_order(timers: Timers) -> None:
    held = Held(timers)
    kept = [held.set(f"{number:03}", float(number)) for number in range(50, 0, -1)]
    for timer in [held.set("no", number / 10) for number in range(200)]:
        timer.cancel()
    assert len(timers._heap) < 150
    assert held.finish() == [f"{number:03}" for number in range(1, len(kept) + 1)]


def test_closing_calls_nothing_any_more_and_waits_for_the_thread(timers: Timers) -> None:
    called: list[str] = []
    timer = timers.call_at(time.monotonic() + NEVER_S, lambda: called.append("a"))
    thread = thread_of(timers)
    answer(timers.close)
    assert thread is not None
    assert not thread.is_alive()
    timer.cancel()
    assert (called, timers._live, timers._heap) == ([], 0, [])


class SlowToLeave:
    """Holds a thread that has nothing left to do, just before its end."""

    def __init__(self, timers: Timers) -> None:
        self._next_due = timers._next_due
        self.leaving, self.go = threading.Event(), threading.Event()
        timers._next_due = self  # type: ignore[method-assign]

    def __call__(self) -> Callable[[], object] | None:
        call = self._next_due()
        if call is None:
            self.leaving.set()
            come(self.go)
        return call


@pytest.mark.contract("S7")
def test_closing_waits_for_a_thread_that_is_on_its_way_out(timers: Timers) -> None:
    slow = SlowToLeave(timers)
    come(soon(timers))
    come(slow.leaving)
    closing = spawn(timers.close)
    with pytest.raises(FutureTimeout):
        closing.result(0.01)
    slow.go.set()
    closing.result(60)
    none_left()


@pytest.mark.contract("S7")
def test_closing_waits_for_all_threads_that_are_on_their_way_out(timers: Timers) -> None:
    slow = SlowToLeave(timers)
    come(soon(timers))
    come(slow.leaving)
    called = soon(timers)  # by another thread, when the first has left
    closing = spawn(timers.close)
    until(lambda: timers._live == 0)
    slow.go.set()
    closing.result(60)
    none_left()
    assert not called.is_set()


def test_closing_from_the_thread_itself_does_not_wait_for_itself(timers: Timers) -> None:
    closed = threading.Event()
    timers.call_at(0.0, lambda: (timers.close(), closed.set()))  # type: ignore[func-returns-value]
    come(closed)


def test_closing_without_a_thread_and_closing_twice_are_nothing(timers: Timers) -> None:
    answer(timers.close)
    answer(timers.close)


def test_a_timer_that_finds_no_thread_is_called_with_the_next_one(
    timers: Timers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_more_threads(monkeypatch):
        first = soon(timers)
        assert thread_of(timers) is None
    come(soon(timers))
    assert first.is_set()
