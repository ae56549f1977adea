"""A host in a test's hands: a task that takes a turn, and does in it as it is told."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from agents import Agent, quiet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched import Outcome, Run, Scheduler

    Body: TypeAlias = Callable[["Host"], Awaitable[object]]

__all__ = ["Host", "Recorder", "held_back", "waits"]


async def waits(host: Host) -> None:
    """Be inside until `host.leave`."""
    await host.gate.wait()


class Host:
    """Takes one turn, in a task of its own."""

    def __init__(
        self,
        scheduler: Scheduler[str, str],
        body: Body = waits,
        session_id: str = "chat",
        prompt: str = "me",
        *,
        canceled_before: bool = False,
        **options: Any,
    ) -> None:
        self.scheduler = scheduler
        self.turn = scheduler.turn(session_id, prompt, **options)
        self.run: Run[str] = self.turn._run
        self.gate = asyncio.Event()
        self.leave = self.gate.set
        #: It was in the body.
        self.entered = False
        #: How many cancels its task had to answer for after the turn.
        self.left = -1
        #: Nothing has struck it after the turn.
        self.cleaned_up = False
        self._body = body
        #: It swallowed a cancel long before: that is its own business.
        self._canceled_before = canceled_before
        self.task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        if self._canceled_before:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        try:
            async with self.turn as run:
                assert run is self.run
                self.entered = True
                await self._body(self)
        finally:
            self.left = self.task.cancelling()
            await quiet(3)  # a stray cancel would strike here, and come out instead
            self.cleaned_up = True

    async def error(self) -> BaseException | None:
        """What came out of the turn."""
        await asyncio.wait([self.task])
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()

    @property
    def outcome(self) -> Outcome[Any]:
        assert self.run.ended is not None, "it has not ended"
        return self.run.ended

    async def fate(self) -> tuple[str | None, str, str | None, int]:
        """What came out of it, how the run ended (status, cause), and what `left` is."""
        error = await self.error()
        name = None if error is None else type(error).__name__
        return name, self.outcome.status.value, self.outcome.cause, self.left


class Recorder:
    """An `on_dropped` that a test can keep from coming to an end."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.recorded: list[str] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, run: Run[str]) -> None:
        self.dropped.append(run.prompt)
        await self.may_end.wait()
        self.recorded.append(run.prompt)


async def held_back(scheduler: Scheduler[str, str], agent: Agent) -> Host:
    """A host whose turn comes in the very moment of `scheduler.resume`."""
    scheduler.submit("chat", "before")
    host = Host(scheduler)
    await quiet()
    scheduler.pause("chat")
    agent.finish("before")
    await quiet()
    assert host.run.waiting
    return host
