import enum
import json

import pytest
from attrs.exceptions import FrozenInstanceError

from sessionsched import model
from sessionsched.errors import InvalidOption
from sessionsched.model import (
    LIFE,
    CancelReceipt,
    Cause,
    CloseReport,
    Event,
    Limits,
    Run,
    RunState,
    SessionState,
    SessionView,
    Snapshot,
    WhenBusy,
)

ENUMS = [
    value
    for value in vars(model).values()
    if isinstance(value, type) and issubclass(value, enum.Enum)
]
NOT_COUNTS = [-1, 1.0, "3", True, float("inf")]


def run(run_id: str) -> Run[str]:
    return Run("chat-1", f"the prompt of {run_id}", run_id)


# --- enumerations ---


@pytest.mark.parametrize("kind", ENUMS)
def test_a_member_logs_compares_and_serialises_as_its_own_name(kind: type[enum.Enum]) -> None:
    for member in kind:
        own = member.name.lower()
        assert isinstance(member, str)
        assert (f"{member}", str(member), json.dumps(member)) == (own, own, f'"{own}"')
        assert member == own
        assert kind(own) is member


def test_every_enumeration_of_the_model_was_looked_at() -> None:
    names = "Cause Effect Event How RunState Scope SessionState Status WhenBusy"
    assert sorted(kind.__name__ for kind in ENUMS) == names.split()


# --- the life of a run ---


def test_every_state_of_a_run_is_reached_from_new() -> None:
    reached = {RunState.NEW}
    for _ in RunState:
        reached |= {target for source, _, target in LIFE if source in reached}
    assert reached == set(RunState)


def test_only_an_ended_run_has_nowhere_to_go() -> None:
    assert set(RunState) - {source for source, _, _ in LIFE} == {RunState.ENDED}


def test_a_run_never_comes_back_to_a_state_that_it_left() -> None:
    steps = {(source, target) for source, _, target in LIFE}
    paths = steps
    for _ in RunState:
        paths = paths | {(a, d) for a, b in paths for c, d in steps if b is c}
    assert [source for source, target in paths if source is target] == []


def test_one_step_of_a_life_leads_to_one_state() -> None:
    assert len({(source, what) for source, what, _ in LIFE}) == len(LIFE)


def test_a_run_lives_by_the_events_of_its_session_and_by_becoming_ready() -> None:
    assert {what for _, what, _ in LIFE} == {*Event, "ready"}


# --- limits ---


@pytest.mark.parametrize("number", [*NOT_COUNTS, 0, None])
def test_max_waiting_is_a_whole_number_of_at_least_one(number: int) -> None:
    with pytest.raises(InvalidOption, match=r"^max_waiting must be .* at least 1,"):
        Limits(max_waiting=number)


@pytest.mark.parametrize("number", [*NOT_COUNTS, 0])
def test_max_active_is_none_or_a_whole_number_of_at_least_one(number: int) -> None:
    with pytest.raises(InvalidOption, match=r"^max_active must be .* at least 1,"):
        Limits(max_active=number)


@pytest.mark.parametrize("number", [*NOT_COUNTS, None])
def test_remembered_is_a_whole_number_that_may_be_zero(number: int) -> None:
    with pytest.raises(InvalidOption, match=r"^remembered must be .* at least 0,"):
        Limits(remembered=number)


def test_the_least_limits_are_taken_as_they_are() -> None:
    limits = Limits(max_waiting=1, max_active=1, remembered=0)
    assert (limits.max_waiting, limits.max_active, limits.remembered) == (1, 1, 0)


def test_active_runs_are_not_limited_unless_somebody_says_so() -> None:
    assert Limits().max_active is None


def test_limits_do_not_change_once_they_are_checked() -> None:
    limits = Limits()
    with pytest.raises(FrozenInstanceError):
        limits.max_waiting = 0  # type: ignore[misc]


# --- runs ---


@pytest.mark.parametrize("state", RunState)
def test_exactly_the_accepted_and_the_queued_runs_wait(state: RunState) -> None:
    it = run("r-1")
    it.state = state
    assert it.waiting is (state in {RunState.ACCEPTED, RunState.QUEUED})


@pytest.mark.parametrize("cause", Cause)
def test_a_run_is_canceled_as_soon_as_it_has_a_cause(cause: Cause) -> None:
    it = run("r-1")
    assert not it.canceled
    it.cause = cause
    assert it.canceled


