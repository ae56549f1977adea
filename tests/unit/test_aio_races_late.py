"""Handlers that go on after the cancel (races 36, 40), and what they return or raise then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere

from sessionsched import RunEnded, RunProgress, RunStarted, RunStuck, Scheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run, RunHandle

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


# --- 36: output that comes late ---


class Leaky:
    """A handler whose child works on after it."""

    def __init__(self) -> None:
        self.runs: dict[str, Run[str]] = {}

    async def __call__(self, run: Run[str]) -> str:
        self.runs[run.prompt] = run
        await asyncio.sleep(1)
        return run.prompt


@pytest.mark.contract("T1", "T6")
@pytest.mark.parametrize("cancel", [False, True])
async def test_race_36_output_that_comes_after_the_end_of_its_run_goes_nowhere(
    *, cancel: bool
) -> None:
    leaky = Leaky()
    async with Scheduler(leaky) as scheduler, watching(scheduler) as watch:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        assert leaky.runs["a"].emit("in time")
        if cancel:
            first.cancel()
        await first.outcome()
        assert not leaky.runs["a"].emit("late")
        await asyncio.sleep(0.5)
        assert scheduler.session("chat").active is second.run
        assert not leaky.runs["a"].emit("very late")
        assert leaky.runs["b"].emit("in time")
        await second.outcome()
        assert not leaky.runs["b"].emit("late")
    assert not leaky.runs["b"].emit("and nobody listens")
    shown = [(event.run_id, event.seq, event.item) for event in watch.of(RunProgress)]
    assert shown == [(first.run_id, 1, "in time"), (second.run_id, 2, "in time")]


@pytest.mark.contract("T1", "T6")
async def test_race_36_at_any_turn_what_is_emitted_is_shown_before_the_end_or_not_at_all() -> None:
    answers = set()
    for turns in range(8):
        agent = Agent()
        async with Scheduler(agent) as scheduler, watching(scheduler, session_id="chat") as watch:
            handle = scheduler.submit("chat", "a")
            await quiet()
            agent.finish("a")
            await quiet(turns)
            shown = handle.run.emit("words")
            answers.add(shown)
        kinds = [type(event) for event in watch.events[1:]]
        assert kinds == [RunStarted] + [RunProgress] * shown + [RunEnded]
    assert answers == {True, False}


@pytest.mark.real_loop
@pytest.mark.contract("T6", "R4")
async def test_race_36_nothing_is_shown_of_a_run_after_the_drop_that_another_thread_decided() -> (
    None
):
    async with Scheduler(Agent()) as scheduler, watching(scheduler, session_id="chat") as watch:
        scheduler.submit("chat", "a")
        handle = scheduler.submit("chat", "b")
        elsewhere(handle.cancel)  # decided; the loop has yet to hear of it
        shown = handle.run.emit("words")
        await quiet()
        lines = watch.lines(handle.run_id)
        assert lines[-1] == f"RunEnded {handle.run_id}"
        assert shown == (f"RunProgress {handle.run_id}" in lines)


@pytest.mark.contract("X8", "T1")
async def test_race_36_an_abandoned_handler_can_not_show_anything_any_longer() -> None:
    answers = []
    release = asyncio.Event()

    async def handler(run: Run[str]) -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        answers.append((run.emit("still here"), run.take_follow_ups()))

    async with (
        Scheduler(handler, grace=1.0, abandon_after=1.0) as scheduler,
        watching(scheduler) as watch,
    ):
        handle = scheduler.submit("chat", "a")
        await quiet()
        handle.cancel()
        assert (await handle.outcome()).abandoned
        follow_up = scheduler.accept("chat", "b", when_busy=WhenBusy.FOLD)
        release.set()
        await quiet()
        follow_up.close()
    assert answers == [(False, ())]
    assert watch.of(RunProgress) == []


# --- 40: handlers that swallow the cancel ---


class Stubborn:
    """A handler that swallows so many cancels before it gives in, or returns."""

    def __init__(self, swallows: int, *, gives_in: bool) -> None:
        self.swallows = swallows
        self.gives_in = gives_in
        self.struck = 0

    async def __call__(self, run: Run[str]) -> str:
        while run.prompt == "a" and self.struck <= self.swallows:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.struck += 1
                if self.struck > self.swallows and self.gives_in:
                    raise
        return f"{run.prompt} done"


@pytest.mark.contract("X8", "X6", "D1", "D4")
@pytest.mark.parametrize("gives_in", [False, True])
@pytest.mark.parametrize("swallows", [0, 1, 3])
async def test_race_40_a_handler_that_swallows_the_cancel_is_canceled_until_it_is_over(
    swallows: int, *, gives_in: bool
) -> None:
    handler = Stubborn(swallows, gives_in=gives_in)
    async with Scheduler(handler, grace=5.0) as scheduler, watching(scheduler) as watch:
        first = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        assert await ends(first, second) == [CANCELED, COMPLETED]
        outcome, later = await first.outcome(), await second.outcome()
        assert outcome.result == (None if gives_in else "a done")
        assert outcome.ended_at == later.started_at == outcome.accepted_at + 5.0 * swallows
    assert [(event.run_id, event.told) for event in watch.of(RunStuck)] == [
        (first.run_id, told + 1) for told in range(swallows)
    ]


@pytest.mark.contract("X8", "D5")
async def test_race_40_a_handler_that_ignores_every_cancel_holds_up_its_own_session_only() -> None:
    handler = Stubborn(100, gives_in=True)
    async with Scheduler(handler, grace=1.0) as scheduler:
        first = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        behind = scheduler.submit("chat", "b")
        assert await scheduler.submit("other", "c") == "c done"
        await asyncio.sleep(98.5)
        assert (first.run.ended, behind.run.ended, handler.struck) == (None, None, 99)
        assert await ends(first, behind) == [CANCELED, COMPLETED]


# --- what the handler returns or raises all the same ---


@pytest.mark.contract("X6")
async def test_race_40_what_a_handler_makes_of_the_cancel_is_kept() -> None:
    async def handler(run: Run[str]) -> str:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            if run.prompt == "raise":
                raise OSError("while cleaning up") from None
        return f"part of {run.prompt}"

    async with Scheduler(handler) as scheduler:
        handles = [scheduler.submit(prompt, prompt) for prompt in ("return", "raise")]
        await quiet()
        scheduler.cancel_all()
        assert await ends(*handles) == [CANCELED] * 2
        returned, raised = [await handle.outcome() for handle in handles]
    assert (returned.result, returned.error) == ("part of return", None)
    assert (raised.result, str(raised.error)) == (None, "while cleaning up")


WAYS_TO_CANCEL_ONESELF: dict[str, Callable[[Scheduler[str, str], RunHandle[str, str]], object]] = {
    "its session": lambda scheduler, _: scheduler.cancel("chat"),
    "itself": lambda _, handle: handle.cancel(),
    "by the next prompt": lambda scheduler, _: scheduler.submit(
        "chat", "next", when_busy=WhenBusy.INTERRUPT
    ),
}


@pytest.mark.contract("X6", "X1")
@pytest.mark.parametrize("way", WAYS_TO_CANCEL_ONESELF)
@pytest.mark.parametrize("raises", [False, True])
async def test_race_40_what_a_handler_returns_right_after_it_canceled_itself_is_kept(
    way: str, *, raises: bool
) -> None:
    async def handler(run: Run[str]) -> str:
        if run.prompt == "a":
            WAYS_TO_CANCEL_ONESELF[way](scheduler, handle)
            if raises:
                raise OSError
        return f"{run.prompt} done"

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        outcome = await handle.outcome()
        assert outcome.status == "canceled"
        assert outcome.result == (None if raises else "a done")
        assert type(outcome.error) is (OSError if raises else type(None))
