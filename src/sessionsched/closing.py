"""Closing: one close, however often and from however many places it is asked for.

Prompts are refused, what waits is suspended, active runs may go on for a while and are then
interrupted; when every run has ended, what was given up on is told to stop for a last time and may
take `grace` seconds; then it is done. It goes on by itself: nobody has to wait for it.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Generic

from sessionsched.model import CloseReport, PromptT, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.driver import Driver, Timer
    from sessionsched.model import Run

__all__ = ["Closing"]


class Closing(Generic[PromptT]):
    """The one close of a scheduler. May be called from any thread."""

    def __init__(
        self, driver: Driver[PromptT], done: Callable[[CloseReport[PromptT]], object]
    ) -> None:
        self._driver = driver
        self._done = done
        self._suspended: list[Run[PromptT]] = []
        #: The table refuses prompts, and has suspended what waited.
        self._begun = False
        #: Guards what follows. A leaf: nothing is called under it.
        self._lock = threading.Lock()
        #: Until when active runs may go on; only gets earlier.
        self._until = math.inf
        #: For that; and then for how long what was given up on may still take.
        self._timer: Timer | None = None
        #: Every run has ended, and that is announced.
        self._empty = False
        self._finished = False

    def begin(self) -> None:
        """Refuse prompts, and suspend what waits. Whoever closes does so, and then goes on.

        Else one who overtakes another would interrupt what is active while the line still moves.
        """
        if self._begun:
            return
        self._driver.table.close(self._driver.now())
        self._begun = True
        self._driver.obey()

    def within(self, drain_s: float) -> None:
        """Interrupt what is still active then; if asked several times, at the earliest of them."""
        until = self._driver.now() + drain_s
        with self._lock:
            if until >= self._until or self._empty:
                return
            self._until = until
        if drain_s:
            timer: Timer | None = self._driver.call_at(until, self.interrupt)
            with self._lock:  # unless there is a better one by now, take it in place of the old one
                if self._until == until and not self._empty:
                    timer, self._timer = self._timer, timer
            if timer is not None:
                timer.cancel()
        else:
            self.interrupt()
        self.check()

    def ended(self, run: Run[PromptT]) -> None:
        """Take note of a run that ended meanwhile."""
        if run.verdict[0] is Status.SUSPENDED:
            self._suspended.append(run)

    def check(self) -> None:
        """Go on if there is nothing more to wait for."""
        if not self._begun or self._driver.table.busy or not self._driver.idle:
            return
        with self._lock:
            first, self._empty = not self._empty, True
        if first and self._driver.stragglers():
            again = self._driver.now() + self._driver.options.grace_s
            self._set_timer(self._driver.call_at(again, self._finish))
            self._driver.stop_stragglers()
        if not self._driver.stragglers():
            self._finish()

    def interrupt(self) -> None:
        """The time to finish by themselves is over for active runs."""
        self._driver.table.suspend_active(self._driver.now())
        self._driver.obey()

    def _finish(self) -> None:
        with self._lock:
            if self._finished:
                return
            self._finished = True
        self._set_timer(None)
        self._driver.over(self._report)

    def _report(self) -> None:
        self._suspended.sort(key=lambda run: run.seq)
        going = sorted(self._driver.stragglers(), key=lambda run: run.seq)
        still_going = tuple(run for run in going if run.rare.abandoned)
        self._done(CloseReport(tuple(self._suspended), still_going))

    def _set_timer(self, timer: Timer | None) -> None:
        with self._lock:
            old, self._timer = self._timer, timer
        if old is not None:
            old.cancel()
