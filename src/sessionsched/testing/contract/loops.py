"""A base for adapters of asyncio schedulers: a loop of its own, one pass at a time.

Rule 1. Nothing happens on the loop but when the kit lets it: in `step`, and in `rest`.
Rule 2. A handler that awaits `work(seq)` is in the kit's hands. It notes that it was told to stop,
        and goes on until the kit lets it be over.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, TypeVar

from sessionsched.model import How
from sessionsched.testing.contract.adapter import Adapter, Feature

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["HandlerFailed", "LoopAdapter"]

AnswerT = TypeVar("AnswerT")

#: How often what is left is canceled at the end of a story.
ROUNDS = 20


class HandlerFailed(Exception):
    """What a handler raises when the kit lets it fail."""


class LoopAdapter(Adapter):
    """What adapters of asyncio schedulers have in common."""

    features: Collection[Feature] = (Feature.STEPS, Feature.TOLD)
    #: Makes the loop: any loop will do, a simulated one too.
    new_loop: ClassVar[Callable[[], asyncio.AbstractEventLoop]] = asyncio.new_event_loop
    #: A loop can't be asked whether it is at rest: it is taken for that after so many passes
    #: without a note.
    patience: ClassVar[int] = 8

    def __init__(self) -> None:
        super().__init__()
        self.loop = type(self).new_loop()
        #: What the handler of each run waits for: how it is to be over.
        self._gates: dict[int, asyncio.Future[How]] = {}
        #: Passes since the last note or call, and how many notes there were then.
        self._quiet, self._noted = 0, 0

    async def work(self, seq: int) -> None:
        """Be a handler, until the kit lets it be over.

        Raises:
            HandlerFailed: the kit wants it to fail.
            CancelledError: the kit wants it to stop as it was told.
        """
        self.note_started(seq)
        gate = self.loop.create_future()
        self._gates[seq] = gate
        while not gate.done():
            try:
                await asyncio.wait([gate])
            except asyncio.CancelledError:
                self.note_told(seq)
        how = gate.result()
        if how is How.RAISED:
            raise HandlerFailed
        if how is How.STOPPED:
            raise asyncio.CancelledError

    def finish(self, seq: int, how: How) -> None:
        """Let the handler be over."""
        self._quiet = 0
        self._gates.pop(seq).set_result(how)

    def inside(self, call: Callable[..., AnswerT], *args: object) -> AnswerT:
        """Make a plain call as if from a callback of the loop, without letting it go on."""
        self._quiet = 0
        # As loops do it themselves. A callback would have to wait for its turn behind others.
        asyncio._set_running_loop(self.loop)  # noqa: SLF001
        try:
            return call(*args)
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def step(self) -> bool:
        """Let the loop make one pass. False: nothing has come of the last few."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()
        self._quiet = self._quiet + 1 if len(self.history) == self._noted else 0
        self._noted = len(self.history)
        return self._quiet < self.patience

    def stop(self) -> None:
        """Cancel what is left, and close the loop."""
        for _ in range(ROUNDS):  # what ends may start what waits behind it
            for gate in self._gates.values():
                gate.cancel()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self._quiet = 0
            self.rest()
            if not asyncio.all_tasks(self.loop):
                break
        self.loop.close()
