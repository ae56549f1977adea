"""A run with its thread.

Nobody can stop a thread. So the run carries the cancel: the handler looks at `canceled`, waits with
`wait_canceled` where it would sleep, and has sockets closed and children killed with `on_cancel`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define

from sessionsched.driven import DrivenRun
from sessionsched.errors import RunCanceled, SchedulerClosed
from sessionsched.model import How, PromptT
from sessionsched.threads.handle import ThreadHandle
from sessionsched.threads.timers import at_most

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.model import Outcome
    from sessionsched.threads.driver import ThreadDriver

__all__ = ["ThreadRun", "release_all"]

_log = logging.getLogger(__name__)

_RETURNED: Final = How.RETURNED  # on Python 3.11 a look into the class costs more than a call


@define(eq=False, weakref_slot=False, repr=False)
class ThreadRun(DrivenRun[PromptT], ThreadHandle[PromptT, Any]):
    """A run that a thread carries. `carrier` is the thread's id."""

    #: From its start until its handler is over.
    going: bool = False
    #: Its end has been announced.
    announced: bool = False
    #: Locked locks of whoever waits for its end; emptied by the announcement. None: nobody does.
    waiters: list[threading.Lock] | None = None
    #: Set with the cancel; made by the first who waits for that.
    _stopped: threading.Event | None = None
    #: What to call when it is canceled, if anything; None again once that has happened.
    _callbacks: list[Callable[[], object]] | None = None
    #: That has happened.
    _noticed: bool = False

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
            if not self._noticed:
                self._callbacks = self._callbacks or []
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

    # --- for whoever submitted it ---

    def outcome(self, timeout: float | None = None) -> Outcome[Any]:
        if not self.announced:
            self._thread_driver.ended(self, timeout)
        return self.ended  # type: ignore[return-value]  # it has

    # --- for the driver ---

    @property
    def _thread_driver(self) -> ThreadDriver[PromptT]:
        return self.session.driver  # type: ignore[union-attr,no-any-return]  # it was accepted

    def begin(self, driver: ThreadDriver[PromptT]) -> None:
        self.going = True
        try:
            driver.handlers.call(self.work)
        except RuntimeError as error:  # there is no thread, and none can be started
            self.going = False
            driver.skipped(self, error)

    def work(self) -> None:
        """Call the handler, in a thread of the pool, and report its end."""
        driver = self._thread_driver
        if self.cause is not None:
            self.going = False
            driver.skipped(self)
            return
        self.carrier = me = threading.get_ident()
        driver.waits.carries(self, me)
        self.begun = True
        how, result, error = _RETURNED, None, None
        try:
            result = self.own_context.run(driver.handler, self)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, it is the run's outcome
            how, error = How.RAISED, self.worth_keeping(raised)
        driver.waits.over(self)  # before another run can be active in its place
        self.going = False
        if self.cause is not None:
            driver.let_go(self)  # in case that it was abandoned, and has ended
        driver.finish(self, how, result, error)

    def worth_keeping(self, error: BaseException | None) -> BaseException | None:
        """Our own, from `raise_if_canceled`, says nothing that the outcome doesn't say."""
        ours = isinstance(error, RunCanceled) and self.canceled and error.run_id == self.run_id
        return None if ours else error

    def stop(self) -> None:
        self.notice_cancel()

    def notice_cancel(self) -> None:
        for follow_up in self.folded:
            cast("ThreadRun[PromptT]", follow_up).notice_cancel()
        with self._thread_driver.guard:
            callbacks, self._callbacks, self._noticed = self._callbacks, None, True
        if self._stopped is not None:
            self._stopped.set()
        if callbacks:
            grace_s, call = self.driver.options.grace_s, partial(_call_each, callbacks)
            self.driver.call_hook(call, self, grace_s, lambda *_: None)

    def abandon(self, carrier: int) -> None:
        del carrier  # the pool knows who is in this call
        driver = self._thread_driver
        driver.keep(self, self)
        if self.going:  # looked at after that: who comes to its end lets go after that
            driver.handlers.write_off(self.work)
        else:
            driver.let_go(self)  # it came to its end just now

    def release(self, driver: ThreadDriver[PromptT]) -> None:
        if self.cause is not None:
            self.notice_cancel()  # it may have left by itself, before anybody told it
        if self.rare.abandoned:
            driver.waits.over(self)
        self.carrier = self.context = None
        self.announced = True
        if self.waiters is not None:  # looked at after that: who waits looks in the other order
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
