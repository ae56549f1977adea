"""What the kit knows of each prompt: what was asked of it, and what was seen of it.

Rule 1. This is bookkeeping and no model: it says what has happened, never what should.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define

from sessionsched.model import How, Status

if TYPE_CHECKING:
    from sessionsched.testing.contract.adapter import Feature

__all__ = ["Cancel", "Facts", "Life"]


@define(eq=False)
class Cancel:
    """One cancel, or the close."""

    #: "all", "fence", "one", "active", "waiting" or "close".
    kind: str
    session: str
    #: Which call it was.
    at: int
    #: Whether it met anything at all.
    met_something: bool = False


@define(eq=False)
class Life:
    """One prompt that was accepted."""

    #: As people count: the first prompt of the story is 1.
    number: int
    #: What the calls of a story say for it: stays when other prompts are left out of the story.
    label: int
    seq: int
    session: str
    follow_up: bool
    #: Which call accepted it.
    at: int
    #: Its owner has said so, or nobody needs to.
    ready: bool
    #: The last cancel that covered it; None: nothing has.
    covered: Cancel | None = None
    #: Its handler was over when the cancel came, and its end not seen yet: either end is right.
    doubtful: bool = False
    started: bool = False
    told: bool = False
    #: How the kit let its handler be over.
    over: How | None = None
    #: The run that took it as a follow-up.
    taker: Life | None = None
    #: Its drop waits to be recorded, and has been.
    dropped: bool = False
    settled: bool = False
    #: How it ended; None: it has not.
    status: str | None = None

    def __str__(self) -> str:
        return f"prompt {self.number}"

    @property
    def in_flight(self) -> bool:
        """Whether it has not ended."""
        return self.status is None

    @property
    def going(self) -> bool:
        """Whether its handler was called and is not over."""
        return self.started and self.over is None

    @property
    def waits(self) -> bool:
        """Whether it is in line: neither started, folded, covered nor ended."""
        seen = self.started or self.taker is not None or self.covered is not None
        return self.in_flight and not seen

    @property
    def ending(self) -> bool:
        """Whether it was covered while it waited, and has not ended."""
        unseen = not self.started and self.taker is None
        return self.in_flight and unseen and self.covered is not None

    def right_ends(self) -> set[str]:
        """Say how it may end."""
        if self.taker is not None:
            return {self.taker.status or ""}
        by_itself = {Status.COMPLETED if self.over is How.RETURNED else Status.FAILED}
        if self.covered is None:
            return {*by_itself}
        if self.covered.kind != "close":
            return {Status.CANCELED, *(by_itself if self.doubtful else ())}
        if self.over is How.RETURNED:
            return {Status.COMPLETED}
        return {Status.SUSPENDED, *(by_itself if self.doubtful else ())}


@define
class Facts:
    """All prompts of one story."""

    features: frozenset[Feature]
    lives: list[Life] = Factory(list)
    by_seq: dict[int, Life] = Factory(dict)
    cancels: list[Cancel] = Factory(list)
    #: Sessions whose line is held.
    held: set[str] = Factory(set)
    #: Sessions that fell idle while they were held: whether they still are is left open.
    maybe_held: set[str] = Factory(set)
    closed: bool = False
    #: How many calls were made.
    calls: int = 0

    def of(self, session: str) -> list[Life]:
        """Give what a session has in flight, in accept order."""
        return [life for life in self.lives if life.session == session and life.in_flight]

    def labelled(self, label: int) -> Life | None:
        """Give the prompt that a call of a story means; None: it is not in this story."""
        return next((life for life in self.lives if life.label == label), None)

    @property
    def sessions(self) -> list[str]:
        """Every session with something in flight."""
        return list(dict.fromkeys(life.session for life in self.lives if life.in_flight))

    def cover(self, kind: str, session: str, lives: list[Life]) -> None:
        """Write down that these are covered from here on. A shutdown overrules no cancel."""
        cancel = Cancel(kind, session, self.calls, met_something=bool(self.of(session)))
        self.cancels.append(cancel)
        for life in lives:
            if life.covered is None or life.covered.kind == "close":
                life.covered = cancel
                life.doubtful = life.doubtful or life.over is not None
        folded = [life for life in self.lives if life.taker in lives and life.in_flight]
        for life in folded:
            life.covered = life.covered or cancel
