"""Those that were told to stop: told again after each grace, until they do, or are given up on.

Rule 1. Whoever is told is looked at again: after a grace, or as soon as it may be abandoned.
Rule 2. Grace is the same for all, so looks fall due in the order in which they are planned: one
        queue, and one timer for all of it. A look that would be due before the last in the queue
        has a timer of its own.
Rule 3. While nobody is in the queue there is no timer.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, Generic

from sessionsched.events import RunStuck
from sessionsched.model import How, PromptT, RunState

if TYPE_CHECKING:
    from typing import TypeAlias

    from sessionsched.driven import DrivenRun
    from sessionsched.driver import Driver, Timer

    #: When a run is looked at again, when it was covered, and how often it was told to stop.
    Look: TypeAlias = tuple[float, float, int]

__all__ = ["Stopping"]

_RUN_ENDED: Final = RunState.ENDED


class Stopping(Generic[PromptT]):
    """The runs of one driver that were told to stop. May be called from any thread."""

    def __init__(self, driver: Driver[PromptT]) -> None:
        self._driver = driver
        #: Guards what follows. A leaf: nothing is called under it.
        self._lock = threading.Lock()
        #: Whom to look at again, in the order in which that falls due.
        #: Not a plain dict: taking the oldest from one over and over is quadratic.
        self._looks: OrderedDict[DrivenRun[PromptT], Look] = OrderedDict()
        #: When the look falls due that was the last to be put into the queue.
        self._last = -math.inf
        #: For the first in the queue, or for one that was before it. None: the queue is empty, or
        #: whoever put somebody there is about to set it.
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Count those in the queue."""
        return len(self._looks)

    def tell(self, run: DrivenRun[PromptT], since: float, at: float, before: int = 0) -> None:
        """Tell it to stop, and come back when that has had time enough to help."""
        if not run.going:
            return
        run.stop()
        options = self._driver.options
        again = at + options.grace_s
        if options.abandon_s is not None:
            again = min(again, since + options.abandon_s)
        self._plan(run, (again, since, before + 1))

    def over(self, run: DrivenRun[PromptT]) -> None:
        """It has ended."""
        with self._lock:
            was_last = self._looks.pop(run, None) is not None and not self._looks
        if was_last:
            self._arm()

    def _plan(self, run: DrivenRun[PromptT], look: Look) -> None:
        self._driver.clear_timer(run)
        with self._lock:
            in_order = look[0] >= self._last or not self._looks
            if in_order:
                self._looks[run], self._last = look, look[0]
        if not in_order:
            self._driver.set_timer(run, look[0], partial(self._look_at, run, look))
            return
        if self._timer is None:
            self._arm()
        if run.state is _RUN_ENDED:  # meanwhile, by another thread's doing
            self.over(run)

    def _arm(self) -> None:
        """Have a timer for the first in the queue, and no other."""
        armed = False
        while not armed:
            with self._lock:
                first = self._first()
            timer = first and self._driver.call_at(first[0], partial(self._due, first[0]))
            with self._lock:
                timer, self._timer = self._timer, timer
                armed = self._first() is first  # else others have come or gone meanwhile
            if timer is not None:
                timer.cancel()

    def _first(self) -> Look | None:
        return next(iter(self._looks.values()), None)

    def _due(self, when: float) -> None:
        """Look at those whose time has come, by the timer or by the clock: one may lag a little."""
        until = max(when, self._driver.now())
        try:
            for _ in range(len(self._looks)):  # at nobody twice, however short the grace is
                due = self._take(until)
                if due is None:
                    break
                self._look_at(*due)
        finally:
            self._arm()

    def _take(self, until: float) -> tuple[DrivenRun[PromptT], Look] | None:
        """Take the first out of the queue, if it is due."""
        with self._lock:
            first = self._first()
            due = first is not None and first[0] <= until
            return self._looks.popitem(last=False) if due else None

    def _look_at(self, run: DrivenRun[PromptT], look: Look) -> None:
        """Its time is over: tell it again, or give it up."""
        if not run.going:
            return
        now, options = self._driver.now(), self._driver.options
        when, since, told = look
        self._driver.tell(RunStuck, run, told)
        if options.abandon_s is None or when < since + options.abandon_s:
            self.tell(run, since, now, told)
        elif run.begun:
            self._abandon(run, now)
        else:  # it is on its way to a thread
            self._plan(run, (now + options.grace_s, since, told))

    def _abandon(self, run: DrivenRun[PromptT], now: float) -> None:
        run.stop()
        carrier = run.carrier
        if self._driver.table.finish(run, How.ABANDONED, now):
            run.abandon(carrier)
        self._driver.obey()
