"""Order: one at a time, first come first served, and nothing strands (D1 to D6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driving import Driver, overtake, states

from sessionsched import Cause, How, Limits, RunState, Scope, SessionState, Status, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run


def started(driver: Driver) -> list[int]:
    """The seqs that were started since the last call, in that order."""
    return [seq for effect, seq in driver.news() if effect == "start"]


# --- D1, D2 ---


@pytest.mark.contract("D1")
def test_a_run_starts_when_the_one_before_it_is_over_and_not_sooner() -> None:
    driver = Driver()
    runs = driver.submit_each("chat", "a", "b", "c")
    for number, run in enumerate(runs):
        assert started(driver) == [run.seq]
        assert states(*runs[number + 1 :]) == ["queued"] * (2 - number)
        driver.finish(run)


@pytest.mark.contract("D1")
def test_nothing_that_is_done_to_the_line_starts_a_second_run() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    d = driver.submit("chat", "d", ready=False)
    driver.promote(c)
    driver.ready(d)
    driver.hold("chat")
    driver.resume("chat")
    driver.cancel_run(b)
    driver.settle(b)
    driver.cancel_run(a)
    driver.submit("chat", "e", when_busy=WhenBusy.LATEST)
    assert started(driver) == [a.seq]


@pytest.mark.contract("D1", "D5")
def test_one_run_of_every_session_may_be_active() -> None:
    driver = Driver()
    runs = [driver.submit(session_id, "hello") for session_id in ("x", "y", "z")]
    assert states(*runs) == ["active"] * 3


@pytest.mark.contract("D2", "D3")
def test_race_14_runs_start_in_accept_order_whatever_the_order_in_which_they_become_ready() -> None:
    driver = Driver()
    a, b, c = (driver.submit("chat", prompt, ready=False) for prompt in "abc")
    for run in (c, b, a):
        assert started(driver) == []
        assert driver.ready(run)
    driver.end_all()
    assert started(driver) == [1, 2, 3]
    assert b.ended is not None
    assert c.ended is not None
    assert b.ended.ended_at < c.ended.ended_at


@pytest.mark.contract("D2")
@pytest.mark.parametrize("when_busy", list(WhenBusy))
def test_no_kind_of_prompt_overtakes_the_one_that_is_first(when_busy: WhenBusy) -> None:
    driver = Driver()
    first = driver.submit("chat", "first")
    driver.submit("chat", "second")
    if when_busy is not WhenBusy.REJECT:
        driver.submit("chat", "third", when_busy=when_busy)
    driver.submit("chat", "fourth")
    driver.end_all()
    seqs = started(driver)
    assert seqs == sorted(seqs)
    assert seqs[0] == first.seq


@pytest.mark.contract("D2")
def test_a_promoted_run_is_next_and_the_others_keep_their_order() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    assert driver.promote(d)
    assert driver.promote(c)
    assert driver.table.session("chat").waiting == (c, d, b)
    driver.end_all()
    assert started(driver) == [a.seq, c.seq, d.seq, b.seq]


@pytest.mark.contract("D2")
@pytest.mark.parametrize("state", [RunState.ACTIVE, RunState.FOLDED, RunState.ENDING, "ended"])
def test_a_run_that_does_not_wait_is_not_promoted(state: RunState) -> None:
    driver = Driver()
    run = driver.bring(RunState(state))
    driver.submit("chat", "behind")
    before = driver.facts()
    assert not driver.promote(run)
    assert driver.facts() == before


# --- D3 ---


@pytest.mark.contract("D3")
def test_a_run_that_is_not_ready_keeps_its_place() -> None:
    driver = Driver()
    a, b = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    assert driver.news() == [("accepted", 1), ("accepted", 2), ("queued", 2)]
    assert driver.table.session("chat").state is SessionState.ACCEPTED
    assert driver.ready(a)
    assert driver.news() == [("start", 1)]
    driver.finish(a)
    assert states(b) == ["active"]


@pytest.mark.contract("D3")
def test_a_run_becomes_ready_once_and_only_while_its_owner_prepares_it() -> None:
    for state in (RunState.QUEUED, RunState.ACTIVE, RunState.FOLDED, RunState.ENDING, "ended"):
        driver = Driver()
        run = driver.bring(RunState(state))
        before = driver.facts()
        assert not driver.ready(run)
        assert not driver.withdraw(run, OSError())
        assert run.failure is None
        assert driver.facts() == before


@pytest.mark.contract("D3", "D4")
def test_a_run_that_is_given_back_ends_withdrawn_and_the_line_moves() -> None:
    driver = Driver()
    a, b = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    assert driver.withdraw(a)
    assert not driver.withdraw(a), "once is enough"
    assert not driver.ready(a)
    driver.settle(a)
    assert a.ended is not None
    assert (a.ended.status, a.ended.cause) == (Status.CANCELED, Cause.WITHDRAWN)
    assert (a.ended.error, a.ended.started) == (None, False)
    assert states(b) == ["active"]


@pytest.mark.contract("D3", "D4")
@pytest.mark.parametrize("recording", [None, OSError("disk full")])
def test_a_run_whose_preparation_fails_has_failed_with_that_error_and_the_line_moves(
    recording: OSError | None,
) -> None:
    driver = Driver()
    a, b = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    failure = LookupError("no such model")
    assert driver.withdraw(a, failure)
    driver.settle(a, recording)
    assert a.ended is not None
    assert (a.ended.status, a.ended.cause) == (Status.FAILED, Cause.UNPREPARED)
    assert (a.ended.error, a.ended.started) == (failure, False)
    assert states(b) == ["active"]


# --- D4: the ways in which a run can end, and what comes next ---


def cancel_then(how: How) -> Callable[[Driver, Run[str]], object]:
    def end(driver: Driver, run: Run[str]) -> None:
        driver.cancel_run(run)
        driver.finish(run, how)

    return end


def fold_then_finish(driver: Driver, run: Run[str]) -> None:
    last = driver.submit("chat", "follow-up", when_busy=WhenBusy.FOLD)
    assert driver.fold(run) == (last,)
    driver.finish(run)


def drop_another_first(driver: Driver, run: Run[str]) -> None:
    dropped = driver.submit("chat", "dropped")
    driver.cancel_run(dropped)
    driver.finish(run)
    assert driver.table.session("chat").active is None, "the drop is not recorded yet"
    driver.settle(dropped)


def deadline(driver: Driver, run: Run[str]) -> None:
    driver.cancel_run(run, scope=Scope.ACTIVE, cause=Cause.DEADLINE)
    driver.finish(run, How.STOPPED)


def stop_between_two_settles(driver: Driver, run: Run[str]) -> None:
    dropped = [driver.submit("chat", "dropped") for _ in range(2)]
    for each in dropped:
        driver.cancel_run(each)
    driver.settle(dropped[1])
    driver.cancel_run(run)
    driver.finish(run, How.RAISED)
    driver.settle(dropped[0], OSError())


ACTIVE_ENDS: list[Callable[[Driver, Run[str]], object]] = [
    *(lambda driver, run, how=how: driver.finish(run, how)
      for how in (How.RETURNED, How.RAISED, How.STOPPED)),
    *(cancel_then(how) for how in How),
    fold_then_finish,
    drop_another_first,
    deadline,
    stop_between_two_settles,
]  # fmt: skip


@pytest.mark.contract("D4")
@pytest.mark.parametrize("end", ACTIVE_ENDS)
def test_race_08_the_next_in_line_starts_however_the_active_run_ended(
    end: Callable[[Driver, Run[str]], object],
) -> None:
    driver = Driver()
    run, following, last = driver.submit_each("chat", "a", "b", "c")
    end(driver, run)
    assert states(run) == ["ended"]
    assert states(following, last) == ["active", "queued"]
    end(driver, following)
    assert states(last) == ["active"]


@pytest.mark.contract("D4")
@pytest.mark.parametrize(
    "drop",
    [
        lambda driver, run: driver.cancel("chat", up_to=run.seq),
        lambda driver, run: driver.cancel("chat", up_to=run.seq, scope=Scope.WAITING),
        lambda driver, run: driver.cancel_run(run),
        lambda driver, run: driver.cancel_run(run, scope=Scope.WAITING, cause=Cause.EXPIRED),
        lambda driver, run: driver.withdraw(run),
        lambda driver, run: driver.withdraw(run, OSError()),
    ],
)
def test_the_next_in_line_starts_however_the_first_was_dropped(
    drop: Callable[[Driver, Run[str]], object],
) -> None:
    driver = Driver()
    run, following = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    drop(driver, run)
    assert states(run, following) == ["ending", "queued"]
    driver.settle(run)
    assert states(run, following) == ["ended", "active"]


@pytest.mark.contract("D4", "X2")
def test_race_09_a_prompt_sent_while_a_canceled_run_unwinds_still_runs() -> None:
    driver = Driver()
    a = driver.submit("chat", "a")
    driver.cancel("chat")
    b = driver.submit("chat", "b")
    assert states(b) == ["queued"]
    driver.finish(a, How.STOPPED)
    assert states(b) == ["active"]


@pytest.mark.contract("D4", "D2")
def test_a_run_that_is_promoted_over_one_that_is_not_ready_starts_at_once() -> None:
    driver = Driver()
    a, b = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    driver.promote(b)
    assert states(a, b) == ["accepted", "active"]


@pytest.mark.contract("D3", "D4")
def test_a_promoted_run_that_is_not_ready_keeps_its_new_place_until_it_is() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    c = driver.submit("chat", "c", ready=False)
    driver.promote(c)
    driver.finish(a)
    assert states(c, b) == ["accepted", "queued"]
    driver.ready(c)
    assert states(c) == ["active"]
    driver.finish(c)
    assert states(b) == ["active"]


# --- D6 ---


@pytest.mark.contract("D6", "D4")
def test_slots_go_to_sessions_in_the_order_in_which_they_became_startable() -> None:
    driver = Driver(Limits(max_active=1))
    x = driver.submit("x", "a")
    not_ready = driver.submit("y", "a", ready=False)
    driver.submit("z", "a")
    driver.submit("x", "b")
    driver.ready(not_ready)
    driver.submit("z", "b")
    assert started(driver) == [x.seq]
    sessions = []
    while view := next((v for v in driver.table.snapshot().sessions if v.active), None):
        assert driver.table.snapshot().active == 1
        assert view.active is not None
        sessions.append(view.session_id)
        driver.finish(view.active)
    assert sessions == ["x", "z", "y", "x", "z"]


@pytest.mark.contract("D6")
def test_a_session_does_not_keep_its_slot_while_others_wait_for_one() -> None:
    driver = Driver(Limits(max_active=2))
    a, _ = driver.submit_each("x", "a", "b")
    driver.submit("y", "c")
    d = driver.submit("z", "d")
    driver.finish(a)
    assert states(d) == ["active"]


@pytest.mark.contract("D4", "D6")
@pytest.mark.parametrize("spoil", ["hold", "cancel", "promote"])
def test_a_session_that_can_not_use_a_slot_does_not_keep_others_from_it_and_asks_anew(
    spoil: str,
) -> None:
    driver = Driver(Limits(max_active=1))
    x, y, later = (driver.submit(session_id, "hello") for session_id in "xyy")
    early = driver.submit("y", "hello", ready=False)
    acts: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "hold": (lambda: driver.hold("y"), lambda: driver.resume("y")),
        "cancel": (lambda: driver.cancel_run(y), lambda: driver.settle(y)),
        "promote": (lambda: driver.promote(early), lambda: driver.ready(early)),
    }
    z, w = driver.submit("z", "hello"), driver.submit("w", "hello")
    acts[spoil][0]()
    driver.finish(x)
    assert states(z, later) == ["active", "queued"]
    acts[spoil][1]()
    driver.finish(z)
    assert states(w, later) == ["active", "queued"], "it became startable after w"
    driver.finish(w)
    assert driver.table.session("y").active is not None


@pytest.mark.contract("D6", "R1")
@pytest.mark.parametrize("spoil", ["hold", "cancel", "promote"])
def test_a_session_that_is_not_startable_is_not_remembered_as_asking(spoil: str) -> None:
    driver = Driver(Limits(max_active=1))
    driver.submit("x", "hello")
    y = driver.submit("y", "hello")
    acts: dict[str, Callable[[], object]] = {
        "hold": lambda: driver.hold("y"),
        "cancel": lambda: driver.cancel_run(y),
        "promote": lambda: driver.promote(driver.submit("y", "hello", ready=False)),
    }
    slots: Any = driver.table._slots
    assert list(slots._asking) == [y.session]
    acts[spoil]()
    assert list(slots._asking) == []


@pytest.mark.contract("D6")
def test_a_session_that_got_a_slot_while_it_asked_again_stands_in_line_once() -> None:
    driver = Driver(Limits(max_active=1))
    x, y, z = (driver.submit(session_id, "hello") for session_id in "xyz")
    # The second prompt of y takes its lock after the slot has been taken for the first.
    overtake(driver.table._sessions["y"], lambda: driver.submit("y", "again"))
    driver.finish(x)
    w = driver.submit("w", "hello")
    driver.finish(y)
    driver.finish(z)
    assert states(w) == ["active"]


@pytest.mark.contract("D4", "D6")
def test_a_slot_that_comes_too_late_for_a_session_goes_to_the_next_one() -> None:
    driver = Driver(Limits(max_active=1))
    x, y, z = (driver.submit(session_id, "hello") for session_id in "xyz")
    # The cancel takes the lock of y after the slot has been taken for it.
    overtake(driver.table._sessions["y"], lambda: driver.cancel("y"))
    driver.finish(x)
    assert states(y, z) == ["ending", "active"]
    driver.finish(z)
    assert driver.submit("z", "again").state is RunState.ACTIVE, "no slot was lost"


@pytest.mark.contract("D4", "D6")
def test_a_canceled_run_keeps_its_slot_until_it_is_over_or_abandoned() -> None:
    driver = Driver(Limits(max_active=1))
    x, y = driver.submit("x", "a"), driver.submit("y", "b")
    driver.cancel("x")
    assert states(y) == ["queued"]
    driver.finish(x, How.ABANDONED)
    assert states(y) == ["active"]
    assert not driver.finish(x), "it gives its slot back once"
    assert driver.submit("z", "c").state is RunState.QUEUED
