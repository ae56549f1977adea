"""What tests of a turn need: a model that follows a script, and a host that stores steps."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from agents import watching

from sessionsched import Scheduler
from sessionsched.steps import (
    CallDone,
    Extra,
    Finish,
    FunctionTool,
    Reasoning,
    Said,
    Step,
    Text,
    ToolCall,
    Usage,
    run_steps,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from agents import Watch

    from sessionsched import Run, RunHandle
    from sessionsched.steps import Entry, Part, Request, StepsResult, Tool

    #: A part to stream, seconds to pass, an error to raise, or something to call.
    Item: TypeAlias = "Part | float | BaseException | Callable[[], Awaitable[object] | None]"
    Handle: TypeAlias = RunHandle[str, StepsResult]

__all__ = ["DONE", "Host", "Script", "call", "flat", "used"]

DONE = Finish()


def call(call_id: str, name: str = "echo", text: str = "{}") -> CallDone:
    """A whole call in one part."""
    return CallDone(call_id, name, text)


def used(tokens: int) -> Finish:
    """The end of a step that took so many tokens."""
    return Finish("stop", Usage(tokens - 1, 1))


class Script:
    """A model. The n-th stream is the n-th line of its script; the last one is repeated."""

    def __init__(self, *lines: Iterable[Item]) -> None:
        self.lines = [tuple(line) for line in lines]
        #: Everything that it was asked.
        self.requests: list[Request] = []
        #: How many streams were closed.
        self.closed = 0

    async def __call__(self, request: Request) -> AsyncIterator[Part]:
        self.requests.append(request)
        line = self.lines[min(len(self.requests), len(self.lines)) - 1]
        try:
            for item in line:
                if isinstance(item, int | float):
                    await asyncio.sleep(item)
                elif isinstance(item, BaseException):
                    raise item
                elif callable(item):
                    done = item()
                    if done is not None:
                        await done
                else:
                    yield item
        finally:
            self.closed += 1


class Host:
    """A host whose handler takes one turn, and stores its steps."""

    def __init__(self, model: Any, tools: Iterable[Tool] = (), **options: Any) -> None:
        self.model = model
        self.tools = tools
        #: For the scheduler, and for run_steps.
        self.grace: float = options.pop("grace", 5.0)
        self.options = options
        #: How long it takes to store a step, and what it fails with.
        self.persist_s = 0.0
        self.persist_error: BaseException | None = None
        #: What was handed over to be stored, and what was.
        self.given: list[Step] = []
        self.stored: list[Step] = []
        self.history: tuple[Entry, ...] = ()
        self.run: Run[str]
        #: What run_steps raised.
        self.raised: BaseException | None = None

    async def persist(self, step: Step) -> None:
        self.given.append(step)
        if self.persist_s:
            await asyncio.sleep(self.persist_s)
        if self.persist_error is not None:
            raise self.persist_error
        self.stored.append(step)

    async def handle(self, run: Run[str]) -> StepsResult:
        self.run = run
        try:
            return await run_steps(
                run,
                model=self.model,
                history=[*self.history, Said(run.prompt)],
                tools=self.tools,
                persist_step=self.persist,
                **self.options,
            )
        except BaseException as error:
            self.raised = error
            raise

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Scheduler[str, StepsResult], Watch]]:
        """Open a scheduler, with somebody who watches."""
        async with (
            Scheduler(self.handle, grace=self.grace) as scheduler,
            watching(scheduler) as watch,
        ):
            yield scheduler, watch

    async def take(self, prompt: str = "hi") -> StepsResult:
        """Take one turn, from its beginning to its end."""
        async with self.open() as (scheduler, _):
            return await scheduler.submit("chat", prompt)


def tool(function: Callable[..., Awaitable[object]], **options: Any) -> FunctionTool:
    """The function as a tool."""
    return FunctionTool(function, **options)


def flat(*entries: Entry) -> list[str]:
    """A history as a provider would be sent it, one line for each piece."""
    lines: list[str] = []
    for entry in entries:
        if isinstance(entry, Said):
            lines.append(f"{entry.who}: {entry.content}")
            continue
        for piece in entry.content:
            match piece:
                case Text(text):
                    lines.append(f"text: {text}")
                case Reasoning(text):
                    lines.append(f"reasoning: {text}")
                case ToolCall(call_id, name):
                    lines.append(f"call {call_id}: {name}")
                case Extra(value):
                    lines.append(f"extra: {value}")
        lines += [
            f"{'error' if it.error else 'result'} {it.call_id}: {it.content}"
            for it in entry.results
        ]
    return lines
