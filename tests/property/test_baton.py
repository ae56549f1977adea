"""The baton: it finds races that are known to be there, none that isn't, and can do it again."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import baton_races as races
import pytest
from baton_races import Account, Bell, Pair, Post, Seat

from sessionsched.testing.baton import Explored, Stuck, explore, repeat

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.baton import Baton, Story
    from sessionsched.testing.relay import Bodies

FILES = ["baton_races.py"]


def nobody_is_left(before: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - before:  # it may be on its way out
        thread.join(60)
        assert not thread.is_alive()


def story(
    make: Callable[[], Any], bodies: Callable[[Any], Bodies], right: Callable[[Any], bool]
) -> Story:
    def told(baton: Baton) -> Any:
        with baton.stands_in([races]):
            thing = make()
            yield bodies(thing)
            assert right(thing), "it went wrong"

    return told


def paying(*, locked: bool) -> Story:
    return story(
        lambda: Account(locked=locked), lambda it: [it.pay] * 2, lambda it: it.balance == 2
    )


def sitting(*, right: bool) -> Story:
    return story(lambda: Seat(right=right), lambda it: [it.take] * 2, lambda it: it.taken == 1)


def ringing(*, right: bool) -> Story:
    return story(lambda: Bell(right=right), lambda it: [it.wait, it.ring], lambda it: it.rung)


def crossing(*, ordered: bool) -> Story:
    return story(lambda: Pair(ordered=ordered), lambda it: [it.there, it.back], lambda _: True)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (paying(locked=False), "went wrong"),
        (sitting(right=False), "went wrong"),
        (ringing(right=False), "waiting for ever: thread 1 at .*baton_races.py"),
        (crossing(ordered=False), "waiting for ever: thread 1 .*, thread 2"),
    ],
    ids=["a lost update", "check, then act", "a lost wake-up", "a deadlock"],
)
def test_a_race_is_found_in_few_schedules_and_can_be_repeated(wrong: Story, error: str) -> None:
    found = explore(wrong, limit=100, files=FILES)
    assert found.failed is not None
    assert found.schedules < 20
    for _ in range(3):
        with pytest.raises(AssertionError, match=error):
            repeat(wrong, found.failed, files=FILES)
    repeat(wrong, (), files=FILES)  # left alone it goes well


@pytest.mark.parametrize(
    "right",
    [paying(locked=True), sitting(right=True), ringing(right=True), crossing(ordered=True)],
    ids=["paying", "sitting", "ringing", "crossing"],
)
@pytest.mark.parametrize("under_locks", [False, True])
def test_nothing_is_found_where_there_is_no_race(right: Story, under_locks: bool) -> None:  # noqa: FBT001
    found = explore(right, 3, files=FILES, under_locks=under_locks)
    assert (found.failed, found.error, found.complete) == (None, None, True)
    assert found.schedules > 20


def test_a_lock_that_is_held_needs_no_lines_of_files_to_be_found() -> None:
    assert explore(crossing(ordered=False), 1).failed is not None
    assert explore(paying(locked=False), 3).complete  # no lock, no line: no point


def orders_of_three(deviations: int) -> tuple[Explored, set[str]]:
    seen: set[str] = set()

    def told(baton: Baton) -> Any:
        order: list[str] = []

        def body(name: str) -> Callable[[], None]:
            def run() -> None:
                baton.point()
                order.append(name)

            return run

        yield [body("a"), body("b"), body("c")]
        seen.add("".join(order))

    return explore(told, deviations), seen


def test_every_order_of_three_threads_is_tried_with_three_deviations() -> None:
    found, seen = orders_of_three(0)
    assert (found.schedules, seen) == (1, {"abc"})
    found, seen = orders_of_three(3)
    assert seen == {"abc", "acb", "bac", "bca", "cab", "cba"}
    assert found.complete
    assert found.points >= 3


def test_what_was_tried_is_counted_and_a_limit_is_kept() -> None:
    found = explore(paying(locked=True), 3, limit=7, files=FILES)
    assert (found.schedules, found.complete, found.failed) == (7, False, None)
    whole = [explore(paying(locked=True), n, files=FILES).schedules for n in range(4)]
    assert whole == sorted(set(whole))
    assert whole[0] == 1
    assert whole == [explore(paying(locked=True), n, files=FILES).schedules for n in range(4)]


def test_threads_that_the_code_starts_take_part_and_may_still_wait_at_the_end() -> None:
    def told(baton: Baton) -> Any:
        with baton.stands_in([races]):
            post = Post()
            yield [lambda: post.send("a"), lambda: post.send("b"), lambda: post.wait_for(2)]
            assert sorted(post.delivered) == ["a", "b"]
            orders.add(tuple(post.delivered))
            assert post.thread.is_alive()
            baton.run([post.close])
            assert not post.thread.is_alive()

    orders: set[tuple[str, ...]] = set()
    before = set(threading.enumerate())
    found = explore(told, 2, files=FILES)
    assert found.error is None
    assert orders == {("a", "b"), ("b", "a")}
    nobody_is_left(before)


def test_time_passes_when_everybody_waits_and_at_no_other_time() -> None:
    def told(baton: Baton) -> Any:
        with baton.stands_in([races]):
            post, woke = Post(), []

            def sleep(seconds: float) -> None:
                assert races.nap(seconds) == seconds
                woke.append(seconds)

            def give_up() -> None:
                assert not post.wait_for(1, timeout=1.5)
                woke.append(1.5)

            yield [lambda: sleep(2.0), lambda: sleep(1.0), give_up]
            assert woke == [1.0, 1.5, 2.0]
            assert baton.now == 2.0

    assert explore(told, 2, files=FILES).error is None


def test_what_a_timeout_races_with_is_tried_both_ways() -> None:
    seen = set()

    def told(baton: Baton) -> Any:
        with baton.stands_in([races]) as stand_in:
            event = stand_in.Event()

            def late() -> None:
                baton.sleep(1.0)
                event.set()

            yield [lambda: seen.add(event.wait(1.0)), late]

    assert explore(told, 2).error is None
    assert seen == {True, False}


def test_what_a_body_or_the_story_raises_is_the_failure() -> None:
    def fail() -> None:
        raise OSError("a body")

    def told(_: Baton) -> Any:
        yield [list, fail]

    def twice(_: Baton) -> Any:
        yield [list]
        yield [list]

    assert isinstance(explore(told).error, OSError)
    with pytest.raises(OSError, match="a body"):
        repeat(told, ())
    with pytest.raises(RuntimeError, match="yields once"):
        repeat(twice, ())


def test_who_goes_on_for_ever_is_stopped() -> None:
    def told(baton: Baton) -> Any:
        def spin() -> None:
            while True:
                baton.point()

        yield [spin, list]

    with pytest.raises(Stuck, match="goes on for ever"):
        repeat(told, ())


def test_outside_of_a_run_a_lock_is_a_lock_and_nobody_waits_for_ever() -> None:
    def told(baton: Baton) -> Any:
        with baton.stands_in([races]) as stand_in:
            lock = stand_in.Lock()
            assert lock.acquire()
            assert not lock.acquire(blocking=False)
            with pytest.raises(Stuck, match="outside"):
                lock.acquire()
            lock.release()
            with pytest.raises(RuntimeError, match="unlocked"):
                lock.release()
            yield [list]
        assert vars(races)["threading"] is threading

    repeat(told, ())


def test_nothing_is_left_behind_after_a_failure() -> None:
    before = set(threading.enumerate())
    assert isinstance(explore(ringing(right=False), files=FILES).error, Stuck)
    nobody_is_left(before)
    assert vars(races)["threading"] is threading
    assert sys.gettrace() is None or "coverage" in repr(sys.gettrace())
