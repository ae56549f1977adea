"""Chapter F of the contract for both schedulers: follow-ups."""

from __future__ import annotations

from functools import partial

import pytest
from worlds import World, both_worlds

from sessionsched import RunEnded, RunFolded, RunStarted, WhenBusy

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")
FOLD = WhenBusy.FOLD


@pytest.mark.contract("F1", "F2", "F4")
def test_race_17_only_ready_follow_ups_are_taken_in_accept_order_and_the_rest_stays(
    world: World,
) -> None:
    scheduler = world.open()
    first, ticket = world.active("chat", "a"), scheduler.accept("chat", "b", when_busy=FOLD)
    handles = [first, ticket.handle]
    for prompt, when_busy in (("c", WhenBusy.QUEUE), ("d", FOLD), ("e", WhenBusy.QUEUE)):
        handles.append(scheduler.submit("chat", prompt, when_busy=when_busy))
    handles.append(scheduler.submit("chat", "f", when_busy=FOLD))
    taken = world.runs["a"].take_follow_ups()
    assert [run.prompt for run in taken] == ["d", "f"]
    assert world.runs["a"].take_follow_ups() == ()
    ticket.ready()
    world.finish(*"abce")
    assert world.ends(*handles) == [COMPLETED] * 6
    assert world.started == [*"abce"]  # b was ready too late, and runs on its own


@pytest.mark.contract("F1", "X1")
def test_nothing_is_folded_into_a_covered_run_nor_into_one_that_has_ended(world: World) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    first = world.active("chat", "a")
    scheduler.cancel("chat")
    later = scheduler.submit("chat", "b", when_busy=FOLD)
    assert first.run.take_follow_ups() == ()
    world.finish("a")
    world.wait_log("start b")
    last = scheduler.submit("chat", "c", when_busy=FOLD)
    assert first.run.take_follow_ups() == ()
    world.finish("b", "c")
    assert world.ends(first, later, last) == [CANCELED, COMPLETED, COMPLETED]
    assert world.started == [*"abc"]


@pytest.mark.contract("F3", "X9", "T1")
@pytest.mark.parametrize("end", ["finish", "fail", "cancel"])
def test_race_16_a_folded_run_ends_right_after_the_one_that_took_it_and_in_the_same_way(
    world: World, end: str
) -> None:
    scheduler = world.open(recorded=True)
    first = world.active("chat", "a")
    follow_ups = [scheduler.submit("chat", it, when_busy=FOLD) for it in "bc"]
    behind = scheduler.submit("chat", "d")
    first.run.take_follow_ups()
    match end:
        case "finish":
            world.finish("a")
        case "fail":
            world.fail("a", ValueError("broken"))
        case _:
            first.cancel()
    world.finish("d")
    ends = world.ends(first, *follow_ups)
    assert ends == [ends[0]] * 3
    assert ends[0][0] == {"finish": "completed", "fail": "failed", "cancel": "canceled"}[end]
    assert [world.outcome(it).folded_into for it in follow_ups] == [first.run_id] * 2
    assert world.ends(behind) == [COMPLETED]
    world.close()
    kinds = (RunEnded, RunStarted, RunFolded)
    lines = [it for it in world.events.lines() if it.startswith(tuple(k.__name__ for k in kinds))]
    assert lines == [
        *("RunStarted a", "RunFolded b", "RunFolded c"),
        *("RunEnded a", "RunEnded b", "RunEnded c"),
        *("RunStarted d", "RunEnded d"),
    ]
    assert world.log.count("drop b") == world.log.count("start b") == 0


@pytest.mark.contract("F4", "D2")
def test_race_17_a_follow_up_that_nobody_took_does_not_overtake_a_prompt_that_was_first(
    world: World,
) -> None:
    scheduler = world.open()
    handles = [world.active("chat", "a"), scheduler.submit("chat", "b")]
    handles += [scheduler.submit("chat", it, when_busy=FOLD) for it in "cd"]
    world.finish(*"abcd")
    assert world.ends(*handles) == [COMPLETED] * 4
    assert world.started == [*"abcd"]


@pytest.mark.contract("F4")
def test_a_follow_up_on_an_idle_session_runs_at_once(world: World) -> None:
    world.open()
    handle = world.active("chat", "a", when_busy=FOLD)
    world.finish("a")
    assert world.value(handle) == "a done"


@pytest.mark.contract("F1", "F4", "R4")
def test_follow_ups_that_come_while_they_are_taken_are_taken_or_run_and_none_vanishes(
    world: World,
) -> None:
    scheduler = world.open()
    first = world.active("chat", "a")
    prompts = [f"p{n}" for n in range(40)]
    world.finish(*prompts)
    senders = [world.aside(partial(scheduler.submit, "chat", it, when_busy=FOLD)) for it in prompts]
    taken = []
    while not all(sender.done() for sender in senders):
        taken += first.run.take_follow_ups()
    world.finish("a")
    handles = [sender.result() for sender in senders]
    assert world.ends(first, *handles) == [COMPLETED] * 41
    alone = world.started[1:]
    assert sorted([run.prompt for run in taken] + alone) == sorted(prompts)
    assert [run.seq for run in taken] == sorted(run.seq for run in taken)
