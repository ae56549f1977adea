"""What sessionsched raises, in one tree.

SessionSchedError
├── Refused              at the door: nothing has changed
│   ├── InvalidSession     the session id is not a non-blank string
│   ├── InvalidOption      an option has a value that nobody knows
│   ├── SessionBusy        REJECT was asked for and something is in flight
│   ├── LineFull           `Limits.max_waiting` runs wait already
│   ├── DuplicateRun       the run id belongs to another prompt or session
│   └── SchedulerClosed    not open yet, closing, or closed
├── RunNotCompleted      how a run ended, for whoever waits for its value
│   ├── RunCanceled        somebody asked for it
│   └── RunSuspended       shutdown, or a task canceled from outside: worth resuming
├── WouldDeadlock        a programming error: who waits for itself waits for ever
├── WrongLoop            a programming error: awaited on another event loop
└── IllegalEvent         a programming error: ROWS has no row for it

Every error carries what it is about as attributes; the text is for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessionsched.model import Cause, Outcome

__all__ = [
    "DuplicateRun",
    "IllegalEvent",
    "InvalidOption",
    "InvalidSession",
    "LineFull",
    "Refused",
    "RunCanceled",
    "RunNotCompleted",
    "RunSuspended",
    "SchedulerClosed",
    "SessionBusy",
    "SessionSchedError",
    "WouldDeadlock",
    "WrongLoop",
]


class SessionSchedError(Exception):
    """The base of everything that this package raises on purpose."""

    def __init__(self, message: str, session_id: object = None, run_id: object = None) -> None:
        super().__init__(message)
        #: The session it is about: whatever the caller gave, so not always a string.
        self.session_id = session_id
        #: The run it is about, or None.
        self.run_id = run_id


class Refused(SessionSchedError):
    """The call was refused at the door: no seq was given, nothing has changed."""


class InvalidSession(Refused, ValueError):
    """The session id is not a non-blank string."""


class InvalidOption(Refused, ValueError):
    """An option has a value that it can't have."""

    def __init__(
        self,
        message: str,
        session_id: object = None,
        run_id: object = None,
        option: str = "",
        value: object = None,
    ) -> None:
        super().__init__(message, session_id, run_id)
        self.option = option
        self.value = value


class SessionBusy(Refused):
    """The prompt was sent with REJECT and the session has something in flight."""


class LineFull(Refused):
    """As many runs wait in this session as `Limits.max_waiting` allows."""


class DuplicateRun(Refused):
    """The run id is in use, or was recently, for another session or another prompt."""


class SchedulerClosed(Refused):
    """The scheduler is not open yet, closing or closed, and takes no prompts."""


class RunNotCompleted(SessionSchedError):
    """The run that was waited for has no value to give; `outcome` says how it ended."""

    def __init__(
        self,
        message: str,
        session_id: object = None,
        run_id: object = None,
        outcome: Outcome[Any] | None = None,
        cause: Cause | None = None,
    ) -> None:
        super().__init__(message, session_id, run_id)
        #: None inside of the run itself, which has not ended yet.
        self.outcome = outcome
        #: Why it did not complete; None when it failed by itself.
        self.cause = cause if outcome is None else outcome.cause


class RunCanceled(RunNotCompleted):
    """Somebody asked the scheduler to cancel the run."""


class RunSuspended(RunNotCompleted):
    """The scheduler shut down, or the run's task was canceled from outside."""


class WouldDeadlock(SessionSchedError, RuntimeError):
    """A run waits for something that can't happen before that very run is over."""


class WrongLoop(SessionSchedError, RuntimeError):
    """A scheduler belongs to one event loop; it is waited for there, and nowhere else."""


class IllegalEvent(SessionSchedError):
    """This can't happen to a session (or a run) in this state; it is as it was."""

    def __init__(
        self, state: str, event: str, session_id: object = None, run_id: object = None
    ) -> None:
        run = "" if run_id is None else f"run {run_id!r} of "
        text = f"{run}session {session_id!r} is {state!s}: {event!s} can't happen there"
        super().__init__(text, session_id, run_id)
        self.state = state
        self.event = event

    def __reduce__(self) -> tuple[Any, ...]:
        about = (self.state, self.event, self.session_id, self.run_id)
        return type(self), about, self.__dict__
