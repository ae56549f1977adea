"""The asyncio driver: performs what the table orders, on the loop's thread and nowhere else.

A call from another thread is decided there and then; only what follows from it waits until the loop
gets to it. Every task that was started is referred to until it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import weakref
from asyncio import _get_running_loop  # gives None, where its public sister raises
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, cast

from sessionsched.aio.run import alive
from sessionsched.aio.teardown import Teardown
from sessionsched.closing import Closing
from sessionsched.driver import AT_ONCE, Driver
from sessionsched.errors import SchedulerClosed, WrongLoop
from sessionsched.events import RunEnded, RunStarted
from sessionsched.hooks import Hook
from sessionsched.model import PLAIN, CloseReport, Effect, How, PromptT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sessionsched.aio.run import AioRun
    from sessionsched.driven import DrivenRun
    from sessionsched.hooks import Report
    from sessionsched.model import Run
    from sessionsched.options import Options

__all__ = ["AioDriver"]

#: How many tasks are made before the loop has its turn. A burst of prompts would else make one for
#: each session before any had its first step: much for the collector to walk.
AHEAD: Final = 100

_TURNS: Final = range(AT_ONCE)
# Members as globals: on Python 3.11 a look into the class costs more than a call.
_EFFECT_START: Final = Effect.START
_EFFECT_INTERRUPT: Final = Effect.INTERRUPT
_EFFECT_END: Final = Effect.END

_NOT_OPEN: Final = "not open: use it in `async with`, or make it where its event loop runs"
_NO_LOOP: Final = "its event loop is closed"


class _Mute:
    """In place of a loop that does not tell which thread it runs in, or is not to be used."""

    _thread_id = None


def _no_time() -> float:
    """What the clock says before there is a loop."""
    return 0.0


class AioDriver(Driver[PromptT]):
    """One scheduler's driver. Its times are in seconds, on the loop's clock."""

    loop: asyncio.AbstractEventLoop
    #: The loop, if it can tell which thread it runs in and nothing is `shut`: whoever is in that
    #: thread has no more to ask. On 3.11 to ask for the running loop takes five times as long, with
    #: a call of the system.
    teller: Any = _Mute
    #: Done when a close is.
    closed: asyncio.Future[CloseReport[PromptT]]

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.shut = _NOT_OPEN
        #: There is a loop.
        self._opened = False
        self.now = _no_time
        #: The loop was told, and will come to perform what was ordered until then.
        self._awake = False
        #: Somebody performs what was ordered; or rests, and will go on.
        self.performing = False
        #: How many tasks may still be made in this turn of the loop.
        self._room = AHEAD
        #: Active runs that get their task when there is room; there is none while any are here.
        self._later: deque[AioRun[PromptT]] = deque()
        #: Tasks that have ever taken a turn here: they may wait for themselves. None: nobody has.
        self.hosts: weakref.WeakSet[asyncio.Task[Any]] | None = None
        #: Tasks that no active run refers to, and whose they are: hooks, and abandoned handlers.
        self.kept: dict[asyncio.Task[Any], Run[PromptT]] = {}

    @property
    def in_use(self) -> bool:
        return self._opened

    @property
    def idle(self) -> bool:
        return not self.orders and not self.performing

    # --- the loop ---

    def open(self) -> None:
        """Belong to the running loop from here on.

        Raises:
            WrongLoop: it belongs to another one.
        """
        if not self._opened:
            self.loop = loop = asyncio.get_running_loop()
            # Straight to the clock, where the loop would only pass it on: every run asks twice.
            stock = type(loop).time is asyncio.BaseEventLoop.time
            self.now = time.monotonic if stock else loop.time
            self.teller = loop if hasattr(loop, "_thread_id") else _Mute
            self._opened = True
            self.shut = None
            self._teardown = Teardown(self)
        self.on_its_loop()

    def on_its_loop(self) -> None:
        """Refuse to wait for anything on a loop that is not the scheduler's own.

        Raises:
            WrongLoop: this is another one.
            SchedulerClosed: there is none yet, or the process was forked.
        """
        if self.shut is not None:
            raise SchedulerClosed(self.shut)
        if asyncio.get_running_loop() is not self.loop:
            raise WrongLoop("wait on the event loop that the scheduler was opened on")

    def call_at(self, when: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        return self.loop.call_at(when, call)

    def obey(self) -> None:
        if self.orders:
            if _get_running_loop() is self.loop:
                self.perform_all()
            else:
                self._wake_loop()

    def _wake_loop(self) -> None:
        """Have what was ordered performed by the loop's thread: once for all that comes until then.

        Ordered first, and then looked: what finds the loop awake will be performed when it comes.
        """
        if not self._awake or self.loop.is_closed():
            self._awake = True
            self._tell_loop(self._woken)

    def _woken(self) -> None:
        self._awake = False  # before anything is performed: who orders later wakes it again
        self.perform_all()

    def perform_all(self) -> None:  # noqa: C901, PLR0912 - in two, it costs a call each time
        """Perform what was ordered, unless that is under way; see whether a close can go on.

        On the loop's thread, and nowhere else: so this needs no lock, as `Outbox.drain` does.
        START and END are spelled out: every run has them.
        """
        orders = self.orders
        if orders and not self.performing:
            self.performing = True
            hub = self.hub
            try:
                for _ in _TURNS:
                    effect, run, at = orders.popleft()
                    if effect is _EFFECT_START:
                        run.seen = effect
                        if hub.listening:
                            hub.publish(RunStarted, run, at)
                        if run.rare is not PLAIN:
                            self.start_on_terms(run, at)
                        if self._room:
                            self._room -= 1
                            run.begin(self)
                        else:
                            self._put_off(run)
                    elif effect is _EFFECT_END:
                        if run.seen is _EFFECT_INTERRUPT:
                            self.stopping.over(run)
                        run.seen = effect
                        if hub.listening:
                            hub.publish(RunEnded, run, at)
                        if self.timers or self.closing is not None:
                            self.wind_up(run)
                        run.release(self)
                    else:
                        self.do[effect](run, at)
                    if not orders:
                        break
            finally:
                self.performing = False
            if orders:
                self._rest()
        if self.closing is not None:
            self.closing.check()

    def _rest(self) -> None:
        """Let others have their turn on the loop; until then nobody goes on here."""
        self.performing = True
        self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self.performing = False
        self.perform_all()

    def _tell_loop(self, call: Callable[..., object], *args: object) -> None:
        """Have something called on the loop's thread."""
        try:
            self.loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # closed just now
            self._write_off()

    def _write_off(self) -> None:
        """The loop is gone, and every handler with it: end what is in flight, tell nobody."""
        now = self.now()
        self.table.close(now)
        for view in self.table.snapshot().sessions:
            for run in view.ending:
                self.table.settle(run, now)
            if view.active is not None:
                begun = cast("AioRun[PromptT]", view.active).begun
                self.table.finish(view.active, How.STOPPED if begun else How.SKIPPED, now)
        self.table.drain(lambda *_: None)

    # --- tasks ---

    def _put_off(self, run: AioRun[PromptT]) -> None:
        """Let a run begin in a later turn of the loop: there is no room in this one."""
        if not self._later:
            self.loop.call_soon(self._make_room)
        self._later.append(run)

    def _make_room(self) -> None:
        self._room = AHEAD
        while self._later and self._room:
            run = self._later.popleft()
            if run.cause is None:
                self._room -= 1
                run.begin(self)
            else:  # nobody could tell it to stop
                self.skipped(run)
        if self._later:
            self.loop.call_soon(self._make_room)

    # --- calls ---

    def accept(self, run: Run[PromptT], ready: bool) -> Run[PromptT]:  # noqa: FBT001
        here = self.teller._thread_id == get_ident() or self._is_here(run)
        now = self.now
        known = self.table.accept(run, now(), ready)
        if self.orders:
            if here:
                self.perform_all()
            else:
                self._wake_loop()
        return known

    def _is_here(self, run: Run[PromptT]) -> bool:
        """Whether this is the loop's thread.

        Raises:
            SchedulerClosed: wherever it is, no run may be accepted.
        """
        if self.shut is not None:
            raise SchedulerClosed(self.shut, run.session_id, run.run_id or None)
        here = _get_running_loop() is self.loop
        if not here and self.loop.is_closed():
            raise SchedulerClosed(_NO_LOOP, run.session_id, run.run_id or None)
        return here

    def refuse(self, why: str) -> None:
        super().refuse(why)
        self.teller = _Mute

    def forsaken(self, run: Run[PromptT]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self.loop.call_soon_threadsafe(self.withdraw, run)

    # --- hooks, and whoever was abandoned ---

    def call_hook(
        self,
        hook: Callable[..., Any],
        run: DrivenRun[PromptT],
        limit_s: float | None,
        report: Report,
        after: Hook | None = None,
    ) -> Hook:
        return AioHook(self, hook, run, limit_s, report, after)

    def keep(self, task: asyncio.Task[Any], run: Run[PromptT]) -> None:
        """Refer to a task until it is over; then nobody asks how it went."""
        self.kept[task] = run
        alive[task] = run
        task.add_done_callback(self._let_go)

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        del self.kept[task]
        alive.pop(task, None)
        if not task.cancelled():
            task.exception()  # else asyncio complains that nobody asked
        if self.closing is not None:
            self.closing.check()

    def stragglers(self) -> Collection[Run[PromptT]]:
        return self.kept.values()

    def stop_stragglers(self) -> None:
        for task in self.kept:
            task.cancel()

    # --- waiting and closing ---

    def takes_turns(self, task: asyncio.Task[Any]) -> None:
        """Remember a task that is about to be the host of a run."""
        if self.hosts is None:
            self.hosts = weakref.WeakSet()
        self.hosts.add(task)

    def close(self, drain_s: float) -> asyncio.Future[CloseReport[PromptT]]:
        """Close, or hurry up a close that is under way. Gives what is done when it is."""
        if self.closing is None:
            self.closed = self.loop.create_future()
            # There is no task for it: the teardown of a loop cancels all tasks.
            self.closing = Closing(self, self._is_closed)
            self.closing.begin()
        self.closing.within(drain_s)
        return self.closed

    def forget(self) -> None:
        """Close, without anybody's waiting for it, if that can be done at all."""
        if self.shut is None:
            self._tell_loop(self.close, 0.0)

    def _is_closed(self, report: CloseReport[PromptT]) -> None:
        self.closed.set_result(report)
        self._teardown.dismiss()


class AioHook(Hook):
    """One call of a hook, in a task of its own."""

    def __init__(
        self,
        driver: AioDriver[Any],
        hook: Callable[..., Any],
        run: DrivenRun[Any],
        limit_s: float | None,
        report: Report,
        after: Hook | None,
    ) -> None:
        super().__init__(report)
        body = self._call(driver, hook, run, limit_s, after)
        self.task: asyncio.Task[None] = asyncio.Task(
            body, loop=driver.loop, context=run.own_context
        )
        self.task.add_done_callback(self._over)
        driver.keep(self.task, run)

    async def _call(
        self,
        driver: AioDriver[Any],
        hook: Callable[..., Any],
        run: DrivenRun[Any],
        limit_s: float | None,
        after: Hook | None,
    ) -> None:
        if isinstance(after, AioHook) and not after.task.done():
            await asyncio.wait([after.task], timeout=limit_s)
        self.limit(driver, run, limit_s)
        await hook(run)

    def stop(self) -> None:
        self.task.cancel()

    def _over(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self.tell(asyncio.CancelledError(), stopped=task.cancelling() > 0)
        else:
            self.tell(task.exception())
