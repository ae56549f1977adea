"""What a submitter holds: a handle on its run, or a ticket while it still prepares it.

Rule 1. A handle does not own its run: losing it, or canceling who waits on it, changes nothing.
        (It is the run itself, seen by its submitter: an object less for each run.)
Rule 2. A ticket does: until it is ready, the run is its holder's, who gives it back by closing it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from sessionsched.about import AboutARun
from sessionsched.errors import (
    DuplicateRun,
    InvalidOption,
    RunCanceled,
    RunNotCompleted,
    RunSuspended,
)
from sessionsched.model import PromptT, RunState, Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from sessionsched.driven import DrivenRun
    from sessionsched.driver import Driver
    from sessionsched.model import CancelReceipt, Outcome, Run

__all__ = ["BaseHandle", "BaseTicket", "not_completed", "taken", "value_of"]

HandleT = TypeVar("HandleT", bound="BaseHandle[Any]")


class BaseHandle(Generic[PromptT], ABC):  # noqa: PYI059 - in the order that a run has them in
    """A run, seen by whoever submitted it."""

    __slots__ = ()

    @property
    @abstractmethod
    def session_id(self) -> str:
        """The session that the run belongs to."""

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The run's id."""

    @property
    @abstractmethod
    def seq(self) -> int:
        """The run's accept sequence."""

    @property
    @abstractmethod
    def state(self) -> RunState:
        """Where the run is just now."""

    @property
    def run(self) -> Run[PromptT]:
        """The same object as a run: prompt, times, cause."""
        return cast("Run[PromptT]", self)

    @property
    @abstractmethod
    def driver(self) -> Driver[PromptT]:
        """Whoever performs what its session orders."""

    def cancel(self) -> CancelReceipt[PromptT]:
        """Cancel this run and the follow-ups that it took, and nothing else."""
        return self.driver.cancel_run(self.run)

    def promote(self) -> bool:
        """Move it to the front of its line. False: it doesn't wait (any longer)."""
        return self.driver.promote(self.run)

    def replace(self, prompt: PromptT) -> bool:
        """Change its prompt. False: it doesn't wait (any longer), and keeps the one it has."""
        return self.driver.table.replace(self.run, prompt)


class BaseTicket(AboutARun[PromptT], Generic[PromptT, HandleT]):
    """A place in line for a prompt that is not ready to start. Closes itself as a context manager.

    It may be used from any thread. A ticket that is garbage collected while its run still waits for
    it is withdrawn, with a ResourceWarning.
    """

    __slots__ = ("__weakref__", "_owner", "handle", "run")

    def __init__(self, handle: HandleT, *, owner: bool) -> None:
        #: For whoever waits for the outcome.
        self.handle = handle
        self.run = handle.run
        #: False for a repeated accept: the run is not this ticket's to give back.
        self._owner = owner

    def ready(self) -> bool:
        """It is prepared: let it start when its turn comes. False: it is ready, or covered."""
        return self.handle.driver.ready(self.run)

    def close(self, failure: BaseException | None = None) -> bool:
        """Give the place back, if the run is not ready: it ends WITHDRAWN.

        With the exception that kept it from becoming ready, it ends FAILED, with that error.
        False: there was nothing to give back.

        Raises:
            InvalidOption: `failure` is no exception; nothing has changed.
        """
        if failure is not None and not isinstance(failure, BaseException):
            msg = f"failure is the exception that kept it from becoming ready, not {failure!r}"
            raise InvalidOption(
                msg, self.run.session_id, self.run_id, option="failure", value=failure
            )
        return self._owner and self.handle.driver.withdraw(self.run, failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        # Whoever was canceled while it prepared gave up; that is no failure of the preparation.
        self.close(error if isinstance(error, Exception) else None)

    def __del__(self) -> None:
        lost = self._owner and self.run.state is RunState.ACCEPTED
        if lost and self.handle.driver.shut is None:  # in a forked child it is the parent's
            self.handle.driver.forsaken(self.run)  # first: a warning may be an error
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.run!r}>"


_KINDS: Final[Mapping[Status, type[RunNotCompleted]]] = {
    Status.CANCELED: RunCanceled,
    Status.SUSPENDED: RunSuspended,
}


def value_of(run: DrivenRun[Any]) -> Any:
    """Give what the handler of an ended run returned.

    Raises:
        RunCanceled, RunSuspended: it has no value to give.
        Exception: what the handler, or the preparation, raised.
    """
    outcome = cast("Outcome[Any]", run.ended)
    if outcome.status is Status.COMPLETED:
        return outcome.result
    # Not so for a CancelledError or a KeyboardInterrupt: it would strike whoever waits.
    if outcome.status is Status.FAILED and isinstance(outcome.error, Exception):
        # As it was raised by the handler, without the frames of those who were told before.
        if run.rare.trace is None:
            run.own.trace = outcome.error.__traceback__
        raise outcome.error.with_traceback(run.rare.trace)
    raise not_completed(run) from outcome.error


def not_completed(run: Run[Any]) -> RunNotCompleted:
    """Make the error that says how an ended run came to have no value."""
    outcome = cast("Outcome[Any]", run.ended)
    reason = outcome.cause or repr(outcome.error)
    msg = f"run {run.run_id!r} of session {run.session_id!r} was {outcome.status}: {reason}"
    kind = _KINDS.get(outcome.status, RunNotCompleted)
    return kind(msg, run.session_id, run.run_id, outcome)


def taken(run: Run[Any]) -> DuplicateRun:
    """Make the error for a turn that somebody has taken before."""
    msg = f"run id {run.run_id!r} has been used; a turn can't be taken twice"
    return DuplicateRun(msg, run.session_id, run.run_id)
