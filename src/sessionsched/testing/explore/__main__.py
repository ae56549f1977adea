"""The command: `python -m sessionsched.testing.explore --prompts 4 --cancels 2`."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from sessionsched.testing.explore import Config, Report, explore
from sessionsched.testing.explore.plans import PLANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FLOOR = 3


def main(argv: list[str] | None = None) -> int:
    """Explore what the arguments say. Gives 1 if a sentence was broken."""
    args = _parser().parse_args(argv)
    if args.plan:
        reports = _in_parallel(PLANS[args.plan])
    else:
        reports = [_explore_with_progress(_config(args))]
        _print(str(reports[0]))
    found = [report for report in reports if not report.ok]
    return 1 if found else 0


def _in_parallel(plan: Mapping[str, Config]) -> list[Report]:
    """Explore several worlds, as many at once as there are processors."""
    reports = []
    with ProcessPoolExecutor() as pool:
        for name, report in zip(plan, pool.map(explore, plan.values()), strict=True):
            _print(f"{name}: {report}")
            reports.append(report)
    _print(_sum(reports))
    return reports


def _sum(reports: Iterable[Report]) -> str:
    parts = list(reports)
    states = sum(report.states for report in parts)
    calls = sum(report.calls + report.wrong_calls for report in parts)
    broken = sum(not report.ok for report in parts)
    verdict = f"{broken} of {len(parts)} found a violation" if broken else "every sentence held"
    return f"in all: {states:,} states, {calls:,} calls made and judged: {verdict}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sessionsched.testing.explore", description=(
        "Walk every interleaving of prompts and cancels on the real table, and judge each step by "
        "the contract."
    ))  # fmt: skip
    parser.add_argument("--prompts", type=_prompts, default=4.0, help="in all; 3 or more")
    parser.add_argument("--cancels", type=float, default=2.0, help="in all, of every kind")
    parser.add_argument("--holds", type=float, default=1.0)
    parser.add_argument("--promotes", type=float, default=1.0)
    parser.add_argument("--in-flight", type=_prompts, metavar="N", help=(
        "histories of any length, with at most N runs in flight at once (overrides the four above)"
    ))  # fmt: skip
    parser.add_argument("--sessions", type=int, choices=(1, 2), default=1)
    parser.add_argument("--slots", type=int, help="runs active at once over all sessions")
    parser.add_argument("--lag", action="store_true", help="effects are carried out late, in order")
    parser.add_argument("--everything", action="store_true", help=(
        "also supersede, deadline, expiry, withdrawal, failed preparation and shutdown"
    ))  # fmt: skip
    parser.add_argument("--plan", choices=tuple(PLANS), help=(
        "what `make test` and `make verify` explore"
    ))  # fmt: skip
    return parser


def _prompts(text: str) -> float:
    """Read a number of prompts."""
    if float(text) < FLOOR:
        msg = f"some bugs can't exist with fewer than {FLOOR} prompts"
        raise argparse.ArgumentTypeError(msg)
    return float(text)


def _config(args: argparse.Namespace) -> Config:
    options = {key: getattr(args, key) for key in ("sessions", "slots", "lag", "everything")}
    if args.in_flight is not None:
        return Config.endless(args.in_flight, **options)
    return Config(args.prompts, args.cancels, args.holds, args.promotes, **options)


def _explore_with_progress(config: Config) -> Report:
    if not sys.stderr.isatty():
        return explore(config)
    report = explore(config, _show_progress)
    sys.stderr.write("\r\033[K")
    return report


def _show_progress(report: Report) -> None:
    sys.stderr.write(f"\r{report.states:,} states, {report.seconds:.0f} s")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
