"""Ends that others have lost or mixed up (races 6 to 8, 15, 16, 18, 27, 35)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    RunCanceled,
    RunEnded,
    RunNotCompleted,
    Scheduler,
    Scope,
    SessionState,
    Status,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import NoReturn, TypeAlias

    from sessionsched import Run

    Hook: TypeAlias = Callable[[Run[str]], Coroutine[None, None, object]]

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)
FAILED = ("failed", None)


# --- 6, 7: what never starts has an end all the same ---


@pytest.mark.contract("T1", "X1", "X11")
async def test_race_06_whoever_waits_for_a_queued_prompt_hears_that_it_was_dropped() -> None:
    async with Scheduler(Agent()) as scheduler, watching(scheduler) as watch:
        scheduler.submit("chat", "a")
        queued = [scheduler.submit("chat", prompt) for prompt in "bc"]
        waiters = [asyncio.ensure_future(handle.outcome()) for handle in queued for _ in range(2)]
        await quiet()
        receipt = scheduler.cancel("chat")
        outcomes = await asyncio.gather(*waiters)
        await quiet()
        assert [run.prompt for run in receipt.dropped] == ["b", "c"]
        assert {outcome.status for outcome in outcomes} == {Status.CANCELED}
        announced = {event.run_id: event.outcome for event in watch.of(RunEnded)}
        assert [announced[handle.run_id] for handle in queued] == outcomes[::2]
        assert len(watch.of(RunEnded)) == 3
        with pytest.raises(RunCanceled):
            await queued[0]


async def _fails(_run: Run[str]) -> None:
    raise OSError


async def _hangs(_run: Run[str]) -> None:
    await asyncio.sleep(1000)


async def _swallows(run: Run[str]) -> None:
    try:
        await _hangs(run)
    except asyncio.CancelledError:
        await asyncio.sleep(1)


async def _prepares(run: Run[str]) -> None:
    await asyncio.sleep(10 if run.prompt == "a" else 0)


@pytest.mark.contract("T1", "P2", "D4")
@pytest.mark.parametrize("on_dropped", [None, _fails, _hangs, _swallows])
@pytest.mark.parametrize("way_in", ["accept", "prepare", "queue"])
async def test_race_07_a_prompt_that_is_covered_before_it_starts_is_announced(
    way_in: str, on_dropped: Hook | None
) -> None:
    agent = Agent()
    agent.finish("b")
    prepare = _prepares if way_in == "prepare" else None
    async with Scheduler(agent, prepare=prepare, on_dropped=on_dropped) as scheduler:
        if way_in == "queue":
            scheduler.submit("chat", "first")
        ticket = scheduler.accept("chat", "a") if way_in == "accept" else None
        handle = ticket.handle if ticket else scheduler.submit("chat", "a")
        async with watching(scheduler, run_id=handle.run_id) as watch:
            assert scheduler.cancel("chat").dropped == (handle.run,)
            later = scheduler.submit("chat", "b")
            assert await ends(handle, later) == [CANCELED, COMPLETED]
        assert watch.lines()[-1].startswith("RunEnded")
    assert "a" not in agent.started


# --- 8, 35: the line moves, however the run before it ended ---


def _task_of(run_id: str) -> asyncio.Task[object]:
    return next(task for task in asyncio.all_tasks() if task.get_name() == run_id)


ENDINGS: dict[str, tuple[tuple[str, str | None], Callable[[Scheduler[str, str], Agent], object]]]
ENDINGS = {
    "it returns": (COMPLETED, lambda _, agent: agent.finish("a")),
    "it raises": (FAILED, lambda _, agent: agent.fail("a", ValueError("a"))),
    "it is canceled": (CANCELED, lambda scheduler, _: scheduler.cancel_run("a")),
    "its time is over": (("canceled", "deadline"), lambda *_: None),
    "its task is canceled": (("suspended", "external"), lambda *_: _task_of("a").cancel()),
    "its provider is canceled": (FAILED, lambda _, agent: agent._gate("a").cancel()),
}


@pytest.mark.contract("D4", "D2", "D1")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("turns", [0, 1, 20])
async def test_race_08_the_line_moves_and_is_not_overtaken_however_the_run_before_it_ended(
    ending: str, turns: int
) -> None:
    agent = Agent()
    agent.finish("b", "c", "d")
    how, end = ENDINGS[ending]
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", "a", run_id="a", deadline=50)]
        handles += [scheduler.submit("chat", prompt) for prompt in "bc"]
        await quiet(turns)
        end(scheduler, agent)
        await handles[0].outcome()
        handles.append(scheduler.submit("chat", "d"))
        assert await ends(*handles) == [how, COMPLETED, COMPLETED, COMPLETED]
    assert agent.started[-3:] == ["b", "c", "d"]


@pytest.mark.contract("D4", "X2", "R1")
@pytest.mark.parametrize("turns", [0, 1, 20])
@pytest.mark.parametrize("line", [0, 1, 3])
@pytest.mark.parametrize("on_dropped", [None, _prepares])
async def test_race_35_after_a_stop_the_session_is_idle_and_takes_the_next_prompt(
    turns: int, line: int, on_dropped: Hook | None
) -> None:
    agent = Agent()
    agent.finish("next")
    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        handles = [scheduler.submit("chat", "a") for _ in range(1 + line)]
        await quiet(turns)
        scheduler.cancel("chat")
        assert await ends(*handles) == [CANCELED] * len(handles)
        assert scheduler.session("chat").state is SessionState.IDLE
        assert await scheduler.submit("chat", "next", when_busy=WhenBusy.REJECT) == "next done"


@pytest.mark.contract("X9", "X10", "D4")
@pytest.mark.parametrize("hold", [False, True])
async def test_race_35_a_stop_of_the_active_run_alone_keeps_the_line_held_or_not(
    *, hold: bool
) -> None:
    async def handler(run: Run[str]) -> str:
        await asyncio.sleep(1)
        run.take_follow_ups()
        await asyncio.sleep(1)
        return run.prompt

    async with Scheduler(handler) as scheduler:
        taker = scheduler.submit("chat", "a")
        taken = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
        line = [scheduler.submit("chat", prompt) for prompt in "cd"]
        other = scheduler.submit("other", "e")
        await asyncio.sleep(1.5)
        if hold:
            receipt = scheduler.cancel("chat", scope=Scope.ACTIVE, hold=True)
        else:
            receipt = taker.cancel()
        assert receipt.covered == (taker.run, taken.run)
        assert await ends(taker, taken, other) == [CANCELED, CANCELED, COMPLETED]
        await asyncio.sleep(100)
        assert all((it.run.ended is None) is hold for it in line)
        assert scheduler.resume("chat") is hold
        assert await ends(*line) == [COMPLETED, COMPLETED]


# --- 15, 18: each end in its place and under its own name ---


@pytest.mark.contract("T2", "D2")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_race_15_the_end_of_a_run_is_announced_before_the_next_one_starts(
    ending: str,
) -> None:
    agent = Agent()
    agent.finish("b", "c")
    _, end = ENDINGS[ending]
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        handles = [scheduler.submit("chat", it, run_id=it, deadline=50) for it in "abc"]

        async def waiter(prompt: str) -> None:
            await handles["abc".index(prompt)].outcome()
            agent.log.append(f"end {prompt}")

        waiters = [asyncio.create_task(waiter(prompt)) for prompt in "abc"]
        await quiet()
        end(scheduler, agent)
        await asyncio.gather(*waiters)
    lines = [line for line in watch.lines() if line.startswith(("RunStarted", "RunEnded"))]
    assert lines == [f"{kind} {run}" for run in "abc" for kind in ("RunStarted", "RunEnded")]
    told = [line for line in agent.log if line.startswith(("start", "end"))]
    assert told == [f"{what} {prompt}" for prompt in "abc" for what in ("start", "end")]


@pytest.mark.contract("T1", "D5")
async def test_race_18_every_error_is_reported_under_the_run_that_it_belongs_to() -> None:
    async def handler(run: Run[str]) -> str:
        await asyncio.sleep(1)
        if run.prompt.startswith("bad"):
            raise ValueError(run.prompt)
        return run.prompt

    async def on_dropped(run: Run[str]) -> None:
        raise OSError(run.prompt)

    prompts = ["a", "bad b", "c", "bad d", "dropped e", "dropped f", "g"]
    async with Scheduler(handler, on_dropped=on_dropped) as scheduler, watching(scheduler) as watch:
        for session_id in ("chat", "other"):  # side by side
            for prompt in prompts:
                run_id = f"{prompt} {session_id}"
                handle = scheduler.submit(session_id, prompt, run_id=run_id)
                if prompt.startswith("dropped"):
                    handle.cancel()
        await asyncio.sleep(20)
        told = {event.run_id: event for event in watch.of(RunEnded)}
        assert len(told) == len(watch.of(RunEnded)) == 2 * len(prompts)
        for run_id, event in told.items():
            said = event.outcome.result or str(event.outcome.error)
            assert run_id == f"{said} {event.session_id}"
            assert event.outcome == event.run.ended


# --- 16: follow-ups that were taken ---


@pytest.mark.contract("F3", "T1")
async def test_race_16_follow_ups_do_not_vanish_when_the_first_one_can_not_be_recorded() -> None:
    async def handler(run: Run[str]) -> str:
        await asyncio.sleep(1)
        for follow_up in run.take_follow_ups():
            raise OSError(follow_up.prompt)  # it can't be recorded
        return run.prompt

    async with Scheduler(handler) as scheduler:
        taker = scheduler.submit("chat", "a")
        taken = [scheduler.submit("chat", it, when_busy=WhenBusy.FOLD) for it in "bcd"]
        later = scheduler.submit("chat", "e")
        assert await ends(taker, *taken, later) == [FAILED] * 4 + [COMPLETED]
        outcomes = [await handle.outcome() for handle in taken]
        assert {str(outcome.error) for outcome in outcomes} == {"b"}
        assert {outcome.folded_into for outcome in outcomes} == {taker.run_id}


@pytest.mark.contract("P1", "P2")
async def test_race_16_drops_do_not_vanish_when_the_first_one_can_not_be_recorded() -> None:
    tried = []

    async def on_dropped(run: Run[str]) -> None:
        tried.append(run.prompt)
        if run.prompt == "b":
            raise OSError

    async with Scheduler(Agent(), on_dropped=on_dropped) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "abcd"]
        await quiet()
        scheduler.cancel("chat")
        assert await ends(*handles) == [CANCELED] * 4
        failed = [(await handle.outcome()).error is not None for handle in handles]
        assert failed == [False, True, False, False]
    assert tried == ["b", "c", "d"]


# --- 27: a cancel that nobody asked for ---


async def _raised(_run: Run[str]) -> NoReturn:
    raise asyncio.CancelledError("provider")


async def _let_through(_run: Run[str]) -> str:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(1, answer.cancel)
    return await answer


async def _of_a_child(run: Run[str]) -> str:
    child = asyncio.create_task(_let_through(run))
    return await child


@pytest.mark.contract("X13", "D4")
@pytest.mark.parametrize("handler", [_raised, _let_through, _of_a_child])
async def test_race_27_a_provider_that_cancels_although_nobody_asked_has_failed(
    handler: Hook,
) -> None:
    async with Scheduler(handler) as scheduler:
        handle, behind = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        assert await ends(handle, behind) == [FAILED, FAILED]
        outcome = await handle.outcome()
        assert type(outcome.error) is asyncio.CancelledError


@pytest.mark.contract("X13")
async def test_race_27_the_cancel_of_a_provider_does_not_cancel_who_waits_for_the_run() -> None:
    async with Scheduler(_let_through) as scheduler:
        waiter = asyncio.ensure_future(scheduler.submit("chat", "a"))
        with pytest.raises(RunNotCompleted) as caught:
            await waiter
        assert not isinstance(caught.value, RunCanceled)
        assert not waiter.cancelled()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)


@pytest.mark.contract("X13", "X6", "X1")
async def test_race_27_the_cancel_of_a_provider_is_one_when_somebody_asked_for_it() -> None:
    async with Scheduler(_let_through) as scheduler:
        handle = scheduler.submit("chat", "a")
        await asyncio.sleep(1)  # the provider gave up in this very moment
        assert scheduler.cancel("chat").active is handle.run
        assert await ends(handle) == [CANCELED]
