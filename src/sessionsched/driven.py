"""A run as a driver has it: with whatever carries it out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import Context
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from sessionsched.events import (
    RunAccepted,
    RunCanceling,
    RunEnded,
    RunFolded,
    RunQueued,
    RunStarted,
)
from sessionsched.model import Effect, PromptT, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionsched.driver import Driver
    from sessionsched.events import RunEvent

__all__ = ["DrivenRun", "Terms", "as_told"]


@frozen
class Terms:
    """What was agreed for one run, where it differs from the usual; in seconds."""

    #: How long it may be active, and how long it may wait.
    deadline_s: float | None = None
    wait_s: float | None = None
    #: How it becomes ready: by the host's `prepare`, or by the owner of its ticket.
    prepare: bool = False
    ticket: bool = False


@define(eq=False, weakref_slot=False, repr=False)
class DrivenRun(Run[PromptT], ABC):
    """What a handler gets, and what its driver knows about it."""

    #: The task, or the thread, that the handler runs in: from its beginning to the run's end.
    carrier: Any = None
    #: The handler took its first step. Until then it has seen nothing of the prompt.
    begun: bool = False

    @property
    def driver(self) -> Driver[PromptT]:
        """Whoever performs what its session orders."""
        return self.session.driver  # type: ignore[union-attr,no-any-return]  # it was accepted

    @property
    def own_context(self) -> Context:
        """Where its hooks and its handler run: the same for all of them."""
        if self.context is None:
            self.context = Context()
        return self.context

    def take_follow_ups(self) -> tuple[Run[PromptT], ...]:
        # Only a handler answers for what it takes: before its first step there is none.
        return self.driver.take_follow_ups(self) if self.begun else ()

    def emit(self, item: object) -> bool:
        return self.driver.emit(self, item)

    @abstractmethod
    def begin(self, driver: Any) -> None:
        """Call the handler, somewhere else than here."""

    @abstractmethod
    def stop(self) -> None:
        """Tell the handler to stop, once more."""

    def notice_cancel(self) -> None:
        """Let whoever looks out for a cancel of this run know of it."""

    @property
    @abstractmethod
    def going(self) -> bool:
        """Whether there is anybody to be told."""

    @abstractmethod
    def abandon(self, carrier: Any) -> None:
        """Nobody waits for the handler any longer, which goes on in that task or thread."""

    @abstractmethod
    def release(self, driver: Any) -> None:
        """It has ended: wake whoever waits, and let go of what is no longer needed."""


def as_told(
    run: DrivenRun[Any], now: float
) -> Iterator[tuple[type[RunEvent[Any]], float, tuple[object, ...]]]:
    """Say how a run stands by what was announced of it, which the table may be ahead of."""
    match run.seen:
        case Effect.ACCEPTED:
            yield RunAccepted, run.accepted_at, ()
        case Effect.QUEUED:
            yield RunQueued, run.accepted_at, ()
        case Effect.FOLDED:
            yield RunFolded, run.started_at or 0.0, ()
        case Effect.START | Effect.INTERRUPT:
            yield RunStarted, run.started_at or 0.0, ()
        case Effect.END:
            yield RunEnded, run.ended_at, ()
    if run.seen is Effect.INTERRUPT or run.seen is Effect.DROP:
        yield RunCanceling, now, (run.cause,)
