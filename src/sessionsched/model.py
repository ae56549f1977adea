"""The words: what a run, an outcome and a receipt are. Nothing here decides anything.

Rule 1. Everybody may read these objects, from any thread. A run is written under its session's
        lock, and by the machine alone.
Rule 2. Enumerations are strings, so that they log, compare and serialise as themselves.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from attrs import define, field, frozen

from sessionsched.checks import at_least

if TYPE_CHECKING:
    from contextvars import Context
    from types import TracebackType

    from sessionsched.table import Record

__all__ = [
    "CancelReceipt",
    "Cause",
    "CloseReport",
    "Effect",
    "Event",
    "How",
    "Limits",
    "Outcome",
    "Run",
    "RunState",
    "Scope",
    "SessionState",
    "SessionView",
    "Snapshot",
    "Status",
    "WhenBusy",
]

PromptT = TypeVar("PromptT")
ResultT = TypeVar("ResultT")


class SessionState(enum.StrEnum):
    """Where a session is. Each state is a plain statement about the session."""

    IDLE = "idle"  #: nothing is in flight
    ACCEPTED = "accepted"  #: runs wait, none is active
    ACTIVE = "active"  #: one run is active, none waits
    QUEUED = "queued"  #: one run is active, others wait behind it
    CANCELED = "canceled"  #: a canceled run has not ended yet


class RunState(enum.StrEnum):
    """Where a run is. `LIFE` says how it gets from one to the next."""

    NEW = "new"  #: not accepted: no seq, known to nobody
    ACCEPTED = "accepted"  #: waits in line, its owner still prepares it
    QUEUED = "queued"  #: waits in line, ready
    ACTIVE = "active"  #: its handler runs (or unwinds, if it is covered)
    FOLDED = "folded"  #: joined the active run and shares its end
    ENDING = "ending"  #: covered while it waited; its drop is being recorded
    ENDED = "ended"  #: its one outcome is known


_ENDED: Final = RunState.ENDED  # on Python 3.11 a look into the class costs more than a call

#: How the id of a run begins that its caller has not named; its seq follows.
MADE_UP: Final = "run-"

#: The life of one run: (from, what happens, to). The explorer sees no other step.
LIFE: Final = (
    (RunState.NEW, "accept", RunState.ACCEPTED),
    (RunState.ACCEPTED, "ready", RunState.QUEUED),
    (RunState.ACCEPTED, "cancel", RunState.ENDING),
    (RunState.QUEUED, "start", RunState.ACTIVE),
    (RunState.QUEUED, "fold", RunState.FOLDED),
    (RunState.QUEUED, "cancel", RunState.ENDING),
    (RunState.ACTIVE, "finish", RunState.ENDED),
    (RunState.FOLDED, "finish", RunState.ENDED),
    (RunState.ENDING, "settle", RunState.ENDED),
)


class Event(enum.StrEnum):
    """What can happen to a session."""

    ACCEPT = "accept"  #: a run gets its seq and its place at the end of the line
    START = "start"  #: fired by the session itself, as soon as the first in line may go
    CANCEL = "cancel"  #: these runs are covered now
    FINISH = "finish"  #: the active run's handler is over
    SETTLE = "settle"  #: a run that was dropped while it waited has been recorded
    FOLD = "fold"  #: a waiting follow-up joins the active run at a step boundary


class Effect(enum.StrEnum):
    """What a session orders. ACCEPTED, QUEUED and FOLDED are only there to be announced."""

    ACCEPTED = "accepted"  #: it has a seq
    QUEUED = "queued"  #: it is ready and waits for its turn
    START = "start"  #: call the handler; report its end with `finish`
    FOLDED = "folded"  #: it joined the active run
    INTERRUPT = "interrupt"  #: stop the handler; its end is still to be reported
    DROP = "drop"  #: record that it never ran; report that with `settle`
    END = "end"  #: it has its outcome: tell whoever waits


class Status(enum.StrEnum):
    """How a run ended."""

    COMPLETED = "completed"  #: its handler returned
    FAILED = "failed"  #: its handler raised, or it could not be prepared
    CANCELED = "canceled"  #: somebody asked the scheduler to cancel it
    SUSPENDED = "suspended"  #: the shutdown, or somebody outside, stopped it


class Cause(enum.StrEnum):
    """Why a run was covered."""

    INTERRUPT = "interrupt"  #: a person said stop
    SUPERSEDED = "superseded"  #: a newer prompt took its place
    DEADLINE = "deadline"  #: it was active for too long
    EXPIRED = "expired"  #: it waited for too long
    WITHDRAWN = "withdrawn"  #: its owner gave it back before it was ready
    UNPREPARED = "unprepared"  #: its preparation failed or took too long
    EXTERNAL = "external"  #: its task was canceled behind the scheduler's back
    SHUTDOWN = "shutdown"  #: the scheduler closes


class How(enum.StrEnum):
    """How a handler was over: what a driver reports, before anybody judges it."""

    RETURNED = "returned"
    RAISED = "raised"
    STOPPED = "stopped"  #: its task was canceled, and not by the scheduler
    SKIPPED = "skipped"  #: stopped before its first step: it has seen nothing of the prompt
    ABANDONED = "abandoned"  #: it goes on, and nobody waits for it any longer


class WhenBusy(enum.StrEnum):
    """What a prompt does when its session has something in flight already."""

    QUEUE = "queue"  #: wait in line
    FOLD = "fold"  #: join the active run at its next step boundary, else own turn
    INTERRUPT = "interrupt"  #: cover everything before it and take over
    LATEST = "latest"  #: cover what waits, not what is active
    REJECT = "reject"  #: be refused with SessionBusy


class Scope(enum.StrEnum):
    """Which part of a session a cancel looks at."""

    ALL = "all"
    ACTIVE = "active"
    WAITING = "waiting"


@frozen
class Limits:
    """How much a scheduler takes on."""

    #: Runs that may wait in one session; one more is refused with LineFull.
    max_waiting: int = 100
    #: Runs that may be active at once over all sessions; None: no limit.
    max_active: int | None = None
    #: Ended runs with an id of the caller's own that a repeated submit still finds.
    remembered: int = 1000

    def __attrs_post_init__(self) -> None:
        at_least(1, "max_waiting", self.max_waiting)
        at_least(0, "remembered", self.remembered)
        if self.max_active is not None:
            at_least(1, "max_active", self.max_active)


# Not frozen: a frozen attrs object costs twice as much to make.
@define
class Outcome(Generic[ResultT]):
    """How a run ended: decided once, under the session's lock, and never changed."""

    status: Status
    #: Why it did not go its own way; None when it completed or failed by itself.
    cause: Cause | None
    #: What the handler returned, also when the run was canceled meanwhile.
    result: ResultT | None
    #: What the handler (or recording the drop) raised, also when it was canceled.
    error: BaseException | None
    accepted_at: float
    #: None if its prompt never reached a handler.
    started_at: float | None
    ended_at: float
    #: The run that took it as a follow-up, by id.
    folded_into: str | None = None
    #: The handler was still going when the scheduler stopped waiting for it.
    abandoned: bool = False

    @property
    def started(self) -> bool:
        """Whether its prompt ever reached a handler."""
        return self.started_at is not None


