"""The two worlds that the conformance suite is run in: tasks on a loop, and threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest
from worlds_base import STUCK_S, WHO, Host, Recorder, World

from sessionsched import RunStuck, Scheduler, ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from concurrent.futures import Future

    from sessionsched import CloseReport, Outcome, Run, ThreadRun
    from sessionsched.face import Face

__all__ = ["STUCK_S", "WHO", "Host", "Recorder", "ThreadWorld", "World", "both_worlds"]


class AioWorld(World):
    """A real event loop in a thread of its own; the test calls the scheduler from outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        #: What asyncio would only log.
        self._complaints: list[dict[str, Any]] = []
        self._loop.set_exception_handler(lambda _, it: self._complaints.append(it))
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def _later(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _now(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._later(coroutine).result(STUCK_S)

    def _make(self, options: dict[str, Any]) -> Face[str, Any, Any]:
        async def make() -> Scheduler[str, str]:
            return Scheduler(self._handler, **options)

        made: Scheduler[str, str] = self._now(make())
        return made

    async def _handler(self, run: Run[str]) -> str:
        prompt = run.prompt
        try:
            first = self._begin(f"start {prompt}", prompt, run)
            if inspect.isawaitable(first):
                await first
            while True:
                try:
                    return await self._past(prompt)
                except asyncio.CancelledError:
                    self.note(f"stop {prompt}")
                    if prompt not in self.stubborn:
                        raise
        finally:
            self.note(f"over {prompt}")

    async def _hook(self, name: str, run: Run[str]) -> None:
        entry = f"{name} {run.prompt}"
        self._begin(entry, entry, run)
        if entry in self._gates:
            await self._past(entry)
        self.note(f"{entry} over")

    async def _past(self, name: str) -> str:
        gate = self.gate(name)
        if gate.done():  # else it takes a tick or two, in which the next cancel may come
            return gate.result()
        # Shielded: a cancel of whoever waits here must not cancel the gate.
        return await asyncio.shield(asyncio.wrap_future(gate))

    def _take(self, turn: Any) -> Future[None]:
        async def take() -> None:
            async with turn as run:
                await self._handler(run)

        return self._later(take())

    def _subscribe(self, recorder: Recorder, subscription: Any) -> None:
        async def read() -> None:
            async with subscription as events:
                recorder.begun.set()
                await asyncio.wrap_future(recorder.may_read)
                async for event in events:
                    recorder.add(event)

        self._later(read()).add_done_callback(lambda it: _copy(it, recorder.over))

    def begin_close(self, drain: float = 0.0) -> Future[CloseReport[str]]:
        return self._later(self.scheduler.close(drain))  # type: ignore[attr-defined]

    def outcome(self, handle: Any) -> Outcome[str]:
        outcome: Outcome[str] = self._now(handle.outcome())
        return outcome

    def value(self, handle: Any) -> str:
        async def wait() -> Any:
            return await handle

        return str(self._now(wait()))

    def enter(self, turn: Any) -> Any:
        return turn.__aenter__()

    def give_up(self, handle: Any) -> None:
        async def wait() -> None:
            waiter = asyncio.create_task(handle.outcome())
            await asyncio.sleep(0)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter

        self._now(wait())

    def block(self, body: Callable[[Face[str, Any, Any]], None]) -> BaseException | None:
        async def use() -> None:
            async with Scheduler(self._handler) as scheduler:
                body(scheduler)

        return self._later(use()).exception(STUCK_S)

    def check_told(self, prompt: str, times: int) -> None:
        """It is canceled anew."""
        self.wait_until(lambda: self.log.count(f"stop {prompt}") >= times, f"{times} stops")

    def check_nothing_left(self) -> None:
        assert self._left() == [], "something is left behind (S7)"

    def _left(self) -> list[object]:
        async def look() -> list[object]:
            await asyncio.sleep(0)  # let the last callbacks run
            me = asyncio.current_task()
            return [it for it in asyncio.all_tasks() if it is not me] + [
                it for it in getattr(self._loop, "_scheduled", ()) if not it.cancelled()
            ]

        left: list[object] = self._now(look())
        return left

    def _leave(self) -> None:
        async def wait() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:  # handlers that were abandoned, and have just been let go
                await asyncio.wait(others, timeout=STUCK_S)

        self._now(wait())
        left = self._left()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STUCK_S)
        self._loop.close()
        assert left == [], "something is left behind (S7)"
        assert self._complaints == []


class ThreadWorld(World):
    """Threads. The test's own thread is one of many."""

    def __init__(self) -> None:
        super().__init__()
        self._before = set(threading.enumerate())

    def _make(self, options: dict[str, Any]) -> Face[str, Any, Any]:
        return ThreadScheduler(self._handler, **options)

    def _handler(self, run: ThreadRun[str]) -> str:
        prompt, moment = run.prompt, threading.Event()
        gate = self.gate(prompt)
        gate.add_done_callback(lambda _: moment.set())
        try:
            self._begin(f"start {prompt}", prompt, run)
            run.on_cancel(moment.set)
            assert moment.wait(STUCK_S)
            if not gate.done():
                self.note(f"stop {prompt}")
                if prompt not in self.stubborn:
                    run.raise_if_canceled()
            return gate.result(STUCK_S)
        finally:
            self.note(f"over {prompt}")

    def _hook(self, name: str, run: Run[str]) -> None:
        entry = f"{name} {run.prompt}"
        self._begin(entry, entry, run)
        if entry in self._gates:
            self.gate(entry).result(STUCK_S)
        self.note(f"{entry} over")

    def _take(self, turn: Any) -> Future[None]:
        def take() -> None:
            with turn as run:
                self._handler(run)

        return self.aside(take)

    def _subscribe(self, recorder: Recorder, subscription: Any) -> None:
        def read() -> None:
            with subscription as events:
                recorder.begun.set()
                recorder.may_read.result(STUCK_S)
                for event in events:
                    recorder.add(event)

        self.aside(read).add_done_callback(lambda it: _copy(it, recorder.over))

    def begin_close(self, drain: float = 0.0) -> Future[CloseReport[str]]:
        return self.aside(lambda: self.scheduler.close(drain))  # type: ignore[attr-defined]

    def outcome(self, handle: Any) -> Outcome[str]:
        outcome: Outcome[str] = handle.outcome(STUCK_S)
        return outcome

    def value(self, handle: Any) -> str:
        return str(handle.result(STUCK_S))

    def enter(self, turn: Any) -> Any:
        return turn.__enter__()

    def give_up(self, handle: Any) -> None:
        with pytest.raises(TimeoutError):
            handle.outcome(0.0)

    def block(self, body: Callable[[Face[str, Any, Any]], None]) -> BaseException | None:
        def use() -> None:
            with ThreadScheduler(self._handler) as scheduler:
                body(scheduler)

        return self.aside(use).exception(STUCK_S)

    def check_told(self, prompt: str, times: int) -> None:
        """Nobody can stop a thread: the run carries the cancel, and is reported as stuck."""
        assert self.events.wait_for(RunStuck, prompt, times).told >= times
        assert self.runs[prompt].canceled
        self.wait_until(lambda: f"stop {prompt}" in self.log, "it has noticed")
        assert self.log.count(f"stop {prompt}") == 1

    def check_nothing_left(self) -> None:
        assert self._left() == [], "something is left behind (S7)"

    def _left(self) -> list[threading.Thread]:
        there = set(threading.enumerate()) - self._before
        return [it for it in there if it.name.startswith("sessionsched")]

    def _leave(self) -> None:
        for thread in self._left():  # of handlers and hooks that were written off
            thread.join(STUCK_S)
        self.check_nothing_left()


def _copy(source: Future[None], target: Future[None]) -> None:
    error = source.exception()
    if error is None:
        target.set_result(None)
    else:
        target.set_exception(error)


@pytest.fixture(params=[AioWorld, ThreadWorld], ids=["aio", "threads"])
def both_worlds(request: pytest.FixtureRequest) -> Iterator[World]:
    """Run the test in each of them."""
    world: World = request.param()
    yield world
    world.end()
