"""W11: what a run costs when there are a thousand, and when there are a million."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from benchmarks.figures import Figure
from benchmarks.interleave import Plan, interleave, one_pass
from benchmarks.lines import in_one_line, over_sessions

if TYPE_CHECKING:
    from benchmarks.interleave import Side

__all__ = ["SIZES", "Curve", "figure", "measured"]

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
BAR: Final = 1.3


@frozen
class Curve:
    """Microseconds for each run, by the number of runs: the minimum on the CPU's clock."""

    work: str
    what: str
    us: dict[int, float]


def measured(work: str, scale: float) -> Curve:
    """Measure W1 or W2 at every size; the smaller the size, the more often."""
    what, side = {
        "W1": ("W1, 1k to 1M runs", over_sessions), "W2": ("W2, 1k to 1M runs", in_one_line),
    }[work]  # fmt: skip
    return Curve(work, what, {n: _per_run(side, max(100, int(n * scale))) for n in SIZES})


def _per_run(side: Side, n: int) -> float:
    if n >= SIZES[-1]:  # half a minute: once, and there are others to see that it fits
        return one_pass(side, n, collector=True).cpu_s / n * 1e6
    rounds = max(2, min(20, 100_000 // n))
    series = interleave({"ours": side}, n, Plan(rounds, rounds))
    return series["ours"].of("cpu_s", "min") / n * 1e6


def figure(curve: Curve) -> Figure:
    """Compare the two ends of a curve."""
    first, last = curve.us[SIZES[0]], curve.us[SIZES[-1]]
    return Figure("W11", curve.what, "per run at 1k", last / first, BAR,
                  ours_us=last, base_us=first)  # fmt: skip
