"""Cancels: who is covered, who is not, and what the receipt says (X1 to X5, X7, X9 to X11, X14)."""

from __future__ import annotations

import pytest
from driving import Driver, elsewhere, overtake, states

from sessionsched import (
    CancelReceipt,
    Cause,
    How,
    Run,
    RunState,
    Scope,
    Status,
    WhenBusy,
)


def statuses(*runs: Run[str]) -> list[str]:
    """How these runs ended, spelt."""
    return [run.ended.status.value if run.ended else "in flight" for run in runs]


def one_of_each(driver: Driver) -> list[Run[str]]:
    """An active run, one that it took, one that is ready and one that is not."""
    active = driver.submit("chat", "active")
    taken = driver.submit("chat", "taken", when_busy=WhenBusy.FOLD)
    assert driver.fold(active) == (taken,)
    return [active, taken, driver.submit("chat", "b"), driver.submit("chat", "c", ready=False)]


# --- X1, X2 ---


@pytest.mark.contract("X1", "D5")
def test_a_cancel_covers_everything_that_was_accepted_before_it_and_no_other_session() -> None:
    driver = Driver()
    runs, other = one_of_each(driver), driver.submit("other", "hello")
    driver.cancel("chat")
    assert all(run.canceled for run in runs)
    driver.end_all()
    assert statuses(*runs, other) == ["canceled"] * 4 + ["completed"]


@pytest.mark.contract("X1")
def test_race_01_a_cancel_right_after_the_accept_is_not_lost() -> None:
    driver = Driver()
    table = driver.table
    run = table.accept(Run("chat", "hello"), 1.0)  # and nobody has performed anything yet
    assert table.cancel("chat", 2.0) == CancelReceipt("chat", 1, run)
    table.drain(driver.perform)
    assert driver.news() == [("accepted", 1), ("start", 1), ("interrupt", 1)]
    driver.finish(run)
    assert statuses(run) == ["canceled"]


@pytest.mark.contract("X1")
def test_race_10_a_cancel_between_two_runs_hits_the_one_that_is_about_to_run() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.table.finish(a, How.RETURNED, 3.0)  # and nobody has performed anything yet
    assert driver.table.cancel("chat", 4.0).active is b
    driver.finish(b)
    assert statuses(a, b) == ["completed", "canceled"]


@pytest.mark.contract("X1", "X12")
def test_a_run_that_could_not_be_prepared_is_canceled_if_a_person_said_stop_before_its_end() -> (
    None
):
    driver = Driver()
    run = driver.submit("chat", "a", ready=False)
    failure = OSError()
    driver.withdraw(run, failure)
    assert driver.cancel("chat").dropped == (run,)
    driver.settle(run)
    assert run.ended is not None
    assert (run.ended.status, run.ended.error) == (Status.CANCELED, failure)


@pytest.mark.contract("X2")
def test_race_02_a_prompt_accepted_after_two_cancels_pays_for_neither() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.cancel("chat")
    driver.cancel("chat")
    later = driver.submit("chat", "c")
    driver.end_all()
    assert statuses(a, b, later) == ["canceled", "canceled", "completed"]


@pytest.mark.contract("X2")
@pytest.mark.parametrize("ready", [True, False])
def test_a_cancel_never_covers_a_run_accepted_after_it(*, ready: bool) -> None:
    driver = Driver()
    one_of_each(driver)
    receipt = driver.cancel("chat")
    later = driver.submit("chat", "later", ready=ready)
    assert later not in receipt.covered
    assert not later.canceled
    driver.ready(later)
    driver.end_all()
    assert statuses(later) == ["completed"]


@pytest.mark.contract("X2")
def test_race_13_a_prompt_that_comes_while_the_line_is_being_cleared_does_not_vanish() -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    sent: list[Run[str]] = []
    overtake(
        driver.table._sessions["chat"],
        lambda: sent.append(elsewhere(lambda: driver.submit("chat", "c"))),
    )
    receipt = driver.cancel("chat", scope=Scope.WAITING)
    assert sent[0] in receipt.dropped, "it took the lock first"
    sent.append(driver.submit("chat", "d"))
    driver.end_all()
    assert statuses(*sent) == ["canceled", "completed"]


# --- X3 ---


@pytest.mark.contract("X3", "R1")
@pytest.mark.parametrize("used_before", [True, False])
def test_race_03_a_cancel_on_an_idle_session_leaves_nothing_behind(*, used_before: bool) -> None:
    driver = Driver()
    if used_before:
        driver.finish(driver.submit("chat", "a"))
    before = driver.facts()
    for scope in Scope:
        receipt = driver.cancel("chat", scope=scope, hold=True, up_to=99)
        assert receipt == CancelReceipt("chat")
        assert not receipt
    assert driver.facts() == before
    assert len(driver.table) == 0
    later = driver.submit("chat", "b")
    driver.finish(later)
    assert statuses(later) == ["completed"]


