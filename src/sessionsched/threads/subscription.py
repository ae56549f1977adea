"""A subscription: events, as an iterator that makes nobody wait but its reader."""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Generic

from sessionsched.errors import SchedulerClosed
from sessionsched.hub import Mailbox
from sessionsched.model import PromptT
from sessionsched.threads.timers import at_most

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from sessionsched.events import Gap, RunEvent
    from sessionsched.threads.driver import ThreadDriver

__all__ = ["ThreadSubscription"]


class ThreadSubscription(Generic[PromptT]):
    """Events from `with` on, beginning with how things stand.

    It comes to an end when the scheduler has closed and everything was read; one for a single run
    does so after that run's RunEnded.
    """

    def __init__(
        self, driver: ThreadDriver[PromptT], session_id: str | None, run_id: str | None, buffer: int
    ) -> None:
        self._driver = driver
        self._entered = False
        self._news = threading.Event()
        #: Held by whoever reads: there may be several, and a mailbox has one at a time.
        self._reading = threading.Lock()
        self._mailbox: Mailbox[PromptT] = Mailbox.checked(
            session_id, run_id, buffer, self._news.set
        )

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError("a subscription is entered once; subscribe once more")
        self._entered = True
        self._driver.watch(self._mailbox)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._driver.hub.leave(self._mailbox)
        self._news.set()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RunEvent[PromptT] | Gap:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: float | None = None) -> RunEvent[PromptT] | Gap | None:
        """Give the next event, waiting for it if need be. None: there will be no more.

        Raises:
            TimeoutError: there was none in that many seconds.
        """
        if not self._entered:
            raise RuntimeError("a subscription begins with `with`")
        if self._driver.shut is not None:
            raise SchedulerClosed(self._driver.shut)
        box = self._mailbox
        until = None if timeout is None else monotonic() + timeout
        while True:
            self._news.clear()  # before looking: what comes after that sets it again
            with self._reading:
                closed = box.closed  # before the rest: then there is no more to come
                event = box.take()
                if box.unread or closed:
                    self._news.set()  # for another reader
            if event is not None or closed:
                return event
            if box.behind:
                self._driver.hear(box)
            left = None if until is None else max(0.0, until - monotonic())
            if not self._news.wait(at_most(left)):
                raise TimeoutError("no event came in that time")
