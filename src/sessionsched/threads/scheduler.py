"""ThreadScheduler: sessions on threads. What people call; the driver does the rest."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic

from attrs import evolve

from sessionsched import checks
from sessionsched.errors import WouldDeadlock
from sessionsched.face import Face, own_turn
from sessionsched.model import Limits, PromptT, ResultT, WhenBusy
from sessionsched.options import Options
from sessionsched.threads.driver import ThreadDriver
from sessionsched.threads.handle import ThreadHandle, ThreadTicket
from sessionsched.threads.run import ThreadRun
from sessionsched.threads.subscription import ThreadSubscription
from sessionsched.threads.turn import ThreadTurn, ThreadTurnRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from sessionsched.model import CloseReport

__all__ = ["ThreadScheduler"]


class ThreadScheduler(
    Face[PromptT, ThreadHandle[PromptT, ResultT], ThreadTicket[PromptT, ResultT]],
    Generic[PromptT, ResultT],
):
    """Runs prompts, one at a time for each session, on a few threads.

    Use it in `with`, which closes it however its block ends. Sessions don't hold threads: a thread
    runs whatever may start next. Everything may be called from any thread.
    """

    _ticket_kind = ThreadTicket

    def __init__(
        self,
        handler: Callable[[ThreadRun[PromptT]], ResultT],
        *,
        threads: int = 8,
        on_dropped: Callable[[ThreadRun[PromptT]], object] | None = None,
        prepare: Callable[[ThreadRun[PromptT]], object] | None = None,
        prepare_timeout: float | None = None,
        limits: Limits | None = None,
        grace: float = 5.0,
        abandon_after: float | None = None,
        settle_timeout: float = 5.0,
    ) -> None:
        """Make a scheduler. Its threads come when there is something to do.

        Args:
            handler: Does the work of a run: `def handler(run) -> result`.
            threads: How many runs may be active at once, turns included.
            on_dropped: Called once for every run that ends without its handler's having been
                called, before that end is announced and before a later run of the session starts.
                Runs that are dropped together are recorded concurrently.
            prepare: Called for every submitted run; the run keeps its place, and may start after.
            prepare_timeout: Seconds for `prepare`, or for a ticket to become ready. None: no limit.
            limits: How many runs may wait, or be active.
            grace: Seconds after which a handler that goes on after a cancel is reported as stuck.
            abandon_after: Seconds after which such a handler is no longer waited for, and its
                thread is replaced. None: never.
            settle_timeout: Seconds for one call of `on_dropped`.

        Raises:
            InvalidOption: a function is written with `async def`, or a number is out of range.
        """
        checks.at_least(1, "threads", threads)
        limits = limits or Limits()
        active = threads if limits.max_active is None else min(threads, limits.max_active)
        options = Options.checked(
            checks.plain_function,
            handler,
            on_dropped=on_dropped,
            prepare=prepare,
            prepare_timeout=prepare_timeout,
            limits=evolve(limits, max_active=active),
            grace=grace,
            abandon_after=abandon_after,
            settle_timeout=settle_timeout,
        )
        self._run_kind = ThreadRun  # not in the class: there it would be found at thrice the price
        self._driver: ThreadDriver[PromptT] = ThreadDriver(options, threads)

    def turn(
        self,
        session_id: str,
        prompt: PromptT,
        *,
        run_id: str | None = None,
        when_busy: WhenBusy = WhenBusy.QUEUE,
        deadline: float | None = None,
        wait_at_most: float | None = None,
    ) -> ThreadTurn[PromptT]:
        """Run in the caller's own thread: `with scheduler.turn(session_id, prompt) as run`.

        Waits its turn like a fair lock. A cancel while it waits raises RunCanceled; while inside,
        `run` carries it, as for a handler. The handler is not called.

        Raises:
            InvalidOption: FOLD, which would let another run take the prompt; or no such option.
        """
        terms = self._terms(deadline, wait_at_most)
        run = self._make(ThreadTurnRun, session_id, prompt, run_id, own_turn(when_busy), terms)
        return ThreadTurn(self._driver, run)

    def subscribe(
        self, session_id: str | None = None, run_id: str | None = None, buffer: int = 1024
    ) -> ThreadSubscription[PromptT]:
        """Watch: `with scheduler.subscribe() as events: for event in events`.

        It begins with how things stand, so nothing is missed in between. A reader who is more than
        `buffer` events behind misses what comes until it has caught up, but never a RunEnded, and
        reads a Gap in place of what it missed.
        Of a run that has ended only its handle knows, unless it was named and that was lately.

        Raises:
            InvalidSession, InvalidOption: that can't be watched.
        """
        return ThreadSubscription(self._driver, session_id, run_id, buffer)

    def close(self, drain: float = 0.0) -> CloseReport[PromptT]:
        """Refuse prompts, suspend what waits, and wait until every run has ended.

        Active runs may go on for `drain` seconds and are then told to stop. Closing twice is one
        close, at the earliest time that was asked for.

        Raises:
            InvalidOption: `drain` is not a number of seconds; nothing has changed.
            WouldDeadlock: called by a run, which would wait for itself; nothing has changed.
        """
        checks.seconds("drain", drain)
        me = threading.get_ident()
        for view in self.snapshot().sessions:
            if isinstance(view.active, ThreadRun) and view.active.carrier == me:
                msg = "a run can't wait for the close that waits for it; let another thread close"
                raise WouldDeadlock(msg, view.session_id, view.active.run_id)
        return self._driver.close(drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()