@define(eq=False, weakref_slot=False)
class _Rare(Generic[PromptT]):
    """What most runs never have. A run that has none of it shares PLAIN with all others."""

    #: It was moved to the front of the line on somebody's word.
    promoted: bool = False
    #: The run that took it as a follow-up, by id.
    folded_into: str | None = None
    #: Its handler was still going when it ended.
    abandoned: bool = False
    #: Follow-ups that joined it, in the order in which they did; () once it ended.
    folded: tuple[Run[PromptT], ...] = ()
    #: Why it never became ready, when its preparation failed.
    failure: BaseException | None = None
    #: For its driver: what was agreed for it, where that is unusual.
    terms: Any = None
    #: For its driver: where its error was raised, once somebody was told of it.
    trace: TracebackType | None = None


#: Nothing out of the ordinary. Never written to: `Run.own` gives a run something of its own.
PLAIN: Final[_Rare[Any]] = _Rare()


# Small, because hosts keep many in line: what few runs need is in `rare`. All that has a value from
# the beginning is an argument, though nobody passes it: so attrs sets it in half the time.
@define(eq=False, weakref_slot=False, repr=False)
class Run(Generic[PromptT]):
    """One prompt's life, from accept to outcome."""

    session_id: str
    #: Opaque to the scheduler. Fixed once the run has started.
    prompt: PromptT
    #: The caller's own name for it, who may submit it again: remembered for a while. Blank: none.
    name: str = field(default="", alias="run_id")
    when_busy: WhenBusy = WhenBusy.QUEUE
    #: For its driver: the submitter's context variables, and what `prepare` made of them: what the
    #: handler sees. None: there are none, or the run has ended.
    context: Context | None = None
    #: The accept sequence, and a fencing token for what the handler writes.
    #: 0 until accepted; then unique in the scheduler, and never changed.
    seq: int = 0
    #: Moves along LIFE, and not otherwise.
    state: RunState = RunState.NEW
    #: None while nothing covers the run; set at most twice (see `verdict.beats`).
    cause: Cause | None = None
    #: None until its prompt reached a handler, by its own start or by a fold.
    started_at: float | None = None

    #: The record that took it: set by accept, kept for good. If that is retired, it has ended.
    session: Record[PromptT] | None = None
    #: Neighbours in the one line it stands in; both None outside of any line.
    prev: Run[PromptT] | None = None
    next: Run[PromptT] | None = None
    #: The last effect that was performed for it: what observers have been told so far. None: its
    #: ACCEPTED is on its way. QUEUED, as from the beginning, also where nobody had to be told.
    seen: Effect | None = Effect.QUEUED
    #: PLAIN, or its own.
    rare: _Rare[PromptT] = PLAIN

    #: Not there until accepted; never changed.
    accepted_at: float = field(init=False)
    #: What `ended` is made of. Not there until `state` is ENDED; never changed.
    verdict: tuple[Status, Cause | None] = field(init=False)
    returned: Any = field(init=False)
    raised: BaseException | None = field(init=False)
    ended_at: float = field(init=False)

    @property
    def ended(self) -> Outcome[Any] | None:
        """How it ended; None until it has. Made anew for whoever asks, and always equal."""
        if self.state is not _ENDED:
            return None
        status, cause = self.verdict
        return Outcome(
            status, cause, self.returned, self.raised,
            self.accepted_at, self.started_at, self.ended_at,
            self.rare.folded_into, self.rare.abandoned,
        )  # fmt: skip

    def conclude(
        self,
        verdict: tuple[Status, Cause | None],
        result: object,
        error: BaseException | None,
        now: float,
    ) -> None:
        """Give it its one outcome. For the machine alone."""
        self.returned, self.raised, self.ended_at = result, error, now
        self.verdict = verdict
        self.state = _ENDED  # last: whoever sees it, sees the rest

    @property
    def run_id(self) -> str:
        """The caller's own name for it, or else one made from its seq; blank until accepted."""
        return self.name or (f"{MADE_UP}{self.seq}" if self.seq else "")

    @property
    def named(self) -> bool:
        """Whether its id was given by the caller."""
        return self.name != ""

    @property
    def promoted(self) -> bool:
        """Whether it was moved to the front of the line on somebody's word."""
        return self.rare.promoted

    @property
    def folded(self) -> tuple[Run[PromptT], ...]:
        """The follow-ups that joined it, in the order in which they did; () once it ended."""
        return self.rare.folded

    @property
    def folded_into(self) -> str | None:
        """The run that took it as a follow-up, by id."""
        return self.rare.folded_into

    @property
    def failure(self) -> BaseException | None:
        """Why it never became ready, when its preparation failed."""
        return self.rare.failure

    @property
    def own(self) -> _Rare[PromptT]:
        """What is rare about it, to be written to."""
        if self.rare is PLAIN:
            self.rare = _Rare()
        return self.rare

    def __repr__(self) -> str:
        covered = f", covered: {self.cause}" if self.cause else ""
        return f"<Run {self.run_id} of {self.session_id!r}: {self.state}{covered}>"

    @property
    def canceled(self) -> bool:
        """Whether it is covered: the handler should come to an end."""
        return self.cause is not None

    @property
    def waiting(self) -> bool:
        """Whether it is accepted and neither started nor covered."""
        return self.state is RunState.QUEUED or self.state is RunState.ACCEPTED

    @property
    def follows_up(self) -> bool:
        """Whether it would rather join the active run than have a turn of its own."""
        return self.when_busy is WhenBusy.FOLD

    def take_follow_ups(self) -> tuple[Run[PromptT], ...]:
        """Let the follow-ups that wait join this run, and give them, in accept order.

        For the handler to call at a step boundary: it answers for them from then on, and they end
        with this run. Empty when there are none, and when this run is covered.
        """
        raise NotImplementedError("a run without a scheduler: call Table.fold")

    def emit(self, item: object) -> bool:
        """Show a piece of progress to whoever subscribed. False: the run has ended."""
        raise NotImplementedError("a run without a scheduler has no subscribers")


