"""Who waits for whom, so that nobody waits for itself.

A run can't end before the active run of its session. If what carries that one waits for a run, that
can't end before the active run of *its* session, and so on: when the chain comes back to whoever is
about to wait, the wait would never end. Nor would it when every slot is held by a run that waits
for another one to get a slot.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from sessionsched.errors import WouldDeadlock
from sessionsched.model import RunState

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from sessionsched.model import Run

__all__ = ["Waits"]


class Waits:
    """The waits of one scheduler. Those who wait are tasks, or threads."""

    def __init__(self, max_active: int | None) -> None:
        self._max_active = max_active
        #: Whether it matters who carries a run: with slots for all, nobody waits for one.
        self.counts = max_active is not None
        #: Whoever looks and then waits does both at once, or two could close a circle together.
        self._lock = threading.Lock()
        #: Which run each of them waits for just now.
        self._runs: dict[Hashable, Run[Any]] = {}
        #: Who carries each active run, as far as slots are limited. Written without the lock, by
        #: single dict operations, which don't tear: this is done for every run.
        self._carriers: dict[Run[Any], Hashable] = {}

    @contextlib.contextmanager
    def wait(self, me: Hashable, run: Run[Any]) -> Iterator[None]:
        """Let `me` wait for a moment in a run's life.

        Raises:
            WouldDeadlock: it can't come before `me` goes on.
        """
        with self._lock:
            self._refuse_circle(me, run.session_id, _before(run))
            self._runs[me] = run
            try:
                self._refuse_slots(me, run)
            except WouldDeadlock:
                del self._runs[me]
                raise
        try:
            yield
        finally:
            del self._runs[me]

    def refuse(self, me: Hashable, session_id: str, active: Run[Any] | None) -> None:
        """Refuse to stand in line behind oneself.

        Raises:
            WouldDeadlock: the session's active run is ours, or waits for ours.
        """
        with self._lock:
            self._refuse_circle(me, session_id, active)

    def carries(self, run: Run[Any], carrier: Hashable) -> None:
        """Take note of who carries a run, until it is `over`."""
        if self.counts:
            self._carriers[run] = carrier

    def over(self, run: Run[Any]) -> None:
        """Nobody carries it any longer."""
        if self.counts:
            self._carriers.pop(run, None)

    def is_carrier(self, me: Hashable) -> bool:
        """Whether it carries a run, as far as slots are limited: nobody else waits for itself."""
        return me in self._carriers.copy().values()

    def _refuse_circle(self, me: Hashable, session_id: str, active: Run[Any] | None) -> None:
        for _ in range(len(self._runs) + 1):
            carrier = getattr(active, "carrier", None)
            if active is None or carrier is None:
                return
            if carrier == me:
                msg = f"session {session_id!r} can't go on before the run that waits here is over"
                raise WouldDeadlock(msg, session_id, active.run_id)
            active = _before(self._runs.get(carrier))

    def _refuse_slots(self, me: Hashable, run: Run[Any]) -> None:
        carriers = self._carriers.copy()
        if len(carriers) < (self._max_active or 1) or me not in carriers.values():
            return
        if all(
            not carried.canceled and _is_blocked(carrier, self._runs.get(carrier))
            for carried, carrier in carriers.items()
        ):
            msg = (
                f"all {self._max_active} slots are held by runs that wait for other runs;"
                " allow more runs to be active, or don't wait inside a run"
            )
            raise WouldDeadlock(msg, run.session_id, run.run_id)


def _before(run: Run[Any] | None) -> Run[Any] | None:
    """Give the active run that must be over before this one can end; it may be this one."""
    if run is None or run.session is None or not _needs_others(run):
        return None
    return run.session.active


def _needs_others(run: Run[Any]) -> bool:
    """Whether it ends by a handler's doing, and not by itself."""
    return run.state is not RunState.ENDING and run.state is not RunState.ENDED


def _is_blocked(carrier: Hashable, waits_for: Run[Any] | None) -> bool:
    """Whether it waits for a run that needs others; one whose own turn has come goes on."""
    if waits_for is None or getattr(waits_for, "carrier", None) == carrier:
        return False
    return _needs_others(waits_for)
