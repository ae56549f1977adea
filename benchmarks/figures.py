"""A figure with its bar: what was measured, against what, and whether that is good enough.

A figure is judged by its `value`: the minimum on the CPU's clock with the collector on, because
that is what the work costs on a machine that does nothing else. The rest is there to be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.interleave import Series

__all__ = ["COLUMNS", "Figure", "cells", "compared"]


@frozen
class Figure:
    """One row of the table."""

    #: W1 to W12, and what is done there.
    work: str
    what: str
    #: What it is compared with; empty for an absolute figure.
    base: str
    value: float
    bar: float
    #: "x" for a ratio, "bytes" for memory.
    unit: str = "x"
    #: The same ratio by the median, and by the other clock; None: not asked.
    cpu_median: float | None = None
    wall_min: float | None = None
    wall_median: float | None = None
    #: The minimum on the CPU's clock with the collector off.
    without_collector: float | None = None
    #: Microseconds for each run, ours and the base's: the minimum on the CPU's clock.
    ours_us: float | None = None
    base_us: float | None = None

    @property
    def met(self) -> bool:
        """Whether the bar is met, to the digits that are shown."""
        return round(self.value, 2 if self.unit == "x" else 0) <= self.bar


COLUMNS: Final = (
    "work", "base", "bar", "cpu min", "median", "wall min", "median", "gc off",
    "us/run", "base us", "",
)  # fmt: skip


def cells(figure: Figure) -> tuple[str, ...]:
    """Give a figure as it is shown, column by column."""
    bytes_too = " B" if figure.unit == "bytes" else ""
    return (
        f"{figure.work} {figure.what}",
        figure.base,
        f"{figure.bar:g}{bytes_too}",
        f"{figure.value:.2f}" if figure.unit == "x" else f"{figure.value:.0f} B",
        *(
            "" if number is None else f"{number:.2f}"
            for number in (
                figure.cpu_median, figure.wall_min, figure.wall_median, figure.without_collector,
                figure.ours_us, figure.base_us,
            )
        ),
        "met" if figure.met else "MISSED",
    )  # fmt: skip


def compared(
    work: str,
    what: str,
    side: str,
    base: str,
    bar: float,
    n: int,
    on: Mapping[str, Series],
    off: Mapping[str, Series],
) -> Figure:
    """Compare two sides that were measured in turns, with the collector on and off."""

    def ratio(series: Mapping[str, Series], clock: str, summary: str) -> float:
        return series[side].of(clock, summary) / series[base].of(clock, summary)

    return Figure(
        work, what, base, ratio(on, "cpu_s", "min"), bar,
        cpu_median=ratio(on, "cpu_s", "median"),
        wall_min=ratio(on, "wall_s", "min"),
        wall_median=ratio(on, "wall_s", "median"),
        without_collector=ratio(off, "cpu_s", "min"),
        ours_us=on[side].of("cpu_s", "min") / n * 1e6,
        base_us=on[base].of("cpu_s", "min") / n * 1e6,
    )  # fmt: skip
