"""The fakes for embedders: each does what the test has said, and says what there was instead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sessionsched import Run, Scheduler, SessionBusy, Status, Table, WhenBusy
from sessionsched.testing.fakes import (
    ManualClock,
    Recorder,
    ScriptedHandler,
    calls,
    emits,
    folds,
    hangs,
    raises,
    recording,
    returns,
    sleeps,
    swallows,
    waits,
)

# --- the scripted handler ---


async def outcome(agent: ScriptedHandler, prompt: str = "a") -> Any:
    async with Scheduler(agent) as scheduler:
        return await scheduler.submit("chat-1", prompt).outcome()


async def test_a_script_returns_what_it_says_and_nothing_after_that_happens() -> None:
    agent = ScriptedHandler({"a": [sleeps(2.0), returns("this"), raises(OSError("not this"))]})
    ended = await outcome(agent)
    assert (ended.result, ended.ended_at - ended.started_at) == ("this", 2.0)
    assert agent.log == ["start a", "over a"]


async def test_none_can_be_returned_before_the_end_of_a_script() -> None:
    assert (await outcome(ScriptedHandler({"a": [returns(), hangs()]}))).result is None


async def test_a_script_raises_what_it_says() -> None:
    error = OSError("the disk is full")
    assert (await outcome(ScriptedHandler({"a": [raises(error)]}))).error is error


async def test_a_cancel_that_nobody_sent_can_be_scripted() -> None:
    agent = ScriptedHandler(otherwise=[raises(asyncio.CancelledError())])
    assert (await outcome(agent)).status is Status.FAILED
    assert agent.log == ["start a", "cancel a", "over a"]


async def test_a_prompt_without_a_script_gets_the_other_one() -> None:
    agent = ScriptedHandler({"a": [returns(1)]}, otherwise=[returns(2)])
    assert [(await outcome(agent, prompt)).result for prompt in "ab"] == [1, 2]
    assert (await outcome(ScriptedHandler(), "c")).result is None
    assert agent.started == ["a", "b"]


async def test_a_script_waits_until_it_is_released_and_a_cancel_does_not_spend_that() -> None:
    agent = ScriptedHandler(otherwise=[waits(), returns("went on")])
    async with Scheduler(agent) as scheduler:
        first, second = scheduler.submit("one", "a"), scheduler.submit("two", "b")
        await asyncio.sleep(1)
        agent.release("a")
        agent.fail("b", ValueError("no"))
        assert await first == "went on"
        with pytest.raises(ValueError, match="no"):
            await second
        canceled = scheduler.submit("one", "c")
        await asyncio.sleep(1)
        scheduler.cancel("one")
        await canceled.outcome()
        agent.release("c")
        assert await scheduler.submit("one", "c") == "went on"


async def test_a_cancel_of_one_run_does_not_touch_another_with_the_same_prompt() -> None:
    agent = ScriptedHandler(otherwise=[waits(), returns("went on")])
    async with Scheduler(agent) as scheduler:
        canceled, other = scheduler.submit("one", "a"), scheduler.submit("two", "a")
        await asyncio.sleep(1)
        scheduler.cancel("one")
        assert (await canceled.outcome()).status is Status.CANCELED
        agent.release("a")
        assert await other == "went on"


async def test_a_script_swallows_as_many_cancels_as_it_says() -> None:
    agent = ScriptedHandler({"a": [swallows(2), hangs()]})
    async with Scheduler(agent, grace=1.0) as scheduler, recording(scheduler) as seen:
        handle = scheduler.submit("chat-1", "a")
        await seen.until("chat-1", "started")
        await asyncio.sleep(0)
        scheduler.cancel("chat-1")
        ended = await handle.outcome()
    assert ended.status is Status.CANCELED
    seen.saw("chat-1", "canceling:interrupt", "stuck:1", "stuck:2", "ended:canceled:interrupt")
    assert agent.log == ["start a", "cancel a", "cancel a", "cancel a", "over a"]


async def test_a_script_emits_folds_and_calls() -> None:
    called: list[Run[str]] = []
    agent = ScriptedHandler({"a": [sleeps(1), emits(1, 2), folds(), calls(called.append)]})
    async with Scheduler(agent) as scheduler, recording(scheduler) as seen:
        handle = scheduler.submit("chat-1", "a")
        follow_up = scheduler.submit("chat-1", "b", when_busy=WhenBusy.FOLD)
        await follow_up.outcome()
    assert [run.prompt for run in agent.follow_ups] == ["b"]
    assert called == [agent.runs["a"]] == [handle.run]
    seen.saw(handle.run_id, "progress:1", "progress:2", "ended:completed")
    seen.saw(follow_up.run_id, f"folded:{handle.run_id}", "ended")


# --- the recorder ---


async def seen_of_a_cancel() -> Recorder:
    async with Scheduler(ScriptedHandler(otherwise=[hangs()])) as scheduler:
        async with recording(scheduler) as seen:
            handle = scheduler.submit("chat-1", "a", run_id="mine")
            await seen.until("chat-1", "started")
            scheduler.cancel("chat-1")
            await handle.outcome()
        scheduler.submit("chat-1", "after the block")
    return seen


async def test_what_was_seen_is_asserted_in_words_by_session_or_by_run() -> None:
    seen = await seen_of_a_cancel()
    for of in ("chat-1", "mine"):
        seen.saw(of, "accepted", "started", "ended:canceled")
        seen.saw_only(of, "accepted", "started", "canceling", "ended:canceled:interrupt")
    seen.never_saw("chat-1", "queued")
    seen.never_saw("chat-2", "accepted")
    assert seen.words() == [
        "accepted",
        "started",
        "canceling:interrupt",
        "ended:canceled:interrupt",
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("started", "accepted"), "started, accepted did not come in this order"),
        (("ended:completed",), "ended:completed did not come"),
        (("end",), "end did not come"),
        (("started", "started"), "did not come in this order"),
    ],
)
async def test_what_was_not_seen_is_complained_of_with_what_was(
    words: tuple[str, ...], complaint: str
) -> None:
    seen = await seen_of_a_cancel()
    with pytest.raises(AssertionError) as failed:
        seen.saw("chat-1", *words)
    assert complaint in str(failed.value)
    assert "\n  accepted\n  started\n  canceling:interrupt\n" in str(failed.value)


async def test_what_came_besides_and_what_should_not_have_come_is_complained_of() -> None:
    seen = await seen_of_a_cancel()
    with pytest.raises(AssertionError, match="other than accepted, ended came"):
        seen.saw_only("chat-1", "accepted", "ended")
    with pytest.raises(AssertionError, match="ended:canceled came"):
        seen.never_saw("chat-1", "ended:canceled")
    with pytest.raises(AssertionError, match="what came is nothing"):
        seen.saw("chat-2", "accepted")


async def test_everything_that_came_in_the_block_has_been_read_after_it() -> None:
    async with Scheduler(ScriptedHandler()) as scheduler:
        async with recording(scheduler) as seen:
            scheduler.submit("chat-1", "a")
        seen.saw_only("chat-1", "accepted", "started")


async def test_only_what_was_asked_for_is_recorded() -> None:
    async with Scheduler(ScriptedHandler()) as scheduler:
        async with recording(scheduler, session_id="one") as seen:
            for name in ("one", "two"):
                await scheduler.submit(name, "a")
        async with recording(scheduler, run_id="mine") as of_one:
            await scheduler.submit("two", "b")
            await scheduler.submit("two", "c", run_id="mine")
    assert {it.session_id for it in seen.events} == {"one"}
    assert {it.run_id for it in of_one.events} == {"mine"}


async def test_a_block_that_fails_fails_with_its_own_error() -> None:
    async def fail() -> None:
        async with Scheduler(ScriptedHandler()) as scheduler, recording(scheduler):
            raise SessionBusy("its own", "chat-1", None)

    with pytest.raises(SessionBusy, match="its own"):
        await fail()


async def test_whoever_waits_for_a_word_may_give_up() -> None:
    async with Scheduler(ScriptedHandler()) as scheduler, recording(scheduler) as seen:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(seen.until("chat-1", "started"), 1.0)
        await scheduler.submit("chat-1", "a")
        await seen.until("chat-1", "started", "ended")
        await seen.until("chat-1", "started", "ended")
    assert seen._waiting == []


# --- the clock ---


def test_a_manual_clock_calls_each_timer_at_its_time_and_in_order() -> None:
    clock, rung = ManualClock(10.0), list[tuple[str, float]]()
    for name, when in (("late", 13.0), ("first", 11.0), ("second", 11.0)):
        clock.call_at(when, lambda name=name: rung.append((name, clock())))  # type: ignore[misc]
    clock.advance(0.5)
    assert (rung, clock()) == ([], 10.5)
    clock.advance(1.0)
    assert (rung, clock()) == ([("first", 11.0), ("second", 11.0)], 11.5)
    assert [timer.when for timer in clock.timers] == [13.0]
    clock.advance(10.0)
    assert rung[-1] == ("late", 13.0)
    assert clock.timers == []


def test_a_timer_that_is_canceled_is_not_called_and_one_that_is_set_meanwhile_is() -> None:
    clock, rung = ManualClock(), list[float]()
    timer = clock.call_at(1.0, lambda: rung.append(-1.0))
    clock.call_at(0.5, timer.cancel)
    clock.call_at(1.0, lambda: clock.call_at(2.0, lambda: rung.append(clock())))
    clock.advance(5.0)
    assert rung == [2.0]
    assert timer.canceled


def test_a_timer_in_the_past_is_called_when_time_next_moves_and_time_does_not_go_back() -> None:
    clock, rung = ManualClock(5.0), list[float]()
    clock.call_at(1.0, lambda: rung.append(clock()))
    assert rung == []
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1.0)
    clock.advance(0.0)
    assert rung == [5.0]


def test_a_driver_of_ones_own_can_run_on_a_manual_clock() -> None:
    clock, table = ManualClock(), Table[str]()
    run = table.accept(Run("chat-1", "a"), clock(), ready=True)
    clock.call_at(3.0, lambda: table.cancel("chat-1", clock()))
    clock.advance(2.0)
    assert not run.canceled
    clock.advance(2.0)
    assert run.canceled
