"""Events: what observers see of a run's life. hub.py delivers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from attrs import define

from sessionsched.about import AboutARun
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from sessionsched.model import Cause, Outcome, Run

__all__ = [
    "Gap",
    "RunAccepted",
    "RunCanceling",
    "RunEnded",
    "RunEvent",
    "RunFolded",
    "RunProgress",
    "RunQueued",
    "RunStarted",
    "RunStuck",
]


# Not frozen, and with the run instead of its fields: these are made several times per run.
@define(eq=False)
class RunEvent(AboutARun[PromptT]):
    """Something happened to a run: the base of all events but Gap.

    All subscribers have the same object for it, so nobody may change it.
    """

    #: Rises from event to event, over all sessions of the scheduler.
    number: int
    #: When, on the scheduler's clock.
    at: float
    run: Run[PromptT]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.number == other.number and self.run is other.run

    def __hash__(self) -> int:
        return hash(self.number)


@define(eq=False)
class RunAccepted(RunEvent[PromptT]):
    """It has a seq and its place in line."""


@define(eq=False)
class RunQueued(RunEvent[PromptT]):
    """It is ready, and waits for its turn."""


@define(eq=False)
class RunStarted(RunEvent[PromptT]):
    """Its turn has come: the handler is called."""


@define(eq=False)
class RunFolded(RunEvent[PromptT]):
    """It joined the active run as a follow-up, and will end with it."""

    @property
    def into(self) -> str:
        """The run that took it, by id."""
        return str(self.run.folded_into)


@define(eq=False)
class RunProgress(RunEvent[PromptT]):
    """The handler showed something (`run.emit`)."""

    item: object


@define(eq=False)
class RunCanceling(RunEvent[PromptT]):
    """It is covered: it will stop, or never start."""

    cause: Cause


@define(eq=False)
class RunStuck(RunEvent[PromptT]):
    """It was told to stop, and has not: it is told again."""

    #: How often it has been told by now.
    told: int


@define(eq=False)
class RunEnded(RunEvent[PromptT]):
    """It has its one outcome."""

    @property
    def outcome(self) -> Outcome[Any]:
        """How it ended."""
        return cast("Outcome[Any]", self.run.ended)


@define(eq=False)
class Gap:
    """The reader was too slow: so many events are missing here, none of them a RunEnded."""

    #: The number of the last one that is missing; and when it was noticed that they are.
    number: int
    at: float
    missed: int
    #: What the subscription is for; blank when it is for everything.
    session_id: str = ""
    run_id: str = ""
    seq: int = 0
