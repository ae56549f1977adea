"""The clock of a show: an event loop whose time passes as fast as one likes, in one fixed order.

Rule 1. Time begins at 0 and passes only while the loop has nothing else to do.
Rule 2. A wait takes `pace` real seconds for each of its own; 0: none at all. The pace changes how
        long a show takes, and nothing about what happens in it.
Rule 3. A wait that nothing can end is an error, and not a show that hangs.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]

__all__ = ["ShowLoop", "put_on"]

ValueT = TypeVar("ValueT")

#: The loop's own pipe, with which other threads and signals wake it.
ITS_OWN: Final = 1
#: A show that was held up catches up with so many seconds, and not with more.
BEHIND_S: Final = 0.2


class _Waits(selectors.DefaultSelector):
    """Waits for files as any selector does; what it waits for time, it waits at the loop's pace."""

    def __init__(self, loop: ShowLoop) -> None:
        super().__init__()
        self._loop = loop
        #: When, really, the loop's `now` was due. What the loop did meanwhile comes off the wait.
        self._due = time.monotonic()

    def select(self, timeout: float | None = None) -> Ready:
        if timeout is None:
            return self._for_something_outside()
        pace = self._loop.pace
        ready = super().select(max(0.0, self._due + timeout * pace - time.monotonic()))
        if ready:
            timeout = self._passed(timeout)
        self._loop.now += timeout
        self._due = max(self._due + timeout * pace, time.monotonic() - BEHIND_S)
        return ready

    def _passed(self, at_most: float) -> float:
        """How much of a wait was over when something came in."""
        pace = self._loop.pace
        return min(at_most, max(0.0, time.monotonic() - self._due) / pace) if pace else 0.0

    def _for_something_outside(self) -> Ready:
        if len(self.get_map()) == ITS_OWN:
            raise RuntimeError("the show waits for something that can't happen any more")
        ready = super().select(None)
        self._due = time.monotonic()
        return ready


class ShowLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own."""

    def __init__(self, pace: float = 0.0) -> None:
        #: Real seconds for one second of the show. May be changed while it runs.
        self.pace = pace
        #: Only rises.
        self.now = 0.0
        super().__init__(_Waits(self))

    def time(self) -> float:
        """Say what time it is in the show."""
        return self.now


def put_on(show: Callable[[ShowLoop], Coroutine[Any, Any, ValueT]], pace: float) -> ValueT:
    """Run a whole show on a loop of its own, and give what it came to.

    Raises:
        KeyboardInterrupt: Ctrl-C; the show was canceled, and has cleaned up.
    """
    loop = ShowLoop(pace)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(show(loop))
