"""What is ready to be called, and who may go next. What is private in asyncio is touched here only.

Rule 1. Everything that is ready has an *owner*. A task's steps are the task's own. Whatever else is
        handed to `call_soon` is owned by whoever hands it over. Each timer is an owner, too.
Rule 2. What one owner has handed over is called in that order; between owners any order is right.
Rule 3. First is what became ready first, as in asyncio. What became ready in the same step goes by
        the age of its owners: asyncio's own code wakes tasks in the order of a set now and then,
        which is another one every time.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from bisect import insort
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ready", "call", "enter", "leave"]


class Ready:
    """Lines of handles, one for each owner. Owners are numbers, by age."""

    def __init__(self) -> None:
        #: Who is first in each line: (since which step, owner, handle), sorted; no owner twice.
        self.heads: list[tuple[int, int, asyncio.Handle]] = []
        #: Those behind them, by owner, with the step since which each is ready; none is empty.
        self._behind: dict[int, deque[tuple[int, asyncio.Handle]]] = {}
        #: Every owner that is in a line.
        self._lined_up: set[int] = set()
        self._ages: weakref.WeakKeyDictionary[asyncio.Future[Any], int] = (
            weakref.WeakKeyDictionary()
        )
        self.next_owner: Final = itertools.count(1).__next__
        #: Whose handle is being called; 0: nobody's, this is from outside.
        self.owner = 0
        #: Rises with each handle that is called and each timer that comes due.
        self.step = 0

    def add(self, handle: asyncio.Handle, owner: int) -> None:
        """Line something up."""
        if owner in self._lined_up:
            self._behind.setdefault(owner, deque()).append((self.step, handle))
        else:
            self._lined_up.add(owner)
            insort(self.heads, (self.step, owner, handle))

    def take(self, at: int) -> asyncio.Handle:
        """Give the first of one of the lines, which is called next."""
        _, owner, handle = self.heads.pop(at)
        behind = self._behind.get(owner)
        if behind is None:
            self._lined_up.discard(owner)
        else:
            since, following = behind.popleft()
            insort(self.heads, (since, owner, following))
            if not behind:
                del self._behind[owner]
        self.owner = owner
        self.step += 1
        return handle

    def owner_of(self, callback: Callable[..., object]) -> int:
        """Say who owns this, when it is handed over now."""
        task = getattr(callback, "__self__", None)
        # Not isinstance: asyncio has tasks in Python, too, which are no `asyncio.Task`.
        if asyncio.isfuture(task) and not _is_a_method(callback):
            return self.age(task)
        return self.owner

    def age(self, task: asyncio.Future[Any]) -> int:
        """Give a task's number: less than that of every task that was seen later."""
        age = self._ages.get(task)
        if age is None:
            age = self._ages[task] = self.next_owner()
        return age


def _is_a_method(callback: Callable[..., object]) -> bool:
    """Tell `task.cancel` and the like from a task's own steps, which are none of its methods."""
    return hasattr(asyncio.Task, getattr(callback, "__name__", "no method has this name"))


def call(handle: asyncio.Handle) -> None:
    """Call what a handle is for. What that raises goes to the loop's exception handler."""
    handle._run()  # noqa: SLF001 - whoever writes a loop has to


def enter(loop: asyncio.AbstractEventLoop) -> None:
    """Be the running loop."""
    asyncio._set_running_loop(loop)  # noqa: SLF001 - meant for whoever writes a loop


def leave() -> None:
    """Be that no longer."""
    asyncio._set_running_loop(None)  # noqa: SLF001 - see `enter`
