"""Judges a ledger by the contract, once nothing is in flight any longer.

Rule 1. No complaint without a fault: where threads leave the order of two things open, either is
        taken for right.
Rule 2. A complaint begins with the sentence of the contract that was broken.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from sessionsched.events import RunAccepted, RunCanceling, RunEnded, RunStarted
from sessionsched.model import Cause, Status, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    from sessionsched.events import RunEvent
    from sessionsched.model import Outcome, Run
    from sessionsched.testing.ledger import Cancel, Ledger, Life, Visit

    AnyEvent: TypeAlias = RunEvent[Any]
    Found: TypeAlias = Iterator[str]

__all__ = ["judge"]

_SUPERSEDING: Final = (WhenBusy.INTERRUPT, WhenBusy.LATEST)
#: What befalls a run only before its start, or only after it.
_BEFORE: Final = (Cause.EXPIRED, Cause.WITHDRAWN, Cause.UNPREPARED)
_AFTER: Final = (Cause.DEADLINE, Cause.EXTERNAL)


def judge(ledger: Ledger) -> list[str]:
    """Say what is wrong; nothing, if all is well."""
    found = [*ledger.complaints]
    for life in ledger.all_lives():
        found += [f"{what}: {life}" for what in _of_one(ledger, life)]
    if not found:  # what follows takes for granted that everything has ended once
        found += _of_events(ledger)
        found += _of_cancels(ledger)
    return found


# --- one prompt ---


def _of_one(ledger: Ledger, life: Life) -> Found:
    if life.refused or not life.accepted:
        if not life.refused or life.accepted or life.told or life.handled or life.dropped:
            yield "A4: neither accepted nor refused, or both"
        return
    if ledger.one_thread and 0 < ledger.closing < life.began:
        yield "S1: accepted after the close"
    yield from _ends_once(life)
    if life.outcome is not None:
        yield from _is_seen_once(ledger, life, life.outcome)
        yield from _is_recorded_first(life, life.outcome)
        if life.whole.handled and not life.outcome.abandoned:
            yield from _ends_as_its_handler_did(life, life.outcome)


def _ends_once(life: Life) -> Found:
    ends = life.count(RunEnded)
    if ends != 1:
        yield f"T1: it ended {ends} times"
    elif not isinstance(life.told[-1], RunEnded):
        yield f"T6: {type(life.told[-1]).__name__} after its end"
    if life.count(RunAccepted) != 1 or life.count(RunStarted) > 1:
        yield "A3: accepted or started more than once, or never told as accepted"
    if life.outcome is not None and life.told[-1].run.ended != life.outcome:
        yield "T1: the run and its RunEnded don't agree"


def _is_seen_once(ledger: Ledger, life: Life, outcome: Outcome[Any]) -> Found:
    seen = (len(life.handled), len(life.takers), len(life.dropped))
    if sum(seen) > 1 or (sum(seen) == 0 and ledger.records_drops):
        yield f"P1: seen by {seen} handlers, runs that took it, and on_dropped"
    started = bool(life.takers or life.handled)
    if outcome.started is not started:
        yield f"T1: its outcome says started={outcome.started}"


def _is_recorded_first(life: Life, outcome: Outcome[Any]) -> Found:
    """P1, P2, D3: `on_dropped` was over, or its time was, before the end was told."""
    for visit in life.dropped:
        if not _may_be_late(visit, outcome) and not 0 < visit.ended < life.ended:
            yield "P1: its end was told before its drop was recorded"
        if visit.error is not None and outcome.error is None:
            yield f"P2: recording its drop raised {visit.error!r}, and nobody is told"
    for visit in life.prepared:
        if visit.error is not None and (life.handled or life.takers):
            yield f"D3: preparing it raised {visit.error!r}, and it started"


def _may_be_late(visit: Visit, outcome: Outcome[Any]) -> bool:
    """Whether nobody waited for it: there is an error that is not its own."""
    return outcome.error is not None and outcome.error is not visit.error


def _ends_as_its_handler_did(life: Life, outcome: Outcome[Any]) -> Found:
    """X6, X8, X13, S3: it ends as its handler did unless it was covered; what that said is kept."""
    visit = life.whole.handled[0]
    stopped = isinstance(visit.error, asyncio.CancelledError)
    if not visit.ended:
        yield "X8: it ended while its handler was going on"
    if (outcome.status is Status.COMPLETED) is not (visit.error is None) and not _covered(outcome):
        yield f"X13: {outcome.status}, and its handler left with {visit.error!r}"
    if not _covered(outcome) and (outcome.cause is Cause.EXTERNAL) is not (
        stopped and visit.canceled
    ):
        yield f"X13: {outcome.cause}, and its handler left with {visit.error!r}"
    if outcome.cause is Cause.SHUTDOWN and visit.error is None:
        yield "S3: suspended, and its handler returned"
    if outcome.result != visit.result:
        yield f"X6: its handler returned {visit.result!r}, and it has {outcome.result!r}"
    if not stopped and outcome.error is not visit.error:
        yield f"X6: its handler raised {visit.error!r}, and it has {outcome.error!r}"


def _covered(outcome: Outcome[Any]) -> bool:
    return outcome.status is Status.CANCELED or outcome.cause is Cause.SHUTDOWN


# --- cancels ---


def _of_cancels(ledger: Ledger) -> Found:
    """X1 and X7 by the order of calls alone; X2, X11 and X12 by what the receipts say."""
    cancels, lives = defaultdict(list), defaultdict(list)
    for cancel in ledger.cancels:
        cancels[cancel.session_id].append(cancel)
    for life in ledger.taken_in:
        lives[life.session_id].append(life)
    for session_id, those in lives.items():
        yield from _of_session(ledger, those, cancels[session_id] + cancels[""])


def _of_session(ledger: Ledger, lives: list[Life], cancels: list[Cancel]) -> Found:
    named = defaultdict(list)
    for cancel in cancels:
        for number in cancel.covered:
            named[number].append(cancel)
    last = max((life.seq for life in lives if life.when_busy in _SUPERSEDING), default=0)
    for life in lives:
        found = [*_is_not_lost(ledger, life, cancels)]
        found += _is_not_poisoned(life, named[life.number])
        found += _has_its_cause(life.whole, superseded=last > life.whole.seq, ledger=ledger)
        yield from (f"{what}: {life}" for what in found)


def _is_not_lost(ledger: Ledger, life: Life, cancels: list[Cancel]) -> Found:
    status = life.outcome.status if life.outcome else None
    over = life.ended if ledger.one_thread else _over_at_the_earliest(life.whole)
    for cancel in cancels:
        in_flight = life.accepted < cancel.began and cancel.returned < over
        if in_flight and cancel.means(life):
            if status is not Status.CANCELED:
                yield f"X1: in flight when it was canceled, and {status}"
            if ledger.one_thread and life.handled and life.handled[0].began > cancel.returned:
                yield "X7: canceled, and then its handler was called"


def _over_at_the_earliest(life: Life) -> int:
    """When it may have ended; 0 where its end did not wait for its handler or its hook."""
    outcome, visits = life.outcome, (*life.handled, *life.dropped)
    if outcome is None or outcome.abandoned:
        return 0
    return max((it.ended for it in visits if not _may_be_late(it, outcome)), default=0)


def _is_not_poisoned(life: Life, named: list[Cancel]) -> Found:
    outcome, whole = life.outcome, life.whole.outcome
    if outcome is None or whole is None:
        return
    judged = (outcome.status, outcome.cause)
    if judged != (whole.status, whole.cause):
        yield f"F3: {judged}, other than the run that took it"
    if any(cancel.returned < life.began for cancel in named):
        yield "X2: covered by a cancel that came before it"
    if bool(named) is not (judged == (Status.CANCELED, Cause.INTERRUPT)):
        yield f"X11: {judged}, and {len(named)} receipts name it"


def _has_its_cause(life: Life, *, superseded: bool, ledger: Ledger) -> Found:
    """X12: nothing covers a run but what somebody asked for, or what befalls it where it is."""
    cause = life.outcome.cause if life.outcome else None
    due = {None, Cause.INTERRUPT, *life.reasons}
    due |= {Cause.SUPERSEDED} if superseded else set()
    due |= {Cause.SHUTDOWN} if 0 < ledger.closing < life.ended else set()
    if cause not in due:
        yield f"X12: nobody can have given the cause {cause}"
    if (cause in _BEFORE and life.count(RunStarted)) or (
        cause in _AFTER and not life.count(RunStarted)
    ):
        yield f"X12: {cause}, and it was started {life.count(RunStarted)} times"


# --- sessions ---


def _of_events(ledger: Ledger) -> Found:
    """D1, D2, X7, T2, T6: what a session told, in order, and whose handlers were inside."""
    for one, other in itertools.pairwise(ledger.events):
        if one.number >= other.number:
            yield f"T6: event {other.number} came after {one.number}"
    sessions = defaultdict(list)
    for event in ledger.events:
        sessions[event.session_id].append(event)
    for events in sessions.values():
        yield from _one_at_a_time(events)
        yield from _in_accept_order(ledger, events)
        yield from _one_inside({event.run: ledger.of(event.run) for event in events}.values())


def _one_at_a_time(events: Sequence[AnyEvent]) -> Found:
    active: Run[Any] | None = None
    covered: set[Run[Any]] = set()
    for event in events:
        run = event.run
        if isinstance(event, RunCanceling):
            covered.add(run)
        elif isinstance(event, RunEnded):
            covered.discard(run)
            active = None if run is active else active
        elif isinstance(event, RunStarted):
            if run in covered:
                yield f"X7: {run} started after it was covered"
            elif active is not None or covered:
                yield f"T2: {run} started before the end of {active or covered} was told"
            active = run


def _in_accept_order(ledger: Ledger, events: Sequence[AnyEvent]) -> Found:
    started = [it.run for it in events if isinstance(it, RunStarted)]
    own_turn = [run for run in started if not ledger.of(run).promoted]
    for one, other in itertools.pairwise(own_turn):
        if one.seq > other.seq:
            yield f"D2: {other} started after {one}"


def _one_inside(lives: Iterable[Life]) -> Found:
    """D1. A handler that was abandoned may be inside for as long as it likes."""
    going = [life for life in lives if life.outcome and not life.outcome.abandoned]
    visits = sorted((visit.began, visit.ended, life) for life in going for visit in life.handled)
    for (_, left, one), (entered, _, other) in itertools.pairwise(visits):
        if entered < left:
            yield f"D1: the handler for {other} was called while that for {one} was inside"
