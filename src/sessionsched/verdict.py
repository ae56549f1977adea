"""The verdict: how a run ended, judged by what covered it and by how its handler was over.

Rule 1. What counts is our own cause, never what a task says of itself: handlers raise,
        swallow and wrap cancels as they like.
Rule 2. CANCELED means that somebody asked for it; a shutdown is never taken for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionsched.model import Cause, How, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COVERED", "STATUS_OF", "UNCOVERED", "beats", "verdict"]

#: What a covered run ends as.
STATUS_OF: Final[Mapping[Cause | None, Status]] = {
    Cause.INTERRUPT: Status.CANCELED,
    Cause.SUPERSEDED: Status.CANCELED,
    Cause.DEADLINE: Status.CANCELED,
    Cause.EXPIRED: Status.CANCELED,
    Cause.WITHDRAWN: Status.CANCELED,
    Cause.UNPREPARED: Status.FAILED,
    Cause.EXTERNAL: Status.SUSPENDED,
    Cause.SHUTDOWN: Status.SUSPENDED,
}

#: What a run that had not started when it was covered ends as, and why.
COVERED: Final[Mapping[Cause | None, tuple[Status, Cause | None]]] = {
    cause: (status, cause) for cause, status in STATUS_OF.items()
}

#: What a run that nothing covers ends as.
UNCOVERED: Final[Mapping[How, tuple[Status, Cause | None]]] = {
    How.RETURNED: (Status.COMPLETED, None),
    How.RAISED: (Status.FAILED, None),
    How.STOPPED: (Status.SUSPENDED, Cause.EXTERNAL),
    How.SKIPPED: (Status.SUSPENDED, Cause.EXTERNAL),
}

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_CAUSE_SHUTDOWN: Final = Cause.SHUTDOWN
_HOW_RETURNED: Final = How.RETURNED
_STATUS_COMPLETED: Final = Status.COMPLETED
_CAUSE_INTERRUPT: Final = Cause.INTERRUPT
_STATUS_CANCELED: Final = Status.CANCELED


def verdict(cause: Cause | None, how: How) -> tuple[Status, Cause | None]:
    """Judge a run whose handler is over, by what covered it and by how it was over.

    Nobody abandons a run that nothing covers: there is no verdict for that.
    """
    if cause is None:
        return UNCOVERED[how]
    if cause is _CAUSE_SHUTDOWN and how is _HOW_RETURNED:
        return _STATUS_COMPLETED, None  # it made it in time: nothing to resume
    return COVERED[cause]


def beats(new: Cause, old: Cause | None) -> bool:
    """Whether `new` replaces `old`: the first cause stands, but no INTERRUPT is ever lost."""
    if old is None:
        return True
    return new is _CAUSE_INTERRUPT and STATUS_OF[old] is not _STATUS_CANCELED
