"""The session machine: what one session does next, and nothing else.

Rule 1. Every decision about a session is made here. Drivers obey; they never decide.
Rule 2. Nothing here waits, locks, logs or asks the time: the same state and the same event give
        the same effects. The caller holds the session's lock and says what time it is.
Rule 3. A session's state changes along ROWS alone (rows.py), by the steps that are compiled from
        them: an event with no row for the current state is a bug, and raises.
Rule 4. A wrong call (finishing a run that isn't active, say) changes nothing and says so.

A session runs one run at a time and is the line of those that wait. A cancel raises the mark;
whoever is at or below it is covered. Events come in as method calls, effects go out by `outbox`.
docs/state-diagram.md is printed from ROWS; after a change there, run `make diagram`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define

from sessionsched.actions import set_cause
from sessionsched.errors import LineFull, SessionBusy
from sessionsched.line import NOBODY, Line
from sessionsched.model import (
    CancelReceipt,
    Cause,
    Effect,
    Event,
    How,
    PromptT,
    RunState,
    Scope,
    SessionState,
    SessionView,
    WhenBusy,
)
from sessionsched.rows import HOT, MACHINE, ROWS, SENTENCES, Row
from sessionsched.verdict import beats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Protocol

    from sessionsched.model import Run
    from sessionsched.slots import Slots

    class Outbox(Protocol):
        """Where effects go: anything that keeps them in order."""

        #: Whether anybody is there for effects that are only there to be announced.
        loud: bool
        #: Whether it is enough to count those: one step of the tally each, and then the flag.
        deaf: bool
        counted: bool

        @property
        def tally(self) -> Iterator[int]: ...

        def append(self, order: tuple[str, Any, float], /) -> None: ...


__all__ = ["HOT", "MACHINE", "ROWS", "SENTENCES", "Row", "Session"]

# The steps of each event, by state, are called right here: `fire` would be one more call for each.
_ON_ACCEPT: Final = HOT[Event.ACCEPT]
_ON_START: Final = HOT[Event.START]
_ON_CANCEL: Final = HOT[Event.CANCEL]
_ON_FINISH: Final = HOT[Event.FINISH]
_ON_SETTLE: Final = HOT[Event.SETTLE]
_ON_FOLD: Final = HOT[Event.FOLD]
# Members as globals: on Python 3.11 a look into the class costs more than a call.
_WHEN_QUEUE: Final = WhenBusy.QUEUE
_WHEN_REJECT: Final = WhenBusy.REJECT
_SESSION_IDLE: Final = SessionState.IDLE
_RUN_ACCEPTED: Final = RunState.ACCEPTED
_RUN_QUEUED: Final = RunState.QUEUED
_EFFECT_ACCEPTED: Final = Effect.ACCEPTED
_EFFECT_QUEUED: Final = Effect.QUEUED
_RUN_ENDING: Final = RunState.ENDING
_HOW_ABANDONED: Final = How.ABANDONED
_SESSION_ACCEPTED: Final = SessionState.ACCEPTED
_SCOPE_ALL: Final = Scope.ALL
_SCOPE_ACTIVE: Final = Scope.ACTIVE
_SCOPE_WAITING: Final = Scope.WAITING


#: Prompts that cover others as they come in, and which.
SUPERSEDING: Final[Mapping[WhenBusy, Scope]] = {
    WhenBusy.INTERRUPT: Scope.ALL,
    WhenBusy.LATEST: Scope.WAITING,
}


@define(eq=False, weakref_slot=False, repr=False)
class Session(Line[PromptT]):
    """One conversation, and the line of its runs that were accepted, neither started nor covered.

    Whoever calls a method holds this session's lock.
    """

    session_id: str
    outbox: Outbox
    #: None: no limit to how many are active.
    slots: Slots[Any] | None
    #: Equals what SENTENCES say about the fields below; only the steps of HOT write it.
    state: SessionState = SessionState.IDLE
    #: Only rises, never above `newest`; whoever is in flight with `seq <= mark` is covered. (A
    #: follow-up that was taken goes with the run that took it, whatever its own seq.)
    mark: int = 0
    #: The greatest seq accepted here; only rises.
    newest: int = 0
    #: The one run whose handler has been started and is not over; holds a slot.
    active: Run[PromptT] | None = None
    #: Covered while they waited, and not settled: exactly the runs in state ENDING. Most sessions
    #: never drop a run: a line of its own comes with the first.
    ending: Line[PromptT] = NOBODY
    #: Nothing leaves the line but by a cancel. Ends with the session's falling idle.
    held: bool = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id!r}: {self.state}, mark {self.mark}>"

    def admit(self, run: Run[PromptT], max_waiting: int) -> None:
        """Say whether a prompt may come in. Changes nothing.

        Raises:
            SessionBusy: it would rather be refused than wait.
            LineFull: enough are waiting.
        """
        if run.when_busy is _WHEN_REJECT and self.state is not _SESSION_IDLE:
            msg = f"session {self.session_id!r} is {self.state}; cancel it first, or wait in line"
            raise SessionBusy(msg, self.session_id, run.run_id)
        if self.length >= max_waiting and run.when_busy not in SUPERSEDING:
            msg = f"session {self.session_id!r} has {max_waiting} runs waiting; try again later"
            raise LineFull(msg, self.session_id, run.run_id)

    def accept(self, run: Run[PromptT], now: float, ready: bool) -> None:  # noqa: FBT001 - see R2
        """Take in a run that was admitted and has its seq, covering what it supersedes."""
        if run.when_busy is not _WHEN_QUEUE and run.when_busy in SUPERSEDING:
            self.cancel(SUPERSEDING[run.when_busy], None, Cause.SUPERSEDED, now, hold=False)
        _ON_ACCEPT[self.state](self, run, now)
        if ready:
            run.state = _RUN_QUEUED
            if self.state is _SESSION_ACCEPTED:  # else others must be over first
                self._advance(now)
            # Behind its ACCEPTED; without that nobody would notice.
            if run.seen is not _EFFECT_QUEUED and run.state is _RUN_QUEUED:
                outbox = self.outbox
                if run.seen is _EFFECT_ACCEPTED and outbox.deaf:
                    run.seen = _EFFECT_QUEUED
                    next(outbox.tally)
                    outbox.counted = True
                else:
                    outbox.append((_EFFECT_QUEUED, run, now))

    def ready(self, run: Run[PromptT], now: float) -> bool:
        """Its owner has prepared it: it may start when its turn comes."""
        if run.state is not _RUN_ACCEPTED:
            return False
        run.state = _RUN_QUEUED
        self._advance(now)
        if run.state is _RUN_QUEUED:  # else it has started
            self.outbox.append((_EFFECT_QUEUED, run, now))
        return True

    def cancel(
        self, scope: Scope, up_to: int | None, cause: Cause, now: float, *, hold: bool
    ) -> CancelReceipt[PromptT]:
        """Cover every run in scope that is at or below the fence, and keep the rest."""
        fence = self.newest if up_to is None else min(up_to, self.newest)
        active = self.active
        if active is not None and (scope is _SCOPE_WAITING or active.seq > fence):
            active = None
        waiting, ending = ([], []) if scope is _SCOPE_ACTIVE else self._not_started(fence)
        receipt = self._cover(active, waiting, ending, cause, now)
        if receipt:  # else nothing was covered, and nothing changes
            if scope is _SCOPE_ALL and fence > self.mark:
                self.mark = receipt.mark = fence
            if hold:
                self.held = receipt.held = True
        receipt.kept = self._uncovered()
        return receipt

    def cancel_run(
        self, run: Run[PromptT], scope: Scope, cause: Cause, now: float
    ) -> CancelReceipt[PromptT]:
        """Cover one run, if it is where `scope` looks, with the follow-ups that it took."""
        active = run if run is self.active and scope is not Scope.WAITING else None
        waiting = [run] if run.waiting and scope is not Scope.ACTIVE else []
        ending = [run] if run.state is _RUN_ENDING and scope is not Scope.ACTIVE else []
        return self._cover(active, waiting, ending, cause, now)

    def withdraw(
        self, run: Run[PromptT], failure: BaseException | None, cause: Cause, now: float
    ) -> bool:
        """Its owner gives it back before it was ready, or could not prepare it."""
        if run.state is not _RUN_ACCEPTED:
            return False
        if failure is not None:
            run.own.failure, cause = failure, Cause.UNPREPARED
        return bool(self.cancel_run(run, Scope.WAITING, cause, now))

    def finish(
        self,
        run: Run[PromptT],
        how: How,
        result: object,
        error: BaseException | None,
        now: float,
    ) -> tuple[Run[PromptT], ...] | None:
        """The active run's handler is over. Gives what it had taken, and ends with it.

        None: it is not active, and nothing has changed.
        A run that nothing covers can't be abandoned: that is a wrong call too.
        """
        if run is not self.active or (how is _HOW_ABANDONED and run.cause is None):
            return None
        folded = run.rare.folded
        _ON_FINISH[self.state](self, (run, how, result, error), now)
        if self.slots is not None:
            self.slots.give()  # only now: whoever starts with this slot does so after this END
        self._advance(now)
        return folded

    def settle(
        self, runs: Sequence[Run[PromptT]], error: BaseException | None, now: float
    ) -> list[Run[PromptT]]:
        """Dropped runs have been recorded, or that failed. Gives those of them that were ending."""
        ending = [run for run in runs if run.state is _RUN_ENDING]
        if ending:
            _ON_SETTLE[self.state](self, (ending, error), now)
            self._advance(now)
        return ending

    def fold(self, taker: Run[PromptT], now: float) -> tuple[Run[PromptT], ...]:
        """The active run asks for follow-ups: gives the ready ones, in accept order.

        None while a drop is being recorded: what was said earlier is on record first (P1).
        """
        if taker is not self.active or taker.canceled or self.held or self.ending.length:
            return ()
        found = [run for run in self if run.follows_up and run.state is _RUN_QUEUED]
        found.sort(key=lambda run: run.seq)
        for run in found:
            _ON_FOLD[self.state](self, (taker, run), now)
        return tuple(found)

    def hold(self) -> bool:
        """Keep the line from moving, if there is anything in flight."""
        if self.state is _SESSION_IDLE or self.held:
            return False
        self.held = True
        if self.slots is not None:
            self.slots.leave(self)
        return True

    def resume(self, now: float) -> bool:
        """Let the line move again."""
        if not self.held:
            return False
        self.held = False
        self._advance(now)
        return True

    def promote(self, run: Run[PromptT], now: float) -> bool:
        """Move a waiting run to the front of the line."""
        if not run.waiting:
            return False
        self.to_front(run)
        self._advance(now)
        return True

    def replace(self, run: Run[PromptT], prompt: PromptT) -> bool:
        """Change the prompt of a run that still waits."""
        if not run.waiting:
            return False
        run.prompt = prompt
        return True

    def offer(self, now: float) -> bool:
        """A slot has been taken for this session. False: it can't use it, give it to another."""
        if not self.startable:
            return False
        cast("Slots[Any]", self.slots).leave(self)
        _ON_START[self.state](self, self.first, now)
        return True

    @property
    def startable(self) -> bool:
        """Whether a slot is all that the first in line still needs."""
        return (
            self.state is _SESSION_ACCEPTED and not self.held and self.first.state is _RUN_QUEUED  # type: ignore[union-attr]  # some wait
        )

    def view(self) -> SessionView[PromptT]:
        """Say how things stand."""
        return SessionView(
            self.session_id, self.state, self.mark, self.active,
            tuple(self), tuple(self.ending), self.held,
        )  # fmt: skip

    def _advance(self, now: float) -> None:
        """After any event: start what may start, so that nothing strands, however it went."""
        if (  # it is `startable`, with a call less
            self.state is _SESSION_ACCEPTED and not self.held and self.first.state is _RUN_QUEUED  # type: ignore[union-attr]  # some wait
        ):
            if self.slots is None or self.slots.take(self):
                _ON_START[self.state](self, self.first, now)
            return
        if self.state is _SESSION_IDLE:
            self.held = False  # there is no line left to hold
        if self.slots is not None:
            self.slots.leave(self)

    def _cover(
        self,
        active: Run[PromptT] | None,
        waiting: list[Run[PromptT]],
        ending: list[Run[PromptT]],
        cause: Cause,
        now: float,
    ) -> CancelReceipt[PromptT]:
        """Cover what isn't yet, overrule a weaker cause where it is: cancel is one primitive."""
        fresh = None
        if active is not None and active.cause is None:
            fresh = active
        elif active is not None and not beats(cause, active.cause):
            active = None
        overruled = [run for run in ending if beats(cause, run.cause)] if ending else ending
        if fresh is not None or waiting:
            _ON_CANCEL[self.state](self, (fresh, waiting, cause), now)
            self._advance(now)  # nothing can start, but it may have asked for a slot
        if active is not None and active is not fresh:
            set_cause(active, cause)
        for run in overruled:
            set_cause(run, cause)
        folded = () if active is None else active.rare.folded
        dropped = (*overruled, *waiting)
        return CancelReceipt(self.session_id, self.mark, active, folded, dropped, (), self.held)

    def _not_started(self, fence: int) -> tuple[list[Run[PromptT]], list[Run[PromptT]]]:
        """What is at or below the fence: those that wait, and those that are ending."""
        ending = [run for run in self.ending if run.seq <= fence] if self.ending.length else []
        return self.up_to(fence), ending

    def _uncovered(self) -> tuple[Run[PromptT], ...]:
        active = self.active
        waiting = tuple(self) if self.length else ()
        if active is None or active.cause is not None:
            return waiting
        return (active, *active.rare.folded, *waiting)
