"""The hub: delivers events to whoever subscribed.

Rule 1. Events of one session reach a subscriber in the order in which they happened, with numbers
        that only rise.
Rule 2. RunEnded is never dropped. A reader who is too slow loses others, and finds a Gap that says
        how many where they would have been.
Rule 3. Nobody waits for a reader: putting an event into a mailbox takes no time and can't fail.
Rule 4. No event is built that nobody will read.
Rule 5. An end is built by whoever reads it, and so is a gap.

Rule 5 is for the sake of the garbage collector. Ends and gaps are what piles up in front of a slow
reader, one or two for every run; as objects in the mailbox they made a watched run a fifth slower.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from sessionsched import checks
from sessionsched.events import Gap, RunEnded
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from sessionsched.events import RunEvent
    from sessionsched.model import Run
    from sessionsched.outbox import Outbox

__all__ = ["Audience", "Hub", "Mailbox"]


class Mailbox(Generic[PromptT]):
    """What one subscriber has yet to read: bounded, but for the ends.

    It is written under the hub's lock. Whoever reads needs that only to make room and to notice a
    gap. For the rest it pops from the left of a deque what the hub has added on the right: each is
    one step, on Pythons without a global lock too, and what is in is never changed. But one end is
    several pops, so there must be one reader at a time.
    """

    __slots__ = (
        "_first", "audience", "closed", "events", "room", "run_id", "session_id", "told",
        "waiting", "wake",
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
        #: What was not read yet. A number stands for an end: its time and run follow. A negative
        #: one stands for a gap of that many: number and time of the last of them follow.
        self.events: Final[deque[Any]] = deque()
        #: How many more events fit in. Ends, gaps and the first state take no room.
        self.room = buffer
        #: How many of those that are in `events` and take room were how things stood at first.
        self._first = 0
        #: Through whom it hears of events; None: it doesn't, not yet or not any more.
        self.audience: Audience[PromptT] | None = None
        #: How much of what its audience was told has come in, be it in a gap. At most all of it.
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

    def wants(self, run: Run[Any]) -> bool:
        """Whether it is for events of this run."""
        return self.session_id in ("", run.session_id) and self.run_id in ("", run.run_id)

    def begin_with(self, events: list[RunEvent[PromptT]]) -> None:
        """Let the reader see these first, whatever the bound. Once, before anything else is in."""
        self._first = sum(event.takes_room for event in events)  # before any of them can be read
        self.events.extend(events)
        if self.run_id and self._first < len(events):
            self.closed = True  # the one run that it is for has ended

    def take(self) -> RunEvent[PromptT] | Gap | None:
        """Give the oldest that was not read yet; None: there is nothing now. Not under the lock."""
        events = self.events
        try:
            item = events.popleft()
        except IndexError:
            return self._take_gap()
        if type(item) is int:
            if item > 0:
                return RunEnded(item, events.popleft(), events.popleft())
            return Gap(events.popleft(), events.popleft(), -item, self.session_id, self.run_id)
        if item.takes_room:
            self._make_room()
        return cast("RunEvent[PromptT]", item)

    def _make_room(self) -> None:
        """Something that took room was read, or looks as if it had."""
        if self._first:
            self._first -= 1
        elif (audience := self.audience) is not None:
            with audience.hub.lock:
                self.room += 1
                if self.room == 1 and self.audience is not None:
                    audience.open += (self,)

    def _take_gap(self) -> RunEvent[PromptT] | Gap | None:
        """Everything was read: give what was missed after that."""
        audience = self.audience
        if audience is None or self.told == audience.last[0]:
            return None
        with audience.hub.lock:
            self.notice_gap()
        return self.take()

    def notice_gap(self) -> None:
        """Let what was missed so far be read of."""
        if self.audience is not None:
            told, number, at = self.audience.last
            if self.told != told:
                self.events.extend((self.told - told, number, at))
                self.told = told

    @property
    def unread(self) -> bool:
        """Whether there is anything to take."""
        audience = self.audience
        return bool(self.events) or (audience is not None and self.told != audience.last[0])


class Audience(Generic[PromptT]):
    """The mailboxes that are for the same: everything, one session, or one run.

    What none of them has room for is counted here, once for all of them: what lies between that
    count and a mailbox's own is the gap that its reader will find. The hub's lock guards it.
    """

    __slots__ = ("boxes", "hub", "key", "last", "open")

    def __init__(self, hub: Hub[PromptT], key: tuple[str, str]) -> None:
        self.hub = hub
        #: The session and the run that they are for; blank: all.
        self.key = key
        #: All of them, and those that have room. Each tuple is replaced, never changed.
        self.boxes: tuple[Mailbox[PromptT], ...] = ()
        self.open: tuple[Mailbox[PromptT], ...] = ()
        #: How many events there were, and the number and the time of the last one. One tuple:
        #: whoever looks while another thread publishes finds three that belong together.
        self.last = (0, 0, 0.0)

    def add(self, box: Mailbox[PromptT]) -> None:
        """Let it hear what comes from here on."""
        box.audience, box.told = self, self.last[0]
        self.boxes += (box,)
        self.open += (box,)

    def remove(self, box: Mailbox[PromptT]) -> None:
        """Let it hear no more. What it has missed until now it may still read of."""
        box.notice_gap()
        box.audience = None
        self.boxes = tuple(it for it in self.boxes if it is not box)
        self.open = tuple(it for it in self.open if it is not box)

    def miss(self, number: int, at: float) -> None:
        """Count an event that nobody has room for."""
        self.last = (self.last[0] + 1, number, at)

    def tell(self, event: RunEvent[PromptT]) -> None:
        """Put an event in wherever there is room; the others miss it."""
        told, number, at = self.last
        self.miss(event.number, event.at)
        for box in self.open:
            if box.told != told:
                box.events.extend((box.told - told, number, at))
            box.events.append(event)
            box.told = told + 1
            box.room -= 1
            if not box.room:
                self.open = tuple(it for it in self.open if it.room)

    def end(self, number: int, at: float, run: Run[PromptT]) -> None:
        """Put an end in, whether there is room or not."""
        told, before, then = self.last
        self.last = (told + 1, number, at)
        for box in self.boxes:
            if box.told == told:
                box.events.extend((number, at, run))
            else:  # in one step, for this is what happens most to a reader who is too slow
                box.events.extend((box.told - told, before, then, number, at, run))
            box.told = told + 1


class Hub(Generic[PromptT]):
    """Delivers events to whoever subscribed. May be called from any thread.

    `publish` and `join` are called by one thread at a time all the same: by whoever performs what
    is in the outbox.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        outbox.loud = False
        #: Whether there is any subscriber at all: look here before calling `publish`.
        self.listening = False
        #: Guards everything below, audiences and mailboxes. A leaf: nothing is called under it.
        self.lock = threading.Lock()
        #: Nothing will happen any more.
        self._closed = False
        self._number = 0
        #: Those who look at everything. It may be empty.
        self._everybody: Final[Audience[PromptT]] = Audience(self, _EVERYTHING)
        #: Audiences that have a mailbox, by session and run.
        self._boxes: dict[tuple[str, str], Audience[PromptT]] = {}
        #: Whether any of these looks at less than everything.
        self._choosy = False
        #: Mailboxes that have joined or will, and have not left: while there are any, the outbox is
        #: loud.
        self._expected: set[Mailbox[PromptT]] = set()

    def expect(self, box: Mailbox[PromptT]) -> None:
        """Have everything announced from here on; the mailbox will join when its turn comes."""
        with self.lock:
            self._expected.add(box)
            self._outbox.loud = True

    def publish(self, kind: Callable[..., RunEvent[PromptT]], run: Run[PromptT], at: float,
                *more: object) -> None:  # fmt: skip
        """Deliver one event to everybody who wants it."""
        everybody = self._everybody
        if self._choosy:
            with self.lock:
                boxes = self._deliver(kind, run, at, more)
        elif kind is RunEnded:
            with self.lock:
                self._number = number = self._number + 1
                boxes = everybody.boxes
                everybody.end(number, at, run)
        elif everybody.open:
            with self.lock:
                self._number = number = self._number + 1
                boxes = everybody.open
                everybody.tell(kind(number, at, run, *more))
        else:
            # All that listen are too slow. This needs no lock: nobody else writes these two now,
            # and `last` is written in one step. Who makes room meanwhile did so after this event,
            # but may have looked for a gap before it: so look again for whom to wake.
            self._number = number = self._number + 1
            everybody.miss(number, at)
            boxes = everybody.open
        for box in boxes:
            if box.waiting:
                box.wake()

    def _deliver(
        self,
        kind: Callable[..., RunEvent[PromptT]],
        run: Run[PromptT],
        at: float,
        more: tuple[object, ...],
    ) -> tuple[Mailbox[PromptT], ...]:
        """The same for several audiences. Gives the mailboxes that have something new."""
        audiences = self._of(run)
        if not audiences:
            return ()
        self._number = number = self._number + 1
        if kind is RunEnded:
            boxes = tuple(box for audience in audiences for box in audience.boxes)
            for audience in audiences:
                audience.end(number, at, run)
            for box in boxes:
                if box.run_id:
                    self._remove(box)  # it has all there is to come
            return boxes
        boxes = tuple(box for audience in audiences for box in audience.open)
        event = kind(number, at, run, *more) if boxes else None
        for audience in audiences:
            if event is None:
                audience.miss(number, at)
            else:
                audience.tell(event)
        return boxes

    def _of(self, run: Run[PromptT]) -> tuple[Audience[PromptT], ...]:
        """Give the audiences that want events of this run."""
        session_id, run_id = run.session_id, run.run_id
        keys = (_EVERYTHING, (session_id, ""), ("", run_id), (session_id, run_id))
        return tuple(self._boxes[key] for key in keys if key in self._boxes)

    def join(
        self,
        box: Mailbox[PromptT],
        news: Iterable[tuple[Callable[..., RunEvent[PromptT]], Run[PromptT], float, Any]],
    ) -> None:
        """Deliver to this mailbox from here on, beginning with news as (kind, run, at, more)."""
        with self.lock:
            events = []
            for kind, run, at, more in news:
                self._number += 1
                events.append(kind(self._number, at, run, *more))
            box.begin_with(events)
            box.closed = box.closed or self._closed
            if not box.closed:
                self._add(box)
        box.wake()

    def leave(self, box: Mailbox[PromptT]) -> None:
        """Deliver to it no more."""
        with self.lock:
            self._remove(box)
            self._expected.discard(box)
            self._outbox.loud = bool(self._expected)

    def close(self) -> None:
        """Nothing will happen any more: readers end once they have read what there is."""
        with self.lock:
            self._closed = True
            boxes = [box for audience in self._boxes.values() for box in audience.boxes]
        for box in boxes:
            self.leave(box)
            box.wake()

    def _add(self, box: Mailbox[PromptT]) -> None:
        key = (box.session_id, box.run_id)
        audience = self._everybody if key == _EVERYTHING else Audience(self, key)
        self._boxes.setdefault(key, audience).add(box)
        self._count()

    def _remove(self, box: Mailbox[PromptT]) -> None:
        box.closed = True
        audience = box.audience
        if audience is not None:
            audience.remove(box)
            if not audience.boxes:
                self._boxes.pop(audience.key, None)
            self._count()

    def _count(self) -> None:
        self.listening = bool(self._boxes)
        self._choosy = len(self._boxes) > (_EVERYTHING in self._boxes)


#: What a mailbox is filed under that is for all sessions and all runs.
_EVERYTHING: Final = ("", "")
