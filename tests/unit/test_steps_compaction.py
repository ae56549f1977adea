"""Compaction: between steps when the window gets full, and once more at the end if it never was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import ends
from scripted import DONE, Host, Script, call, flat, tool, used

from sessionsched import InvalidOption, Status
from sessionsched.steps import (
    Compaction,
    Said,
    Text,
    Usage,
)

if TYPE_CHECKING:
    from sessionsched import Run
    from sessionsched.steps import Entry


async def echo(run: Run[str], text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


ECHO = tool(echo)
A = '{"text": "a"}'


class Shorter:
    """A compaction that writes down what it is given."""

    def __init__(self, seconds: float = 0.0, error: BaseException | None = None) -> None:
        self.seen: list[tuple[list[str], int]] = []
        self.over = 0
        self._seconds = seconds
        self._error = error

    async def __call__(self, history: tuple[Entry, ...], usage: Usage) -> list[Entry]:
        self.seen.append((flat(*history), usage.total))
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self.over += 1
        if self._error is not None:
            raise self._error
        return [Said(f"summary {len(self.seen)}", "system")]


async def test_a_compaction_between_steps_gives_the_history_that_the_turn_goes_on_with() -> None:
    model = Script([call("1"), used(80)], [call("2"), used(79)], [Text("b"), used(30)])
    shorter = Shorter()
    host = Host(model, [ECHO], compact=Compaction(shorter, window=100))
    result = await host.take()
    assert shorter.seen == [(["user: hi", "call 1: echo", "result 1: echo "], 80)]
    assert [flat(*request.history) for request in model.requests[1:]] == [
        ["system: summary 1"],
        ["system: summary 1", "call 2: echo", "result 2: echo "],
    ]
    assert flat(*result.history)[0] == "system: summary 1"
    assert len(host.stored) == 3


async def test_a_compaction_that_has_not_helped_is_done_again_before_the_next_step() -> None:
    model = Script([call("1"), used(90)], [call("2"), used(90)], [Text("b"), used(30)])
    shorter = Shorter()
    await Host(model, [ECHO], compact=Compaction(shorter, window=100)).take()
    assert [tokens for _, tokens in shorter.seen] == [90, 90]


async def test_a_turn_that_ends_with_a_full_window_is_compacted_for_the_next_one() -> None:
    shorter = Shorter()
    host = Host(Script([Text("a"), used(95)]), compact=Compaction(shorter, 100, threshold=0.9))
    result = await host.take()
    assert shorter.seen == [(["user: hi", "text: a"], 95)]
    assert result.history == (Said("summary 1", "system"),)
    assert result.text == "a"


async def test_a_turn_that_was_compacted_on_its_way_is_not_compacted_again_at_its_end() -> None:
    shorter = Shorter()
    model = Script([call("1"), used(90)], [Text("b"), used(95)])
    result = await Host(model, [ECHO], compact=Compaction(shorter, 100)).take()
    assert [tokens for _, tokens in shorter.seen] == [90]
    assert flat(*result.history) == ["system: summary 1", "text: b"]


async def test_nothing_is_compacted_by_a_model_that_does_not_say_what_it_used() -> None:
    shorter = Shorter()
    await Host(Script([call("1"), DONE], [DONE]), [ECHO], compact=Compaction(shorter, 1)).take()
    assert shorter.seen == []


async def test_an_error_of_the_compaction_is_raised_after_the_step_was_stored() -> None:
    shorter = Shorter(error=OSError("no"))
    host = Host(Script([call("1"), used(90)]), [ECHO], compact=Compaction(shorter, 100))
    with pytest.raises(OSError, match="no"):
        await host.take()
    assert len(host.stored) == 1


async def test_a_cancel_stops_a_compaction_between_steps() -> None:
    shorter = Shorter(seconds=100)
    host = Host(Script([call("1"), used(90)]), [ECHO], compact=Compaction(shorter, 100))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(50)
        scheduler.cancel("chat")
        assert await ends(handle) == [("canceled", "interrupt")]
    assert isinstance(host.raised, asyncio.CancelledError)
    assert (len(host.stored), shorter.over) == (1, 1)


async def test_a_shutdown_during_the_last_compaction_leaves_a_turn_that_is_complete() -> None:
    shorter = Shorter(seconds=100)
    host = Host(Script([Text("a"), used(90)]), compact=Compaction(shorter, 100))
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(50)
        await scheduler.close()
        outcome = await handle.outcome()
    assert outcome.status is Status.COMPLETED
    assert outcome.result is not None
    assert flat(*outcome.result.history) == ["user: hi", "text: a"]
    assert shorter.over == 1


async def test_a_compaction_is_not_begun_after_a_cancel() -> None:
    shorter = Shorter()
    host = Host(Script([call("1"), used(90)]), [ECHO], compact=Compaction(shorter, 100))
    host.persist_s = 1.0
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(0.5)
        scheduler.cancel("chat")
        assert await ends(handle) == [("canceled", "interrupt")]
    assert (len(host.stored), shorter.seen) == (1, [])


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"window": 10, "threshold": 0.0}, {"window": 10, "threshold": 1.1}]
)
def test_a_compaction_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Compaction(Shorter(), **options)


def test_a_compaction_is_awaited() -> None:
    with pytest.raises(InvalidOption, match="async def"):
        Compaction(print, 10)  # type: ignore[arg-type]