# --- X4, X5 ---


@pytest.mark.contract("X4")
@pytest.mark.parametrize("scope", list(Scope))
def test_the_second_of_two_cancels_does_nothing_and_says_so(scope: Scope) -> None:
    driver = Driver()
    one_of_each(driver)
    driver.cancel("chat", scope=scope)
    before = driver.facts()
    assert not driver.cancel("chat", scope=scope)
    assert driver.facts() == before


@pytest.mark.contract("X4")
def test_canceling_one_run_twice_does_nothing_the_second_time() -> None:
    for state in (RunState.ACTIVE, RunState.QUEUED, RunState.ACCEPTED):
        driver = Driver()
        run = driver.bring(state)
        assert driver.cancel_run(run)
        before = driver.facts()
        assert not driver.cancel_run(run)
        assert driver.facts() == before


@pytest.mark.contract("X4")
def test_the_mark_only_rises() -> None:
    driver = Driver()
    first = driver.submit("chat", "a", ready=False)
    driver.withdraw(first, OSError())
    driver.submit_each("chat", "b", "c")
    marks = [driver.cancel("chat", cause=Cause.DEADLINE).mark]
    receipt = driver.cancel("chat", up_to=first.seq)
    assert receipt.dropped == (first,), "it covers something, and its fence is below the mark"
    marks += [receipt.mark, driver.cancel("chat", up_to=0).mark]
    driver.submit_each("chat", "d", "e")
    marks += [driver.cancel("chat", up_to=4).mark, driver.cancel("chat").mark]
    assert marks == [3, 3, 3, 4, 5]


@pytest.mark.contract("X5")
@pytest.mark.parametrize("fence", range(6))
def test_race_05_a_fence_covers_exactly_the_runs_at_or_below_it(fence: int) -> None:
    driver = Driver()
    runs = [*driver.submit_each("chat", "a", "b", "c"), driver.submit("chat", "d", ready=False)]
    receipt = driver.cancel("chat", up_to=fence)
    assert [run.seq for run in receipt.covered] == list(range(1, min(fence, 4) + 1))
    assert [run.seq for run in runs if run.canceled] == [run.seq for run in receipt.covered]
    assert receipt.mark == min(fence, 4)


@pytest.mark.contract("X5", "X2")
def test_a_fence_above_the_newest_run_means_that_run() -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    assert driver.cancel("chat", up_to=10**9).mark == 2
    later = driver.submit("chat", "c")
    driver.end_all()
    assert statuses(later) == ["completed"]


@pytest.mark.contract("X5", "X2")
def test_race_34_a_cancel_that_was_late_in_the_network_does_not_hit_the_newer_prompt() -> None:
    driver = Driver()
    seen = driver.submit("chat", "a")
    driver.finish(seen)
    newer = driver.submit("chat", "b")
    assert not driver.cancel("chat", up_to=seen.seq)
    assert states(newer) == ["active"]
    assert not newer.canceled


@pytest.mark.contract("X5")
def test_a_fence_finds_the_runs_below_it_behind_promoted_ones() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    driver.promote(d)
    driver.finish(a)
    receipt = driver.cancel("chat", up_to=b.seq)
    assert (receipt.covered, receipt.kept) == ((b,), (d, c))


# --- X7 ---


@pytest.mark.contract("X7")
def test_race_04_a_covered_run_that_had_not_started_never_starts() -> None:
    driver = Driver()
    a, b, c = (driver.submit("chat", prompt, ready=False) for prompt in "abc")
    driver.ready(b)
    driver.cancel("chat")
    for run in (a, b, c):
        assert not driver.ready(run)
        assert not driver.promote(run)
        driver.settle(run)
    assert "start" not in dict(driver.news())
    assert statuses(a, b, c) == ["canceled"] * 3


@pytest.mark.contract("X7", "T1")
def test_race_06_a_queued_prompt_that_is_dropped_is_announced() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.cancel("chat")
    driver.settle(b)
    assert ("end", b.seq) in driver.news()
    assert a.ended is None
    assert b.ended is not None


@pytest.mark.contract("X7", "T1")
def test_race_07_a_prompt_that_is_covered_before_it_is_ready_is_announced() -> None:
    driver = Driver()
    run = driver.submit("chat", "a", ready=False)
    driver.cancel("chat")
    driver.settle(run)
    assert driver.news() == [("accepted", 1), ("drop", 1), ("end", 1)]


# --- X9, X10 ---


@pytest.mark.contract("X9")
def test_canceling_the_active_run_covers_what_it_took_and_nothing_else() -> None:
    driver = Driver()
    active, taken, b, c = one_of_each(driver)
    receipt = driver.cancel_run(active)
    assert receipt == CancelReceipt("chat", 0, active, (taken,))
    driver.ready(c)
    driver.end_all()
    assert statuses(active, taken, b, c) == ["canceled", "canceled", "completed", "completed"]


