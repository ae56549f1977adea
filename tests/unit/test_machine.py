"""The machine and its table: what is declared, what is compiled from it, and what is illegal."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from transitions import MachineError

import sessionsched.machine
import sessionsched.rows
from sessionsched import Event, IllegalEvent, Run, RunState, SessionState
from sessionsched.machine import Session
from sessionsched.model import LIFE
from sessionsched.rows import HOT, MACHINE, ROWS, SENTENCES, Row, compile_table, declare, fire
from sessionsched.slots import NO_LIMIT
from sessionsched.testing.explore import Config, Search
from sessionsched.testing.explore.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.explore.situation import Action, Frozen

CONFIG = Config(prompts=3, cancels=2)


@functools.cache
def reachable() -> tuple[tuple[Frozen, Action], ...]:
    """Every call that is possible in every situation that can be reached."""
    search = Search(CONFIG)
    for _ in search.visit_all():
        pass
    return tuple((at, action) for at, led_to in search.known.items() for action in led_to)


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


def test_all_functions_in_the_rows_have_the_arguments_of_their_event() -> None:
    counts = {Event.ACCEPT: 3, Event.START: 3, Event.CANCEL: 5, Event.FINISH: 6,
              Event.SETTLE: 4, Event.FOLD: 4}  # fmt: skip
    for row in ROWS:
        for function in (row.do, row.when):
            if function is not None:
                inspect.signature(function).bind(*range(counts[row.event]))


def test_transitions_knows_exactly_the_rows() -> None:
    declared = Counter((row.source.name, row.event.value, row.target.name) for row in ROWS)
    known: Counter[tuple[Any, ...]] = Counter()
    for name, event in MACHINE.events.items():
        for source, transitions in event.transitions.items():
            known.update((source, name, transition.dest) for transition in transitions)
    assert known == declared


def test_the_hot_table_is_compiled_from_the_machine() -> None:
    flat = [
        Row(source, event, target, do, "", when)
        for event, rows in HOT.items()
        for source, group in rows.items()
        for when, do, target in group
    ]
    bare = [attrs.evolve(row, because="") for row in ROWS]
    assert Counter(map(repr, flat)) == Counter(map(repr, bare))


class Log:
    """Rows whose guards and actions write down that they were called."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, object]] = []
        self.rows = [
            attrs.evolve(row, do=self.noting(row.do), when=row.when and self.noting(row.when))
            for row in ROWS
        ]

    def noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: object) -> object:
            answer = function(*args)
            self.lines.append((function.__name__, answer))
            return answer

        return noted

    def take(self) -> list[tuple[str, object]]:
        lines, self.lines = self.lines, []
        return lines


def test_the_stock_machine_and_the_compiled_table_agree_on_every_reachable_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    stock = declare(log.rows)
    monkeypatch.setattr(sessionsched.rows, "HOT", compile_table(stock))

    def stock_fire(session: Session[Any, Any], event: Event, *args: object) -> None:
        assert stock.events[event.value].trigger(session, session, *args) is True

    called: Counter[str] = Counter()
    cases = 0
    world = World(CONFIG)
    for before, action in reachable():
        log.take()
        results = []
        for how in (fire, stock_fire):
            monkeypatch.setattr(sessionsched.machine, "fire", how)
            world.load(before)
            world.act(action)
            results.append((log.take(), world.sessions(), world.effects()))
        monkeypatch.setattr(sessionsched.machine, "fire", fire)
        assert results[0] == results[1], action
        called.update(name for name, _ in results[0][0])
        cases += 1
    assert cases > 10_000
    assert set(called) == {f.__name__ for row in ROWS for f in (row.do, row.when) if f}


def test_every_row_is_taken_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: Counter[tuple[SessionState, Event, SessionState, object]] = Counter()

    def noting_fire(session: Session[Any, Any], event: Event, *args: object) -> None:
        source = session.state
        guards = [row for row in ROWS if (row.source, row.event) == (source, event)]
        chosen = next(row for row in guards if row.when is None or row.when(session, *args))
        fire(session, event, *args)
        assert session.state is chosen.target
        taken[source, event, chosen.target, chosen.when] += 1

    monkeypatch.setattr(sessionsched.machine, "fire", noting_fire)
    world = World(CONFIG)
    for before, action in reachable():
        world.load(before)
        world.act(action)
    assert {(row.source, row.event, row.target, row.when) for row in ROWS} == set(taken)


