"""The soak: thousands of sessions on a real event loop, for as long as you like.

    python -m sessionsched.testing.soak --seconds 120 --sessions 5000 --seed 7

Rule 1. Everything that a scheduler offers is used, by tasks and by other threads, at random, and
        handlers do all that handlers do (crowd.py).
Rule 2. Every few seconds the scheduler is closed, under fire, and a new one opened on the same
        loop. What was accepted has ended then, to the last run, and the ledger is judged by the
        contract (judge.py).
Rule 3. Nothing is left behind either: no task, no timer, and no memory.

The seed says what people and handlers do, but not how threads take turns: that differs each time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from attrs import Factory, define, frozen

from sessionsched.aio import Scheduler
from sessionsched.events import Gap, RunEnded
from sessionsched.model import Limits
from sessionsched.testing.crowd import Crowd
from sessionsched.testing.judge import judge
from sessionsched.testing.ledger import Ledger
from sessionsched.testing.people import People, a_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.crowd import Prompt

__all__ = ["Report", "Round", "Settings", "main", "soak"]

#: How long a short while of a handler is; hooks and graces are a few of them.
UNIT_S: Final = 0.002
#: Rounds until caches and pools are full; what is in memory then is the measure.
WARM: Final = 2
#: How many more objects, or blocks of memory, than after those rounds are no growth.
#: One object kept of every hundredth run is more than this, in one round.
TOLERANCE: Final = 2_000
#: How many complaints are shown.
SHOWN: Final = 20
#: How often a slow reader falls asleep.
SLOW: Final = 0.01


@frozen
class Settings:
    """How much, for how long."""

    seconds: float = 120.0
    #: Instead of seconds: so many.
    rounds: int | None = None
    sessions: int = 5_000
    #: How many calls people make in one round; each is a prompt more often than not.
    calls: int = 20_000
    #: Other threads that submit and cancel.
    threads: int = 3
    #: Seconds after which whoever has not come to an end is stuck.
    patience: float = 60.0
    seed: int = 0


@define
class Report:
    """What a soak came to."""

    rounds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = Factory(Counter)
    #: Objects, and blocks of memory, after the rounds that warm up; and now.
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)
    wrong: list[str] = Factory(list)

    @property
    def ok(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong

    def add(self, counts: Counter[str], memory: tuple[int, int], wrong: list[str]) -> None:
        """Add a round."""
        self.rounds += 1
        self.counts += counts
        self.after = memory
        self.before = memory if self.rounds <= WARM else self.before
        self.wrong += [f"round {self.rounds}: {what}" for what in wrong]
        grown = max(now - then for then, now in zip(self.before, self.after, strict=True))
        if grown > TOLERANCE:
            self.wrong.append(f"R1: {grown:,} more objects or blocks are kept than at first")

    def __str__(self) -> str:
        grown = [after - before for before, after in zip(self.before, self.after, strict=True)]
        rows = [f"{name:28}{count:>12,}" for name, count in sorted(self.counts.items())]
        rows += [f"{'rounds':28}{self.rounds:>12,}", f"{'seconds':28}{self.seconds:>12,.0f}"]
        rows += [f"{'objects more than at first':28}{grown[0]:>12,}"]
        rows += [f"{'blocks more than at first':28}{grown[1]:>12,}"]
        rows += [f"WRONG: {what}" for what in self.wrong[:20]]
        rows += [f"... and {len(self.wrong) - 20} more"] if len(self.wrong) > 20 else []  # noqa: PLR2004
        return "\n".join(
            [*rows, "all is well" if self.ok else f"WRONG in all: {len(self.wrong):,}"]
        )


class Round:
    """One scheduler, from its opening to its close, and everybody around it."""

    def __init__(self, settings: Settings, number: int) -> None:
        self.settings = settings
        self.rng = _seeded(settings.seed, number)
        self.ledger = Ledger(one_thread=False)
        self.crowd = Crowd(self.ledger, UNIT_S, lambda _: a_name(self.rng, settings.sessions))

    async def run(self) -> list[str]:
        """Let everybody loose, and close. Gives what was wrong."""
        before, crowd = asyncio.all_tasks(), self.crowd
        crowd.scheduler = self._open()
        readers = [asyncio.create_task(self._read()), asyncio.create_task(self._read_slowly())]
        await asyncio.sleep(0)
        people = self._people()
        await self._everybody(people)
        await self._is_over("a reader, a waiter or a host", *readers, *_tasks_of(people))
        self._nothing_is_left(before)
        return judge(self.ledger)

    def _open(self) -> Scheduler[Prompt, str]:
        crowd, rng = self.crowd, self.rng
        return Scheduler(
            crowd.handle,
            on_dropped=crowd.record,
            prepare=rng.choice((None, None, crowd.prepare)),
            prepare_timeout=30 * UNIT_S,
            limits=Limits(max_waiting=8, max_active=rng.choice((None, 20, 500)), remembered=100),
            grace=25 * UNIT_S,
            abandon_after=rng.choice((None, 60 * UNIT_S)),
            settle_timeout=50 * UNIT_S,
        )

    def _people(self) -> list[People]:
        rngs = [_seeded(self.rng.random(), number) for number in range(self.settings.threads + 4)]
        return [People(self.crowd, rng, self.settings.sessions) for rng in rngs]

    async def _everybody(self, people: list[People]) -> None:
        """Tasks and threads make their calls; threads go on with that while it closes."""
        share, threads = self.settings.calls // len(people), self.settings.threads
        elsewhere = [
            asyncio.create_task(asyncio.to_thread(it.in_a_thread, share)) for it in people[:threads]
        ]
        await asyncio.gather(*(it.on_the_loop(share) for it in people[threads:]))
        drain = self.rng.choice((0.0, 0.0, 10 * UNIT_S))
        await self._is_over("the close", asyncio.create_task(self.crowd.close(drain)))
        await self._is_over("a thread", *elsewhere)

    # --- observers ---

    async def _read(self) -> None:
        async with self.crowd.scheduler.subscribe(buffer=sys.maxsize) as events:
            async for event in events:
                if isinstance(event, Gap):
                    self.ledger.complaints.append(f"T3: {event} without need")
                else:
                    self.ledger.told(event)

    async def _read_slowly(self) -> None:
        """T3: whoever can't keep up is told of every end all the same."""
        ended = set()
        async with self.crowd.scheduler.subscribe(buffer=1) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    ended.add(event.run.prompt.number)
                elif self.rng.random() < SLOW:
                    await asyncio.sleep(UNIT_S)
        missing = {life.number for life in self.ledger.taken_in} - ended
        self.ledger.complaints += [f"T3: a slow reader missed the end of {it}" for it in missing]

    # --- the end ---

    async def _is_over(self, what: str, *tasks: asyncio.Task[Any]) -> None:
        """See that these come to an end, and to a good one; or say so."""
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=self.settings.patience)
        errors = [task.exception() for task in done if not task.cancelled()]
        found = [f"S1: {what} does not come to an end: {task}" for task in late]
        found += [f"{what} failed: {error!r}" for error in errors if error is not None]
        self.ledger.complaints += found

    def _nothing_is_left(self, before: set[asyncio.Task[Any]]) -> None:
        loop = asyncio.get_running_loop()
        tasks = {task for task in asyncio.all_tasks() if not task.done()} - before
        timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
        sessions = self.crowd.scheduler.snapshot().sessions
        self.ledger.complaints += [f"S7: {it} is left" for it in (*tasks, *timers, *sessions)]

    def counts(self) -> Counter[str]:
        """Say how much happened."""
        lives, outcomes = self.ledger.taken_in, Counter[str]()
        for life in lives:
            if life.outcome is not None:
                outcomes[f"{life.outcome.status} {life.outcome.cause or ''}".strip()] += 1
                outcomes["abandoned"] += life.outcome.abandoned
                outcomes["folded"] += bool(life.takers)
        accepted, ended = len(lives), sum(life.outcome is not None for life in lives)
        refused = sum(life.refused for life in self.ledger.lives.values())
        return outcomes + Counter({
            "accepted": accepted, "ended": ended, "refused": refused,
            "cancels": len(self.ledger.cancels), "events": len(self.ledger.events),
        })  # fmt: skip


