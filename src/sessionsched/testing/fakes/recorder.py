"""A recorder: what an observer was told, in words, with assertions that say what came instead."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from sessionsched.events import Gap, RunCanceling, RunEnded, RunFolded, RunProgress, RunStuck

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sessionsched.aio import Scheduler
    from sessionsched.events import RunEvent

__all__ = ["Recorder", "recording"]

#: No test has as many events.
_PLENTY: Final = 1_000_000


def _words(event: RunEvent[Any] | Gap) -> str:
    """Spell an event: its kind, and what there is to say about it."""
    more: tuple[str, ...] = ()
    match event:
        case RunEnded(outcome=outcome):
            more = (outcome.status, *([] if outcome.cause is None else [outcome.cause]))
        case RunCanceling(cause=cause):
            more = (cause,)
        case RunProgress(item=item):
            more = (str(item),)
        case RunFolded(into=into):
            more = (into,)
        case RunStuck(told=told):
            more = (str(told),)
        case Gap(missed=missed):
            more = (str(missed),)
    return ":".join((type(event).__name__.removeprefix("Run").lower(), *more))


class Recorder:
    """Everything that an observer was told, with assertions.

    Events are spelt in words: "accepted", "queued", "started", "folded:run-1", "progress:item",
    "canceling:interrupt", "stuck:2", "ended:completed", "ended:canceled:interrupt", "gap:3". A word
    may stop short: "ended" and "ended:canceled" mean that one, too. `of` is a session or a run, by
    its id.
    """

    def __init__(self) -> None:
        self.events: list[RunEvent[Any] | Gap] = []
        self._waiting: list[tuple[str, tuple[str, ...], asyncio.Future[None]]] = []

    def add(self, event: RunEvent[Any] | Gap) -> None:
        """Take note of an event."""
        self.events.append(event)
        for of, words, future in self._waiting:
            if not future.done() and self._has(of, words):
                future.set_result(None)

    def words(self, of: str | None = None) -> list[str]:
        """Spell all events, or those of a session or a run, in order."""
        return [_words(it) for it in self.events if of is None or of in (it.session_id, it.run_id)]

    def saw(self, of: str, *words: str) -> None:
        """Assert that these came in this order; others may have come in between."""
        __tracebackhide__ = True
        if not self._has(of, words):
            self._fail(f"{', '.join(words)} did not come in this order", of)

    def saw_only(self, of: str, *words: str) -> None:
        """Assert that these came in this order, and no others."""
        __tracebackhide__ = True
        self.saw(of, *words)
        if len(self.words(of)) != len(words):
            self._fail(f"other than {', '.join(words)} came", of)

    def never_saw(self, of: str, word: str) -> None:
        """Assert that this did not come."""
        __tracebackhide__ = True
        if self._has(of, (word,)):
            self._fail(f"{word} came", of)

    async def until(self, of: str, *words: str) -> None:
        """Wait until these have come, in this order."""
        if self._has(of, words):
            return
        waiting = (of, words, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[-1]
        finally:
            self._waiting.remove(waiting)

    def _has(self, of: str, words: Sequence[str]) -> bool:
        seen = iter(self.words(of))
        return all(any(f"{it}:".startswith(f"{word}:") for it in seen) for word in words)

    def _fail(self, what: str, of: str) -> None:
        __tracebackhide__ = True
        seen = "".join(f"\n  {word}" for word in self.words(of)) or " nothing"
        msg = f"of {of!r}: {what}; what came is{seen}"
        raise AssertionError(msg)


@contextlib.asynccontextmanager
async def recording(
    scheduler: Scheduler[Any, Any], session_id: str | None = None, run_id: str | None = None
) -> AsyncIterator[Recorder]:
    """Record what a scheduler tells. After the block everything that came in it has been read."""
    recorder, subscription = Recorder(), scheduler.subscribe(session_id, run_id, buffer=_PLENTY)

    async def read() -> None:
        async for event in subscription:
            recorder.add(event)

    readers: list[asyncio.Task[None]] = []
    try:
        async with subscription:
            readers.append(asyncio.create_task(read()))
            yield recorder
    finally:
        if readers:  # nothing more comes: it reads what is there, and ends
            await asyncio.wait(readers)
