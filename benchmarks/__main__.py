"""`make bench`: every work with its bar, as a table that grows while it is measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict

from benchmarks import growth, memory, profiling
from benchmarks.figures import COLUMNS, Figure, cells
from benchmarks.interleave import Plan
from benchmarks.lines import cancels_leave
from benchmarks.works import WORKS, measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WIDTHS: Final = (35, 21, 6, 8, 7, 9, 7, 7, 7, 8, 8)
ORDER: Final = [f"W{number}" for number in range(1, 13)]


def show(row: Sequence[str]) -> None:
    """Print one row of the table."""
    texts = zip(row, WIDTHS, strict=True)
    line = "".join(
        text.ljust(width) if i < 2 else text.rjust(width)  # noqa: PLR2004 - words, then numbers
        for i, (text, width) in enumerate(texts)
    )
    print(line.rstrip(), flush=True)


def figures(
    only: Sequence[str], plan: Plan, scale: float, curves: list[growth.Curve]
) -> Iterator[Figure]:
    """Measure what was asked for, in the order of the works."""
    works = {work.name: work for work in WORKS}
    for name in (name for name in ORDER if name in only):
        if name in works:
            yield from measured(works[name], plan, scale)
        if name == "W3":
            left = cancels_leave(int(100_000 * scale))
            yield Figure("W3", "100k cancels leave behind", "", left, 0, "bytes")
        elif name == "W5":
            yield memory.idle_sessions(int(1_000_000 * scale))
        elif name == "W6":
            yield memory.waiting_runs(int(1_000_000 * scale))
        elif name == "W11":
            for work, (_, has_bar) in growth.CURVES.items():
                curves.append(growth.measured(work, scale))
                if has_bar:
                    yield growth.figure(curves[-1])


def machine() -> dict[str, Any]:
    """Say where this was measured."""
    return {
        "python": platform.python_version(), "system": platform.system(),
        "machine": platform.machine(), "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def arguments(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    parser.add_argument("--only", default=",".join(ORDER), help="works, as W1,W7; all by default")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each work; 2 by default")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 for a quick look")
    parser.add_argument("--strict", action="store_true", help="fail when a bar is missed")
    return parser.parse_args(args)


def main() -> int:
    """Measure, show, and write down."""
    options = arguments()
    where = machine()
    print(", ".join(f"{name} {value}" for name, value in where.items()))
    show(COLUMNS)
    found: list[Figure] = []
    curves: list[growth.Curve] = []
    plan = Plan(seconds=options.seconds)
    for figure in figures(options.only.upper().split(","), plan, options.scale, curves):
        show(cells(figure))
        found.append(figure)
    missed = [figure for figure in found if not figure.met]
    print(f"{len(found) - len(missed)} of {len(found)} bars are met")
    if options.json is not None:
        profile = profiling.profile(int(100_000 * options.scale))
        whole = {
            "machine": where, "scale": options.scale, "figures": [asdict(it) for it in found],
            "growth": [asdict(it) for it in curves], "profile": asdict(profile),
        }  # fmt: skip
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 1 if options.strict and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
