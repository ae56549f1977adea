"""Broken on purpose: the explorer must find each of these, name it, and tell it in few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sessionsched.machine
import sessionsched.slots
import sessionsched.testing.explore.step
from sessionsched import Cause, Effect, Event, How, RunState, Scope, SessionState, WhenBusy
from sessionsched.actions import drop, join
from sessionsched.line import Line
from sessionsched.machine import Session
from sessionsched.rows import HOT, MACHINE, compile_group, fire, flatten
from sessionsched.slots import Slots
from sessionsched.table import Table
from sessionsched.testing.explore import Config, explore, wrong
from sessionsched.testing.explore.step import deliver

if TYPE_CHECKING:
    from collections.abc import Callable

    Patch = pytest.MonkeyPatch

SMALL = Config(prompts=3, cancels=2)


def _with_rows(patch: Patch, event: Event, state: SessionState, *rows: Any) -> None:
    """Let these rows be all there are for this event in this state."""
    patch.setitem(HOT[event], state, compile_group(rows, HOT[event][state]))
    patch.setattr(wrong, "_LEGAL", wrong._LEGAL | {(state, event)})


def mark_compared_with_less(patch: Patch) -> None:
    def up_to(line: Line[Any], fence: int) -> list[Any]:
        return [run for run in line if run.seq < fence]

    patch.setattr(Line, "up_to", up_to)


def mark_set_one_too_high(patch: Patch) -> None:
    right = Session.cancel

    def cancel(session: Session[Any], *args: Any, **options: Any) -> Any:
        receipt = right(session, *args, **options)
        session.mark += bool(receipt)
        return receipt

    patch.setattr(Session, "cancel", cancel)


def idle_cancel_records_a_mark(patch: Patch) -> None:
    right = Table.cancel

    def cancel(table: Table[Any], name: str, now: float, **options: Any) -> Any:
        receipt = right(table, name, now, **options)
        if name not in table._sessions:
            table._make(name).mark = 1000
        return receipt

    patch.setattr(Table, "cancel", cancel)


def mark_cleared_when_the_first_covered_run_is_through(patch: Patch) -> None:
    right = Session.settle

    def settle(session: Session[Any], *args: Any) -> Any:
        ended = right(session, *args)
        if not ended:
            return ended
        session.mark = 0
        for run in session.ending:
            session.ending.remove(run)
            run.cause, run.state = None, RunState.QUEUED
            session.append(run)
        if session.active is None and session.length:
            session.state = SessionState.ACCEPTED
        session._advance(0.0)
        return ended

    patch.setattr(Session, "settle", settle)


def cancel_forgets_those_waiting(patch: Patch) -> None:
    right = Session._cover

    def cover(session: Session[Any], active: Any, waiting: Any, *rest: Any) -> Any:
        return right(session, active, waiting if active is None else [], *rest)

    patch.setattr(Session, "_cover", cover)


def cancel_forgets_the_active_run(patch: Patch) -> None:
    right = Session._cover

    def cover(session: Session[Any], active: Any, waiting: Any, *rest: Any) -> Any:
        return right(session, None if waiting else active, waiting, *rest)

    patch.setattr(Session, "_cover", cover)


def cancel_hits_the_next_prompt(patch: Patch) -> None:
    right = Session.accept

    def accept(session: Session[Any], run: Any, now: float, ready: bool) -> None:  # noqa: FBT001
        canceled = session.state is SessionState.CANCELED
        right(session, run, now, ready)
        if canceled:
            session.cancel_run(run, Scope.ALL, Cause.INTERRUPT, now)

    patch.setattr(Session, "accept", accept)


def hand_over_skipped_after_a_failed_run(patch: Patch) -> None:
    right, advance = Session.finish, Session._advance

    def finish(session: Session[Any], run: Any, how: How, *rest: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Session, "_advance", advance if how is How.RETURNED else lambda *_: None)
            return right(session, run, how, *rest)

    patch.setattr(Session, "finish", finish)


def fold_into_a_covered_run(patch: Patch) -> None:
    def fold(session: Session[Any], taker: Any, now: float) -> Any:
        if taker is not session.active or session.held:
            return ()
        found = [run for run in session if run.follows_up and run.state is RunState.QUEUED]
        for run in found:
            fire(session, Event.FOLD, (taker, run), now)
        return tuple(found)

    patch.setattr(Session, "fold", fold)
    _with_rows(patch, Event.FOLD, SessionState.CANCELED, (None, join, SessionState.CANCELED))


def own_turn_runs_are_folded_too(patch: Patch) -> None:
    def fold(session: Session[Any], taker: Any, now: float) -> Any:
        active = session.active
        if active is None or active is not taker or active.canceled or session.held:
            return ()
        found = [run for run in session if run.state is RunState.QUEUED]
        for run in found:
            fire(session, Event.FOLD, (taker, run), now)
        return tuple(found)

    patch.setattr(Session, "fold", fold)


def two_outcomes_for_a_dropped_run(patch: Patch) -> None:
    def drop_and_end(session: Any, about: Any, now: float) -> None:
        drop(session, about, now)
        for run in about[1]:
            session.outbox.append((Effect.END, run, now))

    row = None, drop_and_end, SessionState.CANCELED
    _with_rows(patch, Event.CANCEL, SessionState.ACCEPTED, row)


def dropped_run_vanishes(patch: Patch) -> None:
    def forget(session: Any, about: Any, _now: float) -> None:
        for run in about[0]:
            session.ending.remove(run)
            run.state = RunState.ENDED

    right = flatten(MACHINE)[Event.SETTLE][SessionState.CANCELED]
    rows = [(when, forget, target) for when, _, target in right]
    _with_rows(patch, Event.SETTLE, SessionState.CANCELED, *rows)


def next_run_starts_while_the_canceled_one_unwinds(patch: Patch) -> None:
    right = Session._advance

    def advance(session: Session[Any], now: float) -> None:
        if session.state is SessionState.CANCELED and session.length and not session.ending.length:
            session.state, session.active = SessionState.ACCEPTED, None
        right(session, now)

    patch.setattr(Session, "_advance", advance)


def newest_first(patch: Patch) -> None:
    right = Line.append

    def append(line: Line[Any], run: Any) -> None:
        right(line, run)
        if run.state is RunState.ACCEPTED:
            line.to_front(run)
            run.own.promoted = False

    patch.setattr(Line, "append", append)


def hold_is_forgotten(patch: Patch) -> None:
    right = Session._advance

    def advance(session: Session[Any], now: float) -> None:
        held, session.held = session.held, False
        right(session, now)
        session.held = held and session.state is not SessionState.IDLE

    patch.setattr(Session, "_advance", advance)


def scope_active_takes_the_line_with_it(patch: Patch) -> None:
    right = Session.cancel

    def cancel(session: Session[Any], scope: Scope, *rest: Any, **options: Any) -> Any:
        return right(session, Scope.ALL if scope is Scope.ACTIVE else scope, *rest, **options)

    patch.setattr(Session, "cancel", cancel)


def interrupt_is_lost_on_a_suspended_run(patch: Patch) -> None:
    patch.setattr(sessionsched.machine, "beats", lambda _, old: old is None)


def shutdown_is_taken_for_an_interrupt(patch: Patch) -> None:
    def close(table: Table[Any], now: float) -> None:
        table._closed = True
        table._ask_each(lambda it: it.cancel(Scope.WAITING, None, Cause.INTERRUPT, now, hold=False))

    patch.setattr(Table, "close", close)


def a_superseding_prompt_leaves_the_active_run_alone(patch: Patch) -> None:
    only_waiting = {WhenBusy.INTERRUPT: Scope.WAITING, WhenBusy.LATEST: Scope.WAITING}
    patch.setattr(sessionsched.machine, "SUPERSEDING", only_waiting)


def orders_arrive_in_the_wrong_order(patch: Patch) -> None:
    def latest_first(before: Any) -> Any:
        return deliver(before._replace(pending=before.pending[::-1]))

    patch.setattr(sessionsched.testing.explore.step, "deliver", latest_first)


def handler_is_never_told(patch: Patch) -> None:
    def silent(session: Any, about: Any, now: float) -> None:
        active, _waiting, active.cause = about
        drop(session, about, now)

    row = None, silent, SessionState.CANCELED
    _with_rows(patch, Event.CANCEL, SessionState.ACTIVE, row)


def slots_go_to_the_last_that_asked(patch: Patch) -> None:
    def next_session(slots: Slots[Any]) -> Any:
        if not (slots._free and slots._asking):
            return None
        slots._free -= 1
        return slots._asking.popitem(last=True)[0]

    patch.setattr(Slots, "next_session", next_session)


def slot_is_lost_when_its_holder_ends(patch: Patch) -> None:
    patch.setattr(Slots, "give", lambda _: None)


SLOTTED = Config(prompts=3, cancels=1, sessions=2, slots=1)
EVERYTHING = Config(prompts=3, cancels=1, holds=0, promotes=0, everything=True)
LAG = Config(prompts=3, cancels=1, lag=True)

#: the mutant, the sentence that it breaks, the longest story that we accept, where
MUTANTS: list[tuple[Callable[[Patch], None], set[str], int, Config]] = [
    (mark_compared_with_less, {"X1"}, 2, SMALL),
    (mark_set_one_too_high, {"X2"}, 2, SMALL),
    (idle_cancel_records_a_mark, {"X3"}, 0, SMALL),
    (mark_cleared_when_the_first_covered_run_is_through, {"X4", "X2", "X1"}, 4, SMALL),
    (cancel_forgets_those_waiting, {"X1"}, 3, SMALL),
    (cancel_forgets_the_active_run, {"X1"}, 3, SMALL),
    (cancel_hits_the_next_prompt, {"X2"}, 3, SMALL),
    (hand_over_skipped_after_a_failed_run, {"D4", "exact"}, 3, SMALL),
    (fold_into_a_covered_run, {"F1"}, 3, SMALL),
    (own_turn_runs_are_folded_too, {"F2"}, 3, SMALL),
    (two_outcomes_for_a_dropped_run, {"T1"}, 2, SMALL),
    (dropped_run_vanishes, {"T1"}, 3, SMALL),
    (next_run_starts_while_the_canceled_one_unwinds, {"D1"}, 3, SMALL),
    (newest_first, {"D2", "exact"}, 4, SMALL),
    (hold_is_forgotten, {"exact"}, 4, SMALL),
    (scope_active_takes_the_line_with_it, {"X2", "exact"}, 3, SMALL),
    (interrupt_is_lost_on_a_suspended_run, {"X1", "exact", "refused"}, 4, EVERYTHING),
    (shutdown_is_taken_for_an_interrupt, {"exact"}, 2, EVERYTHING),
    (a_superseding_prompt_leaves_the_active_run_alone, {"X1"}, 2, EVERYTHING),
    (orders_arrive_in_the_wrong_order, {"X1"}, 3, LAG),
    (handler_is_never_told, {"X8", "exact"}, 3, LAG),
    (slots_go_to_the_last_that_asked, {"D6", "exact"}, 5, SLOTTED),
    (slot_is_lost_when_its_holder_ends, {"D4", "exact"}, 4, SLOTTED),
]


@pytest.mark.parametrize(
    ("mutate", "sentences", "longest", "config"),
    [pytest.param(*mutant, id=mutant[0].__name__) for mutant in MUTANTS],
)
def test_the_explorer_finds(
    mutate: Callable[[Patch], None],
    sentences: set[str],
    longest: int,
    config: Config,
    monkeypatch: Patch,
) -> None:
    mutate(monkeypatch)
    report = explore(config)
    assert report.sentence in sentences, str(report)
    *steps, end = report.story
    assert len(steps) <= longest, str(report)
    assert end.startswith(f"  => {report.sentence}: ")
