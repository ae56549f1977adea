"""Events: what observers see of a run's life, and the hub that delivers it.

Rule 1. Events of one session reach a subscriber in the order in which they happened, with numbers
        that only rise.
Rule 2. RunEnded is never dropped. A reader who is too slow loses others, and finds a Gap that says
        how many where they would have been.
Rule 3. Nobody waits for a reader: putting an event into a mailbox takes no time and can't fail.
Rule 4. No event is built that nobody will read.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Generic

from attrs import define

from sessionsched import checks
from sessionsched.about import AboutARun
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from sessionsched.model import Cause, Outcome, Run
    from sessionsched.outbox import Outbox

__all__ = [
    "Gap",
    "Hub",
    "Mailbox",
    "RunAccepted",
    "RunCanceling",
    "RunEnded",
    "RunEvent",
    "RunFolded",
    "RunProgress",
    "RunQueued",
    "RunStarted",
    "RunStuck",
]


# Not frozen, and with the run instead of its fields: these are made several times per run.
@define(eq=False)
class RunEvent(AboutARun[PromptT]):
    """Something happened to a run: the base of all events but Gap."""

    #: Rises from event to event, over all sessions of the scheduler.
    number: int
    #: When, on the scheduler's clock.
    at: float
    run: Run[PromptT]


@define(eq=False)
class RunAccepted(RunEvent[PromptT]):
    """It has a seq and its place in line."""


@define(eq=False)
class RunQueued(RunEvent[PromptT]):
    """It is ready, and waits for its turn."""


@define(eq=False)
class RunStarted(RunEvent[PromptT]):
    """Its turn has come: the handler is called."""


@define(eq=False)
class RunFolded(RunEvent[PromptT]):
    """It joined the active run as a follow-up, and will end with it."""

    @property
    def into(self) -> str:
        """The run that took it, by id."""
        return str(self.run.folded_into)


@define(eq=False)
class RunProgress(RunEvent[PromptT]):
    """The handler showed something (`run.emit`)."""

    item: object


@define(eq=False)
class RunCanceling(RunEvent[PromptT]):
    """It is covered: it will stop, or never start."""

    cause: Cause


@define(eq=False)
class RunStuck(RunEvent[PromptT]):
    """It was told to stop, and has not: it is told again."""

    #: How often it has been told by now.
    told: int


@define(eq=False)
class RunEnded(RunEvent[PromptT]):
    """It has its one outcome."""

    outcome: Outcome[Any]


@define(eq=False)
class Gap:
    """The reader was too slow: so many events are missing here, none of them a RunEnded."""

    #: Number and time of the last one that is missing.
    number: int
    at: float
    missed: int
    #: What the subscription is for; blank when it is for everything.
    session_id: str = ""
    run_id: str = ""
    seq: int = 0


class Mailbox(Generic[PromptT]):
    """What one subscriber has yet to read: bounded, but for the ends. The hub's lock guards it."""

    def __init__(self, session_id: str, run_id: str, buffer: int, wake: Callable[[], None]) -> None:
        #: Which events it is for; blank: all.
        self.session_id = session_id
        self.run_id = run_id
        #: Tells the reader, outside of any lock, that there is something to read.
        self.wake = wake
        #: Nothing will be put in any more; what is in may still be read.
        self.closed = False
        #: How many more events fit in. Ends, gaps and the first state take no room.
        self._room = buffer
        self._events: deque[RunEvent[PromptT] | Gap] = deque()
        #: How things stood at first; read before anything else.
        self._first: deque[RunEvent[PromptT]] = deque()

    @classmethod
    def checked(
        cls, session_id: str | None, run_id: str | None, buffer: int, wake: Callable[[], None]
    ) -> Self:
        """Make one for whoever subscribes.

        Raises:
            InvalidSession, InvalidOption: that can't be watched.
        """
        if session_id is not None:
            checks.session_name(session_id)
        if run_id is not None:
            checks.run_name(run_id, session_id)
        checks.at_least(1, "buffer", buffer)
        return cls(session_id or "", run_id or "", buffer, wake)

    def wants(self, run: Run[Any]) -> bool:
        """Whether it is for events of this run."""
        return self.session_id in ("", run.session_id) and self.run_id in ("", run.run_id)

    def begin_with(self, event: RunEvent[PromptT]) -> None:
        """Let the reader see this first, whatever the bound."""
        self._first.append(event)
        self._close_after(event)

    def put(self, event: RunEvent[PromptT]) -> None:
        """Add an event, or count it as missed."""
        if isinstance(event, RunEnded):
            self._events.append(event)
            self._close_after(event)
        elif self._room:
            self._room -= 1
            self._events.append(event)
        elif isinstance(gap := self._events[-1], Gap):
            gap.number, gap.at, gap.missed = event.number, event.at, gap.missed + 1
        else:
            self._events.append(Gap(event.number, event.at, 1, self.session_id, self.run_id))

    def take(self) -> RunEvent[PromptT] | Gap | None:
        """Give the oldest that was not read yet; None: there is nothing now."""
        if self._first:
            return self._first.popleft()
        if not self._events:
            return None
        event = self._events.popleft()
        if not isinstance(event, RunEnded | Gap):
            self._room += 1
        return event

    @property
    def unread(self) -> int:
        """How many there are to take."""
        return len(self._first) + len(self._events)

    def _close_after(self, event: RunEvent[PromptT]) -> None:
        """A mailbox for one run has all there is to come, once that has ended."""
        if self.run_id and isinstance(event, RunEnded):
            self.closed = True


