"""The asyncio scheduler, on a loop that moves when the kit lets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.aio import Scheduler
from sessionsched.errors import SchedulerClosed
from sessionsched.events import RunEnded
from sessionsched.model import How, Scope, WhenBusy
from sessionsched.testing.contract.adapter import Feature
from sessionsched.testing.contract.loops import LoopAdapter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Sequence

    from sessionsched.aio import Ticket
    from sessionsched.model import Run

__all__ = ["SchedulerAdapter"]

#: No time passes in a story: nothing may run into a limit.
FOREVER_S = 1e6


class SchedulerAdapter(LoopAdapter):
    """Starts are noted by the handler, ends by a subscriber: as any host would see them."""

    features: Collection[Feature] = frozenset(Feature)

    def __init__(self) -> None:
        super().__init__()
        self.tickets: dict[int, Ticket[str, None]] = {}
        #: What each handler was called with.
        self.runs: dict[int, Run[str]] = {}
        #: What recording each drop waits for: whether it is to fail.
        self._drops: dict[int, asyncio.Future[bool]] = {}
        self.scheduler = self.inside(self._make)
        self._reader = self.loop.create_task(self._read())
        self.rest()  # who subscribes sees what comes later

    def _make(self) -> Scheduler[str, None]:
        return Scheduler(
            self._handle, on_dropped=self._record, grace=FOREVER_S, settle_timeout=FOREVER_S
        )

    async def _handle(self, run: Run[str]) -> None:
        self.runs[run.seq] = run
        await self.work(run.seq)

    async def _record(self, run: Run[str]) -> None:
        gate = self._drops[run.seq] = self.loop.create_future()
        self.note_dropped(run.seq)
        if await gate:
            raise OSError("disk full")

    async def _read(self) -> None:
        async with self.scheduler.subscribe() as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    self.note_ended(event.seq, event.outcome.status)

    def accept(self, session: str) -> int | None:
        return self.inside(self._take_in, session, WhenBusy.QUEUE)

    def follow_up(self, session: str) -> int | None:
        return self.inside(self._take_in, session, WhenBusy.FOLD)

    def _take_in(self, session: str, when_busy: WhenBusy) -> int | None:
        try:
            ticket = self.scheduler.accept(session, "hello", when_busy=when_busy)
        except SchedulerClosed:
            return None
        self.tickets[ticket.seq] = ticket
        return ticket.seq

    def ready(self, seq: int) -> None:
        self.inside(self.tickets[seq].ready)

    def cancel(self, session: str) -> None:
        self.inside(self.scheduler.cancel, session)

    def cancel_one(self, seq: int) -> None:
        self.inside(self.tickets[seq].handle.cancel)

    def cancel_up_to(self, session: str, seq: int) -> None:
        self.inside(lambda: self.scheduler.cancel(session, up_to=seq))

    def cancel_active(self, session: str) -> None:
        self.inside(lambda: self.scheduler.cancel(session, scope=Scope.ACTIVE))

    def cancel_waiting(self, session: str) -> None:
        self.inside(lambda: self.scheduler.cancel(session, scope=Scope.WAITING))

    def settle(self, seq: int, *, failed: bool) -> None:
        self.inside(self._drops.pop(seq).set_result, failed)

    def fold(self, seq: int) -> Sequence[int]:
        return [run.seq for run in self.inside(self.runs[seq].take_follow_ups)]

    def hold(self, session: str) -> None:
        self.inside(self.scheduler.pause, session)

    def resume(self, session: str) -> None:
        self.inside(self.scheduler.resume, session)

    def close(self) -> None:
        self.inside(self.loop.create_task, self.scheduler.close())

    def stop(self) -> None:
        closing = self.loop.create_task(self.scheduler.close())
        while not closing.done():
            self.rest()
            for seq in list(self._gates):
                self.finish(seq, How.RETURNED)
            for seq in list(self._drops):
                self.settle(seq, failed=False)
        super().stop()
