"""What every driver has: it passes calls on to its table, and then obeys."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from sessionsched import (
    Cause,
    DuplicateRun,
    Effect,
    Gap,
    How,
    Limits,
    LineFull,
    Run,
    RunAccepted,
    RunEvent,
    RunState,
    Scheduler,
    SchedulerClosed,
    Scope,
    WhenBusy,
    driver,
)
from sessionsched.driven import DrivenRun, Terms
from sessionsched.hub import Mailbox
from sessionsched.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.hooks import Report

OPTIONS = Options(print, None, None, None, Limits(), 1, None, 1)


class Plain(driver.Driver[str]):
    """The least driver there is: it writes down what was ordered, and what time it was."""

    in_use = True

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(OPTIONS if limits is None else evolve(OPTIONS, limits=limits))
        self.table.outbox.loud = True  # as if somebody listened
        self.clock = 0.0
        self.performed: list[tuple[Effect, str, float]] = []

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def obey(self) -> None:
        self.table.drain(lambda effect, run, at: self.performed.append((effect, run.prompt, at)))

    def _not_here(self, *_: object) -> Any:
        raise NotImplementedError

    def call_at(self, when: float, call: Callable[[], object]) -> driver.Timer:
        raise NotImplementedError

    forsaken = call_hook = stragglers = stop_stragglers = _not_here  # type: ignore[assignment]

    def news(self) -> list[tuple[Effect, str, float]]:
        news, self.performed = self.performed, []
        return news

    def take(self, prompt: str, *, ready: bool = True, **how: Any) -> Run[str]:
        run = self.accept(Run("chat", prompt, **how), ready=ready)
        self.news()
        return run


def test_a_driver_is_not_one_without_a_clock_and_hands() -> None:
    with pytest.raises(TypeError, match="abstract"):
        driver.Driver(OPTIONS)  # type: ignore[abstract]


@pytest.mark.contract("A1")
def test_what_is_accepted_is_performed_before_the_call_returns() -> None:
    plain = Plain()
    run = Run("chat", "a")
    assert plain.accept(run, ready=True) is run
    assert plain.news() == [(Effect.ACCEPTED, "a", 1), (Effect.START, "a", 1)]
    assert plain.accept(other := Run("chat", "b"), ready=False) is other
    assert plain.news() == [(Effect.ACCEPTED, "b", 2)]


@pytest.mark.contract("A5")
def test_the_same_run_id_gives_the_run_that_was_there_first() -> None:
    plain = Plain()
    run = plain.take("a", run_id="mine")
    assert plain.accept(Run("chat", "a", "mine"), ready=True) is run
    with pytest.raises(DuplicateRun):
        plain.accept(Run("chat", "b", "mine"), ready=True)
    assert plain.news() == []


@pytest.mark.contract("A4")
def test_a_driver_that_is_shut_says_why_whatever_its_table_would_say() -> None:
    plain = Plain(Limits(max_waiting=1))
    plain.take("a")
    plain.take("b")
    with pytest.raises(LineFull):
        plain.accept(Run("chat", "c"), ready=True)
    plain.shut = "out for lunch"
    for name, run_id in (("", None), ("mine", "mine")):
        with pytest.raises(SchedulerClosed, match=r"^out for lunch$") as refused:
            plain.accept(Run("chat", "c", name), ready=True)
        assert (refused.value.session_id, refused.value.run_id) == ("chat", run_id)
    assert plain.news() == []


CALLS: list[tuple[str, Callable[[Plain, Run[str]], object], Effect | None]] = [
    ("ready", lambda it, run: it.ready(run), Effect.QUEUED),
    ("withdraw", lambda it, run: it.withdraw(run), Effect.DROP),
    ("fail", lambda it, run: it.withdraw(run, ValueError("no file")), Effect.DROP),
    ("cancel_run", lambda it, run: it.cancel_run(run), Effect.DROP),
    ("promote", lambda it, run: it.promote(run), None),
]


@pytest.mark.parametrize(("name", "call", "effect"), CALLS, ids=[name for name, *_ in CALLS])
def test_every_call_is_passed_on_answered_and_obeyed(
    name: str, call: Callable[[Plain, Run[str]], object], effect: Effect | None
) -> None:
    plain = Plain()
    plain.take("a")
    run = plain.take("b", ready=False)
    assert call(plain, run)
    assert plain.news() == ([] if effect is None else [(effect, "b", plain.clock)])
    assert len(plain.table.outbox) == 0
    if effect is Effect.DROP:
        assert not call(plain, run), "the second time there is nothing to do"
        assert (run.failure is not None) is (name == "fail")


def test_a_cancel_of_one_run_can_be_told_where_to_look_and_why() -> None:
    plain = Plain()
    run = plain.take("a")
    assert not plain.cancel_run(run, scope=Scope.WAITING, cause=Cause.EXPIRED)
    assert plain.cancel_run(run, scope=Scope.ACTIVE, cause=Cause.DEADLINE)
    assert run.cause is Cause.DEADLINE
    assert plain.news() == [(Effect.INTERRUPT, "a", plain.clock)]


@pytest.mark.contract("F1")
def test_follow_ups_are_given_and_announced() -> None:
    plain = Plain()
    active = plain.take("a")
    follow_up = plain.take("b", when_busy=WhenBusy.FOLD)
    assert plain.take_follow_ups(active) == (follow_up,)
    assert plain.news() == [(Effect.FOLDED, "b", plain.clock)]
    assert plain.take_follow_ups(active) == ()


def test_a_run_that_is_promoted_past_one_that_is_not_ready_is_started() -> None:
    plain = Plain()
    plain.take("a", ready=False)
    run = plain.take("b")
    assert plain.promote(run)
    assert plain.news() == [(Effect.START, "b", plain.clock)]
    assert run.state is RunState.ACTIVE


# --- what another thread may do in between ---


class Carried(DrivenRun[str]):
    """A run whose handler the test plays."""

    told_so: Callable[[], object]
    abandoned = False

    def begin(self, driver: Acting) -> None:
        self.carrier = "somebody"
        driver.begun.append(self)

    def stop(self) -> None:
        self.told_so()

    @property
    def going(self) -> bool:
        return self.carrier is not None

    def abandon(self, carrier: object) -> None:
        self.abandoned = True

    def release(self, driver: Acting) -> None:
        self.carrier = None
        driver.released.append(self)


class Acting(Plain):
    """It performs what was ordered; its timers are called by the test."""

    def __init__(self, abandon_s: float) -> None:
        super().__init__()
        self.options = Options(print, None, None, None, Limits(), 9, abandon_s, 1)
        #: Called when a timer is set, before whoever sets it has it in its hands.
        self.meanwhile: Callable[[], object] = int
        self.alarms: list[Alarm] = []
        self.begun: list[Carried] = []
        self.released: list[Carried] = []

    def obey(self) -> None:
        assert not self.table.outbox.drain(self.do)

    def call_at(self, when: float, call: Callable[[], object]) -> Alarm:
        self.meanwhile()
        self.alarms.append(Alarm(when, call))
        return self.alarms[-1]

    def begin_one(self) -> Carried:
        run = Carried("chat", "a")
        run.told_so = int
        self.accept(run, ready=True)
        run.begun = True
        return run


class Alarm:
    """A timer in a test's hands."""

    def __init__(self, when: float, call: Callable[[], object]) -> None:
        self.when = when
        self.call = call
        self.canceled = False

    def cancel(self) -> None:
        self.canceled = True


