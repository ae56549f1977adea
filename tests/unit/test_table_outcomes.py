"""Outcomes: one for every run, in order, for the right reason (T, X6, X12, X13, S2 to S4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from driving import Driver, ends, outcome, states

from sessionsched import (
    Cause,
    Effect,
    How,
    Limits,
    Outcome,
    Run,
    RunState,
    Scope,
    SessionState,
    Status,
    Table,
    WhenBusy,
)

if TYPE_CHECKING:
    from sessionsched.table import Record


#: What a person or a clock can cancel with, and a shutdown.
GIVEN = [Cause.INTERRUPT, Cause.SUPERSEDED, Cause.DEADLINE, Cause.EXPIRED, Cause.WITHDRAWN]

# --- T1, T2, T4 ---


def a_bit_of_everything(driver: Driver) -> list[Run[str]]:
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    d = driver.submit("chat", "d", when_busy=WhenBusy.FOLD)
    driver.fold(a)
    driver.cancel_run(b)
    e = driver.submit("chat", "e", ready=False)
    driver.cancel("chat", up_to=3)
    driver.finish(a, How.RAISED, error=OSError())
    f = driver.submit("chat", "f", when_busy=WhenBusy.LATEST)
    g, h = driver.submit_each("other", "g", "h")
    driver.promote(h)
    driver.end_all()
    i = driver.submit("chat", "i", ready=False)
    driver.withdraw(i, OSError())
    driver.close()
    driver.end_all()
    return [a, b, c, d, e, f, g, h, i]


@pytest.mark.contract("T1")
def test_every_accepted_run_ends_exactly_once() -> None:
    driver = Driver()
    runs = a_bit_of_everything(driver)
    ended = [seq for effect, seq in driver.news() if effect == "end"]
    assert sorted(ended) == [run.seq for run in runs]
    assert states(*runs) == ["ended"] * len(runs)
    assert [run.run_id for run in runs if run.ended is None] == []
    assert (len(driver.table), driver.table.ids.in_flight) == (0, {})


@pytest.mark.contract("T1")
def test_nothing_happens_to_a_run_that_has_ended() -> None:
    driver = Driver()
    run = driver.submit("chat", "a", run_id="r")
    driver.finish(run, result="text")
    first, before = run.ended, driver.facts()
    driver.table.finish(run, How.RAISED, 9.0, error=OSError())
    assert not driver.finish(run)
    assert not driver.settle(run, OSError())
    assert not driver.ready(run)
    assert not driver.withdraw(run)
    assert not driver.cancel_run(run)
    assert not driver.promote(run)
    assert not driver.table.replace(run, "better")
    assert driver.fold(run) == ()
    assert run.ended == first
    assert driver.facts() == before


@pytest.mark.contract("T1", "T2")
def test_drops_that_are_settled_together_end_in_their_order_before_a_later_run_starts() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    driver.cancel("chat", up_to=c.seq)
    driver.finish(a)
    driver.news()
    assert driver.table.settle_all([b, c], 9.0)
    driver.table.drain(driver.perform)
    assert driver.news() == [("end", b.seq), ("end", c.seq), ("start", d.seq)]
    assert [(o.status, o.ended_at) for o in map(outcome, (b, c))] == [("canceled", 9.0)] * 2
    assert states(a, b, c, d) == ["ended", "ended", "ended", "active"]


@pytest.mark.contract("T1")
def test_what_is_not_ending_is_not_settled_with_the_others() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    driver.cancel("chat", scope=Scope.WAITING, up_to=c.seq)
    driver.settle(b)
    assert driver.table.settle_all([a, b, c, d], 9.0, OSError("disk full"))
    assert states(a, b, c, d) == ["active", "ended", "ended", "queued"]
    assert (outcome(b).error, str(outcome(c).error)) == (None, "disk full")
    before = driver.facts()
    assert not driver.table.settle_all([a, b, c, d], 9.5)
    assert driver.facts() == before


@pytest.mark.contract("T1")
def test_the_outcome_is_there_when_the_end_is_announced() -> None:
    table: Table[str] = Table()
    seen: list[tuple[Effect, float, object]] = []
    run = table.accept(Run("chat", "a"), 1.5)
    table.finish(run, How.RETURNED, 2.5, result="text")
    table.drain(lambda effect, run, at: seen.append((effect, at, run.ended)))
    expected: Outcome[str] = Outcome(Status.COMPLETED, None, "text", None, 1.5, 1.5, 2.5)
    assert outcome(run) == expected
    assert seen[-1] == (Effect.END, 2.5, run.ended)
    assert [(effect, at) for effect, at, _ in seen[:2]] == [("accepted", 1.5), ("start", 1.5)]


@pytest.mark.contract("T1")
def test_an_outcome_says_when_a_run_was_accepted_when_it_started_and_when_it_ended() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")  # at 1 and 2
    c = driver.submit("chat", "c")  # at 3
    driver.finish(a)  # at 4
    driver.cancel("chat")  # at 5
    driver.finish(b)  # at 6
    driver.settle(c)  # at 7
    times = [(o.accepted_at, o.started_at, o.ended_at) for o in map(outcome, (a, b, c))]
    assert times == [(1.0, 1.0, 4.0), (2.0, 4.0, 6.0), (3.0, None, 7.0)]
    assert [o.started for o in map(outcome, (a, b, c))] == [True, True, False]


@pytest.mark.contract("T2")
@pytest.mark.parametrize("how", [How.RETURNED, How.RAISED, How.STOPPED])
def test_race_15_the_end_of_a_run_is_announced_before_the_next_one_starts(how: How) -> None:
    driver = Driver()
    for run in driver.submit_each("chat", "a", "b", "c"):
        driver.finish(run, how)
    order = [line for line in driver.news() if line[0] in {"start", "end"}]
    assert order == [(word, seq) for seq in (1, 2, 3) for word in ("start", "end")]


@pytest.mark.contract("T2")
def test_the_ends_of_all_that_a_cancel_covers_are_announced_before_a_later_run_starts() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    driver.cancel("chat")
    driver.submit("chat", "d")
    driver.news()
    driver.settle(c)
    driver.finish(a)
    driver.settle(b)
    assert driver.news() == [("end", 3), ("end", 1), ("end", 2), ("start", 4)]


@pytest.mark.contract("T2")
def test_a_run_starts_after_the_end_of_one_that_was_dropped_behind_the_active_one() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    driver.cancel_run(b)
    driver.finish(a)
    assert states(c) == ["queued"]
    assert driver.table.session("chat").state is SessionState.CANCELED
    driver.settle(b)
    assert driver.news()[-3:] == [("end", 1), ("end", 2), ("start", 3)]


class Watchful(Driver):
    """Performs nothing while anybody has a lock of this table."""

    def perform(self, effect: Effect, run: Run[Any], at: float) -> None:
        for record in {cast("Record[str]", run.session), *self.table._sessions.values()}:
            assert record.lock.acquire(blocking=False), effect
            record.lock.release()
        super().perform(effect, run, at)


@pytest.mark.contract("T4")
def test_nothing_is_performed_while_a_lock_is_held() -> None:
    driver = Watchful(Limits(max_active=1))
    a_bit_of_everything(driver)
    assert {effect for effect, _ in driver.news()} == {effect.value for effect in Effect}


@pytest.mark.contract("T1")
def test_race_18_each_run_ends_with_its_own_result_and_its_own_error() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    driver.finish(a, result="one")
    error = OSError()
    driver.finish(b, How.RAISED, error=error)
    driver.finish(c, result="three")
    assert [(o.status, o.result, o.error) for o in map(outcome, (a, b, c))] == [
        (Status.COMPLETED, "one", None),
        (Status.FAILED, None, error),
        (Status.COMPLETED, "three", None),
    ]


@pytest.mark.contract("D4")
@pytest.mark.parametrize("how", list(How))
def test_race_35_after_a_stop_the_session_is_idle_and_the_next_prompt_runs_at_once(
    how: How,
) -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    driver.cancel("chat")
    driver.finish(run, how)
    assert driver.table.session("chat").state is SessionState.IDLE
    assert states(driver.submit("chat", "b")) == ["active"]


@pytest.mark.contract("T1")
def test_a_drop_that_could_not_be_recorded_ends_with_that_error_and_the_line_moves() -> None:
    driver = Driver()
    a, b = driver.submit("chat", "a", ready=False), driver.submit("chat", "b")
    driver.cancel_run(a)
    error = OSError("disk full")
    assert driver.settle(a, error)
    assert (outcome(a).status, outcome(a).error) == (Status.CANCELED, error)
    assert states(b) == ["active"]


# --- X6, X12, X13 ---


@pytest.mark.contract("X6")
@pytest.mark.parametrize("how", list(How))
@pytest.mark.parametrize("cause", GIVEN)
def test_a_canceled_run_is_canceled_whatever_its_handler_does_and_that_is_kept(
    how: How, cause: Cause
) -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    driver.cancel("chat", cause=cause)
    error = OSError()
    driver.finish(run, how, result="text", error=error)
    assert ends(run) == [("canceled", cause)]
    assert (outcome(run).result, outcome(run).error) == ("text", error)
    assert outcome(run).abandoned is (how is How.ABANDONED)


@pytest.mark.contract("X12")
@pytest.mark.parametrize("first", GIVEN)
@pytest.mark.parametrize("second", [*GIVEN, Cause.SHUTDOWN])
def test_the_first_cause_stands(first: Cause, second: Cause) -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.cancel("chat", cause=first)
    if second is Cause.SHUTDOWN:
        driver.close()
        driver.suspend_active()
    else:
        assert not driver.cancel("chat", cause=second)
        assert not driver.cancel_run(b, cause=second)
    driver.end_all()
    assert ends(a, b) == [("canceled", first)] * 2


@pytest.mark.contract("X12", "S3")
@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_interrupt_beats_a_shutdown_and_tells_nobody_to_stop_twice(*, one_by_one: bool) -> None:
    driver = Driver()
    a = driver.submit("chat", "a")
    taken = driver.submit("chat", "b", when_busy=WhenBusy.FOLD)
    driver.fold(a)
    c, d = driver.submit_each("chat", "c", "d")
    driver.close()
    driver.suspend_active()
    driver.news()
    if one_by_one:
        assert [driver.cancel_run(run).covered for run in (a, c, d)] == [(a, taken), (c,), (d,)]
    else:
        assert driver.cancel("chat").covered == (a, taken, c, d)
    assert driver.news() == []
    assert not driver.cancel("chat")
    driver.end_all()
    assert ends(a, taken, c, d) == [("canceled", "interrupt")] * 4


@pytest.mark.contract("X12", "X5")
def test_an_interrupt_with_a_fence_beats_the_shutdown_of_those_below_it_alone() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    driver.close()
    assert driver.cancel("chat", up_to=b.seq, scope=Scope.WAITING).covered == (b,)
    driver.end_all()
    assert ends(a, b, c) == [
        ("completed", None),
        ("canceled", "interrupt"),
        ("suspended", "shutdown"),
    ]


@pytest.mark.contract("X12")
@pytest.mark.parametrize("cause", [cause for cause in GIVEN if cause is not Cause.INTERRUPT])
def test_only_an_interrupt_beats_a_shutdown(cause: Cause) -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    driver.close()
    driver.suspend_active()
    assert not driver.cancel("chat", cause=cause)
    driver.finish(a, How.STOPPED)
    driver.settle(b)
    assert ends(a, b) == [("suspended", "shutdown")] * 2


@pytest.mark.contract("X13")
def test_a_task_that_was_canceled_from_outside_is_suspended() -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    error = asyncio.CancelledError()
    driver.finish(run, How.STOPPED, error=error)
    assert ends(run) == [("suspended", "external")]
    assert outcome(run).error is error


@pytest.mark.contract("X13")
def test_race_27_a_handler_that_raises_a_cancel_although_nobody_asked_has_failed() -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    error = asyncio.CancelledError()
    driver.finish(run, How.RAISED, error=error)
    assert ends(run) == [("failed", None)]
    assert outcome(run).error is error


# --- S2 to S4, as far as the table goes ---


@pytest.mark.contract("S2", "S4")
def test_race_33_closing_suspends_what_waits_in_line_order_and_leaves_the_active_alone() -> None:
    driver = Driver()
    a, b = driver.submit_each("chat", "a", "b")
    c = driver.submit("chat", "c", ready=False)
    d = driver.submit("other", "d", ready=False)
    driver.news()
    driver.close()
    assert driver.news() == [("drop", b.seq), ("drop", c.seq), ("drop", d.seq)]
    assert not driver.table.session("chat").held
    assert (states(a, b, c, d), a.canceled) == (["active", "ending", "ending", "ending"], False)
    driver.end_all()
    assert ends(a, b, c, d) == [("completed", None)] + [("suspended", "shutdown")] * 3
    assert [outcome(run).started for run in (a, b, c, d)] == [True, False, False, False]
    assert len(driver.table) == 0


@pytest.mark.contract("S3", "X12")
@pytest.mark.parametrize("how", [How.STOPPED, How.ABANDONED])
def test_race_19_a_run_that_the_shutdown_interrupts_is_suspended_and_not_canceled(how: How) -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    driver.close()
    driver.suspend_active()
    assert driver.news()[-1] == ("interrupt", run.seq)
    driver.finish(run, how)
    assert ends(run) == [("suspended", "shutdown")]


@pytest.mark.contract("S3")
def test_race_20_a_run_that_raises_because_of_the_shutdown_is_suspended_and_not_failed() -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    driver.suspend_active()
    error = OSError()
    driver.finish(run, How.RAISED, error=error)
    assert ends(run) == [("suspended", "shutdown")]
    assert outcome(run).error is error


@pytest.mark.contract("S3")
@pytest.mark.parametrize("interrupted", [True, False])
def test_race_21_a_run_that_returns_in_spite_of_the_close_has_completed(
    *, interrupted: bool
) -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    driver.close()
    if interrupted:
        driver.suspend_active()
    driver.finish(run, result="text")
    assert ends(run) == [("completed", None)]
    assert outcome(run).result == "text"


@pytest.mark.contract("P1")
@pytest.mark.parametrize("covered", [True, False])
def test_a_run_whose_handler_never_took_a_step_did_not_start(covered: bool) -> None:  # noqa: FBT001
    driver = Driver()
    run = driver.submit("chat", "hello")
    if covered:
        driver.cancel()
    driver.finish(run, How.SKIPPED)
    assert ends(run) == [
        ("canceled", Cause.INTERRUPT) if covered else ("suspended", Cause.EXTERNAL)
    ]
    assert (outcome(run).started, outcome(run).started_at) == (False, None)


@pytest.mark.contract("T1")
def test_a_run_that_was_dropped_neither_started_nor_was_it_abandoned() -> None:
    driver = Driver()
    run = driver.bring(RunState.ENDING)
    driver.settle(run)
    assert (outcome(run).started, outcome(run).abandoned) == (False, False)


def test_a_run_without_a_scheduler_says_what_to_do_instead() -> None:
    run: Run[str] = Run("chat", "hello")
    with pytest.raises(NotImplementedError, match=r"Table\.fold"):
        run.take_follow_ups()
    with pytest.raises(NotImplementedError, match="subscribers"):
        run.emit("x")
