"""Two threads, or a few, under every schedule with up to so many deviations: see baton_deep.py."""

from __future__ import annotations

import pytest
from baton_deep import STORIES, plans

from sessionsched.testing.baton import explore

TABLE = [name for name in STORIES if name.startswith("table")]
THREADS = [name for name in STORIES if name.startswith("threads")]


def tell(name: str) -> int:
    """Tell a story under all schedules of its plans. Gives how many that were."""
    story, count = STORIES[name][0], 0
    for deviations, how in plans(name):
        found = explore(story, deviations, **how)
        if found.error is not None:
            msg = f"{name} fails under schedule {found.failed} of {deviations, how}"
            raise AssertionError(msg) from found.error
        assert found.complete
        count += found.schedules
    return count


@pytest.mark.contract(
    "R4", "A2", "A4", "A5", "D1", "D2", "D4", "D6", "X1", "X2", "X7", "X10", "X11", "X14", "F1",
    "F3", "T1", "T2", "S5", "R1",
)  # fmt: skip
@pytest.mark.parametrize("name", TABLE)
def test_in_whatever_order_two_calls_take_their_steps_the_table_keeps_the_contract(
    name: str,
) -> None:
    assert tell(name) > 300


@pytest.mark.contract("R4", "D4", "X8", "T1", "T6", "P1", "P2", "S1", "S5", "S6", "S7")
@pytest.mark.parametrize("name", THREADS)
def test_in_whatever_order_threads_take_their_steps_the_scheduler_keeps_the_contract(
    name: str,
) -> None:
    assert tell(name) > 40
