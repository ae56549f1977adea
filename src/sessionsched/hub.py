"""The hub: delivers events to whoever subscribed.

Rule 1. Events of one session reach a subscriber in the order in which they happened, with numbers
        that only rise.
Rule 2. RunEnded is never dropped. A reader who is too slow misses others, and finds a Gap that says
        how many where they would have been.
Rule 3. Nobody waits for a reader: putting an event into a mailbox takes no time and can't fail.
Rule 4. Events are delivered by whoever performs what is in the outbox: by one thread at a time. So
        that needs no lock; who comes and goes, which may happen on any thread, does.

Where all who listen have fallen behind, what happens is counted and no more, by one step of one
counter from which the numbers of events come, too: so a run that nobody can keep up with costs
little more than one that nobody watches.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Generic

from sessionsched.events import RunEnded
from sessionsched.mailbox import Mailbox
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from sessionsched.events import RunEvent
    from sessionsched.model import Run
    from sessionsched.outbox import Outbox

__all__ = ["Hub", "Mailbox"]

#: What a mailbox is filed under that is for all sessions and all runs.
_EVERYTHING: Final = ("", "")


class Hub(Generic[PromptT]):
    """Delivers events to whoever subscribed.

    `expect` and `leave` may be called from any thread, everything else by whoever performs what is
    in the outbox.
    """

    #: Whether there is any subscriber at all: look here before calling `publish`.
    listening: bool
    #: All who listen look at everything, and have fallen behind.
    deaf: bool
    #: Those who look at everything; and whether anybody looks at less.
    _everybody: tuple[Mailbox[PromptT], ...]
    _choosy: bool

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        #: Nothing will happen any more.
        self._closed = False
        #: The number of the last event: all that were published, and those that were counted and
        #: have been noticed.
        self._number = 0
        #: What the outbox's tally says next if nobody has counted: to look at it counts one more.
        self._untouched = 0
        #: Guards what follows, what `_tune` makes of it, and what is told to the outbox. A leaf:
        #: nothing is called under it.
        self._lock = threading.Lock()
        #: By session and run: who gets the events of these. Each tuple is replaced, never changed.
        self._boxes: dict[tuple[str, str], tuple[Mailbox[PromptT], ...]] = {}
        #: Mailboxes that have joined or will, and have not left: while there are any, the outbox is
        #: loud.
        self._expected: set[Mailbox[PromptT]] = set()
        self._tune()

    # --- what happens ---

    def publish(
        self, kind: Callable[..., RunEvent[PromptT]], run: Run[PromptT], at: float, *more: object
    ) -> None:
        """Deliver one event to everybody who wants it."""
        if self._choosy:
            boxes = self._of(run)
            if not boxes:
                return
        elif self.deaf and kind is not RunEnded:
            next(self._outbox.tally)
            self._outbox.counted = True
            return
        else:
            boxes = self._everybody
        if self._outbox.counted:
            self._look()
        self._number = number = self._number + 1
        # Without more, as most: unpacking it costs as much as the rest of the call.
        event = kind(number, at, run, *more) if more else kind(number, at, run)
        for box in boxes:
            unread = box.unread
            if len(unread) < box.room:
                unread.append(event)
            else:
                self._put_or_miss(box, event)
            if box.waiting:
                box.wake()
        if kind is RunEnded and self._choosy:
            self._dismiss(boxes)

    def _of(self, run: Run[PromptT]) -> tuple[Mailbox[PromptT], ...]:
        session_id, run_id, boxes = run.session_id, run.run_id, self._boxes
        keys = ((session_id, ""), ("", run_id), (session_id, run_id))
        return self._everybody + tuple(box for key in keys for box in boxes.get(key, ()))

    def _dismiss(self, boxes: tuple[Mailbox[PromptT], ...]) -> None:
        """A run has ended: who looks at that one run has all there is to come."""
        for box in boxes:
            if box.run_id:
                self.leave(box)
                box.wake()

    def _look(self) -> None:
        """Notice what was counted since the last look."""
        self._outbox.counted = False  # first: whoever counts from here on raises it again
        count = next(self._outbox.tally) - self._untouched
        self._untouched += count + 1
        self._number += count
        for box in self._everybody if count else ():
            box.miss(count, self._number)

    def _put_or_miss(self, box: Mailbox[PromptT], event: RunEvent[PromptT]) -> None:
        """There is no room: but for ends there always is."""
        if type(event) is RunEnded:
            if box.missed:
                box.tell_gap(event.at)
            box.unread.append(event)
            return
        was_behind = box.behind
        box.miss(1, event.number)
        if not was_behind:
            with self._lock:
                self._tune()

    # --- who is there ---

    def expect(self, box: Mailbox[PromptT]) -> None:
        """Have everything announced from here on; the mailbox will join when its turn comes."""
        with self._lock:
            self._expected.add(box)
            self._tune()

    def join(
        self,
        box: Mailbox[PromptT],
        news: Iterable[tuple[Callable[..., RunEvent[PromptT]], Run[PromptT], float, Any]],
    ) -> None:
        """Deliver to this mailbox from here on, beginning with news as (kind, run, at, more)."""
        self._look()  # what was counted until now is not for the newcomer
        numbered = enumerate(news, self._number + 1)
        events = [kind(number, at, run, *more) for number, (kind, run, at, more) in numbered]
        self._number += len(events)
        box.begin_with(events)
        with self._lock:
            box.closed = box.closed or self._closed
            if not box.closed:
                key = (box.session_id, box.run_id)
                self._boxes[key] = (*self._boxes.get(key, ()), box)
                self._tune()
        box.wake()

    def hear(self, box: Mailbox[PromptT], at: float) -> None:
        """The reader of a mailbox that was behind has caught up."""
        self._look()
        box.caught_up(at)
        with self._lock:
            self._tune()
        if box.unread and box.waiting:
            box.wake()

    def leave(self, box: Mailbox[PromptT]) -> None:
        """Deliver to it no more."""
        with self._lock:
            box.closed = True
            key = (box.session_id, box.run_id)
            self._boxes[key] = tuple(it for it in self._boxes.get(key, ()) if it is not box)
            if not self._boxes[key]:
                del self._boxes[key]
            self._expected.discard(box)
            self._tune()

    def close(self, at: float) -> None:
        """Nothing will happen any more: readers end once they have read what there is."""
        self._look()
        with self._lock:
            self._closed = True
        for box in [box for boxes in self._boxes.copy().values() for box in boxes]:
            if box.missed:
                box.tell_gap(at)
            self.leave(box)
            box.wake()

    def forget(self) -> None:
        """In a copy made by a fork, where whoever held the lock is not there: let nobody read."""
        for boxes in self._boxes.values():
            for box in boxes:
                box.unread.clear()

    def _tune(self) -> None:
        """Say what is still to be announced, after anything has changed about who listens."""
        self._everybody = everybody = self._boxes.get(_EVERYTHING, ())
        self.listening = bool(self._boxes)
        self._choosy = len(self._boxes) > (_EVERYTHING in self._boxes)
        self.deaf = self.listening and not self._choosy and all(box.behind for box in everybody)
        self._outbox.loud = bool(self._expected)
        # Who is yet to join will have room.
        self._outbox.deaf = self.deaf and len(self._expected) == len(everybody)
