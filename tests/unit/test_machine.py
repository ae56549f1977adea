"""The machine and its table: what is declared, what is compiled from it, and what is illegal."""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from functools import partial
from typing import Any

import attrs
import pytest
from driving import running_on
from transitions import MachineError

from sessionsched import Event, IllegalEvent, Run, RunState, SessionState
from sessionsched.machine import Session
from sessionsched.outbox import Outbox
from sessionsched.rows import (
    MACHINE,
    ROWS,
    SENTENCES,
    Row,
    compile_group,
    compile_table,
    declare,
    fire,
    flatten,
)


def test_there_are_five_states_six_events_and_27_rows() -> None:
    assert (len(SessionState), len(Event), len(ROWS)) == (5, 6, 27)


def test_every_row_says_why() -> None:
    assert [row for row in ROWS if not row.because] == []


def test_where_several_rows_match_only_the_last_has_no_guard() -> None:
    groups = itertools.groupby(ROWS, key=lambda row: (row.event, row.source))
    keys = []
    for key, group in groups:
        keys.append(key)
        *first, last = group
        assert last.when is None, key
        assert all(row.when is not None for row in first), key
    assert len(keys) == len(set(keys)), "the rows of one group stand together"


def test_all_functions_in_the_rows_take_the_session_what_it_is_about_and_the_time() -> None:
    for row in ROWS:
        for function in (row.do, row.when):
            if function is not None:
                assert len(inspect.signature(function).parameters) == 3, function


def test_transitions_knows_exactly_the_rows() -> None:
    declared = Counter((row.source.name, row.event.value, row.target.name) for row in ROWS)
    known: Counter[tuple[Any, ...]] = Counter()
    for name, event in MACHINE.events.items():
        for source, transitions in event.transitions.items():
            known.update((source, name, transition.dest) for transition in transitions)
    assert known == declared


def test_what_is_read_back_from_the_machine_are_the_rows() -> None:
    flat = [
        Row(source, event, target, do, "", when)
        for event, rows in flatten(MACHINE).items()
        for source, group in rows.items()
        for when, do, target in group
    ]
    bare = [attrs.evolve(row, because="") for row in ROWS]
    assert Counter(map(repr, flat)) == Counter(map(repr, bare))


def test_what_is_declared_and_compiled_again_is_the_same() -> None:
    stock = declare(ROWS)
    assert flatten(stock) == flatten(MACHINE)
    assert stock.initial == MACHINE.initial == SessionState.IDLE.name
    (always,) = stock.events["accept"].transitions["IDLE"]
    assert always.conditions == [], "what has no guard asks nobody"


def session_in(state: SessionState) -> Session[str]:
    """A session that says it is in this state, with something to get wrong in it."""
    session: Session[str] = Session("chat", Outbox(), None, state=state, mark=1, newest=2)
    session.active = Run("chat", "hello")
    return session


def fields(session: Session[str]) -> dict[str, object]:
    return {field.name: getattr(session, field.name) for field in attrs.fields(Session)}


LEGAL = {(row.source, row.event) for row in ROWS}
ILLEGAL = [it for it in itertools.product(SessionState, Event) if it not in LEGAL]


def test_some_events_are_illegal_somewhere() -> None:
    assert len(ILLEGAL) == len(SessionState) * len(Event) - len(LEGAL)
    assert (SessionState.IDLE, Event.CANCEL) in ILLEGAL


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_names_state_and_event_and_changes_nothing(
    state: SessionState, event: Event
) -> None:
    session = session_in(state)
    before = fields(session)
    with pytest.raises(IllegalEvent) as raised:
        fire(session, event, None, 0.0)
    assert (raised.value.state, raised.value.event) == (state, event)
    assert raised.value.session_id == "chat"
    assert fields(session) == before
    assert len(session.outbox.effects) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_the_stock_machine_refuses_the_same_events(state: SessionState, event: Event) -> None:
    # A machine of its own: looking up a missing key in MACHINE would insert it.
    with pytest.raises(MachineError):
        declare(ROWS).events[event.value].trigger(session_in(state), session_in(state))


def test_exactly_one_sentence_is_true_of_an_idle_session() -> None:
    session: Session[str] = Session("chat", Outbox(), None)
    assert [state for state, (_, holds) in SENTENCES.items() if holds(session)] == ["idle"]


def test_the_machine_imports_neither_locks_nor_clocks_nor_loops() -> None:
    for module in ("machine", "rows", "actions", "verdict", "line"):
        source = inspect.getsource(__import__(f"sessionsched.{module}", fromlist=["_"]))
        for word in (
            "import threading",
            "import time",
            "import asyncio",
            "import logging",
            "await ",
        ):
            assert word not in source, (module, word)


