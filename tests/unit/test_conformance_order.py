"""Chapter D of the contract for both schedulers: order, and that nothing strands."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import Limits, RunCanceling, RunEnded, RunStarted, RunState, Why

if TYPE_CHECKING:
    from collections.abc import Callable

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


@pytest.mark.contract("D1", "R4")
def test_race_11_of_many_who_find_the_session_idle_one_starts_and_the_others_wait(
    world: World,
) -> None:
    scheduler = world.open()
    prompts = [f"p{n}" for n in range(24)]
    world.finish(*prompts)
    senders = [world.aside(scheduler.submit, "chat", it) for it in prompts]
    handles = [sender.result(STUCK_S) for sender in senders]
    assert world.ends(*handles) == [COMPLETED] * len(prompts)
    # Each is over before the next one starts, and they start in the order of their seqs.
    order = [handle.run.prompt for handle in sorted(handles, key=lambda it: it.seq)]
    assert world.log == [entry for it in order for entry in (f"start {it}", f"over {it}")]


@pytest.mark.contract("D1", "D5")
def test_race_11_two_sessions_are_active_at_once_and_each_of_them_once(world: World) -> None:
    scheduler = world.open()
    first, other = world.active("one", "a"), world.active("two", "b")
    behind = scheduler.submit("one", "c"), scheduler.submit("two", "d")
    assert scheduler.snapshot().active == 2
    assert [it.state for it in behind] == [RunState.QUEUED] * 2
    world.finish(*"abcd")
    assert world.ends(first, other, *behind) == [COMPLETED] * 4


@pytest.mark.contract("D2", "D3")
@pytest.mark.parametrize("order", [*itertools.permutations((0, 1, 2))])
def test_race_14_runs_start_in_accept_order_whatever_the_order_they_become_ready_in(
    world: World, order: tuple[int, ...]
) -> None:
    scheduler = world.open()
    world.finish(*"abc")
    tickets = [scheduler.accept("chat", prompt) for prompt in "abc"]
    for place in order:
        assert tickets[place].ready()
    assert world.ends(*(ticket.handle for ticket in tickets)) == [COMPLETED] * 3
    assert world.started == [*"abc"]


@pytest.mark.contract("D2", "D3")
def test_race_14_runs_start_in_accept_order_however_long_it_takes_to_prepare_each(
    world: World,
) -> None:
    scheduler = world.open(prepared=True)
    names = [f"prepare {prompt}" for prompt in "abc"]
    world.hold(*names)
    world.finish(*"abc")
    handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
    for name in reversed(names):
        world.wait_log(name)  # they are prepared at the same time
        world.finish(name)
    assert world.ends(*handles) == [COMPLETED] * 3
    assert world.started == [*"abc"]


@pytest.mark.contract("D2")
def test_only_promote_changes_the_order_and_only_when_somebody_asks(world: World) -> None:
    scheduler = world.open()
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bcd")]
    assert handles[3].promote()
    assert not handles[0].promote()
    assert [run.prompt for run in scheduler.waiting("chat")] == [*"dbc"]
    world.finish(*"abcd")
    assert world.ends(*handles) == [COMPLETED] * 4
    assert world.started == [*"adbc"]


@pytest.mark.contract("D2")
def test_a_prompt_can_be_replaced_while_it_waits_and_not_later(world: World) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    assert second.replace("c")
    assert not first.replace("x")
    world.finish(*"ac")
    assert world.value(second) == "c done"
    assert world.started == [*"ac"]


def _fails(world: World) -> Any:
    world.hold("prepare a")
    handle = world.scheduler.submit("chat", "a")
    world.fail("prepare a", ValueError("no such file"))
    return handle


def _is_too_slow(world: World) -> Any:
    world.hold("prepare a")
    handle = world.scheduler.submit("chat", "a")
    world.events.wait_for(RunCanceling, "a")
    world.finish("prepare a")  # nobody records a drop while a thread still prepares it
    return handle


def _ticket_fails(world: World) -> Any:
    ticket = world.scheduler.accept("chat", "a")
    ticket.close(ValueError("no such file"))
    return ticket.handle


@pytest.mark.contract("D3", "D4", "P1")
@pytest.mark.parametrize(
    ("unprepared", "limit", "error"),
    [
        (_fails, None, ValueError),
        (_ticket_fails, None, ValueError),
        (_is_too_slow, 0.01, TimeoutError),
    ],
)
def test_a_run_that_can_not_be_prepared_ends_and_the_line_moves(
    world: World, unprepared: Callable[[World], Any], limit: float | None, error: type[Exception]
) -> None:
    world.open(prepared=True, recorded=True, prepare_timeout=limit)
    first = unprepared(world)
    outcome = world.outcome(first)
    assert (outcome.status, outcome.cause, outcome.started) == ("failed", "unprepared", False)
    assert isinstance(outcome.error, error)
    with pytest.raises(error):
        world.value(first)
    assert world.log[-2:] == ["drop a", "drop a over"]
    assert world.scheduler.snapshot().sessions == ()


@pytest.mark.contract("D3")
def test_a_ticket_that_nobody_makes_ready_in_time_lets_those_behind_it_go(world: World) -> None:
    scheduler = world.open(prepare_timeout=0.01)
    world.finish("b")
    with scheduler.accept("chat", "a") as ticket:
        later = scheduler.submit("chat", "b")
        outcome = world.outcome(ticket.handle)
        assert (outcome.cause, type(outcome.error)) == ("unprepared", TimeoutError)
        assert world.ends(later) == [COMPLETED]
        assert not ticket.ready()


@pytest.mark.contract("D3", "D4")
def test_race_14_a_place_that_is_given_back_lets_those_behind_it_go(world: World) -> None:
    scheduler = world.open(recorded=True)
    world.finish("b")
    with scheduler.accept("chat", "a") as ticket:
        later = scheduler.submit("chat", "b")
        assert later.state is RunState.QUEUED
    assert world.ends(ticket.handle, later) == [("canceled", "withdrawn"), COMPLETED]
    assert world.log == ["drop a", "drop a over", "start b", "over b"]


ENDS: dict[str, Callable[[World], object]] = {
    "returns": lambda world: world.finish("a"),
    "fails": lambda world: world.fail("a", ValueError("broken")),
    "raises something odd": lambda world: world.fail("a", GeneratorExit()),
    "is canceled": lambda world: world.scheduler.cancel("chat", up_to=1),
    "is canceled alone": lambda world: world.scheduler.cancel_run("run-1"),
}


@pytest.mark.contract("D4", "T2")
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("way", ENDS)
def test_race_08_the_line_moves_and_is_not_overtaken_however_the_run_before_it_ended(
    world: World, way: str, *, recorded: bool
) -> None:
    scheduler = world.open(recorded=recorded)
    world.finish("b", "c", "d")
    first = world.active("chat", "a")
    behind = [scheduler.submit("chat", prompt) for prompt in "bc"]
    ENDS[way](world)
    world.outcome(first)
    behind.append(scheduler.submit("chat", "d"))
    assert world.ends(*behind) == [COMPLETED] * 3
    assert world.started == [*"abcd"]


@pytest.mark.contract("D4", "X1")
def test_race_09_a_prompt_sent_while_a_canceled_run_unwinds_still_runs(world: World) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    first = world.active("chat", "a")
    scheduler.cancel("chat")
    world.wait_log("stop a")
    later = scheduler.submit("chat", "b")
    assert scheduler.explain(later.run_id).why is Why.UNWINDING
    world.finish("a", "b")
    assert world.ends(first, later) == [CANCELED, COMPLETED]
    assert world.log == ["start a", "stop a", "over a", "start b", "over b"]


@pytest.mark.contract("D4", "P1")
def test_race_09_a_prompt_sent_while_a_dropped_one_is_recorded_still_runs(world: World) -> None:
    scheduler = world.open(recorded=True)
    world.hold("drop a")
    with scheduler.accept("chat", "a") as ticket:
        scheduler.cancel("chat")
        world.wait_log("drop a")
        later = scheduler.submit("chat", "b")
        assert scheduler.explain(later.run_id).why is Why.RECORDING
        world.finish("drop a", "b")
        assert world.ends(ticket.handle, later) == [CANCELED, COMPLETED]
    assert world.log == ["drop a", "drop a over", "start b", "over b"]


@pytest.mark.contract("D5", "X8")
def test_a_stuck_session_delays_and_cancels_no_other(world: World) -> None:
    scheduler = world.open(recorded=True, prepared=True)
    world.stubborn.add("a")
    world.hold("prepare c", "drop d")
    stuck = world.active("stuck", "a")
    stuck.cancel()
    unprepared = scheduler.submit("unprepared", "c")
    world.wait_log("prepare c")
    with scheduler.accept("recording", "d") as dropped:
        dropped.handle.cancel()
        world.wait_log("drop d")
        world.finish(*"fgh")
        names = ["one", "two", "three"]
        others = [scheduler.submit(*it) for it in zip(names, "fgh", strict=True)]
        assert world.ends(*others) == [COMPLETED] * 3
    busy = scheduler.snapshot().sessions
    assert [view.session_id for view in busy] == ["stuck", "unprepared", "recording"]
    world.finish("a", "prepare c", "drop d", "c")
    assert world.ends(stuck, unprepared, dropped.handle) == [CANCELED, COMPLETED, CANCELED]


@pytest.mark.contract("D6", "D4")
def test_slots_go_to_sessions_in_the_order_in_which_they_became_startable(world: World) -> None:
    scheduler = world.open(limits=Limits(max_active=1))
    world.finish(*"bcdef")
    handles = [world.active("one", "a"), scheduler.submit("one", "b")]  # b: not before a is over
    ticket = scheduler.accept("two", "c")
    handles += [scheduler.submit(f"session {prompt}", prompt) for prompt in "def"]
    assert scheduler.explain(handles[2].run_id).why is Why.SLOT
    handles[3].cancel()  # who does not want it any longer does not get it
    ticket.ready()
    world.finish("a")
    assert world.ends(*handles, ticket.handle).count(COMPLETED) == 5
    assert world.started == [*"adfcb"]


@pytest.mark.contract("D6", "D1")
def test_no_more_runs_are_active_than_there_are_slots(world: World) -> None:
    scheduler = world.open(limits=Limits(max_active=3))
    prompts = [f"p{n}" for n in range(30)]
    handles = [scheduler.submit(f"session {n % 10}", it) for n, it in enumerate(prompts)]
    world.wait_until(lambda: len(world.started) == 3)  # none of them is over before
    assert scheduler.snapshot().active == 3
    world.finish(*prompts)
    assert world.ends(*handles) == [COMPLETED] * 30
    world.close()
    active = most = 0
    for event in world.events.of(RunStarted | RunEnded):  # type: ignore[arg-type]
        active += 1 if isinstance(event, RunStarted) else -1
        most = max(most, active)
    assert most == 3


@pytest.mark.contract("D4", "X10")
def test_a_held_line_stands_still_until_it_is_resumed(world: World) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    assert scheduler.pause("chat")
    assert not scheduler.pause("chat")
    world.finish("a", "b")
    assert world.ends(first) == [COMPLETED]
    assert scheduler.explain(second.run_id).why is Why.HELD
    assert scheduler.resume("chat")
    assert not scheduler.resume("chat")
    assert world.ends(second) == [COMPLETED]
