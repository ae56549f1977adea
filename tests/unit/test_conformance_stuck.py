"""X8 for both schedulers: a cancel can't be worn out, whatever the handler makes of it."""

from __future__ import annotations

import threading

import pytest
from worlds import World, both_worlds

from sessionsched import Limits, RunEnded, RunStuck, Why

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


@pytest.mark.contract("X8")
def test_race_40_a_handler_that_ignores_the_cancel_is_told_until_it_is_over(world: World) -> None:
    scheduler = world.open(grace=0.001)
    world.stubborn.add("a")
    handle, later = world.active("chat", "a"), scheduler.submit("chat", "b")
    handle.cancel()
    told = [world.events.wait_for(RunStuck, "a", times).told for times in (1, 2, 3)]
    assert told == [1, 2, 3]
    world.check_told("a", 3)
    assert scheduler.explain(later.run_id).why is Why.UNWINDING
    world.finish("a", "b")
    assert world.ends(handle, later) == [CANCELED, COMPLETED]
    assert world.log.index("over a") < world.log.index("start b")


@pytest.mark.contract("X8", "T6")
def test_nobody_is_called_stuck_after_its_end(world: World) -> None:
    scheduler = world.open(grace=0.002)  # not less: whoever looks on must keep up
    prompts = [f"p{n}" for n in range(30)]
    world.stubborn.update(prompts)
    for prompt in prompts:
        handle = world.active("chat", prompt)
        scheduler.cancel("chat")
        world.events.wait_for(RunStuck, prompt)
        world.finish(prompt)
        assert world.ends(handle) == [CANCELED]
    world.close()
    ended = [event.run.prompt for event in world.events.of(RunEnded)]
    assert ended == prompts  # and nothing after each of them: the world looks


@pytest.mark.contract("X8", "X1")
def test_race_12_the_grace_of_a_canceled_run_strikes_nobody_after_it(world: World) -> None:
    scheduler = world.open(grace=0.001)
    world.stubborn.update("ac")
    handles = [world.active("chat", "a"), scheduler.submit("chat", "b")]
    handles[0].cancel()
    world.events.wait_for(RunStuck, "a")
    world.finish("a")
    world.wait_log("start b")
    # While another one is told and told again, b hears nothing.
    handles.append(world.active("other", "c"))
    handles[2].cancel()
    world.events.wait_for(RunStuck, "c", 5)
    assert world.events.of(RunStuck, "b") == []
    assert not world.runs["b"].canceled
    world.finish("b", "c")
    assert world.ends(*handles) == [CANCELED, COMPLETED, CANCELED]
    assert "stop b" not in world.log


@pytest.mark.contract("X8", "D4", "D1")
def test_race_12_an_abandoned_handler_that_ends_later_takes_nothing_from_the_next_run(
    world: World,
) -> None:
    scheduler = world.open(grace=0.005, abandon_after=0.01)
    world.stubborn.add("a")
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    first.cancel()
    outcome = world.outcome(first)
    assert (outcome.status, outcome.cause, outcome.abandoned) == ("canceled", "interrupt", True)
    world.wait_log("start b")
    world.finish("a")
    world.wait_log("over a")
    assert scheduler.session("chat").active is second.run
    assert scheduler.cancel("chat").active is second.run
    assert world.ends(second) == [CANCELED]
    assert world.outcome(first) == outcome
    assert not world.runs["a"].emit("too late")  # race 36


@pytest.mark.contract("X8", "D6")
def test_an_abandoned_handler_gives_its_slot_back(world: World) -> None:
    scheduler = world.open(abandon_after=0.0, limits=Limits(max_active=1))
    for n in range(10):  # more than there are threads
        world.stubborn.add(f"a{n}")
        handle = world.active("chat", f"a{n}")
        handle.cancel()
        assert world.outcome(handle).abandoned
    world.finish("b")
    assert world.ends(scheduler.submit("chat", "b")) == [COMPLETED]


@pytest.mark.contract("X8")
def test_a_handler_that_stops_when_it_is_told_is_not_abandoned(world: World) -> None:
    world.open(abandon_after=600.0, grace=600.0)
    handle = world.active("chat", "a")
    handle.cancel()
    assert not world.outcome(handle).abandoned
    world.close()
    assert world.events.of(RunStuck) == []


@pytest.mark.contract("X8", "X12")
def test_race_28_a_silent_handler_is_abandoned_after_its_deadline(world: World) -> None:
    scheduler = world.open(abandon_after=0.01, recorded=True)
    world.stubborn.add("a")
    world.finish("b")
    silent, later = scheduler.submit("chat", "a", deadline=0.01), scheduler.submit("chat", "b")
    assert world.ends(silent, later) == [("canceled", "deadline"), COMPLETED]


@pytest.mark.contract("X8", "S1")
def test_race_26_what_ignores_every_cancel_does_not_hold_up_the_close_for_ever(
    world: World,
) -> None:
    world.open(grace=0.01, abandon_after=0.01)
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    report = world.close()
    assert world.outcome(handle).abandoned
    assert report.suspended == report.still_going == (handle.run,)


@pytest.mark.contract("S1", "S7")
def test_race_26_a_detached_helper_of_a_run_does_not_hold_up_the_close(world: World) -> None:
    world.open()
    helper = threading.Event()
    world.at_first["a"] = lambda _: world.aside(lambda: helper.wait(60.0))
    handle = world.active("chat", "a")
    world.finish("a")
    assert world.ends(handle) == [COMPLETED]
    assert world.close().still_going == ()
    helper.set()


@pytest.mark.contract("X8", "P1", "T1")
def test_race_39_a_run_that_is_abandoned_before_its_first_step_was_seen_by_somebody(
    world: World,
) -> None:
    scheduler = world.open(abandon_after=0.0, recorded=True)
    for n in range(100):
        handle = scheduler.submit("chat", f"p{n}")
        handle.cancel()
        outcome = world.outcome(handle)
        assert outcome.status == "canceled"
        if not outcome.started:  # P1: it is recorded before it ends
            assert f"drop p{n} over" in world.log
