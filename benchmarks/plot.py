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
    for curve, style in zip(growth, ("o-", "s--"), strict=True):
        sizes = [int(n) for n in curve["us"]]
        first = next(iter(curve["us"].values()))
        axes.plot(sizes, [us / first for us in curve["us"].values()], style, label=curve["work"])
    axes.axhline(ALLOWED, color="grey", linewidth=0.8, linestyle=":", label="the bar at 1M")
    axes.set(
        xscale="log", ylim=(0, 2), xlabel="runs", ylabel="cost of a run (1 = at 1,000 runs)",
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
