"""Scheduler: sessions on asyncio. What people call; the driver does the rest."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Generic

from sessionsched import checks
from sessionsched.aio.driver import AioDriver
from sessionsched.aio.handle import RunHandle, Ticket
from sessionsched.aio.run import AioRun
from sessionsched.aio.subscription import Subscription
from sessionsched.aio.turn import Turn, TurnRun
from sessionsched.errors import WouldDeadlock
from sessionsched.face import Face, own_turn
from sessionsched.model import PromptT, ResultT, WhenBusy
from sessionsched.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Self

    from sessionsched.model import CloseReport, Limits, Run

__all__ = ["Scheduler"]


class Scheduler(
    Face[PromptT, RunHandle[PromptT, ResultT], Ticket[PromptT, ResultT]], Generic[PromptT, ResultT]
):
    """Runs prompts, one at a time for each session, on one event loop.

    Use it in `async with`, which closes it however its block ends. Every plain call (`submit`,
    `cancel`, `snapshot` ...) may come from any thread; what is awaited is awaited on its loop.
    """

    _ticket_kind = Ticket

    def __init__(
        self,
        handler: Callable[[Run[PromptT]], Coroutine[Any, Any, ResultT]],
        *,
        on_dropped: Callable[[Run[PromptT]], Coroutine[Any, Any, object]] | None = None,
        prepare: Callable[[Run[PromptT]], Coroutine[Any, Any, object]] | None = None,
        prepare_timeout: float | None = None,
        limits: Limits | None = None,
        grace: float = 5.0,
        abandon_after: float | None = None,
        settle_timeout: float = 5.0,
    ) -> None:
        """Make a scheduler. It belongs to the loop that runs here, or else to that of `async with`.

        Args:
            handler: Does the work of a run: `async def handler(run) -> result`.
            on_dropped: Awaited once for every run that ends without its handler's having taken a
                step, before that end is announced and before a later run of the session starts.
                Runs that are dropped together are recorded concurrently, begun in line order.
            prepare: Awaited for every submitted run; the run keeps its place, and may start after.
            prepare_timeout: Seconds for `prepare`, or for a ticket to become ready. None: no limit.
            limits: How many runs may wait, or be active.
            grace: Seconds after which a handler that goes on after a cancel is canceled again.
            abandon_after: Seconds after which such a handler is no longer waited for. None: never.
            settle_timeout: Seconds for one call of `on_dropped`.

        Raises:
            InvalidOption: a function isn't written with `async def`, or a time is negative.
        """
        options = Options.checked(
            checks.coroutine_function,
            handler,
            on_dropped=on_dropped,
            prepare=prepare,
            prepare_timeout=prepare_timeout,
            limits=limits,
            grace=grace,
            abandon_after=abandon_after,
            settle_timeout=settle_timeout,
        )
        self._run_kind = AioRun  # not in the class: there it would be found at thrice the price
        self._driver: AioDriver[PromptT] = AioDriver(options)
        with contextlib.suppress(RuntimeError):  # no loop runs here: `async with` will say which
            self._driver.open()

    def turn(
        self,
        session_id: str,
        prompt: PromptT,
        *,
        run_id: str | None = None,
        when_busy: WhenBusy = WhenBusy.QUEUE,
        deadline: float | None = None,
        wait_at_most: float | None = None,
    ) -> Turn[PromptT]:
        """Run in the caller's own task: `async with scheduler.turn(session_id, prompt) as run`.

        Waits its turn like a fair lock. A cancel while it waits raises RunCanceled; a cancel while
        inside cancels the body, and comes out as RunCanceled. A body that ends otherwise (returns,
        or raises something else) ends so, whatever the run's outcome. The handler is not called.

        Raises:
            InvalidOption: FOLD, which would let another run take the prompt; or no such option.
        """
        terms = self._terms(deadline, wait_at_most)
        run = self._make(TurnRun, session_id, prompt, run_id, own_turn(when_busy), terms)
        return Turn(self._driver, run)

    # --- events ---

    def subscribe(
        self, session_id: str | None = None, run_id: str | None = None, buffer: int = 1024
    ) -> Subscription[PromptT]:
        """Watch: `async with scheduler.subscribe() as events: async for event in events`.

        It begins with how things stand, so nothing is missed in between. A reader who is more than
        `buffer` events behind misses what comes until it has caught up, but never a RunEnded, and
        reads a Gap in place of what it missed.
        Of a run that has ended only its handle knows, unless it was named and that was lately.

        Raises:
            InvalidSession, InvalidOption: that can't be watched.
        """
        return Subscription(self._driver, session_id, run_id, buffer)

    # --- open and close ---

    async def close(self, drain: float = 0.0) -> CloseReport[PromptT]:
        """Refuse prompts, suspend what waits, and wait until every run has ended.

        Active runs may go on for `drain` seconds and are then interrupted. Closing twice is one
        close, at the earliest time that was asked for; whoever stops waiting does not stop it.

        Raises:
            InvalidOption: `drain` is not a number of seconds; nothing has changed.
            WouldDeadlock: called by a run, which would wait for itself; nothing has changed.
        """
        checks.seconds("drain", drain)
        self._driver.open()
        self._refuse_own_close()
        return await asyncio.shield(self._driver.close(drain))

    def _refuse_own_close(self) -> None:
        me = asyncio.current_task()
        for view in self.snapshot().sessions:
            if isinstance(view.active, AioRun) and view.active.carrier is me:
                msg = "a run can't wait for the close that waits for it; make a task that closes"
                raise WouldDeadlock(msg, view.session_id, view.active.run_id)

    async def __aenter__(self) -> Self:
        self._driver.open()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit) or self._driver.shut is not None:
            self._driver.forget()  # thrown away, or a copy made by a fork: nobody can wait here
            return
        self._refuse_own_close()
        done = self._driver.close(0.0)
        canceled: asyncio.CancelledError | None = None
        while not done.done():  # whoever is impatient must not leave handlers behind
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError as impatience:
                canceled = impatience
        if canceled is not None:
            raise canceled
