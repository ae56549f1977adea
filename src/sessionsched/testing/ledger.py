"""The ledger: who asked for what, and what became of it. `judge.py` judges it.

Rule 1. It believes nobody's states: only what callers were answered, what handlers and hooks went
        through, and what one subscriber was told.
Rule 2. Everything carries a tick of one counter. Of two calls from different threads one came
        first only if it was over when the other began.
Rule 3. Writing down takes no lock and can't fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from attrs import Factory, define, frozen

from sessionsched.events import RunAccepted, RunEnded
from sessionsched.model import Cause, Scope, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionsched.events import RunEvent
    from sessionsched.model import CancelReceipt, Outcome, Run

__all__ = ["Cancel", "Ledger", "Life", "Visit"]


@define
class Visit:
    """One call of a handler or a hook: from when to when, and how it was over."""

    began: int
    #: 0 while it is inside.
    ended: int = 0
    result: object = None
    error: BaseException | None = None
    #: Its task was being canceled when it left.
    canceled: bool = False
    #: The task that it is in; None when it has left.
    task: asyncio.Task[Any] | None = None


@define(eq=False)
class Life:
    """What is known of one prompt."""

    number: int
    session_id: str
    when_busy: WhenBusy
    #: When somebody began to submit it, and when it was surely accepted; 0: not known to be.
    began: int
    accepted: int = 0
    #: There is an error that says that it was not accepted.
    refused: bool = False
    #: What else than a cancel may cover it: a deadline, its owner, somebody outside.
    reasons: set[Cause] = Factory(set)
    #: Seconds that it may wait, and be active.
    wait_s: float | None = None
    deadline_s: float | None = None
    #: Somebody asked to have it moved to the front.
    promoted: bool = False
    handled: list[Visit] = Factory(list)
    dropped: list[Visit] = Factory(list)
    prepared: list[Visit] = Factory(list)
    #: Whoever took it as a follow-up.
    takers: list[Life] = Factory(list)
    told: list[RunEvent[Any]] = Factory(list)
    #: When its end was told, and as what; 0 and None: not yet.
    ended: int = 0
    outcome: Outcome[Any] | None = None

    def __str__(self) -> str:
        return f"prompt {self.number} of {self.session_id!r}"

    @property
    def at_work(self) -> bool:
        """Whether a handler or a hook is busy with it just now."""
        return any(not it.ended for it in (*self.handled, *self.dropped, *self.prepared))

    @property
    def whole(self) -> Life:
        """Itself, or the run that it became a part of."""
        return self.takers[0] if self.takers else self

    @property
    def seq(self) -> int:
        """Its accept sequence; 0 before anything was told of it."""
        return self.told[0].run.seq if self.told else 0

    def count(self, kind: type[RunEvent[Any]]) -> int:
        """How often such an event was told."""
        return sum(isinstance(event, kind) for event in self.told)


@frozen
class Cancel:
    """One cancel, and what it covered by its own receipts."""

    began: int
    returned: int
    covered: frozenset[int]
    #: Blank: all sessions.
    session_id: str = ""
    scope: Scope = Scope.ALL
    up_to: int | None = None
    #: The one prompt that it was for.
    number: int | None = None

    def means(self, life: Life) -> bool:
        """Whether it surely covers this one, if that is in flight."""
        if self.number is not None:
            return self.number == life.number and not life.takers
        below = self.up_to is None or (life.seq <= self.up_to and not life.takers)
        return self.scope is Scope.ALL and below and self.session_id in ("", life.session_id)


class Ledger:
    """What happened around one scheduler, from its first prompt to its close."""

    def __init__(self, *, one_thread: bool, records_drops: bool = True) -> None:
        #: All calls come from the loop's thread: an end is decided and told in one step.
        self.one_thread = one_thread
        #: The scheduler has an `on_dropped`.
        self.records_drops = records_drops
        self.tick: Final = itertools.count(1).__next__
        self.lives: dict[int, Life] = {}
        self.cancels: list[Cancel] = []
        self.events: list[RunEvent[Any]] = []
        #: When somebody began to close; 0: nobody did.
        self.closing = 0
        #: What somebody saw at once.
        self.complaints: list[str] = []

    @property
    def taken_in(self) -> list[Life]:
        """Everything that was accepted."""
        return [life for life in self.all_lives() if life.accepted]

    def all_lives(self) -> list[Life]:
        """Everything that was asked for: a copy, since threads may still add to it."""
        return list(self.lives.values())

    def of(self, run: Run[Any]) -> Life:
        """Find what is known of a run."""
        return self.lives[run.prompt.number]

    def asked(self, session_id: str, number: int, options: dict[str, Any]) -> Life:
        """Somebody is about to submit a prompt."""
        life = Life(number, session_id, options.get("when_busy", WhenBusy.QUEUE), self.tick())
        life.deadline_s, life.wait_s = options.get("deadline"), options.get("wait_at_most")
        life.reasons |= set() if life.deadline_s is None else {Cause.DEADLINE}
        life.reasons |= set() if life.wait_s is None else {Cause.EXPIRED}
        self.lives[number] = life
        return life

    def accepted(self, life: Life) -> None:
        """It was taken in."""
        life.accepted = life.accepted or self.tick()

    def canceled(
        self, began: int, receipts: Iterable[CancelReceipt[Any]], number: int | None = None,
        session_id: str = "", scope: Scope = Scope.ALL, up_to: int | None = None,
    ) -> None:  # fmt: skip
        """A cancel has returned."""
        covered = frozenset(run.prompt.number for it in receipts for run in it.covered)
        cancel = Cancel(began, self.tick(), covered, session_id, scope, up_to, number)
        self.cancels.append(cancel)

    @contextlib.contextmanager
    def visit(self, visits: list[Visit]) -> Iterator[Visit]:
        """Be inside a handler or a hook."""
        task = asyncio.current_task()
        visit = Visit(self.tick(), task=task)
        visits.append(visit)
        try:
            yield visit
        except BaseException as error:
            visit.error = error
            raise
        finally:
            visit.canceled = task is not None and task.cancelling() > 0
            visit.ended, visit.task = self.tick(), None

    def told(self, event: RunEvent[Any]) -> None:
        """The subscriber was told something."""
        life = self.of(event.run)
        self.events.append(event)
        life.told.append(event)
        if isinstance(event, RunAccepted):
            self.accepted(life)
        if isinstance(event, RunEnded):
            life.ended, life.outcome = self.tick(), event.outcome
