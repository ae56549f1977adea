"""`sessionsched explore`: a thin front for sessionsched.testing.explore."""

from __future__ import annotations

import json
import multiprocessing
import signal
from typing import TYPE_CHECKING, Any

import attrs

from sessionsched.cli.progress import progress
from sessionsched.testing.explore import ANY, Config, Report
from sessionsched.testing.explore import explore as explore_world
from sessionsched.testing.explore.plans import PLANS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from sessionsched.cli.progress import Show

__all__ = ["explore"]


def explore(args: argparse.Namespace) -> int:
    """Explore what the arguments say, print what was found; 1 if a sentence was broken."""
    worlds = PLANS[args.plan] if args.plan else {"": _config(args)}
    with progress() as show:
        reports = dict(_all(worlds, show))
    if args.json:
        print(json.dumps([_document(*each) for each in reports.items()], indent=2))
    else:
        print(*(f"{name}: {it}" if name else str(it) for name, it in reports.items()), sep="\n")
    return 0 if all(report.ok for report in reports.values()) else 1


def _config(args: argparse.Namespace) -> Config:
    rest = {key: getattr(args, key) for key in ("sessions", "slots", "lag", "everything")}
    if args.in_flight is not None:
        return Config.endless(args.in_flight, **rest)
    return Config(args.prompts, args.cancels, args.holds, args.promotes, **rest)


def _all(worlds: Mapping[str, Config], show: Show) -> Iterator[tuple[str, Report]]:
    """Explore one world here, or several in as many processes as there are processors."""
    if len(worlds) == 1:
        ((name, config),) = worlds.items()
        yield name, explore_world(config, lambda report: show(f"{report.states:,} states", 0.0))
        return
    # Not forked: a bar is being drawn by a thread. Left in whatever way, the pool is stopped.
    with multiprocessing.get_context("spawn").Pool(initializer=_leave_ctrl_c_to_us) as pool:
        found = pool.imap(explore_world, worlds.values())
        for done, (name, report) in enumerate(zip(worlds, found, strict=True), 1):
            show(f"{done} of {len(worlds)} worlds", done / len(worlds))
            yield name, report


def _leave_ctrl_c_to_us() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _document(name: str, report: Report) -> dict[str, Any]:
    """A report for machines; what has no end is null."""
    fields = attrs.asdict(report)
    fields["config"] = {k: None if v == ANY else v for k, v in fields["config"].items()}
    return {"world": name or None, "ok": report.ok, **fields}
