"""Some threads under one schedule: who runs, and who is next. baton.py says by which rules."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from sessionsched.testing.deviations import passed_over
from sessionsched.testing.standins import HERE, BatonThread, Unwind, stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType, FrameType, ModuleType
    from typing import TypeAlias

    Bodies: TypeAlias = Sequence[Callable[[], object]]

__all__ = ["Baton", "Stuck"]

#: How long the real machine may take for what takes it microseconds; only matters when stuck.
_PATIENCE_S = 60.0
#: More points than any story has that comes to an end.
_ENDLESS = 200_000


class Stuck(AssertionError):
    """They wait for each other, or go on for ever."""


class Baton:
    """Some threads under one schedule."""

    def __init__(
        self,
        schedule: Iterable[int] = (),
        files: Sequence[str] = (),
        *,
        under_locks: bool = False,
        count_all: bool = True,
    ) -> None:
        """Make a baton.

        Args:
            schedule: The deviations, as numbers of points.
            files: Ends of the names of files whose lines are points.
            under_locks: Also lines that are reached inside of `with lock` are.
            count_all: Also count the points after the last deviation, which takes time.
        """
        self._schedule = Counter(schedule)
        self._last = math.inf if count_all else max(self._schedule, default=0)
        self._files, self._under_locks = tuple(files) or ("\0",), under_locks
        #: How many other threads could have gone on, for each point that was passed.
        self.choices: list[int] = []
        self.now = 0.0
        self._steps = 0
        #: Between the beginning and the end of what is explored; after that; at the very end.
        self._deviate = self._past = self.ended = False
        self._error: BaseException | None = None
        self._threads: list[BatonThread] = []
        self._bodies: list[BatonThread] = []
        self._watched: dict[CodeType, bool] = {}
        self.next_ident = itertools.count(1).__next__
        #: Released when nobody can go on: for whoever called `run`.
        self._done = threading.Semaphore(0)

    def run(self, bodies: Bodies, *, deviate: bool = False) -> None:
        """Run these, and the threads that were started meanwhile, until nobody can go on.

        Raises:
            Stuck: not all of these are over then.
            BaseException: what a thread raised.
        """
        self._deviate = deviate and self._last > 0
        self._bodies = [BatonThread(self, body) for body in bodies]
        self._threads = self._bodies + [it for it in self._threads if not it.over]
        for body in self._bodies:
            body.begin()
        self._threads[0].go.release()
        in_time = self._done.acquire(timeout=_PATIENCE_S)
        self._deviate, self._past = False, deviate
        if self._error is not None:
            raise self._error
        waiting = [it.where() for it in self._bodies if not it.over]
        if waiting or not in_time:
            msg = f"waiting for ever: {', '.join(waiting)}"
            raise Stuck(msg)

    def end(self) -> None:
        """Let go of the threads that still wait."""
        self.ended = True
        for thread in self._threads:
            while not thread.over:
                thread.go.release()
                if not self._done.acquire(timeout=_PATIENCE_S):
                    break

    @contextlib.contextmanager
    def stands_in(self, modules: Iterable[ModuleType]) -> Iterator[Any]:
        """Give modules what waits under this baton in place of `threading` and the like."""
        names = stand_ins(self)
        before = [
            (it, name, vars(it)[name]) for it in modules for name in names if name in vars(it)
        ]
        for module, name, _ in before:
            setattr(module, name, names[name])
        try:
            yield names["threading"]
        finally:
            for module, name, value in before:
                setattr(module, name, value)

    # --- what threads call ---

    def point(self) -> None:
        """A place where the baton may be passed on. Does nothing outside of a run."""
        me = HERE.thread
        if me is None or me.baton is not self or self.ended or self._error is not None:
            return
        self._steps += 1
        if self._steps > _ENDLESS:
            msg = f"goes on for ever: {me.where()}"
            raise Stuck(msg)
        if not self._deviate:
            return
        others = [it for it in self._ready(me) if it is not me]
        if skipped := self._skipped(len(others)):
            self._give(me, others[skipped - 1])

    def wait_until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Let others go on until this is so. False: it was not, in that time."""
        self.point()
        me = HERE.thread
        if condition() or (timeout is not None and timeout <= 0):
            return condition()
        if self.ended:
            raise Unwind
        if me is None:
            raise Stuck("would wait outside of a run")
        me.waits_for, me.until = condition, None if timeout is None else self.now + timeout
        self.pass_on(me)
        me.waits_for = me.until = None
        return condition()

    def sleep(self, seconds: float) -> None:
        """Wait for a time to pass."""
        self.wait_until(lambda: False, seconds)

    # --- who is next ---

    def pass_on(self, me: BatonThread) -> None:
        """This thread can't go on: let the next one, or whoever called `run`."""
        ready = [] if self.ended or self._error is not None else self._ready(me)
        times = [it.until for it in self._threads if not it.over and it.until is not None]
        if not ready and times and self._error is None and not all(it.over for it in self._bodies):
            self.now = min(times)
            ready = self._ready(me)
        self._give(me, ready[self._skipped(len(ready) - 1)] if ready else None)

    def add(self, thread: BatonThread) -> None:
        """Let a thread take part."""
        self._threads.append(thread)

    def fail(self, error: BaseException) -> None:
        """A thread raised this: nobody goes on."""
        if not isinstance(error, Unwind) and not self.ended:
            self._error = self._error or error

    def _ready(self, me: BatonThread) -> list[BatonThread]:
        """Those who can go on, in turn after this one."""
        after = self._threads.index(me) + 1
        return [it for it in self._threads[after:] + self._threads[:after] if it.can_go]

    def _skipped(self, others: int) -> int:
        """Count a point, if there is a choice; say how many are passed over by the schedule."""
        if others < 1 or not self._deviate:
            return 0
        self.choices.append(others)
        if len(self.choices) >= self._last:
            self._deviate, self._past = False, True
        return passed_over(self._schedule, len(self.choices), others)

    def _give(self, me: BatonThread, following: BatonThread | None) -> None:
        if following is me:
            return
        (self._done if following is None else following.go).release()
        if not me.over:
            me.go.acquire()
            if self.ended:
                raise Unwind

    def trace(self, frame: FrameType, event: str, _arg: object) -> Any:
        """What Python calls for every line, after sys.settrace."""
        if self._past:
            sys.settrace(None)  # there are no more points, and this is slow
        elif event == "call":
            code = frame.f_code
            if code not in self._watched:
                self._watched[code] = code.co_filename.endswith(self._files)
            return self.trace if self._watched[code] else None
        me = HERE.thread
        if event == "line" and me is not None and (self._under_locks or not me.locks):
            self.point()
        return self.trace
