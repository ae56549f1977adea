"""Chapter T of the contract for both schedulers: ends, and what observers see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, World, both_worlds

from sessionsched import Gap, RunEnded, RunFolded, RunProgress, RunStarted, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


@pytest.mark.contract("T1", "X7")
@pytest.mark.parametrize("recorded", [False, True])
def test_race_06_whoever_waits_for_a_queued_prompt_hears_that_it_was_dropped(
    world: World, *, recorded: bool
) -> None:
    scheduler = world.open(recorded=recorded)
    first = world.active("chat", "a")
    queued = [scheduler.submit("chat", prompt) for prompt in "bcd"]
    waiters = [world.aside(world.outcome, it) for it in queued for _ in range(3)]
    scheduler.cancel("chat")
    assert {waiter.result(STUCK_S).status.value for waiter in waiters} == {"canceled"}
    assert world.ends(first) == [CANCELED]


@pytest.mark.contract("T1")
def test_race_07_a_prompt_that_is_covered_before_it_starts_is_announced_once(
    world: World,
) -> None:
    scheduler = world.open()
    first, second = world.active("chat", "a"), scheduler.submit("chat", "b")
    second.cancel()
    assert world.ends(second) == [CANCELED]
    world.finish("a")
    assert world.ends(first) == [COMPLETED]
    world.close()
    assert world.events.lines("b") == [
        *("RunAccepted b", "RunQueued b", "RunCanceling b", "RunEnded b")
    ]


WAYS_TO_END: dict[str, Callable[[World], object]] = {
    "returns": lambda world: world.finish("a"),
    "fails": lambda world: world.fail("a", ValueError("broken")),
    "is canceled": lambda world: world.scheduler.cancel("chat"),
    "is suspended": lambda world: world.begin_close(),
}


@pytest.mark.contract("T1")
@pytest.mark.parametrize("way", WAYS_TO_END)
def test_a_run_ends_once_and_its_handle_and_its_event_agree(world: World, way: str) -> None:
    world.open()
    handle = world.active("chat", "a")
    WAYS_TO_END[way](world)
    outcome = world.outcome(handle)
    assert world.outcome(handle) == outcome
    world.close()
    (event,) = world.events.of(RunEnded, "a")
    assert event.outcome == outcome == handle.run.ended
    assert outcome.accepted_at <= (outcome.started_at or 0.0) <= outcome.ended_at
    assert not handle.cancel()
    assert world.outcome(handle) == outcome


@pytest.mark.contract("T2", "D4")
def test_race_15_the_end_of_a_run_is_announced_before_the_next_one_starts(world: World) -> None:
    scheduler = world.open()
    prompts = [f"p{n}" for n in range(20)]
    world.finish(*prompts)
    handles = [scheduler.submit("chat", prompt) for prompt in prompts]
    assert world.ends(*handles) == [COMPLETED] * 20
    world.close()
    kinds = ("RunStarted", "RunEnded")
    assert [it for it in world.events.lines() if it.split()[0] in kinds] == [
        f"{kind} {prompt}" for prompt in prompts for kind in kinds
    ]


@pytest.mark.contract("T1", "X6")
def test_race_18_every_error_is_reported_under_the_run_that_it_belongs_to(world: World) -> None:
    scheduler = world.open()
    handles = [world.active("chat", "a"), *(scheduler.submit("chat", it) for it in "bcd")]
    world.finish("a", "c")
    errors = {prompt: ValueError(prompt) for prompt in "bd"}
    for prompt, error in errors.items():
        world.fail(prompt, error)
    found = [world.outcome(handle).error for handle in handles]
    assert found == [None, errors["b"], None, errors["d"]]
    with pytest.raises(ValueError, match="b") as caught:
        world.value(handles[1])
    assert caught.value is errors["b"]


@pytest.mark.contract("T3")
@pytest.mark.parametrize("buffer", [1, 3])
def test_race_31_a_watcher_that_is_full_still_gets_every_end_and_is_told_what_it_missed(
    world: World, buffer: int
) -> None:
    scheduler = world.open()
    slow = world.watch(buffer=buffer, reading=False)
    prompts = [f"p{n}" for n in range(20)]
    world.finish(*prompts)
    assert world.ends(*(scheduler.submit("chat", it) for it in prompts)) == [COMPLETED] * 20
    slow.may_read.set_result(None)
    world.close()
    slow.over.result(STUCK_S)
    assert [event.run.prompt for event in slow.of(RunEnded)] == prompts
    missed = sum(gap.missed for gap in slow.of(Gap))
    assert missed > 0
    assert missed + len(slow.events) - len(slow.of(Gap)) == len(world.events.events)
    numbers = [event.number for event in slow.events]
    assert numbers == sorted(numbers)


@pytest.mark.contract("T4", "T5")
def test_race_32_watchers_that_do_not_read_hold_nobody_up(world: World) -> None:
    scheduler = world.open()
    asleep = [world.watch(buffer=1, reading=False) for _ in range(5)]
    world.finish("a", "b")
    handles = [scheduler.submit("chat", "a"), scheduler.submit("other", "b")]
    assert world.ends(*handles) == [COMPLETED] * 2
    world.close()
    for watcher in asleep:
        watcher.may_read.set_result(None)
        watcher.over.result(STUCK_S)
        assert len(watcher.of(RunEnded)) == 2


@pytest.mark.contract("T5")
def test_race_32_a_watcher_that_fails_does_so_alone(world: World) -> None:
    scheduler = world.open()
    broken = world.watch()
    broken.add = lambda _: 1 // 0  # type: ignore[method-assign, assignment]
    world.finish("a", "b")
    handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
    assert world.ends(*handles) == [COMPLETED] * 2
    assert isinstance(broken.over.exception(STUCK_S), ZeroDivisionError)
    world.close()
    assert [event.run.prompt for event in world.events.of(RunEnded)] == ["a", "b"]


@pytest.mark.contract("T6", "R4")
def test_every_watcher_sees_the_same_in_the_same_order_with_rising_numbers(world: World) -> None:
    scheduler = world.open()
    watchers = [world.watch(), world.watch(session_id="session 1")]
    prompts = [f"p{n}" for n in range(30)]
    world.finish(*prompts)

    def send(part: int) -> None:
        for n in range(part, 30, 3):
            handle = scheduler.submit(f"session {n % 2}", prompts[n])
            if n % 5 == 0:
                handle.cancel()

    for sender in [world.aside(send, it) for it in range(3)]:
        sender.result(STUCK_S)
    world.close(drain=STUCK_S)
    seen = [event.number for event in world.events.events]
    assert seen == sorted(set(seen))
    for watcher in watchers:
        watcher.over.result(STUCK_S)
    assert watchers[0].events == world.events.events
    only = [event for event in world.events.events if event.session_id == "session 1"]
    assert watchers[1].events == only


@pytest.mark.contract("T6")
def test_the_whole_life_of_a_run_is_seen_in_order(world: World) -> None:
    scheduler = world.open()
    world.active("chat", "a")
    scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
    world.runs["a"].emit("one")
    world.events.wait_for(RunProgress, "a")
    world.runs["a"].take_follow_ups()
    world.events.wait_for(RunFolded, "b")
    world.runs["a"].emit("two")
    world.events.wait_for(RunProgress, "a", 2)
    scheduler.cancel("chat")
    world.events.wait_for(RunEnded, "b")
    assert world.events.lines() == [
        *("RunAccepted a", "RunStarted a", "RunAccepted b", "RunQueued b"),
        *("RunProgress a", "RunFolded b", "RunProgress a", "RunCanceling a"),
        *("RunEnded a", "RunEnded b"),
    ]
    assert [event.item for event in world.events.of(RunProgress)] == ["one", "two"]


@pytest.mark.contract("T6")
def test_race_29_no_output_comes_before_its_run_is_known_to_have_started(world: World) -> None:
    scheduler = world.open()
    prompts = [f"p{n}" for n in range(20)]
    for prompt in prompts:
        world.at_first[prompt] = lambda run: run.emit("the very first")
    world.finish(*prompts)
    handles = [scheduler.submit(f"session {n % 4}", it) for n, it in enumerate(prompts)]
    assert world.ends(*handles) == [COMPLETED] * 20
    world.close()
    for prompt in prompts:
        kinds = [type(it) for it in world.events.of(object, prompt)]
        assert kinds[-3:] == [RunStarted, RunProgress, RunEnded]


@pytest.mark.contract("T1", "T6")
@pytest.mark.parametrize("how", ["session_id", "run_id", "everything"])
def test_race_30_who_subscribes_at_any_moment_misses_no_end(world: World, how: str) -> None:
    scheduler = world.open()
    options: dict[str, dict[str, Any]] = {
        "session_id": {"session_id": "chat"},
        "run_id": {"run_id": "mine"},
        "everything": {},
    }
    handle = scheduler.submit("chat", "a", run_id="mine")
    early = world.watch(**options[how])
    world.wait_log("start a")
    late = world.watch(**options[how])
    world.finish("a")
    for watcher in (early, late):
        assert watcher.wait_for(RunEnded, "a").outcome == handle.run.ended
    assert late.lines() == ["RunStarted a", "RunEnded a"]
    if how == "run_id":
        for watcher in (early, late, world.watch(run_id="mine")):
            watcher.over.result(STUCK_S)  # there is nothing more to come
            assert watcher.lines()[-1] == "RunEnded a"


@pytest.mark.contract("T6", "D1")
def test_race_36_output_that_comes_after_the_end_of_its_run_goes_nowhere(world: World) -> None:
    scheduler = world.open()
    world.finish("a")
    first = scheduler.submit("chat", "a")
    assert world.ends(first) == [COMPLETED]
    second = world.active("chat", "b")
    assert not first.run.emit("late")
    assert second.run.emit("in time")
    assert second.seq > first.seq  # the fencing token
    world.finish("b")
    assert world.ends(second) == [COMPLETED]
    world.close()
    assert [event.item for event in world.events.of(RunProgress)] == ["in time"]


@pytest.mark.contract("T6", "T1", "R4")
def test_race_36_what_another_thread_shows_is_shown_before_the_end_or_not_at_all(
    world: World,
) -> None:
    scheduler = world.open()

    def chatter(run: Any) -> int:
        shown = 0
        while run.emit(shown):
            shown += 1
        return shown

    for n in range(10):
        prompt = f"p{n}"
        handle = world.active("chat", prompt)
        chatting = world.aside(chatter, handle.run)
        world.events.wait_for(RunProgress, prompt)
        scheduler.cancel("chat") if n % 2 else world.finish(prompt)
        world.outcome(handle)
        chatting.result(STUCK_S)
    world.close()  # the world looks whether anything came after an end
    assert len(world.events.of(RunEnded)) == 10
