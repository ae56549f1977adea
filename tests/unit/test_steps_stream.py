"""Streams that go wrong: which are tried again, when, and what observers are told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agents import ends
from scripted import DONE, Host, Script, call, flat

from sessionsched import RunProgress, Scheduler, Status
from sessionsched.steps import (
    CallDelta,
    CallDone,
    CallStart,
    Discarded,
    ProviderCanceled,
    Retry,
    StreamBroken,
    StreamCut,
    StreamFault,
    StreamSilent,
    Text,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scripted import Item

    from sessionsched import Run
    from sessionsched.steps import Part, Request, StepsResult

#: No chance takes part, and only the provider's own faults are tried again.
RETRY = Retry(on=lambda _: False, attempts=3, pause=1.0, cap=10.0, jitter=0.0)


async def shown(host: Host) -> tuple[StepsResult, list[object]]:
    """Take a turn; give its result, and what observers were shown."""
    async with host.open() as (scheduler, watch):
        result = await scheduler.submit("chat", "hi")
    return result, [event.item for event in watch.of(RunProgress)]


# --- 27: a cancellation that nobody has asked for ---


async def test_race_27_a_cancellation_of_the_provider_s_own_is_tried_again() -> None:
    stray = asyncio.CancelledError("connection pool closed")
    host = Host(Script([Text("Hel"), stray], [Text("Hello"), DONE]), retry=RETRY)
    result, items = await shown(host)
    first, discarded, *rest = items
    assert (first, rest) == (Text("Hel"), [Text("Hello"), DONE])
    assert isinstance(discarded, Discarded)
    assert (discarded.step, discarded.attempt) == (1, 1)
    assert isinstance(discarded.error, ProviderCanceled)
    assert str(discarded.error.__cause__) == "connection pool closed"
    assert flat(*host.stored) == ["text: Hello"] == [f"text: {result.text}"]


@pytest.mark.contract("X13")
async def test_race_27_a_provider_that_always_cancels_itself_fails_the_run() -> None:
    host = Host(Script([asyncio.CancelledError()]), retry=RETRY)
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        outcome = await handle.outcome()
    assert (outcome.status, outcome.ended_at) == (Status.FAILED, 3.0)
    assert isinstance(outcome.error, ProviderCanceled)
    assert (outcome.error.session_id, outcome.error.run_id) == ("chat", handle.run_id)
    assert (len(host.model.requests), host.given) == (3, [])


@pytest.mark.contract("X13")
async def test_race_27_the_same_cancellation_is_a_cancel_when_somebody_has_canceled() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        scheduler.cancel("chat")
        raise asyncio.CancelledError

    host = Host(model, retry=RETRY)
    async with host.open() as (scheduler, _):
        assert await ends(scheduler.submit("chat", "hi")) == [("canceled", "interrupt")]
    assert flat(*host.stored) == ["text: Hel"]


# --- 28: silence ---


@pytest.mark.parametrize("first", [[], [Text("Hel")], [Text("Hel"), 9, Text("lo"), 9, Text("")]])
async def test_race_28_a_stream_that_goes_silent_is_a_failed_attempt(first: list[Item]) -> None:
    model = Script([*first, 1000, DONE], [Text("Hello"), DONE])
    host = Host(model, retry=RETRY, silence_timeout=10)
    result, items = await shown(host)
    (discarded,) = [it for it in items if isinstance(it, Discarded)]
    assert isinstance(discarded.error, StreamSilent)
    assert (result.text, model.closed) == ("Hello", 2)


async def test_race_28_a_stream_that_is_slow_but_not_silent_is_heard_out() -> None:
    model = Script([9, Text("a"), 9, Text(""), 9, Text("b"), 9, DONE])
    result, items = await shown(Host(model, retry=RETRY, silence_timeout=10))
    assert (result.text, len(model.requests)) == ("ab", 1)
    assert not any(isinstance(it, Discarded) for it in items)


async def test_race_28_a_stream_that_is_always_silent_fails_the_run() -> None:
    host = Host(Script([1000]), retry=RETRY, silence_timeout=10)
    async with host.open() as (scheduler, _):
        outcome = await scheduler.submit("chat", "hi").outcome()
    assert (outcome.status, outcome.ended_at) == (Status.FAILED, 10 + 1 + 10 + 2 + 10)
    assert isinstance(outcome.error, StreamSilent)


async def test_race_28_a_silent_stream_that_ignores_being_stopped_is_left_behind() -> None:
    over = asyncio.Event()

    async def model(request: Request) -> AsyncIterator[Part]:
        requests.append(request)
        if len(requests) == 1:
            await _whatever_comes(100)
            yield Text("too late")
            over.set()
        else:
            yield Text("Hello")
            yield DONE

    requests: list[Request] = []
    host = Host(model, retry=RETRY, silence_timeout=10)
    async with host.open() as (scheduler, watch):
        outcome = await scheduler.submit("chat", "hi").outcome()
        assert (outcome.status, outcome.ended_at) == (Status.COMPLETED, 10 + 5 + 1)
        await asyncio.sleep(100)
    assert flat(*host.stored) == ["text: Hello"]
    assert Text("too late") not in [event.item for event in watch.of(RunProgress)]
    assert not over.is_set(), "it was closed where it spoke"


async def test_race_28_a_cancel_while_a_silent_stream_is_being_closed_is_a_cancel() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        yield Text("Hel")
        await _whatever_comes(14)
        yield Text("lo")

    host = Host(model, retry=RETRY, silence_timeout=10)
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(12)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 14)
    assert flat(*host.stored) == ["text: Hel"]


async def _whatever_comes(seconds: float) -> None:
    """Wait so long, and ignore every cancel meanwhile."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while clock() < until:
        try:
            await asyncio.sleep(until - clock())
        except asyncio.CancelledError:
            continue


