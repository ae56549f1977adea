"""Why a run waits: behind what, and since when. Looks, and never touches."""

from __future__ import annotations

import enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from sessionsched.model import RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionsched.machine import Session
    from sessionsched.model import Run

__all__ = ["Explanation", "Why", "explain"]


class Why(enum.StrEnum):
    """What a run is waiting for, or that it isn't."""

    UNKNOWN = "unknown"  #: no run with this id is in flight, or ended lately under a name
    NOT_READY = "not ready"  #: its owner still prepares it
    IN_LINE = "in line"  #: others of its session are before it
    TURN = "turn"  #: it is next; the active run goes on
    UNWINDING = "unwinding"  #: it is next; the handler of a canceled run has not stopped yet
    RECORDING = "recording"  #: it is next; the drop of a canceled run is being recorded
    HELD = "held"  #: it is next; the line is held until it is resumed
    SLOT = "slot"  #: it is next; as many runs are active as `Limits.max_active` allows
    ACTIVE = "active"  #: it doesn't wait: its handler runs
    FOLDED = "folded"  #: it doesn't wait: it is a part of the run that took it
    ENDING = "ending"  #: it was canceled while it waited, and that is being recorded
    ENDED = "ended"  #: it has its outcome


SAYS: Final[Mapping[Why, str]] = {
    Why.UNKNOWN: "no run with this id is in flight, or has ended lately",
    Why.NOT_READY: "its owner still prepares it",
    Why.IN_LINE: "it stands in line behind {behind}",
    Why.TURN: "it is next, and {behind} is active",
    Why.UNWINDING: "it is next, and {behind} was canceled but has not stopped yet",
    Why.RECORDING: "it is next, and that {behind} was dropped is being recorded",
    Why.HELD: "it is next, and the line is held until somebody resumes it",
    Why.SLOT: "it is next, and as many runs are active as there are slots",
    Why.ACTIVE: "its handler runs",
    Why.FOLDED: "it is a part of {behind}",
    Why.ENDING: "it was canceled while it waited, and that is being recorded",
    Why.ENDED: "it has ended",
}


@frozen
class Explanation:
    """Why a run has not ended, as data; `str()` says it in a sentence."""

    run_id: str
    why: Why
    session_id: str = ""
    #: Ids of the runs that must be over before it can go, nearest first.
    behind: tuple[str, ...] = ()
    #: When it was accepted, or started: on the scheduler's clock.
    since: float | None = None

    def __str__(self) -> str:
        near = ", ".join(self.behind[:3]) + (", ..." if len(self.behind) > 3 else "")  # noqa: PLR2004
        return f"run {self.run_id!r}: {SAYS[self.why].format(behind=near)}"


def explain(session: Session[Any], run: Run[Any]) -> Explanation:
    """Say what the run waits for. The caller holds the session's lock."""
    why, behind = _reason(session, run)
    since = run.accepted_at if run.started_at is None else run.started_at
    return Explanation(run.run_id, why, run.session_id, behind, since)


#: Where a run is and waits for nothing that stands in its own line.
_PLAIN: Final[Mapping[RunState, Why]] = {
    RunState.ACTIVE: Why.ACTIVE,
    RunState.ENDING: Why.ENDING,
    RunState.ENDED: Why.ENDED,
}


def _reason(session: Session[Any], run: Run[Any]) -> tuple[Why, tuple[str, ...]]:
    if run.state in _PLAIN:
        return _PLAIN[run.state], ()
    if run.state is RunState.FOLDED:
        return Why.FOLDED, (str(run.folded_into),)
    if run.state is RunState.ACCEPTED:
        return Why.NOT_READY, ()
    if run is not session.first:
        return Why.IN_LINE, _before(session, run)
    return _why_the_first_waits(session)


def _why_the_first_waits(session: Session[Any]) -> tuple[Why, tuple[str, ...]]:
    active = session.active
    if active is not None:
        return Why.UNWINDING if active.canceled else Why.TURN, (active.run_id,)
    if session.ending.length:
        return Why.RECORDING, tuple(it.run_id for it in session.ending)
    return Why.HELD if session.held else Why.SLOT, ()


def _before(session: Session[Any], run: Run[Any]) -> tuple[str, ...]:
    """Who stands before it, the nearest first, up to the active run."""
    ids = [] if session.active is None else [session.active.run_id]
    ids += [other.run_id for other in session.ending]
    ids += [other.run_id for other in takewhile(lambda other: other is not run, session)]
    return tuple(reversed(ids))
