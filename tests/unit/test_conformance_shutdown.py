"""Chapter S of the contract for both schedulers: closing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import (
    Cause,
    InvalidOption,
    LineFull,
    RunEnded,
    RunSuspended,
    SchedulerClosed,
    WouldDeadlock,
)

if TYPE_CHECKING:
    from sessionsched.face import Face

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")
SUSPENDED = ("suspended", "shutdown")


@pytest.mark.contract("S1", "S2", "S5")
def test_closing_refuses_first_then_drains_then_announces_and_then_returns(world: World) -> None:
    scheduler = world.open(recorded=True)
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    closing = world.begin_close(drain=600.0)
    assert world.ends(second) == [SUSPENDED]
    with pytest.raises(SchedulerClosed):
        scheduler.submit("other", "x")
    assert scheduler.snapshot().closed
    assert not closing.done()
    assert first.state == "active"
    assert not first.run.canceled
    world.finish("a")
    report = closing.result(STUCK_S)
    assert report.suspended == (second.run,)
    assert world.ends(first) == [COMPLETED]
    world.events.over.result(STUCK_S)
    assert {event.run.prompt for event in world.events.of(RunEnded)} == {"a", "b"}
    assert "start b" not in world.log


@pytest.mark.contract("S1", "S3")
@pytest.mark.parametrize("drain", [0.0, 0.01])
def test_race_19_what_is_active_when_the_drain_is_over_is_suspended_and_waited_for(
    world: World, drain: float
) -> None:
    world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    closing = world.begin_close(drain)
    world.wait_log("stop a")
    assert not closing.done()
    world.fail("a", ValueError("torn away"))  # race 20: that is no failure
    assert closing.result(STUCK_S).suspended == (handle.run,)
    assert world.ends(handle) == [SUSPENDED]
    with pytest.raises(RunSuspended):
        world.value(handle)


@pytest.mark.contract("S3")
def test_race_20_a_handler_that_raises_because_of_the_shutdown_has_not_failed(world: World) -> None:
    world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    closing = world.begin_close()
    world.wait_log("stop a")
    error = OSError("connection lost")
    world.fail("a", error)
    assert closing.result(STUCK_S).suspended == (handle.run,)
    assert world.ends(handle) == [SUSPENDED]
    assert world.outcome(handle).error is error


@pytest.mark.contract("S3")
def test_race_21_a_run_that_returns_all_the_same_is_completed(world: World) -> None:
    world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    closing = world.begin_close()
    world.wait_log("stop a")
    world.finish("a")
    assert closing.result(STUCK_S).suspended == ()
    assert world.value(handle) == "a done"


@pytest.mark.contract("S3", "S5")
def test_race_21_a_run_that_returns_in_the_moment_of_the_close_is_completed_or_reported(
    world: World,
) -> None:
    world.open()
    handle = world.active("chat", "a")
    closing = world.begin_close()
    world.finish("a")
    ends = world.ends(handle)
    assert closing.result(STUCK_S).suspended == (() if ends == [COMPLETED] else (handle.run,))
    assert ends[0] in (COMPLETED, SUSPENDED)


@pytest.mark.contract("S3", "X12")
@pytest.mark.parametrize("when", ["before", "after"])
def test_race_19_a_person_who_cancels_around_the_shutdown_is_heard(world: World, when: str) -> None:
    scheduler = world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    if when == "before":
        scheduler.cancel("chat")
    closing = world.begin_close()
    if when == "after":
        world.wait_log("stop a")
        assert handle.run.cause is Cause.SHUTDOWN
        assert scheduler.cancel("chat").active is handle.run
    world.finish("a")
    assert closing.result(STUCK_S).suspended == ()
    assert world.ends(handle) == [CANCELED]


@pytest.mark.contract("S2", "S4", "S1")
def test_race_33_whatever_is_in_flight_when_the_close_comes_has_an_end_and_is_reported(
    world: World,
) -> None:
    scheduler = world.open(recorded=True, prepared=True)
    world.hold("prepare d")
    first = world.active("one", "a")
    handles = [first, world.active("two", "b")]
    handles += [scheduler.submit("one", prompt) for prompt in "cd"]
    ticket = scheduler.accept("two", "e")
    handles += [ticket.handle, scheduler.submit("three", "f")]
    world.wait_log("start f", "prepare c over", "prepare d")
    host = world.turn("one", "g")
    world.finish("prepare d")
    report = world.close()
    assert world.ends(*handles) == [SUSPENDED] * 6
    assert isinstance(host.error(), RunSuspended)
    assert [(run.prompt, run.seq) for run in report.suspended] == [
        *(("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6), ("g", 7))
    ]
    assert sorted(world.started) == [*"abf"]
    assert {entry for entry in world.log if entry.startswith("drop")} == {
        f"drop {prompt}{over}" for prompt in "cdeg" for over in ("", " over")
    }


@pytest.mark.contract("S5", "R4")
def test_race_25_what_threads_submit_around_the_close_is_refused_or_ends(world: World) -> None:
    scheduler = world.open(recorded=True)

    def send_until_closed(name: str) -> list[Any]:
        handles: list[Any] = []
        while True:
            try:
                n = len(handles)
                handles.append(scheduler.submit(f"{name}{n % 5}", f"{name}{n}"))
            except LineFull:
                continue
            except SchedulerClosed:
                return handles

    senders = [world.aside(send_until_closed, it) for it in "abc"]
    world.wait_until(lambda: len(world.started) >= 5)
    report = world.close()
    handles = [handle for sender in senders for handle in sender.result(STUCK_S)]
    assert world.ends(*handles) == [SUSPENDED] * len(handles)
    assert set(report.suspended) == {handle.run for handle in handles}
    seqs = [run.seq for run in report.suspended]
    assert seqs == sorted(seqs)


@pytest.mark.contract("S6", "R4")
def test_race_25_closing_from_many_places_at_once_is_one_close(world: World) -> None:
    world.open()
    world.stubborn.add("a")
    handle = world.active("chat", "a")
    closings = [world.begin_close(drain) for drain in (600.0, 0.0, 300.0)]
    world.wait_log("stop a")  # the most impatient one counts
    assert not any(closing.done() for closing in closings)
    world.fail("a", ValueError("torn away"))
    reports = [closing.result(STUCK_S) for closing in [*closings, world.begin_close()]]
    assert all(report is reports[0] for report in reports)
    assert reports[0].suspended == (handle.run,)


@pytest.mark.contract("S7")
@pytest.mark.parametrize("prepared", [False, True])
def test_after_the_close_nothing_is_left(world: World, *, prepared: bool) -> None:
    scheduler = world.open(recorded=True, prepared=prepared, settle_timeout=600.0)
    world.finish(*"efgh")
    handles = [world.active("one", "a"), world.active("two", "b")]
    handles += [scheduler.submit("one", it, deadline=600.0, wait_at_most=600.0) for it in "cd"]
    handles += [scheduler.submit(f"session {it}", it, deadline=600.0) for it in "efgh"]
    world.ends(*handles[4:])
    handles[1].cancel()
    world.close()
    world.check_nothing_left()
    assert scheduler.snapshot().sessions == ()
    assert world.ends(*handles)[:4] == [SUSPENDED, CANCELED, SUSPENDED, SUSPENDED]


@pytest.mark.contract("S8")
@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_a_block_closes_its_scheduler_however_it_ends(
    world: World, error: Exception | None
) -> None:
    schedulers: list[Face[str, Any, Any]] = []
    handles: list[Any] = []

    def body(scheduler: Face[str, Any, Any]) -> None:
        schedulers.append(scheduler)
        handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
        if error is not None:
            raise error

    assert world.block(body) is error
    outcomes = [handle.run.ended for handle in handles]
    assert [it.cause for it in outcomes] == [Cause.SHUTDOWN] * 2
    with pytest.raises(SchedulerClosed):
        schedulers[0].submit("chat", "c")
    world.check_nothing_left()


@pytest.mark.contract("S1")
@pytest.mark.parametrize("drain", [-1.0, float("nan"), "long"])
def test_a_close_that_can_not_be_is_refused_and_changes_nothing(world: World, drain: Any) -> None:
    world.open()
    with pytest.raises(InvalidOption):
        world.begin_close(drain).result(STUCK_S)
    world.finish("a")
    assert world.value(world.scheduler.submit("chat", "a")) == "a done"


@pytest.mark.contract("S1")
def test_a_run_that_closes_its_own_scheduler_is_told_that_it_would_wait_for_itself(
    world: World,
) -> None:
    scheduler = world.open()
    world.at_first["a"] = lambda _: scheduler.close()  # type: ignore[attr-defined]
    world.finish("b")
    handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
    with pytest.raises(WouldDeadlock):
        world.value(handles[0])
    assert world.ends(handles[1]) == [COMPLETED]