# --- other faults ---


async def test_a_stream_without_an_end_is_tried_again() -> None:
    model = Script([Text("Hel")], [Text("Hello"), DONE])
    result, items = await shown(Host(model, retry=RETRY))
    assert isinstance(items[1], Discarded)
    assert isinstance(items[1].error, StreamCut)
    assert result.text == "Hello"


async def test_a_retried_attempt_starts_clean_and_is_asked_the_same() -> None:
    half: list[Item] = [Text("Hel"), CallStart("1", "echo"), CallDelta("1", "{"), ConnectionError()]
    host = Host(Script(half, half, [Text("Hello"), DONE]), retry=Retry(jitter=0))
    result, items = await shown(host)
    assert flat(*host.stored) == ["text: Hello"]
    assert [it.attempt for it in items if isinstance(it, Discarded)] == [1, 2]
    first, *others = host.model.requests
    assert others == [first, first]
    assert result.steps == tuple(host.stored)


async def test_attempts_are_counted_for_each_step_anew() -> None:
    fault = ConnectionError()
    model = Script([fault], [call("1"), DONE], [fault], [Text("a"), DONE])
    result, _ = await shown(Host(model, retry=Retry(attempts=2)))
    assert result.text == "a"


async def test_an_error_that_nobody_named_is_raised_at_once() -> None:
    host = Host(Script([Text("a"), ValueError("bad request")]))
    async with host.open() as (scheduler, watch):
        outcome = await scheduler.submit("chat", "hi").outcome()
    assert (outcome.status, str(outcome.error), outcome.ended_at) == (
        Status.FAILED, "bad request", 0,
    )  # fmt: skip
    assert isinstance(watch.of(RunProgress)[-1].item, Discarded)
    assert (len(host.model.requests), host.given) == (1, [])


@pytest.mark.parametrize(
    "line",
    [
        [CallDelta("1", "{")],
        [CallStart("1", "a"), CallStart("1", "a")],
        [CallDone("1", "a", "{}"), CallDelta("1", "{")],
        [CallDone("1", "a", "{}"), CallDone("1", "a", "{}")],
        ["no part"],
    ],
)
async def test_a_stream_that_makes_no_sense_is_a_mistake_and_not_a_fault_of_transport(
    line: list[Item],
) -> None:
    host = Host(Script([*line, DONE]))
    with pytest.raises(StreamBroken):
        await host.take()
    assert (len(host.model.requests), host.model.closed) == (1, 1)


async def test_a_model_that_raises_before_it_streams_is_a_failed_attempt_like_any_other() -> None:
    def model(request: Request) -> AsyncIterator[Part]:
        requests.append(request)
        raise ConnectionError

    requests: list[Request] = []
    with pytest.raises(ConnectionError):
        await Host(model, retry=Retry(attempts=2)).take()
    assert len(requests) == 2


# --- closing ---


async def test_an_error_after_the_finish_changes_nothing() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        try:
            yield Text("a")
            yield DONE
        finally:
            raise ConnectionError("reset")

    result, _ = await shown(Host(model))
    assert result.text == "a"


async def test_a_stream_that_does_not_close_after_its_finish_is_not_waited_for_long() -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        try:
            yield Text("a")
            await asyncio.sleep(7)
            yield DONE
        finally:
            await asyncio.sleep(1000)

    host = Host(model)
    async with host.open() as (scheduler, _):
        outcome = await scheduler.submit("chat", "hi").outcome()
    assert outcome.status is Status.COMPLETED
    assert 7 < outcome.ended_at <= 7 + 2 * 5


async def test_parts_after_the_finish_are_not_asked_for() -> None:
    model = Script([Text("a"), DONE, Text("b"), AssertionError("read on")])
    result, items = await shown(Host(model))
    assert (result.text, items) == ("a", [Text("a"), DONE])


class Torn(BaseException):
    """What stops a whole program. A KeyboardInterrupt would stop the tests."""


@pytest.mark.parametrize("after", [[], [DONE]], ids=["unfinished", "finished"])
async def test_what_is_no_exception_is_let_through_and_never_tried_again(
    after: list[Part],
) -> None:
    async def model(request: Request) -> AsyncIterator[Part]:
        requests.append(request)
        try:
            yield Text("a")
            for part in after:
                yield part
        finally:
            raise Torn

    requests: list[Request] = []
    host = Host(model, retry=Retry(on=lambda _: True))

    async def handler(run: Run[str]) -> str:
        with pytest.raises(Torn):
            await host.handle(run)
        return "torn"

    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "hi") == "torn"
    assert len(requests) == 1


def test_every_fault_of_a_stream_is_one_kind() -> None:
    assert all(
        issubclass(it, StreamFault)
        for it in (ProviderCanceled, StreamBroken, StreamCut, StreamSilent)
    )
