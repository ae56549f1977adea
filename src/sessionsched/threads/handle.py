"""What a submitter holds: how to wait for a run by blocking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, cast

from sessionsched.handle import BaseHandle, BaseTicket, value_of
from sessionsched.model import PromptT, ResultT

if TYPE_CHECKING:
    from sessionsched.model import Outcome
    from sessionsched.threads.driver import ThreadDriver
    from sessionsched.threads.run import ThreadRun

__all__ = ["ThreadHandle", "ThreadTicket"]


class ThreadHandle(BaseHandle[PromptT], Generic[PromptT, ResultT]):
    """A submitted run. Any number of threads may wait for it."""

    __slots__ = ()

    def outcome(self, timeout: float | None = None) -> Outcome[ResultT]:
        """Wait for the run's end, and say how it ended.

        Raises:
            TimeoutError: it has not ended in that many seconds; it goes on.
            WouldDeadlock: called by a run that must be over before this one can end.
        """
        run: ThreadRun[PromptT] = self.run  # type: ignore[assignment]  # such are our runs
        if not run.announced:
            cast("ThreadDriver[PromptT]", self._driver).ended(run, timeout)
        return run.ended  # type: ignore[return-value]  # it has ended

    def result(self, timeout: float | None = None) -> ResultT:
        """Wait for the run's end, and give what the handler returned.

        Raises:
            TimeoutError, WouldDeadlock: as `outcome` does.
            RunCanceled, RunSuspended: it has no value to give.
            Exception: what the handler raised.
        """
        self.outcome(timeout)
        return cast("ResultT", value_of(cast("ThreadRun[PromptT]", self.run)))


class ThreadTicket(BaseTicket[PromptT, ThreadHandle[PromptT, ResultT]], Generic[PromptT, ResultT]):
    """A place in line for a prompt that its owner still prepares."""

    __slots__ = ()
