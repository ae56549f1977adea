"""A scripted handler: it does for each prompt what the test has said, step by step."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from attrs import define

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
    from typing import TypeAlias

    from sessionsched.model import Run

    #: A step of a script: what it gives, but for None, is what the handler returns.
    Step: TypeAlias = Callable[["ScriptedHandler", Run[Any]], Awaitable["Returned | None"]]

__all__ = [
    "Returned",
    "ScriptedHandler",
    "calls",
    "emits",
    "folds",
    "hangs",
    "raises",
    "returns",
    "sleeps",
    "swallows",
    "waits",
]


@define
class Returned:
    """What a script returns; a class of its own, because None may be returned, too."""

    value: object


class ScriptedHandler:
    """A handler, or a hook, that does for each prompt what its script says, step by step.

    A prompt without a script gets `otherwise`; a script that comes to its end returns None. Where a
    script `waits`, the test lets it go on with `release` or `fail`.
    """

    def __init__(
        self, scripts: Mapping[Any, Sequence[Step]] | None = None, otherwise: Sequence[Step] = ()
    ) -> None:
        self._scripts, self._otherwise = dict(scripts or {}), otherwise
        #: What happened, in order: "start a", "cancel a" (one has reached its handler), "over a".
        self.log: list[str] = []
        #: Every run that it was called for, by prompt; the last one of each.
        self.runs: dict[Hashable, Run[Any]] = {}
        #: What `folds` took, in order.
        self.follow_ups: list[Run[Any]] = []
        self._gates: dict[Hashable, asyncio.Future[None]] = {}

    async def __call__(self, run: Run[Any]) -> Any:
        """Do what the script for this prompt says."""
        self.log.append(f"start {run.prompt}")
        self.runs[run.prompt] = run
        try:
            for step in self._scripts.get(run.prompt, self._otherwise):
                if (returned := await step(self, run)) is not None:
                    return returned.value
        except asyncio.CancelledError:
            self.log.append(f"cancel {run.prompt}")
            raise
        finally:
            self.log.append(f"over {run.prompt}")

    @property
    def started(self) -> list[str]:
        """The prompts that it was called for, in order, spelt."""
        return [entry.removeprefix("start ") for entry in self.log if entry.startswith("start ")]

    def release(self, *prompts: Hashable) -> None:
        """Let the scripts of these prompts go on where they wait, now or when they come there."""
        for prompt in prompts:
            self.gate(prompt).set_result(None)

    def fail(self, prompt: Hashable, error: Exception) -> None:
        """Let the script of this prompt raise where it waits."""
        self.gate(prompt).set_exception(error)

    def gate(self, prompt: Hashable) -> asyncio.Future[None]:
        """Give what a prompt's script waits for: for steps of one's own."""
        return self._gates.setdefault(prompt, asyncio.get_running_loop().create_future())


def returns(value: object = None) -> Step:
    """Return this."""

    async def step(_: ScriptedHandler, __: Run[Any]) -> Returned:
        return Returned(value)

    return step


def raises(error: BaseException) -> Step:
    """Raise this. `raises(asyncio.CancelledError())` is a cancel that nobody sent."""

    async def step(_: ScriptedHandler, __: Run[Any]) -> None:
        raise error

    return step


def sleeps(seconds: float = 0.0) -> Step:
    """Let so much time pass on the loop's clock; 0: let others go first."""

    async def step(_: ScriptedHandler, __: Run[Any]) -> None:
        await asyncio.sleep(seconds)

    return step


def waits() -> Step:
    """Wait until the test says `release` or `fail`."""

    async def step(handler: ScriptedHandler, run: Run[Any]) -> None:
        await asyncio.shield(handler.gate(run.prompt))  # others may wait for it, too

    return step


def hangs() -> Step:
    """Wait for ever, that is, until it is canceled."""

    async def step(_: ScriptedHandler, __: Run[Any]) -> None:
        await asyncio.get_running_loop().create_future()

    return step


def swallows(times: int = 1) -> Step:
    """Wait until it was canceled so many times, and go on as if nothing had happened."""

    async def step(handler: ScriptedHandler, run: Run[Any]) -> None:
        for _ in range(times):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                handler.log.append(f"cancel {run.prompt}")

    return step


def emits(*items: object) -> Step:
    """Show these as progress."""
    return calls(lambda run: [run.emit(item) for item in items])


def folds() -> Step:
    """Take the follow-ups that wait; they are in `handler.follow_ups` then."""

    async def step(handler: ScriptedHandler, run: Run[Any]) -> None:
        handler.follow_ups += run.take_follow_ups()

    return step


def calls(function: Callable[[Run[Any]], object]) -> Step:
    """Call this with the run: for whatever else a handler does without waiting."""

    async def step(_: ScriptedHandler, run: Run[Any]) -> None:
        function(run)

    return step
