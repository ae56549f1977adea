"""The benchmarks: every side does its work, figures are judged, and the page says what they say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from benchmarks import growth, memory, page, profiling
from benchmarks.figures import Figure, cells
from benchmarks.interleave import Plan, Series, interleave
from benchmarks.lines import cancels_leave
from benchmarks.peers.by_hand import queues
from benchmarks.stopwatch import Sample, Stopwatch
from benchmarks.works import WORKS, Work, measured

if TYPE_CHECKING:
    from collections.abc import Callable

ONCE: Final = Plan(least=1, most=1, seconds=0.0)


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_every_side_of_a_work_does_it_and_is_compared(work: Work) -> None:
    figures = list(measured(work, ONCE, scale=0.0))
    assert [(figure.base, figure.bar) for figure in figures] == [
        (bar.base, bar.at_most) for bar in work.bars
    ]
    assert all(figure.value > 0 for figure in figures)


def test_sides_are_measured_in_turns_after_a_short_pass_of_each() -> None:
    order: list[tuple[str, int]] = []

    def side(name: str) -> Callable[[Stopwatch, int], None]:
        return lambda _, n: order.append((name, n))

    interleave({"A": side("A"), "B": side("B")}, 200, Plan(least=2, most=2))
    assert order == [("A", 2), ("B", 2), ("A", 200), ("B", 200), ("A", 200), ("B", 200)]


def test_a_series_gives_its_minimum_and_its_median_by_either_clock() -> None:
    series = Series([Sample(3.0, 30.0), Sample(1.0, 10.0), Sample(2.5, 20.0)])
    assert (series.of("cpu_s", "min"), series.of("cpu_s", "median")) == (1.0, 2.5)
    assert (series.of("wall_s", "min"), series.of("wall_s", "median")) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("value", "bar", "unit", "met"),
    [
        (1.504, 1.5, "x", True),
        (1.506, 1.5, "x", False),
        (0.4, 0.0, "bytes", True),
        (0.6, 0.0, "bytes", False),
    ],
)
def test_a_bar_is_met_to_the_digits_that_are_shown(
    value: float, bar: float, unit: str, *, met: bool
) -> None:
    figure = Figure("W0", "nothing", "", value, bar, unit)
    assert figure.met is met
    assert cells(figure)[-1] == ("met" if met else "MISSED")


def test_cancels_of_idle_sessions_are_weighed() -> None:
    assert 0 <= cancels_leave(2000) < 1


def test_memory_is_weighed_in_a_process_of_its_own() -> None:
    assert memory.idle_sessions(1000).unit == "bytes"
    assert memory.waiting_runs(20_000).value > 100


def test_a_curve_has_every_size() -> None:
    curve = growth.measured("W1", scale=0.0)
    assert list(curve.us) == list(curve.off) == list(growth.SIZES)
    figure = growth.figure(curve)
    assert figure.value > 0
    assert figure.without_collector


def test_a_profile_counts_the_calls_of_a_run_by_file() -> None:
    profile = profiling.profile(200)
    assert profile.calls["face.py"] >= 1
    assert profile.calls["aio/run.py"] >= 1


def test_the_queue_by_hand_does_the_work() -> None:
    watch = Stopwatch()
    queues(watch, 100)
    assert watch.sample().wall_s > 0


# --- the page ---


def test_the_page_shows_what_was_measured() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text) == text, "run `python -m benchmarks.page`"


def test_the_page_shows_every_work_at_full_size() -> None:
    bench = page.load("bench")
    assert {figure["work"] for figure in bench["figures"]} == {f"W{i}" for i in range(1, 13)}
    assert bench["scale"] == 1.0


def test_every_file_that_the_page_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", page.PAGE.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.PAGE.parent / link).exists()] == []
