"""The bare table: every effect is performed at once, by writing it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionsched.errors import SchedulerClosed
from sessionsched.model import Effect, How, Run, Scope, WhenBusy
from sessionsched.table import Table
from sessionsched.testing.contract.adapter import Adapter, Feature

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["TableAdapter"]


class TableAdapter(Adapter):
    """A driver of the table that has the kit for handlers and for a recorder of drops."""

    features: Collection[Feature] = frozenset(Feature) - {Feature.STEPS, Feature.STRAY}

    def __init__(self) -> None:
        super().__init__()
        self.table: Table[str] = Table()
        #: Every run that was accepted, by seq.
        self.runs: dict[int, Run[str]] = {}

    def _perform(self, effect: Effect, run: Run[Any], _at: float) -> None:
        if effect is Effect.START:
            self.note_started(run.seq)
        elif effect is Effect.INTERRUPT:
            self.note_told(run.seq)
        elif effect is Effect.DROP:
            self.note_dropped(run.seq)
        elif effect is Effect.END:
            self.note_ended(run.seq, "unknown" if run.ended is None else run.ended.status)

    def _obey(self) -> None:
        self.table.drain(self._perform)

    def accept(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.QUEUE)

    def follow_up(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.FOLD)

    def _take_in(self, session: str, when_busy: WhenBusy) -> int | None:
        run = Run(session, "hello", when_busy=when_busy)
        try:
            self.table.accept(run, 0.0, ready=False)
        except SchedulerClosed:
            return None
        self.runs[run.seq] = run
        self._obey()
        return run.seq

    def ready(self, seq: int) -> None:
        self.table.ready(self.runs[seq], 0.0)
        self._obey()

    def cancel(self, session: str) -> None:
        self.table.cancel(session, 0.0)
        self._obey()

    def cancel_one(self, seq: int) -> None:
        self.table.cancel_run(self.runs[seq], 0.0)
        self._obey()

    def cancel_up_to(self, session: str, seq: int) -> None:
        self.table.cancel(session, 0.0, up_to=seq)
        self._obey()

    def cancel_active(self, session: str) -> None:
        self.table.cancel(session, 0.0, scope=Scope.ACTIVE)
        self._obey()

    def cancel_waiting(self, session: str) -> None:
        self.table.cancel(session, 0.0, scope=Scope.WAITING)
        self._obey()

    def finish(self, seq: int, how: How) -> None:
        # A handler that stops as it was told raises, as far as a driver can see.
        told = How.RETURNED if how is How.RETURNED else How.RAISED
        self.table.finish(self.runs[seq], told, 0.0)
        self._obey()

    def settle(self, seq: int, *, failed: bool) -> None:
        self.table.settle(self.runs[seq], 0.0, OSError("disk full") if failed else None)
        self._obey()

    def fold(self, seq: int) -> Sequence[int]:
        taken = self.table.fold(self.runs[seq], 0.0)
        self._obey()
        return [run.seq for run in taken]

    def hold(self, session: str) -> None:
        self.table.hold(session)
        self._obey()

    def resume(self, session: str) -> None:
        self.table.resume(session, 0.0)
        self._obey()

    def close(self) -> None:
        self.table.close(0.0)
        self.table.suspend_active(0.0)
        self._obey()
