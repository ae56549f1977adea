"""Where each microsecond of W1 goes.

Rule 1. Calls are counted: the number of Python functions called for each run, by file. It is exact.
Rule 2. Time is sampled, not traced: a tracer makes small functions look expensive. The collector is
        off meanwhile, and what it costs is timed apart.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from benchmarks.interleave import one_pass
from benchmarks.lines import over_sessions
from benchmarks.stopwatch import Stopwatch

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from benchmarks.interleave import Side

__all__ = ["Profile", "profile"]

#: Seconds of CPU time between two samples.
INTERVAL_S: Final = 0.001


@frozen
class Profile:
    """What one run of W1 costs, and where."""

    #: Microseconds for each run: the whole, and what the collector takes beside it.
    us: float
    collector_us: float
    #: Python calls for each run, and microseconds, by file.
    calls: dict[str, float]
    split_us: dict[str, float]


def place(code: CodeType) -> str:
    """Name the part of the program that some code belongs to."""
    name = code.co_filename
    if name.startswith("<attrs generated"):
        return "making attrs objects"
    if "/asyncio/" in name:
        return "asyncio"
    if "/sessionsched/" in name:
        return name.rpartition("/sessionsched/")[2]
    return "the work itself" if "/benchmarks/" in name else "the rest of Python"


def count_calls(side: Side, n: int) -> Counter[str]:
    """Count Python calls, by part."""
    calls: Counter[CodeType] = Counter()

    def note(frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    sys.setprofile(note)
    try:
        side(Stopwatch(), n)
    finally:
        sys.setprofile(None)
    return by_place(calls)


def sample_time(side: Side, n: int) -> tuple[Counter[str], float]:
    """Look every millisecond where the program is. Gives that, and the seconds of the work."""
    seen: Counter[CodeType] = Counter()

    def look(_number: int, frame: FrameType | None) -> None:
        if frame is not None:
            seen[frame.f_code] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        seconds = one_pass(side, n, collector=False).cpu_s
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return by_place(seen), seconds


def collector_time(side: Side, n: int) -> float:
    """Give the seconds that the collector takes while the work is done."""
    spent = 0.0

    def note(phase: str, _info: dict[str, Any]) -> None:
        nonlocal spent
        spent += time.process_time() * (1 if phase == "stop" else -1)

    gc.collect()
    gc.callbacks.append(note)
    try:
        side(Stopwatch(), n)
    finally:
        gc.callbacks.remove(note)
    return spent


def by_place(counts: Counter[CodeType]) -> Counter[str]:
    """Add up what belongs to the same part."""
    places: Counter[str] = Counter()
    for code, count in counts.items():
        places[place(code)] += count
    return places


def profile(n: int) -> Profile:
    """Profile W1 with so many runs."""
    over_sessions(Stopwatch(), max(100, n // 10))
    calls = count_calls(over_sessions, n)
    seen, seconds = sample_time(over_sessions, n)
    each = seconds / n * 1e6 / max(1, seen.total())
    return Profile(
        us=seconds / n * 1e6,
        collector_us=collector_time(over_sessions, n) / n * 1e6,
        calls={name: count / n for name, count in calls.most_common() if count >= n / 10},
        split_us={name: count * each for name, count in seen.most_common()},
    )
