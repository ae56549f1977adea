"""The asyncio scheduler under people who don't wait, and handlers that do as they like.

Calls come in bursts, several in one turn of the loop: what a cancel does to a task that has not
taken its first step is only seen so. See aio_world.py for how all of it is judged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aio_world import NAMES, World
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sessionsched import Cause, RunHandle, RunState, Scope, WhenBusy
from sessionsched.testing.crowd import HOOKS, STEPS, Prompt

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = st.sampled_from([*NAMES, "a", "a"])
PICK = st.integers(0, 99)
KIND = st.sampled_from([*[WhenBusy.QUEUE] * 8, *[WhenBusy.FOLD] * 8, *WhenBusy])
#: Mostly something that takes time, or else nothing would ever be in flight.
USUAL = [
    ("nap", "fold", "nap"), ("hang",), ("swallow", "hang"), ("swallow", "fold", "nap"), ("tidy",),
    ("endure",), ("nap", "fold", "raise"), ("turn", "fold", "turn"), ("group", "emit"), (),
]  # fmt: skip
DO = st.sampled_from(USUAL) | st.lists(st.sampled_from(sorted(STEPS)), max_size=4).map(tuple)
HOOK = st.sampled_from(["quick", "quick", "slow", *HOOKS])
TERMS = st.sampled_from(
    [{}] * 8 + [{"deadline": 2.0}, {"deadline": 0.0}, {"wait_at_most": 1.5},
     {"wait_at_most": 0.0}, {"wait_at_most": 2.0, "deadline": 1.0},
     {"wait_at_most": 500.0, "deadline": 500.0}]
)  # fmt: skip
HOW = st.sampled_from(["submit", "submit", "ticket", "turn"])
SEND = st.tuples(HOW, NAME, KIND, DO, HOOK, TERMS)
CANCEL = st.tuples(
    st.just("cancel"), NAME, st.sampled_from([Scope.ALL, Scope.ALL, *Scope]),
    st.none() | st.integers(0, 3), st.sampled_from([False, False, False, True]),
)  # fmt: skip
LINE = st.tuples(st.sampled_from(["pause", "pause", "resume", "resume", "cancel_all"]), NAME)
ACT = st.tuples(
    st.sampled_from(["ready", "ready", "withdraw", "fail", "cancel_run", "cancel_handle",
                     "promote", "replace", "outside", "desert", "again", "wait", "stop_waiting"]),
    PICK,
)  # fmt: skip
#: Let the loop turn once, so that what follows comes between two steps of something.
BREATHE = st.just(("breathe",))
CALL = st.one_of(SEND, SEND, SEND, SEND, CANCEL, LINE, ACT, ACT, BREATHE)
#: What moves a line, and what strikes whoever was moved before it has noticed.
MOVE = st.tuples(st.sampled_from(["ready", "withdraw", "cancel_run", "promote"]), PICK)
STRIKE = st.one_of(CANCEL, st.tuples(st.sampled_from(["desert", "outside"]), PICK), CALL)
TURNS = st.integers(0, 4)
WHILE = st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, 20.0])


class AioRules(RuleBasedStateMachine):
    """Every call on a scheduler, in bursts, in any order, at any time."""

    @initialize(
        max_active=st.sampled_from([None, 1, 2]),
        records_drops=st.booleans(),
        prepares=st.sampled_from([False, False, True]),
        abandon_after=st.sampled_from([None, 4.0, 7.0]),
        drain=st.sampled_from([0.0, 3.0, 100.0]),
    )
    def begin(self, drain: float, **how: Any) -> None:
        self.drain = drain
        self.world = World(**how)
        self.crowd, self.scheduler = self.world.crowd, self.world.scheduler

    # --- rules ---

    @rule(calls=st.lists(CALL, min_size=1, max_size=6), turns=TURNS)
    def burst(self, calls: list[tuple[Any, ...]], turns: int) -> None:
        async def all_at_once() -> None:
            for word, *about in calls:
                if word == "breathe":
                    await asyncio.sleep(0)
                else:
                    getattr(self, word)(*about)
            for _ in range(turns):
                await asyncio.sleep(0)

        self.world.run(all_at_once())

    @rule(name=NAME, sends=st.lists(SEND, min_size=1, max_size=4), seconds=WHILE)
    def people_say_several_things(
        self, name: str, sends: list[tuple[Any, ...]], seconds: float
    ) -> None:
        self.burst([(how, name, *what) for how, _, *what in sends], 0)
        self.time_passes(seconds)

    @rule(name=NAME, moves=st.lists(MOVE, max_size=2), strikes=st.lists(STRIKE, max_size=2))
    def the_line_moves_and_somebody_strikes(
        self, name: str, moves: list[tuple[Any, ...]], strikes: list[tuple[Any, ...]]
    ) -> None:
        self.burst([("resume", name), *moves, *strikes], 0)

    @rule(name=NAME, terms=TERMS, strike=st.sampled_from(["desert", "cancel", "breathe"]))
    def a_turn_comes_and_somebody_strikes(self, name: str, terms: Any, strike: str) -> None:
        what = (name, WhenBusy.QUEUE, ("nap",), "quick")
        self.burst([("ticket", *what, {}), ("turn", *what, terms), ("breathe",)], 0)
        self.burst([("pause", name), ("withdraw", -1)], 0)
        self.time_passes(1.0)
        how = {"desert": (-1,), "cancel": (name, Scope.ALL, None, False), "breathe": ()}
        self.burst([("resume", name), (strike, *how[strike])], 0)

    @rule(name=NAME, terms=TERMS, turns=TURNS)
    def somebody_follows_up(self, name: str, terms: Any, turns: int) -> None:
        steps = ("turn", "fold", "nap", "fold")
        sends = [(WhenBusy.QUEUE, steps, "quick", {}), (WhenBusy.FOLD, ("nap",), "quick", terms)]
        self.burst([("submit", name, *what) for what in sends], turns)

    @rule(how=HOW, name=NAME, seconds=WHILE)
    def somebody_does_not_listen(self, how: str, name: str, seconds: float) -> None:
        self.burst([(how, name, WhenBusy.QUEUE, ("endure", "hang"), "quick", {})], 2)
        self.burst([("cancel", name, Scope.ALL, None, False)], 0)
        self.time_passes(seconds)

    @rule(seconds=WHILE)
    def time_passes(self, seconds: float) -> None:
        async def pass_it() -> None:
            await asyncio.sleep(seconds)
            await self.world.quiet()

        self.world.run(pass_it())
        self.world.judge_quiet()

    @precondition(lambda self: len(self.world.ledger.lives) > 40)
    @rule(drain=st.sampled_from([0.0, 1.5, 100.0]), calls=st.lists(CALL, max_size=4), turns=TURNS)
    def close(self, drain: float, calls: list[tuple[Any, ...]], turns: int) -> None:
        self.world.start(self.crowd.close(drain))
        self.burst(calls, turns)

    @invariant()
    def nothing_is_wrong_so_far(self) -> None:
        self.world.judge_so_far()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end(self.drain)

    # --- calls ---

    def _prompt(self, steps: tuple[str, ...], hook: str) -> Prompt:
        return Prompt(self.crowd.next_number(), steps, hook, hook)

    def submit(self, name: str, kind: WhenBusy, steps: Any, hook: str, terms: Any) -> None:
        prompt = self._prompt(steps, hook)
        run_id = f"mine-{prompt.number}" if prompt.number % 2 else None
        handle = self.crowd.submit(name, prompt, run_id=run_id, when_busy=kind, **terms)
        if handle is not None:
            self.world.handles.append(handle)

    def ticket(self, name: str, kind: WhenBusy, steps: Any, hook: str, terms: Any) -> None:
        ticket = self.crowd.ticket(name, self._prompt(steps, hook), when_busy=kind, **terms)
        if ticket is not None:
            self.world.tickets.append(ticket)
            self.world.handles.append(ticket.handle)

    def turn(self, name: str, kind: WhenBusy, steps: Any, hook: str, terms: Any) -> None:
        prompt = self._prompt(steps, hook)
        host = self.world.start(self.crowd.turn(name, prompt, when_busy=kind, **terms))
        self.world.hosts.append((host, prompt.number))

    def cancel(self, name: str, scope: Scope, below: int | None, hold: bool) -> None:  # noqa: FBT001
        up_to = None if below is None else max(0, self.world.newest(name) - below)
        self.crowd.cancel(name, scope, up_to, hold=hold)

    def cancel_all(self, _name: str) -> None:
        self.crowd.cancel_all()

    def pause(self, name: str) -> None:
        self.scheduler.pause(name)

    def resume(self, name: str) -> None:
        self.scheduler.resume(name)

    def ready(self, pick: int) -> None:
        for ticket in self._tickets(pick):
            ticket.ready()

    def withdraw(self, pick: int) -> None:
        for ticket in self._tickets(pick):
            ticket.close()

    def fail(self, pick: int) -> None:
        for ticket in self._tickets(pick):
            ticket.close(OSError("no such file"))

    def cancel_run(self, pick: int) -> None:
        for handle in self._handles(pick):
            self.crowd.cancel_run(handle.run)

    def cancel_handle(self, pick: int) -> None:
        for handle in self._handles(pick):
            began = self.world.ledger.tick()
            receipt = handle.cancel()
            number = handle.run.prompt.number
            self.world.ledger.canceled(began, (receipt,), number, handle.session_id)

    def promote(self, pick: int) -> None:
        for handle in self._handles(pick, lambda it: it.run.waiting):
            self.world.ledger.of(handle.run).promoted |= handle.promote()

    def replace(self, pick: int) -> None:
        for handle in self._handles(pick, lambda it: it.run.waiting):
            handle.replace(evolve(handle.run.prompt, steps=("nap", "fold")))

    def outside(self, pick: int) -> None:
        for handle in self._handles(pick, lambda it: it.state is RunState.ACTIVE):
            self.crowd.outside(handle.run)

    def desert(self, pick: int) -> None:
        hosts = [(task, number) for task, number in self.world.hosts if not task.done()]
        for task, number in hosts[pick % (len(hosts) or 1) :][:1]:
            if number in self.world.ledger.lives:
                self.world.ledger.lives[number].reasons |= {Cause.EXTERNAL, Cause.WITHDRAWN}
            task.cancel()

    def again(self, pick: int) -> None:
        for handle in self._handles(pick):
            if handle.run.named:
                same = self.scheduler.submit(
                    handle.session_id, handle.run.prompt, run_id=handle.run_id
                )
                assert same == handle

    def wait(self, pick: int) -> None:
        for handle in self._handles(pick):
            self.world.waiters.append(self.world.start(handle.outcome()))

    def stop_waiting(self, pick: int) -> None:
        tasks = self.world.waiters
        if tasks:
            tasks[pick % len(tasks)].cancel()

    def _tickets(self, pick: int) -> list[Any]:
        some = [it for it in self.world.tickets if it.run.state is RunState.ACCEPTED]
        some = some if pick % 5 else self.world.tickets
        return [some[pick % len(some)]] if some else []

    def _handles(
        self, pick: int, wanted: Callable[[RunHandle[Prompt, str]], bool] | None = None
    ) -> list[RunHandle[Prompt, str]]:
        """One of them, if there is any: mostly one that is wanted, or at least in flight."""
        wanted = wanted or (lambda it: it.state is not RunState.ENDED)
        some = [it for it in self.world.handles if wanted(it)] if pick % 5 else self.world.handles
        return [some[pick % len(some)]] if some else []


AioRules.TestCase.settings = settings(stateful_step_count=80)
TestAioRules = pytest.mark.contract(
    "A3", "A4", "A5", "A6", "D1", "D2", "D4", "X1", "X2", "X6", "X7", "X8", "X9", "X11", "X12",
    "X13", "F3", "T1", "T2", "T6", "P1", "P2", "S1", "S2", "S3", "S4", "S6", "S7",
)(AioRules.TestCase)  # fmt: skip
