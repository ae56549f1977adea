"""The table of works: what is done, how often, against what, and the bar of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from benchmarks import bases, crossing, lines
from benchmarks.figures import compared
from benchmarks.interleave import Plan, interleave
from benchmarks.watching import watched_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.figures import Figure
    from benchmarks.interleave import Side

__all__ = ["WORKS", "Bar", "Work", "measured"]


@frozen
class Bar:
    """One side of a work may cost so many times what its base does."""

    side: str
    base: str
    at_most: float


@frozen
class Work:
    """Sides that are measured in turns, and the bars between them."""

    name: str
    #: What is done, with `n` as it is in the full measurement.
    what: str
    n: int
    sides: Mapping[str, Side]
    bars: tuple[Bar, ...]


def _work(name: str, what: str, n: int, ours: Side, *bars: tuple[str, Side, float]) -> Work:
    """Make a work with one side of ours."""
    sides = {"ours": ours} | {base: side for base, side, _ in bars}
    return Work(name, what, n, sides, tuple(Bar("ours", base, most) for base, _, most in bars))


# fmt: off
WORKS: Final = (
    _work("W1", "100k runs over 10k sessions", 100_000, lines.over_sessions,
          ("(a) create_task", bases.all_tasks, 1.5), ("(b) batches of it", bases.in_batches, 3.0)),
    _work("W2", "100k runs in one line", 100_000, lines.in_one_line,
          ("(a) create_task", bases.all_tasks, 1.6), ("(b) batches of it", bases.in_batches, 3.5)),
    _work("W3", "100k cancels of idle sessions", 100_000, lines.cancel_idle,
          ("call and dict.get", bases.look_up, 6.0)),
    _work("W4", "5k cancels end 50k runs", 50_000, lines.cancel_all,
          ("task.cancel of 50k", bases.cancel_tasks, 0.6)),
    _work("W7", "round trips, one at a time", 20_000, lines.round_trips,
          ("await create_task", bases.one_by_one, 1.8)),
    _work("W8", "100k submits to a busy session", 100_000, lines.submit_only,
          ("create_task alone", bases.create_only, 0.7)),
    Work("W9", "W1, watched", 100_000,
         {"by 1": watched_by(1), "by 5": watched_by(5), "by nobody": watched_by(0)},
         (Bar("by 1", "by nobody", 1.2), Bar("by 5", "by nobody", 1.5))),
    _work("W10", "50k runs on 2 threads", 50_000, crossing.on_threads,
          ("ThreadPoolExecutor", bases.pool, 0.8)),
    _work("W12", "20k submits from a thread", 20_000, crossing.submit_from_afar,
          ("call_soon_threadsafe", crossing.call_soon, 3.0)),
)
# fmt: on


def measured(work: Work, plan: Plan, scale: float) -> Iterator[Figure]:
    """Measure a work, with the collector and then without, and give a figure for each bar."""
    n = max(100, int(work.n * scale))
    on = interleave(work.sides, n, plan)
    fewer = Plan(max(1, plan.least - 1), plan.most, plan.seconds / 2)
    off = interleave(work.sides, n, fewer, collector=False)
    for bar in work.bars:
        what = work.what if bar.side == "ours" else f"{work.what} {bar.side}"
        yield compared(work.name, what, bar.side, bar.base, bar.at_most, n, on, off)
