"""What watchers have missed elsewhere, and whom they have held up (races 29 to 32)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere

from sessionsched import (
    Gap,
    RunAccepted,
    RunCanceling,
    RunEnded,
    RunProgress,
    RunQueued,
    RunStarted,
    Scheduler,
)
from sessionsched.hub import Hub

if TYPE_CHECKING:
    from sessionsched import CancelReceipt, Run

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)

#: More turns of the loop than a run takes below.
TURNS = 12


async def _chatty(run: Run[str]) -> str:
    """Show something in the very first step, and in every step."""
    for step in range(3):
        run.emit(step)
        await asyncio.sleep(0)
    return run.prompt


# --- 29: output before there is anywhere to put it ---


@pytest.mark.contract("T6")
@pytest.mark.parametrize("look", [{"session_id": "chat"}, {"run_id": "r"}, {}])
async def test_race_29_who_subscribes_right_after_the_submit_sees_the_very_first_output(
    look: dict[str, str],
) -> None:
    async with Scheduler(_chatty) as scheduler:
        handle = scheduler.submit("chat", "a", run_id="r")
        async with watching(scheduler, **look) as watch:
            await handle
    assert [type(event) for event in watch.events] == [RunStarted, *[RunProgress] * 3, RunEnded]
    assert [event.item for event in watch.of(RunProgress)] == [0, 1, 2]


@pytest.mark.contract("T6")
async def test_race_29_no_output_comes_before_its_run_is_known_to_have_started() -> None:
    async with Scheduler(_chatty) as scheduler, watching(scheduler) as watch:
        handles = [scheduler.submit(session_id, "a") for session_id in "xyx" for _ in range(3)]
        await ends(*handles)
    for handle in handles:
        kinds = [type(event) for event in watch.events if event.run_id == handle.run_id]
        assert kinds[0] is RunAccepted
        assert kinds[-5:] == [RunStarted, *[RunProgress] * 3, RunEnded]
    numbers = [event.number for event in watch.events]
    assert numbers == sorted(set(numbers))


# --- 30: between looking and subscribing ---


@pytest.mark.contract("T1", "T6")
@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("by_run", [False, True])
async def test_race_30_who_subscribes_and_then_looks_misses_no_end(
    *, by_run: bool, cancel: bool
) -> None:
    found = set()
    for turns in range(TURNS):
        async with Scheduler(_chatty) as scheduler:
            handle = scheduler.submit("chat", "a")
            session_id, run_id = (None, handle.run_id) if by_run else ("chat", None)
            await quiet(turns)
            async with scheduler.subscribe(session_id, run_id) as events:
                ended = handle.run.ended is not None
                found.add(ended)
                if cancel:
                    handle.cancel()
                while not ended:  # on virtual time a wait for what never comes is an error
                    ended = isinstance(await anext(events), RunEnded)
        assert handle.run.ended is not None
    assert found == {False, True}


@pytest.mark.contract("T1")
async def test_race_30_the_end_of_a_named_run_is_not_missed_by_who_subscribes_too_late() -> None:
    for turns in range(TURNS):
        async with Scheduler(_chatty) as scheduler:
            handle = scheduler.submit("chat", "a", run_id="r")
            await quiet(turns)
            async with scheduler.subscribe(run_id="r") as events:
                seen = [event async for event in events]
        last = seen[-1]
        assert isinstance(last, RunEnded)
        assert last.outcome == handle.run.ended


@pytest.mark.contract("T6")
async def test_race_30_whoever_subscribes_is_told_how_things_stand_and_all_that_follows() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", prompt, run_id=prompt) for prompt in "ab"]
        ticket = scheduler.accept("chat", "c", run_id="c")
        await quiet()
        async with watching(scheduler) as watch:
            assert [type(event) for event in watch.events] == [RunStarted, RunQueued, RunAccepted]
            scheduler.cancel("chat")
            await ends(*handles, ticket.handle)
        told = [type(event) for event in watch.events if event.run_id == "c"]
        assert told == [RunAccepted, RunCanceling, RunEnded]


# --- 31: a watcher that is full ---


@pytest.mark.contract("T3")
@pytest.mark.parametrize("buffer", [1, 2, 7])
async def test_race_31_a_watcher_that_is_full_still_gets_every_end(buffer: int) -> None:
    async with (
        Scheduler(_chatty) as scheduler,
        scheduler.subscribe(buffer=buffer) as slow,
        watching(scheduler) as watch,
    ):
        handles = [scheduler.submit(f"chat {it % 3}", "a") for it in range(10)]
        handles[-1].cancel()
        await ends(*handles)
        await scheduler.close()
        seen = [event async for event in slow]
        await quiet()
    ended = [event.run_id for event in seen if isinstance(event, RunEnded)]
    assert ended == [event.run_id for event in watch.of(RunEnded)]
    assert sorted(ended) == sorted(handle.run_id for handle in handles)
    missed = sum(event.missed for event in seen if isinstance(event, Gap))
    others = [event for event in seen if not isinstance(event, RunEnded | Gap)]
    assert len(others) == buffer
    assert len(others) + missed + len(ended) == len(watch.events)


# --- 32: a watcher that holds everybody up ---


@pytest.mark.contract("T5", "D5", "T4")
async def test_race_32_watchers_that_never_read_hold_nobody_up() -> None:
    async with (
        Scheduler(_chatty) as scheduler,
        scheduler.subscribe(buffer=1),
        scheduler.subscribe("chat", buffer=1),
        watching(scheduler) as watch,
    ):
        handles = [scheduler.submit(it, "a") for it in ("chat", "other") for _ in range(50)]
        assert await ends(*handles) == [COMPLETED] * 100
        assert await scheduler.close() is not None
    assert len(watch.of(RunEnded)) == 100


@pytest.mark.contract("T5", "D5")
async def test_race_32_a_watcher_that_is_slow_or_fails_does_so_alone() -> None:
    agent = Agent()

    async def slow() -> None:
        async with scheduler.subscribe() as events:
            async for _ in events:
                await asyncio.sleep(100)

    async def failing() -> None:
        async with scheduler.subscribe() as events:
            async for event in events:
                raise ValueError(event)

    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        tasks = [asyncio.create_task(slow()), asyncio.create_task(failing())]
        await quiet()
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        agent.finish(*"ab")
        assert await ends(*handles) == [COMPLETED] * 2
        assert all(handle.run.ended.ended_at < 1 for handle in handles if handle.run.ended)
        await quiet()
        assert len(watch.of(RunEnded)) == 2
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(error) for error in errors] == [type(None), ValueError]


@pytest.mark.real_loop
@pytest.mark.contract("T4", "R4")
async def test_race_32_no_session_is_locked_while_an_event_is_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    receipts: list[CancelReceipt[str]] = []

    publish = Hub.publish

    def cancel_meanwhile(*event: Any) -> None:
        """Just before the next event is published, on the loop's thread."""
        monkeypatch.undo()
        receipts.append(elsewhere(lambda: scheduler.cancel("chat")))
        publish(*event)

    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        monkeypatch.setattr(Hub, "publish", cancel_meanwhile)
        handle = scheduler.submit("chat", "a")
        assert [receipt.active for receipt in receipts] == [handle.run]
        assert await ends(handle) == [CANCELED]
    assert [type(event) for event in watch.events] == [
        RunAccepted,
        RunStarted,
        RunCanceling,
        RunEnded,
    ]
