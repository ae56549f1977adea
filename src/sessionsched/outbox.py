"""The outbox: effects, in the order in which they were decided.

Rule 1. Effects are appended under a session's lock and performed after it.
Rule 2. One FIFO, one drainer at a time: effects are performed in the order of the decisions. With
        any other order a cancel is lost in five steps (START overtaken by its INTERRUPT).
Rule 3. What is ordered of several runs together is the same as if it were ordered of each in turn.
Rule 4. Nothing stays behind: whoever appends and then calls `drain` has its effects performed, by
        itself or by the drainer that was faster.

It is one FIFO for all sessions, and not one for each: that keeps the order of each session, lets an
idle session's record go at once, and gives all observers one order of events.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import deque
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from sessionsched.model import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sessionsched.model import Run

__all__ = ["DROPS", "ENDS", "ByOne", "Outbox", "one_by_one"]

#: Orders about several runs of a session, in their order: DROP and END, each of all of them.
DROPS: Final = "drops"
ENDS: Final = "ends"
_OF_EACH: Final[Mapping[str, Effect]] = {DROPS: Effect.DROP, ENDS: Effect.END}


class Outbox:
    """Effects on their way from decisions to whoever performs them."""

    __slots__ = ("append", "busy", "counted", "deaf", "effects", "loud", "tally")

    def __init__(self) -> None:
        #: What was ordered and not performed yet.
        self.effects: Final[deque[tuple[Any, Any, float]]] = deque()
        #: Held by whoever performs.
        self.busy = threading.Lock()
        #: Straight to the deque: this is called several times per run.
        self.append = self.effects.append
        #: Whether anybody is there for effects that are only there to be announced.
        self.loud = True
        #: Whether all who are there for them have no room: then it is enough to count them.
        self.deaf = False
        #: `next` counts one more: one step, whoever else does so at the same time.
        self.tally: Final = itertools.count()
        #: Raised after that; lowered by whoever then looks at the count.
        self.counted = False

    def __len__(self) -> int:
        return len(self.effects)

    @property
    def idle(self) -> bool:
        """Whether everything that was ordered has been performed."""
        return not self.effects and not self.busy.locked()

    def drain(
        self, do: Mapping[Any, Callable[[Any, float], object]], at_most: int = sys.maxsize
    ) -> bool:
        """Perform what is there, each as `do` says, unless somebody else does so already.

        True: it has had so many turns, and there are more. Then somebody must come back for them.

        What is done may come back here (through a handler that submits, say): then it only adds to
        what the drain under way will perform, so nothing recurses.
        """
        effects, turns = self.effects, repeat(None, at_most)
        # Looked at again after each release: an append in between may have found us busy.
        while effects and self.busy.acquire(False):
            try:
                for _ in turns:
                    if not effects:
                        break
                    effect, run, at = effects.popleft()
                    do[effect](run, at)
                else:
                    if effects:
                        return True
            finally:
                self.busy.release()
        return False


class ByOne(dict[Any, Any]):
    """Says of every effect that one function performs it, run by run, which is told what it is."""

    def __init__(self, perform: Callable[[Effect, Run[Any], float], object]) -> None:
        super().__init__()
        self._perform = perform
        for order in _OF_EACH:
            self[order] = partial(self._each, order)

    def _each(self, order: str, runs: Any, at: float) -> None:
        for effect, run in one_by_one(order, runs):
            self._perform(effect, run, at)

    def __missing__(self, effect: Effect) -> Callable[[Run[Any], float], object]:
        return partial(self._perform, effect)


def one_by_one(order: Any, about: Any) -> Iterator[tuple[Any, Any]]:
    """Say what is ordered of whom, one by one."""
    if order in _OF_EACH:
        yield from ((_OF_EACH[order], run) for run in about)
    else:
        yield order, about
