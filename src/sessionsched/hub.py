"""The hub: delivers events to whoever subscribed.

Rule 1. Events of one session reach a subscriber in the order in which they happened, with numbers
        that only rise.
Rule 2. RunEnded is never dropped. A reader who is too slow loses others, and finds a Gap that says
        how many where they would have been.
Rule 3. Nobody waits for a reader: putting an event into a mailbox takes no time and can't fail.
Rule 4. An event is built once, for all who have room. While nobody has, it is counted and no more,
        and an end is written down once for all readers.

Rule 4 makes a run that nobody can keep up with cost little more than one that nobody watches: what
happens to it is one step of one counter, from which the numbers of events come, too.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Generic

from sessionsched.events import Gap, RunEnded
from sessionsched.mailbox import IN_ONE_PIECE, Ends, Mailbox
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sessionsched.events import RunEvent
    from sessionsched.model import Run
    from sessionsched.outbox import Outbox

__all__ = ["Audience", "Ends", "Hub", "Mailbox"]


class Audience(Generic[PromptT]):
    """The mailboxes that are for the same: everything, one session, or one run.

    What none of them has room for is counted here, once for all of them: what lies between that
    count and a mailbox's own is the gap that its reader will find. The hub's lock guards it.
    """

    __slots__ = ("at", "boxes", "hub", "key", "number", "open", "told")

    def __init__(self, hub: Hub[PromptT], key: tuple[str, str]) -> None:
        self.hub = hub
        #: The session and the run that they are for; blank: all.
        self.key = key
        #: All of them, and those that have room. Each tuple is replaced, never changed.
        self.boxes: tuple[Mailbox[PromptT], ...] = ()
        self.open: tuple[Mailbox[PromptT], ...] = ()
        #: How many events there were, and the number and the time of the last one.
        self.told = 0
        self.number = 0
        self.at = 0.0

    def add(self, box: Mailbox[PromptT]) -> None:
        """Let it hear what comes from here on."""
        box.audience, box.told = self, self.told
        self.boxes += (box,)
        self.open += (box,)

    def remove(self, box: Mailbox[PromptT]) -> None:
        """Let it hear no more."""
        box.audience = None
        self.boxes = tuple(it for it in self.boxes if it is not box)
        self.open = tuple(it for it in self.open if it is not box)

    def miss(self, number: int, at: float, count: int = 1) -> None:
        """Count events that nobody has room for, up to that number."""
        self.told += count
        self.number = number
        self.at = at

    def tell(self, event: RunEvent[PromptT]) -> None:
        """Put an event in wherever there is room; the others miss it."""
        told = self.told
        for box in self.open:
            if box.told != told:
                self.note_gap(box)
            box.put(event)
            box.told = told + 1
            if box.full:
                self.open = tuple(it for it in self.open if not it.full)
        self.miss(event.number, event.at)

    def end(self, event: RunEnded[PromptT]) -> None:
        """Put an end in, whether there is room or not."""
        told = self.told
        for box in self.boxes:
            if box.told != told:
                self.note_gap(box)
            box.events.append(event)
            box.told = told + 1
        self.miss(event.number, event.at)

    def note_gap(self, box: Mailbox[PromptT]) -> None:
        """Let what it has missed so far be read of."""
        if box.told != self.told:
            box.events.append(Gap(self.number, self.at, self.told - box.told, *self.key))
            box.told = self.told


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
        #: Nobody has room: of what happens, all but the ends is missed by whoever listens.
        self.deaf = False
        #: Guards everything below, audiences and mailboxes. A leaf: nothing is called under it.
        self.lock = threading.Lock()
        #: Nothing will happen any more.
        self._closed = False
        #: The number of the last event that was noticed; some may have been counted since.
        self._number = 0
        #: Counts one more, as the outbox does, and says how many there were before. To look at the
        #: count is to count one more, too: so an event's number is this and an offset, which falls
        #: with every look.
        self._count = outbox.count
        self._offset = 1
        #: What all who look at everything will read next, while none of them has room: each has it
        #: as the last of its events. None: they have nothing in common that could go on.
        self._ends: Ends[PromptT] | None = None
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
            self._tune()

    def publish(self, kind: Callable[..., RunEvent[PromptT]], run: Run[PromptT], at: float,
                *more: object) -> None:  # fmt: skip
        """Deliver one event, but no end, to everybody who wants it."""
        if self.deaf:
            # This needs no lock. Who makes room meanwhile did so after this event, but may have
            # looked for a gap before it: so look again for whom to wake.
            self._outbox.missed_at = at
            self._count()
            boxes = self._everybody.open
        else:
            with self.lock:
                boxes = self._tell(kind, run, at, more)
        for box in boxes:
            if box.waiting:
                box.wake()

    def end(self, run: Run[PromptT], at: float) -> None:
        """Deliver RunEnded to everybody who wants it."""
        with self.lock:
            if self.deaf:
                ends = self._begin_ends() if self._ends is None else self._ends
                number = self._count() + self._offset
                missed = number - ends.last - 1
                ends.noted += (missed, self._outbox.missed_at, number, at, run)
                ends.last = number
                if len(ends.noted) >= IN_ONE_PIECE:
                    self.seal(ends)
                return  # who is full has something to read, and knows it
            boxes = self._end(run, at)
        for box in boxes:
            if box.waiting:
                box.wake()

    def _begin_ends(self) -> Ends[PromptT]:
        """Give all who have no room something in common to read, from here on."""
        self._recount()
        self._ends = ends = Ends[PromptT](self._number)
        for box in self._everybody.boxes:
            self._everybody.note_gap(box)
            box.events.append(ends)
        return ends

    def seal(self, ends: Ends[PromptT] | None) -> None:
        """Let what was put down so far be read as it is, if more could come in. Under the lock."""
        if ends is not None and ends is self._ends:
            for box in self._everybody.boxes:
                box.told += ends.last - ends.first
            self._ends = None

    def let_in(self, box: Mailbox[PromptT]) -> None:
        """It was full, and has room again. Under the lock."""
        if box.audience is not None:
            box.full = False
            box.audience.open += (box,)
            self._tune()

    def bring_up(self, box: Mailbox[PromptT]) -> None:
        """Let what it has missed so far be read of. Under the lock."""
        if box.audience is not None:
            self.seal(self._ends)
            self._recount()
            box.audience.note_gap(box)

    def _next(self) -> int:
        """Give the number of an event, which comes after what was counted since. Under the lock."""
        number = self._count() + self._offset
        self._notice(number - 1)
        self._number = number
        return number

    def _recount(self) -> None:
        """Notice what was counted since. Under the lock."""
        number = self._count() + self._offset
        self._offset -= 1  # so that the next one has this number, and not who only looks
        self._notice(number - 1)

    def _notice(self, number: int) -> None:
        missed = number - self._number
        if missed:
            self._everybody.miss(number, self._outbox.missed_at, missed)
            self._number = number

    def _tune(self) -> None:
        """Say what is still to be announced, after anything has changed about who listens."""
        everybody = self._everybody
        self.listening = bool(self._boxes)
        self._choosy = len(self._boxes) > (_EVERYTHING in self._boxes)
        deaf = self.listening and not (self._choosy or everybody.open)
        if deaf is not self.deaf:
            self.seal(self._ends)
            self.deaf = deaf
        self._outbox.loud = bool(self._expected)
        # Who is yet to join will have room.
        self._outbox.deaf = self.deaf and len(self._expected) == len(everybody.boxes)

    def _tell(
        self,
        kind: Callable[..., RunEvent[PromptT]],
        run: Run[PromptT],
        at: float,
        more: tuple[object, ...],
    ) -> tuple[Mailbox[PromptT], ...]:
        """Give whom to wake."""
        if not self._choosy:
            boxes = self._everybody.open
            self._everybody.tell(kind(self._next(), at, run, *more))
            if self._everybody.open is not boxes:
                self._tune()
            return boxes
        audiences = self._of(run)
        if not audiences:
            return ()
        number = self._next()
        boxes = tuple(box for audience in audiences for box in audience.open)
        event = kind(number, at, run, *more) if boxes else None
        for audience in audiences:
            if event is None:
                audience.miss(number, at)
            else:
                audience.tell(event)
        return boxes

    def _end(self, run: Run[PromptT], at: float) -> tuple[Mailbox[PromptT], ...]:
        """Give whom to wake."""
        if not self._choosy:
            self._everybody.end(RunEnded(self._next(), at, run))
            return self._everybody.open
        audiences = self._of(run)
        if not audiences:
            return ()
        event = RunEnded(self._next(), at, run)
        boxes = tuple(box for audience in audiences for box in audience.boxes)
        for audience in audiences:
            audience.end(event)
        for box in boxes:
            if box.run_id:
                self._remove(box)  # it has all there is to come
        self._tune()
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
            self.seal(self._ends)  # the news have numbers, and are not for everybody
            self._recount()  # else the newcomer would be told of what is part of the news
            box.begin_with([kind(self._next(), at, run, *more) for kind, run, at, more in news])
            box.closed = box.closed or self._closed
            if not box.closed:
                self._add(box)
        box.wake()

    def leave(self, box: Mailbox[PromptT]) -> None:
        """Deliver to it no more."""
        with self.lock:
            self._remove(box)
            self._expected.discard(box)
            self._tune()

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
        self._tune()

    def _remove(self, box: Mailbox[PromptT]) -> None:
        box.closed = True
        audience = box.audience
        if audience is not None:
            self.bring_up(box)
            audience.remove(box)
            if not audience.boxes:
                self._boxes.pop(audience.key, None)


#: What a mailbox is filed under that is for all sessions and all runs.
_EVERYTHING: Final = ("", "")
