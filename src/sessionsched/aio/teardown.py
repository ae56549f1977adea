"""A loop that is torn down closes the schedulers that nobody has closed.

`asyncio.run` cancels all tasks at its end, once: a run that starts after that, because the one
before it was canceled, would neither be canceled nor ever end. But it closes the async generators
of its loop afterwards, and lets each clean up. So every open scheduler has one, which does nothing
but wait for that, and then closes it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from sessionsched.aio.driver import AioDriver

__all__ = ["Teardown"]


class Teardown:
    """Closes a driver when the running loop closes its async generators."""

    def __init__(self, driver: AioDriver[Any]) -> None:
        #: It has come, or there is nothing left to close then.
        self._over = False
        self._generator = self._wait(driver)
        _step(anext(self._generator))  # from here on the loop knows it

    def dismiss(self) -> None:
        """There is nothing left to close."""
        if not self._over:
            self._over = True
            _step(self._generator.aclose())

    async def _wait(self, driver: AioDriver[Any]) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if not self._over:
                self._over = True
                await driver.close(0.0)


def _step(awaitable: Awaitable[object]) -> None:
    """Take a step that does not wait, here and now."""
    with contextlib.suppress(StopIteration):
        awaitable.__await__().send(None)
