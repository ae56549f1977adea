"""The picture of docs/performance.md: the growth curves, and the peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["draw"]

OURS: Final = "#1f6f8b"
THEIRS: Final = "#b8c4c9"
#: Of the growth curves: W1, W2 and the base.
COLOURS: Final = (OURS, "#d98c3f", THEIRS)
ALLOWED: Final = 1.3


def draw(growth: list[dict[str, Any]], peers: list[dict[str, Any]], path: Path) -> None:
    """Draw both, side by side. The same figures give the same file."""
    mpl.rcParams["svg.hashsalt"] = "sessionsched"
    canvas = Canvas(figsize=(11, 4), layout="constrained")
    left, right = canvas.subplots(1, 2)
    draw_growth(left, growth)
    draw_peers(right, peers)
    canvas.savefig(path, metadata={"Date": None})


def draw_growth(axes: Any, growth: list[dict[str, Any]]) -> None:
    """Draw the cost of a run, relative to that at a thousand runs: flat is good."""
    for curve, colour in zip(growth, COLOURS, strict=True):
        for how, style, when in (("us", "o-", ""), ("off", "o:", ", gc off")):
            sizes = [int(n) for n in curve[how]]
            costs = [us / next(iter(curve[how].values())) for us in curve[how].values()]
            axes.plot(sizes, costs, style, color=colour, markersize=4, label=curve["work"] + when)
    axes.axhline(ALLOWED, color="grey", linewidth=0.8, label="the bar at 1M")
    axes.set(
        xscale="log", ylim=(0, None), xlabel="runs", ylabel="cost of a run (1 = at 1,000 runs)",
        title="Growth",
    )  # fmt: skip
    axes.legend()


def draw_peers(axes: Any, peers: list[dict[str, Any]]) -> None:
    """Draw the cost of a run on each peer, in units of a bare task."""
    rows = sorted(peers, key=lambda it: -float(it["cpu"]))
    names = [it["name"] for it in rows]
    costs = [float(it["cpu"]) for it in rows]
    colours = [OURS if name == "sessionsched" else THEIRS for name in names]
    bars = axes.barh(names, costs, color=colours)
    axes.bar_label(bars, labels=[f"{cost:.1f}" for cost in costs], padding=3)
    axes.axvline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        xscale="log", xlim=(0.3, max(costs) * 3), xlabel="cost of a run (1 = asyncio.create_task)",
        title="The same work on others",
    )  # fmt: skip
