"""A run with its task.

Rule 1. One fresh task per run: a late `cancel()` can't hit the run after it.
Rule 2. Its end is reported from inside of the task, in its last step, however that came. A task
        that is canceled before its first step never enters a coroutine that has not begun: so
        ours has. It waits at its very beginning, with everything in place to report the end.
Rule 3. What a task says of itself is read here, and here alone. Whether a run was canceled is our
        own cause; handlers raise, swallow, wrap and uncancel as they like.
"""

from __future__ import annotations

import asyncio
from asyncio import Future, Task, current_task
from contextvars import Context
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, cast

from attrs import define

from sessionsched.aio.handle import RunHandle
from sessionsched.driven import DrivenRun
from sessionsched.model import How, Outcome, PromptT, RunState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionsched.aio.driver import AioDriver
    from sessionsched.model import Run

__all__ = ["AioRun", "alive"]

#: Tasks of active runs and of hooks, and whose they are. asyncio itself refers to no task: one that
#: waits for something that nobody else refers to would be collected, with the scheduler and all.
alive: Final[dict[asyncio.Task[Any] | None, Run[Any]]] = {}

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_HOW_RAISED: Final = How.RAISED
_HOW_RETURNED: Final = How.RETURNED
_HOW_STOPPED: Final = How.STOPPED
_RUN_ENDED: Final = RunState.ENDED
_RUN_ACTIVE: Final = RunState.ACTIVE


class _OneStep:
    """Awaited, it lets go until the coroutine is sent on: by its task, in the loop's next turn."""

    # Not a generator of our own: this costs no Python call.
    __await__: Final = staticmethod(partial(iter, (None,)))


_ONE_STEP: Final[Any] = _OneStep()


@define(eq=False, weakref_slot=False, repr=False)
class AioRun(DrivenRun[PromptT], RunHandle[PromptT, Any]):
    """A run that an asyncio task carries."""

    #: Whoever waits for its end; mostly there is one, and needs no list. None: nobody, or it has
    #: ended.
    waiter: Future[None] | list[Future[None]] | None = None

    async def outcome(self) -> Outcome[Any]:
        if self.state is not _RUN_ENDED:
            driver: AioDriver[PromptT] = self.session.driver  # type: ignore[union-attr]  # accepted
            if driver.teller._thread_id != get_ident():
                driver.on_its_loop()
            if self.state is _RUN_ACTIVE and not self.begun:
                await _ONE_STEP  # mostly its first step comes before that, and may be its last
            if self.state is not _RUN_ENDED:  # type: ignore[comparison-overlap]  # time has passed
                await self._over(driver)
        status, cause = self.verdict  # as `ended`, with a call less
        return Outcome(
            status, cause, self.returned, self.raised,
            self.accepted_at, self.started_at, self.ended_at,
            self.rare.folded_into, self.rare.abandoned,
        )  # fmt: skip

    async def _over(self, driver: AioDriver[PromptT]) -> None:
        """Wait until it has ended."""
        me = current_task(driver.loop)
        if me in alive or (driver.hosts is not None and me in driver.hosts):
            with driver.waits.wait(me, self):  # nobody else can wait for itself
                await self._wait(driver)
        else:
            await self._wait(driver)

    async def _wait(self, driver: AioDriver[PromptT]) -> None:
        """Be woken at its end."""
        waiter: Future[None] = Future(loop=driver.loop)
        if self.waiter is None:
            self.waiter = waiter
        else:
            self._expect(waiter)
        try:
            await waiter
        except BaseException:
            self._forget(waiter)
            raise

    def _expect(self, waiter: Future[None]) -> None:
        """Somebody else waits already."""
        if not isinstance(self.waiter, list):
            self.waiter = [cast("Future[None]", self.waiter)]
        self.waiter.append(waiter)

    def _forget(self, waiter: Future[None]) -> None:
        """Whoever waited there has something else to do."""
        if self.waiter is waiter:
            self.waiter = None
        elif isinstance(self.waiter, list):
            self.waiter.remove(waiter)

    def begin(self, driver: AioDriver[PromptT]) -> None:
        work = self._work(driver)
        work.send(None)  # to where a cancel before the task's first step finds it
        # Not loop.create_task: with an eager task factory the handler would run in here.
        context = self.context
        task = Task(
            work,
            loop=driver.loop,
            name=self.name or self.session_id,  # of which it is the only one
            context=Context() if context is None else context,
        )
        self.carrier = task
        alive[task] = self
        if driver.waits.counts:
            driver.waits.carries(self, task)

    async def _work(self, driver: AioDriver[PromptT]) -> object:
        try:
            await _ONE_STEP  # nothing of the handler has run yet
            self.begun = True
            handler = driver.handler
            result = await handler(self)
        except asyncio.CancelledError as error:
            self._is_canceled(driver, error)
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            # This stops the loop, and nobody knows whether it runs on: end before that.
            self._finish(driver, _HOW_RAISED, error=error)
            raise
        except BaseException as error:
            if asyncio.current_task(driver.loop) is not self.carrier:
                raise  # the loop is gone, and Python closes what it left: nobody to report to
            self._finish(driver, _HOW_RAISED, error=error)
        else:
            if self.carrier is not None:  # as `_finish`, with fewer calls: most runs end here
                now = driver.now
                driver.table.finish(self, _HOW_RETURNED, now(), result)
                driver.perform_all()
            return result
        return None

    def _is_canceled(self, driver: AioDriver[PromptT], error: asyncio.CancelledError) -> None:
        """A cancel came out of the handler.

        One that somebody sent (we, or somebody outside: `cancelling`) is no error. One that nobody
        sent is: the handler has made it up, or let one of something inside of it through.
        """
        if not self.begun:
            driver.skipped(self)
        elif self.cause is not None or (self.carrier is not None and self.carrier.cancelling()):
            self._finish(driver, _HOW_STOPPED)
        else:
            self._finish(driver, _HOW_RAISED, error=error)

    def _finish(
        self, driver: AioDriver[PromptT], how: How, error: BaseException | None = None
    ) -> None:
        if self.carrier is not None:  # else it has ended without this: it was abandoned
            driver.finish(self, how, None, error)

    def stop(self) -> None:
        self.carrier.cancel()

    @property
    def going(self) -> bool:
        return self.carrier is not None and not self.carrier.done()

    def abandon(self, carrier: asyncio.Task[Any]) -> None:
        cast("AioDriver[PromptT]", self.driver).keep(carrier, self)

    def release(self, driver: AioDriver[PromptT]) -> None:
        if self.carrier is not None:
            alive.pop(self.carrier, None)
            self.carrier = None
        if driver.waits.counts:
            driver.waits.over(self)
        self.context = None
        if self.waiter is not None:
            waiter, self.waiter = self.waiter, None
            if waiter.__class__ is list:
                _wake(waiter)
            elif not waiter.done():  # type: ignore[union-attr]
                waiter.set_result(None)  # type: ignore[union-attr]


def _wake(waiters: Iterable[Future[None]]) -> None:
    """Wake those who still wait."""
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
