"""The words that ROWS is written in: when a row is taken, and what it does.

Rule 1. A guard looks and never touches; an action writes and never chooses.
Rule 2. Only the steps of HOT call them, and only with the session's lock held.

All get the session, what the event is about, and the time. What each event is about:

    accept: run   start: run   finish: (run, how, result, error)
    settle: (runs, error)   fold: (taker, run)   cancel: (active, waiting, cause)

where `active` and `waiting` are what this cancel covers now: the active run or None, and
runs that stand in line, in line order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionsched.line import NOBODY, Line
from sessionsched.model import PLAIN, Cause, Effect, How, RunState
from sessionsched.outbox import DROPS, ENDS
from sessionsched.verdict import COVERED, UNCOVERED, verdict

if TYPE_CHECKING:
    from typing import TypeAlias

    from sessionsched.machine import Session
    from sessionsched.model import Run

    AnyRun: TypeAlias = Run[Any]
    AnySession: TypeAlias = Session[Any]
    Covered: TypeAlias = tuple[Any, list[AnyRun], Cause]
    Settled: TypeAlias = tuple[list[AnyRun], BaseException | None]
    Finished: TypeAlias = tuple[AnyRun, How, object, BaseException | None]

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_RUN_ACCEPTED: Final = RunState.ACCEPTED
_EFFECT_ACCEPTED: Final = Effect.ACCEPTED
_RUN_ACTIVE: Final = RunState.ACTIVE
_EFFECT_START: Final = Effect.START
_RUN_ENDED: Final = RunState.ENDED
_RUN_ENDING: Final = RunState.ENDING
_EFFECT_INTERRUPT: Final = Effect.INTERRUPT
_HOW_RETURNED: Final = How.RETURNED
_HOW_SKIPPED: Final = How.SKIPPED
_HOW_ABANDONED: Final = How.ABANDONED
_COMPLETED: Final = UNCOVERED[How.RETURNED]
_RUN_FOLDED: Final = RunState.FOLDED
_EFFECT_FOLDED: Final = Effect.FOLDED
_EFFECT_END: Final = Effect.END


# --- when: guards look, and never touch ---


def it_is_the_only_one_waiting(session: AnySession, _about: object, _now: float) -> bool:
    return session.length == 1


def the_active_run_is_covered(_session: AnySession, about: Covered, _now: float) -> bool:
    return about[0] is not None


def all_that_wait_are_covered(session: AnySession, about: Covered, _now: float) -> bool:
    return session.length == len(about[1])


def some_are_still_ending(session: AnySession, _about: object, _now: float) -> bool:
    return session.ending.length > 0


def some_wait(session: AnySession, _about: object, _now: float) -> bool:
    return session.length > 0


def another_canceled_run_has_not_ended(session: AnySession, about: Settled, _now: float) -> bool:
    return session.active is not None or session.ending.length > len(about[0])


# --- do: actions write what the row has decided ---


def enqueue(session: AnySession, run: AnyRun, now: float) -> None:
    """Give the run its place at the end of the line."""
    session.newest = run.seq
    run.state = _RUN_ACCEPTED
    run.accepted_at = now
    session.append(run)
    outbox = session.outbox
    if run.rare is not PLAIN or (outbox.loud and not outbox.deaf):
        run.seen = None
        outbox.append((_EFFECT_ACCEPTED, run, now))
    elif outbox.loud:  # else nobody would notice
        run.seen = _EFFECT_ACCEPTED
        next(outbox.tally)
        outbox.counted = True


def start(session: AnySession, run: AnyRun, now: float) -> None:
    """Make the first in line the active run."""
    session.take_first()
    session.active = run
    run.state = _RUN_ACTIVE
    run.started_at = now
    order = session.outbox.append  # on 3.11 such a call is slower when it is made in one go
    order((_EFFECT_START, run, now))


def drop(session: AnySession, about: Covered, now: float) -> None:
    """Cover runs that wait: they never start, and end once that is recorded."""
    _active, waiting, cause = about
    if not waiting:
        return
    if session.ending is NOBODY:
        session.ending = Line()
    session.hand_over(waiting, session.ending)
    for run in waiting:
        run.state = _RUN_ENDING
        run.cause = cause
    session.outbox.append((DROPS, waiting, now))


def interrupt(session: AnySession, about: Covered, now: float) -> None:
    """Cover the active run, and runs that wait behind it."""
    active, _waiting, cause = about
    set_cause(active, cause)
    session.outbox.append((_EFFECT_INTERRUPT, active, now))
    drop(session, about, now)


def end_active(session: AnySession, about: Finished, now: float) -> None:
    """Give the active run its outcome, and the same one to the follow-ups that it took."""
    taker, how, result, error = about
    session.active = None
    if how is _HOW_RETURNED and taker.cause is None:  # as most: the judgement is no news
        taker.verdict = _COMPLETED
    else:
        _note_how(taker, how)
        taker.verdict = verdict(taker.cause, how)
    taker.returned = result
    taker.raised = error
    taker.ended_at = now
    taker.state = _RUN_ENDED  # last, as in `conclude`
    order = session.outbox.append
    order((_EFFECT_END, taker, now))
    if taker.rare is not PLAIN:
        _end_folded(session, taker, now)


def _note_how(taker: AnyRun, how: How) -> None:
    if how is _HOW_SKIPPED:
        taker.started_at = None
    elif how is _HOW_ABANDONED:
        taker.own.abandoned = True


def _end_folded(session: AnySession, taker: AnyRun, now: float) -> None:
    for run in taker.folded:
        run.started_at = None if taker.started_at is None else run.started_at
        run.own.abandoned = taker.rare.abandoned
        run.conclude(taker.verdict, taker.returned, taker.raised, now)
        session.outbox.append((_EFFECT_END, run, now))
    taker.own.folded = ()  # else a run and its follow-ups keep each other alive


def end_dropped(session: AnySession, about: Settled, now: float) -> None:
    """Give dropped runs their outcome: they were covered, or they would not be here."""
    runs, error = about
    session.ending.take_out(runs)
    for run in runs:
        failure = run.rare.failure
        run.returned, run.raised, run.ended_at = None, error if failure is None else failure, now
        run.verdict = COVERED[run.cause]
        run.state = _RUN_ENDED  # last, as in `conclude`
    session.outbox.append((ENDS, runs, now))


def join(session: AnySession, about: tuple[AnyRun, AnyRun], now: float) -> None:
    """Let a waiting follow-up become a part of the active run."""
    taker, run = about
    session.remove(run)
    run.state = _RUN_FOLDED
    run.started_at = now
    run.own.folded_into = taker.run_id
    taker.own.folded += (run,)
    session.outbox.append((_EFFECT_FOLDED, run, now))


def set_cause(run: AnyRun, cause: Cause) -> None:
    run.cause = cause
    for follow_up in run.rare.folded:
        follow_up.cause = cause
