import itertools
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from sessionsched.model import Effect, Run
from sessionsched.outbox import DROPS, ENDS, ByOne, Outbox

#: A thread that was to come and did not would hang the tests; this ends them with an error.
PATIENCE_S = 60


class Performed:
    """Performs effects by noting them down."""

    def __init__(self) -> None:
        self.prompts: list[int] = []

    def __call__(self, effect: Effect, run: Run[int], at: float) -> None:
        assert (effect, at) == (Effect.START, float(run.prompt))
        self.prompts.append(run.prompt)


def order(outbox: Outbox, *prompts: int) -> None:
    for prompt in prompts:
        outbox.append((Effect.START, Run("chat-1", prompt), float(prompt)))


@pytest.fixture
def threads_take_turns_at_every_step() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_effects_are_performed_in_the_order_in_which_they_were_ordered() -> None:
    outbox, performed = Outbox(), Performed()
    order(outbox, 3, 1, 2)
    assert (len(outbox), performed.prompts) == (3, [])
    outbox.drain(ByOne(performed))
    assert (len(outbox), performed.prompts) == (0, [3, 1, 2])


def test_everything_is_announced_until_somebody_says_that_nobody_listens() -> None:
    outbox = Outbox()
    assert (outbox.loud, outbox.deaf, outbox.counted) == (True, False, False)
    assert [next(outbox.tally), next(outbox.tally)] == [0, 1]


def test_an_effect_is_performed_once() -> None:
    outbox, performed = Outbox(), Performed()
    order(outbox, 1)
    outbox.drain(ByOne(performed))
    outbox.drain(ByOne(performed))
    assert performed.prompts == [1]


@pytest.mark.contract("R3")
def test_a_drain_from_within_a_drain_only_adds_to_it() -> None:
    outbox, depths, prompts = Outbox(), [0], list[int]()
    last = sys.getrecursionlimit()

    def perform(_effect: Effect, run: Run[int], _at: float) -> None:
        depths.append(depths[-1] + 1)
        prompts.append(run.prompt)
        if run.prompt < last:
            order(outbox, run.prompt + 1)
            outbox.drain(ByOne(perform))
        depths.append(depths[-1] - 1)

    order(outbox, 1)
    outbox.drain(ByOne(perform))
    assert max(depths) == 1
    assert prompts == list(range(1, last + 1))


def test_what_is_ordered_within_a_drain_comes_after_what_was_there() -> None:
    outbox, prompts = Outbox(), list[int]()

    def perform(_effect: Effect, run: Run[int], _at: float) -> None:
        prompts.append(run.prompt)
        if run.prompt < 10:
            order(outbox, run.prompt * 10)
            outbox.drain(ByOne(perform))

    order(outbox, 1, 2, 3)
    outbox.drain(ByOne(perform))
    assert prompts == [1, 2, 3, 10, 20, 30]


def test_what_is_ordered_while_another_thread_drains_is_performed_by_that_thread() -> None:
    outbox, inside, go_on = Outbox(), threading.Event(), threading.Event()
    performed: list[tuple[int, int]] = []

    def perform(_effect: Effect, run: Run[int], _at: float) -> None:
        performed.append((run.prompt, threading.get_ident()))
        if run.prompt == 1:
            inside.set()
            assert go_on.wait(PATIENCE_S)

    order(outbox, 1)
    drainer = threading.Thread(target=outbox.drain, args=[ByOne(perform)])
    drainer.start()
    try:
        assert inside.wait(PATIENCE_S)
        order(outbox, 2)
        outbox.drain(ByOne(perform))  # comes back at once, and has performed nothing
        assert performed == [(1, drainer.ident)]
    finally:
        go_on.set()
        drainer.join()
    assert performed == [(1, drainer.ident), (2, drainer.ident)]