def test_reprs_are_short() -> None:
    session: Session[str] = Session("chat", Outbox(), None)
    assert repr(session) == "<Session 'chat': idle, mark 0>"


def test_where_no_guard_holds_the_event_is_illegal_and_not_passed_over_in_silence() -> None:
    guarded = [Row(row.source, row.event, row.target, row.do, "", _never) for row in ROWS]
    stock = declare(guarded)
    outbox = Outbox()
    session: Session[str] = Session("chat", outbox, None)
    run: Run[str] = Run("chat", "hello")
    with running_on(compile_table(stock)), pytest.raises(IllegalEvent):
        fire(session, Event.ACCEPT, run, 0.0)
    assert stock.events["accept"].trigger(session, session, run, 0.0) is False
    assert (session.state, len(outbox), run.state) == (SessionState.IDLE, 0, RunState.NEW)


def _never(*_: Any) -> bool:
    return False


# --- what rows are compiled to ---


class Rows:
    """Rows that write down what they are asked, and which of whose guards holds."""

    def __init__(self, guarded: int, holds: int | None) -> None:
        self.log: list[tuple[str, int, object, object, float]] = []
        self._holds = holds
        states = list(SessionState)
        self.rows: list[Any] = [
            (partial(self._when, i), partial(self._do, i), states[i]) for i in range(guarded)
        ]

    def always(self) -> Rows:
        last = len(self.rows)
        self.rows.append((None, partial(self._do, last), list(SessionState)[last]))
        return self

    def _when(self, number: int, session: object, about: object, now: float) -> bool:
        self.log.append(("when", number, session, about, now))
        return number == self._holds

    def _do(self, number: int, session: Session[str], about: object, now: float) -> None:
        assert session.state is SessionState.CANCELED, "it moves on after that"
        self.log.append(("do", number, session, about, now))


@pytest.mark.parametrize(
    ("guarded", "holds"), [(n, i) for n in range(4) for i in (*range(n), None)]
)
def test_a_step_asks_row_by_row_and_takes_the_first_whose_guard_holds(
    guarded: int, holds: int | None
) -> None:
    rows = Rows(guarded, holds).always()
    session = session_in(SessionState.CANCELED)
    compile_group(tuple(rows.rows), _misfire)(session, "about", 7.0)
    taken = guarded if holds is None else holds
    asked = guarded if holds is None else holds + 1
    words = [("when", i) for i in range(asked)] + [("do", taken)]
    assert rows.log == [(word, i, session, "about", 7.0) for word, i in words]
    assert session.state is list(SessionState)[taken]


@pytest.mark.parametrize("guarded", range(4))
def test_a_step_without_a_row_that_fits_does_something_else(guarded: int) -> None:
    rows, session, calls = Rows(guarded, None), session_in(SessionState.CANCELED), list[object]()
    step = compile_group(tuple(rows.rows), lambda *about: calls.append(about))
    step(session, "about", 7.0)
    assert calls == [(session, "about", 7.0)]
    assert session.state is SessionState.CANCELED


def test_steps_have_their_code_to_themselves() -> None:
    for guarded in range(3):
        steps: list[Any] = [
            compile_group(tuple(Rows(guarded, None).always().rows), _misfire) for _ in range(2)
        ]
        assert steps[0].__code__ is not steps[1].__code__


def test_a_table_that_was_compiled_anew_takes_what_has_a_row_and_refuses_the_rest() -> None:
    session: Session[str] = Session("chat", Outbox(), None)
    with running_on(compile_table(MACHINE)), pytest.raises(IllegalEvent) as raised:
        fire(session, Event.CANCEL, None, 0.0)
    with running_on(compile_table(MACHINE)):
        fire(session, Event.ACCEPT, Run("chat", "hello"), 0.0)
    assert session.state is SessionState.ACCEPTED
    assert (raised.value.state, raised.value.event) == (SessionState.IDLE, Event.CANCEL)
    assert raised.value.session_id == "chat"


def test_fire_takes_the_row_with_what_it_is_about_and_the_time() -> None:
    session: Session[str] = Session("chat", Outbox(), None)
    run: Run[str] = Run("chat", "hello")
    fire(session, Event.ACCEPT, run, 7.0)
    assert (session.state, list(session), run.accepted_at) == ("accepted", [run], 7.0)


def _misfire(*_: object) -> None:
    raise AssertionError("a row fits")
