"""A cancel while the model streams: what has come is kept, whatever the stream makes of it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from agents import ends, quiet
from scripted import DONE, Host, Script, call, flat, tool

from sessionsched import Cause, RunProgress, RunStuck, Status, WhenBusy
from sessionsched.steps import (
    CallDelta,
    CallStart,
    Reasoning,
    Retry,
    Said,
    Step,
    Text,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scripted import Item

    from sessionsched import Run
    from sessionsched.steps import Part, Request

CANCELED = ("canceled", "interrupt")
SUSPENDED = ("suspended", "shutdown")

#: A step that is streamed over ten seconds, and its tools.
LINE: list[Item] = [
    Reasoning("hm"), 1, Text("Hel"), 1, Text("lo"), 1, call("1", "slow"), 1, CallStart("2", "slow"),
    1, CallDelta("2", '{"a'), 5, DONE,
]  # fmt: skip


async def slow(run: Run[str]) -> str:
    await asyncio.sleep(10)
    return "slow"


SLOW = tool(slow)


def cut(call_id: str, how: str, cause: str = "interrupt") -> ToolResult:
    """The result of a call that a cancel has cut off."""
    text = f"stopped ({cause}) {how}"
    return ToolResult(call_id, "slow", text, error=True, synthetic=True)


async def test_an_interrupted_step_keeps_its_text_and_its_calls_which_are_all_answered() -> None:
    host = Host(Script(LINE), [SLOW])
    async with host.open() as (scheduler, watch):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(6)
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    content = (
        Reasoning("hm"), Text("Hello"), ToolCall("1", "slow", "{}"),
        ToolCall("2", "slow", '{"a', complete=False),
    )  # fmt: skip
    results = cut("1", "before it began"), cut("2", "before its input was complete")
    assert host.stored == [Step(1, content, results, cause=Cause.INTERRUPT)]
    assert not host.stored[0].final
    assert isinstance(host.raised, asyncio.CancelledError)
    assert host.model.closed == 1
    shown = [event.item for event in watch.of(RunProgress)]
    assert shown == [*(it for it in LINE[:-2] if not isinstance(it, int)), *results]


@pytest.mark.parametrize("seconds", [0, 1, 2, 3, 4, 5])
async def test_nothing_that_was_streamed_before_a_cancel_is_lost(seconds: int) -> None:
    host = Host(Script(LINE), [SLOW])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(seconds + 0.5)
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    (step,) = host.stored
    whole = ["reasoning: hm", "text: Hel", "text: Hello", "call 1: slow", "call 2: slow"]
    assert whole[min(seconds, 4)] in flat(step)
    assert len(step.calls) == len(step.results) == max(0, min(seconds, 4) - 2)


async def test_a_stream_that_just_ends_because_of_the_cancel_is_cut_all_the_same() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return

    await _is_cut_after(model, flat_step=["text: Hel"])


async def test_a_stream_that_looks_at_the_cancel_and_ends_is_cut_all_the_same() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        while not request.run.canceled:  # noqa: ASYNC110 - this is how some look at it
            await asyncio.sleep(0)

    await _is_cut_after(model, flat_step=["text: Hel"], seconds=0)


async def test_what_a_stream_says_after_the_cancel_is_heard_by_nobody() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            yield Text("lo")
            raise AssertionError("nobody reads on") from None

    await _is_cut_after(model, flat_step=["text: Hel"])


async def test_a_provider_that_answers_a_cancel_with_an_error_is_not_asked_again() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        asked.append(request)
        yield Text("Hel")
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise ConnectionError("reset") from None

    asked: list[Request] = []
    await _is_cut_after(model, flat_step=["text: Hel"])
    assert len(asked) == 1


async def test_a_cancel_in_the_same_turn_of_the_loop_beats_an_error_of_the_provider() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        await asyncio.sleep(1)
        assert scheduler.cancel("chat")
        raise ConnectionError("reset")

    host = Host(model)
    async with host.open() as (scheduler, watch):
        assert await ends(scheduler.submit("chat", "hi")) == [CANCELED]
    assert host.stored == [Step(1, (Text("Hel"),), cause=Cause.INTERRUPT)]
    assert [event.item for event in watch.of(RunProgress)] == [Text("Hel")]


async def test_a_stream_that_never_waits_stops_when_the_run_is_canceled() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        for number in range(1000):
            if number == 5:
                scheduler.cancel("chat")
            yield Text(f"{number} ")

    host = Host(model)
    async with host.open() as (scheduler, _):
        assert await ends(scheduler.submit("chat", "hi")) == [CANCELED]
    assert host.stored == [Step(1, (Text("0 1 2 3 4 5 "),), cause=Cause.INTERRUPT)]


async def test_a_stream_that_ignores_every_cancel_keeps_the_run_but_not_the_step() -> None:
    release = asyncio.Event()

    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                told.append(len(host.stored))
        yield Text("lo")

    told: list[int] = []
    host = Host(model)
    async with host.open() as (scheduler, watch):
        handle = scheduler.submit("chat", "hi")
        await quiet()
        scheduler.cancel("chat")
        asyncio.get_running_loop().call_later(12, release.set)
        await asyncio.sleep(11)
        assert host.stored == [Step(1, (Text("Hel"),), cause=Cause.INTERRUPT)]
        assert [event.told for event in watch.of(RunStuck)] == [1, 2]
        assert await ends(handle) == [CANCELED]
    assert told == [0, 1, 1, 1], "once for the step, once for the end, and once for each grace"
    assert len(host.given) == 1


async def test_a_cancel_before_anything_was_streamed_stores_nothing() -> None:
    host = Host(Script([10, Text("a"), DONE]))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    assert (host.given, host.model.closed) == ([], 1)


async def test_a_follow_up_whose_step_was_cut_before_it_said_anything_is_stored() -> None:
    host = Host(Script([10, Text("a"), DONE]))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        behind = scheduler.submit("chat", "and this", when_busy=WhenBusy.FOLD)
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        assert await ends(handle, behind) == [CANCELED] * 2
    assert host.stored == [Step(1, asked=(Said("and this"),), cause=Cause.INTERRUPT)]


async def test_a_cancel_during_the_pause_after_a_failed_attempt_ends_the_pause() -> None:
    host = Host(Script([Text("a"), ConnectionError()]), retry=Retry(pause=100, cap=100, jitter=0))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(50)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 50)
    assert len(host.model.requests) == 1
    assert host.stored == [], "what it said was discarded"


async def _is_cut_after(model: Any, flat_step: list[str], seconds: float = 1) -> None:
    host = Host(model)
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(seconds)
        await quiet()
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    (step,) = host.stored
    assert (flat(step), step.cause, step.finish) == (flat_step, Cause.INTERRUPT, None)
    assert not step.final


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks are never eager there")
@pytest.mark.parametrize("seconds", [0.5, 2])
async def test_a_cancel_is_the_same_where_tasks_are_eager(seconds: float) -> None:
    factory = getattr(asyncio, "eager_task_factory")  # noqa: B009 - mypy looks at 3.11
    asyncio.get_running_loop().set_task_factory(factory)
    host = Host(Script([Text("a"), 1, ConnectionError()]), retry=Retry(pause=100, cap=100))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(seconds)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, seconds)
    assert len(host.model.requests) == 1, "no other attempt is begun"
    assert flat(*host.stored) == (["text: a"] if seconds < 1 else [])