async def soak(settings: Settings, note: Callable[[str], object]) -> Report:
    """Do rounds until the time is over or something is wrong."""
    report, began = Report(), time.monotonic()
    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, it: logged.append(str(it)))
    while report.ok and _goes_on(settings, report):
        since = time.monotonic()
        around = Round(settings, report.rounds)
        wrong, counts = await around.run(), around.counts()
        del around
        report.add(counts, _in_memory(), [*wrong, *(f"asyncio would log {it}" for it in logged)])
        report.seconds = time.monotonic() - began
        note(
            f"round {report.rounds}: {counts['accepted']:,} accepted, {counts['ended']:,} ended, "
            f"{counts['refused']:,} refused, {counts['cancels']:,} cancels, "
            f"{time.monotonic() - since:.1f} s, {report.after[0]:,} objects in memory"
        )
    return report


def _goes_on(settings: Settings, report: Report) -> bool:
    if settings.rounds is not None:
        return report.rounds < settings.rounds
    return report.seconds < settings.seconds


def _tasks_of(people: list[People]) -> list[asyncio.Task[object]]:
    return [task for it in people for task in it.tasks]


def _seeded(*seed: float) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - to do the same again is the point


def _in_memory() -> tuple[int, int]:
    """Count what can be collected and what can't, once nothing more can be."""
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks()


def main(argv: list[str] | None = None) -> int:
    """Soak as the arguments say. Gives 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m sessionsched.testing.soak", description=(
        "Use a scheduler in every way, with thousands of sessions and several threads, and judge "
        "what became of every single prompt."
    ))  # fmt: skip
    usual = Settings()
    parser.add_argument("--seconds", type=float, default=usual.seconds)
    parser.add_argument("--rounds", type=int, help="instead of seconds: so many schedulers")
    parser.add_argument("--sessions", type=int, default=usual.sessions)
    parser.add_argument("--calls", type=int, default=usual.calls, help="in each round")
    parser.add_argument("--threads", type=int, default=usual.threads)
    parser.add_argument("--patience", type=float, default=usual.patience, help=(
        "seconds after which whoever has not come to an end is stuck"
    ))  # fmt: skip
    parser.add_argument("--seed", type=int, default=usual.seed)
    report = _run(Settings(**vars(parser.parse_args(argv))))
    _print(str(report))
    return 0 if report.ok else 1


def _run(settings: Settings) -> Report:
    """Soak on a loop of its own. Not `asyncio.run`: that would wait for whatever is stuck."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(soak(settings, _print))
    finally:
        loop.close()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
