"""Making a scheduler, and what it takes in or refuses at the door."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    DuplicateRun,
    InvalidOption,
    InvalidSession,
    Limits,
    LineFull,
    Refused,
    RunState,
    Scheduler,
    SchedulerClosed,
    SessionBusy,
    WhenBusy,
    WrongLoop,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched import Run, RunHandle

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")


async def echo(run: Run[str]) -> str:
    return run.prompt


# --- making one ---


class Twice:
    async def __call__(self, run: Run[str]) -> str:
        return run.prompt * 2

    async def method(self, run: Run[str]) -> str:
        return run.prompt * 2


async def times(number: int, run: Run[str]) -> str:
    return run.prompt * number


@pytest.mark.parametrize(
    "handler",
    [
        functools.partial(times, 2),
        Twice(),
        Twice().method,
        functools.partial(Twice.method, Twice()),
    ],
    ids=["partial", "object", "method", "partial of a method"],
)
async def test_whatever_is_called_like_an_async_function_can_be_a_handler(handler: Any) -> None:
    async with Scheduler[str, str](handler) as scheduler:
        assert await scheduler.submit("chat", "ab") == "abab"


@pytest.mark.contract("A4")
@pytest.mark.parametrize("option", ["handler", "on_dropped", "prepare"])
@pytest.mark.parametrize(
    "value",
    [lambda run: run, print, functools.partial(print), "echo"],
    ids=["lambda", "function", "partial", "text"],
)
def test_what_is_not_written_with_async_def_is_refused(option: str, value: Any) -> None:
    options = {"handler": echo, option: value}
    with pytest.raises(InvalidOption, match=f"^{option} must be written with async def") as refused:
        Scheduler(**options)
    assert (refused.value.option, refused.value.value) == (option, value)


@pytest.mark.contract("A4")
@pytest.mark.parametrize("option", ["grace", "abandon_after", "settle_timeout", "prepare_timeout"])
@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf"), "5", True])
def test_a_time_that_is_not_a_number_of_seconds_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=f"^{option} is a number of seconds"):
        Scheduler(echo, **{option: value})


def test_without_a_word_a_cancel_and_a_record_get_five_seconds() -> None:
    options = Scheduler(Agent())._driver.options
    assert (options.grace_s, options.settle_s, options.abandon_s) == (5.0, 5.0, None)


def test_only_the_grace_can_not_be_zero() -> None:
    Scheduler(echo, abandon_after=0, settle_timeout=0, prepare_timeout=0)
    with pytest.raises(InvalidOption, match="more than zero"):
        Scheduler(echo, grace=0)


# --- the loop that it belongs to ---


def test_before_it_is_open_prompts_are_refused_and_there_is_nothing_to_look_at() -> None:
    scheduler = Scheduler(echo)
    for take in (scheduler.submit, scheduler.accept):
        with pytest.raises(SchedulerClosed, match="not open") as refused:
            take("chat", "hello", run_id="r-17")
        assert (refused.value.session_id, refused.value.run_id) == ("chat", "r-17")
    assert not scheduler.cancel("chat")
    assert not scheduler.resume("chat")
    assert scheduler.cancel_all() == ()
    assert scheduler.snapshot().sessions == ()


async def test_made_where_a_loop_runs_it_is_open_at_once() -> None:
    scheduler = Scheduler(echo)
    assert await scheduler.submit("chat", "hello") == "hello"
    await scheduler.close()


def test_made_outside_of_a_loop_it_belongs_to_the_loop_of_its_block() -> None:
    scheduler = Scheduler(echo)

    async def main() -> str:
        with pytest.raises(SchedulerClosed, match="not open"):
            await scheduler.turn("chat", "too early").__aenter__()
        async with scheduler as same:
            assert same is scheduler
            return await scheduler.submit("chat", "hello")

    assert asyncio.run(main()) == "hello"


@pytest.mark.parametrize(
    "use",
    [
        lambda scheduler, _: scheduler.__aenter__(),
        lambda scheduler, _: scheduler.close(),
        lambda scheduler, _: scheduler.turn("chat", "b").__aenter__(),
        lambda _, handle: handle.outcome(),
        lambda _, handle: handle,
    ],
    ids=["async with", "close", "turn", "outcome", "await"],
)
def test_on_another_loop_nothing_can_be_waited_for_and_nothing_changes(
    use: Callable[[Scheduler[str, str], RunHandle[str, str]], Awaitable[object]],
) -> None:
    own, agent = asyncio.new_event_loop(), Agent()

    async def begin() -> tuple[Scheduler[str, str], RunHandle[str, str]]:
        scheduler = Scheduler(agent)
        return scheduler, scheduler.submit("chat", "a")

    async def elsewhere() -> None:
        with pytest.raises(WrongLoop, match=r"^wait on the event loop that .* was opened on$"):
            await use(scheduler, handle)

    async def end() -> None:
        agent.finish("a")
        assert await handle == "a done"
        await scheduler.close()

    try:
        scheduler, handle = own.run_until_complete(begin())
        asyncio.run(elsewhere())
        assert scheduler.session("chat").in_flight == (handle.run,)
        assert not scheduler.snapshot().closed
        own.run_until_complete(end())
    finally:
        own.close()
    assert asyncio.run(handle.outcome()).result == "a done", "what is known is known everywhere"


# --- accepting ---


@pytest.mark.contract("A1")
async def test_submitting_decides_at_once_and_leaves_the_handler_for_later() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        assert (first.state, second.state) == (RunState.ACTIVE, RunState.QUEUED)
        assert agent.log == []
        agent.finish("a", "b")
        assert await ends(first, second) == [COMPLETED, COMPLETED]
    assert agent.started == ["a", "b"]


@pytest.mark.contract("A2")
async def test_every_run_has_a_greater_seq_than_all_before_it_in_whatever_session() -> None:
    async with Scheduler(echo) as scheduler:
        seqs = []
        for number in range(6):
            seqs.append(scheduler.submit(f"chat-{number % 3}", "x").seq)
            with scheduler.accept("chat-1", "y") as ticket:
                seqs.append(ticket.seq)
            await quiet(number)
    assert seqs == list(range(1, 13))


@pytest.mark.contract("A3", "X1")
@pytest.mark.parametrize("way", ["submit", "accept", "prepare", "turn"])
async def test_whatever_may_run_has_a_seq_is_visible_and_can_be_canceled(way: str) -> None:
    async def prepare(_run: Run[str]) -> None:
        await asyncio.sleep(5)

    async def turn() -> None:
        async with scheduler.turn("chat", "b", run_id="b"):
            pass

    agent = Agent()
    async with Scheduler(agent, prepare=prepare if way == "prepare" else None) as scheduler:
        scheduler.submit("chat", "a")
        tasks = [asyncio.create_task(turn())] if way == "turn" else []
        taken = scheduler.accept if way == "accept" else scheduler.submit
        ticket = None if tasks else taken("chat", "b", run_id="b")
        await quiet()
        found = scheduler.find("b")
        assert found is not None
        assert found.seq == 2
        assert found.run in scheduler.snapshot().sessions[0].waiting
        assert found.run in scheduler.cancel("chat").dropped
        assert await ends(found) == [INTERRUPTED]
        await asyncio.gather(*tasks, return_exceptions=True)
        del ticket
    assert "b" not in agent.started


REFUSALS: list[tuple[str, str, dict[str, Any], type[Refused]]] = [
    ("", "x", {}, InvalidSession),
    (" \t", "x", {}, InvalidSession),
    (None, "x", {}, InvalidSession),  # type: ignore[list-item]
    (7, "x", {}, InvalidSession),  # type: ignore[list-item]
    ("chat", "x", {"when_busy": "soon"}, InvalidOption),
    ("chat", "x", {"deadline": -1}, InvalidOption),
    ("chat", "x", {"wait_at_most": float("nan")}, InvalidOption),
    ("chat", "x", {"run_id": ""}, InvalidOption),
    ("chat", "x", {"run_id": 7}, InvalidOption),
    ("chat", "x", {"when_busy": WhenBusy.REJECT}, SessionBusy),
    ("chat", "x", {}, LineFull),
    ("chat", "x", {"when_busy": WhenBusy.LATEST, "run_id": "first"}, DuplicateRun),
    ("chat", "x", {"run_id": "first"}, DuplicateRun),
    ("another chat", "a", {"run_id": "first"}, DuplicateRun),
]


@pytest.mark.contract("A4")
@pytest.mark.parametrize("way", ["submit", "accept", "turn"])
@pytest.mark.parametrize(("session_id", "prompt", "options", "kind"), REFUSALS)
async def test_what_is_refused_says_so_by_its_type_and_changes_nothing(
    way: str, session_id: str, prompt: str, options: dict[str, Any], kind: type[Refused]
) -> None:
    async def take() -> None:
        taken = getattr(scheduler, way)(session_id, prompt, **options)
        await taken.__aenter__()  # only a turn comes so far

    agent = Agent()
    async with Scheduler(agent, limits=Limits(max_waiting=1)) as scheduler:
        first = scheduler.submit("chat", "a", run_id="first")
        second = scheduler.submit("chat", "b")
        await quiet()
        async with watching(scheduler) as watch:
            before, seen = scheduler.snapshot(), len(watch.events)
            with pytest.raises(kind) as refused:
                await take()
            assert type(refused.value) is kind
            await quiet()
            assert scheduler.snapshot() == before
            assert len(watch.events) == seen
        third = scheduler.submit("a third chat", "c")
        assert third.seq == second.seq + 1, "a refused prompt has no seq"
        agent.finish("a", "b", "c")
        assert await ends(first, second, third) == [COMPLETED] * 3


@pytest.mark.contract("A4", "S1")
async def test_while_it_closes_and_after_it_has_closed_prompts_are_refused() -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    last = scheduler.submit("chat", "a", run_id="last")

    def refuses() -> None:
        for take in (scheduler.submit, scheduler.accept):
            with pytest.raises(SchedulerClosed, match="closing"):
                take("chat", "b")
        assert scheduler.submit("chat", "a", run_id="last") == last, "it was taken in before"

    closing = asyncio.create_task(scheduler.close(drain=5))
    await quiet()
    refuses()
    agent.finish("a")
    await closing
    refuses()
    assert await ends(last) == [COMPLETED]
    assert agent.started == ["a"]


@pytest.mark.contract("A5")
async def test_the_same_run_id_gives_the_same_run_until_it_is_forgotten() -> None:
    agent = Agent()
    async with Scheduler(agent, limits=Limits(remembered=1)) as scheduler:
        first = scheduler.submit("chat", "a", run_id="mine")
        assert scheduler.submit("chat", "a", run_id="mine") == first
        agent.finish("a")
        await first
        assert scheduler.submit("chat", "a", run_id="mine") == first, "it has ended lately"
        assert scheduler.find("mine") == first
        agent.finish("b")
        await scheduler.submit("chat", "b", run_id="another")
        assert scheduler.find("mine") is None
        again = scheduler.submit("chat", "a", run_id="mine")
        assert again != first
        await again
    assert agent.started == ["a", "b", "a"]
