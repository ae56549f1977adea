"""What a submitter holds: how to wait for a run with `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, cast

from sessionsched.handle import BaseHandle, BaseTicket, value_of
from sessionsched.model import PromptT, ResultT, RunState

if TYPE_CHECKING:
    from collections.abc import Generator

    from sessionsched.aio.driver import AioDriver
    from sessionsched.aio.run import AioRun
    from sessionsched.model import Outcome

__all__ = ["RunHandle", "Ticket"]

_RUN_ENDED: Final = RunState.ENDED  # on Python 3.11 a look into the class costs more than a call


class RunHandle(BaseHandle[PromptT], Generic[PromptT, ResultT]):
    """A submitted run. Any number of tasks may wait for it; canceling one of them changes nothing.

    `await handle` gives what the handler returned. It raises what the handler raised, RunCanceled
    or RunSuspended; `await handle.outcome()` raises nothing and says the same as data.
    """

    __slots__ = ()

    async def outcome(self) -> Outcome[ResultT]:
        """Wait for the run's end, and say how it ended.

        Raises:
            WouldDeadlock: called by a run that must be over before this one can end.
            WrongLoop: called on another event loop than the scheduler's.
        """
        run = self.run
        if run.state is not _RUN_ENDED:
            await cast("AioDriver[PromptT]", self._driver).ended(cast("AioRun[PromptT]", run))
        return cast("Outcome[ResultT]", run.ended)

    def __await__(self) -> Generator[Any, None, ResultT]:
        yield from self.outcome().__await__()
        return cast("ResultT", value_of(cast("AioRun[PromptT]", self.run)))


class Ticket(BaseTicket[PromptT, RunHandle[PromptT, ResultT]], Generic[PromptT, ResultT]):
    """A place in line for a prompt that its owner still prepares."""

    __slots__ = ()
