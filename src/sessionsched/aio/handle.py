"""What a submitter holds: how to wait for a run with `await`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, cast

from sessionsched.handle import BaseHandle, BaseTicket, value_of
from sessionsched.model import PromptT, ResultT

if TYPE_CHECKING:
    from collections.abc import Generator

    from sessionsched.aio.run import AioRun
    from sessionsched.model import Outcome

__all__ = ["RunHandle", "Ticket"]


class RunHandle(BaseHandle[PromptT], Generic[PromptT, ResultT]):
    """A submitted run. Any number of tasks may wait for it; canceling one of them changes nothing.

    `await handle` gives what the handler returned. It raises what the handler raised, RunCanceled
    or RunSuspended; `await handle.outcome()` raises nothing and says the same as data.
    """

    __slots__ = ()

    @abstractmethod
    async def outcome(self) -> Outcome[ResultT]:
        """Wait for the run's end, and say how it ended.

        Raises:
            WouldDeadlock: called by a run that must be over before this one can end.
            WrongLoop: called on another event loop than the scheduler's.
        """

    def __await__(self) -> Generator[Any, None, ResultT]:
        yield from self.outcome().__await__()
        return cast("ResultT", value_of(cast("AioRun[PromptT]", self)))


class Ticket(BaseTicket[PromptT, RunHandle[PromptT, ResultT]], Generic[PromptT, ResultT]):
    """A place in line for a prompt that its owner still prepares."""

    __slots__ = ()
