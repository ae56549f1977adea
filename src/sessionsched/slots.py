"""The slots: how many runs may be active at once, and whose turn it is to get one.

Rule 1. A slot goes to the session that became startable first (D6).
Rule 2. The lock in here is a leaf: whoever holds it asks for no other lock.
Rule 3. While a slot is free and a session asks, some thread is on its way with it:
        whoever gives a slot back must then hand over until `next_session` says None.
Rule 4. Where every run comes by, nothing is called under the lock. Python takes the turn from a
        thread when a call is over, hardly ever elsewhere: so a thread hardly ever loses it there,
        and nobody waits. Threads that do hand a lock back and forth, at twice the price of a run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Slots"]

SessionT = TypeVar("SessionT")


class Slots(Generic[SessionT]):
    """A fixed number of slots, first come, first served."""

    __slots__ = ("_asking", "_free", "_lock")

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        #: Slots that nobody holds; never negative.
        self._free = count
        #: Startable sessions without a slot, in the order in which they became so.
        #: Not a plain dict: taking the oldest from one over and over is quadratic.
        self._asking: OrderedDict[SessionT, None] = OrderedDict()

    def take(self, session: SessionT) -> bool:
        """Take a slot for a startable session; False: it is remembered as asking."""
        with self._lock:
            if self._free and not self._asking:
                self._free -= 1
                return True
            self._asking[session] = None  # keeps its place, if it has one
            return False

    def leave(self, session: SessionT) -> None:
        """Forget a session that asked: it is no longer startable."""
        if session in self._asking:  # nobody else can make it ask, so this needs no lock
            with self._lock:
                self._asking.pop(session, None)

    def give(self) -> None:
        """Give one slot back."""
        with self._lock:
            self._free += 1

    def next_session(self) -> SessionT | None:
        """Take a slot for the session that has asked for longest, if there are both."""
        # This look needs no lock: who asks after it has found no free slot, or others that ask; and
        # whoever gives one back then looks in here next.
        if not (self._free and self._asking):
            return None
        with self._lock:
            if self._free:
                for session in self._asking:  # the oldest
                    self._free -= 1
                    del self._asking[session]
                    return session
            return None  # another thread was faster
