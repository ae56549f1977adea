"""The table against a naive model that has no states at all: many sessions, any order, bad input.

The two promises that matter most are kept apart from the model, as plain bookkeeping:
no cancel is lost, and no later prompt is poisoned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessionsched import (
    Cause,
    Effect,
    How,
    IllegalEvent,
    InvalidOption,
    InvalidSession,
    Limits,
    Refused,
    Run,
    RunState,
    Scope,
    Status,
    Table,
    WhenBusy,
)
from sessionsched.rows import SENTENCES
from sessionsched.testing.naive import Naive, NaiveSession

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WAITING = 3
NAMES = st.sampled_from(["a", "b", "c", "d"])
PICK = st.integers(0, 99)
#: what it does when the session is busy; whether it is ready at once; whether it has its own id
PROMPT = st.tuples(
    st.sampled_from([*WhenBusy, WhenBusy.QUEUE, WhenBusy.FOLD, WhenBusy.QUEUE, WhenBusy.FOLD]),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)
NOT_NAMES: list[Any] = ["", " ", "\t\n", None, 7, b"a"]


class SessionRules(RuleBasedStateMachine):
    """Every call on a table, in any order, next to the naive model."""

    @initialize(max_active=st.sampled_from([None, 1, 2]))
    def begin(self, max_active: int | None) -> None:
        limits = Limits(max_waiting=MAX_WAITING, max_active=max_active)
        self.table: Table[str] = Table(limits)
        self.naive = Naive(max_active)
        self.runs: list[Run[str]] = []
        self.effects: list[tuple[Any, ...]] = []
        #: By seq: those that a cancel reached, and must end CANCELED; and how each has ended.
        self.canceled: set[int] = set()
        self.ended: dict[int, Status] = {}

    # --- prompts ---

    @rule(name=NAMES, prompts=st.lists(PROMPT, min_size=1, max_size=5))
    def people_do_not_wait_politely(
        self, name: str, prompts: list[tuple[WhenBusy, bool, bool]]
    ) -> None:
        for when_busy, ready, named in prompts:
            self.submit(name, when_busy, ready=ready, named=named)

    def submit(self, name: str, when_busy: WhenBusy, *, ready: bool, named: bool) -> None:
        run_id = f"mine-{len(self.runs)}" if named else ""
        run: Run[str] = Run(name, f"prompt {len(self.runs)}", run_id, when_busy)
        if self.naive.refuses(name, when_busy, MAX_WAITING):
            with pytest.raises(Refused):
                self.table.accept(run, 0.0, ready=ready)
            assert (run.seq, run.state) == (0, RunState.NEW)
            return
        if when_busy is WhenBusy.INTERRUPT:  # X12: it does not overrule a failed preparation
            self.canceled |= self.in_flight(name) - self.dropped(name)
        if when_busy is WhenBusy.LATEST:
            self.canceled |= self.waiting(name)
        assert self.table.accept(run, 0.0, ready=ready) is run
        self.runs.append(run)
        self.naive.accept(name, run.seq, when_busy, ready=ready)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def submit_again(self, pick: int) -> None:
        run = self.run(pick)
        known = self.table.run(run.run_id)
        again: Run[str] = Run(run.session_id, run.prompt, run.run_id)
        other: Run[str] = Run(run.session_id, "another prompt", run.run_id)
        if known is not None:
            assert self.table.accept(again, 0.0) is run
            with pytest.raises(Refused):
                self.table.accept(other, 0.0)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def ready(self, pick: int) -> None:
        run = self.run(pick)
        right = run.state is RunState.ACCEPTED
        assert self.table.ready(run, 0.0) is right
        if right:
            self.naive.ready(run.seq)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, failed=st.booleans())
    def withdraw(self, pick: int, failed: bool) -> None:  # noqa: FBT001
        run = self.run(pick)
        right = run.state is RunState.ACCEPTED
        assert self.table.withdraw(run, 0.0, OSError() if failed else None) is right
        if right:
            self.naive.withdraw(run.seq, failed=failed)
            self.canceled |= set() if failed else {run.seq}

    # --- cancels ---

    @rule(
        name=NAMES,
        scope=st.sampled_from(Scope),
        fence=st.none() | st.integers(0, 12),
        hold=st.booleans(),
    )
    def cancel(self, name: str, scope: Scope, fence: int | None, hold: bool) -> None:  # noqa: FBT001
        reached = {
            Scope.ALL: self.in_flight(name),
            Scope.ACTIVE: self.in_flight(name) - self.waiting(name) - self.dropped(name),
            Scope.WAITING: self.waiting(name) | self.dropped(name),
        }[scope]
        session = self.naive.sessions.get(name, NaiveSession())
        up_to = None if fence is None else max(0, session.newest - fence)
        if up_to is not None:
            taken = set(session.taken) if (session.active or 0) <= up_to else set()
            reached = {seq for seq in reached - set(session.taken) if seq <= up_to} | (
                taken & reached
            )
        receipt = self.table.cancel(name, 0.0, scope=scope, up_to=up_to, hold=hold)
        covered = self.naive.cancel(name, scope, up_to, Cause.INTERRUPT, hold=hold)
        self.canceled |= reached
        assert {run.seq for run in receipt.covered} - set(session.taken) == set(covered)
        assert bool(receipt) is bool(covered)
        assert receipt.mark == session.mark

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, cause=st.sampled_from([Cause.INTERRUPT, Cause.EXPIRED, Cause.DEADLINE]))
    def cancel_one(self, pick: int, cause: Cause) -> None:
        run = self.run(pick)
        receipt = self.table.cancel_run(run, 0.0, cause=cause)
        if run.state is RunState.ENDED:
            assert not receipt
            return
        session = self.naive.owner(run.seq)
        taken = session.taken if run.seq == session.active else []
        covered = self.naive.cancel_run(run.seq, cause)
        assert [it.seq for it in receipt.covered] == (covered + taken if covered else [])
        if covered:
            self.canceled |= {run.seq, *taken}

    # --- ends ---

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, how=st.sampled_from([How.RETURNED, How.RAISED, How.STOPPED]))
    def finish(self, pick: int, how: How) -> None:
        run = self.run(pick, lambda run: run.state is RunState.ACTIVE)
        right = run.state is RunState.ACTIVE
        assert self.table.finish(run, how, 0.0) is right
        if right:
            self.naive.finish(run.seq, how)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def settle(self, pick: int) -> None:
        run = self.run(pick, lambda run: run.state is RunState.ENDING)
        right = run.state is RunState.ENDING
        assert self.table.settle(run, 0.0) is right
        if right:
            self.naive.settle(run.seq)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def fold(self, pick: int) -> None:
        run = self.run(pick, lambda run: run.state is RunState.ACTIVE)
        taken = [it.seq for it in self.table.fold(run, 0.0)]
        assert taken == ([] if run.state is RunState.ENDED else self.naive.fold(run.seq))

    # --- the line ---

    @rule(name=NAMES)
    def hold(self, name: str) -> None:
        session = self.naive.sessions.get(name)
        right = session is not None and not session.held
        assert self.table.hold(name) is right
        if right:
            self.naive.hold(name)

    @rule(name=NAMES)
    def resume(self, name: str) -> None:
        session = self.naive.sessions.get(name)
        right = session is not None and session.held
        assert self.table.resume(name, 0.0) is right
        if right:
            self.naive.resume(name)

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def promote(self, pick: int) -> None:
        run = self.run(pick, lambda run: run.waiting)
        right = run.waiting
        assert self.table.promote(run, 0.0) is right
        if right:
            self.naive.promote(run.seq)

    # --- closing, and bad input ---

    @precondition(lambda self: len(self.runs) > 8)
    @rule()
    def close(self) -> None:
        self.table.close(0.0)
        self.naive.close()

    @precondition(lambda self: self.naive.closed)
    @rule()
    def suspend_active(self) -> None:
        self.table.suspend_active(0.0)
        self.naive.suspend_active()

    @rule(name=NAMES, bad=st.sampled_from(NOT_NAMES), value=st.sampled_from(["soon", None, 3, ""]))
    def bad_input(self, name: str, bad: Any, value: Any) -> None:
        for call in (
            lambda: self.table.accept(Run(bad, "prompt"), 0.0),
            lambda: self.table.cancel(bad, 0.0),
            lambda: self.table.hold(bad),
        ):
            with pytest.raises(InvalidSession):
                call()
        for call in (
            lambda: self.table.accept(Run(name, "prompt", "", value), 0.0),
            lambda: self.table.cancel(name, 0.0, scope=value),
            lambda: self.table.cancel(name, 0.0, cause=value),
            lambda: self.table.cancel(name, 0.0, cause=Cause.SHUTDOWN),
            lambda: self.table.cancel(name, 0.0, up_to=-1),
        ):
            with pytest.raises(InvalidOption):
                call()
        with pytest.raises(IllegalEvent):
            self.table.finish(Run(name, "never accepted"), How.RETURNED, 0.0)

    # --- what must be so, always ---

    @invariant()
    def the_effects_are_those_of_the_naive_model(self) -> None:
        self.table.drain(self.perform)
        assert self.effects == self.naive.out
        self.effects.clear()
        self.naive.out.clear()

    @invariant()
    def the_sessions_stand_as_in_the_naive_model(self) -> None:
        assert {view.session_id for view in self.table.snapshot().sessions} == set(
            self.naive.sessions
        )
        for name, session in self.naive.sessions.items():
            view = self.table.session(name)
            assert [run.seq for run in view.waiting] == session.line
            assert [run.seq for run in view.ending] == session.dropped
            assert (view.active.seq if view.active else None) == session.active
            assert (view.held, view.mark) == (session.held, session.mark)

    @invariant()
    def the_state_is_what_the_sentences_say(self) -> None:
        for record in self.table._sessions.values():
            assert [state for state, (_, true) in SENTENCES.items() if true(record)] == [
                record.state
            ]

    @invariant()
    def no_cancel_is_lost(self) -> None:
        for seq in self.canceled & self.ended.keys():
            assert self.ended[seq] is Status.CANCELED, f"{seq} was canceled and {self.ended[seq]}"

    @invariant()
    def no_later_prompt_is_poisoned(self) -> None:
        for seq in self.ended.keys() - self.canceled:
            assert self.ended[seq] is not Status.CANCELED, f"nobody canceled {seq}"

    def teardown(self) -> None:
        """Let everything come to its end: accepted = ended, and nothing is left."""
        if not hasattr(self, "table"):
            return
        for name in list(self.naive.sessions):
            self.table.resume(name, 0.0)
        for _ in self.runs:  # each round ends at least one, or something strands
            for run in self.runs:
                self.table.ready(run, 0.0)
                self.table.settle(run, 0.0)
                self.table.finish(run, How.RETURNED, 0.0)
        self.table.drain(self.perform)
        self.no_cancel_is_lost()
        self.no_later_prompt_is_poisoned()
        assert sorted(self.ended) == [run.seq for run in self.runs]
        assert len(self.table) == 0

    # --- helpers ---

    def perform(self, effect: Effect, run: Run[str], _at: float) -> None:
        if effect is not Effect.END:
            self.effects.append((effect, run.seq))
            return
        assert run.seq not in self.ended, f"{run.seq} ends twice"
        assert run.ended is not None
        self.ended[run.seq] = run.ended.status
        self.effects.append((effect, run.seq, run.ended.status, run.ended.cause))

    def run(self, pick: int, wanted: Callable[[Run[str]], bool] | None = None) -> Run[str]:
        """Any run; with `wanted`, mostly one of those."""
        some = [run for run in self.runs if wanted and wanted(run)]
        pool = some if some and pick % 10 else self.runs
        return pool[pick % len(pool)]

    def in_flight(self, name: str) -> set[int]:
        of = {run.seq for run in self.runs if run.session_id == name}
        return of - self.ended.keys()

    def waiting(self, name: str) -> set[int]:
        return {run.seq for run in self.runs if run.session_id == name and run.waiting}

    def dropped(self, name: str) -> set[int]:
        ending = RunState.ENDING
        return {run.seq for run in self.runs if run.session_id == name and run.state is ending}


TestSessionRules = pytest.mark.contract(
    "A2", "A4", "A5", "D1", "D2", "D4", "X1", "X2", "X4", "X5", "X9", "X11", "T1"
)(SessionRules.TestCase)
