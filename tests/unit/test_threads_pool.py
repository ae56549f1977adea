"""Threads that call what they are given: never too many, never lost, gone after the close."""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as FutureTimeout
from functools import partial
from typing import TYPE_CHECKING

import pytest
from thread_tools import answer, come, no_more_threads, spawn, until

from sessionsched.threads.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "pool-of-a-test"


def there() -> list[threading.Thread]:
    return [it for it in threading.enumerate() if it.name == NAME]


class Calls:
    """Calls that a test lets go one by one."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.begun: list[tuple[str, threading.Thread]] = []
        self.over: list[str] = []
        self._gates: dict[str, threading.Event] = {}
        self._in: dict[str, threading.Event] = {}
        self._given: dict[str, Callable[[], object]] = {}

    def give(self, *names: str) -> None:
        for name in names:
            self._gates[name], self._in[name] = threading.Event(), threading.Event()
            self._given[name] = partial(self._call, name)
            self.pool.call(self._given[name])

    def _call(self, name: str) -> None:
        self.begun.append((name, threading.current_thread()))
        self._in[name].set()
        come(self._gates[name])
        self.over.append(name)

    def begin(self, *names: str) -> None:
        for name in names:
            come(self._in[name])

    def finish(self, *names: str) -> None:
        for name in names:
            self._gates[name].set()

    def thread(self, name: str) -> threading.Thread:
        return dict(self.begun)[name]

    def write_off(self, name: str) -> None:
        self.pool.write_off(self._given[name])


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls = Calls(Pool(NAME, 2))
    yield calls
    calls.finish(*calls._gates)
    answer(calls.pool.close)
    for thread in there():
        thread.join(60)


def test_there_is_no_thread_before_there_is_something_to_call(calls: Calls) -> None:
    assert there() == []
    calls.give("a")
    calls.begin("a")
    assert there() == [calls.thread("a")]


def test_a_thread_has_the_name_of_its_pool_and_is_a_daemon(calls: Calls) -> None:
    calls.give("a")
    calls.begin("a")
    assert (calls.thread("a").name, calls.thread("a").daemon) == (NAME, True)


def test_another_thread_comes_while_the_first_is_busy(calls: Calls) -> None:
    calls.give("a", "b")
    calls.begin("a", "b")
    assert calls.thread("a") is not calls.thread("b")


def test_there_are_never_more_threads_than_the_limit(calls: Calls) -> None:
    calls.give("a", "b", "c", "d")
    calls.begin("a", "b")
    assert len(there()) == 2
    calls.finish("a", "b", "c", "d")
    calls.begin("c", "d")
    assert {thread for _, thread in calls.begun} <= {calls.thread("a"), calls.thread("b")}


def test_a_free_thread_is_used_before_another_one_comes(calls: Calls) -> None:
    for name in ("a", "b", "c"):
        calls.give(name)
        calls.finish(name)
        calls.begin(name)
        until(lambda: calls.pool.pending == 0)
    assert len({thread for _, thread in calls.begun}) == 1


def test_calls_begin_in_the_order_in_which_they_were_given() -> None:
    calls = Calls(Pool(NAME, 1))
    names = [str(number) for number in range(50)]
    calls.give(*names)
    calls.finish(*names)
    answer(calls.pool.close)
    assert calls.over == names


def test_a_thread_that_is_written_off_is_replaced_at_once(calls: Calls) -> None:
    calls.give("a", "b", "c")
    calls.begin("a", "b")
    calls.write_off("a")
    calls.begin("c")
    assert calls.thread("c") not in (calls.thread("a"), calls.thread("b"))
    assert len(there()) == 3


def test_a_thread_that_was_written_off_goes_when_its_call_is_over(calls: Calls) -> None:
    calls.give("a", "b")
    calls.begin("a", "b")
    calls.write_off("a")
    calls.finish("a")
    calls.thread("a").join(60)
    assert there() == [calls.thread("b")]
    assert calls.over == ["a"]


def test_writing_off_twice_is_writing_off_once(calls: Calls) -> None:
    calls.give("a", "b", "c", "d")
    calls.begin("a", "b")
    calls.write_off("a")
    calls.write_off("a")
    calls.begin("c")
    assert len(there()) == 3
    assert len(calls.begun) == 3, "b and c are in the two threads that there may be"


def test_writing_off_a_call_that_nobody_is_in_changes_nothing(calls: Calls) -> None:
    calls.give("a", "b", "c", "d")
    calls.begin("a", "b")
    calls.finish("a")
    calls.begin("c")
    for name in ("a", "d"):  # one that is over, and one that has not begun
        calls.write_off(name)
    calls.pool.write_off(print)
    assert len(there()) == 2
    calls.finish("b", "c", "d")
    calls.begin("d")
    answer(calls.pool.close)
    assert there() == []
    assert sorted(calls.over) == ["a", "b", "c", "d"]


def test_a_thread_that_is_free_again_is_not_written_off(calls: Calls) -> None:
    calls.give("a")
    calls.finish("a")
    calls.begin("a")
    until(lambda: calls.pool.pending == 0)
    calls.write_off("a")
    calls.give("b")
    calls.begin("b")
    assert calls.thread("b") is calls.thread("a")


class Meddler:
    """A call that is compared with others: just then, another thread begins one of its own."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self._meanwhile = meanwhile

    def __call__(self) -> None:
        self.begun.set()
        come(self.go)

    def __eq__(self, other: object) -> bool:
        self._meanwhile()
        return self is other

    __hash__ = None  # type: ignore[assignment]


