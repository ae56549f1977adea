"""What it costs, what is left behind, and who may call when (R1 to R4, X15, S5, S6)."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from driving import PATIENCE_S, Driver, elsewhere, ends, outcome, overtake, states

from sessionsched import (
    Effect,
    How,
    Limits,
    Run,
    RunState,
    SchedulerClosed,
    Scope,
    Table,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

MANY = Limits(max_waiting=100_000)


def steps(call: Callable[[], object], but: str = "") -> int:
    """How many lines of Python a call takes; not counted: what a function named `but` does.

    The same on every machine, and a loop can't hide in it as it can among function calls, since
    each round of it counts. (Instructions would do too, but Python 3.12 and later miss some.)
    """
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        if but and event == "call" and any(but in name for name in callers(frame)):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def busy(waiting: int, sessions: int = 0, limits: Limits = MANY) -> Driver:
    """A driver whose session "chat" has an active run and `waiting` more, beside other sessions."""
    driver = Driver(limits)
    driver.submit_each("chat", *("hello" for _ in range(waiting + 1)))
    for number in range(sessions):
        driver.submit_each(f"other {number}", "active", "waiting")
    return driver


class Quick(Driver):
    """Ends every run while its START or DROP is being performed, and notes how deep that is."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.depths: set[int] = set()

    def perform(self, effect: Effect, run: Run[Any], at: float) -> None:
        super().perform(effect, run, at)
        if effect is Effect.START:
            self.finish(run)
        elif effect is Effect.DROP:
            self.settle(run)
        elif effect is Effect.END:
            self.depths.add(depth())