@define
class CancelReceipt(Generic[PromptT]):
    """What one cancel did: final when the call returns. False if it covered nothing."""

    session_id: str
    #: The session's mark after this cancel; 0 when the session was idle.
    mark: int = 0
    #: The active run, if this cancel covered it.
    active: Run[PromptT] | None = None
    #: The follow-ups that the active run had taken: covered with it.
    folded: tuple[Run[PromptT], ...] = ()
    #: What had not started and never will, in line order, with its prompts.
    dropped: tuple[Run[PromptT], ...] = ()
    #: What is in flight and not covered, the active run first. A cancel of one
    #: run looks at nothing else and keeps this empty.
    kept: tuple[Run[PromptT], ...] = ()
    #: Whether the line stands still until it is resumed.
    held: bool = False

    @property
    def covered(self) -> tuple[Run[PromptT], ...]:
        """Everything that this cancel covered, in one tuple."""
        active = () if self.active is None else (self.active,)
        return active + self.folded + self.dropped

    def __bool__(self) -> bool:
        return self.active is not None or bool(self.dropped)


@frozen
class SessionView(Generic[PromptT]):
    """One session at one moment."""

    session_id: str
    state: SessionState = SessionState.IDLE
    mark: int = 0
    active: Run[PromptT] | None = None
    #: In the order in which they will start.
    waiting: tuple[Run[PromptT], ...] = ()
    #: Dropped, and not recorded yet.
    ending: tuple[Run[PromptT], ...] = ()
    held: bool = False

    @property
    def in_flight(self) -> tuple[Run[PromptT], ...]:
        """Everything that was accepted and has not ended."""
        active = () if self.active is None else (self.active, *self.active.folded)
        return (*active, *self.ending, *self.waiting)


@frozen
class Snapshot(Generic[PromptT]):
    """All sessions that have something in flight. Each is exact; together they are not
    one moment, because sessions don't wait for each other.
    """

    sessions: tuple[SessionView[PromptT], ...]
    closed: bool

    @property
    def active(self) -> int:
        """How many runs are active."""
        return sum(view.active is not None for view in self.sessions)

    @property
    def waiting(self) -> int:
        """How many runs wait."""
        return sum(len(view.waiting) for view in self.sessions)


@frozen
class CloseReport(Generic[PromptT]):
    """What a close left behind, for whoever resumes it."""

    #: What was suspended, with prompt and seq, in accept order.
    suspended: tuple[Run[PromptT], ...] = ()
    #: Abandoned runs whose handlers ignored every cancel, and go on.
    still_going: tuple[Run[PromptT], ...] = ()
