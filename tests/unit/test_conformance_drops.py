"""Chapter P of the contract for both schedulers: what never ran is recorded."""

from __future__ import annotations

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import Limits, RunEnded, RunState, WhenBusy

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


@pytest.mark.contract("P1", "T2")
def test_a_drop_is_recorded_before_its_end_and_before_any_later_run_starts(world: World) -> None:
    scheduler = world.open(recorded=True)
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    world.hold("drop b")
    second.cancel()
    later = scheduler.submit("chat", "c")
    world.wait_log("drop b")
    world.finish("a", "c")
    assert world.ends(first) == [COMPLETED]
    assert (second.state, later.state) == (RunState.ENDING, RunState.QUEUED)
    assert world.events.of(RunEnded, "b") == []
    world.finish("drop b")
    assert world.ends(second, later) == [CANCELED, COMPLETED]
    assert world.log == [*("start a", "drop b", "over a", "drop b over", "start c", "over c")]


@pytest.mark.contract("P1")
def test_what_ran_is_not_dropped_however_it_ended(world: World) -> None:
    scheduler = world.open(recorded=True)
    for prompt, end in (("a", world.finish), ("b", lambda _: scheduler.cancel("chat"))):
        handle = world.active("chat", prompt)
        end(prompt)
        world.outcome(handle)
    world.fail("c", ValueError("broken"))
    world.outcome(scheduler.submit("chat", "c"))
    assert not any(entry.startswith("drop") for entry in world.log)


@pytest.mark.contract("P1", "X1")
def test_race_22_no_cancel_reaches_the_record_of_a_dropped_run(world: World) -> None:
    scheduler = world.open(recorded=True)
    world.hold("drop a")
    with scheduler.accept("chat", "a") as ticket:
        scheduler.cancel("chat")
        world.wait_log("drop a")
        scheduler.cancel("chat")
        scheduler.cancel_all()
        assert not ticket.handle.cancel()
        closing = world.begin_close()
        world.finish("drop a")
        assert world.ends(ticket.handle) == [CANCELED]
    assert closing.result(STUCK_S).suspended == ()
    assert world.log == ["drop a", "drop a over"]


@pytest.mark.contract("P1")
def test_runs_that_are_dropped_together_are_recorded_at_the_same_time(world: World) -> None:
    scheduler = world.open(recorded=True)
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bcd")]
    world.hold("drop b", "drop c", "drop d")
    scheduler.cancel("chat")
    world.wait_log("drop b", "drop c", "drop d")
    world.finish("drop d", "drop c", "drop b")
    assert world.ends(*handles) == [CANCELED] * 4


@pytest.mark.contract("P2", "D4")
@pytest.mark.parametrize("late", [False, True])
def test_race_16_a_drop_that_can_not_be_recorded_ends_and_the_line_moves(
    world: World, *, late: bool
) -> None:
    scheduler = world.open(recorded=True, settle_timeout=0.01 if late else 60.0)
    first = world.active("chat", "a")
    dropped = [scheduler.submit("chat", it) for it in "bc"]
    world.hold("drop b")
    scheduler.cancel("chat")
    later = scheduler.submit("chat", "d")
    error = ValueError("disk full")
    if not late:
        world.fail("drop b", error)
    world.finish("d")
    assert world.ends(first, *dropped, later) == [CANCELED] * 3 + [COMPLETED]
    outcome = world.outcome(dropped[0])
    assert isinstance(outcome.error, TimeoutError) if late else outcome.error is error
    assert world.outcome(dropped[1]).error is None or late
    assert not outcome.started


@pytest.mark.contract("P1", "X7")
def test_race_10_a_cancel_out_of_on_dropped_covers_what_was_to_start_after_it(
    world: World,
) -> None:
    scheduler = world.open(recorded=True)
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bc")]
    world.at_first["drop b"] = lambda _: scheduler.cancel("chat", up_to=handles[2].seq)
    handles[1].cancel()
    assert world.ends(*handles) == [CANCELED] * 3
    assert world.started == ["a"]


@pytest.mark.contract("P1", "X1")
def test_race_10_who_hears_of_the_end_of_a_run_can_cancel_the_next_one(world: World) -> None:
    scheduler = world.open(recorded=True)
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")

    def cancel_after_the_end() -> None:
        world.outcome(first)
        assert scheduler.cancel("chat").covered == (second.run,)

    canceling = world.aside(cancel_after_the_end)
    world.finish("a")
    canceling.result(STUCK_S)
    assert world.ends(first, second) == [COMPLETED, CANCELED]


@pytest.mark.contract("P1", "X1", "X7")
@pytest.mark.parametrize("when_busy", [WhenBusy.QUEUE, WhenBusy.INTERRUPT, WhenBusy.LATEST])
@pytest.mark.parametrize("prepared", [False, True])
def test_race_39_whenever_a_run_is_stopped_its_handler_or_on_dropped_has_seen_its_prompt(
    world: World, when_busy: WhenBusy, *, prepared: bool
) -> None:
    scheduler = world.open(recorded=True, prepared=prepared, limits=Limits(max_active=2))
    prompts = [f"p{n}" for n in range(90)]
    world.finish(*prompts)

    def send(part: int) -> list[object]:
        handles = []
        for n in range(part, len(prompts), 3):
            handles.append(scheduler.submit(f"chat {n % 4}", prompts[n], when_busy=when_busy))
            if n % 3 != part % 2:
                scheduler.cancel(f"chat {n % 4}")
        return handles

    senders = [world.aside(send, it) for it in range(3)]
    handles = [handle for sender in senders for handle in sender.result(STUCK_S)]
    assert {status for status, _ in world.ends(*handles)} <= {"completed", "canceled"}
    seen = [it.split()[1] for it in world.log if it.startswith("start") or it.endswith("over")]
    assert {*prompts} <= {*seen}  # and each by one of them only: the world looks


@pytest.mark.contract("P1", "T2")
def test_race_39_a_run_without_a_first_step_is_recorded_before_its_end(world: World) -> None:
    scheduler = world.open(recorded=True)
    for n in range(30):
        handle = scheduler.submit("chat", f"p{n}")
        handle.cancel()
        outcome = world.outcome(handle)
        entry = f"start p{n}" if outcome.started else f"drop p{n} over"
        assert entry in world.log
