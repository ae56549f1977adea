"""`make bench-peers`: the W1 work on each peer, in units of the W1 base.

Rule 1. Each peer has a process of its own, in which it and the base are measured in turns.
Rule 2. A peer that is slow does fewer runs: what is compared is the cost of one.
Rule 3. A peer that isn't there, or fails, is shown as such and stops nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, frozen

from benchmarks.bases import all_tasks
from benchmarks.interleave import Series, one_pass
from benchmarks.peers import by_hand, on_actors, on_graphs, on_tasks
from benchmarks.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.interleave import Side

ROOT: Final = Path(__file__).parents[2]
ROUNDS: Final = 3
BASE_RUNS: Final = 100_000


@frozen
class Peer:
    """Some library, and how the work is done with it."""

    name: str
    #: As it is installed; empty for what needs nothing.
    package: str
    side: Side
    n: int


@frozen
class Result:
    """What one run costs on a peer."""

    name: str
    version: str
    n: int
    #: In units of the W1 base: the minimum on the CPU's clock, and on the wall's.
    cpu: float
    wall: float
    us: float


# fmt: off
PEERS: Final = (
    Peer("asyncio.Queue by hand", "", by_hand.queues, 100_000),
    Peer("sessionsched", "sessionsched", by_hand.ours, 100_000),
    Peer("anyio streams", "anyio", on_tasks.anyio_streams, 50_000),
    Peer("aiojobs", "aiojobs", on_tasks.aiojobs_schedulers, 50_000),
    Peer("thespian", "thespian", on_actors.thespian_simple, 20_000),
    Peer("pykka", "pykka", on_actors.pykka_threads, 10_000),
    Peer("taskiq in memory", "taskiq", on_tasks.taskiq_in_memory, 5_000),
    Peer("APScheduler", "apscheduler", on_tasks.apscheduler_dates, 2_000),
    Peer("autogen-core", "autogen-core", on_actors.autogen_agents, 2_000),
    Peer("langgraph, one node", "langgraph", on_graphs.langgraph_one_node, 1_000),
)
# fmt: on


def measure(peer: Peer, scale: float) -> Result:
    """Measure a peer and the base in turns, in this process."""
    n, base_n = max(100, int(peer.n * scale)), max(100, int(BASE_RUNS * scale))
    peer.side(Stopwatch(), max(100, n // 10))
    theirs, base = Series(), Series()
    for _ in range(ROUNDS):
        theirs.samples.append(one_pass(peer.side, n, collector=True))
        base.samples.append(one_pass(all_tasks, base_n, collector=True))

    def ratio(clock: str) -> float:
        return (theirs.of(clock, "min") / n) / (base.of(clock, "min") / base_n)

    found = version(peer.package) if peer.package else ""
    us = theirs.of("cpu_s", "min") / n * 1e6
    return Result(peer.name, found, n, ratio("cpu_s"), ratio("wall_s"), us)


def in_a_process(peer: Peer, scale: float) -> Result | str:
    """Measure a peer in a process of its own. Gives what it complained of, if it failed."""
    command = [sys.executable, "-m", "benchmarks.peers", "--one", peer.name, "--scale", str(scale)]
    try:
        if peer.package:
            version(peer.package)
        done = subprocess.run(  # noqa: S603 - ours
            command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
        )
        fields: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        result = Result(**fields)
    except PackageNotFoundError:
        return "not installed"
    except subprocess.TimeoutExpired:
        return "takes too long"
    except subprocess.CalledProcessError as error:
        complaint: list[str] = error.stderr.strip().splitlines()
        return complaint[-1] if complaint else "failed"
    return result


def arguments(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01 for a quick look")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args(args)


def main() -> None:
    """Measure every peer that is there, and show what it costs."""
    options = arguments()
    if options.one is not None:
        (peer,) = (peer for peer in PEERS if peer.name == options.one)
        print(json.dumps(asdict(measure(peer, options.scale))))
        return
    print(f"{'W1 on':30}{'runs':>8}{'us/run':>9}{'cpu':>8}{'wall':>8}   in units of the W1 base")
    results: list[Result] = []
    for peer in PEERS:
        result = in_a_process(peer, options.scale)
        if isinstance(result, str):
            print(f"{peer.name:30}{result}", flush=True)
            continue
        results.append(result)
        name = f"{result.name} {result.version}".strip()
        print(
            f"{name:30}{result.n:8}{result.us:9.1f}{result.cpu:8.1f}{result.wall:8.1f}", flush=True
        )
    if options.json is not None:
        text = json.dumps([asdict(result) for result in results], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
