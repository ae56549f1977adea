from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sessionsched.line import Line
from sessionsched.model import Run


class Watched(Run[str]):
    """A run that notes when somebody looks at it."""

    #: Who was looked at, by seq; None while nobody wants to know.
    looked_at: ClassVar[set[int] | None] = None

    def __getattribute__(self, name: str) -> Any:
        if Watched.looked_at is not None:
            Watched.looked_at.add(object.__getattribute__(self, "seq"))
        return object.__getattribute__(self, name)


@contextmanager
def watching() -> Iterator[set[int]]:
    Watched.looked_at = looked_at = set[int]()
    yield looked_at
    Watched.looked_at = None


def run(seq: int, kind: type[Run[str]] = Run) -> Run[str]:
    it = kind("chat-1", f"prompt {seq}")
    it.seq = seq
    return it


def line_of(*seqs: int, kind: type[Run[str]] = Run) -> tuple[Line[str], dict[int, Run[str]]]:
    line, runs = Line[str](), {seq: run(seq, kind) for seq in seqs}
    for it in runs.values():
        line.append(it)
    return line, runs


def seqs(runs: "Line[str] | list[Run[str]]") -> list[int]:
    return [it.seq for it in runs]


class LineBesideAList(RuleBasedStateMachine):
    """Does the same to a Line and to a plain list, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line[str]()
        self.plain: list[Run[str]] = []
        self.seq = 0

    @rule(skip=st.integers(1, 3))
    def append(self, skip: int) -> None:
        self.seq += skip
        it = run(self.seq)
        self.line.append(it)
        self.plain.append(it)

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        it = self.plain.pop(data.draw(st.integers(0, len(self.plain) - 1)))
        self.line.remove(it)
        assert (it.prev, it.next) == (None, None)

    @precondition(lambda self: self.plain)
    @rule()
    def take_first(self) -> None:
        it = self.plain.pop(0)
        self.line.take_first()
        assert (it.prev, it.next) == (None, None)

    @precondition(lambda self: self.plain)
    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        it = self.plain.pop(data.draw(st.integers(0, len(self.plain) - 1)))
        self.plain.insert(0, it)
        self.line.to_front(it)
        assert it.promoted

    @rule(data=st.data())
    def up_to(self, data: st.DataObject) -> None:
        fence = data.draw(st.integers(-1, self.seq + 1))
        assert self.line.up_to(fence) == [it for it in self.plain if it.seq <= fence]

    @invariant()
    def both_hold_the_same_runs_in_the_same_order(self) -> None:
        assert list(self.line) == self.plain
        assert self.line.length == len(self.plain)

    @invariant()
    def the_links_agree_in_both_directions(self) -> None:
        everybody = [None, *self.plain, None]
        assert (self.line.first, self.line.last) == (everybody[1], everybody[-2])
        for before, it, after in zip(everybody[:-2], self.plain, everybody[2:], strict=True):
            assert (it.prev, it.next) == (before, after)


def test_a_line_does_what_a_list_would_do() -> None:
    run_state_machine_as_test(LineBesideAList)


@pytest.mark.contract("X5")
def test_a_fence_gives_exactly_the_runs_at_or_below_it() -> None:
    line, _ = line_of(2, 4, 6)
    assert [seqs(line.up_to(fence)) for fence in (1, 2, 3, 4, 7)] == [
        [],
        [2],
        [2],
        [2, 4],
        [2, 4, 6],
    ]


@pytest.mark.contract("X5")
def test_a_promoted_run_above_the_fence_hides_nobody_behind_it() -> None:
    line, runs = line_of(1, 2, 3, 4)
    line.to_front(runs[2])
    line.to_front(runs[4])
    assert seqs(line) == [4, 2, 1, 3]
    assert seqs(line.up_to(2)) == [2, 1]


def test_the_last_promoted_stands_before_the_others() -> None:
    line, runs = line_of(1, 2, 3)
    line.to_front(runs[2])
    line.to_front(runs[3])
    assert seqs(line) == [3, 2, 1]


@pytest.mark.contract("X15")
def test_a_fence_looks_at_the_promoted_at_those_it_gives_and_at_one_more() -> None:
    line, runs = line_of(*range(1, 1001), kind=Watched)
    line.to_front(runs[700])
    line.to_front(runs[2])
    with watching() as looked_at:
        found = line.up_to(4)
    assert seqs(found) == [2, 1, 3, 4]
    assert looked_at == {2, 700, 1, 3, 4, 5}


@pytest.mark.contract("R2")
def test_a_run_that_leaves_the_middle_touches_only_its_neighbours() -> None:
    line, runs = line_of(*range(1, 1001), kind=Watched)
    with watching() as looked_at:
        line.remove(runs[500])
    assert 500 in looked_at <= {499, 500, 501}


@pytest.mark.contract("R2")
def test_a_run_that_is_promoted_or_comes_last_is_not_compared_with_everybody() -> None:
    line, runs = line_of(*range(1, 1001), kind=Watched)
    newest = run(1001, Watched)
    with watching() as looked_at:
        line.to_front(runs[500])
        line.append(newest)
    assert 500 in looked_at <= {499, 500, 501, 1, 1000, 1001}


def test_whoever_walks_the_line_may_remove_the_run_that_it_was_given() -> None:
    line, _ = line_of(1, 2, 3)
    walked = []
    for it in line:
        line.remove(it)
        walked.append(it.seq)
    assert (walked, line.length) == ([1, 2, 3], 0)


def test_a_run_that_left_one_line_can_stand_in_another() -> None:
    line, runs = line_of(1, 2, 3)
    other, _ = line_of(7)
    line.remove(runs[2])
    other.append(runs[2])
    assert (seqs(line), seqs(other)) == ([1, 3], [7, 2])


def test_lines_are_told_apart_even_while_both_are_empty() -> None:
    assert Line[str]() != Line[str]()


def test_the_repr_of_a_line_is_its_order() -> None:
    line, runs = line_of(1, 2, 3)
    line.to_front(runs[3])
    assert repr(line) == "Line([3, 1, 2])"


@pytest.mark.parametrize("there", [(), (7, 8)])
@pytest.mark.parametrize("moved", [(), (1,), (2,), (1, 3), (1, 2, 3)])
def test_runs_are_handed_over_to_the_end_of_another_line_and_stand_in_one_line_only(
    there: tuple[int, ...], moved: tuple[int, ...]
) -> None:
    (line, runs), (other, _) = line_of(1, 2, 3), line_of(*there)
    line.hand_over([runs[seq] for seq in moved], other)
    left = [seq for seq in (1, 2, 3) if seq not in moved]
    assert (seqs(line), line.length) == (left, len(left))
    assert (seqs(other), other.length) == ([*there, *moved], len(there) + len(moved))
    for it in (line, other):
        it.append(run(9))
        assert seqs(it)[-1] == 9
        assert [before.next for before in it][:-1] == list(it)[1:]
        assert [after.prev for after in it][1:] == list(it)[:-1]


def test_an_empty_line_has_nobody_to_hand_over() -> None:
    (line, _), (other, _) = line_of(), line_of(1)
    line.hand_over([], other)
    assert (seqs(line), seqs(other)) == ([], [1])


def test_a_whole_line_is_handed_over_without_a_look_at_those_between_its_ends() -> None:
    line, runs = line_of(1, 2, 3, 4, kind=Watched)
    other, _ = line_of(7, kind=Watched)
    all_of_them = list(runs.values())
    with watching() as looked_at:
        line.hand_over(all_of_them, other)
    assert looked_at <= {1, 7}


@pytest.mark.parametrize("taken", [(), (2,), (1, 3), (3, 1, 2)])
def test_who_is_taken_out_of_a_line_refers_to_nobody(taken: tuple[int, ...]) -> None:
    line, runs = line_of(1, 2, 3)
    line.take_out([runs[seq] for seq in taken])
    left = [seq for seq in (1, 2, 3) if seq not in taken]
    assert (seqs(line), line.length) == (left, len(left))
    assert all(runs[seq].prev is runs[seq].next is None for seq in taken)
    line.append(run(9))
    assert seqs(line) == [*left, 9]


def test_who_comes_after_a_line_was_handed_over_stands_behind_all_of_it() -> None:
    (old, _), (line, _) = line_of(1, 2), line_of(3, 4)
    line.hand_over(list(line), old)
    old.append(run(5))
    line.append(run(6))
    assert ([it.seq for it in old], [it.seq for it in line]) == ([1, 2, 3, 4, 5], [6])
