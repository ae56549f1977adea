"""The thread driver: performs what the table orders on the thread that is there.

Threads are slots: a run starts when there is a thread for it, and not before, so what waits for a
thread can be canceled, promoted and explained like everything that waits. Hooks and callbacks have
threads of their own: they go on when every handler is stuck.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from sessionsched.closing import Closing
from sessionsched.driver import AT_ONCE, Driver
from sessionsched.errors import SchedulerClosed, WouldDeadlock
from sessionsched.hooks import Hook
from sessionsched.model import PromptT
from sessionsched.threads.pool import Pool
from sessionsched.threads.timers import ThreadTimer, Timers, at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sessionsched.driven import DrivenRun
    from sessionsched.hooks import Report
    from sessionsched.model import CloseReport, Run
    from sessionsched.options import Options
    from sessionsched.threads.run import ThreadRun

__all__ = ["ThreadDriver"]


class ThreadDriver(Driver[PromptT]):
    """One scheduler's driver. Its times are in seconds, on the monotonic clock."""

    def __init__(self, options: Options, threads: int) -> None:
        super().__init__(options)
        self.handlers = Pool("sessionsched-handler", threads)
        self._prepares = Pool("sessionsched-prepare", threads)
        self._aside = Pool("sessionsched-aside", threads)
        self._callbacks = Pool("sessionsched-callback", threads)
        #: Takes over from a caller who would otherwise perform for others without an end.
        self._relief = Pool("sessionsched-relief", 1)
        self._timers_thread = Timers()
        #: Guards small things of runs, and the beginning of the close. A leaf.
        self.guard = threading.Lock()
        #: Hooks that are under way, and runs whose handlers were abandoned; and whose they are.
        self._kept: dict[ThreadHook | ThreadRun[PromptT], Run[PromptT]] = {}
        #: A prompt was handed over: there may be threads.
        self._used = False
        self._closed = threading.Event()
        self._report: CloseReport[PromptT] | None = None

    @property
    def in_use(self) -> bool:
        return self._used

    def accept(self, run: Run[PromptT], ready: bool) -> Run[PromptT]:  # noqa: FBT001
        if self.shut is not None:
            raise SchedulerClosed(self.shut, run.session_id, run.run_id or None)
        self._used = True
        known = self.table.accept(run, time.monotonic(), ready)
        if self.orders or self.closing is not None:
            self.perform_all()
        return known

    def now(self) -> float:
        return time.monotonic()

    def obey(self) -> None:
        # Also when another thread has performed it all: the close may wait for this very call.
        if self.orders or self.closing is not None:
            self.perform_all()

    def perform_all(self) -> None:
        """Perform what was ordered, unless somebody is at it; see whether a close can go on."""
        while self.table.outbox.drain(self.do, AT_ONCE):
            try:
                self._relief.call(self.perform_all)
            except RuntimeError:  # no thread can be started: then better here than never
                continue
            return
        if self.closing is not None:
            self.closing.check()

    def call_at(self, when: float, call: Callable[[], object]) -> ThreadTimer:
        return self._timers_thread.call_at(when, call)

    # --- hooks, and whoever was abandoned ---

    def call_hook(
        self,
        hook: Callable[..., Any],
        run: DrivenRun[PromptT],
        limit_s: float | None,
        report: Report,
        after: Hook | None = None,
    ) -> Hook:
        return ThreadHook(self, self._pool_for(hook), hook, run, limit_s, report, after)

    def _pool_for(self, hook: object) -> Pool:
        """Keep kinds apart: slow preparations must not hold up records, nor these a callback."""
        if hook is self.options.prepare:
            return self._prepares
        return self._aside if hook is self.options.on_dropped else self._callbacks

    def forsaken(self, run: Run[PromptT]) -> None:
        # threading.Thread takes locks, and the collector may have come in under one of them.
        _thread.start_new_thread(self.withdraw, (run,))

    def keep(self, what: ThreadHook | ThreadRun[PromptT], run: Run[PromptT]) -> None:
        """Something of this run goes on: a hook, or its own handler."""
        self._kept[what] = run

    def let_go(self, what: ThreadHook | ThreadRun[PromptT]) -> None:
        """It is over."""
        if self._kept.pop(what, None) is not None and self.closing is not None:
            self.closing.check()

    def stragglers(self) -> Collection[Run[PromptT]]:
        return list(self._kept.values())

    def stop_stragglers(self) -> None:
        """They have been told; nobody can do more to a thread."""

    # --- waiting and closing ---

    def ended(self, run: ThreadRun[PromptT], timeout: float | None) -> None:
        """Wait until the run's end is announced.

        Raises:
            TimeoutError: it was not, in that time.
            WouldDeadlock: it can't end before the run that waits for it.
        """
        if self.shut is not None:
            raise SchedulerClosed(self.shut, run.session_id, run.run_id)
        if run.waiters is None:
            with self.guard:
                run.waiters = run.waiters or []
        self.wait(run, run.waiters, lambda: run.announced, timeout)
        if not run.announced:
            msg = f"run {run.run_id!r} has not ended in {timeout} s"
            raise TimeoutError(msg)

    def wait(
        self,
        run: ThreadRun[PromptT],
        waiters: list[threading.Lock],
        has_come: Callable[[], bool],
        timeout: float | None,
    ) -> None:
        """Wait for a moment in a run's life. Who brings it about releases what is in `waiters`.

        Raises:
            WouldDeadlock: it can't come before the run that waits for it is over.
        """
        waiter = threading.Lock()
        waiter.acquire()
        waiters.append(waiter)
        if has_come():  # looked at after that: it may have come before
            return
        timeout = -1 if timeout is None else max(0.0, at_most(timeout))
        me = threading.get_ident()
        try:
            if self.waits.is_carrier(me):
                with self.waits.wait(me, run):
                    waiter.acquire(timeout=timeout)
            else:
                waiter.acquire(timeout=timeout)
        except WouldDeadlock:
            if not has_come():  # else it came just now, and is no longer waited for
                raise
        finally:
            with contextlib.suppress(ValueError):  # it was taken by who released it
                waiters.remove(waiter)

    def close(self, drain_s: float) -> CloseReport[PromptT]:
        """Close, or hurry up a close that is under way; wait until it is done."""
        with self.guard:
            if self.closing is None:
                self.closing = Closing(self, self._is_closed)
        self.closing.begin()
        self.closing.within(drain_s)
        self.closing.check()
        if drain_s and not self._closed.wait(at_most(drain_s)):
            self.closing.interrupt()  # there may be no timer: none can be started at exit
        self._closed.wait()
        for hook in list(self._kept):  # what has not come to an end by now is not waited for
            if isinstance(hook, ThreadHook):
                hook.cancel()
        going = [kept.work for kept in list(self._kept)]
        pools = self.handlers, self._prepares, self._aside, self._callbacks, self._relief
        for pool in pools:
            pool.close(going)
        self._timers_thread.close()
        return self._report  # type: ignore[return-value]  # it is there

    def _is_closed(self, report: CloseReport[PromptT]) -> None:
        self._report = report
        self._closed.set()


