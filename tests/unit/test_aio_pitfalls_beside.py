"""Where asyncio bites a scheduler, 8 to 10, 14, 15, 17, 19 and 20: what lives beside a run."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import weakref
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    Cause,
    Limits,
    RunEnded,
    RunProgress,
    RunStarted,
    RunState,
    RunStuck,
    Scheduler,
    SessionState,
    Status,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sessionsched import Run, RunHandle

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


async def for_ever() -> None:
    await asyncio.Event().wait()


# --- 8: shield ---


@pytest.mark.contract("A2", "T6")
async def test_pitfall_08_what_a_handler_shields_outlives_its_run_and_is_fenced_by_its_seq() -> (
    None
):
    store: list[tuple[int, str]] = []
    allowed, shown = asyncio.Event(), []
    parts: list[asyncio.Task[None]] = []

    def write(seq: int, line: str) -> None:
        if seq >= max((it for it, _ in store), default=0):
            store.append((seq, line))

    async def save(run: Run[str]) -> None:
        await allowed.wait()
        shown.append(run.emit("late"))
        write(run.seq, f"late {run.prompt}")

    async def handler(run: Run[str]) -> None:
        write(run.seq, run.prompt)
        if run.prompt == "a":
            parts.append(asyncio.create_task(save(run)))
            await asyncio.shield(parts[0])

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        first = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        assert await ends(first, second) == [CANCELED, COMPLETED]
        allowed.set()
        await parts[0]
        await quiet()
        assert shown == [False]
        assert watch.of(RunProgress) == []
    assert store == [(first.seq, "a"), (second.seq, "b")]


# --- 9: a subscriber raises ---


@pytest.mark.contract("T5")
async def test_pitfall_09_a_subscriber_that_raises_harms_neither_runs_nor_subscribers() -> None:
    agent = Agent()

    async def read_badly() -> None:
        async with scheduler.subscribe() as events:
            async for event in events:
                if isinstance(event, RunStarted):
                    raise TypeError("how shall I draw this?")

    async with Scheduler(agent) as scheduler:
        bad = asyncio.create_task(read_badly())
        async with watching(scheduler) as watch:
            handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
            await quiet()
            agent.finish("a", "b")
            assert [await it for it in handles] == ["a done", "b done"]
            with pytest.raises(TypeError):
                await bad
            await quiet()
            assert [it.run for it in watch.of(RunEnded)] == [it.run for it in handles]


# --- 10: a task that nobody refers to ---


class Forgotten:
    """A handler whose runs wait for something that nobody but they themselves refers to."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._gates: weakref.WeakSet[asyncio.Future[None]] = weakref.WeakSet()

    async def __call__(self, run: Run[str]) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gates.add(gate)
        self.log.append(f"start {run.prompt}")
        await gate
        self.log.append(f"over {run.prompt}")

    async def ignoring_cancels(self, run: Run[str]) -> None:
        for _ in range(2):  # at once, and as it is abandoned
            with contextlib.suppress(asyncio.CancelledError):
                await for_ever()
        await self(run)

    async def remember(self) -> None:
        """Collect whatever can be collected, then let the runs that are left go on."""
        await quiet()
        gc.collect()
        for gate in self._gates:
            gate.set_result(None)
        await quiet()


@pytest.mark.contract("T1", "A6")
async def test_pitfall_10_a_run_is_not_collected_though_nobody_holds_its_handle() -> None:
    forgotten = Forgotten()
    async with Scheduler(forgotten) as scheduler:
        scheduler.submit("chat", "a")
        await forgotten.remember()
        assert forgotten.log == ["start a", "over a"]


@pytest.mark.contract("P1")
async def test_pitfall_10_the_recording_of_a_dropped_run_is_not_collected() -> None:
    forgotten = Forgotten()
    async with Scheduler(Agent(), on_dropped=forgotten) as scheduler:
        scheduler.submit("chat", "a")
        scheduler.submit("chat", "b")
        await quiet()
        scheduler.cancel("chat")
        await forgotten.remember()
        assert forgotten.log == ["start b", "over b"]


