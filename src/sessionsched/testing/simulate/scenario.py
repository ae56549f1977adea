"""One small scenario around our own asyncio scheduler: a seed says who does what.

Rule 1. Everything that a scheduler offers is used, by few people in two sessions, so that they get
        into each other's way. All times are 0, 1, 2 ... units, so that things happen at once.
Rule 2. What callers, handlers, hooks and observers saw is judged by the contract (judge.py).
Rule 3. Every seed has its faults: handlers and hooks that swallow, ignore, fail or make up a
        cancel, observers that fail or fall behind, tasks that are canceled from outside, and a
        loop that is torn down.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

from sessionsched.aio import Scheduler
from sessionsched.events import Gap, RunEnded
from sessionsched.hub import Mailbox
from sessionsched.model import Cause, Limits, Status, WhenBusy
from sessionsched.testing.crowd import HOOKS, Crowd, Prompt
from sessionsched.testing.judge import judge
from sessionsched.testing.ledger import Ledger
from sessionsched.testing.people import People
from sessionsched.testing.punctual import forgotten, too_late
from sessionsched.testing.simulate.loop import SimulatedLoop
from sessionsched.testing.simulate.order import Seeded
from sessionsched.testing.simulate.simulation import TORN_DOWN, quiet, simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sessionsched.model import CloseReport
    from sessionsched.testing.people import Act
    from sessionsched.testing.simulate.order import Order

__all__ = ["Scenario", "Wrong", "play"]

#: All that takes time takes so long, or twice as long.
UNIT_S: Final = 1.0
GRACE_S: Final = 2.0
SETTLE_S: Final = 2.0
#: A liveness bound: longer than all that handlers and hooks can take one after the other.
WITHIN_S: Final = 2_000.0
#: What people do, and how often: fewer prompts than in a soak, and more trouble.
ACTS: Final = (
    *(People.submit,) * 8, *(People.cancel,) * 2, People.ticket, People.use_ticket, People.turn,
    People.cancel_part, People.cancel_run, People.promote, People.pause, People.resume,
    People.outside, People.wait, People.look,
)  # fmt: skip
#: How likely things are.
OFTEN: Final = 0.7
SELDOM: Final = 0.1
#: How many complaints are shown.
SHOWN: Final = 20
#: What asyncio says of a task that ignores the end of its loop.
STILL_GOING: Final = "Task was destroyed but it is pending!"
#: What is right when the loop is torn down, which stops preparations, too.
UNPREPARED: Final = "X12: external, and it was started 0 times"
#: What handlers do.
TROUBLE: Final = (
    (), ("turn",), ("nap",), ("nap", "fold", "nap"), ("turn", "fold", "nap"), ("hang",), ("hang",),
    ("swallow", "swallow", "nap"), ("endure",),
    ("tidy",), ("group",), ("timeout", "emit"), ("raise",), ("nap", "raise"), ("stray",),
    ("nap", "stray"), ("queue",), ("follow up", "turn", "fold"), ("interrupt", "nap"),
    ("cancel own", "nap"), ("cancel self",), ("nap", "cancel other"), ("ask",),
    ("swallow", "hang"), ("uncancel", "hang"), ("ask", "hang"),
)  # fmt: skip
#: So many at its end would hang for ever after one cancel, `asyncio.run` with them.
STUBBORN: Final = 3


class Wrong(AssertionError):
    """The scheduler broke its contract."""


class FellOver(Exception):
    """An observer failed."""


class Passer(People):
    """One of few people, who mostly have trouble with what they ask for."""

    def __init__(self, crowd: Crowd, seed: float, *, torn_down: bool) -> None:
        super().__init__(crowd, _seeded(seed), 2)
        self._steps = TROUBLE[:-STUBBORN] if torn_down else TROUBLE

    def _one_of(self, acts: dict[Act, int]) -> None:
        del acts  # it is always on the loop
        self.rng.choice(ACTS)(self)

    def _prompt(self) -> Prompt:
        rng = self.rng
        drop, prepare = (rng.choice(("quick", "quick", "slow", *HOOKS)) for _ in range(2))
        return Prompt(self.crowd.next_number(), rng.choice(self._steps), drop, prepare)

    def _options(self) -> dict[str, Any]:
        rng, terms = self.rng, (None, None, None, None, 0.0, UNIT_S, 2 * UNIT_S)
        when_busy = rng.choice((WhenBusy.QUEUE, WhenBusy.FOLD, *WhenBusy))
        deadline, wait = rng.choice(terms), rng.choice(terms)
        return {"when_busy": when_busy, "deadline": deadline, "wait_at_most": wait}

    def _name(self) -> str:
        return self.rng.choice(("a", "a", "a", "b"))


class Scenario:
    """One scheduler from its making to its close, in a small crowd."""

    def __init__(self, seed: int) -> None:
        #: Everything is decided here, but for what people decide when they get to it.
        self.rng = rng = _seeded(seed)
        self.max_active = rng.choice((None, None, 1))
        self.records_drops = rng.random() < OFTEN
        self.ledger = Ledger(one_thread=True, records_drops=self.records_drops)
        self.crowd = Crowd(self.ledger, UNIT_S, lambda name: "b" if name == "a" else "a")
        #: Nobody closes the scheduler: the loop is torn down around it.
        self.torn_down = rng.random() < SELDOM
        self.people = [
            Passer(self.crowd, rng.random(), torn_down=self.torn_down)
            for _ in range(rng.choice((1, 2, 2)))
        ]
        self.calls = [rng.randrange(1, 6) for _ in self.people]
        #: How many of them are waited for before the end begins.
        self.patience = rng.randrange(len(self.people) + 1)
        self.drains = rng.choices((0.0, 0.0, UNIT_S), k=rng.choice((1, 1, 1, 2)))
        #: Those who read events besides.
        self.readers: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = rng.choice(
            ((), (), (self._read_badly,), (self._read_slowly,))
        )
        #: After so many events an observer fails.
        self.fails_after = rng.randrange(10)

    async def main(self) -> None:
        """Let people do what they do; then close, or be torn down."""
        crowd = self.crowd
        crowd.scheduler = self._open()
        self._listen()
        readers = [asyncio.create_task(it()) for it in self.readers]
        await quiet()  # they have subscribed
        busy = [
            asyncio.create_task(it.on_the_loop(calls))
            for it, calls in zip(self.people, self.calls, strict=True)
        ]
        await asyncio.gather(*busy[: self.patience])
        if self.torn_down:
            self._expect_teardown()
            return
        reports = await asyncio.gather(*(crowd.close(it) for it in self.drains))
        await asyncio.gather(*busy, *readers)
        await asyncio.gather(*(task for it in self.people for task in it.tasks))
        self._judge_reports(reports)
        await quiet()
        self._nothing_is_left()

    def _open(self) -> Scheduler[Prompt, str]:
        crowd, rng = self.crowd, self.rng
        return Scheduler(
            crowd.handle,
            on_dropped=crowd.record if self.records_drops else None,
            prepare=rng.choice((None, None, crowd.prepare)),
            prepare_timeout=rng.choice((None, 2 * UNIT_S)),
            limits=Limits(max_waiting=4, max_active=self.max_active, remembered=2),
            grace=GRACE_S,
            abandon_after=rng.choice((None, None, UNIT_S, 3 * UNIT_S)),
            settle_timeout=SETTLE_S,
        )

    # --- observers ---

    def _listen(self) -> None:
        """Be told of everything as it happens, and not when a reader comes to read."""
        box: Mailbox[Prompt] = Mailbox("", "", 10**9, lambda: self._told(box))
        self.crowd.scheduler._driver.watch(box)  # noqa: SLF001 - no reader is as quick as this

    def _told(self, box: Mailbox[Prompt]) -> None:
        while (event := box.take()) is not None:
            if isinstance(event, Gap):
                self.ledger.complaints.append(f"T3: {event} without need")
            else:
                self.ledger.told(event)

    async def _read_badly(self) -> None:
        """Fail in the middle of it: T5."""
        left = self.fails_after
        with contextlib.suppress(FellOver):
            async with self.crowd.scheduler.subscribe() as events:
                async for _ in events:
                    left -= 1
                    if left < 0:
                        raise FellOver

    async def _read_slowly(self) -> None:
        """T3: whoever can't keep up is told of every end all the same."""
        ended = set()
        async with self.crowd.scheduler.subscribe(buffer=1) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    ended.add(event.run.prompt.number)
                elif isinstance(event, Gap):
                    await asyncio.sleep(UNIT_S)
        missing = {life.number for life in self.ledger.taken_in} - ended
        self.ledger.complaints += [f"T3: a slow reader missed the end of {it}" for it in missing]

    # --- the end ---

    def _judge_reports(self, reports: list[CloseReport[Prompt]]) -> None:
        suspended = [
            life.seq
            for life in self.ledger.taken_in
            if life.outcome and life.outcome.status is Status.SUSPENDED
            if life.outcome.cause is Cause.SHUTDOWN
        ]
        for report in reports:
            named = [run.seq for run in report.suspended if run.cause is Cause.SHUTDOWN]
            if named != sorted(suspended):
                self.ledger.complaints.append(f"S4: {named} were reported, not {suspended}")

    def _nothing_is_left(self) -> None:
        loop = asyncio.get_running_loop()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        timers = loop.timers() if isinstance(loop, SimulatedLoop) else []
        sessions = self.crowd.scheduler.snapshot().sessions
        self.ledger.complaints += [f"S7: {it} is left" for it in (*tasks, *timers, *sessions)]

    def _expect_teardown(self) -> None:
        """Everything may end as if somebody outside had stopped it, hooks too, or as in a close."""
        asyncio.get_running_loop().set_exception_handler(self._logged)
        self.ledger.records_drops = False
        self._excuse_all()

    def _excuse_all(self) -> None:
        for life in self.ledger.all_lives():
            life.reasons |= {Cause.EXTERNAL, Cause.WITHDRAWN, Cause.SHUTDOWN}

    def _logged(self, _: object, about: dict[str, Any]) -> None:
        """Take note, but for handlers that fail, or go on all the same, when they are torn down."""
        if about.get("message") not in {TORN_DOWN, STILL_GOING}:
            self.ledger.complaints.append(f"asyncio would log {about}")

    def story(self) -> str:
        """Tell what observers were told."""
        return "\n".join(
            f"{event.at:6g} s  {event.session_id}  {type(event).__name__:14}{event.run_id}"
            for event in self.ledger.events
        )

    def nothing_is_forgotten(self) -> None:
        """Look around, whenever nothing can happen without time's passing.

        Raises:
            Wrong: somebody is.
        """
        tickets = {ticket.run for it in self.people for ticket in it.tickets}
        snapshot = self.crowd.scheduler.snapshot()
        _refuse([*forgotten(self.ledger, snapshot, self.max_active, tickets.__contains__)])

    def judge(self) -> None:
        """Judge it, once it is over.

        Raises:
            Wrong: the scheduler broke its contract.
        """
        if self.torn_down:
            self._excuse_all()  # also what was accepted on the way
        found = judge(self.ledger) or [*too_late(self.ledger, GRACE_S, SETTLE_S)]
        _refuse([it for it in found if not (self.torn_down and it.startswith(UNPREPARED))])


def _refuse(found: list[str]) -> None:
    if found:
        raise Wrong("\n".join(found[:SHOWN]))


def play(seed: int, order: Order | None = None) -> Scenario:
    """Play a scenario: in the order of the same seed, if in no other.

    Raises:
        Wrong: the scheduler broke its contract.
        Stuck: it does not come to an end.
        Complained: asyncio would log something.
    """
    scenario = Scenario(seed)
    try:
        with simulated(Seeded(seed) if order is None else order, within=WITHIN_S) as simulation:
            if not scenario.torn_down:
                simulation.whenever_quiet(scenario.nothing_is_forgotten)
            simulation.run(scenario.main())
            simulation.end()
            scenario.judge()
    except Exception as error:
        error.add_note(f"what happened in scenario {seed}:\n{scenario.story()}")
        raise
    return scenario


def _seeded(seed: float) -> random.Random:
    return random.Random(seed)  # noqa: S311 - to do the same again is the point
