"""One run at a time, in the order of acceptance (races 9, 11, 14, 17, 23)."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet

from sessionsched import Limits, Scheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sessionsched import Run

CANCELED = ("canceled", "interrupt")
SUPERSEDED = ("canceled", "superseded")
COMPLETED = ("completed", None)


class Writer:
    """A handler that writes what it did, also what it did in part, and takes its time for that."""

    def __init__(self) -> None:
        self.log: list[str] = []
        #: How many are writing just now, and how many ever were at once.
        self.busy = self.most = 0

    async def __call__(self, run: Run[str]) -> str:
        self.busy += 1
        self.most = max(self.most, self.busy)
        self.log.append(f"begin {run.prompt}")
        try:
            await asyncio.sleep(1)
        finally:
            await asyncio.sleep(1)
            self.log.append(f"wrote {run.prompt}")
            self.busy -= 1
        return run.prompt


# --- 9, 23: while a canceled run unwinds ---


@pytest.mark.contract("D4", "D1", "X2")
async def test_race_09_a_prompt_sent_at_any_turn_while_a_canceled_run_unwinds_still_runs() -> None:
    for turns in range(8):
        writer = Writer()
        async with Scheduler(writer) as scheduler:
            first = scheduler.submit("chat", "a")
            await quiet()
            scheduler.cancel("chat")
            await quiet(turns)
            second = scheduler.submit("chat", "b")
            assert await ends(first, second) == [CANCELED, COMPLETED]
        assert writer.log == ["begin a", "wrote a", "begin b", "wrote b"]


@pytest.mark.contract("D4", "X2", "X7")
@pytest.mark.parametrize("recorded_in", [0, 3])
async def test_race_09_a_prompt_sent_while_a_dropped_one_is_recorded_still_runs(
    recorded_in: float,
) -> None:
    agent = Agent()
    agent.finish("b")

    async def on_dropped(run: Run[str]) -> None:
        await asyncio.sleep(recorded_in)
        agent.log.append(f"recorded {run.prompt}")

    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        ticket = scheduler.accept("chat", "a")
        scheduler.cancel("chat")
        second = scheduler.submit("chat", "b")
        assert await ends(second, ticket.handle) == [COMPLETED, CANCELED]
    assert agent.log == ["recorded a", "start b", "over b"]


@pytest.mark.contract("D1", "T2", "X14")
async def test_race_23_an_interrupting_prompt_starts_after_the_partial_output_is_written() -> None:
    began = set()
    for turns in range(8):
        writer = Writer()
        async with Scheduler(writer) as scheduler:
            first = scheduler.submit("chat", "a")
            await quiet(turns)
            second = scheduler.submit("chat", "b", when_busy=WhenBusy.INTERRUPT)
            assert await ends(first, second) == [SUPERSEDED, COMPLETED]
        assert writer.log[-2:] == ["begin b", "wrote b"]
        assert writer.log[:-2] in ([], ["begin a", "wrote a"])
        began.add(len(writer.log))
    assert began == {2, 4}


@pytest.mark.contract("D1", "X14")
async def test_race_23_of_many_interrupting_prompts_the_last_one_runs_and_none_beside_another() -> (
    None
):
    writer = Writer()
    async with Scheduler(writer) as scheduler:
        handles = []
        for number in range(20):
            prompt = f"prompt {number}"
            handles.append(scheduler.submit("chat", prompt, when_busy=WhenBusy.INTERRUPT))
            await asyncio.sleep(0.3)
        assert await ends(*handles) == [SUPERSEDED] * 19 + [COMPLETED]
    assert writer.most == 1
    assert writer.log[-2:] == ["begin prompt 19", "wrote prompt 19"]


# --- 11: one at a time ---


@pytest.mark.contract("D1", "D2", "D4")
@pytest.mark.parametrize("limits", [None, Limits(max_active=2)])
async def test_race_11_of_many_who_find_the_session_idle_one_starts_and_the_others_wait(
    limits: Limits | None,
) -> None:
    writer = Writer()

    async def submit(prompt: str) -> None:
        if not scheduler.snapshot().active:
            await asyncio.sleep(0)  # they all have looked before the first one submits
        await scheduler.submit("chat", prompt)

    async def take_turn(prompt: str) -> None:
        async with scheduler.turn("chat", prompt) as run:
            await writer(run)

    async with Scheduler(writer, limits=limits) as scheduler:
        many: list[Coroutine[None, None, None]] = [
            kind(f"{number}") for number in range(5) for kind in (submit, take_turn)
        ]
        await asyncio.gather(*many)
    assert (writer.most, len(writer.log)) == (1, 20)


@pytest.mark.contract("D1", "D5")
async def test_race_11_two_sessions_are_active_at_once_and_each_of_them_once() -> None:
    writers = {"chat": Writer(), "other": Writer()}

    async def handler(run: Run[str]) -> str:
        return await writers[run.session_id](run)

    async with Scheduler(handler) as scheduler:
        handles = [scheduler.submit(it, "hello") for it in ("chat", "other", "other", "chat")]
        await asyncio.sleep(0.5)
        assert scheduler.snapshot().active == 2
        assert await ends(*handles) == [COMPLETED] * 4
    assert [writer.most for writer in writers.values()] == [1, 1]


# --- 14, 17: the order ---


@pytest.mark.contract("D2", "D3")
@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
async def test_race_14_runs_start_in_accept_order_whatever_the_order_they_become_ready_in(
    order: tuple[str, ...],
) -> None:
    agent = Agent()
    agent.finish(*"abc")
    async with Scheduler(agent) as scheduler:
        tickets = {prompt: scheduler.accept("chat", prompt) for prompt in "abc"}
        for prompt in order:
            tickets[prompt].ready()
            await quiet()
        assert await ends(*(it.handle for it in tickets.values())) == [COMPLETED] * 3
    assert agent.started == ["a", "b", "c"]


@pytest.mark.contract("D2", "D3")
@pytest.mark.parametrize("takes", list(itertools.permutations([1, 2, 3])))
async def test_race_14_runs_start_in_accept_order_however_long_it_takes_to_prepare_each(
    takes: tuple[int, ...],
) -> None:
    agent = Agent()
    agent.finish(*"abc")
    delays = dict(zip("abc", takes, strict=True))

    async def prepare(run: Run[str]) -> None:
        await asyncio.sleep(delays[run.prompt])

    async with Scheduler(agent, prepare=prepare) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
        assert await ends(*handles) == [COMPLETED] * 3
    assert agent.started == ["a", "b", "c"]


@pytest.mark.contract("D3", "D4", "D2")
@pytest.mark.parametrize("failure", [None, OSError("no such file")])
async def test_race_14_a_prompt_that_is_given_back_lets_those_behind_it_go(
    failure: Exception | None,
) -> None:
    agent = Agent()
    agent.finish("b", "c")
    async with Scheduler(agent) as scheduler:
        ticket = scheduler.accept("chat", "a")
        later = [scheduler.submit("chat", prompt) for prompt in "bc"]
        await quiet()
        assert agent.started == []
        ticket.close(failure)
        how = ("failed", "unprepared") if failure else ("canceled", "withdrawn")
        assert await ends(ticket.handle, *later) == [how, COMPLETED, COMPLETED]
    assert agent.started == ["b", "c"]


@pytest.mark.contract("D2", "F2", "F4")
async def test_race_17_a_follow_up_that_nobody_took_does_not_overtake_a_prompt_that_was_first() -> (
    None
):
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", "a"), scheduler.submit("chat", "b")]
        handles += [scheduler.submit("chat", it, when_busy=WhenBusy.FOLD) for it in "cd"]
        handles.append(scheduler.submit("chat", "e"))
        await quiet()
        agent.finish(*"abcde")
        assert await ends(*handles) == [COMPLETED] * 5
    assert agent.started == ["a", "b", "c", "d", "e"]


@pytest.mark.contract("F1", "F2", "F3", "D2")
async def test_race_17_a_follow_up_that_was_taken_overtakes_and_nothing_else_does() -> None:
    started: list[str] = []
    taken: list[tuple[str, str]] = []

    async def handler(run: Run[str]) -> str:
        started.append(run.prompt)
        await asyncio.sleep(1)
        taken.extend((run.prompt, follow_up.prompt) for follow_up in run.take_follow_ups())
        return run.prompt

    async with Scheduler(handler) as scheduler:
        scheduler.submit("chat", "a")
        ticket = scheduler.accept("chat", "not ready", when_busy=WhenBusy.FOLD)
        own_turn = scheduler.submit("chat", "b")
        folds = [scheduler.submit("chat", it, when_busy=WhenBusy.FOLD) for it in "cd"]
        assert await ends(*folds) == [COMPLETED] * 2
        ticket.ready()
        assert await ends(own_turn, ticket.handle) == [COMPLETED] * 2
    assert started == ["a", "not ready", "b"]
    assert taken == [("a", "c"), ("a", "d")]


@pytest.mark.contract("D6", "D4")
async def test_race_14_slots_go_to_sessions_in_the_order_in_which_they_could_start() -> None:
    agent = Agent()
    async with Scheduler(agent, limits=Limits(max_active=1)) as scheduler:
        handles = [scheduler.submit("first", "a"), scheduler.submit("first", "a2")]
        ticket = scheduler.accept("late", "d")  # accepted before b and c, ready after them
        handles += [scheduler.submit(f"chat {it}", it) for it in "bc"]
        ticket.ready()
        await quiet()
        agent.finish("a", "a2", "b", "c", "d")
        assert await ends(*handles, ticket.handle) == [COMPLETED] * 5
    assert agent.started == ["a", "b", "c", "d", "a2"]
