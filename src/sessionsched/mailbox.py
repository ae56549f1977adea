"""A mailbox: what one subscriber has yet to read.

Rule 1. It is written on the right by whoever performs what is in the outbox, and read on the left
        by one reader at a time. Both are single steps of a deque, so neither needs a lock.
Rule 2. What was put in is never changed, and may be in other mailboxes, too.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Generic, TypeAlias

from sessionsched import checks
from sessionsched.events import Gap, RunEnded
from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from sessionsched.events import RunEvent

__all__ = ["Mailbox", "Seen"]

Seen: TypeAlias = "RunEvent[PromptT] | Gap"


class Mailbox(Generic[PromptT]):
    """What one subscriber has yet to read: bounded, but for the ends."""

    __slots__ = (
        "_last", "buffer", "closed", "missed", "room", "run_id", "session_id", "unread",
        "waiting", "wake",
    )  # fmt: skip

    def __init__(self, session_id: str, run_id: str, buffer: int, wake: Callable[[], None]) -> None:
        #: Which events it is for; blank: all.
        self.session_id = session_id
        self.run_id = run_id
        #: Tells the reader that there is something to read.
        self.wake = wake
        #: Whether to do that. A reader that can tell lowers it while it does not wait.
        self.waiting = True
        #: Nothing will be put in any more; what is in may still be read.
        self.closed = False
        #: What was put in and not read yet.
        self.unread: Final[deque[Seen[PromptT]]] = deque()
        #: How long that may get, ends aside: more than `buffer` to begin with, for the first state
        #: takes no room of others; and 0 while it is `behind`.
        self.room = self.buffer = buffer
        #: How many events it has missed that its reader was not told of yet, and the number of the
        #: last one. Only while it is behind.
        self.missed = self._last = 0

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

    def begin_with(self, news: Sequence[RunEvent[PromptT]]) -> None:
        """Let the reader see these first, whatever the bound. Once, before anything else is in."""
        self.unread.extend(news)
        self.room = self.buffer + len(news)
        if self.run_id and any(type(event) is RunEnded for event in news):
            self.closed = True  # the one run that it is for has ended

    @property
    def behind(self) -> bool:
        """Whether it has missed something, and its reader has not caught up since.

        Until then it misses everything but the ends.
        """
        return not self.room

    def miss(self, count: int, number: int) -> None:
        """Take note of events that did not come in, and of the number of the last of them."""
        self.room = 0
        self.missed += count
        self._last = number

    def tell_gap(self, at: float) -> None:
        """Let what it has missed so far be read of, where it would have been."""
        self.unread.append(Gap(self._last, at, self.missed, self.session_id, self.run_id))
        self.missed = 0

    def caught_up(self, at: float) -> None:
        """Its reader has read everything: tell of what is missing, and let events in again."""
        if self.missed:
            self.tell_gap(at)
        self.room = self.buffer

    def take(self) -> Seen[PromptT] | None:
        """Give the oldest that was not read yet; None: there is nothing now."""
        return self.unread.popleft() if self.unread else None
