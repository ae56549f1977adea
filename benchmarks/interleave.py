"""How sides are compared: in one process, in turns, several times.

Rule 1. A, B, A, B ...: what disturbs the machine for a while disturbs every side.
Rule 2. Of the rounds, the minimum (what it costs) and the median (what one gets) are kept.
Rule 3. Every pass begins with an empty collector, which is on, or off for the whole pass.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from attrs import Factory, define, frozen

from benchmarks.stopwatch import Sample, Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Plan", "Series", "Side", "interleave"]

#: Does so many runs and times what counts.
Side: TypeAlias = Callable[[Stopwatch, int], None]


@define
class Series:
    """The samples of one side."""

    samples: list[Sample] = Factory(list)

    def of(self, clock: str, summary: str) -> float:
        """Give seconds per pass: `cpu_s` or `wall_s`, `min` or `median`."""
        values: list[float] = [getattr(sample, clock) for sample in self.samples]
        return min(values) if summary == "min" else statistics.median(values)


@frozen
class Plan:
    """How often to measure: until the time is up, but never fewer rounds than `least`."""

    least: int = 3
    most: int = 7
    seconds: float = 5.0

    def rounds(self) -> Iterator[int]:
        """Count rounds for as long as there should be another."""
        end = time.perf_counter() + self.seconds
        for number in range(self.most):
            if number >= self.least and time.perf_counter() > end:
                return
            yield number


def interleave(
    sides: Mapping[str, Side], n: int, plan: Plan, *, collector: bool = True
) -> dict[str, Series]:
    """Measure every side in turns, after one short pass that warms them up."""
    for side in sides.values():
        side(Stopwatch(), max(1, n // 100))
    series = {name: Series() for name in sides}
    for _ in plan.rounds():
        for name, side in sides.items():
            series[name].samples.append(one_pass(side, n, collector=collector))
    return series


def one_pass(side: Side, n: int, *, collector: bool) -> Sample:
    """Measure one side once."""
    watch = Stopwatch()
    gc.collect()
    if not collector:
        gc.disable()
    try:
        side(watch, n)
    finally:
        gc.enable()
    return watch.sample()
