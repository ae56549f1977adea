"""docs/performance.md: its tables are printed from what was measured, and the pictures drawn.

Rule 1. What stands between `<!-- name -->` and `<!-- end -->` is printed from here, the rest is
        written by hand.
Rule 2. The figures are kept in benchmarks/measured/, so the page can be checked without measuring.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.figures import COLUMNS, Figure, cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["PAGE", "filled", "load"]

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
MEASURED: Final = ROOT / "benchmarks" / "measured"


def load(name: str) -> Any:
    """Give what was measured: `bench` or `peers`."""
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """Give a Markdown table, whose first columns hold words and the others numbers."""
    rule = ["---" if i < words else "---:" for i in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))


def where() -> str:
    """Say where it was measured."""
    it = load("bench")["machine"]
    return (
        f"Python {it['python']}, {it['system']} {it['machine']}, {it['cores']} cores. "
        f"Load when it began: {it['load']}."
    )


def figures() -> str:
    """Give every work with its bar."""
    found = [Figure(**fields) for fields in load("bench")["figures"]]
    missed = sum(not figure.met for figure in found)
    rows = [[cell.replace("MISSED", "**missed**") for cell in cells(figure)] for figure in found]
    counted = f"{len(found) - missed} of {len(found)} bars are met."
    return f"{table(COLUMNS, rows, 2)}\n\n{counted}"


def growth() -> str:
    """Give microseconds per run, by the number of runs."""
    curves = load("bench")["growth"]
    heads = ["us per run", *(f"{int(n):,}" for n in curves[0]["us"])]
    rows = [
        [curve["work"] + when, *(f"{us:.1f}" for us in curve[how].values())]
        for curve in curves
        for how, when in (("us", ""), ("off", ", gc off"))
    ]
    return table(heads, rows, 1)


def profile() -> str:
    """Give where the time of a run goes, and its calls."""
    it = load("bench")["profile"]
    split, calls = it["split_us"], it["calls"]
    names = sorted({*split, *calls}, key=lambda name: (-split.get(name, 0.0), name))
    rows = [
        [name, f"{split.get(name, 0.0):.2f}", f"{calls.get(name, 0.0):.1f}"]
        for name in names
        if split.get(name, 0.0) >= 0.005 or name in calls  # noqa: PLR2004 - shown as 0.00
    ]
    rows.append(["**all**", f"**{it['us']:.2f}**", f"**{sum(calls.values()):.1f}**"])
    rows.append(["the collector, beside it", f"{it['collector_us']:.2f}", ""])
    return table(["where", "us per run", "Python calls per run"], rows, 1)


def peers() -> str:
    """Give the W1 work on each peer, the quickest first."""
    rows = [
        [f"{it['name']} {it['version']}".strip(), f"{it['n']:,}", f"{it['us']:.1f}",
         f"{it['cpu']:.1f}", f"{it['wall']:.1f}"]
        for it in sorted(load("peers"), key=lambda it: float(it["cpu"]))
    ]  # fmt: skip
    return table(["W1 on", "runs", "us per run", "cpu", "wall"], rows, 1)


PARTS: Final[dict[str, Callable[[], str]]] = {
    "where": where, "figures": figures, "growth": growth, "profile": profile, "peers": peers,
}  # fmt: skip


def filled(text: str) -> str:
    """Give the page with its tables as they were measured."""
    for name, part in PARTS.items():
        whole = f"<!-- {name} -->\n{part()}\n<!-- end -->"
        pattern = rf"<!-- {name} -->\n.*?<!-- end -->"
        text, found = re.subn(pattern, lambda _, it=whole: it, text, flags=re.DOTALL)  # type: ignore[misc]
        if found != 1:
            msg = f"{PAGE} has {found} places for {name!r}"
            raise SystemExit(msg)
    return text


def main() -> None:
    """Write the page, and draw its pictures: `--no-plot` to leave them as they are."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if "--no-plot" not in sys.argv:
        from benchmarks.plot import draw  # noqa: PLC0415 - matplotlib may not be there

        draw(load("bench")["growth"], load("peers"), PAGE.with_suffix(".svg"))


if __name__ == "__main__":
    main()