def callers(frame: FrameType | None) -> Iterator[str]:
    """The name of a function, of its caller, and so on."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def depth() -> int:
    return sum(1 for _ in callers(sys._getframe()))


# --- R2, X15 ---

SIZES = [(10, 10), (1000, 10), (10, 1000)]


Act = Callable[[Table[str], Run[str], Run[str]], object]

#: What is done to the table, to the run that is active or to one of those that wait.
ACTS: dict[str, Act] = {
    "accept": lambda table, _active, _waiting: table.accept(Run("chat", "hello"), 0.0),
    "accept, idle": lambda table, _active, _waiting: table.accept(Run("new", "hello"), 0.0),
    "accept, named": lambda table, _active, _waiting: table.accept(Run("chat", "", "r"), 0.0),
    "finish and start": lambda table, active, _waiting: table.finish(active, How.RETURNED, 0.0),
    "cancel what is active": lambda table, active, _waiting: table.cancel_run(active, 0.0),
    "cancel what waits": lambda table, _active, waiting: table.cancel_run(waiting, 0.0),
    "promote": lambda table, _active, waiting: table.promote(waiting, 0.0),
    "cancel what is idle": lambda table, _active, _waiting: table.cancel("new", 0.0),
}


@pytest.mark.contract("R2", "X15")
@pytest.mark.parametrize("limits", [MANY, Limits(max_waiting=100_000, max_active=1)])
@pytest.mark.parametrize("act", ACTS)
def test_a_call_costs_the_same_whatever_the_number_of_sessions_and_of_waiting_runs(
    act: str, limits: Limits
) -> None:
    costs = {}
    for size in SIZES:
        table = busy(*size, limits).table
        view = table.session("chat")
        assert view.active is not None
        costs[size] = steps(partial(ACTS[act], table, view.active, view.waiting[5]))
    assert len(set(costs.values())) == 1, costs
    assert costs[10, 10] > 10, "something was counted"


@pytest.mark.contract("X15")
def test_a_fence_costs_the_same_whatever_waits_behind_it_but_for_naming_that() -> None:
    costs = []
    for waiting in (10, 1000):
        table = busy(waiting).table
        costs.append(steps(partial(table.cancel, "chat", 0.0, up_to=5), but="_uncovered"))
        assert len(table.session("chat").ending) == 4
    assert costs[0] == costs[1]


@pytest.mark.contract("X15")
@pytest.mark.parametrize("sessions", [0, 100])
def test_each_run_that_a_cancel_drops_costs_the_same(sessions: int) -> None:
    costs = []
    for waiting in (10, 20, 30, 1010):
        table = busy(waiting, sessions).table
        costs.append(steps(partial(table.cancel, "chat", 0.0)))
    each = (costs[1] - costs[0]) // 10
    assert [cost - costs[0] for cost in costs] == [0, 10 * each, 20 * each, 1000 * each]


# --- R1 ---


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Whatever is freed was freed because nobody refers to it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.contract("R1")
@pytest.mark.parametrize("max_active", [None, 1])
def test_a_thousand_sessions_that_were_used_once_leave_nothing_behind(
    max_active: int | None,
) -> None:
    driver = Quick(Limits(max_active=max_active))
    table = driver.table
    for number in range(1000):
        runs = [table.accept(Run(f"chat {number}", prompt), 0.0) for prompt in "ab"]
        table.cancel_run(runs[number % 2], 0.0)
    assert len(table) == 1000
    table.drain(driver.perform)
    assert (table._sessions, table.ids.in_flight, len(table.ids.ended), len(table.outbox)) == (
        {},
        {},
        0,
        0,
    )
    assert not getattr(table._slots, "_asking", None)


@pytest.mark.contract("X3", "R1")
def test_race_38_a_cancel_on_a_made_up_id_makes_no_record() -> None:
    driver = Driver()
    for number in range(1000):
        driver.cancel(f"made up {number}")
        driver.hold(f"made up {number}")
        driver.resume(f"made up {number}")
    assert driver.table._sessions == {}
    assert len(driver.table.outbox) == 0


class Tracked(Run[str]):
    """A run whose end as an object can be seen: a plain Run has no weak references."""


def live_and_end(driver: Driver) -> list[weakref.ref[Any]]:
    """A session with a bit of everything, gone by the end. Gives what to look after."""
    first = Tracked("chat", "a")
    runs = [first, *(Tracked("chat", prompt, "", WhenBusy.FOLD) for prompt in "bcdef")]
    for run in runs:
        driver.take_in(run, ready=run.prompt != "f")
    lock = driver.table._sessions["chat"].lock
    driver.cancel_run(runs[2])
    driver.promote(runs[4])
    driver.withdraw(runs[5])
    driver.cancel("chat", up_to=runs[3].seq, scope=Scope.WAITING)
    driver.fold(first)
    driver.cancel("chat", hold=True)
    driver.end_all()
    assert len(driver.table) == 0
    return [weakref.ref(each) for each in (*runs, lock)]


@pytest.mark.contract("R1")
@pytest.mark.usefixtures("no_collector")
def test_an_idle_session_is_freed_at_once_and_so_are_its_runs() -> None:
    driver = Driver(Limits(max_active=1))
    assert [ref() for ref in live_and_end(driver)] == [None] * 7


@pytest.mark.contract("R1")
@pytest.mark.usefixtures("no_collector")
def test_a_run_that_somebody_keeps_keeps_no_other_run() -> None:
    driver = Driver()
    kept = driver.submit("chat", "kept")
    follower = driver.take_in(Tracked("chat", "taken", "", WhenBusy.FOLD))
    driver.fold(kept)
    dropped = driver.take_in(Tracked("chat", "dropped"))
    driver.cancel("chat")
    driver.end_all()
    refs = [weakref.ref(follower), weakref.ref(dropped)]
    del follower, dropped
    assert [ref() for ref in refs] == [None, None]
    assert states(kept) == ["ended"]


# --- R3 ---


@pytest.mark.contract("R3")
@pytest.mark.parametrize("canceled", [True, False])
def test_ten_thousand_runs_in_one_line_end_one_after_the_other_without_going_deeper(
    *, canceled: bool
) -> None:
    driver = Quick(MANY)
    for _ in range(10_000):
        driver.table.accept(Run("chat", "hello"), 0.0)
    if canceled:
        driver.table.cancel("chat", 0.0)
    driver.table.drain(driver.perform)
    ended = [seq for effect, seq in driver.news() if effect == "end"]
    assert sorted(ended) == list(range(1, 10_001))
    # However long the line is: what is ordered of several runs together takes one call more.
    assert max(driver.depths) <= min(driver.depths) + 1
    assert len(driver.table) == 0


@pytest.mark.contract("R3", "D6")
def test_a_slot_goes_through_a_thousand_sessions_without_going_deeper() -> None:
    driver = Quick(Limits(max_active=1))
    for number in range(1000):
        driver.table.accept(Run(f"chat {number}", "hello"), 0.0)
    driver.table.drain(driver.perform)
    assert len(driver.table) == 0
    assert len(driver.depths) == 1


@pytest.mark.contract("R3")
def test_a_table_that_is_thrown_away_with_a_long_line_is_freed() -> None:
    table: Table[str] = Table(MANY)
    last = Tracked("chat", "last")
    for _ in range(20_000):
        table.accept(Run("chat", "hello"), 0.0)
    ref = weakref.ref(table.accept(last, 0.0))
    del table, last
    gc.collect()
    assert ref() is None


# --- R4 ---


@pytest.mark.contract("R4")
def test_everything_public_may_be_called_from_another_thread() -> None:
    driver = Driver()
    table = driver.table
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    follow = driver.submit("chat", "e", when_busy=WhenBusy.FOLD)
    early = [driver.submit("chat", prompt, ready=False) for prompt in "fg"]
    calls: dict[str, Callable[[], object]] = {
        "accept": lambda: table.accept(Run("chat", "h"), 0.0).seq == 8,
        "ready": lambda: table.ready(early[0], 0.0),
        "withdraw": lambda: table.withdraw(early[1], 0.0),
        "promote": lambda: table.promote(d, 0.0),
        "replace": lambda: table.replace(d, "better"),
        "cancel_run": lambda: table.cancel_run(b, 0.0).dropped == (b,),
        "settle": lambda: table.settle(b, 0.0) and table.settle(early[1], 0.0),
        "settle_all": lambda: not table.settle_all(early[:2], 0.0),
        "fold": lambda: table.fold(a, 0.0) == (follow,),
        "hold": lambda: table.hold("chat"),
        "resume": lambda: table.resume("chat", 0.0),
        "finish": lambda: table.finish(a, How.RETURNED, 0.0) and d.state is RunState.ACTIVE,
        "cancel": lambda: table.cancel("chat", 0.0, up_to=c.seq).dropped == (c,),
        "cancel_all": lambda: table.cancel_all(0.0)[0].active is d,
        "run": lambda: table.run(d.run_id) is d,
        "session": lambda: table.session("chat").active is d,
        "explain": lambda: table.explain(d.run_id).why == "active",
        "busy": lambda: table.busy,
        "snapshot": lambda: table.snapshot().active == 1,
        "closed": lambda: not table.closed,
        "close": lambda: table.close(0.0) is None,  # type: ignore[func-returns-value]
        "suspend_active": lambda: table.suspend_active(0.0) is None,  # type: ignore[func-returns-value]
        "drain": lambda: not table.drain(driver.perform),
    }
    ours = (name for name in vars(Table) if "__" not in name)  # some tools put more beside it
    assert set(calls) == {name for name in ours if name[0] != "_"}
    assert [name for name, call in calls.items() if not elsewhere(call)] == []
    assert len(table.outbox) == 0


# --- S5, S6 ---


@pytest.mark.contract("S5", "A4")
@pytest.mark.parametrize("session_id", ["chat", "other", "new"])
def test_race_25_a_prompt_that_comes_after_the_close_has_begun_is_refused(session_id: str) -> None:
    driver = Driver()
    driver.submit("chat", "a")
    driver.submit("other", "b")
    refused: list[type[SchedulerClosed]] = []

    def submit() -> None:
        with pytest.raises(SchedulerClosed) as error:
            driver.submit(session_id, "late")
        refused.append(error.type)

    overtake(driver.table._sessions["chat"], submit)
    driver.close()
    assert refused == [SchedulerClosed]
    driver.end_all()
    assert len(driver.table) == 0


@pytest.mark.contract("S5", "A4")
def test_a_prompt_that_gets_the_lock_after_the_close_is_refused() -> None:
    driver = Driver()
    driver.submit("chat", "a")
    overtake(driver.table._sessions["chat"], driver.close)
    with pytest.raises(SchedulerClosed):
        driver.submit("chat", "late")


class Slow(Run[str]):
    """A run that lets something happen while it is being accepted, under its session's lock."""

    meanwhile: Callable[[], object]

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "seq" and value:
            self.meanwhile()


@pytest.mark.contract("S5", "S2")
@pytest.mark.parametrize("when_busy", [WhenBusy.QUEUE, WhenBusy.INTERRUPT])
def test_a_prompt_that_has_the_lock_before_the_close_is_accepted_and_ended(
    when_busy: WhenBusy,
) -> None:
    driver = Driver()
    driver.submit("first", "a")
    driver.submit("chat", "b")
    closing = threading.Thread(target=driver.table.close, args=[9.0], daemon=True)
    begun = threading.Event()
    overtake(driver.table._sessions["first"], begun.set)
    run = Slow("chat", "just in time", "", when_busy)

    def meanwhile() -> None:
        closing.start()
        assert begun.wait(PATIENCE_S)

    run.meanwhile = meanwhile
    driver.take_in(run)
    closing.join(PATIENCE_S)
    driver.end_all()
    assert ends(run) == [("suspended", "shutdown")]
    assert not outcome(run).started


@pytest.mark.contract("S6")
def test_closing_twice_is_one_close() -> None:
    driver = Driver()
    driver.submit_each("chat", "a", "b")
    driver.close()
    driver.suspend_active()
    before = driver.facts()
    driver.close()
    driver.suspend_active()
    assert driver.facts() == before