@pytest.mark.parametrize("when_busy", WhenBusy)
def test_only_a_fold_run_follows_up(when_busy: WhenBusy) -> None:
    assert Run("chat-1", "and this", "", when_busy).follows_up is (when_busy is WhenBusy.FOLD)


def test_runs_are_told_apart_by_who_they_are_not_by_what_they_say() -> None:
    assert len({run("r-1"), run("r-1")}) == 2


@pytest.mark.parametrize("state", RunState)
def test_the_repr_of_a_run_is_short_and_names_the_run_and_its_state(state: RunState) -> None:
    it = Run[str]("chat-1", "a long story " * 1000, "r-17")
    it.state, it.prev, it.next = state, run("r-16"), run("r-18")
    it.own.folded = (run("r-19"),)
    assert repr(it) == f"<Run r-17 of 'chat-1': {state}>"


def test_the_repr_of_a_covered_run_says_why() -> None:
    it = run("r-17")
    it.state, it.cause = RunState.ENDING, Cause.SUPERSEDED
    assert repr(it) == "<Run r-17 of 'chat-1': ending, covered: superseded>"


# --- receipts and views ---


def test_a_receipt_lists_the_active_run_then_what_it_took_then_what_was_dropped() -> None:
    active, took, also, dropped, other, kept = map(run, "abcdef")
    receipt = CancelReceipt("chat-1", 5, active, (took, also), (dropped, other), (kept,))
    assert receipt.covered == (active, took, also, dropped, other)
    assert CancelReceipt("chat-1", dropped=(dropped,)).covered == (dropped,)


def test_a_receipt_is_true_when_it_covered_the_active_run_or_dropped_one() -> None:
    assert CancelReceipt("chat-1", active=run("a"))
    assert CancelReceipt("chat-1", dropped=(run("a"),))


def test_a_receipt_that_covered_nothing_is_false_whatever_else_it_says() -> None:
    receipt = CancelReceipt("chat-1", mark=7, kept=(run("a"),), held=True)
    assert not receipt
    assert receipt.covered == ()


def test_the_view_of_a_session_that_nobody_knows_is_idle_and_empty() -> None:
    view = SessionView[str]("chat-1")
    assert (view.state, view.mark, view.active) == (SessionState.IDLE, 0, None)
    assert (view.waiting, view.ending, view.held) == ((), (), False)


def test_a_snapshot_counts_active_and_waiting_runs_over_all_sessions() -> None:
    a, b, c, d, e = map(run, "abcde")
    busy = SessionView("chat-1", SessionState.QUEUED, 0, a, (b, c))
    alone = SessionView("chat-2", SessionState.ACTIVE, 0, d)
    stopping = SessionView("chat-3", SessionState.CANCELED, 9, None, (), (e,))
    snapshot = Snapshot((busy, alone, stopping), closed=False)
    assert (snapshot.active, snapshot.waiting) == (2, 2)


def test_in_flight_is_the_active_run_what_it_took_what_is_ending_and_what_waits() -> None:
    active, took, also, ending, waiting, last = map(run, "abcdef")
    active.own.folded = (took, also)
    view = SessionView("chat-1", SessionState.CANCELED, 3, active, (waiting, last), (ending,))
    assert view.in_flight == (active, took, also, ending, waiting, last)


def test_without_an_active_run_in_flight_is_what_is_ending_and_what_waits() -> None:
    ending, waiting = map(run, "ab")
    view = SessionView("chat-1", SessionState.CANCELED, 3, None, (waiting,), (ending,))
    assert view.in_flight == (ending, waiting)
    assert SessionView[str]("chat-1").in_flight == ()


def test_the_report_of_a_close_is_empty_unless_something_was_left_and_does_not_change() -> None:
    suspended, going = map(run, "ab")
    assert CloseReport[str]() == CloseReport((), ())
    report = CloseReport((suspended,), (going,))
    assert (report.suspended, report.still_going) == ((suspended,), (going,))
    with pytest.raises(FrozenInstanceError):
        report.suspended = ()  # type: ignore[misc]


def test_a_run_without_a_scheduler_says_that_it_has_none() -> None:
    with pytest.raises(NotImplementedError, match="without a scheduler"):
        run("a").take_follow_ups()
    with pytest.raises(NotImplementedError, match="without a scheduler"):
        run("a").emit("half")