def test_a_call_that_begins_while_another_is_written_off_does_not_disturb_that() -> None:
    pool = Pool(NAME, 3)
    calls = Calls(pool)
    begun = threading.Event()

    def meanwhile() -> None:
        """Let a free thread begin something, if it can: it may have to wait for us."""
        spawn(pool.call, begun.set)
        begun.wait(0.05)

    looked_at, written_off = Meddler(meanwhile), Meddler(lambda: None)
    for call in (looked_at, written_off):
        pool.call(call)
        come(call.begun)
    calls.give("free")
    calls.finish("free")
    until(lambda: pool.pending == 2)
    try:
        answer(pool.write_off, written_off)
        come(begun)
    finally:
        for call in (looked_at, written_off):
            call.go.set()
        answer(pool.close)


def test_closing_calls_what_was_given_and_waits_for_every_thread(calls: Calls) -> None:
    calls.give("a", "b", "c")
    calls.begin("a", "b")
    closing = spawn(calls.pool.close)
    calls.finish("a", "b", "c")
    closing.result(60)
    assert sorted(calls.over) == ["a", "b", "c"]
    assert there() == []


def test_closing_does_not_wait_for_a_thread_that_was_written_off_and_goes_on(calls: Calls) -> None:
    calls.give("a")
    calls.begin("a")
    calls.write_off("a")
    answer(calls.pool.close, [calls._given["a"]])
    assert there() == [calls.thread("a")]


@pytest.mark.contract("S7")
def test_closing_waits_for_a_thread_that_was_written_off_and_is_on_its_way_out(
    calls: Calls,
) -> None:
    calls.give("a", "b")
    calls.begin("a", "b")
    calls.write_off("a")
    calls.write_off("b")
    closing = spawn(calls.pool.close, [calls._given["b"]])
    with pytest.raises(FutureTimeout):
        closing.result(0.01)
    calls.finish("a")
    closing.result(60)
    assert there() == [calls.thread("b")]


def test_threads_that_were_written_off_and_are_gone_are_not_remembered(calls: Calls) -> None:
    for name in "abc":
        calls.give(name)
        calls.begin(name)
        calls.write_off(name)
        calls.finish(name)
        calls.thread(name).join(60)
    assert [call for _, call in calls.pool._lost] == [calls._given["c"]]


def test_closing_waits_for_a_thread_that_is_just_coming(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.give("a")  # its thread will take both calls
    calls.begin("a")
    coming, go = threading.Event(), threading.Event()
    start = threading.Thread.start

    def slow(thread: threading.Thread) -> None:
        if thread.name == NAME:
            coming.set()
            come(go)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slow)
    giving = spawn(calls.give, "b")
    come(coming)
    calls.finish("a", "b")
    closing = spawn(calls.pool.close)
    until(lambda: closing.done() or calls.pool._lock.locked())
    go.set()
    giving.result(60)
    closing.result(60)
    assert there() == []


def test_closing_a_pool_without_threads_and_closing_twice_are_nothing(calls: Calls) -> None:
    answer(calls.pool.close)
    answer(calls.pool.close)
    assert there() == []


# --- no thread can be started ---


def test_without_another_thread_the_one_that_is_there_does_it_all(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.give("a")
    calls.begin("a")
    with no_more_threads(monkeypatch, NAME):
        calls.give("b")
    calls.finish("a", "b")
    calls.begin("b")
    assert calls.thread("b") is calls.thread("a")


def test_without_any_thread_a_call_is_refused_and_forgotten(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    with no_more_threads(monkeypatch, NAME), pytest.raises(RuntimeError, match="can't start"):
        calls.give("a")
    calls.give("b")
    calls.begin("b")
    assert (len(there()), [name for name, _ in calls.begun]) == (1, ["b"])


def test_a_thread_that_can_not_be_replaced_at_once_is_replaced_at_the_next_call(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.give("a", "b", "c")
    calls.begin("a", "b")
    with no_more_threads(monkeypatch, NAME):
        calls.write_off("a")
    calls.give("d")
    calls.begin("c")
    assert calls.thread("c") not in (calls.thread("a"), calls.thread("b"))
