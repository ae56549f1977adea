"""`async with` closes however its block ends; and what a close must not wait for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet

from sessionsched import Scheduler, SchedulerClosed, WouldDeadlock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from sessionsched import CloseReport, Run, RunHandle, Table

COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")


def now() -> float:
    return asyncio.get_running_loop().time()


class Slow(Agent):
    """An agent whose handlers take two seconds to unwind."""

    async def __call__(self, run: Run[str]) -> str:
        try:
            return await super().__call__(run)
        except asyncio.CancelledError:
            await asyncio.sleep(2)
            self.log.append(f"gone {run.prompt}")
            raise


# --- however the block ends ---


class Block:
    """A task with a scheduler in an `async with`, whose body does as the test says."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self.agent = Slow()
        self.handles: list[RunHandle[str, str]] = []
        self.body = body
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with Scheduler(self.agent) as scheduler:
            self.handles += [scheduler.submit("chat", prompt) for prompt in "ab"]
            await quiet()
            await self.body()

    async def error(self) -> BaseException | None:
        """What came out of it; then nothing goes on that was begun in it."""
        await asyncio.wait([self.task])
        assert self.agent.log[-1] == "gone a"
        assert await ends(*self.handles) == [SUSPENDED, SUSPENDED]
        return asyncio.CancelledError() if self.task.cancelled() else self.task.exception()


@pytest.mark.contract("S8")
async def test_a_block_that_comes_to_its_end_closes() -> None:
    block = Block(quiet)
    assert await block.error() is None
    assert now() == pytest.approx(2)


@pytest.mark.contract("S8")
async def test_a_block_that_raises_closes_and_raises() -> None:
    async def raises() -> None:
        raise error

    error = ValueError("no")
    assert await Block(raises).error() is error


@pytest.mark.contract("S8")
@pytest.mark.parametrize("cancels", [1, 2, 5])
async def test_a_block_that_is_canceled_closes_however_often(cancels: int) -> None:
    block = Block(lambda: asyncio.sleep(99))
    await asyncio.sleep(1)
    for _ in range(cancels):
        block.task.cancel()
        await asyncio.sleep(0.25)
    assert isinstance(await block.error(), asyncio.CancelledError)
    assert now() == pytest.approx(3)


@pytest.mark.contract("S8")
@pytest.mark.parametrize("body", ["returns", "raises"])
async def test_a_cancel_while_the_block_closes_comes_out_when_that_is_done(body: str) -> None:
    async def does() -> None:
        if body == "raises":
            raise ValueError("no")

    block = Block(does)
    await asyncio.sleep(1)
    block.task.cancel()
    assert isinstance(await block.error(), asyncio.CancelledError)
    assert now() == pytest.approx(2)


@pytest.mark.contract("S8")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_block_that_is_torn_down_closes_first(error: BaseException) -> None:
    agent = Agent()
    handles: list[RunHandle[str, str]] = []

    async def main() -> None:
        async with Scheduler(agent) as scheduler:
            handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
            await quiet()
            raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(main())
    assert caught.value is error
    outcomes = [it.run.ended for it in handles]
    assert [it and (it.status, it.cause) for it in outcomes] == [SUSPENDED, SUSPENDED]
    assert agent.log == ["start a", "stop a", "over a"]


@pytest.mark.contract("S6", "S8")
async def test_a_block_may_be_left_by_a_scheduler_that_is_closed_or_closes_already() -> None:
    agent = Slow()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        closing = asyncio.create_task(scheduler.close(drain=60))
        await quiet()
    assert now() == pytest.approx(2), "leaving is a close without a drain"
    assert (await closing).suspended == (handle.run,)
    async with scheduler:
        with pytest.raises(SchedulerClosed):
            scheduler.submit("chat", "b")


