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
4. DROP: record it, out of reach of any cancel; then call `settle`, also when that failed.
5. END: `run.outcome` is there; tell whoever waits. Announce this, and the rest, to observers.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from attrs import Factory, define

from sessionsched import checks
from sessionsched.errors import DuplicateRun, IllegalEvent, InvalidOption, SchedulerClosed
from sessionsched.machine import Session
from sessionsched.model import (
    CancelReceipt,
    Cause,
    Event,
    Limits,
    PromptT,
    ResultT,
    RunState,
    Scope,
    SessionState,
    SessionView,
    Snapshot,
    Status,
    WhenBusy,
)
from sessionsched.outbox import Outbox
from sessionsched.slots import NO_LIMIT, LimitedSlots, Slots
from sessionsched.verdict import STATUS_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessionsched.model import Effect, How, Run

__all__ = ["Record", "Table"]

AnswerT = TypeVar("AnswerT")


@define(eq=False, weakref_slot=False, repr=False)
class Record(Session[PromptT, ResultT]):
    """A session with its lock."""

    #: Held by whoever touches this session.
    lock: threading.Lock = Factory(threading.Lock)
    #: It is no longer in the table, and never will be again. Written once, under the lock.
    retired: bool = False


class Table(Generic[PromptT, ResultT]):
    """Every session of one scheduler. May be called from any thread."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.outbox = Outbox()
        count = self.limits.max_active
        self._slots: Slots[Any] = NO_LIMIT if count is None else LimitedSlots(count)
        # The calls on these three from outside of a lock are single dict or deque operations,
        # which don't tear.
        #: Exactly the sessions that have something in flight (or are being looked into just now).
        self._sessions: dict[str, Record[PromptT, ResultT]] = {}
        #: Every run in flight, and the named ones that ended lately, by run id.
        self._runs: dict[str, Run[PromptT, ResultT]] = {}
        #: Ids of named runs that have ended, oldest first; at most `limits.remembered`.
        self._ended: deque[str] = deque()
        self._next_seq = itertools.count(1).__next__
        #: Set once; read under a session's lock before a run is accepted.
        self._closed = False

    # --- prompts ---

    def accept(
        self, run: Run[PromptT, ResultT], now: float, *, ready: bool = True
    ) -> Run[PromptT, ResultT]:
        """Take a run in. Gives that run, or the one that was submitted under its id before.

        Raises:
            Refused: one of its kinds; there is no seq, no effect, and the session is as it was.
            IllegalEvent: this very run has ended before.
        """
        checks.session_name(run.session_id)
        run.when_busy = checks.choice(WhenBusy, "when_busy", run.when_busy)
        if not isinstance(run.run_id, str) or run.run_id.isspace():
            msg = f"a run is named by a non-blank string, not by {run.run_id!r}"
            raise InvalidOption(msg, run.session_id, option="run_id", value=run.run_id)
        known = self._take_in(run, now, ready=ready)
        # Compared outside of the lock: how prompts compare is the caller's code.
        if known is run or (
            known.session_id == run.session_id
            and (known.prompt is run.prompt or known.prompt == run.prompt)
        ):
            return known
        msg = f"run id {run.run_id!r} belongs to another prompt of session {known.session_id!r}"
        raise DuplicateRun(msg, run.session_id, run.run_id)

    def _take_in(
        self, run: Run[PromptT, ResultT], now: float, *, ready: bool
    ) -> Run[PromptT, ResultT]:
        """Decide and do under one lock. Gives the run that has this id now."""
        while True:
            record = self._find_or_make(run.session_id)
            with record.lock:
                if record.retired:
                    continue
                try:
                    known = self._runs.get(run.run_id)
                    if known is None:
                        known = self._admit(record, run)
                        if known is run:
                            record.accept(run, now, ready=ready)
                    return known
                finally:
                    self._free_if_idle(record)

    def _admit(
        self, record: Record[PromptT, ResultT], run: Run[PromptT, ResultT]
    ) -> Run[PromptT, ResultT]:
        """Let it in, with id and seq; or raise; or give the run that was faster with that id."""
        if run.state is not RunState.NEW:
            raise IllegalEvent(run.state, Event.ACCEPT, run.session_id, run.run_id)
        if self._closed:
            msg = f"closing: no more prompts for session {run.session_id!r}"
            raise SchedulerClosed(msg, run.session_id, run.run_id)
        record.admit(run, self.limits.max_waiting)
        # Complete before anybody can find it: who does, waits for this session's lock.
        run.seq = self._next_seq()
        run.named = run.run_id != ""
        run.run_id = run.run_id or f"run-{run.seq}"
        run.session = record
        while (known := self._runs.setdefault(run.run_id, run)) is not run:
            if run.named:
                run.seq, run.named, run.session = 0, False, None
                return known
            run.run_id += "'"  # somebody named theirs like that
        return run

    def ready(self, run: Run[PromptT, ResultT], now: float) -> bool:
        """Its owner has prepared it. False: it is not waiting for that."""
        record = _record_of(run)
        with record.lock:
            return record.ready(run, now)

    def withdraw(
        self, run: Run[PromptT, ResultT], now: float, failure: BaseException | None = None
    ) -> bool:
        """Its owner gives it back, or could not prepare it. False: it is ready, or covered."""
        record = _record_of(run)
        with record.lock:
            return record.withdraw(run, failure, now)

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
    ) -> CancelReceipt[PromptT, ResultT]:
        """Cover what the session has in flight, or the part of it that `scope` and `up_to` name.

        Raises:
            InvalidSession, InvalidOption: nothing has changed.
        """
        checks.session_name(session_id)
        scope = checks.choice(Scope, "scope", scope)
        cause = _that_people_give(cause)
        if up_to is not None:
            checks.at_least(0, "up_to", up_to)
        receipt = self._ask(session_id, lambda it: it.cancel(scope, up_to, cause, now, hold=hold))
        return CancelReceipt(session_id) if receipt is None else receipt

    def cancel_run(
        self,
        run: Run[PromptT, ResultT],
        now: float,
        *,
        scope: Scope = Scope.ALL,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[PromptT, ResultT]:
        """Cover one run and what it has folded in, if it is where `scope` looks.

        A deadline is this with scope ACTIVE, an expiry with scope WAITING. A run that joined
        another one is a part of that and can't be canceled alone.

        Raises:
            InvalidOption: nothing has changed.
        """
        scope = checks.choice(Scope, "scope", scope)
        cause = _that_people_give(cause)
        record = _record_of(run)
        with record.lock:
            return record.cancel_run(run, scope, cause, now)

    def cancel_all(self, now: float) -> tuple[CancelReceipt[PromptT, ResultT], ...]:
        """Interrupt every session. Gives the receipts of those where that covered something."""
        receipts = self._ask_each(
            lambda it: it.cancel(Scope.ALL, None, Cause.INTERRUPT, now, hold=False)
        )
        return tuple(receipt for receipt in receipts if receipt)

    # --- what drivers report ---

    def finish(
        self,
        run: Run[PromptT, ResultT],
        how: How,
        now: float,
        *,
        result: ResultT | None = None,
        error: BaseException | None = None,
    ) -> bool:
        """Its handler is over. False: it isn't active (any longer), and nothing has changed."""
        record = _record_of(run)
        with record.lock:
            ended = record.finish(run, how, result, error, now)
            self._put_away(record, ended)
        self._hand_over_slots(now)
        return bool(ended)

    def settle(
        self, run: Run[PromptT, ResultT], now: float, error: BaseException | None = None
    ) -> bool:
        """Its drop is recorded, or that failed. False: it isn't ending, and nothing has changed."""
        record = _record_of(run)
        with record.lock:
            ended = record.settle(run, error, now)
            self._put_away(record, ended)
        return bool(ended)

    def fold(self, taker: Run[PromptT, ResultT], now: float) -> tuple[Run[PromptT, ResultT], ...]:
        """Let the follow-ups that wait join the active run, which asks for them."""
        record = _record_of(taker)
        with record.lock:
            return record.fold(taker, now)

    def drain(self, perform: Callable[[Effect, Run[Any, Any], float], object]) -> None:
        """Perform the effects that were ordered so far, unless somebody else is at it."""
        self.outbox.drain(perform)

    # --- the line ---

    def hold(self, session_id: str) -> bool:
        """Keep the line from moving. False: it is held already, or there is none (idle)."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.hold()) or False

    def resume(self, session_id: str, now: float) -> bool:
        """Let the line move again. False: it wasn't held."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.resume(now)) or False

    def promote(self, run: Run[PromptT, ResultT], now: float) -> bool:
        """Move a waiting run to the front of its line. False: it doesn't wait."""
        record = _record_of(run)
        with record.lock:
            return record.promote(run, now)

    def replace(self, run: Run[PromptT, ResultT], prompt: PromptT) -> bool:
        """Change the prompt of a waiting run. False: it doesn't wait."""
        record = _record_of(run)
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

    def run(self, run_id: str) -> Run[PromptT, ResultT] | None:
        """Find a run that is in flight, or was named and ended lately."""
        return self._runs.get(run_id)

    def session(self, session_id: str) -> SessionView[PromptT, ResultT]:
        """Say how one session stands."""
        checks.session_name(session_id)
        return self._ask(session_id, lambda it: it.view()) or SessionView(session_id)

    def snapshot(self) -> Snapshot[PromptT, ResultT]:
        """Say how every session stands that has something in flight."""
        views = self._ask_each(lambda it: it.view())
        busy = tuple(view for view in views if view.state is not SessionState.IDLE)
        return Snapshot(busy, self._closed)

    @property
    def closed(self) -> bool:
        """Whether new prompts are refused."""
        return self._closed

    def __len__(self) -> int:
        """Count the sessions that have something in flight."""
        return len(self._sessions)

    # --- records ---

    def _find_or_make(self, session_id: str) -> Record[PromptT, ResultT]:
        record = self._sessions.get(session_id)
        if record is None:
            fresh: Record[PromptT, ResultT] = Record(session_id, self.outbox, self._slots)
            record = self._sessions.setdefault(session_id, fresh)
        return record

    def _ask(
        self, session_id: str, question: Callable[[Record[PromptT, ResultT]], AnswerT]
    ) -> AnswerT | None:
        """Ask a session something, under its lock. None: it is idle."""
        while (record := self._sessions.get(session_id)) is not None:
            with record.lock:
                if not record.retired:
                    return question(record)
        return None

    def _ask_each(self, question: Callable[[Record[PromptT, ResultT]], AnswerT]) -> list[AnswerT]:
        """Ask every session in turn, each under its own lock."""
        answers = []
        for record in self._sessions.copy().values():
            with record.lock:
                if not record.retired:
                    answers.append(question(record))
        return answers

    def _put_away(
        self, record: Record[PromptT, ResultT], ended: Iterable[Run[PromptT, ResultT]]
    ) -> None:
        """Forget runs that have ended, but for the last named ones."""
        for run in ended:
            if run.named and self.limits.remembered:
                self._ended.append(run.run_id)
                if len(self._ended) > self.limits.remembered:
                    del self._runs[self._ended.popleft()]
            else:
                del self._runs[run.run_id]
        self._free_if_idle(record)

    def _free_if_idle(self, record: Record[PromptT, ResultT]) -> None:
        """An idle session costs nothing. A thread that waits for this lock will see `retired`."""
        if record.state is SessionState.IDLE and not record.retired:
            record.retired = True
            del self._sessions[record.session_id]

    def _hand_over_slots(self, now: float) -> None:
        """Give each free slot to the session that has asked for longest, if it still can use it."""
        while (record := self._slots.next_session()) is not None:
            with record.lock:
                if not record.offer(now):
                    self._slots.give()


def _record_of(run: Run[PromptT, ResultT]) -> Record[PromptT, ResultT]:
    """Give the record that took the run. It may be retired: then the run has ended."""
    if run.session is None:
        raise IllegalEvent(run.state, "anything but accept", run.session_id, run.run_id)
    return cast("Record[PromptT, ResultT]", run.session)


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
