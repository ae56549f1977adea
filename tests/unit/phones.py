"""Dials, validations and connections that do as they are told, for the tests of `dial`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from sessionsched.dial import Dialed, dial_with_lazy_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Act = Callable[[], Coroutine[Any, Any, Any]]

OLD, NEW = "old", "new"
DELAY = 5.0


def now() -> float:
    return asyncio.get_running_loop().time()


def after(seconds: float, what: object) -> Act:
    """Give `what` after a while, or raise it."""

    async def act() -> object:
        await asyncio.sleep(seconds)
        if isinstance(what, BaseException):
            raise what
        return what

    return act


def stubborn(seconds: float, what: object) -> Act:
    """Do the same, and take no notice of cancels."""

    async def act() -> object:
        over = now() + seconds
        while now() < over:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(over - now())
        return await after(0, what)()

    return act


class Connection:
    def __init__(self, target: str) -> None:
        self.target = target
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class SlowToClose:
    """A connection whose close has to be awaited."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    async def close(self) -> None:
        self.closed.append("begun")
        await asyncio.sleep(1000)
        self.closed.append("done")


class Phone:
    """What is dialed and what is asked, when, and what became of it."""

    def __init__(self, *dials: Act, validate: Act | None = None) -> None:
        self._dials = list(dials)
        self._validate = validate
        self.log: list[tuple[float, str]] = []
        #: Every connection that has come of a dial.
        self.made: list[Any] = []
        self.begun = now()

    def note(self, what: str) -> None:
        self.log.append((now() - self.begun, what))

    async def dial(self, target: str) -> Any:
        self.note(f"dial {target}")
        act = self._dials.pop(0)
        try:
            self.made.append(await act())
        except asyncio.CancelledError:
            self.note(f"dial {target} canceled")
            raise
        return self.made[-1]

    async def validate(self, target: str) -> str | None:
        self.note(f"validate {target}")
        assert self._validate is not None, "nobody should have asked"
        answer: str | None = await self._validate()
        return answer

    async def call(self, delay: float = DELAY) -> Dialed[str, Any]:
        try:
            return await dial_with_lazy_validation(OLD, self.dial, self.validate, delay)
        finally:
            self.note("over")
