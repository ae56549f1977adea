"""A clock that a test moves by hand."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Final

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ManualClock", "ManualTimer"]


@define(order=True)
class ManualTimer:
    """Something that a manual clock will call, unless it is canceled first."""

    when: float
    number: int
    _call: Callable[[], object] | None = field(order=False)

    def cancel(self) -> None:
        """Don't call it, if it was not called yet."""
        self._call = None

    @property
    def canceled(self) -> bool:
        """Whether it will not be called, or was already."""
        return self._call is None

    def ring(self) -> None:
        """Call it, once."""
        call, self._call = self._call, None
        if call is not None:
            call()


class ManualClock:
    """A clock that a test moves by hand: for drivers of one's own, and for code that asks the time.

    `clock()` says what time it is. Timers are called by `advance`, each at its own time, and in the
    order in which they were set where that is the same.
    """

    def __init__(self, now: float = 0.0) -> None:
        #: Only rises.
        self.now = now
        #: A heap; those that were canceled stay in it.
        self._timers: list[ManualTimer] = []
        self._next_number: Final = itertools.count().__next__

    def __call__(self) -> float:
        """Say what time it is."""
        return self.now

    def call_at(self, when: float, call: Callable[[], object]) -> ManualTimer:
        """Have something called at a time; if that has passed, when time next moves."""
        timer = ManualTimer(when, self._next_number(), call)
        heapq.heappush(self._timers, timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, and call what comes due, also what is set meanwhile.

        Raises:
            ValueError: time does not go backwards.
        """
        if seconds < 0:
            raise ValueError("time does not go backwards")
        until = self.now + seconds
        while self._timers and self._timers[0].when <= until:
            timer = heapq.heappop(self._timers)
            self.now = max(self.now, timer.when)
            timer.ring()
        self.now = until

    @property
    def timers(self) -> list[ManualTimer]:
        """The timers that are still to be called, the next first."""
        return sorted(it for it in self._timers if not it.canceled)
