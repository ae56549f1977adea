"""Accepting: what gets in, what is refused, and what is the same run again (A1 to A5)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from driving import PATIENCE_S, Driver, elsewhere, overtake

from sessionsched import (
    Cause,
    DuplicateRun,
    IllegalEvent,
    InvalidOption,
    InvalidSession,
    Limits,
    LineFull,
    Refused,
    Run,
    RunState,
    SchedulerClosed,
    Scope,
    SessionBusy,
    SessionState,
    Status,
    Table,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Effect

IN_FLIGHT = [state for state in RunState if state not in {RunState.NEW, RunState.ENDED}]

# --- A1 ---


@pytest.mark.contract("A1")
def test_accepting_decides_at_once_and_performs_nothing() -> None:
    table: Table[str] = Table()
    performed: list[str] = []
    run = table.accept(Run("chat", "hello"), 0.0)
    assert (run.state, performed) == (RunState.ACTIVE, [])
    table.drain(lambda effect, _run, _at: performed.append(effect))
    assert performed == ["accepted", "start"]


@pytest.mark.contract("A1")
def test_accepting_takes_its_own_lock_once() -> None:
    driver = Driver()
    driver.submit("chat", "a")
    lock = overtake(driver.table._sessions["chat"])
    driver.submit("chat", "b")
    assert lock.taken == 1


@pytest.mark.contract("A1", "D5")
def test_accepting_does_not_wait_for_a_lock_of_another_session() -> None:
    driver = Driver(Limits(max_active=1))
    driver.submit_each("other", "a", "b")
    with driver.table._sessions["other"].lock:
        run = elsewhere(lambda: driver.submit("chat", "hello"))
    assert run.state is RunState.QUEUED


@pytest.mark.contract("A1", "T4")
def test_race_32_accepting_and_canceling_do_not_wait_for_a_thread_that_is_stuck_performing() -> (
    None
):
    table: Table[str] = Table()
    stuck, go_on = threading.Event(), threading.Event()

    def perform(_effect: Effect, _run: Run[Any], _at: float) -> None:
        stuck.set()
        assert go_on.wait(PATIENCE_S)

    first = table.accept(Run("chat", "a"), 0.0)
    thread = threading.Thread(target=table.drain, args=[perform], daemon=True)
    thread.start()
    assert stuck.wait(PATIENCE_S)
    same = elsewhere(lambda: table.accept(Run("chat", "b"), 1.0))
    elsewhere(lambda: table.accept(Run("other", "c"), 2.0))
    receipt = elsewhere(lambda: table.cancel("chat", 3.0))
    go_on.set()
    thread.join(PATIENCE_S)
    assert (receipt.active, receipt.dropped) == (first, (same,))
    assert len(table.outbox) == 0


# --- A2, A3 ---


@pytest.mark.contract("A2")
def test_every_seq_is_greater_than_all_before_whatever_happened_between() -> None:
    driver = Driver(Limits(max_waiting=1))
    runs = [driver.submit("chat", "a"), driver.submit("other", "b")]
    runs += [driver.submit("chat", "c", ready=False)]
    with pytest.raises(LineFull):
        driver.submit("chat", "refused")
    driver.cancel("chat")
    driver.end_all()
    runs += driver.submit_each("chat", "d", "e")
    seqs = [run.seq for run in runs]
    assert seqs == sorted(set(seqs))
    assert seqs[0] > 0


@pytest.mark.contract("A2")
def test_race_36_a_session_that_was_freed_and_made_again_never_sees_an_old_number() -> None:
    driver = Driver()
    seqs = []
    for prompt in "abc":
        run = driver.submit("chat", prompt)
        seqs.append(run.seq)
        driver.finish(run)
    assert seqs == [1, 2, 3]


@pytest.mark.contract("A3")
@pytest.mark.parametrize("state", IN_FLIGHT)
def test_whatever_is_in_flight_has_a_seq_and_is_visible(state: RunState) -> None:
    driver = Driver()
    run = driver.bring(state)
    view = driver.table.session("chat")
    active = () if view.active is None else (view.active, *view.active.folded)
    assert run.seq > 0
    assert driver.table.run(run.run_id) is run
    assert run in (*active, *view.waiting, *view.ending)
    assert driver.table.snapshot().sessions == (view,)


@pytest.mark.contract("A3", "X1")
@pytest.mark.parametrize("state", [s for s in IN_FLIGHT if s is not RunState.ENDING])
def test_whatever_is_in_flight_can_be_canceled(state: RunState) -> None:
    driver = Driver()
    run = driver.bring(state)
    assert run in driver.cancel("chat").covered
    driver.end_all()
    assert run.ended is not None
    assert run.ended.status is Status.CANCELED


@pytest.mark.contract("A3")
def test_race_11_of_two_prompts_for_an_idle_session_one_starts_and_the_other_waits() -> None:
    driver = Driver()
    table = driver.table
    faster: list[Run[str]] = []
    # Both have looked for the session, and neither has its lock yet.
    record = table._make("chat")
    overtake(record, lambda: faster.append(driver.submit("chat", "faster")))
    slower = driver.submit("chat", "slower")
    assert [run.state for run in (*faster, slower)] == [RunState.ACTIVE, RunState.QUEUED]
    assert len(table) == 1


@pytest.mark.contract("A3", "R1")
def test_a_prompt_that_finds_a_record_just_before_it_is_freed_gets_a_fresh_one() -> None:
    driver = Driver()
    last = driver.submit("chat", "last")
    overtake(driver.table._sessions["chat"], lambda: driver.finish(last))
    run = driver.submit("chat", "hello")
    assert run.state is RunState.ACTIVE
    assert driver.table.session("chat").active is run
    assert run.session is not last.session


# --- A4 ---


def fill(driver: Driver) -> None:
    driver.submit_each("chat", "a", "b")


def close(driver: Driver) -> None:
    driver.submit("chat", "a")
    driver.close()


def unwind(driver: Driver) -> None:
    driver.submit("chat", "a")
    driver.cancel("chat")


def record_a_drop(driver: Driver) -> None:
    driver.withdraw(driver.submit("chat", "a", ready=False))


def nothing(_driver: Driver) -> None:
    """The session is idle."""


REJECT, FOLD = WhenBusy.REJECT, WhenBusy.FOLD
WRONG: Any = "sideways"
REFUSALS: dict[str, tuple[Callable[[Driver], object], Run[str], type[Refused]]] = {
    "unknown when_busy": (fill, Run("chat", "x", when_busy=WRONG), InvalidOption),
    "blank run id": (fill, Run("chat", "x", " \n"), InvalidOption),
    "line full": (fill, Run("chat", "x"), LineFull),
    "line full, named": (fill, Run("chat", "x", "new"), LineFull),
    "line full, fold": (fill, Run("chat", "x", when_busy=FOLD), LineFull),
    "closing": (close, Run("chat", "x"), SchedulerClosed),
    "closing, idle": (close, Run("other", "x", "new"), SchedulerClosed),
    "run id of another prompt": (
        lambda driver: driver.submit("chat", "a", run_id="r"),
        Run("chat", "x", "r"),
        DuplicateRun,
    ),
    "run id of another session": (
        lambda driver: driver.submit("chat", "a", run_id="r"),
        Run("other", "a", "r"),
        DuplicateRun,
    ),
    "run id that was made for another": (fill, Run("other", "x", "run-2"), DuplicateRun),
    "run id of an ended run": (
        lambda driver: driver.finish(driver.submit("chat", "a", run_id="r")),
        Run("chat", "x", "r"),
        DuplicateRun,
    ),
    "busy: accepted": (
        lambda driver: driver.submit("chat", "a", ready=False),
        Run("chat", "x", when_busy=REJECT),
        SessionBusy,
    ),
    "busy: active": (
        lambda driver: driver.submit("chat", "a"),
        Run("chat", "x", when_busy=REJECT),
        SessionBusy,
    ),
    "busy: queued": (fill, Run("chat", "x", when_busy=REJECT), SessionBusy),
    "busy: unwinding": (unwind, Run("chat", "x", when_busy=REJECT), SessionBusy),
    "busy: recording": (record_a_drop, Run("chat", "x", "new", REJECT), SessionBusy),
}
for number, wrong in enumerate([None, 7, b"chat", "", " \t", ["chat"]]):
    name: Any = wrong
    REFUSALS[f"session id {number}"] = (fill, Run(name, "x"), InvalidSession)
for number, wrong in enumerate([None, 7, b"r"]):
    name = wrong
    REFUSALS[f"run id {number}"] = (nothing, Run("chat", "x", name), InvalidOption)


@pytest.mark.contract("A4")
@pytest.mark.parametrize("name", [None, "", " \t"])
def test_who_can_not_name_a_session_is_told_by_what_it_was(name: Any) -> None:
    with pytest.raises(InvalidSession) as refused:
        Driver().take_in(Run(name, "x"))
    assert refused.value.session_id == name
    assert repr(name) in str(refused.value)


@pytest.mark.contract("A4")
@pytest.mark.parametrize("why", REFUSALS)
def test_what_can_not_be_accepted_is_refused_before_anything_changes(why: str) -> None:
    prepare, run, error = REFUSALS[why]
    driver = Driver(Limits(max_waiting=1))
    prepare(driver)
    before, name = driver.facts(), run.run_id
    with pytest.raises(error) as refused:
        driver.take_in(run)
    assert type(refused.value) is error
    assert driver.facts() == before
    assert (run.seq, run.state, run.ended, run.session) == (0, RunState.NEW, None, None)
    assert run.run_id == name


@pytest.mark.contract("A4", "A2")
@pytest.mark.parametrize("when_busy", [WhenBusy.QUEUE, REJECT])
def test_a_refused_prompt_has_no_seq(when_busy: WhenBusy) -> None:
    driver = Driver(Limits(max_waiting=1))
    driver.submit_each("chat", "a", "b")
    with pytest.raises(Refused):
        driver.submit("chat", "refused", when_busy=when_busy)
    assert driver.submit("other", "c").seq == 3


@pytest.mark.contract("A4")
def test_the_cases_above_have_every_state_in_which_a_session_is_busy() -> None:
    states = set()
    for prepare, run, error in REFUSALS.values():
        if error is SessionBusy:
            driver = Driver()
            prepare(driver)
            states.add(driver.table.session(run.session_id).state)
    assert states == set(SessionState) - {SessionState.IDLE}


@pytest.mark.contract("A4")
def test_an_idle_session_takes_a_prompt_that_would_rather_be_refused_than_wait() -> None:
    assert Driver().submit("chat", "a", when_busy=REJECT).state is RunState.ACTIVE


@pytest.mark.contract("A4")
def test_an_option_may_be_spelt() -> None:
    spelt: Any = "reject"
    assert Driver().submit("chat", "a", when_busy=spelt).when_busy is REJECT


@pytest.mark.contract("A4")
@pytest.mark.parametrize("wrong", [None, 7, "", " \t"])
def test_nothing_is_asked_of_a_session_without_a_name(wrong: Any) -> None:
    driver = Driver()
    driver.submit("chat", "a")
    before = driver.facts()
    for ask in (driver.cancel, driver.hold, driver.resume, driver.table.session):
        with pytest.raises(InvalidSession):
            ask(wrong)
    assert driver.facts() == before


@pytest.mark.contract("A4")
@pytest.mark.parametrize("option", ["scope", "cause", "up_to"])
@pytest.mark.parametrize("wrong", ["sideways", -1, 1.5, True])
def test_a_cancel_with_an_unknown_option_is_refused_and_covers_nothing(
    option: str, wrong: object
) -> None:
    driver = Driver()
    options: Any = {option: wrong}
    run = driver.submit("chat", "a")
    before = driver.facts()
    with pytest.raises(InvalidOption) as refused:
        driver.cancel("chat", hold=True, **options)
    assert (refused.value.option, refused.value.value) == (option, wrong)
    if option != "up_to":
        with pytest.raises(InvalidOption):
            driver.cancel_run(run, **options)
    assert driver.facts() == before


@pytest.mark.contract("A4", "X13")
@pytest.mark.parametrize("cause", [Cause.SHUTDOWN, Cause.EXTERNAL, Cause.UNPREPARED])
def test_nobody_gives_a_cause_that_does_not_end_canceled(cause: Cause) -> None:
    driver = Driver()
    run = driver.submit("chat", "a")
    before = driver.facts()
    with pytest.raises(InvalidOption, match="only the scheduler itself"):
        driver.cancel("chat", cause=cause)
    with pytest.raises(InvalidOption, match="only the scheduler itself"):
        driver.cancel_run(run, scope=Scope.ALL, cause=cause)
    assert driver.facts() == before


@pytest.mark.contract("A5")
@pytest.mark.parametrize("state", [state for state in RunState if state not in ("new", "ended")])
def test_accepting_the_very_same_run_again_gives_that_run_and_changes_nothing(
    state: RunState,
) -> None:
    driver = Driver()
    run = driver.bring(state)
    before = driver.facts()
    assert driver.take_in(run) is run
    assert driver.facts() == before


def test_a_run_that_has_ended_and_is_forgotten_is_never_accepted_again() -> None:
    driver = Driver()
    run = driver.bring(RunState.ENDED)
    before = driver.facts()
    with pytest.raises(IllegalEvent):
        driver.take_in(run)
    assert (driver.facts(), run.seq) == (before, 1)