@pytest.mark.contract("X9")
@pytest.mark.parametrize("index", [1, 2, 3])
def test_canceling_a_waiting_run_covers_that_one_alone(index: int) -> None:
    driver = Driver()
    runs = driver.submit_each("chat", "a", "b", "c", "d")
    assert driver.cancel_run(runs[index]) == CancelReceipt("chat", dropped=(runs[index],))
    driver.end_all()
    expected = ["completed"] * 4
    expected[index] = "canceled"
    assert statuses(*runs) == expected


@pytest.mark.contract("X9", "F3")
def test_a_run_that_joined_another_is_a_part_of_it_and_not_canceled_alone() -> None:
    driver = Driver()
    run = driver.bring(RunState.FOLDED)
    before = driver.facts()
    assert not driver.cancel_run(run)
    assert driver.facts() == before


@pytest.mark.contract("X9")
def test_race_12_a_run_that_is_over_takes_nothing_from_the_one_that_follows() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.finish(a)
    assert not driver.finish(a)
    assert not driver.cancel_run(a)
    assert driver.cancel_run(b).active is b


@pytest.mark.contract("X9")
@pytest.mark.parametrize(
    ("state", "scope", "covered"),
    [
        (RunState.ACTIVE, Scope.ACTIVE, True),
        (RunState.ACTIVE, Scope.WAITING, False),
        (RunState.QUEUED, Scope.ACTIVE, False),
        (RunState.QUEUED, Scope.WAITING, True),
        (RunState.ACCEPTED, Scope.ACTIVE, False),
        (RunState.ACCEPTED, Scope.WAITING, True),
        (RunState.ENDING, Scope.ACTIVE, False),
        (RunState.ENDING, Scope.WAITING, True),
        (RunState.ENDED, Scope.ALL, False),
    ],
)
def test_a_deadline_looks_at_the_active_run_and_an_expiry_at_the_waiting_one(
    state: RunState, scope: Scope, *, covered: bool
) -> None:
    driver = Driver()
    run = driver.bring(RunState.QUEUED if state is RunState.ENDING else state)
    if state is RunState.ENDING:
        driver.close()  # else there is no cause that an interrupt could beat
    before = driver.facts()
    assert bool(driver.cancel_run(run, scope=scope)) is covered
    assert (driver.facts() == before) is not covered


@pytest.mark.contract("X10", "X11")
@pytest.mark.parametrize("hold", [True, False])
def test_each_scope_covers_its_part_keeps_the_rest_and_says_exactly_that(*, hold: bool) -> None:
    receipts = []
    for scope in Scope:
        driver = Driver()
        active, taken, b, c = one_of_each(driver)
        receipts.append(driver.cancel("chat", scope=scope, hold=hold))
        expected = {
            Scope.ALL: CancelReceipt("chat", 4, active, (taken,), (b, c), (), hold),
            Scope.ACTIVE: CancelReceipt("chat", 0, active, (taken,), (), (b, c), hold),
            Scope.WAITING: CancelReceipt("chat", 0, None, (), (b, c), (active, taken), hold),
        }
        assert receipts[-1] == expected[scope]
        view = driver.table.session("chat")
        assert (view.state, view.held) == ("active" if scope is Scope.WAITING else "canceled", hold)
    assert all(receipts)


@pytest.mark.contract("X5", "X10", "X11")
def test_scope_and_fence_narrow_each_other() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    receipt = driver.cancel("chat", scope=Scope.WAITING, up_to=2)
    assert receipt == CancelReceipt("chat", 0, None, (), (b,), (a, c))
    assert not driver.cancel("chat", scope=Scope.ACTIVE, up_to=0)
    assert driver.cancel("chat", scope=Scope.ACTIVE, up_to=2) == CancelReceipt(
        "chat", 0, a, (), (), (c,)
    )


@pytest.mark.contract("X11")
def test_a_receipt_that_covered_nothing_still_names_what_was_kept_and_the_mark() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.cancel("chat", up_to=1, hold=True)
    assert driver.cancel("chat", up_to=1) == CancelReceipt("chat", 1, None, (), (), (b,), held=True)
    driver.finish(a)
    assert driver.cancel("chat", scope=Scope.ACTIVE) == CancelReceipt(
        "chat", 1, None, (), (), (b,), held=True
    )


@pytest.mark.contract("X11")
def test_canceling_everything_gives_a_receipt_for_each_session_where_it_covered_something() -> None:
    driver = Driver()
    a, b = driver.submit_each("x", "a", "b")
    c = driver.submit("y", "c")
    driver.cancel("y")
    d = driver.submit("z", "d", ready=False)
    receipts = driver.table.cancel_all(9.0)
    assert receipts == (
        CancelReceipt("x", b.seq, a, (), (b,)),
        CancelReceipt("z", d.seq, None, (), (d,)),
    )
    driver.end_all()
    assert statuses(a, b, c, d) == ["canceled"] * 4
