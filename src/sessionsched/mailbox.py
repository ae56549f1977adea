"""A mailbox: what one subscriber has yet to read, and how it is put down until then.

Rule 1. It is written under the hub's lock, on the right, and read without it, on the left. There
        is one reader at a time.
Rule 2. What was put in is never changed, and may be in other mailboxes, too.
Rule 3. What piles up in front of readers who are too slow are fields of ends, and not events: these
        are built by whoever reads them. Else the garbage collector would walk them all again and
        again, and the tasks of the host with them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, cast

from sessionsched import checks
from sessionsched.events import Gap, RunEnded
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from sessionsched.events import RunEvent
    from sessionsched.hub import Audience
    from sessionsched.model import Run

__all__ = ["IN_ONE_PIECE", "Ends", "Mailbox", "Seen"]

Seen: TypeAlias = "RunEvent[PromptT] | Gap"

#: How long `Ends.noted` gets: a hundred ends. So few that what a reader has built and not read yet
#: gives the garbage collector nothing to do.
IN_ONE_PIECE: Final = 500


class Ends(Generic[PromptT]):
    """Ends one after another, and the gaps between them: the same for all who look at everything.

    It is written under the hub's lock while none of them has room; then it is sealed, and never
    written again. Until then nobody reads it.
    """

    __slots__ = ("first", "last", "noted")

    def __init__(self, last: int) -> None:
        #: The numbers of the last event before it, and of the last one that is in it.
        self.first = self.last = last
        #: For each end: how many are missing before it, and when the last of these was; its own
        #: number, time and run. One list for all, or the garbage collector would walk each.
        self.noted: list[Any] = []

    def build(self, put: Callable[[Seen[PromptT]], object]) -> None:
        """Build what is in it, for one reader. Once it is sealed."""
        fields = iter(self.noted)
        for missed, then, number, at, run in zip(*[fields] * 5, strict=True):
            if missed:
                put(Gap(number - 1, then, missed))
            put(RunEnded(number, at, run))


class Mailbox(Generic[PromptT]):
    """What one subscriber has yet to read: bounded, but for the ends.

    It is written under the hub's lock. Whoever reads needs that only where the mailbox was full or
    is empty. For the rest it pops from the left of a deque what the hub has added on the right:
    that is one step, on Pythons without a global lock too, and what is in is never changed. There
    is one reader at a time.
    """

    __slots__ = (
        "_buffer", "_put", "_read", "audience", "closed", "events", "full", "ready", "run_id",
        "session_id", "told", "waiting", "wake",
    )  # fmt: skip

    def __init__(self, session_id: str, run_id: str, buffer: int, wake: Callable[[], None]) -> None:
        #: Which events it is for; blank: all.
        self.session_id = session_id
        self.run_id = run_id
        #: Tells the reader, outside of any lock, that there is something to read.
        self.wake = wake
        #: Whether to do that. A reader that can tell lowers it while it does not wait.
        self.waiting = True
        #: Nothing will be put in any more; what is in may still be read.
        self.closed = False
        #: What to read before `events`: built, and taking no room. Only the reader touches it.
        self.ready: Final[deque[Seen[PromptT]]] = deque()
        #: What was put in and the reader has not come to: events, and Ends.
        self.events: Final[deque[Any]] = deque()
        #: How many events that take room may be unread. Ends, gaps and the first state take none.
        self._buffer = buffer
        #: How many of these were put in (only the hub writes it), and how many were read (only the
        #: reader does; below zero: so much of the first state is still to be read).
        self._put = self._read = 0
        #: The hub found no room, and has not noticed any since.
        self.full = False
        #: Through whom it hears of events; None: it doesn't, not yet or not any more.
        self.audience: Audience[PromptT] | None = None
        #: How much of what its audience was told has come in, be it in a gap. At most all of it;
        #: what is in Ends is added when they are sealed.
        self.told = 0

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

    @property
    def room(self) -> int:
        """How many more events fit in."""
        return self._buffer - self._put + max(self._read, 0)

    def wants(self, run: Run[Any]) -> bool:
        """Whether it is for events of this run."""
        return self.session_id in ("", run.session_id) and self.run_id in ("", run.run_id)

    def begin_with(self, news: Sequence[RunEvent[PromptT]]) -> None:
        """Let the reader see these first, whatever the bound. Once, before anything else is in."""
        ends = sum(type(event) is RunEnded for event in news)
        self._read = ends - len(news)
        if ends and self.run_id:
            self.closed = True  # the one run that it is for has ended
        self.events.extend(news)

    def put(self, event: RunEvent[PromptT]) -> None:
        """Put in one event. If that was the last that had room, it is full from here on."""
        self.events.append(event)
        self._put += 1
        if self._put - self._read >= self._buffer:  # then look more closely
            self.full = True  # from here on its reader says what it has read; or did it just now?
            self.full = self.room <= 0

    def take(self) -> Seen[PromptT] | None:
        """Give the oldest that was not read yet; None: there is nothing now. Not under the lock."""
        if self.ready:
            return self.ready.popleft()
        if not self.events:
            return self._take_gap()
        event = self.events.popleft()
        kind = type(event)
        if kind is Ends:
            return self._take_first_of(event)
        if kind is not RunEnded and kind is not Gap:
            self._read += 1
            if self.full:
                self._make_room()
        return cast("Seen[PromptT]", event)

    def _take_first_of(self, ends: Ends[PromptT]) -> Seen[PromptT]:
        audience = self.audience
        if audience is not None:
            with audience.hub.lock:
                audience.hub.seal(ends)
        ends.build(self.ready.append)
        return self.ready.popleft()

    def _make_room(self) -> None:
        """Something that took room was read, or looks as if it had."""
        audience = self.audience
        if audience is not None:
            with audience.hub.lock:
                if self.full and self.room > 0:
                    audience.hub.let_in(self)

    def _take_gap(self) -> Seen[PromptT] | None:
        """Everything was read: give what was missed after that."""
        audience = self.audience
        if audience is None:
            return None
        with audience.hub.lock:
            audience.hub.bring_up(self)
        return self.take() if self.events else None

    @property
    def unread(self) -> bool:
        """Whether there is anything to take. Not under the lock."""
        audience = self.audience
        if not (self.ready or self.events) and audience is not None:
            with audience.hub.lock:
                audience.hub.bring_up(self)
        return bool(self.ready or self.events)
