"""Which schedules there are, and in which order they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.testing.deviations import try_all

if TYPE_CHECKING:
    from sessionsched.testing.deviations import Schedule

#: A story with two points: at the first there are two other choices, at the second there is one.
POINTS = [2, 1]


def schedules(deviations: int, limit: int | None = None) -> list[Schedule]:
    told: list[Schedule] = []

    def tell(schedule: Schedule, _: object) -> list[int]:
        told.append(schedule)
        return POINTS

    found = try_all(tell, deviations, limit)
    assert (found.schedules, found.complete) == (len(told), limit is None)
    assert (found.points, found.failed, found.error) == (2, None, None)
    return told


def test_those_with_fewer_deviations_come_first_and_each_comes_once() -> None:
    assert schedules(0) == [()]
    assert schedules(1) == [(), (1,), (2,)]
    assert schedules(2) == [(), (1,), (2,), (1, 1), (1, 2)]
    assert schedules(9) == [(), (1,), (2,), (1, 1), (1, 2), (1, 1, 2)]


def test_there_are_no_more_than_the_limit() -> None:
    assert schedules(9, limit=4) == [(), (1,), (2,), (1, 1)]


def test_points_need_not_be_counted_after_the_last_deviation_that_is_tried() -> None:
    counted: dict[Schedule, bool] = {}

    def tell(schedule: Schedule, count_all: bool) -> list[int]:  # noqa: FBT001
        counted[schedule] = count_all
        return POINTS

    try_all(tell, 1)
    assert counted == {(): True, (1,): False, (2,): False}


def test_the_first_failure_ends_it_and_is_kept() -> None:
    def tell(schedule: Schedule, _: object) -> list[int]:
        if schedule == (2,):
            raise OSError("on purpose")
        return POINTS

    found = try_all(tell, 3)
    assert (found.schedules, found.failed, str(found.error)) == (3, (2,), "on purpose")
    assert not found.complete
