"""What a submitter holds: a handle on its run, or a ticket while it still prepares it.

Rule 1. A handle does not own its run: losing it, or canceling who waits on it, changes nothing.
Rule 2. A ticket does: until it is ready, the run is its holder's, who gives it back by closing it.
"""

from __future__ import annotations

import warnings
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

HandleT = TypeVar("HandleT")


class _OfADriver(AboutARun[PromptT]):
    """What both have in common."""

    __slots__ = ()

    @property
    def _driver(self) -> Driver[PromptT]:
        return cast("DrivenRun[PromptT]", self.run).driver


class BaseHandle(_OfADriver[PromptT]):
    """A run, seen by whoever submitted it. Handles of the same run are equal."""

    __slots__ = ("run",)

    def __init__(self, run: Run[PromptT]) -> None:
        #: The run itself: prompt, times, cause.
        self.run = run

    @property
    def state(self) -> RunState:
        """Where the run is just now."""
        return self.run.state

    def cancel(self) -> CancelReceipt[PromptT]:
        """Cancel this run and the follow-ups that it took, and nothing else."""
        return self._driver.cancel_run(self.run)

    def promote(self) -> bool:
        """Move it to the front of its line. False: it doesn't wait (any longer)."""
        return self._driver.promote(self.run)

    def replace(self, prompt: PromptT) -> bool:
        """Change its prompt. False: it doesn't wait (any longer), and keeps the one it has."""
        return self._driver.table.replace(self.run, prompt)

    def __eq__(self, other: object) -> bool:
        return self.run is other.run if isinstance(other, BaseHandle) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.run)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.run!r}>"


class BaseTicket(_OfADriver[PromptT], Generic[PromptT, HandleT]):
    """A place in line for a prompt that is not ready to start. Closes itself as a context manager.

    It may be used from any thread. A ticket that is garbage collected while its run still waits for
    it is withdrawn, with a ResourceWarning.
    """

    __slots__ = ("__weakref__", "_owner", "handle", "run")

    def __init__(self, run: Run[PromptT], handle: HandleT, *, owner: bool) -> None:
        self.run = run
        #: For whoever waits for the outcome.
        self.handle = handle
        #: False for a repeated accept: the run is not this ticket's to give back.
        self._owner = owner

    def ready(self) -> bool:
        """It is prepared: let it start when its turn comes. False: it is ready, or covered."""
        return self._driver.ready(self.run)

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
        return self._owner and self._driver.withdraw(self.run, failure)

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
        if lost and self._driver.shut is None:  # in a forked child it is the parent's
            self._driver.forsaken(self.run)  # first: a warning may be an error
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
