"""A scheduler on virtual time, and everything around it that judges it.

Rule 1. The naive model follows the table that the driver obeys, call by call (judged_table.py).
Rule 2. What callers, handlers and one subscriber saw is written into a ledger, which knows nothing
        of tables and models, and is judged when all is over.
Rule 3. Whenever nothing can happen without time's passing, somebody is at work for all that does
        not wait, and nothing waits that could go.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import async_solipsism
from judged_table import JudgedTable

from sessionsched import (
    Cause,
    Limits,
    Run,
    Scheduler,
    Status,
)
from sessionsched.hub import Mailbox
from sessionsched.testing.crowd import Crowd, Prompt
from sessionsched.testing.judge import judge
from sessionsched.testing.ledger import Ledger
from sessionsched.testing.punctual import forgotten, too_late

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import TypeAlias

    from sessionsched import RunHandle, Ticket

    AnyRun: TypeAlias = Run[Prompt]

#: So few that people get into each other's way.
NAMES = ("a", "b", "c")
MAX_WAITING = 4
GRACE_S, SETTLE_S, PREPARE_S, UNIT_S = 5.0, 3.0, 4.0, 1.0


class World:
    """One scheduler from its making to its close, and everybody around it."""

    def __init__(
        self,
        *,
        max_active: int | None = None,
        records_drops: bool = True,
        prepares: bool = False,
        abandon_after: float | None = None,
    ) -> None:
        gc.disable()  # what is made from here on stays young: to collect it takes no time
        self.loop = async_solipsism.EventLoop()
        #: What asyncio would only log.
        self.logged: list[str] = []
        self.loop.set_exception_handler(lambda _, about: self.logged.append(str(about)))
        self.ledger = Ledger(one_thread=True, records_drops=records_drops)
        self.crowd = crowd = Crowd(self.ledger, UNIT_S, _next_name)
        self.limits = Limits(max_waiting=MAX_WAITING, max_active=max_active)
        self.scheduler: Scheduler[Prompt, str] = Scheduler(
            crowd.handle,
            on_dropped=crowd.record if records_drops else None,
            prepare=crowd.prepare if prepares else None,
            prepare_timeout=PREPARE_S if prepares else None,
            limits=self.limits,
            grace=GRACE_S,
            abandon_after=abandon_after,
            settle_timeout=SETTLE_S,
        )
        crowd.scheduler = self.scheduler
        self.table = JudgedTable(self.limits)
        self.scheduler._driver.use(self.table)
        # The judge hears everything, also what nobody else would notice.
        self.scheduler._driver.hub.expect(Mailbox("", "", 1, lambda: None))
        self.handles: list[RunHandle[Prompt, str]] = []
        self.tickets: list[Ticket[Prompt, str]] = []
        #: Everybody who has a task: hosts of turns, who waits for a run, who closes, who reads.
        self.tasks: list[asyncio.Task[Any]] = []
        self.waiters: list[asyncio.Task[Any]] = []
        #: Hosts, with the numbers of their prompts.
        self.hosts: list[tuple[asyncio.Task[Any], int]] = []
        self.read: list[Any] = []
        self.run(self._open())

    def run(self, main: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(main)

    async def _open(self) -> None:
        await self.scheduler.__aenter__()
        self.start(self._read())
        await asyncio.sleep(0)
        #: Told as it happens, and not when a reader comes to read.
        self.box: Mailbox[Prompt] = Mailbox("", "", 10**9, self._told)
        self.scheduler._driver.watch(self.box)

    async def _read(self) -> None:
        async with self.scheduler.subscribe(buffer=10**9) as events:
            async for event in events:
                self.read.append(event)

    def _told(self) -> None:
        while (event := self.box.take()) is not None:
            self.ledger.told(event)  # type: ignore[arg-type]  # there are no gaps in it

    def start(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        self.tasks.append(self.loop.create_task(main))
        return self.tasks[-1]

    # --- looking ---

    @property
    def runs(self) -> list[AnyRun]:
        """Every run that was accepted, in that order."""
        return [life.told[0].run for life in self.ledger.taken_in]

    def newest(self, name: str) -> int:
        """The seq of the session's newest run; 0 if there was none."""
        return max((run.seq for run in self.runs if run.session_id == name), default=0)

    async def quiet(self) -> None:
        """Let everything happen that can happen without time's passing."""
        while self.loop._ready:  # noqa: ASYNC110 - nobody sets an event when nothing is ready
            await asyncio.sleep(0)

    def judge_quiet(self) -> None:
        """D4, and nobody has been forgotten: somebody is at work for all that does not wait."""
        self.ledger.complaints += forgotten(
            self.ledger, self.scheduler.snapshot(), self.limits.max_active, self._has_a_ticket
        )

    def _has_a_ticket(self, run: AnyRun) -> bool:
        return any(ticket.run is run for ticket in self.tickets)

    def judge_so_far(self) -> None:
        found = self.table.complaints + self.ledger.complaints + self.logged
        assert not found, "\n".join(found)

    # --- the end ---

    def end(self, drain: float) -> None:
        """Close, and judge all of it."""
        try:
            self.run(self._close(drain))
            self.run(self.quiet())
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            timers = [timer for timer in self.loop._scheduled if not timer.cancelled()]
            self.run(self._asked_again())
        finally:
            self.loop.close()
            for those in (self.tasks, self.waiters, self.hosts):
                those.clear()
            gc.collect(0)  # tasks complain when they are collected
            gc.enable()
        self.judge_so_far()
        assert (left, timers, len(self.table)) == ([], [], 0), "left behind (S7)"
        assert self.table.performed == len(self.table.naive.out)
        found = [*judge(self.ledger), *too_late(self.ledger, GRACE_S, SETTLE_S)]
        assert not found, "\n".join(found)

    async def _close(self, drain: float) -> None:
        report = await self.crowd.close(drain)
        suspended = [
            life.seq
            for life in self.ledger.taken_in
            if life.outcome and life.outcome.status is Status.SUSPENDED
            if life.outcome.cause is Cause.SHUTDOWN
        ]
        named = [run.seq for run in report.suspended if run.cause is Cause.SHUTDOWN]
        assert named == sorted(suspended), "the report is not what was suspended (S4)"
        await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 1000)

    async def _asked_again(self) -> None:
        """T1: whoever asks for the outcome, at any time, gets the one that was told."""
        for handle in self.handles:
            life = self.ledger.of(handle.run)
            assert await handle.outcome() == life.outcome
        read = [(type(it), it.number, it.run_id) for it in self.read]
        assert read == [(type(it), it.number, it.run_id) for it in self.ledger.events]


def _next_name(name: str) -> str:
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]
