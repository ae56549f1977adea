from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from thread_tools import Overtaken

from sessionsched.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

SESSIONS = st.sampled_from(["a", "b", "c", "d", "e"])


def asked(count: int, *sessions: str) -> Slots[str]:
    """Slots that are all out, with sessions that ask for one in this order."""
    slots = Slots[str](count)
    assert all(slots.take(f"early-{n}") for n in range(count))
    assert not any(slots.take(session) for session in sessions)
    return slots


class SlotsBesideAQueue(RuleBasedStateMachine):
    """Asks Slots and a plain list of who asked, and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 1
        self.slots = Slots[str](1)
        #: Slots that were given out and not given back, by the answers of `slots` alone.
        self.out = 0
        self.asking: list[str] = []

    @initialize(count=st.integers(1, 3))
    def make(self, count: int) -> None:
        self.count = count
        self.slots = Slots(count)

    @rule(session=SESSIONS)
    def take(self, session: str) -> None:
        there_is_one = self.out < self.count and not self.asking
        assert self.slots.take(session) is there_is_one
        if there_is_one:
            self.out += 1
        elif session not in self.asking:
            self.asking.append(session)

    @rule(session=SESSIONS)
    def leave(self, session: str) -> None:
        self.slots.leave(session)
        if session in self.asking:
            self.asking.remove(session)

    @precondition(lambda self: self.out)
    @rule()
    def give(self) -> None:
        self.slots.give()
        self.out -= 1

    @rule()
    def next_session(self) -> None:
        there_are_both = self.out < self.count and bool(self.asking)
        assert self.slots.next_session() == (self.asking.pop(0) if there_are_both else None)
        self.out += there_are_both

    @invariant()
    def never_more_are_out_than_there_are(self) -> None:
        assert 0 <= self.out <= self.count


@pytest.mark.contract("D6")
def test_limited_slots_do_what_a_plain_queue_would_do() -> None:
    run_state_machine_as_test(SlotsBesideAQueue)


@pytest.mark.contract("D6")
def test_slots_go_to_sessions_in_the_order_in_which_they_asked() -> None:
    slots = asked(2, "b", "a", "c")
    got = []
    for _ in range(3):
        slots.give()
        got.append(slots.next_session())
    assert got == ["b", "a", "c"]


@pytest.mark.contract("D6")
def test_a_session_that_comes_when_a_slot_is_free_does_not_overtake_one_that_asked() -> None:
    slots = asked(1, "first")
    slots.give()
    assert not slots.take("late")
    assert slots.next_session() == "first"


@pytest.mark.contract("D6")
def test_asking_again_neither_loses_nor_doubles_the_place() -> None:
    slots = asked(1, "a", "b", "a")
    for _ in range(3):
        slots.give()
    assert [slots.next_session() for _ in range(3)] == ["a", "b", None]


@pytest.mark.contract("D6")
def test_a_session_that_left_and_asks_again_stands_behind_the_others() -> None:
    slots = asked(1, "a", "b")
    slots.leave("a")
    assert not slots.take("a")
    slots.give()
    assert slots.next_session() == "b"


def test_a_session_that_left_is_not_offered_a_slot() -> None:
    slots = asked(1, "a")
    slots.leave("a")
    slots.give()
    assert slots.next_session() is None
    assert slots.take("b")


def test_leaving_without_having_asked_changes_nothing() -> None:
    slots = asked(1, "a")
    slots.leave("nobody")
    slots.give()
    assert slots.next_session() == "a"


def test_nobody_is_next_while_no_slot_is_free() -> None:
    assert asked(2, "a").next_session() is None


def test_a_slot_that_was_offered_and_not_used_goes_to_the_one_behind() -> None:
    slots = asked(1, "a", "b")
    slots.give()
    assert slots.next_session() == "a"
    assert slots.next_session() is None
    slots.give()
    assert slots.next_session() == "b"


@pytest.mark.parametrize(
    "meanwhile",
    [lambda slots: slots.next_session(), lambda slots: slots.leave("a")],
    ids=["takes it", "leaves"],
)
def test_whoever_looks_for_the_next_session_may_be_overtaken(
    meanwhile: Callable[[Slots[str]], object],
) -> None:
    slots = asked(1, "a")
    slots.give()
    lock: Any = slots._lock

    def overtake() -> None:
        slots._lock = lock
        meanwhile(slots)

    slots._lock = Overtaken(1, overtake)  # type: ignore[assignment]
    assert slots.next_session() is None


def test_who_leaves_may_be_overtaken_by_a_slot() -> None:
    slots = asked(1, "a")
    slots.give()
    lock: Any = slots._lock

    def overtake() -> None:
        slots._lock = lock
        assert slots.next_session() == "a"

    slots._lock = Overtaken(1, overtake)  # type: ignore[assignment]
    slots.leave("a")
