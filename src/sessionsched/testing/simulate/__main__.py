"""Try seeds, or replay one: `python -m sessionsched.testing.simulate --seeds 100000 --jobs 2`."""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import TYPE_CHECKING

from sessionsched.testing.simulate.order import Deviating, Order, Seeded
from sessionsched.testing.simulate.scenario import play
from sessionsched.testing.simulate.search import deviate, search

if TYPE_CHECKING:
    from sessionsched.testing.simulate.search import Found

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Do as the arguments say. Gives 1 if something was wrong."""
    asked = _parser().parse_args(argv)
    if asked.seed is not None:
        schedule = asked.schedule and [int(at) for at in asked.schedule.split(",")]
        return _replay(asked.seed, Deviating(schedule) if schedule else Seeded(asked.seed))
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.deviations is not None:
        return max((_deviate(seed, asked.deviations, asked.limit) for seed in seeds), default=0)
    return _search(seeds, asked.jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sessionsched.testing.simulate", description=(
        "Play small scenarios around the asyncio scheduler, each in an order of its own, and judge "
        "them by the contract."
    ))  # fmt: skip
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="in so many processes")
    parser.add_argument("--seed", type=int, help="replay this one, and show what happens")
    parser.add_argument("--schedule", help="with --seed: the deviations, as 12,40")
    parser.add_argument("--deviations", type=int, help=(
        "play each seed's scenario in all orders with up to so many deviations from asyncio's"
    ))  # fmt: skip
    parser.add_argument("--limit", type=int, default=10_000, help="orders for each of those")
    return parser


def _search(seeds: range, jobs: int) -> int:
    found = search(seeds, jobs, _progress)
    per_second = found.seeds / max(found.seconds, 1e-9)
    _print(f"{found.seeds:,} seeds in {found.seconds:.0f} s, {per_second:,.0f} per second")
    if found.failed is None:
        _print("all is well")
        return 0
    _print(f"{found.error}\nWRONG; to replay it: --seed {found.failed}")
    return 1


def _deviate(seed: int, deviations: int, limit: int) -> int:
    found = deviate(seed, deviations, limit)
    some = "all" if found.complete else "the first"
    _print(f"scenario {seed}: {some} {found.schedules:,} orders, {found.points} points")
    if found.error is None:
        return 0
    traceback.print_exception(found.error)
    schedule = ",".join(map(str, found.failed or ()))
    _print(f"WRONG; to replay it: --seed {seed} --schedule {schedule}")
    return 1


def _replay(seed: int, order: Order) -> int:
    try:
        scenario = play(seed, order)
    except Exception:  # noqa: BLE001 - it is what was asked for
        traceback.print_exc()
        return 1
    _print(f"{scenario.story()}\nall is well")
    return 0


def _progress(found: Found) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(f"\r{found.seeds:,} seeds\r")
        sys.stdout.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
