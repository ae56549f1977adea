"""The session machine: what one session does next, and nothing else.

Rule 1. Every decision about a session is made here. Drivers obey; they never decide.
Rule 2. Nothing here waits, locks, logs or asks the time: the same state and the same event give
        the same effects. The caller holds the session's lock and says what time it is.
Rule 3. A session's state changes by `fire` alone, along ROWS (rows.py): an event with no row for
        the current state is a bug, and raises.
Rule 4. A wrong call (finishing a run that isn't active, say) changes nothing and says so.

A session runs one run at a time and keeps later ones in line. A cancel raises the mark; whoever
is at or below it is covered. Events come in as method calls, effects go out through `outbox`.
docs/state-diagram.md is printed from ROWS; after a change there, run `make diagram`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic

from attrs import Factory, define

from sessionsched.actions import set_cause
from sessionsched.errors import LineFull, SessionBusy
from sessionsched.line import Line
from sessionsched.model import (
    CancelReceipt,
    Cause,
    Effect,
    Event,
    How,
    PromptT,
    ResultT,
    RunState,
    Scope,
    SessionState,
    SessionView,
    WhenBusy,
)
from sessionsched.rows import HOT, MACHINE, ROWS, SENTENCES, Row, fire
from sessionsched.verdict import beats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from sessionsched.model import Run
    from sessionsched.slots import Slots

    class Outbox(Protocol):
        """Where effects go: anything that keeps them in order."""

        def append(self, effect: tuple[Effect, Run[Any, Any], float], /) -> None: ...


__all__ = ["HOT", "MACHINE", "ROWS", "SENTENCES", "Row", "Session", "fire"]


#: Prompts that cover others as they come in, and which.
SUPERSEDING: Final[Mapping[WhenBusy, Scope]] = {
    WhenBusy.INTERRUPT: Scope.ALL,
    WhenBusy.LATEST: Scope.WAITING,
}


@define(eq=False, weakref_slot=False, repr=False)
class Session(Generic[PromptT, ResultT]):
    """One conversation. Whoever calls a method holds this session's lock."""

    session_id: str
    outbox: Outbox
    slots: Slots[Any]
    #: Equals what SENTENCES say about the fields below; only `fire` writes it.
    state: SessionState = SessionState.IDLE
    #: Only rises, never above `newest`; whoever is in flight with `seq <= mark` is covered. (A
    #: follow-up that was taken goes with the run that took it, whatever its own seq.)
    mark: int = 0
    #: The greatest seq accepted here; only rises.
    newest: int = 0
    #: The one run whose handler has been started and is not over; holds a slot.
    active: Run[PromptT, ResultT] | None = None
    #: Accepted, neither started nor covered: exactly the runs in state ACCEPTED or QUEUED.
    line: Line[PromptT, ResultT] = Factory(Line)
    #: Covered while they waited, and not settled: exactly the runs in state ENDING.
    ending: Line[PromptT, ResultT] = Factory(Line)
    #: Nothing leaves the line but by a cancel. Ends with the session's falling idle.
    held: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id!r}: {self.state}, mark {self.mark}>"

    def admit(self, run: Run[PromptT, ResultT], max_waiting: int) -> None:
        """Say whether a prompt may come in. Changes nothing.

        Raises:
            SessionBusy: it would rather be refused than wait.
            LineFull: enough are waiting.
        """
        if run.when_busy is WhenBusy.REJECT and self.state is not SessionState.IDLE:
            msg = f"session {self.session_id!r} is {self.state}; cancel it first, or wait in line"
            raise SessionBusy(msg, self.session_id, run.run_id)
        if self.line.length >= max_waiting and run.when_busy not in SUPERSEDING:
            msg = f"session {self.session_id!r} has {max_waiting} runs waiting; try again later"
            raise LineFull(msg, self.session_id, run.run_id)

    def accept(self, run: Run[PromptT, ResultT], now: float, *, ready: bool) -> None:
        """Take in a run that was admitted and has its seq, covering what it supersedes."""
        scope = SUPERSEDING.get(run.when_busy)
        if scope is not None:
            self.cancel(scope, None, Cause.SUPERSEDED, now, hold=False)
        fire(self, Event.ACCEPT, run, now)
        if ready:
            self.ready(run, now)

    def ready(self, run: Run[PromptT, ResultT], now: float) -> bool:
        """Its owner has prepared it: it may start when its turn comes."""
        if run.state is not RunState.ACCEPTED:
            return False
        run.state = RunState.QUEUED
        self._advance(now)
        if run.waiting:
            self.outbox.append((Effect.QUEUED, run, now))
        return True

    def cancel(
        self, scope: Scope, up_to: int | None, cause: Cause, now: float, *, hold: bool
    ) -> CancelReceipt[PromptT, ResultT]:
        """Cover every run in scope that is at or below the fence, and keep the rest."""
        fence = self.newest if up_to is None else min(up_to, self.newest)
        active = None if scope is Scope.WAITING else self.active
        if active is not None and active.seq > fence:
            active = None
        waiting, ending = ([], []) if scope is Scope.ACTIVE else self._not_started(fence)
        receipt = self._cover(active, waiting, ending, cause, now)
        if receipt:  # else nothing was covered, and nothing changes
            self.mark = max(self.mark, fence) if scope is Scope.ALL else self.mark
            self.held = self.held or hold
        receipt.mark, receipt.held = self.mark, self.held
        receipt.kept = self._uncovered()
        return receipt

    def cancel_run(
        self, run: Run[PromptT, ResultT], scope: Scope, cause: Cause, now: float
    ) -> CancelReceipt[PromptT, ResultT]:
        """Cover one run, if it is where `scope` looks, with the follow-ups that it took."""
        active = run if run is self.active and scope is not Scope.WAITING else None
        waiting = [run] if run.waiting and scope is not Scope.ACTIVE else []
        ending = [run] if run.state is RunState.ENDING and scope is not Scope.ACTIVE else []
        receipt = self._cover(active, waiting, ending, cause, now)
        receipt.mark, receipt.held = self.mark, self.held
        return receipt

    def withdraw(
        self, run: Run[PromptT, ResultT], failure: BaseException | None, now: float
    ) -> bool:
        """Its owner gives it back before it was ready, or could not prepare it."""
        if run.state is not RunState.ACCEPTED:
            return False
        run.failure = failure
        cause = Cause.WITHDRAWN if failure is None else Cause.UNPREPARED
        return bool(self.cancel_run(run, Scope.WAITING, cause, now))

    def finish(
        self,
        run: Run[PromptT, ResultT],
        how: How,
        result: ResultT | None,
        error: BaseException | None,
        now: float,
    ) -> tuple[Run[PromptT, ResultT], ...]:
        """The active run's handler is over. Gives the runs that ended with it: () if not active.

        A run that nothing covers can't be abandoned: that is a wrong call too.
        """
        if run is not self.active or (how is How.ABANDONED and run.cause is None):
            return ()
        ended = (run, *run.folded)
        fire(self, Event.FINISH, run, how, result, error, now)
        self.slots.give()  # only now: whoever starts with this slot does so after this END
        self._advance(now)
        return ended

    def settle(
        self, run: Run[PromptT, ResultT], error: BaseException | None, now: float
    ) -> tuple[Run[PromptT, ResultT], ...]:
        """A dropped run has been recorded, or that failed. Gives the run: () if not ending."""
        if run.state is not RunState.ENDING:
            return ()
        fire(self, Event.SETTLE, run, error, now)
        self._advance(now)
        return (run,)

    def fold(self, taker: Run[PromptT, ResultT], now: float) -> tuple[Run[PromptT, ResultT], ...]:
        """The active run asks for follow-ups: gives the ready ones, in accept order.

        None while a drop is being recorded: what was said earlier is on record first (P1).
        """
        if taker is not self.active or taker.canceled or self.held or self.ending.length:
            return ()
        found = [run for run in self.line if run.follows_up and run.state is RunState.QUEUED]
        found.sort(key=lambda run: run.seq)
        for run in found:
            fire(self, Event.FOLD, taker, run, now)
        return tuple(found)

    def hold(self) -> bool:
        """Keep the line from moving, if there is anything in flight."""
        if self.state is SessionState.IDLE or self.held:
            return False
        self.held = True
        self.slots.leave(self)
        return True

    def resume(self, now: float) -> bool:
        """Let the line move again."""
        if not self.held:
            return False
        self.held = False
        self._advance(now)
        return True

    def promote(self, run: Run[PromptT, ResultT], now: float) -> bool:
        """Move a waiting run to the front of the line."""
        if not run.waiting:
            return False
        self.line.promote(run)
        self._advance(now)
        return True

    def replace(self, run: Run[PromptT, ResultT], prompt: PromptT) -> bool:
        """Change the prompt of a run that still waits."""
        if not run.waiting:
            return False
        run.prompt = prompt
        return True

    def offer(self, now: float) -> bool:
        """A slot has been taken for this session. False: it can't use it, give it to another."""
        if not self.startable:
            return False
        self.slots.leave(self)
        fire(self, Event.START, self.line.first, now)
        return True

    @property
    def startable(self) -> bool:
        """Whether a slot is all that the first in line still needs."""
        first = self.line.first
        return (
            self.state is SessionState.ACCEPTED
            and not self.held
            and first is not None
            and first.state is RunState.QUEUED
        )

    def view(self) -> SessionView[PromptT, ResultT]:
        """Say how things stand."""
        return SessionView(
            self.session_id, self.state, self.mark, self.active,
            tuple(self.line), tuple(self.ending), self.held,
        )  # fmt: skip

    def _advance(self, now: float) -> None:
        """After any event: start what may start, so that nothing strands, however it went."""
        if self.state is SessionState.IDLE:
            self.held = False  # there is no line left to hold
        if not self.startable:
            self.slots.leave(self)
        elif self.slots.take(self):
            fire(self, Event.START, self.line.first, now)

    def _cover(
        self,
        active: Run[PromptT, ResultT] | None,
        waiting: list[Run[PromptT, ResultT]],
        ending: list[Run[PromptT, ResultT]],
        cause: Cause,
        now: float,
    ) -> CancelReceipt[PromptT, ResultT]:
        """Cover what isn't yet, overrule a weaker cause where it is: cancel is one primitive."""
        if active is not None and not beats(cause, active.cause):
            active = None
        fresh = active if active is not None and active.cause is None else None
        overruled = [run for run in ending if beats(cause, run.cause)]
        if fresh is not None or waiting:
            fire(self, Event.CANCEL, fresh, waiting, cause, now)
            self._advance(now)  # nothing can start, but it may have asked for a slot
        if active is not None and active is not fresh:
            set_cause(active, cause)
        for run in overruled:
            set_cause(run, cause)
        folded = () if active is None else active.folded
        return CancelReceipt(self.session_id, 0, active, folded, (*overruled, *waiting))

    def _not_started(
        self, fence: int
    ) -> tuple[list[Run[PromptT, ResultT]], list[Run[PromptT, ResultT]]]:
        """What is at or below the fence: those that wait, and those that are ending."""
        return self.line.up_to(fence), [run for run in self.ending if run.seq <= fence]

    def _uncovered(self) -> tuple[Run[PromptT, ResultT], ...]:
        active = self.active
        if active is None or active.canceled:
            return tuple(self.line)
        return (active, *active.folded, *self.line)