def test_what_a_handler_came_to_is_in_the_outcome() -> None:
    acting = Acting(abandon_s=30)
    run = acting.begin_one()
    acting.finish(run, How.RETURNED, "text")
    assert run.ended is not None
    assert (run.ended.status, run.ended.result) == ("completed", "text")


def test_a_run_that_may_start_in_the_moment_of_its_expiry_starts() -> None:
    acting = Acting(abandon_s=30)
    first, second = acting.begin_one(), Carried("chat", "b")
    second.own.terms = Terms(wait_s=5)
    acting.accept(second, ready=True)
    assert acting.table.finish(first, How.RETURNED, 9.0), "its START is on its way"
    acting.alarms[0].call()
    assert (second.state, second.cause) == (RunState.ACTIVE, None)
    assert second.carrier == "somebody"


class Noting:
    """A close that only writes down what it is told."""

    def __init__(self) -> None:
        self.over: list[Run[str]] = []

    def ended(self, run: Run[str]) -> None:
        self.over.append(run)


@pytest.mark.contract("S1", "S7")
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("watched", [False, True])
def test_what_a_run_comes_by_is_performed_told_and_written_down(
    *, dropped: bool, closing: bool, watched: bool
) -> None:
    acting, noting = Acting(abandon_s=30), Noting()
    if closing:
        acting.closing = noting  # type: ignore[assignment]
    box: Mailbox[str] = Mailbox("", "", 99, lambda: None)
    if watched:
        acting.watch(box)
    first, run = acting.begin_one(), Carried("chat", "b")
    run.own.terms = Terms(wait_s=5, deadline_s=5)
    acting.accept(run, ready=True)
    assert (first.seen, run.seen) == (Effect.START, Effect.QUEUED)
    if dropped:
        acting.cancel_run(run)
    else:
        acting.finish(first, How.RETURNED)
        assert run.seen is Effect.START
        acting.finish(run, How.RETURNED)
    assert run.seen is Effect.END
    assert acting.begun == ([first] if dropped else [first, run])
    assert acting.released == ([run] if dropped else [first, run])
    assert noting.over == acting.released * closing
    assert acting.timers == {}
    events = [it for it in iter(box.take, None) if isinstance(it, RunEvent) and it.run is run]
    told = [(type(event).__name__, event.at) for event in events]
    middle = ("RunCanceling", 4.0) if dropped else ("RunStarted", run.started_at)
    assert run.ended is not None
    ended = ("RunEnded", run.ended.ended_at)
    assert [it for it in told if it[0] not in ("RunAccepted", "RunQueued")] == (
        [middle, ended] if watched else []
    )


