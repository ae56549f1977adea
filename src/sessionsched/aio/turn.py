"""A turn: a run in the host's own task.

It waits in line like every other run, starts when its turn comes, and can be canceled like every
other run. What is canceled then is the host's task, and only while it is inside: on the way out the
cancel is taken back (as `asyncio.timeout` does with its own) and comes out as RunCanceled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, NoReturn, cast

from attrs import define, field

from sessionsched.aio.run import AioRun
from sessionsched.handle import not_completed, taken
from sessionsched.model import Cause, How, PromptT, RunState, Scope

if TYPE_CHECKING:
    from types import TracebackType

    from sessionsched.aio.driver import AioDriver
    from sessionsched.model import Run

__all__ = ["Turn", "TurnRun"]


@define(eq=False, weakref_slot=False, repr=False)
class TurnRun(AioRun[PromptT]):
    """A run whose handler is the body of an `async with`."""

    #: The task of the `async with`, from its beginning.
    host: asyncio.Task[Any] = field(init=False)
    #: Done when its turn has come, or when it has ended without that.
    moment: asyncio.Future[None] = field(init=False)
    #: How many cancels the host's task had to answer for before we sent any.
    before: int = field(default=0, init=False)
    #: How many we have sent.
    told: int = field(default=0, init=False)
    #: The host is in the body: only then may its task be canceled.
    inside: bool = field(default=False, init=False)

    def begin(self, driver: AioDriver[PromptT]) -> None:
        self.carrier = self.host
        driver.waits.carries(self, self.host)
        self._wake()

    def stop(self) -> None:
        self.told += 1
        self.host.cancel()

    @property
    def going(self) -> bool:
        return self.inside

    def abandon(self, carrier: asyncio.Task[Any]) -> None:
        """There is nothing to keep: the task is the host's own."""

    def release(self, driver: AioDriver[PromptT]) -> None:
        super().release(driver)
        self._wake()
        if not self.begun:
            del self.host  # as on the way out of the body: see Turn.__aexit__

    def _wake(self) -> None:
        if not self.moment.done():
            self.moment.set_result(None)


class Turn(Generic[PromptT]):
    """One turn of a session: `async with scheduler.turn(session_id, prompt) as run`."""

    def __init__(self, driver: AioDriver[PromptT], run: TurnRun[PromptT]) -> None:
        self._driver = driver
        self._run = run

    async def __aenter__(self) -> Run[PromptT]:
        """Wait for the turn.

        Raises:
            Refused: one of its kinds; nothing has changed.
            WouldDeadlock: the task is in a turn, or a handler, of this session already.
            RunCanceled, RunSuspended: it has ended before its turn came.
        """
        driver, run = self._driver, self._run
        driver.on_its_loop()
        if run.state is not RunState.NEW:
            raise taken(run)
        run.host = cast("asyncio.Task[Any]", asyncio.current_task())
        driver.takes_turns(run.host)
        active = driver.table.session(run.session_id).active
        driver.waits.refuse(run.host, run.session_id, active)
        run.moment = driver.loop.create_future()
        if driver.accept(run, driver.plain) is not run:
            raise taken(run)
        try:
            if not run.moment.done():  # else it has come at once
                with driver.waits.wait(run.host, run):
                    await run.moment
        except BaseException:
            self._give_up(run)
            raise
        if run.canceled:
            await self._canceled_before(run)
        run.before = run.host.cancelling()
        run.begun = run.inside = True
        return run

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        run = self._run
        run.inside = False
        stopped = isinstance(error, asyncio.CancelledError)
        how = How.RETURNED if error is None else How.RAISED
        if stopped and (run.canceled or run.host.cancelling()):
            self._driver.finish(run, How.STOPPED)
        else:
            self._driver.finish(run, how, error=error)
        try:
            if run.told and await self._take_back(run, stopped=stopped):
                raise not_completed(run) from error
        finally:
            del run.host  # else a run that is remembered keeps its host's task alive

    async def _take_back(self, run: TurnRun[PromptT], *, stopped: bool) -> bool:
        """Take our cancels back. True: one of them, and nothing else, has ended the body."""
        for _ in range(min(run.told, run.host.cancelling() - run.before)):
            run.host.uncancel()
        try:
            await asyncio.sleep(0)  # one that was sent but not delivered would strike later
        except asyncio.CancelledError:
            if run.host.cancelling() > run.before:
                raise  # somebody else's
        return stopped and run.host.cancelling() <= run.before

    async def _canceled_before(self, run: TurnRun[PromptT]) -> NoReturn:
        """It was canceled before the host was inside: while it waited, or just after."""
        self._skip_if_active(run)
        outcome = await run.outcome()
        raise not_completed(run) from outcome.error

    def _give_up(self, run: TurnRun[PromptT]) -> None:
        """The host does not want its turn any longer; it may have come all the same."""
        self._driver.cancel_run(run, scope=Scope.WAITING, cause=Cause.WITHDRAWN)
        self._skip_if_active(run)

    def _skip_if_active(self, run: TurnRun[PromptT]) -> None:
        if run.state is not RunState.ACTIVE:
            return
        self._driver.waits.over(run)
        run.carrier = None  # it ends without the host
        self._driver.skipped(run)
