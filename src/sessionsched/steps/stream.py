"""One attempt: a stream is read into a draft, until it is finished, failed, silent or canceled.

Rule 1. A cancel beats everything: what came before it is kept, and no error of the provider counts.
Rule 2. A stream that is finished is whole: what goes wrong while it is closed changes nothing.
Rule 3. A part is in the draft when observers are told of it.
Rule 4. The stream is read, and closed, in one task, which is not the run's own: a CancelledError
        that comes out of it is the provider's.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from sessionsched.steps.draft import Draft
from sessionsched.steps.faults import ProviderCanceled, StreamCut, StreamSilent

if TYPE_CHECKING:
    from sessionsched.steps.parts import Part
    from sessionsched.steps.reach import Reach
    from sessionsched.steps.request import Model, Request

__all__ = ["Attempt"]

#: For a stream to close itself, when it is finished or was told to stop.
CLOSE_S: Final = 5.0


class Attempt:
    """One stream of a model, from its request on."""

    def __init__(self, reach: Reach, model: Model, request: Request, silence_s: float) -> None:
        self._reach = reach
        self._model = model
        self._request = request
        self._clock = asyncio.get_running_loop().time
        self.draft = Draft()
        #: When it gave its last sign of life, and how long it may be silent from then on.
        self._heard = self._clock()
        self._patience_s = silence_s

    async def read(self) -> Draft:
        """Give what was streamed: whole if it has a finish, else cut off by a cancel.

        Raises:
            StreamFault: nothing came for too long, it had no end, or it canceled itself.
            BaseException: what the provider raised.
        """
        reader = self._reach.start(self._read())
        over = await self._listen(reader)
        self.draft.sealed = True
        if not over:
            await self._stop(reader)
        if self.draft.finish is None and not self._reach.canceled:
            raise self._fault(reader) if over else self._silent()
        _raise_if_torn(reader)
        return self.draft

    async def _listen(self, reader: asyncio.Task[None]) -> bool:
        """Wait for as long as it says something. True: it is over by itself."""
        while not self._reach.canceled and (left := self._left()) > 0:
            # Looks at the clock now and then, and sets no timer for each part. Not too seldom:
            # a stream that does not close after its Finish is not to be waited for so long.
            if await self._reach.wait([reader], min(left, CLOSE_S)):
                break
        return reader.done()

    def _left(self) -> float:
        return self._heard + self._patience_s - self._clock()

    async def _stop(self, reader: asyncio.Task[None]) -> None:
        """Tell it to stop. If we are canceled it is waited for in the end, else for a while."""
        reader.cancel()
        if self._reach.canceled or await self._reach.wait([reader], CLOSE_S):
            return
        if not self._reach.canceled:
            self._reach.forget(reader)

    # --- in the reader's task ---

    async def _read(self) -> None:
        parts: Any = aiter(self._model(self._request))
        try:
            async for part in parts:
                if not self._take(part):
                    break
        finally:
            if hasattr(parts, "aclose"):  # an iterator need not have it; generators do
                await parts.aclose()

    def _take(self, part: Part) -> bool:
        """Take one part. False: nobody wants more."""
        if self.draft.sealed:
            return False
        self._heard = self._clock()
        self.draft.add(part)
        self._request.run.emit(part)
        if self.draft.finish is not None:
            self._patience_s = CLOSE_S
            return False
        # A stream that never waits would keep a cancel from striking; so look for it.
        return not self._reach.canceled

    # --- faults ---

    def _silent(self) -> StreamSilent:
        return StreamSilent(f"nothing came for {self._patience_s} s", *self._about())

    def _fault(self, reader: asyncio.Task[None]) -> BaseException:
        try:
            reader.result()
        except asyncio.CancelledError as stray:
            fault = ProviderCanceled("the provider canceled; nobody else did", *self._about())
            fault.__cause__ = stray
            return fault
        except BaseException as error:  # noqa: BLE001 - it is raised by who asked
            return error
        return StreamCut("the stream was over before its Finish", *self._about())

    def _about(self) -> tuple[str, str]:
        return self._request.run.session_id, self._request.run.run_id


def _raise_if_torn(reader: asyncio.Task[None]) -> None:
    """Let through what stops the whole program: that is no error of the provider."""
    if reader.done() and not reader.cancelled():
        error = reader.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
