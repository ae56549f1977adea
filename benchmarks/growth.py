"""W11: what a run costs when there are a thousand, and when there are a million.

Each curve is measured with the collector and without: so one sees how much of the growth is the
collector, which walks what the caller holds. Base (a) is measured for comparison, and has no bar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from benchmarks.bases import all_tasks
from benchmarks.figures import Figure
from benchmarks.interleave import Plan, interleave, one_pass
from benchmarks.lines import in_one_line, over_sessions

if TYPE_CHECKING:
    from benchmarks.interleave import Side

__all__ = ["CURVES", "SIZES", "Curve", "figure", "measured"]

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
BAR: Final = 1.3

#: What is done, and whether it has a bar.
CURVES: Final[dict[str, tuple[Side, bool]]] = {
    "W1": (over_sessions, True), "W2": (in_one_line, True), "(a) create_task": (all_tasks, False),
}  # fmt: skip


@frozen
class Curve:
    """Microseconds for each run, by the number of runs: the minimum on the CPU's clock."""

    work: str
    us: dict[int, float]
    #: The same without the collector.
    off: dict[int, float]


def measured(work: str, scale: float) -> Curve:
    """Measure one of CURVES at every size; the smaller the size, the more often."""
    side, _ = CURVES[work]
    us, off = (
        {n: _per_run(side, max(100, int(n * scale)), collector=collector) for n in SIZES}
        for collector in (True, False)
    )
    return Curve(work, us, off)


def _per_run(side: Side, n: int, *, collector: bool) -> float:
    if n >= SIZES[-1]:  # several seconds: once, and there are others to see that it fits
        return one_pass(side, n, collector=collector).cpu_s / n * 1e6
    rounds = max(2, min(20, 100_000 // n))
    series = interleave({"ours": side}, n, Plan(rounds, rounds), collector=collector)
    return series["ours"].of("cpu_s", "min") / n * 1e6


def figure(curve: Curve) -> Figure:
    """Compare the two ends of a curve."""
    first, last = SIZES[0], SIZES[-1]
    return Figure(
        "W11", f"{curve.work}, 1k to 1M runs", "per run at 1k", curve.us[last] / curve.us[first],
        BAR,
        without_collector=curve.off[last] / curve.off[first],
        ours_us=curve.us[last], base_us=curve.us[first],
    )  # fmt: skip
