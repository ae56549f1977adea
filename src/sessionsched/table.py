"""The table: all sessions, each under its own lock, and the effects that they order.

Rule 1. A session is only touched under its own lock; a thread holds one session's lock at a time.
Rule 2. Nothing is performed, announced or called back under a lock: effects go to the outbox.
Rule 3. A session that is idle has no record. A record that was freed is `retired`: a thread that
        found it just before looks again.
Rule 4. No clock, no I/O: every call that can change something is told what time it is.

The driver's duties, in this order:
1. After every call that can change something, call `drain(perform)`: at once, or where effects can
   be performed (on the loop's thread, say). `perform(effect, run, at)` must not raise or wait.
2. START: begin the handler. Whatever becomes of it, call `finish` exactly once, also when it was
   stopped before its first step.
3. INTERRUPT: tell the handler to stop, and go on telling it. Don't call `finish` before it is over,
   or else with How.ABANDONED.
4. DROP: record it, out of reach of any cancel; then call `settle`, also when that failed. (Drops
   of one cancel can be settled together: `settle_all`.)
5. END: `run.ended` is there; tell whoever waits. Announce this, and the rest, to observers.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from attrs import Factory, define

from sessionsched import checks
from sessionsched.errors import (
    DuplicateRun,
    IllegalEvent,
    InvalidOption,
    SchedulerClosed,
)
from sessionsched.explain import Explanation, Why, explain
from sessionsched.ids import Ids
from sessionsched.machine import Session
from sessionsched.model import (
    CancelReceipt,
    Cause,
    Event,
    Limits,
    PromptT,
    Scope,
    SessionState,
    SessionView,
    Snapshot,
    Status,
    WhenBusy,
)
from sessionsched.outbox import ByOne, Outbox
from sessionsched.slots import Slots
from sessionsched.verdict import STATUS_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sessionsched.model import Effect, How, Run

__all__ = ["Record", "Table"]

AnswerT = TypeVar("AnswerT")

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_SESSION_IDLE: Final = SessionState.IDLE
_WHEN_QUEUE: Final = WhenBusy.QUEUE
_SCOPE_ALL: Final = Scope.ALL
_CAUSE_INTERRUPT: Final = Cause.INTERRUPT


@define(eq=False, weakref_slot=False, repr=False)
class Record(Session[PromptT]):
    """A session with its lock."""

    #: Held by whoever touches this session.
    lock: threading.Lock = Factory(threading.Lock)
    #: It is no longer in the table, and never will be again. Written once, under the lock.
    retired: bool = False
    #: Whoever performs what it orders; see `Table.driver`.
    driver: Any = None


class Table(Generic[PromptT]):
    """Every session of one scheduler. May be called from any thread."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._max_waiting = self.limits.max_waiting
        self.outbox = Outbox()
        count = self.limits.max_active
        self._slots: Slots[Any] | None = None if count is None else Slots(count)
        #: Whoever performs what is ordered here, if it wants to be found from a run.
        self.driver: Any = None
        # What is done to it from outside of a lock are single dict operations, which don't tear.
        #: Exactly the sessions that have something in flight (or are being looked into just now).
        self._sessions: dict[str, Record[PromptT]] = {}
        self.ids: Ids[PromptT] = Ids(self.limits.remembered)
        #: Set once; read under a session's lock before a run is accepted.
        self._closed = False

    # --- prompts ---

    def accept(self, run: Run[PromptT], now: float, ready: bool = True) -> Run[PromptT]:  # noqa: FBT001, FBT002 - keywords cost
        """Take a run in. Gives that run, or the one that was submitted under its id before.

        Raises:
            Refused: one of its kinds; there is no seq, no effect, and the session is as it was.
            IllegalEvent: this very run has ended before.
        """
        name = run.session_id
        if type(name) is not str:
            checks.session_name(name)
        special = run.name != "" or run.when_busy is not _WHEN_QUEUE or run.seq != 0
        if special:
            _check_options(run)
        ids = self.ids
        while True:
            record = self._sessions.get(name)
            if record is None:
                record = self._make(name)
            record.lock.acquire()
            try:
                if record.retired:
                    continue
                if special or self._closed or record.length >= self._max_waiting:
                    known = self._admit(record, run, now, ready=ready)
                else:
                    run.session = record
                    run.seq = seq = next(ids.seqs)  # as Ids.add, with a call less
                    ids.in_flight[seq] = run
                    known = ids.add_name(run) if ids.lookalikes else run
                    record.accept(run, now, ready)
            finally:
                record.lock.release()
            if known is not run:
                _refuse_other(run, known)
            return known

    def _admit(
        self, record: Record[PromptT], run: Run[PromptT], now: float, *, ready: bool
    ) -> Run[PromptT]:
        """Let it in; or raise; or give the run that has its id."""
        try:
            known = self._refuse(record, run)
            if known is None:
                run.session = record
                self.ids.add(run)
                known = self.ids.add_name(run)
                if known is run:
                    record.accept(run, now, ready)
            return known
        finally:
            if record.state is _SESSION_IDLE:
                self._free(record)

    def _refuse(self, record: Record[PromptT], run: Run[PromptT]) -> Run[PromptT] | None:
        """Refuse a prompt that can't come in. Gives the run that has its id already."""
        known = self.run(run.run_id) if run.name or run.seq else None
        if known is None:
            if run.seq:
                raise IllegalEvent(run.state, Event.ACCEPT, run.session_id, run.run_id)
            if self._closed:
                msg = f"closing: no more prompts for session {run.session_id!r}"
                raise SchedulerClosed(msg, run.session_id, run.run_id)
            record.admit(run, self._max_waiting)
        return known

    def ready(self, run: Run[PromptT], now: float) -> bool:
        """Its owner has prepared it. False: it is not waiting for that."""
        record = run.session or _not_accepted(run)
        with record.lock:
            return record.ready(run, now)

    def withdraw(
        self,
        run: Run[PromptT],
        now: float,
        failure: BaseException | None = None,
        *,
        cause: Cause = Cause.WITHDRAWN,
    ) -> bool:
        """Its owner gives it back (or another cause), or could not prepare it (a failure).

        False: it is ready, or covered.
        """
        record = run.session or _not_accepted(run)
        with record.lock:
            return record.withdraw(run, failure, cause, now)

    # --- cancels ---

    def cancel(
        self,
        session_id: str,
        now: float,
        *,
        scope: Scope = Scope.ALL,
        up_to: int | None = None,
        hold: bool = False,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[PromptT]:
        """Cover what the session has in flight, or the part of it that `scope` and `up_to` name.

        Raises:
            InvalidSession, InvalidOption: nothing has changed.
        """
        if session_id.__class__ is not str:
            checks.session_name(session_id)
        if scope is not _SCOPE_ALL:
            scope = checks.choice(Scope, "scope", scope)
        if cause is not _CAUSE_INTERRUPT:
            cause = _that_people_give(cause)
        if up_to is not None:
            checks.at_least(0, "up_to", up_to)
        while (record := self._sessions.get(session_id)) is not None:  # as `_ask`, with fewer calls
            with record.lock:
                if not record.retired:
                    return record.cancel(scope, up_to, cause, now, hold=hold)
        checks.session_name(session_id)
        return CancelReceipt(session_id)  # idle: nothing to cover, and nothing to remember

    def cancel_run(
        self,
        run: Run[PromptT],
        now: float,
        *,
        scope: Scope = Scope.ALL,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[PromptT]:
        """Cover one run and what it has folded in, if it is where `scope` looks.

        A deadline is this with scope ACTIVE, an expiry with scope WAITING. A run that joined
        another one is a part of that and can't be canceled alone.

        Raises:
            InvalidOption: nothing has changed.
        """
        scope = checks.choice(Scope, "scope", scope)
        cause = _that_people_give(cause)
        record = run.session or _not_accepted(run)
        with record.lock:
            return record.cancel_run(run, scope, cause, now)

    def cancel_all(self, now: float) -> tuple[CancelReceipt[PromptT], ...]:
        """Interrupt every session. Gives the receipts of those where that covered something."""
        receipts = self._ask_each(
            lambda it: it.cancel(Scope.ALL, None, Cause.INTERRUPT, now, hold=False)
        )
        return tuple(receipt for receipt in receipts if receipt)

    # --- what drivers report ---

    def finish(
        self,
        run: Run[PromptT],
        how: How,
        now: float,
        result: object = None,
        error: BaseException | None = None,
    ) -> bool:
        """Its handler is over. False: it isn't active (any longer), and nothing has changed."""
        record = run.session or _not_accepted(run)
        record.lock.acquire()
        try:
            folded = record.finish(run, how, result, error, now)
            if folded is None:
                return False
            if run.name:
                self.ids.forget(run)
            else:
                del self.ids.in_flight[run.seq]  # the same, with a call less
            if folded:
                self.ids.forget(*folded)
            if record.state is _SESSION_IDLE:
                record.retired = True  # as `_free`, with a call less
                del self._sessions[record.session_id]
        finally:
            record.lock.release()
        if self._slots is not None:
            self._hand_over(self._slots, now)
        return True

    def settle(self, run: Run[PromptT], now: float, error: BaseException | None = None) -> bool:
        """Its drop is recorded, or that failed. False: it isn't ending, and nothing has changed."""
        return self.settle_all((run,), now, error)

    def settle_all(
        self, runs: Sequence[Run[PromptT]], now: float, error: BaseException | None = None
    ) -> bool:
        """Settle drops of one session in one go, in this order. False: none of them is ending."""
        record = runs[0].session or _not_accepted(runs[0])
        with record.lock:
            settled = record.settle(runs, error, now)
            self.ids.forget(*settled)
            if settled and record.state is _SESSION_IDLE:
                self._free(record)
        return bool(settled)

    def fold(self, taker: Run[PromptT], now: float) -> tuple[Run[PromptT], ...]:
        """Let the follow-ups that wait join the active run, which asks for them."""
        record = taker.session or _not_accepted(taker)
        with record.lock:
            return record.fold(taker, now)

    def drain(
        self, perform: Callable[[Effect, Run[Any], float], object], at_most: int = sys.maxsize
    ) -> bool:
        """Perform the effects that were ordered so far, unless somebody else is at it.

        True: so many were performed, and there are more: come back for them.
        """
        return self.outbox.drain(ByOne(perform), at_most)

    # --- the line ---

    def hold(self, session_id: str) -> bool:
        """Keep the line from moving. False: it is held already, or there is none (idle)."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.hold()) or False

    def resume(self, session_id: str, now: float) -> bool:
        """Let the line move again. False: it wasn't held."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.resume(now)) or False

    def promote(self, run: Run[PromptT], now: float) -> bool:
        """Move a waiting run to the front of its line. False: it doesn't wait."""
        record = run.session or _not_accepted(run)
        with record.lock:
            return record.promote(run, now)

    def replace(self, run: Run[PromptT], prompt: PromptT) -> bool:
        """Change the prompt of a waiting run. False: it doesn't wait."""
        record = run.session or _not_accepted(run)
        with record.lock:
            return record.replace(run, prompt)

    # --- closing ---

    def close(self, now: float) -> None:
        """Refuse new prompts from here on, and suspend what waits."""
        self._closed = True
        self._ask_each(lambda it: it.cancel(Scope.WAITING, None, Cause.SHUTDOWN, now, hold=False))

    def suspend_active(self, now: float) -> None:
        """Interrupt what is still active; the time to let it finish by itself is over."""
        self._ask_each(lambda it: it.cancel(Scope.ACTIVE, None, Cause.SHUTDOWN, now, hold=False))

    # --- views ---

    def run(self, run_id: str) -> Run[PromptT] | None:
        """Find a run that is in flight, or was named and ended lately.

        Raises:
            InvalidOption: no run can have this id, which is not a string.
        """
        if not isinstance(run_id, str):
            checks.run_name(run_id)
        return self.ids.find(run_id)

    def session(self, session_id: str) -> SessionView[PromptT]:
        """Say how one session stands."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.view()) or SessionView(session_id)

    def explain(self, run_id: str) -> Explanation:
        """Say why a run has not ended: what it waits for, behind what, since when."""
        run = self.run(run_id)
        if run is None:
            return Explanation(run_id, Why.UNKNOWN)
        record = run.session or _not_accepted(run)
        with record.lock:
            return explain(record, run)

    def snapshot(self) -> Snapshot[PromptT]:
        """Say how every session stands that has something in flight."""
        views = self._ask_each(lambda it: it.view())
        busy = tuple(view for view in views if view.state is not _SESSION_IDLE)
        return Snapshot(busy, self._closed)

    @property
    def closed(self) -> bool:
        """Whether new prompts are refused."""
        return self._closed

    @property
    def busy(self) -> bool:
        """Whether any run is in flight."""
        return bool(self.ids.in_flight)

    def __len__(self) -> int:
        """Count the sessions that have something in flight."""
        return len(self._sessions)

    # --- records ---

    def _make(self, session_id: str) -> Record[PromptT]:
        """Make a record, unless somebody else is faster.

        Raises:
            InvalidSession: nobody can be called that; those who have a record can.
        """
        checks.session_name(session_id)
        fresh: Record[PromptT] = Record(session_id, self.outbox, self._slots)
        fresh.driver = self.driver
        return self._sessions.setdefault(session_id, fresh)

    def _ask(
        self, session_id: str, question: Callable[[Record[PromptT]], AnswerT]
    ) -> AnswerT | None:
        """Ask a session something, under its lock. None: it is idle."""
        while (record := self._sessions.get(session_id)) is not None:
            with record.lock:
                if not record.retired:
                    return question(record)
        return None

    def _ask_each(self, question: Callable[[Record[PromptT]], AnswerT]) -> list[AnswerT]:
        """Ask every session in turn, each under its own lock."""
        answers = []
        for record in self._sessions.copy().values():
            with record.lock:
                if not record.retired:
                    answers.append(question(record))
        return answers

    def _free(self, record: Record[PromptT]) -> None:
        """An idle session costs nothing. A thread that waits for this lock will see `retired`."""
        record.retired = True
        del self._sessions[record.session_id]

    def _hand_over(self, slots: Slots[Any], now: float) -> None:
        """Give each free slot to the session that has asked for longest, if it still can use it."""
        while (record := slots.next_session()) is not None:
            with record.lock:
                if not record.offer(now):
                    slots.give()


def _refuse_other(run: Run[Any], known: Run[Any]) -> None:
    """Refuse a prompt whose id belongs to another one.

    Outside of the lock: how prompts compare is the caller's code.

    Raises:
        DuplicateRun: it is another one.
    """
    if known.session_id != run.session_id or not (
        known.prompt is run.prompt or known.prompt == run.prompt
    ):
        msg = f"run id {run.run_id!r} belongs to another prompt of session {known.session_id!r}"
        raise DuplicateRun(msg, run.session_id, run.run_id)


def _check_options(run: Run[Any]) -> None:
    """Refuse what no run can have.

    Raises:
        InvalidOption: of its id, or of what it does when the session is busy.
    """
    run.when_busy = checks.choice(WhenBusy, "when_busy", run.when_busy)
    if run.name != "":
        checks.run_name(run.name, run.session_id)


def _not_accepted(run: Run[Any]) -> NoReturn:
    raise IllegalEvent(run.state, "anything but accept", run.session_id, run.run_id)


def _that_people_give(cause: object) -> Cause:
    """Refuse the causes that are nobody's to give.

    Raises:
        InvalidOption: a run covered with this cause would not end CANCELED.
    """
    known = checks.choice(Cause, "cause", cause)
    if STATUS_OF[known] is not Status.CANCELED:
        msg = f"a cancel can't have the cause {known}: only the scheduler itself finds that"
        raise InvalidOption(msg, option="cause", value=known)
    return known
