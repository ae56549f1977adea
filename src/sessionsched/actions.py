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

from typing import TYPE_CHECKING, Any

from sessionsched.model import Cause, Effect, How, Outcome, RunState
from sessionsched.verdict import STATUS_OF, verdict

if TYPE_CHECKING:
    from typing import TypeAlias

    from sessionsched.machine import Session
    from sessionsched.model import Run

    AnyRun: TypeAlias = Run[Any, Any]
    AnySession: TypeAlias = Session[Any, Any]


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
    run.state = RunState.ACCEPTED
    run.accepted_at = now
    session.line.append(run)
    session.outbox.append((Effect.ACCEPTED, run, now))


def start(session: AnySession, run: AnyRun, now: float) -> None:
    """Make the first in line the active run."""
    session.line.remove(run)
    session.active = run
    run.state = RunState.ACTIVE
    run.started_at = now
    session.outbox.append((Effect.START, run, now))


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
        run.state = RunState.ENDING
        run.cause = cause
        session.ending.append(run)
        session.outbox.append((Effect.DROP, run, now))


def interrupt(
    session: AnySession,
    active: AnyRun,
    waiting: list[AnyRun],
    cause: Cause,
    now: float,
) -> None:
    """Cover the active run, and runs that wait behind it."""
    set_cause(active, cause)
    session.outbox.append((Effect.INTERRUPT, active, now))
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
    status, cause = verdict(taker.cause, how)
    abandoned = how is How.ABANDONED
    _end(session, taker, Outcome(
        status, cause, result, error, True, None, abandoned,
        taker.accepted_at, taker.started_at, now,
    ))  # fmt: skip
    for run in taker.folded:
        _end(session, run, Outcome(
            status, cause, result, error, True, taker.run_id, abandoned,
            run.accepted_at, run.started_at, now,
        ))  # fmt: skip
    taker.folded = ()  # else a run and its follow-ups keep each other alive


def end_dropped(session: AnySession, run: AnyRun, error: BaseException | None, now: float) -> None:
    """Give a dropped run its outcome: it was covered, or it would not be here."""
    session.ending.remove(run)
    _end(session, run, Outcome(
        STATUS_OF[run.cause], run.cause, None, run.failure or error, False, None, False,
        run.accepted_at, None, now,
    ))  # fmt: skip


def join(session: AnySession, taker: AnyRun, run: AnyRun, now: float) -> None:
    """Let a waiting follow-up become a part of the active run."""
    session.line.remove(run)
    run.state = RunState.FOLDED
    run.started_at = now
    taker.folded += (run,)
    session.outbox.append((Effect.FOLDED, run, now))


def _end(session: AnySession, run: AnyRun, outcome: Outcome[Any]) -> None:
    run.outcome = outcome
    run.state = RunState.ENDED
    session.outbox.append((Effect.END, run, outcome.ended_at))


def set_cause(run: AnyRun, cause: Cause) -> None:
    run.cause = cause
    for follow_up in run.folded:
        follow_up.cause = cause
