"""The thread scheduler: at rest when every thread waits for the kit."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from sessionsched.errors import SchedulerClosed
from sessionsched.events import RunEnded
from sessionsched.model import How, Scope, WhenBusy
from sessionsched.testing.contract.adapter import Adapter, Feature, News
from sessionsched.testing.contract.loops import HandlerFailed
from sessionsched.threads import ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sessionsched.model import SessionView
    from sessionsched.threads import ThreadRun, ThreadTicket

__all__ = ["ThreadSchedulerAdapter"]

#: No story takes that long: nothing may run into a limit.
FOREVER_S = 1e6
#: What has not happened by then will not.
PATIENCE_S = 10.0


class ThreadSchedulerAdapter(Adapter):
    """Notes come from many threads, so nobody knows in which order two of them were made."""

    features: Collection[Feature] = frozenset(Feature) - {Feature.STEPS, Feature.STRAY}
    ordered: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[int, ThreadTicket[str, None]] = {}
        #: What each handler was called with.
        self.runs: dict[int, ThreadRun[str]] = {}
        #: What handlers and recorders wait for.
        self._gates: dict[int, Future[How]] = {}
        self._drops: dict[int, Future[bool]] = {}
        self._closer: threading.Thread | None = None
        self.scheduler: ThreadScheduler[str, None] = ThreadScheduler(
            self._handle, on_dropped=self._record, grace=FOREVER_S, settle_timeout=FOREVER_S
        )
        subscribed = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(subscribed,), daemon=True)
        self._reader.start()
        subscribed.wait(PATIENCE_S)

    def _handle(self, run: ThreadRun[str]) -> None:
        self.runs[run.seq] = run
        gate = self._gates[run.seq] = Future()
        self.note_started(run.seq)
        run.on_cancel(partial(self.note_told, run.seq))
        how = gate.result()
        if how is How.RAISED:
            raise HandlerFailed
        if how is How.STOPPED:
            run.raise_if_canceled()

    def _record(self, run: ThreadRun[str]) -> None:
        gate = self._drops[run.seq] = Future()
        self.note_dropped(run.seq)
        if gate.result():
            raise OSError("disk full")

    def _read(self, subscribed: threading.Event) -> None:
        with self.scheduler.subscribe() as events:
            subscribed.set()
            for event in events:
                if isinstance(event, RunEnded):
                    self.note_ended(event.seq, event.outcome.status)

    # --- at rest ---

    def rest(self) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not self._is_at_rest() and time.monotonic() < give_up_at:
            time.sleep(0.0005)

    def _is_at_rest(self) -> bool:
        snapshot = self.scheduler.snapshot()
        if self._closer is not None and not snapshot.closed:
            return False
        in_flight = {run.seq for view in snapshot.sessions for run in view.in_flight}
        ended = {seq for seq, _ in self.ended()}
        told_all = in_flight | ended == set(self.tickets)
        return told_all and all(self._waits_for_us(view) for view in snapshot.sessions)

    def _waits_for_us(self, view: SessionView[str]) -> bool:
        """Whether every handler and every recorder of a session is where the kit must go on."""
        active = view.active
        if any(run.seq not in self._drops for run in view.ending):
            return False
        if active is None:
            return True
        to_stop = active.canceled or self._closer is not None
        told = News("told", active.seq) in self.history
        return active.seq in self._gates and (told or not to_stop)

    # --- calls ---

    def accept(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.QUEUE)

    def follow_up(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.FOLD)

    def _take_in(self, session: str, when_busy: WhenBusy) -> int | None:
        try:
            ticket = self.scheduler.accept(session, "hello", when_busy=when_busy)
        except SchedulerClosed:
            return None
        self.tickets[ticket.seq] = ticket
        return ticket.seq

    def ready(self, seq: int) -> None:
        self.tickets[seq].ready()

    def cancel(self, session: str) -> None:
        self.scheduler.cancel(session)

    def cancel_one(self, seq: int) -> None:
        self.tickets[seq].handle.cancel()

    def cancel_up_to(self, session: str, seq: int) -> None:
        self.scheduler.cancel(session, up_to=seq)

    def cancel_active(self, session: str) -> None:
        self.scheduler.cancel(session, scope=Scope.ACTIVE)

    def cancel_waiting(self, session: str) -> None:
        self.scheduler.cancel(session, scope=Scope.WAITING)

    def finish(self, seq: int, how: How) -> None:
        self._gates.pop(seq).set_result(how)

    def settle(self, seq: int, *, failed: bool) -> None:
        self._drops.pop(seq).set_result(failed)

    def fold(self, seq: int) -> Sequence[int]:
        return [run.seq for run in self.runs[seq].take_follow_ups()]

    def hold(self, session: str) -> None:
        self.scheduler.pause(session)

    def resume(self, session: str) -> None:
        self.scheduler.resume(session)

    def close(self) -> None:
        self._closer = threading.Thread(target=self.scheduler.close, daemon=True)
        self._closer.start()

    def stop(self) -> None:
        if self._closer is None:
            self.close()
        give_up_at = time.monotonic() + PATIENCE_S
        while self._reader.is_alive() and time.monotonic() < give_up_at:
            for seq in list(self._gates):
                self.finish(seq, How.RETURNED)
            for seq in list(self._drops):
                self.settle(seq, failed=False)
            self._reader.join(0.0005)