def test_what_is_ordered_just_before_the_drainer_lets_go_is_not_left_behind() -> None:
    outbox, performed = Outbox(), Performed()

    class LastMoment:
        """A lock with somebody who comes when all is performed, and finds it still held."""

        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.acquire = self.lock.acquire
            self.late = [2]

        def release(self) -> None:
            while self.late:
                order(outbox, self.late.pop())
                outbox.drain(ByOne(performed))
                assert performed.prompts == [1]
            self.lock.release()

    outbox.busy = cast("Any", LastMoment())
    order(outbox, 1)
    outbox.drain(ByOne(performed))
    assert performed.prompts == [1, 2]


def test_a_drain_performs_no_more_than_it_is_asked_to_and_says_whether_that_was_all() -> None:
    outbox, performed = Outbox(), Performed()
    order(outbox, 1, 2, 3)
    assert outbox.drain(ByOne(performed), 2)
    assert (performed.prompts, len(outbox), outbox.idle) == ([1, 2], 1, False)
    assert not outbox.drain(ByOne(performed), 1)
    assert (performed.prompts, outbox.idle) == ([1, 2, 3], True)


def test_what_keeps_coming_whenever_the_drainer_lets_go_is_counted_too() -> None:
    outbox, performed, later = Outbox(), Performed(), itertools.count(2)

    class Busy:
        def acquire(self, _blocking: object) -> bool:
            return True

        def release(self) -> None:
            order(outbox, next(later))

    outbox.busy = cast("Any", Busy())
    order(outbox, 1)
    assert outbox.drain(ByOne(performed), 5)
    assert performed.prompts == [1, 2, 3], "to look in vain counts, too"


def test_an_error_while_performing_leaves_the_rest_to_the_next_drain() -> None:
    outbox, performed = Outbox(), Performed()

    def perform(effect: Effect, run: Run[int], at: float) -> None:
        if run.prompt == 2:
            raise ArithmeticError
        performed(effect, run, at)

    order(outbox, 1, 2, 3, 4)
    with pytest.raises(ArithmeticError):
        outbox.drain(ByOne(perform))
    assert (len(outbox), performed.prompts) == (2, [1])
    outbox.drain(ByOne(perform))
    assert (len(outbox), performed.prompts) == (0, [1, 3, 4])


@pytest.mark.usefixtures("threads_take_turns_at_every_step")
def test_many_threads_leave_nothing_behind_do_nothing_twice_and_keep_their_order() -> None:
    outbox, prompts, at_it = Outbox(), list[int](), threading.Lock()
    crowd, each = 8, 300
    all_here = threading.Barrier(crowd)

    def perform(_effect: Effect, run: Run[int], _at: float) -> None:
        assert at_it.acquire(blocking=False), "two threads perform at once"
        prompts.append(run.prompt)
        at_it.release()

    def work(thread: int) -> None:
        all_here.wait(PATIENCE_S)
        for number in range(each):
            order(outbox, thread * each + number)
            outbox.drain(ByOne(perform))

    with ThreadPoolExecutor(crowd) as pool:
        for done in [pool.submit(work, thread) for thread in range(crowd)]:
            done.result(PATIENCE_S)
    assert len(outbox) == 0
    assert sorted(prompts) == list(range(crowd * each))
    for thread in range(crowd):
        own = [prompt for prompt in prompts if prompt // each == thread]
        assert own == sorted(own)


def test_what_is_ordered_of_several_runs_is_ordered_of_each_of_them_in_turn() -> None:
    outbox, performed = Outbox(), list[tuple[Effect, int, float]]()
    runs = [Run("chat-1", prompt) for prompt in range(3)]
    outbox.append((DROPS, runs, 1.0))
    outbox.append((Effect.START, runs[1], 2.0))
    outbox.append((ENDS, runs[1:], 3.0))
    outbox.drain(ByOne(lambda effect, run, at: performed.append((effect, run.prompt, at))))
    assert performed == [
        (Effect.DROP, 0, 1.0), (Effect.DROP, 1, 1.0), (Effect.DROP, 2, 1.0),
        (Effect.START, 1, 2.0),
        (Effect.END, 1, 3.0), (Effect.END, 2, 3.0),
    ]  # fmt: skip
