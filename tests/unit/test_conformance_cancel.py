"""Chapter X of the contract for both schedulers: what a cancel covers."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import (
    CancelReceipt,
    Cause,
    InvalidOption,
    Limits,
    RunCanceled,
    RunCanceling,
    RunState,
    Scope,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.face import Face

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")
SUPERSEDED = ("canceled", "superseded")

WAYS_TO_CANCEL: dict[str, Callable[[Face[str, Any, Any], str], object]] = {
    "the session": lambda scheduler, _: scheduler.cancel("chat"),
    "the run": lambda scheduler, run_id: scheduler.cancel_run(run_id),
    "everything": lambda scheduler, _: scheduler.cancel_all(),
}


@pytest.mark.contract("X1", "X7", "A3")
@pytest.mark.parametrize("way", WAYS_TO_CANCEL)
def test_race_01_a_cancel_between_accept_and_ready_is_not_lost(world: World, way: str) -> None:
    scheduler = world.open(recorded=True)
    ticket = scheduler.accept("chat", "a")
    assert WAYS_TO_CANCEL[way](scheduler, ticket.run_id)
    assert not ticket.ready()
    assert world.ends(ticket.handle) == [CANCELED]
    assert world.started == []


@pytest.mark.contract("X1")
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("way", WAYS_TO_CANCEL)
def test_race_01_a_cancel_right_after_the_submit_is_not_lost(
    world: World, way: str, *, prepared: bool
) -> None:
    scheduler = world.open(recorded=True, prepared=prepared)
    for n in range(20):
        handle = scheduler.submit("chat", f"a{n}")
        assert WAYS_TO_CANCEL[way](scheduler, handle.run_id)
        assert world.ends(handle) == [CANCELED]
    world.finish("b")
    assert world.value(scheduler.submit("chat", "b")) == "b done"


@pytest.mark.contract("X2", "X4")
def test_race_02_cancels_are_not_counted_the_prompt_after_them_pays_for_none(world: World) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    first = world.active("chat", "a")
    receipts = [scheduler.cancel("chat") for _ in range(3)]
    later = scheduler.submit("chat", "b")
    world.finish("a", "b")
    assert [bool(receipt) for receipt in receipts] == [True, False, False]
    assert [receipt.mark for receipt in receipts] == [1, 1, 1]
    assert world.ends(first, later) == [CANCELED, COMPLETED]
    assert len(world.events.of(RunCanceling, "a")) == 1


@pytest.mark.contract("X3", "X2")
@pytest.mark.parametrize("used_before", [False, True])
def test_race_03_a_cancel_on_an_idle_session_does_not_hit_the_next_prompt(
    world: World, *, used_before: bool
) -> None:
    scheduler = world.open()
    world.finish("a", "b")
    if used_before:
        world.value(scheduler.submit("chat", "a"))
    assert scheduler.cancel("chat") == CancelReceipt("chat")
    assert scheduler.cancel_all() == ()
    assert not scheduler.cancel_run("run-1")
    assert scheduler.snapshot().sessions == ()
    assert world.value(scheduler.submit("chat", "b")) == "b done"


@pytest.mark.contract("X1", "X7", "X2")
def test_race_04_what_was_covered_stays_so_when_the_first_of_it_is_through(world: World) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    ticket = scheduler.accept("chat", "c")
    last = scheduler.submit("chat", "d")
    scheduler.cancel("chat")
    assert world.ends(first) == [CANCELED]
    later = scheduler.submit("chat", "e")
    assert not ticket.ready()
    world.finish("e")
    assert world.ends(second, ticket.handle, last) == [CANCELED] * 3
    assert world.value(later) == "e done"
    assert world.started == ["a", "e"]


@pytest.mark.contract("X1", "X2", "X5", "X11")
@pytest.mark.parametrize("fence", [*range(4), None, 99])
def test_race_05_the_mark_is_at_the_newest_accepted_run_or_at_the_fence(
    world: World, fence: int | None
) -> None:
    scheduler = world.open()
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bc")]
    receipt = scheduler.cancel("chat", up_to=fence)
    handles.append(scheduler.submit("chat", "d"))
    limit = 3 if fence is None else min(fence, 3)
    assert receipt.mark == limit
    assert [run.seq for run in receipt.covered] == [*range(1, limit + 1)]
    assert [run.seq for run in receipt.kept] == [*range(limit + 1, 4)]
    world.finish(*"abcd"[limit:])
    assert world.ends(*handles) == [CANCELED] * limit + [COMPLETED] * (4 - limit)
    assert world.started == [*dict.fromkeys(["a", *"abcd"[limit:]])]


@pytest.mark.contract("X4", "X5")
def test_the_mark_only_rises(world: World) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bcd")]
    marks = [scheduler.cancel("chat", up_to=fence).mark for fence in (2, 1, 3, 0)]
    assert marks == [2, 2, 3, 3]
    world.finish("a", "d")
    assert world.ends(*handles) == [CANCELED] * 3 + [COMPLETED]


@pytest.mark.contract("X5", "X2")
def test_race_34_a_cancel_that_was_late_in_the_network_does_not_hit_the_newer_prompt(
    world: World,
) -> None:
    scheduler = world.open()
    world.finish("old", "behind")
    old = scheduler.submit("chat", "old")
    world.value(old)
    new, behind = world.active("chat", "new"), scheduler.submit("chat", "behind")
    receipt = scheduler.cancel("chat", up_to=old.seq)
    assert not receipt
    assert receipt.kept == (new.run, behind.run)
    assert not scheduler.cancel_run(old.run_id)
    assert not old.cancel()
    world.finish("new")
    assert world.ends(old, new, behind) == [COMPLETED] * 3


@pytest.mark.contract("X6")
@pytest.mark.parametrize("error", [None, ValueError("broken"), RunCanceled("of something else")])
def test_what_a_handler_returns_or_raises_after_the_cancel_is_kept(
    world: World, error: Exception | None
) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    scheduler.cancel("chat")
    world.wait_log("stop a")
    if error is None:
        world.finish("a")
    else:
        world.fail("a", error)
    outcome = world.outcome(handle)
    assert (outcome.status, outcome.cause, outcome.started) == ("canceled", "interrupt", True)
    assert outcome.error is error
    assert outcome.result == (None if error else "a done")
    with pytest.raises(RunCanceled) as caught:
        world.value(handle)
    assert caught.value.outcome == outcome
    assert caught.value.__cause__ is error


@pytest.mark.contract("X6")
def test_a_handler_that_stops_when_it_is_told_has_nothing_to_keep(world: World) -> None:
    world.open()
    handle = world.active("chat", "a")
    handle.cancel()
    outcome = world.outcome(handle)
    assert (outcome.status, outcome.result, outcome.error) == ("canceled", None, None)


@pytest.mark.contract("X7", "X1", "R4")
@pytest.mark.parametrize("recorded", [False, True])
def test_race_13_no_prompt_vanishes_while_threads_clear_the_line(
    world: World, *, recorded: bool
) -> None:
    scheduler = world.open(recorded=recorded)

    def send(name: str) -> list[Any]:
        return [scheduler.submit("chat", f"{name}{n}") for n in range(15)]

    senders = [world.aside(send, it) for it in "abc"]
    cancelers = [
        world.aside(lambda: [scheduler.cancel("chat") for _ in range(30)]) for _ in range(2)
    ]
    handles = [handle for sender in senders for handle in sender.result(STUCK_S)]
    receipts = [it for canceler in cancelers for it in canceler.result(STUCK_S)]
    receipts.append(scheduler.cancel("chat"))
    covered = [run for receipt in receipts for run in receipt.covered]
    assert sorted(run.seq for run in covered) == [*range(1, 46)]
    assert world.ends(*handles) == [CANCELED] * 45
    dropped = {run for receipt in receipts for run in receipt.dropped}
    assert not any(world.outcome(it).started for it in handles if it.run in dropped)


@pytest.mark.contract("X9", "X11")
def test_canceling_one_run_covers_it_and_what_was_folded_into_it_and_nothing_else(
    world: World,
) -> None:
    scheduler = world.open()
    first = world.active("chat", "a")
    follow_up = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
    behind = scheduler.submit("chat", "c"), scheduler.submit("chat", "d")
    assert world.runs["a"].take_follow_ups() == (follow_up.run,)
    assert not follow_up.cancel()  # it is a part of the other one
    assert behind[0].cancel().covered == (behind[0].run,)
    receipt = first.cancel()
    assert (receipt.active, receipt.folded, receipt.dropped) == (first.run, (follow_up.run,), ())
    world.finish("d")
    assert world.ends(first, follow_up, *behind) == [CANCELED] * 3 + [COMPLETED]


@pytest.mark.contract("X10", "X11")
def test_scope_active_keeps_the_line_and_scope_waiting_keeps_the_active_run(world: World) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    receipt = scheduler.cancel("chat", scope=Scope.WAITING)
    assert (receipt.covered, receipt.kept) == ((second.run,), (first.run,))
    third = scheduler.submit("chat", "c")
    receipt = scheduler.cancel("chat", scope=Scope.ACTIVE)
    assert (receipt.covered, receipt.kept) == ((first.run,), (third.run,))
    world.finish("c")
    assert world.ends(first, second, third) == [CANCELED, CANCELED, COMPLETED]


@pytest.mark.contract("X10", "D4")
def test_race_35_a_cancel_that_holds_keeps_the_line_from_moving_until_resumed(
    world: World,
) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    receipt = scheduler.cancel("chat", scope=Scope.ACTIVE, hold=True)
    assert receipt.held
    assert world.ends(first) == [CANCELED]
    assert (second.state, scheduler.session("chat").held) == (RunState.QUEUED, True)
    assert scheduler.resume("chat")
    world.finish("b")
    assert world.ends(second) == [COMPLETED]


@pytest.mark.contract("X10", "X3")
def test_race_35_after_a_stop_the_session_is_idle_and_takes_the_next_prompt(world: World) -> None:
    scheduler = world.open(recorded=True)
    handles = [world.active("chat", "a"), scheduler.submit("chat", "b")]
    scheduler.cancel("chat", hold=True)
    assert world.ends(*handles) == [CANCELED] * 2
    world.finish("c")
    later = scheduler.submit("chat", "c")
    scheduler.resume("chat")
    assert world.ends(later) == [COMPLETED]


@pytest.mark.contract("X12")
@pytest.mark.parametrize(
    ("causes", "kept"),
    [
        ((Cause.DEADLINE, Cause.INTERRUPT), Cause.DEADLINE),
        ((Cause.INTERRUPT, Cause.SUPERSEDED), Cause.INTERRUPT),
        ((Cause.SUPERSEDED, Cause.INTERRUPT), Cause.SUPERSEDED),
    ],
)
def test_of_two_causes_the_first_one_stands(
    world: World, causes: tuple[Cause, ...], kept: Cause
) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    for cause in causes:
        scheduler.cancel("chat", cause=cause)
    world.finish("a")
    assert world.ends(handle) == [("canceled", kept.value)]


@pytest.mark.contract("X12")
def test_nobody_can_give_a_cause_that_is_the_schedulers_own(world: World) -> None:
    scheduler = world.open()
    handle = world.active("chat", "a")
    for cause in (Cause.SHUTDOWN, Cause.EXTERNAL, "boredom"):
        with pytest.raises(InvalidOption):
            scheduler.cancel("chat", cause=cause)  # type: ignore[arg-type]
    world.finish("a")
    assert world.ends(handle) == [COMPLETED]


@pytest.mark.contract("X12", "X1")
def test_race_28_a_run_that_takes_too_long_is_canceled_with_its_own_cause(world: World) -> None:
    scheduler = world.open(recorded=True)
    slow = scheduler.submit("chat", "a", deadline=0.01)
    assert world.ends(slow) == [("canceled", "deadline")]
    blocker = world.active("chat", "b")
    late = scheduler.submit("chat", "c", wait_at_most=0.01)
    assert world.ends(late) == [("canceled", "expired")]
    in_time = scheduler.submit("chat", "d", wait_at_most=600.0, deadline=600.0)
    world.finish("b", "d")
    assert world.ends(blocker, in_time) == [COMPLETED] * 2
    assert "drop c over" in world.log


@pytest.mark.contract("X13")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), RunCanceled("of something inside")])
def test_race_27_a_provider_that_cancels_although_nobody_asked_has_failed(
    world: World, error: BaseException
) -> None:
    world.open()
    handle = world.active("chat", "a")
    world.fail("a", error)
    outcome = world.outcome(handle)
    assert (outcome.status, outcome.cause) == ("failed", None)
    assert type(outcome.error) is type(error)


@pytest.mark.contract("X14", "X1", "D2")
def test_race_23_an_interrupting_prompt_covers_and_takes_over_in_one_step(world: World) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    newer = scheduler.submit("chat", "c", when_busy=WhenBusy.INTERRUPT)
    assert [first.run.cause, second.run.cause, newer.run.cause] == ["superseded"] * 2 + [None]
    world.wait_log("stop a")
    world.finish("a", "c")
    assert world.ends(first, second, newer) == [SUPERSEDED, SUPERSEDED, COMPLETED]
    assert world.log == ["start a", "stop a", "over a", "start c", "over c"]


@pytest.mark.contract("X14")
def test_latest_covers_what_waits_and_not_what_is_active(world: World) -> None:
    scheduler = world.open(recorded=True)
    handles = [world.active("chat", "a")]
    handles += [scheduler.submit("chat", it, when_busy=WhenBusy.LATEST) for it in "bcd"]
    world.finish("a", "d")
    assert world.ends(*handles) == [COMPLETED, SUPERSEDED, SUPERSEDED, COMPLETED]
    assert world.started == ["a", "d"]


@pytest.mark.contract("X14", "R4")
@pytest.mark.parametrize("when_busy", [WhenBusy.INTERRUPT, WhenBusy.LATEST])
def test_race_23_of_such_prompts_from_many_threads_the_newest_one_runs(
    world: World, when_busy: WhenBusy
) -> None:
    scheduler = world.open(recorded=True)
    first = world.active("chat", "first")
    senders = [
        world.aside(partial(scheduler.submit, "chat", f"p{it}", when_busy=when_busy))
        for it in range(24)
    ]
    handles = sorted((it.result(STUCK_S) for it in senders), key=lambda it: it.seq)
    last = handles[-1].run.prompt
    world.finish("first", last)
    assert world.ends(*handles) == [SUPERSEDED] * 23 + [COMPLETED]
    expected = SUPERSEDED if when_busy is WhenBusy.INTERRUPT else COMPLETED
    assert world.ends(first) == [expected]


@pytest.mark.contract("X15", "X7")
def test_one_cancel_drops_a_long_line_and_each_of_it_ends_once(world: World) -> None:
    scheduler = world.open(limits=Limits(max_waiting=2000))
    first = world.active("chat", "a")
    line = [scheduler.submit("chat", f"p{n}") for n in range(2000)]
    receipt = scheduler.cancel("chat")
    assert receipt.dropped == tuple(it.run for it in line)
    assert world.ends(first, *line) == [CANCELED] * 2001
    assert world.started == ["a"]


@pytest.mark.contract("X3", "R1")
def test_race_38_made_up_ids_leave_nothing_behind(world: World) -> None:
    scheduler = world.open()
    for n in range(1000):
        assert not scheduler.cancel(f"made-up-{n}")
        assert not scheduler.pause(f"made-up-{n}")
        assert not scheduler.resume(f"made-up-{n}")
        assert not scheduler.cancel_run(f"made-up-{n}")
        assert scheduler.session(f"made-up-{n}").state == "idle"
    assert scheduler.snapshot().sessions == ()
    assert len(scheduler._driver.table) == 0