def test_a_run_moves_along_its_life_and_no_other_way() -> None:
    legal = {(source, target) for source, _, target in LIFE}
    seen = set()
    world = World(CONFIG)
    for before, action in reachable():
        world.load(before)
        was = {seq: run.state for seq, run in world.runs.items()}
        world.act(action)
        moved = {seq: run for seq, run in world.runs.items() if was.get(seq) is not run.state}
        seen |= {(was[seq], run.state) for seq, run in moved.items() if seq in was}
    assert seen <= legal | {(a, c) for a, b in legal for b2, c in legal if b == b2}
    assert {pair for pair in legal if pair[0].value != "new"} <= seen


def session_in(state: SessionState) -> Session[str, str]:
    """A session that says it is in this state, with something to get wrong in it."""
    outbox: list[Any] = []
    session: Session[str, str] = Session("chat", outbox, NO_LIMIT, state=state, mark=1, newest=2)
    session.active = Run("chat", "hello")
    return session


def fields(session: Session[str, str]) -> dict[str, object]:
    return {field.name: getattr(session, field.name) for field in attrs.fields(Session)}


ILLEGAL = [(state, event) for state in SessionState for event in Event if state not in HOT[event]]


def test_some_events_are_illegal_somewhere() -> None:
    assert len(ILLEGAL) == len(SessionState) * len(Event) - sum(map(len, HOT.values()))
    assert (SessionState.IDLE, Event.CANCEL) in ILLEGAL


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_names_state_and_event_and_changes_nothing(
    state: SessionState, event: Event
) -> None:
    session = session_in(state)
    before = fields(session)
    with pytest.raises(IllegalEvent) as raised:
        fire(session, event)
    assert (raised.value.state, raised.value.event) == (state, event)
    assert raised.value.session_id == "chat"
    assert fields(session) == before
    assert before["outbox"] == []


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_the_stock_machine_refuses_the_same_events(state: SessionState, event: Event) -> None:
    # A machine of its own: looking up a missing key in MACHINE would insert it.
    with pytest.raises(MachineError):
        declare(ROWS).events[event.value].trigger(session_in(state), session_in(state))


def test_exactly_one_sentence_is_true_of_an_idle_session() -> None:
    session: Session[str, str] = Session("chat", [], NO_LIMIT)
    assert [state for state, (_, holds) in SENTENCES.items() if holds(session)] == ["idle"]


def test_every_field_that_a_decision_can_see_is_loaded_and_frozen() -> None:
    world = World(CONFIG)
    for before, _ in reachable():
        world.load(before)
        assert world.sessions() == before.sessions
    constant = {"session_id", "outbox", "slots", "lock", "retired"}
    frozen = {"state", "mark", "newest", "active", "line", "ending", "held"}
    assert {field.name for field in attrs.fields(Session)} | constant == constant | frozen


def test_the_same_situation_and_call_give_the_same_effects() -> None:
    world = World(CONFIG)
    for before, action in reachable():
        results = []
        for _ in range(2):
            world.load(before)
            world.act(action)
            results.append((world.sessions(), world.effects()))
        assert results[0] == results[1]


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
    session: Session[str, str] = Session("chat", [], NO_LIMIT)
    assert repr(session) == "<Session 'chat': idle, mark 0>"


def test_where_no_guard_holds_the_event_is_illegal_and_not_passed_over_as_by_the_stock_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarded = [Row(row.source, row.event, row.target, row.do, "", _never) for row in ROWS]
    stock = declare(guarded)
    monkeypatch.setattr(sessionsched.rows, "HOT", compile_table(stock))
    effects: list[object] = []
    session: Session[str, str] = Session("chat", effects, NO_LIMIT)
    run: Run[str, str] = Run("chat", "hello")
    with pytest.raises(IllegalEvent):
        fire(session, Event.ACCEPT, run, 0.0)
    assert stock.events["accept"].trigger(session, session, run, 0.0) is False
    assert (session.state, effects, run.state) == (SessionState.IDLE, [], RunState.NEW)


def _never(*_: Any) -> bool:
    return False
