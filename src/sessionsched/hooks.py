"""The host's hooks, `prepare` and `on_dropped`: each call bounded in time, reported exactly once.

A hook runs on its own, in the context of the run's submitter: no cancel of a run or of whoever
waits for it reaches it. When its time is over that is reported at once, whatever the hook makes of
being told to stop.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from sessionsched.driver import Driver, Timer
    from sessionsched.model import Run

    #: What is called with the hook's error, and whether somebody outside stopped it.
    Report: TypeAlias = Callable[[BaseException | None, bool], object]

__all__ = ["Hook"]


class Hook(ABC):
    """One call of a hook."""

    def __init__(self, report: Report) -> None:
        self._report = report
        #: Taken by whoever reports, and never given back: there is one report.
        self._told = threading.Lock()
        self._timer: Timer | None = None

    def limit(self, driver: Driver[Any], run: Run[Any], limit_s: float | None) -> None:
        """Report it as too late when its time is over."""
        if limit_s is not None:
            late = TimeoutError(f"a hook for run {run.run_id!r} took longer than {limit_s} s")
            self._timer = driver.call_at(driver.now() + limit_s, lambda: self._too_late(late))
            if self._told.locked():  # by whoever has canceled it before there was a timer
                self._stop_timer()

    def tell(self, error: BaseException | None, *, stopped: bool = False) -> None:
        """Report how it went, unless that was done; `stopped`: somebody outside stopped it."""
        if self._told.acquire(blocking=False):
            self._stop_timer()
            self._report(error, stopped)

    def cancel(self) -> None:
        """Stop it, unless it is over. Nobody wants to know any longer how it went."""
        self._told.acquire(blocking=False)
        self._stop_timer()
        self.stop()

    @abstractmethod
    def stop(self) -> None:
        """Tell the hook to stop, if it is still at it."""

    def _too_late(self, error: TimeoutError) -> None:
        self.tell(error)
        self.stop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
