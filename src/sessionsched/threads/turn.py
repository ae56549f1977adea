"""A turn: a run in the host's own thread. It waits in line like every other run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic

from attrs import define, field

from sessionsched.errors import SchedulerClosed, SessionSchedError
from sessionsched.handle import not_completed, taken
from sessionsched.model import Cause, How, PromptT, RunState, Scope
from sessionsched.threads.run import ThreadRun, release_all

if TYPE_CHECKING:
    from types import TracebackType

    from sessionsched.threads.driver import ThreadDriver

__all__ = ["ThreadTurn", "ThreadTurnRun"]


@define(eq=False, weakref_slot=False, repr=False)
class ThreadTurnRun(ThreadRun[PromptT]):
    """A run whose handler is the body of a `with`."""

    host: int = field(default=0, init=False)
    #: Released when its turn has come, or when it has ended without that.
    moment: list[threading.Lock] = field(factory=list, init=False)

    def begin(self, driver: ThreadDriver[PromptT]) -> None:
        self.going = True
        self.carrier = self.host
        driver.waits.carries(self, self.host)
        self._wake()

    def abandon(self, carrier: int) -> None:
        """There is nothing to replace: the thread is the host's own."""

    def release(self, driver: ThreadDriver[PromptT]) -> None:
        super().release(driver)
        driver.waits.over(self)  # also when its host gave up before it was told to begin
        self._wake()

    def _wake(self) -> None:
        release_all(self.moment)


class ThreadTurn(Generic[PromptT]):
    """One turn of a session: `with scheduler.turn(session_id, prompt) as run`."""

    def __init__(self, driver: ThreadDriver[PromptT], run: ThreadTurnRun[PromptT]) -> None:
        self._driver = driver
        self._run = run

    def __enter__(self) -> ThreadRun[PromptT]:
        """Wait for the turn.

        Raises:
            Refused: one of its kinds; nothing has changed.
            WouldDeadlock: the thread is in a turn, or a handler, of this session already.
            RunCanceled, RunSuspended: it has ended before its turn came.
        """
        driver, run = self._driver, self._run
        if driver.shut is not None:
            raise SchedulerClosed(driver.shut, run.session_id, run.run_id or None)
        with driver.guard:
            if run.host:
                raise taken(run)
            run.host = threading.get_ident()
        try:
            active = driver.table.session(run.session_id).active
            driver.waits.refuse(run.host, run.session_id, active)
            if driver.accept(run, driver.plain) is not run:
                raise taken(run)
        except SessionSchedError:
            run.host = 0  # it was refused, and may be tried again
            raise
        try:
            driver.wait(run, run.moment, lambda: run.going or run.announced, None)
        except BaseException:
            self._give_up(run)
            raise
        if run.canceled:
            self._skip_if_active(run)
            outcome = run.outcome()
            raise not_completed(run) from outcome.error
        run.begun = True
        return run

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._driver.waits.over(self._run)
        self._run.going = False
        how = How.RETURNED if error is None else How.RAISED
        self._driver.finish(self._run, how, error=self._run.worth_keeping(error))

    def _give_up(self, run: ThreadTurnRun[PromptT]) -> None:
        """The host does not want its turn any longer; it may have come all the same."""
        self._driver.cancel_run(run, scope=Scope.WAITING, cause=Cause.WITHDRAWN)
        self._skip_if_active(run)

    def _skip_if_active(self, run: ThreadTurnRun[PromptT]) -> None:
        if run.state is not RunState.ACTIVE:
            return
        self._driver.waits.over(run)
        run.carrier, run.going = None, False  # it ends without the host
        self._driver.skipped(run)
