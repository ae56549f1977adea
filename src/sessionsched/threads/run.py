"""A run with its thread.

Nobody can stop a thread. So the run carries the cancel: the handler looks at `canceled`, waits with
`wait_canceled` where it would sleep, and has sockets closed and children killed with `on_cancel`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, cast

from attrs import define, field

from sessionsched.driven import DrivenRun
from sessionsched.errors import RunCanceled, SchedulerClosed
from sessionsched.model import How, PromptT
from sessionsched.threads.timers import at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.threads.driver import ThreadDriver

__all__ = ["ThreadRun", "release_all"]

_log = logging.getLogger(__name__)


@define(eq=False, weakref_slot=False, repr=False)
class ThreadRun(DrivenRun[PromptT]):
    """A run that a thread carries. `carrier` is the thread's id."""

    #: From its start until its handler is over.
    going: bool = field(default=False, init=False)
    #: Its end has been announced.
    announced: bool = field(default=False, init=False)
    #: Locked locks of whoever waits for its end; emptied by the announcement.
    waiters: list[threading.Lock] = field(factory=list, init=False)
    #: Set with the cancel; made by the first who waits for that.
    _stopped: threading.Event | None = field(default=None, init=False)
    #: What to call when it is canceled; None once that has happened.
    _callbacks: list[Callable[[], object]] | None = field(factory=list, init=False)

    # --- for the handler ---

    def raise_if_canceled(self) -> None:
        """Leave the handler if the run is covered.

        Raises:
            RunCanceled: it is; `cause` says why.
        """
        if self.cause is not None:
            msg = f"run {self.run_id!r} of session {self.session_id!r} is canceled: {self.cause}"
            raise RunCanceled(msg, self.session_id, self.run_id, None, self.cause)

    def wait_canceled(self, timeout: float | None = None) -> bool:
        """Wait until it is covered, at most `timeout` seconds: in place of sleep."""
        self._refuse_if_forked()
        if self._stopped is None:
            with self._thread_driver.guard:
                self._stopped = self._stopped or threading.Event()
        # The cause is set before the event: whoever sees no cause here is woken by the event.
        return self.canceled or self._stopped.wait(at_most(timeout)) or self.canceled

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have something called, once and on another thread, when the run is covered.

        If that has happened, it is called here and now. Gives a function that forgets it.
        """
        self._refuse_if_forked()
        with self._thread_driver.guard:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return partial(self._forget, callback)
        callback()
        return lambda: None

    def _refuse_if_forked(self) -> None:
        if self.driver.shut is not None:
            raise SchedulerClosed(self.driver.shut, self.session_id, self.run_id)

    def _forget(self, callback: Callable[[], object]) -> None:
        with self._thread_driver.guard:
            if self._callbacks is not None and callback in self._callbacks:
                self._callbacks.remove(callback)

    # --- for the driver ---

    @property
    def _thread_driver(self) -> ThreadDriver[PromptT]:
        return cast("ThreadDriver[PromptT]", self.driver)

    def begin(self, driver: ThreadDriver[PromptT]) -> None:
        self.going = True
        try:
            driver.handlers.call(self._work)
        except RuntimeError as error:  # there is no thread, and none can be started
            self.going = False
            driver.skipped(self, error)

    def _work(self) -> None:
        self.carrier = threading.get_ident()
        self.driver.waits.carries(self, self.carrier)
        if self.canceled:
            self.going = False
            self.driver.skipped(self)
            return
        self.begun = True
        how, result, error = self._call_handler()
        with self._thread_driver.guard:
            self.going = False
        self._thread_driver.let_go(self)  # in case that it was abandoned, and has ended
        self.driver.finish(self, how, result, error)

    def _call_handler(self) -> tuple[How, object, BaseException | None]:
        try:
            call = self.own_context.run
            return How.RETURNED, call(self.driver.options.handler, self), None
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the run's outcome
            return How.RAISED, None, self.worth_keeping(error)

    def worth_keeping(self, error: BaseException | None) -> BaseException | None:
        """Our own, from `raise_if_canceled`, says nothing that the outcome doesn't say."""
        ours = isinstance(error, RunCanceled) and self.canceled and error.run_id == self.run_id
        return None if ours else error

    def stop(self) -> None:
        self.own.told += 1
        self.notice_cancel()

    def notice_cancel(self) -> None:
        for follow_up in self.folded:
            cast("ThreadRun[PromptT]", follow_up).notice_cancel()
        with self._thread_driver.guard:
            callbacks, self._callbacks = self._callbacks, None
        if self._stopped is not None:
            self._stopped.set()
        if callbacks:
            grace_s, call = self.driver.options.grace_s, partial(_call_each, callbacks)
            self.driver.call_hook(call, self, grace_s, lambda *_: None)

    def abandon(self, carrier: int) -> None:
        del carrier  # the pool knows who is in this call
        with self._thread_driver.guard:
            if not self.going:
                return  # it came to its end just now
            self._thread_driver.keep(self, self)
        self._thread_driver.handlers.write_off(self._work)

    def release(self, driver: ThreadDriver[PromptT]) -> None:
        if self.cause is not None:
            self.notice_cancel()  # it may have left by itself, before anybody told it
        driver.waits.over(self)
        self.carrier = self.context = None
        self.announced = True
        release_all(self.waiters)


def release_all(waiters: list[threading.Lock]) -> None:
    """Wake whoever waits; some may stop waiting, and take theirs away, meanwhile."""
    with contextlib.suppress(IndexError):
        while True:
            waiters.pop().release()


def _call_each(callbacks: list[Callable[[], object]], _run: object) -> None:
    for callback in callbacks:
        try:
            callback()
        except BaseException:  # noqa: BLE001 - one that fails must not keep the others from it
            _log.exception("a callback of on_cancel raised; the others are called all the same")