class ThreadHook(Hook):
    """One call of a hook, in a thread of its own."""

    def __init__(
        self,
        driver: ThreadDriver[Any],
        pool: Pool,
        hook: Callable[..., Any],
        run: DrivenRun[Any],
        limit_s: float | None,
        report: Report,
        after: Hook | None,
    ) -> None:
        super().__init__(report)
        self._driver = driver
        self._pool = pool
        self._run = run
        self._limit_s = limit_s
        # A copy: two threads can't be in one context, and an earlier hook may still be.
        self._context = run.own_context.copy()
        self._call = partial(self._context.run, hook, run)
        self._prepares = hook is driver.options.prepare
        self._after = after.over if isinstance(after, ThreadHook) else None
        #: It was canceled: there is no need to call it, if that was not done yet.
        self._unwanted = False
        #: A thread is at it.
        self._begun = False
        #: Set when the hook has returned, or will not be called at all.
        self.over: threading.Event = threading.Event()
        driver.keep(self, run)
        try:
            pool.call(self.work)
        except RuntimeError:  # no thread can be started, as when the interpreter ends
            self.work()  # better here than never

    def cancel(self) -> None:
        self._unwanted = True
        super().cancel()

    def stop(self) -> None:
        if not self._begun:
            self.over.set()  # and it will not be called
        elif not self.over.is_set():
            self._pool.write_off(self.work)

    def work(self) -> None:
        """Call the hook, in a thread of its pool."""
        self._begun = True
        if self._after is not None:
            self._after.wait(at_most(self._limit_s))
        self.limit(self._driver, self._run, self._limit_s)
        error: BaseException | None = None
        try:
            if not self._unwanted:
                self._call()
                self._hand_on()
        except BaseException as raised:  # noqa: BLE001 - it goes into the outcome
            error = raised
        self.over.set()
        self._driver.let_go(self)
        self.tell(error)

    def _hand_on(self) -> None:
        """Let the handler see what its preparation has set, if that is still wanted."""
        if self._prepares and not self._unwanted:
            self._run.context = self._context
