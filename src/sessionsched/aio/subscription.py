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
        #: Straight to what is in the mailbox: this is looked at for every event.
        self._unread = self._mailbox.unread
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
        unread = self._unread
        if not unread:
            await self._something_to_read()
        return unread.popleft()

    async def _something_to_read(self) -> None:
        if self._driver.shut is not None:
            raise SchedulerClosed(self._driver.shut)
        box = self._mailbox
        while not box.unread:
            if box.closed:
                raise StopAsyncIteration
            if box.behind:
                self._driver.hear(box)
            if not box.unread:
                await self._news()

    async def _news(self) -> None:
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
