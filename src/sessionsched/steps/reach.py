"""Reach: the one place where the loop waits, and so the one where a cancel can strike it.

Rule 1. The run's own task waits in here and nowhere else. A cancel that strikes is written down,
        and whoever waited looks at `canceled`.
Rule 2. No cancel is lost: it is raised by `leave`, or, if the turn came to its end before, sent
        once more, and strikes at the next thing that the handler waits for.
Rule 3. Everything else runs in tasks that were started here: so a CancelledError that comes out of
        one of them is its own and not ours, and one that ignores us does not keep us from seeing
        the next cancel.
Rule 4. All of them are over before the loop is, but for those whose time was limited (`forget`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sessionsched.model import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine
    from types import TracebackType
    from typing import NoReturn, Self

    from sessionsched.model import Run

__all__ = ["Reach"]

ValueT = TypeVar("ValueT")

#: Between the moment from which a run is covered and the cancel of its task. It takes a turn of
#: the loop or two when another thread has canceled; this is for hosts that lose it.
DELIVERY_S: Final = 1.0

#: Told to stop, and nobody waits for them: asyncio itself would not keep them alive.
_forgotten: Final[set[asyncio.Task[Any]]] = set()


class Reach:
    """What a cancel of this run reaches, and when."""

    def __init__(self, run: Run[Any]) -> None:
        self.run = run
        #: The first cancel that struck the loop.
        self._struck: asyncio.CancelledError | None = None
        #: What was started and is neither over nor forgotten.
        self._started: set[asyncio.Task[Any]] = set()

    @property
    def canceled(self) -> bool:
        """Whether the loop should come to an end. Once true, it stays so."""
        return self.run.canceled or self._struck is not None

    @property
    def cause(self) -> Cause:
        """Why it should: EXTERNAL when the task was canceled and nothing covers the run."""
        return self.run.cause or Cause.EXTERNAL

    # --- starting and waiting ---

    def start(self, work: Coroutine[Any, Any, ValueT]) -> asyncio.Task[ValueT]:
        """Have something done beside the loop."""
        task = asyncio.create_task(work)
        self._started.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._started.discard(task)
        _forgotten.discard(task)
        if not task.cancelled():
            task.exception()  # else asyncio complains of one that nobody asked for

    async def wait(
        self, tasks: Collection[asyncio.Task[Any]], limit_s: float | None = None
    ) -> bool:
        """Wait until they are over, the time is, or a cancel strikes. True: they are over."""
        going = [task for task in tasks if not task.done()]
        if going:
            try:
                await asyncio.wait(going, timeout=limit_s)
            except asyncio.CancelledError as cancel:
                self._struck = self._struck or cancel
                # A part, or a tool's answer, may be ready in this very turn of the loop: let it
                # come in. Whoever was canceled before that would lose it.
                await self.sleep(0)
        return all(task.done() for task in tasks)

    async def wait_through(self, tasks: Collection[asyncio.Task[Any]], limit_s: float) -> bool:
        """Wait whatever strikes: for ever, or so long from the first cancel on. True: all over."""
        clock = asyncio.get_running_loop().time
        until: float | None = None
        while until is None or clock() < until:
            if until is None and self.canceled:
                until = clock() + limit_s
            if await self.wait(tasks, None if until is None else until - clock()):
                return True
        return False

    async def sleep(self, seconds: float) -> None:
        """Let time pass, until a cancel strikes."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError as cancel:
            self._struck = self._struck or cancel

    async def out_of_reach(self, work: Coroutine[Any, Any, ValueT], limit_s: float) -> ValueT:
        """Have something done that no cancel touches; from a cancel on it has `limit_s` seconds.

        Raises:
            TimeoutError: it took longer. It was told to stop, and nobody waits for that.
            BaseException: whatever it raised.
        """
        task = self.start(work)
        if not await self.wait_through([task], limit_s):
            self.forget(task)
            msg = f"it took longer than {limit_s} s after the cancel"
            raise TimeoutError(msg)
        return task.result()

    def forget(self, task: asyncio.Task[Any]) -> None:
        """Tell it to stop, and don't wait for it: its time is over, whatever it makes of that."""
        self._started.discard(task)
        _forgotten.add(task)
        task.cancel()

    # --- the end ---

    async def leave(self) -> NoReturn:
        """Let the cancel go on its way.

        Raises:
            CancelledError: always.
        """
        if self._struck is None:
            await self.sleep(DELIVERY_S)
        raise self._struck or asyncio.CancelledError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit):
            return  # nobody can wait in a coroutine that is thrown away
        await self._stop()
        if self._struck is not None and not isinstance(error, asyncio.CancelledError):
            self._send_again()

    async def _stop(self) -> None:
        """Stop everything. Whoever ignores that is told once more with every cancel that comes."""
        while going := [task for task in self._started if not task.done()]:
            for task in going:
                task.cancel()
            await self.wait(going)

    def _send_again(self) -> None:
        """Take the cancel back and send it, so that the task's count of cancels stays right."""
        me = cast("asyncio.Task[Any]", asyncio.current_task())
        me.uncancel()
        me.cancel()
