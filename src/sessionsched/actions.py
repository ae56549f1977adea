"""The words that ROWS is written in: when a row is taken, and what it does.

Rule 1. A guard looks and never touches; an action writes and never chooses.
Rule 2. Only `fire` calls them, and only with the session's lock held.

Both get the session and then the event's own arguments, which are

    accept(run, now)   start(run, now)   finish(run, how, result, error, now)
    settle(run, error, now)   fold(taker, run, now)   cancel(active, waiting, cause, now)

where `active` and `waiting` are what this cancel covers now: the active run or None, and
runs that stand in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionsched.model import PLAIN, Cause, Effect, How, Outcome, RunState
from sessionsched.verdict import STATUS_OF, UNCOVERED, verdict

if TYPE_CHECKING:
    from typing import TypeAlias

    from sessionsched.machine import Session
    from sessionsched.model import Run

    AnyRun: TypeAlias = Run[Any]
    AnySession: TypeAlias = Session[Any]

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_RUN_ACCEPTED: Final = RunState.ACCEPTED
_EFFECT_ACCEPTED: Final = Effect.ACCEPTED
_RUN_ACTIVE: Final = RunState.ACTIVE
_EFFECT_START: Final = Effect.START
_RUN_ENDING: Final = RunState.ENDING
_EFFECT_DROP: Final = Effect.DROP
_EFFECT_INTERRUPT: Final = Effect.INTERRUPT
_HOW_SKIPPED: Final = How.SKIPPED
_HOW_ABANDONED: Final = How.ABANDONED
_RUN_FOLDED: Final = RunState.FOLDED
_EFFECT_FOLDED: Final = Effect.FOLDED
_RUN_ENDED: Final = RunState.ENDED
_EFFECT_END: Final = Effect.END


# --- when: guards look, and never touch ---


def it_is_the_only_one_waiting(session: AnySession, *_: object) -> bool:
    return session.line.length == 1


def the_active_run_is_covered(_session: AnySession, active: AnyRun | None, *_: object) -> bool:
    return active is not None


def all_that_wait_are_covered(
    session: AnySession, _active: AnyRun | None, waiting: list[AnyRun], *_: object
) -> bool:
    return session.line.length == len(waiting)


def some_are_still_ending(session: AnySession, *_: object) -> bool:
    return session.ending.length > 0


def some_wait(session: AnySession, *_: object) -> bool:
    return session.line.length > 0


def another_canceled_run_has_not_ended(session: AnySession, *_: object) -> bool:
    return session.active is not None or session.ending.length > 1


# --- do: actions write what the row has decided ---


def enqueue(session: AnySession, run: AnyRun, now: float) -> None:
    """Give the run its place at the end of the line."""
    session.newest = run.seq
    run.state = _RUN_ACCEPTED
    run.accepted_at = now
    session.line.append(run)
    if session.outbox.loud or run.rare is not PLAIN:
        session.outbox.append((_EFFECT_ACCEPTED, run, now))
    else:
        run.seen = _EFFECT_ACCEPTED  # nobody would notice


def start(session: AnySession, run: AnyRun, now: float) -> None:
    """Make the first in line the active run."""
    session.line.take_first()
    session.active = run
    run.state = _RUN_ACTIVE
    run.started_at = now
    session.outbox.append((_EFFECT_START, run, now))


def drop(
    session: AnySession,
    _active: AnyRun | None,
    waiting: list[AnyRun],
    cause: Cause,
    now: float,
) -> None:
    """Cover runs that wait: they never start, and end once that is recorded."""
    for run in waiting:
        session.line.remove(run)
        run.state = _RUN_ENDING
        run.cause = cause
        session.ending.append(run)
        session.outbox.append((_EFFECT_DROP, run, now))


def interrupt(
    session: AnySession,
    active: AnyRun,
    waiting: list[AnyRun],
    cause: Cause,
    now: float,
) -> None:
    """Cover the active run, and runs that wait behind it."""
    set_cause(active, cause)
    session.outbox.append((_EFFECT_INTERRUPT, active, now))
    drop(session, active, waiting, cause, now)


def end_active(
    session: AnySession,
    taker: AnyRun,
    how: How,
    result: object,
    error: BaseException | None,
    now: float,
) -> None:
    """Give the active run its outcome, and the same one to the follow-ups that it took."""
    session.active = None
    status, cause = UNCOVERED[how] if taker.cause is None else verdict(taker.cause, how)
    started, abandoned = how is not _HOW_SKIPPED, how is _HOW_ABANDONED
    _end(session, taker, Outcome(
        status, cause, result, error, started, None, abandoned,
        taker.accepted_at, taker.started_at if started else None, now,
    ))  # fmt: skip
    folded = taker.rare.folded
    for run in folded:
        _end(session, run, Outcome(
            status, cause, result, error, started, run.folded_into, abandoned,
            run.accepted_at, run.started_at, now,
        ))  # fmt: skip
    if folded:
        taker.own.folded = ()  # else a run and its follow-ups keep each other alive


def end_dropped(session: AnySession, run: AnyRun, error: BaseException | None, now: float) -> None:
    """Give a dropped run its outcome: it was covered, or it would not be here."""
    session.ending.remove(run)
    error = error if run.failure is None else run.failure
    _end(session, run, Outcome(
        STATUS_OF[run.cause], run.cause, None, error, False, None, False,
        run.accepted_at, None, now,
    ))  # fmt: skip


def join(session: AnySession, taker: AnyRun, run: AnyRun, now: float) -> None:
    """Let a waiting follow-up become a part of the active run."""
    session.line.remove(run)
    run.state = _RUN_FOLDED
    run.started_at = now
    run.own.folded_into = taker.run_id
    taker.own.folded += (run,)
    session.outbox.append((_EFFECT_FOLDED, run, now))


def _end(session: AnySession, run: AnyRun, outcome: Outcome[Any]) -> None:
    run.outcome = outcome
    run.state = _RUN_ENDED
    session.outbox.append((_EFFECT_END, run, outcome.ended_at))


def set_cause(run: AnyRun, cause: Cause) -> None:
    run.cause = cause
    for follow_up in run.folded:
        follow_up.cause = cause
