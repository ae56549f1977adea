"""Turns, for both schedulers: a run in the host's own task or thread keeps the same contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import (
    Cause,
    InvalidOption,
    Limits,
    LineFull,
    RunCanceled,
    RunEnded,
    RunState,
    RunStuck,
    RunSuspended,
    SessionBusy,
    WhenBusy,
    Why,
    WouldDeadlock,
)

if TYPE_CHECKING:
    from worlds import Host

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


def fate(world: World, host: Host) -> tuple[str, str, str | None]:
    """What came out of the turn, and how its run ended."""
    error = host.error()
    outcome = world.events.wait_for(RunEnded, host.run.prompt).outcome
    return type(error).__name__, outcome.status.value, outcome.cause and outcome.cause.value


@pytest.mark.contract("D1", "D2", "T1")
def test_a_turn_waits_in_line_and_others_wait_behind_it(world: World) -> None:
    scheduler = world.open()
    first, host = world.active("chat", "a"), world.turn("chat", "me")
    last = scheduler.submit("chat", "b")
    assert [run.prompt for run in scheduler.waiting("chat")] == ["me", "b"]
    world.finish("a")
    world.wait_log("start me")
    assert scheduler.session("chat").active is host.run
    assert scheduler.explain(last.run_id).why is Why.TURN
    world.finish("me", "b")
    assert fate(world, host) == ("NoneType", *COMPLETED)
    assert world.ends(first, last) == [COMPLETED] * 2
    assert world.started == ["a", "me", "b"]


@pytest.mark.contract("D2", "D1", "R4")
def test_turns_of_one_session_come_one_at_a_time_in_accept_order(world: World) -> None:
    world.open()
    prompts = [f"me{n}" for n in range(12)]
    world.finish(*prompts)
    hosts = [world.turn("chat", prompt) for prompt in prompts]
    assert [fate(world, host) for host in hosts] == [("NoneType", *COMPLETED)] * 12
    assert world.log == [entry for it in prompts for entry in (f"start {it}", f"over {it}")]


@pytest.mark.contract("A4")
@pytest.mark.parametrize("when_busy", [WhenBusy.REJECT, WhenBusy.QUEUE])
def test_a_turn_that_was_refused_may_be_tried_again(world: World, when_busy: WhenBusy) -> None:
    scheduler = world.open(limits=Limits(max_waiting=1))
    handles = [world.active("chat", "a"), scheduler.submit("chat", "b")]
    turn = scheduler.turn("chat", "me", when_busy=when_busy)  # type: ignore[attr-defined]
    refused = SessionBusy if when_busy is WhenBusy.REJECT else LineFull
    for _ in range(2):
        assert isinstance(world._take(turn).exception(STUCK_S), refused)
    world.finish("a", "b", "me")
    assert world.ends(*handles) == [COMPLETED] * 2
    assert world._take(turn).exception(STUCK_S) is None
    assert world.started == ["a", "b", "me"]


@pytest.mark.contract("X1", "X7", "P1")
def test_a_turn_that_is_canceled_while_it_waits_never_begins(world: World) -> None:
    scheduler = world.open(recorded=True)
    first, host = world.active("chat", "a"), world.turn("chat", "me")
    receipt = scheduler.cancel("chat", up_to=host.run.seq)
    assert receipt.dropped == (host.run,)
    assert fate(world, host) == ("RunCanceled", *CANCELED)
    assert world.ends(first) == [CANCELED]
    assert world.log.count("drop me over") == 1
    assert "me" not in world.started


@pytest.mark.contract("X1", "X6")
def test_a_turn_that_is_canceled_inside_comes_out_as_canceled(world: World) -> None:
    scheduler = world.open(recorded=True)
    host, later = world.turn("chat", "me"), scheduler.submit("chat", "b")
    world.wait_log("start me")
    assert scheduler.cancel("chat", up_to=host.run.seq).active is host.run
    assert fate(world, host) == ("RunCanceled", *CANCELED)
    error = host.error()
    assert isinstance(error, RunCanceled)
    assert (error.run_id, error.cause) == (host.run.run_id, Cause.INTERRUPT)
    world.finish("b")
    assert world.ends(later) == [COMPLETED]


@pytest.mark.contract("X6")
@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_a_body_that_ends_in_its_own_way_does_so_whatever_its_run_comes_to(
    world: World, error: Exception | None
) -> None:
    scheduler = world.open()
    world.stubborn.add("me")
    host = world.turn("chat", "me")
    world.wait_log("start me")
    scheduler.cancel("chat")
    world.wait_log("stop me")
    if error is None:
        world.finish("me")
    else:
        world.fail("me", error)
    assert fate(world, host) == (type(error).__name__, *CANCELED)
    assert host.run.ended is not None
    assert host.run.ended.error is error


@pytest.mark.contract("T1", "D4")
def test_a_body_that_raises_has_failed_and_the_line_moves(world: World) -> None:
    scheduler = world.open()
    host, later = world.turn("chat", "me"), scheduler.submit("chat", "b")
    world.fail("me", ValueError("broken"))
    world.finish("b")
    assert fate(world, host) == ("ValueError", "failed", None)
    assert world.ends(later) == [COMPLETED]


@pytest.mark.contract("S2", "S3", "S4")
def test_a_close_suspends_turns_inside_and_in_line(world: World) -> None:
    world.open()
    inside = world.turn("chat", "me")
    world.wait_log("start me")
    waiting = world.turn("chat", "you")
    report = world.close()
    assert report.suspended == (inside.run, waiting.run)
    assert isinstance(waiting.error(), RunSuspended)
    assert fate(world, waiting)[1:] == fate(world, inside)[1:] == ("suspended", "shutdown")


@pytest.mark.contract("X8")
def test_a_body_that_ignores_the_cancel_is_told_again_and_nothing_starts(world: World) -> None:
    scheduler = world.open(grace=0.001)
    world.stubborn.add("me")
    host, later = world.turn("chat", "me"), scheduler.submit("chat", "b")
    world.wait_log("start me")
    scheduler.cancel_run(host.run.run_id)
    world.check_told("me", 2)
    world.events.wait_for(RunStuck, "me", 2)
    assert later.state is RunState.QUEUED
    world.finish("me", "b")
    assert fate(world, host) == ("NoneType", *CANCELED)
    assert world.ends(later) == [COMPLETED]


@pytest.mark.contract("X12")
def test_a_turn_has_a_deadline_and_a_patience_of_its_own(world: World) -> None:
    world.open()
    first = world.active("chat", "a")
    impatient = world.turn("chat", "me", wait_at_most=0.01)
    assert fate(world, impatient) == ("RunCanceled", "canceled", "expired")
    world.finish("a")
    assert world.ends(first) == [COMPLETED]
    slow = world.turn("chat", "you", deadline=0.01)
    assert fate(world, slow) == ("RunCanceled", "canceled", "deadline")


@pytest.mark.contract("X14")
def test_race_23_a_turn_may_interrupt_what_is_before_it(world: World) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    host = world.turn("chat", "me", when_busy=WhenBusy.INTERRUPT)
    world.finish("me")
    assert fate(world, host) == ("NoneType", *COMPLETED)
    assert world.ends(first, second) == [("canceled", "superseded")] * 2


@pytest.mark.contract("A4", "F1")
def test_a_turn_can_not_be_a_follow_up_but_may_take_some(world: World) -> None:
    scheduler = world.open()
    with pytest.raises(InvalidOption):
        world.turn("chat", "me", when_busy=WhenBusy.FOLD)
    host = world.turn("chat", "me")
    world.wait_log("start me")
    follow_up = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
    assert host.run.take_follow_ups() == (follow_up.run,)
    world.finish("me")
    assert fate(world, host) == ("NoneType", *COMPLETED)
    assert world.ends(follow_up) == [COMPLETED]


@pytest.mark.contract("D3", "X1")
def test_a_turn_is_prepared_like_every_run(world: World) -> None:
    world.open(prepared=True, recorded=True)
    world.hold("prepare me", "prepare you")
    host = world.turn("chat", "me")
    assert host.run.state is RunState.ACCEPTED
    world.finish("prepare me", "me")
    assert fate(world, host) == ("NoneType", *COMPLETED)
    other = world.turn("chat", "you")
    world.fail("prepare you", ValueError("no such file"))
    assert fate(world, other) == ("RunNotCompleted", "failed", "unprepared")


@pytest.mark.contract("D6", "D5")
def test_a_turn_takes_a_slot_and_gives_it_back(world: World) -> None:
    scheduler = world.open(limits=Limits(max_active=1))
    host, other = world.turn("one", "me"), scheduler.submit("two", "b")
    world.wait_log("start me")
    assert scheduler.explain(other.run_id).why is Why.SLOT
    world.finish("me", "b")
    assert world.ends(other) == [COMPLETED]
    assert fate(world, host) == ("NoneType", *COMPLETED)


@pytest.mark.contract("D1", "A4")
@pytest.mark.parametrize("of", ["a handler", "a turn"])
def test_who_would_wait_for_itself_is_told_so(world: World, of: str) -> None:
    scheduler = world.open()
    world.at_first["outer"] = lambda _: world.enter(
        scheduler.turn("chat", "inner")  # type: ignore[attr-defined]
    )
    world.finish("later")
    if of == "a turn":
        assert isinstance(world.turn("chat", "outer").error(), WouldDeadlock)
    else:
        with pytest.raises(WouldDeadlock):
            world.value(scheduler.submit("chat", "outer"))
    assert world.ends(scheduler.submit("chat", "later")) == [COMPLETED]


@pytest.mark.contract("D1")
def test_a_run_that_waits_for_one_behind_it_is_told_that_it_waits_for_itself(
    world: World,
) -> None:
    scheduler = world.open()
    world.at_first["outer"] = lambda _: scheduler.submit("chat", "inner").outcome()
    world.finish("inner")
    with pytest.raises(WouldDeadlock):
        world.value(scheduler.submit("chat", "outer"))
    world.events.wait_for(RunEnded, "inner")
    assert world.started == ["outer", "inner"]


@pytest.mark.contract("X1", "P1", "T1")
@pytest.mark.parametrize("recorded", [False, True])
def test_race_10_a_cancel_in_the_moment_that_a_turn_comes_is_not_lost(
    world: World, *, recorded: bool
) -> None:
    scheduler = world.open(recorded=recorded)
    for n in range(30):
        first, host = world.active("chat", f"a{n}"), world.turn("chat", f"me{n}")
        canceling = world.aside(scheduler.cancel_run, host.run.run_id)
        world.finish(f"a{n}")
        assert fate(world, host) == ("RunCanceled", *CANCELED)
        assert canceling.result().covered == (host.run,)
        assert world.ends(first) == [COMPLETED]