@pytest.mark.contract("S7")
def test_a_timer_that_is_set_for_a_run_that_has_ended_is_not_kept() -> None:
    """Another thread has ended it since somebody looked."""
    acting = Acting(abandon_s=30)
    run = acting.begin_one()
    acting.finish(run, How.RETURNED)
    acting.set_timer(run, 9.0, print)
    assert [alarm.canceled for alarm in acting.alarms] == [True]
    assert acting.timers == {}


NOTICED: dict[str, Callable[[Acting, Mailbox[str]], object]] = {
    "when its reader has caught up": lambda acting, box: acting.hear(box),
    "when all is over": lambda acting, _: acting.over(int),
}


@pytest.mark.contract("T3")
@pytest.mark.parametrize("notice", NOTICED.values(), ids=NOTICED)
def test_a_gap_says_when_it_was_noticed(
    notice: Callable[[Acting, Mailbox[str]], object],
) -> None:
    acting = Acting(abandon_s=30)
    box: Mailbox[str] = Mailbox("", "", 1, lambda: None)
    acting.watch(box)
    acting.begin_one()
    assert isinstance(box.take(), RunAccepted)
    assert box.take() is None, "that it started did not fit in"
    notice(acting, box)
    gap = box.take()
    assert isinstance(gap, Gap)
    assert (gap.missed, gap.at) == (1, acting.clock)


@pytest.mark.contract("S7")
def test_a_timer_for_a_run_that_has_ended_meanwhile_is_not_kept() -> None:
    acting = Acting(abandon_s=30)
    run = acting.begin_one()
    acting.cancel_run(run)
    acting.meanwhile = lambda: acting.finish(run, How.STOPPED)
    acting.alarms[0].call()
    assert run.ended is not None
    assert [alarm.canceled for alarm in acting.alarms] == [True, True]
    assert acting.timers == {}


@pytest.mark.contract("S7")
def test_a_deadline_of_a_run_that_has_ended_meanwhile_is_not_kept() -> None:
    acting = Acting(abandon_s=30)
    run = Carried("chat", "a")
    run.own.terms = Terms(deadline_s=5)
    acting.meanwhile = lambda: acting.table.finish(run, How.RETURNED, 1.0)
    acting.accept(run, ready=True)
    assert run.ended is not None
    assert [alarm.canceled for alarm in acting.alarms] == [True]
    assert acting.timers == {}


