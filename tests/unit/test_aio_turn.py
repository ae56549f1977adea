"""Turns: how a host gets in, and what is refused."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere
from hosts import Host, Recorder

from sessionsched import (
    Cause,
    DuplicateRun,
    InvalidOption,
    InvalidSession,
    Limits,
    LineFull,
    Run,
    RunNotCompleted,
    RunState,
    Scheduler,
    SchedulerClosed,
    SessionBusy,
    SessionSchedError,
    WhenBusy,
    WouldDeadlock,
    WrongLoop,
)

# --- getting in ---


@pytest.mark.contract("A1", "D4")
async def test_a_turn_in_an_idle_session_comes_at_once() -> None:
    async with Scheduler(Agent()) as scheduler:
        loop_is_free = asyncio.Event()
        asyncio.get_running_loop().call_soon(loop_is_free.set)
        async with scheduler.turn("chat", "hello", run_id="mine") as run:
            assert not loop_is_free.is_set()
            assert (run.state, run.prompt, run.run_id) == (RunState.ACTIVE, "hello", "mine")
            assert scheduler.session("chat").active is run
        assert await ends(scheduler.submit("chat", "hello", run_id="mine")) == [("completed", None)]


@pytest.mark.contract("D1", "D2", "T2")
async def test_turns_and_prompts_come_in_the_order_in_which_they_were_accepted() -> None:
    order: list[str] = []

    async def handler(run: Run[str]) -> str:
        order.append(f"in {run.prompt}")
        await asyncio.sleep(1)
        order.append(f"out {run.prompt}")
        return ""

    async def body(host: Host) -> None:
        await handler(host.run)

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        hosts, handles = [], []
        for number in range(3):
            handles.append(scheduler.submit("chat", f"prompt {number}"))
            hosts.append(Host(scheduler, body, prompt=f"turn {number}"))
            await quiet()
        await ends(*handles)
        assert [await host.fate() for host in hosts] == [(None, "completed", None, 0)] * 3
        names = [f"{kind} {number}" for number in range(3) for kind in ("prompt", "turn")]
        assert order == [f"{step} {name}" for name in names for step in ("in", "out")]
        starts = [line for line in watch.lines() if line.startswith(("RunStarted", "RunEnded"))]
        assert starts == [
            f"{kind} run-{n}" for n in range(1, 7) for kind in ("RunStarted", "RunEnded")
        ]


async def test_a_turn_is_a_run_like_any_other_to_those_who_watch() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler, run_id="me") as watch:
        scheduler.submit("chat", "before")
        agent.finish("before")
        async with scheduler.turn("chat", "hello", run_id="me") as run:
            assert run.emit("news")
            follow_up = scheduler.submit("chat", "more", when_busy=WhenBusy.FOLD)
            assert run.take_follow_ups() == (follow_up.run,)
        assert await ends(follow_up) == [("completed", None)]
        await quiet()
        assert watch.lines() == [
            "RunAccepted me",
            "RunQueued me",
            "RunStarted me",
            "RunProgress me",
            "RunEnded me",
        ]


@pytest.mark.contract("X14")
async def test_an_interrupting_turn_takes_over() -> None:
    async with Scheduler(Agent()) as scheduler:
        first = Host(scheduler)
        await quiet()
        async with scheduler.turn("chat", "now", when_busy=WhenBusy.INTERRUPT):
            assert await first.fate() == ("RunCanceled", "canceled", "superseded", 0)


@pytest.mark.contract("D5")
async def test_turns_in_different_sessions_may_be_nested() -> None:
    async with Scheduler(Agent()) as scheduler:
        async with scheduler.turn("a", "outer") as outer, scheduler.turn("b", "inner") as inner:
            assert (outer.state, inner.state) == (RunState.ACTIVE, RunState.ACTIVE)
        assert (outer.state, inner.state) == (RunState.ENDED, RunState.ENDED)


@pytest.mark.contract("D3")
async def test_a_turn_waits_for_its_preparation() -> None:
    prepared = asyncio.Event()

    async def prepare(_run: Run[str]) -> None:
        await prepared.wait()

    async with Scheduler(Agent(), prepare=prepare) as scheduler:
        host = Host(scheduler)
        await quiet()
        assert (host.entered, host.run.state) == (False, RunState.ACCEPTED)
        prepared.set()
        await quiet()
        assert host.entered
        host.leave()
        assert await host.fate() == (None, "completed", None, 0)


@pytest.mark.contract("D3", "P1")
async def test_a_turn_that_could_not_be_prepared_says_why() -> None:
    async def prepare(_run: Run[str]) -> None:
        raise ValueError("no")

    recorder = Recorder()
    async with Scheduler(Agent(), prepare=prepare, on_dropped=recorder) as scheduler:
        host = Host(scheduler)
        error = await host.error()
        assert not host.entered
        assert isinstance(error, RunNotCompleted)
        assert (host.outcome.status.value, host.outcome.cause) == ("failed", Cause.UNPREPARED)
        assert recorder.recorded == ["me"]
        assert error.__cause__ is host.outcome.error


@pytest.mark.contract("R1")
async def test_a_turn_that_is_remembered_by_its_name_keeps_nothing_of_its_host() -> None:
    async with Scheduler(Agent()) as scheduler:
        host = Host(scheduler, run_id="mine")
        host.leave()
        assert await host.fate() == (None, "completed", None, 0)
        task = weakref.ref(host.task)
        del host
        await quiet()
        gc.collect()
        assert scheduler.explain("mine").why == "ended"
        assert task() is None


@pytest.mark.contract("R1")
@pytest.mark.parametrize("by", ["cancel", "host"])
async def test_a_turn_that_never_came_keeps_nothing_of_its_host(by: str) -> None:
    async with Scheduler(Agent()) as scheduler:
        scheduler.submit("chat", "a")
        host = Host(scheduler, run_id="mine")
        await quiet()
        scheduler.cancel_run("mine") if by == "cancel" else host.task.cancel()
        await host.error()
        task = weakref.ref(host.task)
        del host
        await quiet()
        gc.collect()
        assert scheduler.explain("mine").why == "ended"
        assert task() is None


# --- what is refused ---


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_id": ""}, InvalidSession),
        ({"session_id": None}, InvalidSession),
        ({"run_id": " "}, InvalidOption),
        ({"when_busy": "sometimes"}, InvalidOption),
        ({"when_busy": WhenBusy.REJECT}, SessionBusy),
        ({"deadline": -1}, InvalidOption),
        ({"wait_at_most": "long"}, InvalidOption),
        ({}, LineFull),
    ],
)
async def test_a_turn_that_is_refused_leaves_the_session_as_it_was(
    options: dict[str, Any], error: type[Exception]
) -> None:
    agent = Agent()
    async with Scheduler(agent, limits=Limits(max_waiting=1)) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        before = scheduler.snapshot()
        async with watching(scheduler) as watch:
            with pytest.raises(error):
                async with scheduler.turn(**{"session_id": "chat", "prompt": "me", **options}):
                    pytest.fail("it must not come in")
        assert scheduler.snapshot() == before
        assert len(watch.events) == 2  # only how things stood
        agent.finish("a", "b")
        assert await ends(*handles) == [("completed", None)] * 2


@pytest.mark.contract("A4")
async def test_a_closed_scheduler_has_no_turns() -> None:
    scheduler = Scheduler(Agent())
    await scheduler.close()
    with pytest.raises(SchedulerClosed):
        await scheduler.turn("chat", "me").__aenter__()


def test_a_scheduler_that_is_not_open_has_no_turns() -> None:
    scheduler = Scheduler(Agent())
    with pytest.raises(SchedulerClosed):
        asyncio.run(scheduler.turn("chat", "me").__aenter__())


@pytest.mark.real_loop
async def test_a_turn_is_taken_on_the_loop_of_the_scheduler() -> None:
    async with Scheduler(Agent()) as scheduler:

        def refused() -> bool:
            with pytest.raises(WrongLoop):
                asyncio.run(scheduler.turn("chat", "me").__aenter__())
            return True

        assert elsewhere(refused)
        assert scheduler.snapshot().sessions == ()


@pytest.mark.contract("A5")
@pytest.mark.parametrize("ended", [True, False])
async def test_the_id_of_another_run_cannot_be_used_for_a_turn(*, ended: bool) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "me", run_id="mine")
        if ended:
            agent.finish("me")
            await handle
        with pytest.raises(DuplicateRun):
            async with scheduler.turn("chat", "me", run_id="mine"):
                pytest.fail("it must not come in")
        assert handle.cancel() or ended


@pytest.mark.parametrize("run_id", [None, "mine"])
async def test_a_turn_that_is_over_cannot_be_taken_again(run_id: str | None) -> None:
    async with Scheduler(Agent()) as scheduler:
        turn = scheduler.turn("chat", "me", run_id=run_id)
        async with turn as run:
            pass
        outcome = run.ended
        with pytest.raises(DuplicateRun):
            async with asyncio.timeout(1), turn:
                pytest.fail("it must not come in")
        assert run.ended == outcome
        assert scheduler.snapshot().sessions == ()


@pytest.mark.parametrize("inside", [True, False])
async def test_a_turn_is_taken_by_one_task_alone(*, inside: bool) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        if not inside:
            scheduler.submit("chat", "before")
        host = Host(scheduler)
        await quiet()
        with pytest.raises(DuplicateRun):
            async with asyncio.timeout(1), host.turn:
                pytest.fail("it must not come in")
        agent.finish("before")
        host.leave()
        async with asyncio.timeout(1):
            assert await host.fate() == (None, "completed", None, 0)


async def test_a_turn_that_was_refused_may_be_tried_again() -> None:
    async with Scheduler(Agent()) as scheduler:
        handle = scheduler.submit("chat", "before")
        turn = scheduler.turn("chat", "me", when_busy=WhenBusy.REJECT)
        with pytest.raises(SessionBusy):
            await turn.__aenter__()
        handle.cancel()
        await ends(handle)
        async with turn as run:
            assert run.state is RunState.ACTIVE


@pytest.mark.contract("D1", "F3")
async def test_the_body_of_a_turn_never_runs_after_the_run_was_taken_as_a_follow_up() -> None:
    agent = Agent()

    async def take() -> None:
        host = Host(scheduler, when_busy=WhenBusy.FOLD)
        await quiet()
        agent.runs["before"].take_follow_ups()
        agent.finish("before")
        host.leave()
        await host.task

    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "before")
        await quiet()
        with pytest.raises(SessionSchedError):  # at the door, or when it has ended in another run
            await take()


# --- who would wait for itself ---


@pytest.mark.parametrize("when_busy", [WhenBusy.QUEUE, WhenBusy.INTERRUPT])
async def test_a_turn_within_a_turn_of_the_same_session_would_deadlock(when_busy: WhenBusy) -> None:
    async with Scheduler(Agent()) as scheduler, watching(scheduler) as watch:
        async with scheduler.turn("chat", "outer") as run:
            with pytest.raises(WouldDeadlock) as caught:
                async with scheduler.turn("chat", "inner", when_busy=when_busy):
                    pytest.fail("it must not come in")
            assert (caught.value.session_id, caught.value.run_id) == ("chat", run.run_id)
            await quiet()
        await quiet()
        assert watch.lines() == ["RunAccepted run-1", "RunStarted run-1", "RunEnded run-1"]


async def test_a_turn_within_a_handler_of_the_same_session_would_deadlock() -> None:
    async def handler(run: Run[str]) -> str:
        with pytest.raises(WouldDeadlock):
            await scheduler.turn(run.session_id, "inner").__aenter__()
        async with scheduler.turn("other", "inner"):
            return "done"

    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "outer") == "done"


async def test_a_circle_of_turns_is_refused_where_it_would_close() -> None:
    async with Scheduler(Agent()) as scheduler:

        async def then_b(host: Host) -> None:
            async with scheduler.turn("b", "second"):
                pass

        async with scheduler.turn("b", "mine"):
            other = Host(scheduler, then_b, session_id="a")
            await quiet()
            assert other.entered
            with pytest.raises(WouldDeadlock):
                await scheduler.turn("a", "closes the circle").__aenter__()
            assert scheduler.waiting("a") == ()
        assert await other.fate() == (None, "completed", None, 0)


@pytest.mark.contract("S6")
async def test_closing_within_a_turn_would_deadlock() -> None:
    async with Scheduler(Agent()) as scheduler:
        async with scheduler.turn("chat", "me"):
            with pytest.raises(WouldDeadlock):
                await scheduler.close()
        async with scheduler.turn("chat", "and nothing has closed"):
            pass
