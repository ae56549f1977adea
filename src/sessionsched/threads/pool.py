"""Threads that call what they are given, first come, first served.

Rule 1. There are never more than `limit` of them, not counting those that were written off.
Rule 2. A thread comes when there is something to call and nobody free to do it, and stays.
Rule 3. A thread that is written off is replaced at once, and goes when its call is over.
Rule 4. They are daemons: a program that ends without closing does not hang.
Rule 5. When no thread can be started (too many in the process, or the interpreter ends), those that
        are there do what there is to do; without any, a call is refused.
"""

from __future__ import annotations

import contextlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeAlias

    Call: TypeAlias = Callable[[], object]

__all__ = ["Pool"]


class Member:
    """One of the threads. Only it writes here, and takes no lock for that."""

    __slots__ = ("current", "done", "thread")

    def __init__(self, name: str, work: Callable[[Member], None]) -> None:
        self.thread = threading.Thread(target=work, args=(self,), name=name, daemon=True)
        #: What it is in: a call, alone in a list of its own. Whoever takes it out of there, be it
        #: the thread when the call is over or somebody who writes it off, was faster.
        self.current: list[Call] = []
        #: How many calls it has done.
        self.done = 0


class Pool:
    """A number of threads. What they call must not raise."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        #: Guards what follows. A leaf: nothing is called under it.
        self._lock = threading.Lock()
        #: Those that are there or about to be, without those that were written off.
        self._members: set[Member] = set()
        #: There are as many as there may be.
        self._full = False
        #: Calls that were given to them, over or not.
        self._given = 0
        #: Those that were written off and may not have ended yet, and what they were in.
        self._lost: list[tuple[threading.Thread, Call]] = []

    @property
    def pending(self) -> int:
        """How many calls are queued, or under way in a thread that was not written off."""
        return self._given - sum(member.done for member in self._members)

    def call(self, call: Call) -> None:
        """Have it called by a thread, soon.

        Raises:
            RuntimeError: there is no thread, and none can be started; it will not be called.
        """
        with self._lock:  # every run comes by: nothing is called in here, as in Slots
            self._given += 1
            full = self._full
        if not full:
            self._grow_if_possible()
        self._calls.put(call)

    def write_off(self, call: Call) -> None:
        """Don't count any longer on the thread that is in this call, if one is."""
        with self._lock:
            self._lost = [it for it in self._lost if it[0].is_alive()]
            for member in [it for it in self._members if _taken_out(it.current, call)]:
                self._members.remove(member)
                self._full = False
                self._given -= member.done + 1
                self._lost.append((member.thread, call))
            with contextlib.suppress(RuntimeError):  # one will come with the next call
                self._grow()

    def close(self, going: Collection[Call] = ()) -> None:
        """Let the threads go when everything is called, and wait for that.

        Of those that were written off, not for those that are still in one of these calls.
        """
        with self._lock:
            threads = [member.thread for member in self._members]
            lost = [thread for thread, call in self._lost if call not in going]
        for _ in threads:
            self._calls.put(None)
        for thread in threads + lost:
            thread.join()

    def _grow_if_possible(self) -> None:
        with self._lock:
            try:
                self._grow()
            except RuntimeError:
                if not self._members:
                    self._given -= 1
                    raise

    def _grow(self) -> None:
        """Let another thread come if one is needed. Under the lock: who joins finds it started."""
        if len(self._members) < min(self._limit, self.pending):
            member = Member(self._name, self._work)
            member.thread.start()
            self._members.add(member)
            self._full = len(self._members) == self._limit

    def _work(self, me: Member) -> None:
        next_call = self._calls.get
        while (call := next_call()) is not None:
            me.current = current = [call]
            call()
            try:
                current.pop()
            except IndexError:
                return  # written off
            me.done += 1


def _taken_out(current: list[Call], call: Call) -> bool:
    """Take this call out of there, if it is in there and nobody is faster."""
    with contextlib.suppress(IndexError):  # it was over, or is so just now
        if current[0] == call:
            current.pop()
            return True
    return False
