"""What a submitter holds: how to wait for a run by blocking."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, cast

from sessionsched.handle import BaseHandle, BaseTicket, value_of
from sessionsched.model import PromptT, ResultT

if TYPE_CHECKING:
    from sessionsched.model import Outcome
    from sessionsched.threads.run import ThreadRun

__all__ = ["ThreadHandle", "ThreadTicket"]


class ThreadHandle(BaseHandle[PromptT], Generic[PromptT, ResultT]):
    """A submitted run. Any number of threads may wait for it."""

    __slots__ = ()

    @abstractmethod
    def outcome(self, timeout: float | None = None) -> Outcome[ResultT]:
        """Wait for the run's end, and say how it ended.

        Raises:
            TimeoutError: it has not ended in that many seconds; it goes on.
            WouldDeadlock: called by a run that must be over before this one can end.
        """

    def result(self, timeout: float | None = None) -> ResultT:
        """Wait for the run's end, and give what the handler returned.

        Raises:
            TimeoutError, WouldDeadlock: as `outcome` does.
            RunCanceled, RunSuspended: it has no value to give.
            Exception: what the handler raised.
        """
        self.outcome(timeout)
        return cast("ResultT", value_of(cast("ThreadRun[PromptT]", self)))


class ThreadTicket(BaseTicket[PromptT, ThreadHandle[PromptT, ResultT]], Generic[PromptT, ResultT]):
    """A place in line for a prompt that its owner still prepares."""

    __slots__ = ()