class Hub(Generic[PromptT]):
    """Delivers events to whoever subscribed. May be called from any thread."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        outbox.loud = False
        #: Whether there is any subscriber at all: look here before calling `publish`.
        self.listening = False
        #: Guards everything below and what is in the mailboxes. A leaf: nothing is called under it.
        self.lock = threading.Lock()
        #: Nothing will happen any more.
        self._closed = False
        self._number = 0
        #: Subscribers by the one thing they look at: a run's id, a session's id, or everything.
        self._boxes: dict[tuple[str, str], list[Mailbox[PromptT]]] = {}
        #: Those, and the ones that will be: as long as there are any, the outbox is loud.
        self._expected: set[Mailbox[PromptT]] = set()

    def expect(self, box: Mailbox[PromptT]) -> None:
        """Have everything announced from here on; the mailbox will join when its turn comes."""
        with self.lock:
            self._expected.add(box)
            self._outbox.loud = True

    def publish(self, kind: Callable[..., RunEvent[PromptT]], run: Run[PromptT], at: float,
                *more: object) -> None:  # fmt: skip
        """Deliver one event to everybody who wants it."""
        with self.lock:
            boxes = list(self._that_want(run))
            if not boxes:
                return
            self._number += 1
            event = kind(self._number, at, run, *more)
            for box in boxes:
                box.put(event)
        for box in boxes:
            box.wake()

    def join(
        self,
        box: Mailbox[PromptT],
        news: Iterable[tuple[Callable[..., RunEvent[PromptT]], Run[PromptT], float, Any]],
    ) -> None:
        """Deliver to this mailbox from here on, beginning with news as (kind, run, at, more)."""
        with self.lock:
            for kind, run, at, more in news:
                self._number += 1
                box.begin_with(kind(self._number, at, run, *more))
            box.closed = box.closed or self._closed
            self._boxes.setdefault(_key(box), []).append(box)
            self.listening = True
        box.wake()

    def leave(self, box: Mailbox[PromptT]) -> None:
        """Deliver to it no more."""
        with self.lock:
            box.closed = True
            boxes = self._boxes.get(_key(box), [])
            if box in boxes:
                boxes.remove(box)
            if not boxes:
                self._boxes.pop(_key(box), None)
            self.listening = bool(self._boxes)
            self._expected.discard(box)
            self._outbox.loud = bool(self._expected)

    def close(self) -> None:
        """Nothing will happen any more: readers end once they have read what there is."""
        with self.lock:
            self._closed = True
            boxes = [box for boxes in self._boxes.values() for box in boxes]
        for box in boxes:
            self.leave(box)
            box.wake()

    def _that_want(self, run: Run[PromptT]) -> Iterator[Mailbox[PromptT]]:
        for key in (("", ""), (run.session_id, ""), ("", run.run_id)):
            for box in self._boxes.get(key, ()):
                if box.wants(run) and not box.closed:
                    yield box


def _key(box: Mailbox[Any]) -> tuple[str, str]:
    """Where the hub files it: under its run, else under its session, else under everything."""
    return ("", box.run_id) if box.run_id else (box.session_id, "")