@pytest.mark.contract("T1", "X8")
@pytest.mark.parametrize("in_time", [False, True])
def test_a_handler_that_stops_in_the_last_moment_was_not_abandoned(*, in_time: bool) -> None:
    acting = Acting(abandon_s=3)
    run = acting.begin_one()
    acting.cancel_run(run)
    if in_time:
        run.told_so = lambda: acting.finish(run, How.STOPPED)
    acting.alarms[0].call()
    assert run.ended is not None
    assert run.ended.abandoned is run.abandoned is not in_time


@pytest.mark.contract("X8")
def test_a_handler_that_is_on_its_way_to_a_thread_is_not_abandoned_before_it_has_begun() -> None:
    acting = Acting(abandon_s=3)
    run = acting.begin_one()
    run.begun = False
    acting.cancel_run(run)
    for number in (0, 1):
        acting.alarms[number].call()
        assert (run.ended, run.abandoned) == (None, False)
        assert acting.alarms[number + 1].when == acting.clock + acting.options.grace_s
    run.begun = True
    acting.alarms[2].call()
    assert run.ended is not None
    assert run.ended.abandoned is run.abandoned is True


class Recording(Acting):
    """Its hooks are played by the test."""

    def __init__(self) -> None:
        super().__init__(abandon_s=30)
        self.options = evolve(self.options, on_dropped=print)
        self.calls: list[tuple[object, ...]] = []

    def call_hook(  # type: ignore[override]
        self, hook: object, run: object, limit_s: float | None, report: Report, after: object = None
    ) -> None:
        self.calls.append((hook, run, limit_s, after))
        self.report = report


NO_THREADS = OSError("no more threads")


@pytest.mark.contract("S7")
def test_a_run_that_is_dropped_has_no_timer_while_that_is_recorded() -> None:
    recording = Recording()
    recording.begin_one()
    run = Carried("chat", "b")
    run.own.terms = Terms(wait_s=5)
    recording.accept(run, ready=True)
    recording.cancel_run(run)
    assert run.state is RunState.ENDING
    assert [alarm.canceled for alarm in recording.alarms] == [True]


@pytest.mark.contract("P1")
def test_a_ticket_that_is_dropped_has_no_hook_to_be_waited_for() -> None:
    recording = Recording()
    recording.options = evolve(recording.options, prepare_s=5)
    run = Carried("chat", "a")
    run.own.terms = Terms(ticket=True)
    recording.accept(run, ready=False)
    recording.cancel_run(run)
    assert [alarm.canceled for alarm in recording.alarms] == [True]
    assert recording.calls == [(print, run, 1, None)]


# --- observers ---


@pytest.mark.contract("T6")
def test_of_a_named_run_that_was_dropped_unwatched_its_end_is_told_to_who_asks_later() -> None:
    acting = Acting(abandon_s=30)
    acting.begin_one()
    run = Carried("chat", "b", "mine")
    acting.accept(run, ready=True)
    acting.cancel_run(run)
    assert run.seen is Effect.END
    box: Mailbox[str] = Mailbox("", "mine", 9, lambda: None)
    acting.watch(box)
    assert [type(it).__name__ for it in iter(box.take, None)] == ["RunEnded"]


@pytest.mark.contract("T6")
def test_who_watches_is_told_that_a_run_is_being_canceled_as_of_now() -> None:
    acting = Acting(abandon_s=30)
    acting.cancel_run(acting.begin_one())
    box: Mailbox[str] = Mailbox("", "", 9, lambda: None)
    acting.watch(box)
    events = [box.take(), box.take()]
    assert [type(it).__name__ for it in events] == ["RunStarted", "RunCanceling"]
    assert events[1] is not None
    assert events[1].at == acting.clock


def test_when_nobody_watches_any_longer_the_outbox_is_quiet_again() -> None:
    acting = Acting(abandon_s=30)
    box: Mailbox[str] = Mailbox("", "", 9, lambda: None)
    acting.watch(box)
    assert acting.table.outbox.loud
    acting.hub.leave(box)
    assert not acting.table.outbox.loud


@pytest.mark.parametrize(("limits", "counts"), [(Limits(), False), (Limits(max_active=1), True)])
def test_where_slots_are_limited_it_counts_who_carries_a_run(
    limits: Limits, *, counts: bool
) -> None:
    assert Plain(limits).waits.counts is counts


