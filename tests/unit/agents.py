"""What tests of the asyncio scheduler need: a handler in their hands, and a look at events."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sessionsched import Gap, Run, RunEvent, RunHandle, Scheduler


class Agent:
    """A handler that does as it is told: each run waits for its `finish` or `fail`, by prompt."""

    def __init__(self) -> None:
        #: What happened, in order: "start a", "stop a" (was canceled), "over a".
        self.log: list[str] = []
        self.runs: dict[str, Run[str]] = {}
        self._gates: dict[str, asyncio.Future[str]] = {}

    async def __call__(self, run: Run[str]) -> str:
        self.log.append(f"start {run.prompt}")
        self.runs[run.prompt] = run
        try:
            return await self._gate(run.prompt)
        except asyncio.CancelledError:
            self.log.append(f"stop {run.prompt}")
            raise
        finally:
            self.log.append(f"over {run.prompt}")

    def _gate(self, prompt: str) -> asyncio.Future[str]:
        return self._gates.setdefault(prompt, asyncio.get_running_loop().create_future())

    def finish(self, *prompts: str) -> None:
        """Let these runs return "<prompt> done", now or as soon as they start."""
        for prompt in prompts:
            self._gate(prompt).set_result(f"{prompt} done")

    def fail(self, prompt: str, error: Exception) -> None:
        """Let this run raise."""
        self._gate(prompt).set_exception(error)

    @property
    def started(self) -> list[str]:
        """The prompts whose handlers were called, in order."""
        return [entry.split()[1] for entry in self.log if entry.startswith("start")]


async def quiet(turns: int = 20) -> None:
    """Let everything happen that can happen without time's passing."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def ends(*handles: RunHandle[Any, Any]) -> list[tuple[str, str | None]]:
    """How these runs end: status and cause of each, spelt."""
    outcomes = [await handle.outcome() for handle in handles]
    return [(it.status.value, None if it.cause is None else it.cause.value) for it in outcomes]


class Watch:
    """Everything that a subscriber has seen."""

    def __init__(self) -> None:
        self.events: list[RunEvent[Any] | Gap] = []

    def lines(self, run_id: str | None = None) -> list[str]:
        """Kind and run of each event, as "RunStarted run-1"."""
        return [
            f"{type(it).__name__} {it.run_id}" for it in self.events if run_id in (None, it.run_id)
        ]

    def of(self, kind: type[Any]) -> list[Any]:
        """The events of one kind."""
        return [it for it in self.events if isinstance(it, kind)]


@contextlib.asynccontextmanager
async def watching(scheduler: Scheduler[Any, Any], **options: Any) -> AsyncIterator[Watch]:
    """Subscribe, and collect what comes. On the way out what has come so far has been read."""
    watch = Watch()
    async with scheduler.subscribe(**options) as events:

        async def read() -> None:
            async for event in events:
                watch.events.append(event)

        reader = asyncio.create_task(read())
        await quiet(2)
        try:
            yield watch
        finally:
            await quiet()
    await reader
