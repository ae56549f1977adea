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
    from collections.abc import Callable

__all__ = ["Pool"]


class Pool:
    """A number of threads. What they call must not raise."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        #: Guards what follows. A leaf: nothing is called under it.
        self._lock = threading.Lock()
        #: Those that are there or about to be, without those that were written off.
        self._threads: set[threading.Thread] = set()
        #: What each of them is in just now.
        self._current: dict[threading.Thread, Callable[[], object]] = {}
        #: Calls that are queued, or under way in one of them.
        self._pending = 0

    def call(self, call: Callable[[], object]) -> None:
        """Have it called by a thread, soon.

        Raises:
            RuntimeError: there is no thread, and none can be started; it will not be called.
        """
        with self._lock:
            self._pending += 1
            try:
                self._grow()
            except RuntimeError:
                if not self._threads:
                    self._pending -= 1
                    raise
            self._calls.put(call)

    def write_off(self, call: Callable[[], object]) -> None:
        """Don't count any longer on the thread that is in this call, if one is."""
        with self._lock:
            lost = {thread for thread, current in self._current.items() if current == call}
            self._threads -= lost
            self._pending -= len(lost)
            for thread in lost:
                del self._current[thread]
            with contextlib.suppress(RuntimeError):  # one will come with the next call
                self._grow()

    def close(self) -> None:
        """Let the threads go when everything is called, and wait for that."""
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._calls.put(None)
        for thread in threads:
            thread.join()

    def _grow(self) -> None:
        """Let another thread come if one is needed. Under the lock: who joins finds it started."""
        if len(self._threads) < min(self._limit, self._pending):
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
            self._threads.add(thread)

    def _work(self) -> None:
        me = threading.current_thread()
        while (call := self._calls.get()) is not None:
            with self._lock:
                self._current[me] = call
            call()
            with self._lock:
                if self._current.pop(me, None) is None:
                    return  # written off
                self._pending -= 1
