"""Prompts that concern others, and the line that stands still: FOLD joins (F1 to F4),
INTERRUPT and LATEST cover (X14), and a hold keeps everybody waiting (X10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from driving import Driver, elsewhere, overtake, states

from sessionsched import (
    CancelReceipt,
    Cause,
    How,
    Limits,
    RunState,
    Scope,
    SessionState,
    Status,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run

FOLD = WhenBusy.FOLD


def follow_up(driver: Driver, *prompts: str, ready: bool = True) -> list[Run[str]]:
    return [driver.submit("chat", prompt, when_busy=FOLD, ready=ready) for prompt in prompts]


# --- F1, F2, F4 ---


@pytest.mark.contract("F1", "F2")
def test_the_active_run_takes_the_ready_follow_ups_and_nobody_else() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    own_turn = driver.submit("chat", "b")
    (ready,) = follow_up(driver, "c")
    (not_ready,) = follow_up(driver, "d", ready=False)
    (other,) = [driver.submit("other", "e"), driver.submit("other", "f", when_busy=FOLD)][1:]
    driver.news()
    assert driver.fold(taker) == (ready,)
    assert driver.news() == [("folded", ready.seq)]
    assert states(own_turn, ready, not_ready, other) == ["queued", "folded", "accepted", "queued"]
    assert driver.table.session("chat").waiting == (own_turn, not_ready)
    driver.ready(not_ready)
    assert driver.fold(taker) == (not_ready,)
    assert taker.folded == (ready, not_ready)
    assert driver.fold(taker) == ()


@pytest.mark.contract("F1")
def test_nobody_joins_before_the_active_handler_asks() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    (run,) = follow_up(driver, "b")
    assert states(run) == ["queued"]
    assert taker.folded == ()


@pytest.mark.contract("F1")
def test_follow_ups_join_in_accept_order_even_if_one_was_promoted() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    b, c, d = follow_up(driver, "b", "c", "d")
    driver.promote(d)
    assert driver.fold(taker) == (b, c, d)
    assert [effect for effect in driver.news() if effect[0] == "folded"] == [
        ("folded", b.seq),
        ("folded", c.seq),
        ("folded", d.seq),
    ]


@pytest.mark.contract("F1", "X7")
def test_nobody_joins_a_covered_run() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    driver.cancel("chat")
    (run,) = follow_up(driver, "b")
    assert driver.fold(taker) == ()
    driver.finish(taker)
    assert states(run) == ["active"]


@pytest.mark.contract("F1")
@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.FOLDED, RunState.ENDING, "ended"])
def test_nobody_joins_a_run_that_is_not_active(state: str) -> None:
    driver = Driver()
    taker = driver.bring(RunState(state))
    driver.submit("chat", "own turn")
    follow_up(driver, "b")
    before = driver.facts()
    assert driver.fold(taker) == ()
    assert driver.facts() == before


@pytest.mark.contract("F1")
def test_a_session_with_nobody_left_in_line_is_active_again() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    follow_up(driver, "b", "c")
    assert driver.table.session("chat").state is SessionState.QUEUED
    driver.fold(taker)
    assert driver.table.session("chat").state is SessionState.ACTIVE


@pytest.mark.contract("F4", "D2")
def test_race_17_a_follow_up_that_nobody_took_does_not_overtake_a_prompt_that_was_first() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    c, d = follow_up(driver, "c", "d")
    e = driver.submit("chat", "e")
    for run in (a, b, c, d, e):
        assert states(run) == ["active"]
        driver.finish(run)
    assert [run.ended.folded_into for run in (c, d) if run.ended] == [None, None]


@pytest.mark.contract("F4")
def test_a_follow_up_to_an_idle_session_runs_at_once() -> None:
    assert states(*follow_up(Driver(), "a")) == ["active"]


@pytest.mark.contract("F1", "F4")
def test_a_follow_up_that_runs_on_its_own_takes_follow_ups_like_any_other() -> None:
    driver = Driver()
    a, b = follow_up(driver, "a", "b")
    assert driver.fold(a) == (b,)


# --- F3 ---


@pytest.mark.contract("F3", "T2")
@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize("cause", [None, Cause.INTERRUPT, Cause.DEADLINE, Cause.SHUTDOWN])
def test_a_folded_run_ends_right_after_its_taker_and_in_the_same_way(
    how: How, cause: Cause | None
) -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    taken = follow_up(driver, "b", "c")
    driver.fold(taker)
    following = driver.submit("chat", "d")
    if cause is Cause.SHUTDOWN:
        driver.suspend_active()
    elif cause is not None:
        driver.cancel_run(taker, cause=cause)
    elif how is How.ABANDONED:
        driver.cancel_run(taker)
    driver.news()
    error = OSError()
    assert driver.finish(taker, how, result="text", error=error)
    ends = [("end", run.seq) for run in (taker, *taken)]
    assert driver.news() == [*ends, ("start", following.seq)]
    assert taker.ended is not None
    assert taker.ended.folded_into is None
    for run in taken:
        assert run.ended is not None
        assert run.ended.folded_into == taker.run_id
        for name in ("status", "cause", "result", "error", "started", "abandoned", "ended_at"):
            assert getattr(run.ended, name) == getattr(taker.ended, name), name


@pytest.mark.contract("F3")
def test_a_folded_run_keeps_its_own_times_and_started_when_it_was_taken() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    (run,) = follow_up(driver, "b")
    driver.fold(taker)
    driver.finish(taker)
    assert run.ended is not None
    times = run.ended.accepted_at, run.ended.started_at, run.ended.ended_at
    assert times == (2.0, 3.0, 4.0)
    assert taker.folded == (), "else they would keep each other alive"


@pytest.mark.contract("F3", "T1")
def test_race_16_follow_ups_that_were_taken_do_not_vanish_when_the_run_that_took_them_fails() -> (
    None
):
    driver = Driver()
    taker = driver.submit("chat", "a")
    taken = follow_up(driver, "b", "c", "d")
    driver.fold(taker)
    error = OSError("could not record the first one")
    driver.finish(taker, How.RAISED, error=error)
    outcomes = [run.ended for run in taken if run.ended]
    assert [(o.status, o.error) for o in outcomes] == [(Status.FAILED, error)] * 3
    assert len(driver.table) == 0


# --- X14: INTERRUPT and LATEST ---


@pytest.mark.contract("X14", "X12")
def test_an_interrupting_prompt_covers_everything_before_it_and_takes_over() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    c = driver.submit("chat", "c", ready=False)
    driver.news()
    run = driver.submit("chat", "d", when_busy=WhenBusy.INTERRUPT)
    assert driver.news() == [
        ("interrupt", 1), ("drop", 2), ("drop", 3), ("accepted", 4), ("queued", 4),
    ]  # fmt: skip
    assert [each.cause for each in (a, b, c, run)] == [Cause.SUPERSEDED] * 3 + [None]
    driver.finish(a)
    driver.settle(b)
    assert states(run) == ["queued"]
    driver.settle(c)
    assert states(run) == ["active"]


@pytest.mark.contract("X14", "X12")
def test_the_latest_prompt_covers_what_waits_and_not_what_is_active() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.news()
    run = driver.submit("chat", "c", when_busy=WhenBusy.LATEST)
    assert driver.news() == [("drop", 2), ("accepted", 3), ("queued", 3)]
    assert [each.cause for each in (a, b, run)] == [None, Cause.SUPERSEDED, None]
    driver.end_all()
    assert a.ended is not None
    assert a.ended.status is Status.COMPLETED


@pytest.mark.contract("X14")
@pytest.mark.parametrize("when_busy", [WhenBusy.INTERRUPT, WhenBusy.LATEST])
def test_no_call_comes_between_covering_and_accepting(when_busy: WhenBusy) -> None:
    driver = Driver()
    _, dropped = driver.submit_each("chat", "a", "b")
    lock = overtake(driver.table._sessions["chat"])
    driver.submit("chat", "c", when_busy=when_busy)
    assert lock.taken == 1
    # Whoever waited for the lock meanwhile finds both done.
    assert dropped.canceled
    assert [run.prompt for run in elsewhere(lambda: driver.cancel("chat")).dropped] == ["c"]


@pytest.mark.contract("X14", "A4")
@pytest.mark.parametrize("when_busy", [WhenBusy.INTERRUPT, WhenBusy.LATEST])
def test_a_prompt_that_clears_the_line_is_not_refused_because_the_line_is_full(
    when_busy: WhenBusy,
) -> None:
    driver = Driver(Limits(max_waiting=1))
    driver.submit_each("chat", "a", "b")
    run = driver.submit("chat", "c", when_busy=when_busy)
    assert driver.table.session("chat").waiting == (run,)


@pytest.mark.contract("X14", "X3")
@pytest.mark.parametrize("when_busy", [WhenBusy.INTERRUPT, WhenBusy.LATEST])
def test_on_an_idle_session_there_is_nothing_to_cover(when_busy: WhenBusy) -> None:
    driver = Driver()
    driver.submit("chat", "a", when_busy=when_busy)
    assert driver.news() == [("accepted", 1), ("start", 1)]


# --- X10: hold ---


@pytest.mark.contract("X10")
@pytest.mark.parametrize(
    "act",
    [
        lambda driver, _waiting: driver.submit("chat", "more"),
        lambda driver, waiting: driver.promote(waiting[1]),
        lambda driver, waiting: driver.ready(waiting[1]),
        lambda driver, waiting: driver.settle(driver.cancel_run(waiting[0]).dropped[0]),
        lambda driver, _waiting: driver.finish(driver.submit("other", "more")),
        lambda driver, _waiting: driver.hold("chat"),
    ],
)
def test_nothing_moves_a_held_line_until_it_is_resumed(
    act: Callable[[Driver, list[Run[str]]], object],
) -> None:
    driver = Driver(Limits(max_active=1))
    a, b = driver.submit_each("chat", "a", "b")
    c = driver.submit("chat", "c", ready=False)
    assert driver.cancel("chat", scope=Scope.ACTIVE, hold=True).held
    driver.finish(a)
    act(driver, [b, c])
    assert driver.table.session("chat").active is None
    driver.ready(c)
    assert driver.resume("chat")
    assert driver.table.session("chat").active is not None


@pytest.mark.contract("X10", "F1")
def test_a_held_line_is_not_folded() -> None:
    driver = Driver()
    taker = driver.submit("chat", "a")
    (run,) = follow_up(driver, "b")
    assert driver.hold("chat")
    assert driver.fold(taker) == ()
    driver.resume("chat")
    assert driver.fold(taker) == (run,)


@pytest.mark.contract("X10")
def test_a_line_is_held_once_and_resumed_once() -> None:
    driver = Driver()
    driver.submit("chat", "a")
    assert [driver.hold("chat"), driver.hold("chat")] == [True, False]
    assert [driver.resume("chat"), driver.resume("chat")] == [True, False]


@pytest.mark.contract("X10")
@pytest.mark.parametrize(
    "call",
    [
        lambda driver: driver.cancel("chat"),
        lambda driver: driver.submit("chat", "c", when_busy=WhenBusy.INTERRUPT),
        lambda driver: driver.table.cancel_all(9.0),
        Driver.close,
        Driver.suspend_active,
        lambda driver: (driver.hold("chat"), driver.resume("chat")),
    ],
)
def test_whatever_does_not_ask_for_a_hold_holds_nothing(call: Callable[[Driver], object]) -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    call(driver)
    assert driver.table.session("chat").held is False


@pytest.mark.contract("X10", "X3")
def test_an_idle_session_is_neither_held_nor_resumed() -> None:
    driver = Driver()
    assert [driver.hold("chat"), driver.resume("chat")] == [False, False]
    assert not driver.cancel("chat", hold=True).held
    assert states(driver.submit("chat", "a")) == ["active"]


@pytest.mark.contract("X10", "D4")
@pytest.mark.parametrize("end", [Driver.finish, Driver.settle])
def test_a_hold_ends_when_the_session_falls_idle(
    end: Callable[[Driver, Run[str]], bool],
) -> None:
    driver = Driver()
    run = driver.submit("chat", "a", ready=end is Driver.finish)
    driver.cancel("chat", hold=True)
    record = driver.table._sessions["chat"]
    assert record.held
    assert end(driver, run)
    assert record.held is False
    assert states(driver.submit("chat", "b")) == ["active"]


@pytest.mark.contract("X10")
def test_a_hold_that_comes_before_the_first_prompt_has_the_lock_holds_nothing() -> None:
    driver = Driver()
    record = driver.table._make("chat")
    assert not driver.hold("chat")
    assert not record.held
    assert states(driver.submit("chat", "a")) == ["active"]


@pytest.mark.contract("X10", "X11")
def test_canceling_one_run_says_where_the_mark_is_and_whether_the_line_is_held() -> None:
    driver = Driver()
    a, _, c = driver.submit_each("chat", "a", "b", "c")
    driver.cancel("chat", up_to=a.seq, hold=True)
    assert driver.cancel_run(c) == CancelReceipt("chat", a.seq, dropped=(c,), held=True)


@pytest.mark.contract("X10", "X4")
def test_a_cancel_that_covers_nothing_holds_nothing_and_none_ends_a_hold() -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    assert not driver.cancel("chat", up_to=0, hold=True).held
    assert driver.cancel("chat", up_to=1, hold=True).held
    assert driver.cancel("chat").held


@pytest.mark.contract("F1")
def test_no_follow_up_is_taken_while_the_drop_of_an_earlier_prompt_is_being_recorded() -> None:
    driver = Driver()
    active = driver.submit("chat", "active")
    dropped = driver.submit("chat", "dropped")
    later = driver.submit("chat", "later", when_busy=WhenBusy.FOLD)
    driver.cancel_run(dropped)
    assert driver.fold(active) == ()
    driver.settle(dropped)
    assert driver.fold(active) == (later,)
