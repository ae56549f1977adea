"""A subscription: events, as an async iterator that never makes anybody wait but its reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from sessionsched.errors import SchedulerClosed
from sessionsched.hub import Mailbox
from sessionsched.model import PromptT

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType
    from typing import Self

    from sessionsched.aio.driver import AioDriver
    from sessionsched.events import Gap, RunEvent

__all__ = ["Subscription"]


class Subscription(Generic[PromptT]):
    """Events from `async with` on, beginning with how things stand; for one reader.

    It comes to an end when the scheduler has closed and everything was read; one for a single run
    does so after that run's RunEnded.
    """

    def __init__(
        self, driver: AioDriver[PromptT], session_id: str | None, run_id: str | None, buffer: int
    ) -> None:
        self._driver = driver
        self._mailbox: Mailbox[PromptT] = Mailbox.checked(session_id, run_id, buffer, self._wake)
        self._mailbox.waiting = False  # until there is a reader, below
        #: Straight to the mailbox: this is called for every event.
        self._take = self._mailbox.take
        self._ready = self._mailbox.ready
        self._entered = False
        #: The reader, when it waits for something to read.
        self._reader: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._driver.on_its_loop()
        if self._entered:
            raise RuntimeError("a subscription is entered once; subscribe once more")
        self._entered = True
        self._driver.watch(self._mailbox)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._driver.hub.leave(self._mailbox)
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent[PromptT] | Gap:
        """Give the next event, waiting for it if need be.

        Raises:
            RuntimeError: somebody else reads already.
            WrongLoop: read on the scheduler's own loop.
        """
        if self._ready:
            return self._ready.popleft()
        if self._driver.shut is not None:
            raise SchedulerClosed(self._driver.shut)
        while (event := self._take()) is None:
            if self._mailbox.closed:
                raise StopAsyncIteration
            await self._something_to_read()
        return event

    async def _something_to_read(self) -> None:
        self._driver.on_its_loop()
        if not self._entered:
            raise RuntimeError("a subscription begins with `async with`")
        if self._reader is not None:
            raise RuntimeError("a subscription has one reader; subscribe once more for another")
        self._reader = self._driver.loop.create_future()
        # Nothing came in since the mailbox was found empty: events come in on this same loop.
        self._mailbox.waiting = True
        try:
            await self._reader
        finally:
            self._reader = None

    def _wake(self) -> None:
        self._mailbox.waiting = False  # once is enough
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