async def test_pitfall_10_a_handler_that_was_abandoned_is_not_collected() -> None:
    forgotten = Forgotten()
    async with Scheduler(forgotten.ignoring_cancels, abandon_after=0) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        assert (await handle.outcome()).abandoned
        await forgotten.remember()
        assert forgotten.log == ["start a", "over a"]


@pytest.mark.contract("T1")
async def test_pitfall_10_a_run_is_not_collected_though_nobody_holds_the_scheduler() -> None:
    forgotten = Forgotten()
    Scheduler(forgotten).submit("chat", "a")
    await forgotten.remember()
    assert forgotten.log == ["start a", "over a"]


# --- 14: context variables ---

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@pytest.mark.contract("A7")
async def test_pitfall_14_each_handler_sees_the_context_of_its_own_submitter() -> None:
    agent, seen = Agent(), {}

    async def look(run: Run[str]) -> str:
        seen[run.prompt] = WHO.get()
        WHO.set(f"the handler of {run.prompt}")
        if run.prompt == "a":
            submit("from a", "the handler itself")
        return await agent(run)

    def submit(prompt: str, who: str, when_busy: WhenBusy = WhenBusy.QUEUE) -> None:
        def call() -> None:
            WHO.set(who)
            handles.append(scheduler.submit("chat", prompt, when_busy=when_busy))

        contextvars.copy_context().run(call)

    async def dropped(run: Run[str]) -> None:
        seen[f"drop of {run.prompt}"] = WHO.get()

    handles: list[RunHandle[str, str]] = []
    async with Scheduler(look, on_dropped=dropped) as scheduler:
        for prompt, who in ("a", "Ada"), ("b", "Bob"), ("c", "Cy"):
            submit(prompt, who)
        await quiet()
        agent.finish("a", "b", "d")
        await handles[1]  # b was started by the end of a
        await quiet()
        submit("d", "Dora", WhenBusy.INTERRUPT)
        await handles[-1]
    assert WHO.get() == "nobody"
    assert seen == {
        "a": "Ada", "b": "Bob", "c": "Cy", "d": "Dora", "drop of from a": "the handler itself",
    }  # fmt: skip


# --- 15: an async generator left open ---


@pytest.mark.contract("T2")
async def test_pitfall_15_a_generator_inside_aclosing_is_closed_before_its_run_ends() -> None:
    log: list[str] = []

    async def steps(prompt: str) -> AsyncGenerator[str, None]:
        try:
            yield prompt
        finally:
            await asyncio.sleep(1)
            log.append(f"closed {prompt}")

    async def handler(run: Run[str]) -> None:
        log.append(f"start {run.prompt}")
        async with contextlib.aclosing(steps(run.prompt)) as it:
            async for _ in it:
                await for_ever()

    async with Scheduler(handler) as scheduler:
        first = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        scheduler.submit("chat", "b")
        assert await ends(first) == [CANCELED]
        await quiet()
        assert log == ["start a", "closed a", "start b"]


# --- 17: a handler that ignores every cancel ---


async def ignores_all(run: Run[str], stop: asyncio.Event) -> str:
    while not stop.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await stop.wait()
    return f"{run.prompt} after all"


@pytest.mark.contract("X8", "D5", "D1")
async def test_pitfall_17_behind_a_handler_that_ignores_every_cancel_its_session_waits() -> None:
    stop = asyncio.Event()

    async def handler(run: Run[str]) -> str:
        return await ignores_all(run, stop) if run.prompt == "a" else run.prompt

    async with Scheduler(handler, grace=2) as scheduler, watching(scheduler) as watch:
        first = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        await asyncio.sleep(101)
        assert [it.told for it in watch.of(RunStuck)] == list(range(1, 51))
        assert second.state is RunState.QUEUED
        assert await scheduler.submit("another chat", "c") == "c"
        stop.set()
        assert await ends(first, second) == [CANCELED, COMPLETED]
        assert (await first.outcome()).result == "a after all"