@pytest.mark.contract("S8")
async def test_a_block_in_a_generator_that_is_thrown_away_closes_without_anybody_waiting() -> None:
    agent = Slow()
    handles: list[RunHandle[str, str]] = []

    async def generate() -> AsyncGenerator[str, None]:
        async with Scheduler(agent) as scheduler:
            handles.append(scheduler.submit("chat", "a"))
            yield "a"

    generator = generate()
    assert await anext(generator) == "a"
    await quiet()
    await generator.aclose()
    assert now() == 0
    assert await ends(*handles) == [SUSPENDED]
    assert now() == pytest.approx(2)


# --- a close that would wait for itself ---


@pytest.mark.parametrize("way", ["close", "leave"])
async def test_a_run_that_would_wait_for_the_close_that_waits_for_it_is_told(way: str) -> None:
    async def handler(run: Run[str]) -> str:
        with pytest.raises(
            WouldDeadlock, match=r"^a run can't wait for the close that waits for it; make"
        ) as refused:
            await (scheduler.close() if way == "close" else scheduler.__aexit__(None, None, None))
        assert (refused.value.session_id, refused.value.run_id) == ("chat", run.run_id)
        return "told"

    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "a") == "told"
        assert not scheduler.snapshot().closed, "nothing has changed"


async def test_the_host_of_a_turn_is_told_too() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "before")
        await quiet()
        agent.finish("before")
        async with scheduler.turn("chat", "me"):
            with pytest.raises(WouldDeadlock):
                await scheduler.close()


async def test_a_handler_may_have_a_task_that_closes() -> None:
    async def handler(run: Run[str]) -> None:
        closing.append(asyncio.create_task(scheduler.close()))
        await asyncio.sleep(99)

    closing: list[asyncio.Task[CloseReport[str]]] = []
    scheduler = Scheduler(handler)
    handle = scheduler.submit("chat", "a")
    assert await ends(handle) == [SUSPENDED]
    assert (await closing[0]).suspended == (handle.run,)


@pytest.mark.parametrize("hook", ["prepare", "on_dropped"])
async def test_a_hook_that_closes_does_not_wait_for_ever(hook: str) -> None:
    async def closes(run: Run[str]) -> None:
        await scheduler.close()

    hooks: dict[str, Any] = {hook: closes}
    scheduler = Scheduler(Agent(), settle_timeout=3, **hooks)
    first = scheduler.submit("chat", "a")
    first.cancel()
    second = None if hook == "on_dropped" else scheduler.submit("chat", "b")
    await quiet()
    assert scheduler.snapshot().closed
    await scheduler.close()
    assert now() <= 3
    assert await ends(first) == [("canceled", "interrupt")]
    assert second is None or await ends(second) == [SUSPENDED]


# --- an accept that races the close ---


class Filed(str):
    """A session id: who files it away stops, once it is in the table, and takes its time."""

    __slots__ = ("go", "stopped", "table")

    table: Table[str]
    stopped: threading.Event
    go: threading.Event

    def __hash__(self) -> int:
        if threading.current_thread() is not threading.main_thread() and len(self.table) > 1:
            self.stopped.set()
            assert self.go.wait(10)
        return super().__hash__()


@pytest.mark.contract("S1", "S5")
@pytest.mark.real_loop
async def test_a_prompt_that_is_refused_while_the_last_run_ends_does_not_hold_up_the_close() -> (
    None
):
    agent = Agent()
    scheduler = Scheduler(agent)
    last = scheduler.submit("chat", "a")
    closing = asyncio.create_task(scheduler.close(drain=1000))
    await quiet()
    late = Filed("another chat")
    late.table = scheduler._driver.table
    late.stopped, late.go = threading.Event(), threading.Event()

    def submit() -> None:
        with pytest.raises(SchedulerClosed):
            scheduler.submit(late, "b")
        refused.set()

    refused = threading.Event()
    thread = threading.Thread(target=submit)
    thread.start()
    assert late.stopped.wait(60)
    agent.finish("a")
    assert await ends(last) == [COMPLETED]
    late.go.set()
    thread.join(60)
    assert refused.is_set()
    await quiet()
    assert closing.done(), "nobody looks again"
    await closing
