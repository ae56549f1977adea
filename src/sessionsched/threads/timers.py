"""One thread for all timers: it sleeps until the next one is due, and is not there without any."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ThreadTimer", "Timers", "at_most"]

#: Canceled timers stay in the heap until they are due, or are so many, and most of it.
_MANY: Final = 100


@overload
def at_most(timeout: float) -> float: ...
@overload
def at_most(timeout: float | None) -> float | None: ...
def at_most(timeout: float | None) -> float | None:
    """Give a timeout that a lock can wait for; None: for ever."""
    return None if timeout is None else min(timeout, threading.TIMEOUT_MAX)


class ThreadTimer:
    """Something that will be called, unless it is canceled first."""

    __slots__ = ("_timers", "call")

    def __init__(self, timers: Timers, call: Callable[[], object]) -> None:
        self._timers = timers
        #: None once it was called or canceled.
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Don't call it, if it was not called yet."""
        self._timers.cancel(self)


class Timers:
    """All timers of one scheduler, on the monotonic clock. What they call never waits."""

    def __init__(self) -> None:
        #: Guards everything below; notified when the thread has to look again.
        self._changed = threading.Condition()
        self._heap: list[tuple[float, int, ThreadTimer]] = []
        self._next_number = itertools.count().__next__
        #: Those in the heap that will be called.
        self._live = 0
        #: Looks after them: there exactly while `_live` is more than zero (or was, a moment ago).
        self._thread: threading.Thread | None = None
        #: The last one that came: on its way out, or gone, when it is not `_thread` any longer.
        #: Those before it are gone, for it has waited for that.
        self._last: threading.Thread | None = None

    def call_at(self, when: float, call: Callable[[], object]) -> ThreadTimer:
        """Have something called at that time."""
        timer = ThreadTimer(self, call)
        with self._changed:
            heapq.heappush(self._heap, (when, self._next_number(), timer))
            self._live += 1
            if self._thread is None:
                with contextlib.suppress(RuntimeError):  # no thread can start: the next call tries
                    self._thread = self._last = self._started()
            elif self._heap[0][2] is timer:
                self._changed.notify()
        return timer

    def cancel(self, timer: ThreadTimer) -> None:
        """Don't call it."""
        with self._changed:
            if timer.call is None:
                return
            timer.call = None
            self._live -= 1
            if len(self._heap) > max(_MANY, 2 * self._live):
                self._heap = [entry for entry in self._heap if entry[2].call is not None]
                heapq.heapify(self._heap)
            if not self._live:
                self._changed.notify()  # the thread can go

    def close(self) -> None:
        """Call nothing any more, and wait until the thread is gone."""
        with self._changed:
            for _, _, timer in self._heap:
                timer.call = None
            self._heap.clear()
            self._live = 0
            last = self._last
            self._changed.notify()
        if last is not None and last is not threading.current_thread():
            last.join()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(
            target=self._run, args=(self._last,), name="sessionsched-timer", daemon=True
        )
        thread.start()
        return thread

    def _run(self, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # it has nothing left to do but to end
        while (call := self._next_due()) is not None:
            call()

    def _next_due(self) -> Callable[[], object] | None:
        """Wait for the next one that is due. None: there is none left, and the thread goes."""
        with self._changed:
            while self._live:
                when, _, timer = self._heap[0]
                delay = when - time.monotonic()
                if timer.call is not None and delay > 0:
                    self._changed.wait(at_most(delay))
                    continue
                heapq.heappop(self._heap)
                call, timer.call = timer.call, None
                if call is not None:
                    self._live -= 1
                    return call
            self._heap.clear()
            self._thread = None
            return None
