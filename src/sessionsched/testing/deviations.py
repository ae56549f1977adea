"""Deviations: which schedules there are, those nearest to the default order first.

Rule 1. Left alone, what is told takes its default order. At each *point* where it had a choice, a
        schedule may deviate from that: it names the point, and the first choice is passed over. If
        it names the point twice, the first two are. Points without a choice don't count.
Rule 2. All schedules with one deviation come before those with two, and so on.
Rule 3. Each is told once: a deviation more is never put before the last one.

Most races need one or two switches at the wrong moment. `baton` tells threads like this, `simulate`
tells tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import define

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Explored", "Schedule", "passed_over", "try_all"]

#: The points where it deviates, in order, from 1 on.
Schedule: TypeAlias = tuple[int, ...]


@define
class Explored:
    """What an exploration came to."""

    #: How many schedules were tried.
    schedules: int = 0
    #: The most points that one of them had.
    points: int = 0
    #: All that there are, with so many deviations.
    complete: bool = False
    #: The schedule that failed, to repeat it with, and how; None: none did.
    failed: Schedule | None = None
    error: BaseException | None = None


def try_all(
    tell: Callable[[Schedule, bool], list[int]], deviations: int, limit: int | None = None
) -> Explored:
    """Try all schedules with up to so many deviations.

    `tell` is given a schedule and whether it has to count the points after the last deviation. It
    says how many other choices there were at each point. Stops at the first failure, or after
    `limit` schedules.
    """
    found = Explored()
    schedules: Iterable[Schedule] = [()]
    for depth in range(deviations + 1):
        following: list[Schedule] = []
        for schedule in schedules:
            if found.schedules == limit:
                return found
            found.schedules += 1
            try:
                choices = tell(schedule, depth < deviations)
            except BaseException as error:  # noqa: BLE001 - it is what we look for
                found.failed, found.error = schedule, error
                return found
            found.points = max(found.points, len(choices))
            if depth < deviations:
                following += _with_one_more(schedule, choices)
        schedules = following
    found.complete = True
    return found


def passed_over(schedule: Counter[int], point: int, others: int) -> int:
    """Say how many choices are passed over at a point that has so many others."""
    return min(schedule[point], others)


def _with_one_more(schedule: Schedule, choices: list[int]) -> Iterator[Schedule]:
    """Give the schedules with one deviation more, not before the last one."""
    for at in range(max(schedule, default=1), len(choices) + 1):
        if schedule.count(at) < choices[at - 1]:
            yield (*schedule, at)
