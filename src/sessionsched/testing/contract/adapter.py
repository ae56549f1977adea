"""The adapter: the few calls by which the kit works a scheduler, yours or ours.

Rule 1. Calls are plain calls that return at once. What follows from them is noted when it happens.
Rule 2. The kit plays everybody: it sends prompts, cancels them, and decides when a handler is over.
        A handler that was told to stop goes on until the kit says `finish`.
Rule 3. An adapter says what its scheduler can do. What it can't is not tried, and is listed.

A subclass with `accept`, `cancel` and `finish` that calls `note_started` and `note_ended` is
enough.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sessionsched.model import How

__all__ = ["Adapter", "Feature", "News", "missing_methods"]


class Feature(enum.StrEnum):
    """What a scheduler may be able to do beyond accepting, canceling and ending."""

    READY = "ready"  #: a run waits for `ready`; without it, a run is ready when it is accepted
    STEPS = "steps"  #: `step` stops in the middle of things
    TOLD = "told"  #: it is noted when a handler is told to stop
    CANCEL_ONE = "cancel_one"  #: one run alone can be canceled
    FENCE = "fence"  #: a cancel can be limited to runs that are not newer than a given one
    SCOPE = "scope"  #: the active run, or those that wait, can be canceled alone
    FOLD = "fold"  #: follow-ups join the active run when its handler asks for them
    HOLD = "hold"  #: the line can be kept from moving
    RECORD = "record"  #: a run that is dropped is recorded before its end is announced
    CLOSE = "close"  #: it can be shut down
    STRAY = "stray"  #: a handler can raise a cancellation although nobody canceled


#: The methods that each feature needs.
METHODS = {
    Feature.READY: ("ready",),
    Feature.STEPS: ("step",),
    Feature.TOLD: (),
    Feature.CANCEL_ONE: ("cancel_one",),
    Feature.FENCE: ("cancel_up_to",),
    Feature.SCOPE: ("cancel_active", "cancel_waiting"),
    Feature.FOLD: ("follow_up", "fold"),
    Feature.HOLD: ("hold", "resume"),
    Feature.RECORD: ("settle",),
    Feature.CLOSE: ("close",),
    Feature.STRAY: (),
}


class News(NamedTuple):
    """Something that a scheduler did: "started", "ended", "told" (to stop) or "dropped"."""

    what: str
    seq: int
    #: How it ended: "completed", "failed", "canceled" or "suspended".
    status: str = ""


class Adapter(ABC):
    """One scheduler, as the kit sees it. A fresh one is made for every story."""

    #: What the scheduler can do.
    features: Collection[Feature] = ()
    #: Whether notes are made in the order in which things happen. False: only starts among
    #: themselves and ends among themselves are, as with notes that come from several threads.
    ordered: bool = True

    def __init__(self) -> None:
        #: What has happened so far. Only ever appended to.
        self.history: list[News] = []

    # --- what every scheduler can do ---

    @abstractmethod
    def accept(self, session: str) -> int | None:
        """Take in a prompt. Gives its seq; None: it was refused, because the scheduler closes."""

    @abstractmethod
    def cancel(self, session: str) -> None:
        """Cancel whatever the session has in flight."""

    @abstractmethod
    def finish(self, seq: int, how: How) -> None:
        """Let the handler of a started run be over: it returns, raises, or stops as it was told."""

    # --- what happened ---

    def note_started(self, seq: int) -> None:
        """Note that the handler of this run was called."""
        self.history.append(News("started", seq))

    def note_ended(self, seq: int, status: str) -> None:
        """Note that the end of this run was announced to whoever waits for it."""
        self.history.append(News("ended", seq, str(status)))

    def note_told(self, seq: int) -> None:
        """Note that the handler of this run was told to stop (TOLD)."""
        self.history.append(News("told", seq))

    def note_dropped(self, seq: int) -> None:
        """Note that this run never started, and waits for `settle` (RECORD)."""
        self.history.append(News("dropped", seq))

    def started(self) -> Sequence[int]:
        """Give the runs that have started so far, in that order."""
        return [news.seq for news in self.history if news.what == "started"]

    def ended(self) -> Sequence[tuple[int, str]]:
        """Give the runs that have ended so far, in that order, and how."""
        return [(news.seq, news.status) for news in self.history if news.what == "ended"]

    # --- time ---

    def step(self) -> bool:
        """Let the scheduler do the next small thing. False: there is nothing left (STEPS)."""
        return False

    def rest(self) -> None:
        """Let the scheduler do all that it can do by itself."""
        while self.step():
            pass

    def stop(self) -> None:  # noqa: B027 - most have nothing to let go of
        """The story is over: let go of whatever was made for it."""

    # --- what some can do ---

    def ready(self, seq: int) -> None:
        """Let a run start when its turn comes. It may have been canceled meanwhile (READY)."""
        raise NotImplementedError

    def cancel_one(self, seq: int) -> None:
        """Cancel this run alone (CANCEL_ONE)."""
        raise NotImplementedError

    def cancel_up_to(self, session: str, seq: int) -> None:
        """Cancel what the session has in flight and is not newer than this run (FENCE)."""
        raise NotImplementedError

    def cancel_active(self, session: str) -> None:
        """Cancel the active run and keep the line (SCOPE)."""
        raise NotImplementedError

    def cancel_waiting(self, session: str) -> None:
        """Cancel those that wait and keep the active run (SCOPE)."""
        raise NotImplementedError

    def follow_up(self, session: str) -> int | None:
        """Take in a prompt that would rather join the active run. Else as `accept` (FOLD)."""
        raise NotImplementedError

    def fold(self, seq: int) -> Sequence[int]:
        """The handler of this active run asks for follow-ups. Gives what it got (FOLD)."""
        raise NotImplementedError

    def hold(self, session: str) -> None:
        """Keep the line from moving (HOLD)."""
        raise NotImplementedError

    def resume(self, session: str) -> None:
        """Let the line move again (HOLD)."""
        raise NotImplementedError

    def settle(self, seq: int, *, failed: bool) -> None:
        """The drop of this run is recorded, or that has failed (RECORD)."""
        raise NotImplementedError

    def close(self) -> None:
        """Begin to shut down: refuse, suspend what waits, tell what is active to stop (CLOSE)."""
        raise NotImplementedError


def missing_methods(adapter: Adapter) -> list[str]:
    """Name the methods that an adapter's features need and that it doesn't have."""
    return [
        f"{method} ({feature})"
        for feature in Feature
        if feature in adapter.features
        for method in METHODS[feature]
        if getattr(type(adapter), method) is getattr(Adapter, method)
    ]
