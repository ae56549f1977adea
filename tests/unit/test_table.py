"""The table itself: names of runs (A5), what can be seen, and calls that are wrong."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from driving import Driver, elsewhere, overtake

from sessionsched import (
    CancelReceipt,
    Cause,
    DuplicateRun,
    How,
    IllegalEvent,
    InvalidOption,
    Limits,
    Run,
    RunState,
    SessionState,
    SessionView,
    Table,
    WhenBusy,
)
from sessionsched.ids import LONGEST_SEQ

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.table import Record

ACCEPTED = [state for state in RunState if state is not RunState.NEW]


# --- A5: the same run again ---


@pytest.mark.contract("A5")
@pytest.mark.parametrize("when_busy", list(WhenBusy))
@pytest.mark.parametrize("state", ACCEPTED)
def test_the_same_submit_again_gives_the_same_run_and_changes_nothing(
    state: RunState, when_busy: WhenBusy
) -> None:
    driver = Driver()
    run = driver.bring(state, "hello", run_id="r")
    before = driver.facts()
    assert driver.submit("chat", "hello", run_id="r", when_busy=when_busy) is run
    assert driver.facts() == before


@pytest.mark.contract("A5")
def test_race_37_a_submit_that_the_client_retries_runs_once() -> None:
    driver = Driver()
    runs = [driver.submit("chat", "hello", run_id="r") for _ in range(3)]
    driver.end_all()
    runs += [driver.submit("chat", "hello", run_id="r") for _ in range(3)]
    assert set(runs) == {runs[0]}
    assert driver.news() == [("accepted", 1), ("start", 1), ("end", 1)]
    assert len(driver.table) == 0


@pytest.mark.contract("A5")
@pytest.mark.parametrize("state", ACCEPTED)
def test_an_id_is_refused_for_another_prompt_and_for_another_session(state: RunState) -> None:
    driver = Driver()
    driver.bring(state, "hello", run_id="r")
    before = driver.facts()
    for session_id, prompt in (("chat", "other"), ("other", "hello"), ("other", "other")):
        with pytest.raises(DuplicateRun) as refused:
            driver.submit(session_id, prompt, run_id="r")
        assert (refused.value.session_id, refused.value.run_id) == (session_id, "r")
    assert driver.facts() == before


@pytest.mark.contract("A5")
def test_a_retry_is_known_although_the_line_is_full_or_the_scheduler_closes() -> None:
    driver = Driver(Limits(max_waiting=1))
    driver.submit("chat", "first")
    run = driver.submit("chat", "hello", run_id="r")
    assert driver.submit("chat", "hello", run_id="r") is run
    driver.close()
    assert driver.submit("chat", "hello", run_id="r") is run
    driver.settle(run)
    assert driver.submit("chat", "hello", run_id="r") is run


@pytest.mark.contract("A5")
@pytest.mark.parametrize("remembered", [0, 1, 3])
def test_as_many_ended_runs_are_remembered_as_the_limits_say(remembered: int) -> None:
    driver = Driver(Limits(remembered=remembered))
    ended = []
    for name in "abcde":
        ended.append(driver.submit("chat", "hello", run_id=name))
        driver.finish(ended[-1])
    assert list(driver.table.ids.named) == list("abcde")[5 - remembered :]
    assert not driver.table.busy
    assert len(driver.table.ids.ended) == remembered
    for run in reversed(ended[5 - remembered :]):
        assert driver.submit("chat", "hello", run_id=run.run_id) is run
    again = driver.submit("chat", "hello", run_id=ended[4 - remembered].run_id)
    assert (again.seq, again.state) == (6, RunState.ACTIVE)


@pytest.mark.contract("A5")
def test_a_run_in_flight_is_never_forgotten_however_many_have_ended() -> None:
    driver = Driver(Limits(remembered=1))
    run = driver.submit("chat", "hello", run_id="r")
    for name in "abc":
        driver.finish(driver.submit("other", "hello", run_id=name))
    assert driver.submit("chat", "hello", run_id="r") is run


@pytest.mark.contract("A5")
def test_dropped_and_folded_runs_are_remembered_like_the_others() -> None:
    driver = Driver()
    first = driver.submit("chat", "first")
    taken = driver.submit("chat", "a", run_id="taken", when_busy=WhenBusy.FOLD)
    driver.fold(first)
    dropped = driver.submit("chat", "b", run_id="dropped")
    driver.cancel_run(dropped)
    driver.end_all()
    assert driver.table.ids.named == {"taken": taken, "dropped": dropped}


@pytest.mark.contract("A5", "R1")
def test_only_runs_that_the_caller_named_are_remembered() -> None:
    driver = Driver()
    run = driver.submit("chat", "hello")
    driver.finish(run)
    assert driver.table.run(run.run_id) is None
    assert driver.table.ids.in_flight == {}


class Prompt:
    """A prompt that calls back when it is compared."""

    def __init__(self, compared: Callable[[], object], *, same: bool) -> None:
        self.compared = compared
        self.same = same

    def __eq__(self, other: object) -> bool:
        self.compared()
        return self.same

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.contract("A5")
@pytest.mark.parametrize("same", [True, False])
def test_prompts_are_compared_while_no_lock_is_held(*, same: bool) -> None:
    table: Table[Prompt] = Table()
    locked: list[bool] = []

    def look() -> None:
        locked.append(table._sessions["chat"].lock.locked())

    first = table.accept(Run("chat", Prompt(look, same=same), "r"), 0.0)
    if same:
        assert table.accept(Run("chat", Prompt(look, same=same), "r"), 1.0) is first
    else:
        with pytest.raises(DuplicateRun):
            table.accept(Run("chat", Prompt(look, same=same), "r"), 1.0)
    assert locked == [False]


@pytest.mark.contract("A5")
def test_a_prompt_is_not_compared_with_itself() -> None:
    table: Table[Prompt] = Table()
    compared: list[object] = []
    prompt = Prompt(lambda: compared.append(1), same=False)
    first = table.accept(Run("chat", prompt, "r"), 0.0)
    assert table.accept(Run("chat", prompt, "r"), 1.0) is first
    assert compared == []


class Name(str):
    """A run id that lets somebody else be faster, between being looked up and being put in."""

    __slots__ = ("first", "looks")
    first: Callable[[], object]
    looks: int

    def __hash__(self) -> int:
        self.looks += 1
        if self.looks == 2:
            self.first()
        return super().__hash__()


@pytest.mark.contract("A4", "A5")
def test_of_two_sessions_that_name_their_runs_alike_in_one_moment_one_is_refused() -> None:
    driver = Driver()
    name = Name("r")
    name.looks = 0
    faster: list[Run[str]] = []
    name.first = lambda: faster.append(
        elsewhere(lambda: driver.submit("faster", "hello", run_id="r"))
    )
    slower = Run("slower", "hello", name)
    with pytest.raises(DuplicateRun):
        driver.take_in(slower)
    assert (slower.seq, slower.session, slower.state) == (0, None, RunState.NEW)
    assert driver.table.run("r") is faster[0]
    seq = faster[0].seq
    assert driver.news() == [("accepted", seq), ("start", seq)]
    assert list(driver.table._sessions) == ["faster"]


class Shown(dict[Any, Run[str]]):
    """An index of runs that notes how complete each is when others can find it."""

    def __init__(self) -> None:
        super().__init__()
        self.complete: list[bool] = []

    def __setitem__(self, seq: int, run: Run[str]) -> None:
        self.complete.append(bool(run.seq == seq and run.session))
        super().__setitem__(seq, run)

    def setdefault(self, run_id: str, run: Any = None) -> Any:
        self.complete.append(bool(run.seq and run.session and run.run_id == run_id))
        return super().setdefault(run_id, run)


@pytest.mark.contract("A3", "R4")
@pytest.mark.parametrize("run_id", ["", "mine"])
def test_a_run_can_be_canceled_by_whoever_can_find_it(run_id: str) -> None:
    driver = Driver()
    by_seq, by_name = Shown(), Shown()
    driver.table.ids.in_flight, driver.table.ids.named = by_seq, by_name
    driver.submit("chat", "hello", run_id=run_id)
    assert by_seq.complete == [True]
    assert by_name.complete == [True] * bool(run_id)


# --- names that the table gives ---


def test_a_run_without_a_name_is_named_after_its_seq() -> None:
    driver = Driver()
    runs = [*driver.submit_each("chat", "a", "b"), driver.submit("other", "c", run_id="mine")]
    assert [run.run_id for run in runs] == ["run-1", "run-2", "mine"]
    assert [run.named for run in runs] == [False, False, True]


@pytest.mark.contract("A5")
def test_a_name_that_the_table_would_give_may_be_taken_by_a_caller() -> None:
    driver = Driver()
    mine = [driver.submit("chat", "a", run_id=name) for name in ("run-3", "run-4")]
    made = driver.submit("chat", "c")
    assert (made.run_id, made.seq) == ("run-5", 5), "the next that nobody has"
    assert [driver.table.run(run.run_id) for run in (*mine, made)] == [*mine, made]
    driver.end_all()
    assert driver.table.ids.named == {"run-3": mine[0], "run-4": mine[1]}


@pytest.mark.contract("A5")
def test_a_name_that_the_table_has_given_is_in_use_as_long_as_that_run_is() -> None:
    driver = Driver()
    made = driver.submit("chat", "a")
    with pytest.raises(DuplicateRun):
        driver.submit("chat", "b", run_id="run-1")
    assert driver.submit("chat", "a", run_id="run-1") is made
    driver.end_all()
    assert driver.submit("chat", "b", run_id="run-1").seq == 2


LOOKALIKES = ["run-", "run-01", "run-1x", "run-\u0661", "run--1", "run-" + "9" * 5000]


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_only_looks_like_a_name_that_the_table_gives_is_none(name: str) -> None:
    driver = Driver()
    driver.submit("chat", "a")
    assert driver.table.run(name) is None


@pytest.mark.contract("A4")
@pytest.mark.parametrize("name", [None, 7, [], {}])
@pytest.mark.parametrize("ask", [Table.run, Table.explain])
def test_what_is_not_even_a_string_is_no_id(ask: Callable[..., object], name: Any) -> None:
    with pytest.raises(InvalidOption):
        ask(Driver().table, name)


@pytest.mark.contract("A2")
def test_a_run_is_found_by_its_made_up_name_however_great_its_seq() -> None:
    driver = Driver()
    driver.table.ids.seqs = itertools.count(10**LONGEST_SEQ - 1)
    run = driver.submit("chat", "a")
    assert run.run_id == "run-" + "9" * LONGEST_SEQ
    assert driver.table.run(run.run_id) is run


@pytest.mark.contract("A5", "R4")
@pytest.mark.parametrize("faster", ["the name", "the seq"])
def test_a_given_and_a_made_up_name_that_are_the_same_never_belong_to_two_runs(faster: str) -> None:
    driver = Driver()
    table = driver.table

    class Meanwhile(dict[Any, Run[str]]):
        """An index where somebody else comes in just after an entry was made."""

        def setdefault(self, key: str, run: Any = None) -> Any:
            found = super().setdefault(key, run)
            if run.prompt == "named" and faster == "the seq":
                made.append(driver.submit("other", "made up"))
            return found

        def __setitem__(self, key: int, run: Run[str]) -> None:
            super().__setitem__(key, run)
            if run.prompt == "made up" and faster == "the name" and not made:
                made.append(run)
                with contextlib.suppress(DuplicateRun):
                    driver.submit("chat", "named", run_id=run.run_id)

    made: list[Run[str]] = []
    table.ids.in_flight, table.ids.named = Meanwhile(), Meanwhile()
    if faster == "the seq":
        driver.submit("chat", "named", run_id="run-2")
    else:
        driver.submit("other", "made up")
    ids = [run.run_id for view in table.snapshot().sessions for run in view.in_flight]
    assert len(set(ids)) == len(ids)


@pytest.mark.contract("A4", "A5", "R4")
def test_a_name_that_was_given_by_the_table_in_that_very_moment_is_refused() -> None:
    driver = Driver()
    table = driver.table

    class JustBefore(dict[Any, Run[str]]):
        """An index where somebody else comes in just before an entry is made."""

        def setdefault(self, key: str, run: Any = None) -> Any:
            driver.submit("other", "made up")
            return super().setdefault(key, run)

    table.ids.named = JustBefore()
    with pytest.raises(DuplicateRun):
        driver.submit("chat", "named", run_id="run-2")
    assert table.ids.named == {}
    assert [run.run_id for run in table.ids.in_flight.values()] == ["run-2"]
    assert list(table._sessions) == ["other"]


# --- what can be seen ---


def test_a_session_shows_what_is_active_what_waits_and_what_is_ending() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    driver.cancel_run(b)
    driver.promote(d)
    driver.hold("chat")
    assert driver.table.session("chat") == SessionView(
        "chat", SessionState.QUEUED, 0, a, (d, c), (b,), held=True
    )
    driver.cancel("chat", up_to=1)
    assert driver.table.session("chat") == SessionView(
        "chat", SessionState.CANCELED, 1, a, (d, c), (b,), held=True
    )


def test_a_snapshot_shows_every_session_that_has_something_in_flight() -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    driver.submit("other", "c", ready=False)
    driver.finish(driver.submit("gone", "d"))
    snapshot = driver.table.snapshot()
    assert [view.session_id for view in snapshot.sessions] == ["chat", "other"]
    assert (snapshot.active, snapshot.waiting, snapshot.closed) == (1, 2, False)
    assert len(driver.table) == 2
    driver.close()
    assert driver.table.snapshot().closed
    assert driver.table.closed


def test_a_run_is_found_by_its_id_and_an_unknown_id_finds_none() -> None:
    driver = Driver()
    run = driver.submit("chat", "a", run_id="r")
    assert driver.table.run("r") is run
    assert driver.table.run("run-1") is None


@pytest.mark.contract("R1")
def test_looking_at_a_session_that_nobody_knows_makes_no_record() -> None:
    driver = Driver()
    assert driver.table.session("chat") == SessionView("chat")
    assert driver.table.snapshot().sessions == ()
    assert len(driver.table) == 0


@pytest.mark.contract("R1")
def test_whoever_finds_a_record_just_before_it_is_freed_sees_an_idle_session() -> None:
    driver = Driver()
    asks: tuple[Callable[[], object], ...] = (
        lambda: driver.table.session("chat") == SessionView("chat"),
        lambda: driver.table.snapshot().sessions == (),
        lambda: driver.cancel("chat") == CancelReceipt("chat"),
        lambda: driver.table.cancel_all(0.0) == (),
        lambda: not driver.hold("chat"),
        lambda: not driver.resume("chat"),
    )
    for ask in asks:
        run = driver.submit("chat", "a")
        driver.cancel("chat", cause=Cause.DEADLINE)
        record: Record[str] = driver.table._sessions["chat"]
        overtake(record, lambda run=run: driver.finish(run))  # type: ignore[misc]
        assert ask()
        assert record.retired
        assert not record.held
        assert len(driver.table) == 0


@pytest.mark.contract("A3", "X1")
def test_whoever_finds_a_record_just_before_it_is_freed_and_made_again_finds_the_new_one() -> None:
    driver = Driver()
    old = driver.submit("chat", "old")
    fresh: list[Run[str]] = []

    def first() -> None:
        driver.finish(old)
        fresh.append(driver.submit("chat", "new"))

    overtake(driver.table._sessions["chat"], first)
    assert driver.cancel("chat").active is fresh[0]


@pytest.mark.contract("A3")
def test_whoever_finds_a_record_just_before_the_last_drop_is_settled_finds_the_new_one() -> None:
    driver = Driver()
    run = driver.submit("chat", "old", ready=False)
    driver.table.cancel_run(run, 0.0)
    overtake(driver.table._sessions["chat"], lambda: driver.settle(run))
    fresh = driver.submit("chat", "new")
    assert fresh.state is RunState.ACTIVE
    assert driver.table.session("chat").active is fresh


# --- the prompt of a waiting run ---


@pytest.mark.parametrize("state", ACCEPTED)
def test_exactly_a_waiting_run_gets_another_prompt(state: RunState) -> None:
    driver = Driver()
    run = driver.bring(state, "hello")
    waits = state in {RunState.ACCEPTED, RunState.QUEUED}
    assert driver.table.replace(run, "better") is waits
    assert run.prompt == ("better" if waits else "hello")


@pytest.mark.contract("A2", "D2")
def test_a_run_with_another_prompt_keeps_its_seq_and_its_place() -> None:
    driver = Driver()
    a, b, c = driver.submit_each("chat", "a", "b", "c")
    driver.news()
    driver.table.replace(b, "better")
    assert (b.seq, driver.table.session("chat").waiting) == (2, (b, c))
    driver.finish(a)
    assert driver.news() == [("end", 1), ("start", 2)]


# --- wrong calls ---


@pytest.mark.parametrize(
    "call",
    [
        lambda table, run: table.ready(run, 0.0),
        lambda table, run: table.withdraw(run, 0.0),
        lambda table, run: table.cancel_run(run, 0.0),
        lambda table, run: table.finish(run, How.RETURNED, 0.0),
        lambda table, run: table.settle(run, 0.0),
        lambda table, run: table.fold(run, 0.0),
        lambda table, run: table.promote(run, 0.0),
        lambda table, run: table.replace(run, "better"),
    ],
)
def test_nothing_can_happen_to_a_run_that_was_never_accepted(
    call: Callable[[Table[str], Run[str]], object],
) -> None:
    driver = Driver()
    run: Run[str] = Run("chat", "hello")
    before = driver.facts()
    with pytest.raises(IllegalEvent) as raised:
        call(driver.table, run)
    assert (raised.value.session_id, raised.value.state) == ("chat", RunState.NEW)
    assert (run.state, run.prompt, run.cause) == (RunState.NEW, "hello", None)
    assert driver.facts() == before


def test_a_driver_that_finishes_or_settles_the_wrong_run_is_told_so_and_changes_nothing() -> None:
    driver = Driver()
    active, waiting, dropped = driver.submit_each("chat", "a", "b", "c")
    driver.cancel_run(dropped)
    before = driver.facts()
    assert not driver.finish(waiting)
    assert not driver.finish(dropped)
    assert not driver.settle(active)
    assert not driver.settle(waiting)
    assert not driver.finish(active, How.ABANDONED), "nothing covers it"
    assert driver.facts() == before


def test_whoever_performs_what_a_table_orders_is_found_from_its_runs() -> None:
    driver = Driver()
    assert driver.table.driver is None
    driver.table.driver = driver
    run = driver.submit("chat", "a")
    assert run.session is not None
    assert run.session.driver is driver


def test_a_snapshot_leaves_out_a_session_that_is_only_being_looked_into() -> None:
    driver = Driver()
    driver.table._make("somebody is about to accept here")
    assert driver.table.snapshot().sessions == ()
