"""The machine, in every situation that can be reached with a few prompts and cancels."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
from driving import running_on

from sessionsched import Event, SessionState
from sessionsched.machine import Session
from sessionsched.model import LIFE
from sessionsched.rows import MACHINE, ROWS, compile_table, declare
from sessionsched.testing.explore import Config, Search
from sessionsched.testing.explore.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.rows import Step
    from sessionsched.testing.explore.situation import Action, Frozen

CONFIG = Config(prompts=3, cancels=2)


@functools.cache
def reachable() -> tuple[tuple[Frozen, Action], ...]:
    """Every call that is possible in every situation that can be reached."""
    search = Search(CONFIG)
    for _ in search.visit_all():
        pass
    return tuple((at, action) for at, led_to in search.known.items() for action in led_to)


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


def test_the_stock_machine_and_the_compiled_table_agree_on_every_reachable_case() -> None:
    log = Log()
    stock = declare(log.rows)

    def stock_step(event: Event) -> Step:
        def step(session: Session[Any], about: object, now: float) -> None:
            assert stock.events[event.value].trigger(session, session, about, now) is True

        return step

    stock_table = {event: dict.fromkeys(SessionState, stock_step(event)) for event in Event}
    called: Counter[str] = Counter()
    cases = 0
    world = World(CONFIG)
    for before, action in reachable():
        log.take()
        results = []
        for table in (compile_table(stock), stock_table):
            with running_on(table):
                world.load(before)
                world.act(action)
            results.append((log.take(), world.sessions(), world.effects()))
        assert results[0] == results[1], action
        called.update(name for name, _ in results[0][0])
        cases += 1
    assert cases > 10_000
    assert set(called) == {f.__name__ for row in ROWS for f in (row.do, row.when) if f}


def test_every_row_is_taken_somewhere() -> None:
    taken: Counter[tuple[SessionState, Event, SessionState, object]] = Counter()

    def noting(event: Event) -> Step:
        def step(session: Session[Any], about: object, now: float) -> None:
            source = session.state
            rows = [row for row in ROWS if (row.source, row.event) == (source, event)]
            chosen = next(row for row in rows if row.when is None or row.when(session, about, now))
            compiled[event][source](session, about, now)
            assert session.state is chosen.target
            taken[source, event, chosen.target, chosen.when] += 1

        return step

    compiled = compile_table(MACHINE)
    world = World(CONFIG)
    with running_on({event: dict.fromkeys(SessionState, noting(event)) for event in Event}):
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


def test_every_field_that_a_decision_can_see_is_loaded_and_frozen() -> None:
    world = World(CONFIG)
    for before, _ in reachable():
        world.load(before)
        assert world.sessions() == before.sessions
    constant = {"session_id", "outbox", "slots", "lock", "retired"}
    line = {"first", "last", "length"}
    frozen = {"state", "mark", "newest", "active", "ending", "held"} | line
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