@pytest.mark.contract("P1", "T1")
def test_why_a_handler_never_took_a_step_is_the_error_of_its_run() -> None:
    acting = Acting(abandon_s=30)
    run = acting.begin_one()
    acting.skipped(run, NO_THREADS)
    assert run.ended is not None
    assert (run.ended.error, run.ended.started) == (NO_THREADS, False)


@pytest.mark.contract("P1", "T1")
@pytest.mark.parametrize("why", [NO_THREADS, None])
@pytest.mark.parametrize("failure", [OSError("disk full"), None])
def test_that_it_never_took_a_step_is_recorded_before_its_end_and_why_is_not_lost(
    why: OSError | None, failure: OSError | None
) -> None:
    recording = Recording()
    run = recording.begin_one()
    recording.skipped(run, why)
    assert run.ended is None
    assert recording.calls == [(print, run, recording.options.settle_s, None)]
    recording.report(failure, False)
    assert run.ended is not None
    assert (run.ended.error, run.ended.started) == (why or failure, False)


# --- after a fork; tests of the pitfalls have a real one ---


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Plain:
    """A driver as it is in a child process: what a fork does there is done to it alone."""
    plain = Plain()
    plain.take("a")
    monkeypatch.setattr(driver, "_drivers", [plain])
    driver._refuse_in_the_child()
    return plain


@pytest.mark.contract("A4")
def test_after_a_fork_the_copy_takes_no_prompts(copied: Plain) -> None:
    with pytest.raises(SchedulerClosed, match="copy made by a fork") as refused:
        copied.accept(Run("chat", "b"), ready=True)
    assert refused.value.session_id == "chat"


def test_after_a_fork_no_other_call_on_the_copy_waits_for_a_lock(copied: Plain) -> None:
    run = Run("chat", "b")
    calls: list[Callable[[], object]] = [
        lambda: copied.ready(run),
        lambda: copied.withdraw(run),
        lambda: copied.cancel_run(run),
        lambda: copied.promote(run),
        lambda: copied.take_follow_ups(run),
        copied.obey,
    ]
    for call in calls:
        with pytest.raises(SchedulerClosed, match="copy made by a fork"):
            call()


def test_after_a_fork_whoever_leaves_a_subscription_does_not_wait_for_a_lock() -> None:
    plain, box = Plain(), Mailbox[str]("", "", 1, lambda: None)
    plain.hub.expect(box)
    assert plain.hub._lock.acquire(timeout=1), "as a thread that the child does not have"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_drivers", [plain])
        driver._refuse_in_the_child()
    plain.hub.leave(box)
    assert box.closed


def test_after_a_fork_no_progress_of_a_copied_run_is_shown(copied: Plain) -> None:
    with pytest.raises(SchedulerClosed, match="copy made by a fork") as refused:
        copied.emit(Run("chat", "b", "mine"), "half")
    assert (refused.value.session_id, refused.value.run_id) == ("chat", "mine")


def test_a_driver_that_nobody_had_used_is_as_good_in_the_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = Plain()
    plain.in_use = False
    monkeypatch.setattr(driver, "_drivers", [plain])
    driver._refuse_in_the_child()
    assert plain.take("a").state is RunState.ACTIVE


async def echo(run: Run[str]) -> str:
    return run.prompt


def test_a_scheduler_is_refused_in_the_child_if_it_had_a_loop_before_the_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def before() -> None:
        async with used:
            await used.submit("chat", "a")

    async def after() -> None:
        with pytest.raises(SchedulerClosed, match="copy made by a fork"):
            await used.__aenter__()
        await used.__aexit__(None, None, None)  # there is nothing to close, and nobody hangs
        async with unused:
            assert await unused.submit("chat", "b") == "b"

    used, unused = Scheduler(echo), Scheduler(echo)
    asyncio.run(before())
    monkeypatch.setattr(driver, "_drivers", [used._driver, unused._driver])
    driver._refuse_in_the_child()
    asyncio.run(after())


def test_every_driver_that_is_alive_is_refused_in_the_child_and_no_other() -> None:
    plain, lost = Plain(), Plain()
    assert {plain, lost} <= set(driver._drivers)
    count = len(driver._drivers)
    del lost
    gc.collect()
    assert plain in driver._drivers
    assert len(driver._drivers) < count
