"""The simulated loop: an asyncio loop whose order is chosen, and whose clock is virtual.

Rule 1. One handle at a time; which of those that are ready comes from the order (order.py).
Rule 2. Time stands still while anything is ready, and then goes on to the next timer. On a coarse
        grid, timers that are due in the same cell come due together, at its end: never early.
Rule 3. Nothing ready and no timer is an error at once; so is the time `within` which all must be
        over, and so are very many steps without an end.
Rule 4. What asyncio would only log is kept in `complaints`.
Rule 5. There are no sockets, processes or signals: asking for one is refused. A function for
        another thread is called in one, and is one step: nothing else goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, TypeVarTuple

from sessionsched.testing.relay import Stuck
from sessionsched.testing.simulate.ready import Ready, call, enter, leave
from sessionsched.testing.simulate.surface import LoopSurface, NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from types import FrameType

    from sessionsched.testing.simulate.order import Order

__all__ = ["NotSimulated", "SimulatedLoop", "Stuck", "where"]

AnswerT = TypeVar("AnswerT")
GivenTs = TypeVarTuple("GivenTs")

#: More steps than any story has that comes to an end.
_ENDLESS: Final = 1_000_000
#: Real seconds after which a function in a thread waits for what can't come.
_PATIENCE_S: Final = 10.0
_ASYNCIO: Final = str(Path(asyncio.__file__).parent)


class SimulatedLoop(LoopSurface):
    """An event loop for one simulation."""

    def __init__(self, order: Order, *, grid: float = 0.0, within: float = math.inf) -> None:
        """Make a loop.

        Args:
            order: Who goes next.
            grid: Timers come due at multiples of so many seconds; 0: when they ask to.
            within: So many virtual seconds may pass.
        """
        super().__init__()
        self.order = order
        self._grid, self._within = grid, within
        self._now = 0.0
        self._ready = Ready()
        #: Called whenever nobody can go on without time's passing. What they raise is a failure.
        self.whenever_quiet: list[Callable[[], object]] = []
        #: For whoever waits until time would pass; none of them is done.
        self._quiet: list[asyncio.Future[None]] = []
        #: (when it comes due, when it asked to, owner, handle): a heap. Canceled ones stay in it.
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._running = self._stopping = False
        #: More steps than this are too many.
        self._last_step = _ENDLESS
        #: What is said of a function in a thread that has not come back; blank: there is none.
        self._deadlock = ""
        #: Threads that may speak to the loop: the one it runs in, and what it waits for.
        self._threads = {threading.get_ident()}

    def __repr__(self) -> str:
        return f"<SimulatedLoop {self.order!r} at {self._now:g} s>"

    # --- running ---

    def run_until_complete(self, future: Any) -> Any:
        """Run until this is done, and give its result.

        Raises:
            Stuck: it will never be.
            RuntimeError: somebody has stopped the loop before that.
        """
        main = asyncio.ensure_future(future, loop=self)
        self._run(main.done)
        if not main.done():
            raise RuntimeError("the loop was stopped before this was done")
        return main.result()

    def run_forever(self) -> None:
        """Run until `stop` is called."""
        self._run(lambda: False)

    def _run(self, over: Callable[[], bool]) -> None:
        if self._running or self._closed:
            raise RuntimeError("this loop is closed, or running")
        hooks = sys.get_asyncgen_hooks()
        self._running, self._stopping = True, False
        enter(self)
        sys.set_asyncgen_hooks(self._begun, self._thrown_away)
        try:
            while not over() and not self._stopping:
                self._once()
        finally:
            self._ready.owner, self._running = 0, False
            sys.set_asyncgen_hooks(*hooks)
            leave()

    def _once(self) -> None:
        """Call one handle."""
        ready = self._ready
        while not ready.heads:
            self._pass_time()
        count = len(ready.heads)
        handle = ready.take(self.order.pick(count) if count > 1 else 0)
        if not handle.cancelled():
            call(handle)
        if ready.step > self._last_step:
            self._last_step += _ENDLESS  # whoever is left may clean up
            self._stuck("goes on for ever")
        if self._deadlock:
            why, self._deadlock = self._deadlock, ""
            self._stuck(why)

    def _pass_time(self) -> None:
        """Let time pass until something is ready."""
        for check in self.whenever_quiet:
            check()
        if self._quiet:
            self._quiet.pop(0).set_result(None)
            return
        timers = self._timers
        while timers and timers[0][-1].cancelled():
            heapq.heappop(timers)
        if not timers:
            self._stuck("waits for what will never come")
        if timers[0][0] > self._within:
            self._stuck(f"is not over within {self._within:g} s")
        self._now = timers[0][0]
        while timers and timers[0][0] <= self._now:
            _, _, owner, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._ready.step += 1  # by default they are called in the order of their times
                self._ready.add(handle, owner)

    def _stuck(self, why: str) -> NoReturn:
        tasks = "".join(f"\n  {where(task)}" for task in self.tasks())
        msg = f"{why}; at {self._now:g} s there are{tasks or ' no tasks'}"
        raise Stuck(msg)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Give the tasks that are not done, the oldest first."""
        return sorted(asyncio.all_tasks(self), key=self._ready.age)

    def timers(self) -> list[asyncio.TimerHandle]:
        """Give the timers that are still to come, the next first."""
        return [it[-1] for it in sorted(self._timers) if not it[-1].cancelled()]

    async def quiet(self) -> None:
        """Wait until nobody else can go on without time's passing."""
        future = self.create_future()
        self._quiet.append(future)
        try:
            await future
        finally:
            if future in self._quiet:
                self._quiet.remove(future)

    def stop(self) -> None:
        """Return from `run_forever` after this step."""
        self._stopping = True

    def is_running(self) -> bool:
        """Whether it runs."""
        return self._running

    def close(self) -> None:
        """Call nothing more."""
        if self._running:
            raise RuntimeError("a running loop can't be closed")
        self._closed = True
        self._ready, self._timers = Ready(), []

    # --- calls ---

    def call_soon(
        self,
        callback: Callable[[*GivenTs], object],
        *args: *GivenTs,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Have it called, after what its owner has handed over before."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.add(handle, self._ready.owner_of(callback))
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*GivenTs], object],
        *args: *GivenTs,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Have it called. Threads take part only while the loop waits for them.

        Raises:
            NotSimulated: this is another thread, whose timing nobody chooses.
        """
        if threading.get_ident() not in self._threads:
            msg = "threads are not simulated, but for functions that the loop itself calls in one"
            raise NotSimulated(msg)
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*GivenTs], object],
        *args: *GivenTs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have it called after so many seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*GivenTs], object],
        *args: *GivenTs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have it called at a time of this loop's clock."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        owner = self._ready.next_owner()
        if when <= self._now:
            self._ready.add(handle, owner)
        else:
            due = math.ceil(when / self._grid) * self._grid if self._grid else when
            heapq.heappush(self._timers, (max(due, when), when, owner, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Let it be: it is passed over when its time has come."""

    def time(self) -> float:
        """Say what time it is; 0 at the beginning."""
        return self._now

    def run_in_executor(
        self, executor: object, func: Callable[[*GivenTs], AnswerT], *args: *GivenTs
    ) -> asyncio.Future[AnswerT]:
        """Have it called in another thread, in a step of its own, whatever the executor."""
        del executor
        future: asyncio.Future[AnswerT] = self.create_future()
        handle = asyncio.Handle(self._elsewhere, (future, partial(func, *args)), self, None)
        self._ready.add(handle, self._ready.next_owner())
        return future

    def _elsewhere(self, future: asyncio.Future[AnswerT], func: Callable[[], AnswerT]) -> None:
        if future.cancelled():
            return
        report: list[Callable[[], None]] = []

        def work() -> None:
            self._threads.add(threading.get_ident())
            try:
                report.append(partial(future.set_result, func()))
            except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
                report.append(partial(future.set_exception, error))
            finally:
                self._threads.discard(threading.get_ident())

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        if not report:
            self._deadlock = (
                f"a function in a thread waits for the loop, which waits for it: {func}"
            )
            return
        # In a step of its own: whoever waits may be canceled when the work is done already.
        self.call_soon(lambda: None if future.cancelled() else report[0]())


def where(task: asyncio.Task[Any]) -> str:
    """Say in which line a task waits: the innermost that is not asyncio's own."""
    coro: Any = task.get_coro()
    frames: list[FrameType] = []
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "ag_frame", None)
        frames += [] if frame is None else [frame]
        coro = getattr(coro, "cr_await", None) or getattr(coro, "ag_await", None)
    own = [it for it in frames if not it.f_code.co_filename.startswith(_ASYNCIO)] or frames
    at = f"{own[-1].f_code.co_filename}:{own[-1].f_lineno}" if own else "its end"
    return f"task {task.get_name()!r} at {at}"