@pytest.mark.contract("X8", "T1")
async def test_pitfall_17_with_abandon_after_the_session_goes_on_without_it() -> None:
    stop = asyncio.Event()

    async def handler(run: Run[str]) -> str:
        return await ignores_all(run, stop) if run.prompt == "a" else run.prompt

    async with Scheduler(handler, grace=2, abandon_after=7) as scheduler:
        asyncio.get_running_loop().call_later(8, stop.set)
        first = scheduler.submit("chat", "a")
        await quiet()
        [task] = [it for it in asyncio.all_tasks() if it.get_name() == first.session_id]
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        assert await second == "b"
        outcome = await first.outcome()
        assert (outcome.status, outcome.cause) == (Status.CANCELED, Cause.INTERRUPT)
        assert outcome.abandoned
        assert outcome.ended_at - outcome.accepted_at == pytest.approx(7)
        assert not task.done()
        assert await task == "a after all"
        assert first.run.ended == outcome
        assert outcome.result is None


# --- 19: the next run starts from inside the last one's end ---

MANY = 3000  # several times deeper than Python recurses


@pytest.mark.contract("R3", "D2")
@pytest.mark.parametrize("how", ["complete", "are dropped", "are superseded", "submit the next"])
async def test_pitfall_19_however_many_runs_follow_each_other_nothing_recurses(how: str) -> None:
    started: list[int] = []

    async def handler(run: Run[int]) -> None:
        started.append(run.prompt)
        if how == "submit the next" and run.prompt < MANY - 1:
            handles.append(scheduler.submit("chat", run.prompt + 1))

    when_busy = WhenBusy.INTERRUPT if how == "are superseded" else WhenBusy.QUEUE
    async with Scheduler(handler, limits=Limits(max_waiting=MANY)) as scheduler:
        count = 1 if how == "submit the next" else MANY
        handles = [scheduler.submit("chat", n, when_busy=when_busy) for n in range(count)]
        if how == "are dropped":
            assert len(scheduler.cancel("chat").covered) == MANY
        for _ in range(MANY):
            await quiet(3)
        assert scheduler.session("chat").state is SessionState.IDLE
        assert all(it.run.ended is not None for it in handles)
        assert len(handles) == MANY
    ran = {"are dropped": [], "are superseded": [MANY - 1]}.get(how, list(range(MANY)))
    assert started == ran


# --- 20: a thread works on ---


@pytest.mark.real_loop
@pytest.mark.contract("R4", "X6", "T2")
async def test_pitfall_20_a_thread_that_looks_at_its_run_stops_before_that_has_ended() -> None:
    log: list[str] = []
    working, look = threading.Event(), threading.Event()

    def work(run: Run[str]) -> str:
        log.append(f"start {run.prompt}")
        working.set()
        while not run.canceled:  # a step, and then a look
            assert look.wait(60)
        log.append(f"stop {run.prompt}")
        return "half of it"

    async def handler(run: Run[str]) -> str:
        if run.prompt == "b":
            log.append("start b")
            return "b done"
        thread = asyncio.create_task(asyncio.to_thread(work, run))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(thread)
        return await thread

    async with Scheduler(handler) as scheduler:
        first = scheduler.submit("chat", "a")
        while not working.is_set():  # noqa: ASYNC110 - a thread can't set an asyncio.Event
            await asyncio.sleep(0)
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        await quiet()
        assert log == ["start a"]
        look.set()
        assert await ends(first, second) == [CANCELED, COMPLETED]
        assert (await first.outcome()).result == "half of it"
    assert log == ["start a", "stop a", "start b"]
    await asyncio.get_running_loop().shutdown_default_executor()
