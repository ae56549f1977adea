"""Looks for a seed, or a schedule, under which our scheduler breaks its contract.

Rule 1. Seeds are tried in blocks, in as many processes as there are jobs, until one fails.
Rule 2. A failure is reported with what replays it.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from attrs import define

from sessionsched.testing.deviations import try_all
from sessionsched.testing.simulate.order import Deviating
from sessionsched.testing.simulate.scenario import play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.testing.deviations import Explored, Schedule

__all__ = ["Found", "deviate", "search"]

#: How many seeds a process tries before it says how far it is.
BLOCK: Final = 1_000


@define
class Found:
    """What a search came to."""

    #: How many seeds were tried.
    seeds: int = 0
    seconds: float = 0.0
    #: The first that failed, and how; None: none did.
    failed: int | None = None
    error: str = ""


def search(seeds: range, jobs: int = 1, note: Callable[[Found], object] = bool) -> Found:
    """Try these seeds. `note` is called after every block."""
    found, began = Found(), time.monotonic()
    for tried, failed, error in _blocks(seeds, jobs):
        found.seeds += tried
        found.seconds = time.monotonic() - began
        if failed is not None and (found.failed is None or failed < found.failed):
            found.failed, found.error = failed, error
        note(found)
        if found.failed is not None:
            break
    return found


def deviate(seed: int, deviations: int, limit: int | None = None) -> Explored:
    """Play one scenario in asyncio's order, and in all with up to so many deviations from it."""

    def tell(schedule: Schedule, _: object) -> list[int]:
        order = Deviating(schedule)
        play(seed, order)
        return order.others

    return try_all(tell, deviations, limit)


def _blocks(seeds: range, jobs: int) -> Iterator[tuple[int, int | None, str]]:
    blocks = [seeds[at : at + BLOCK] for at in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(_try, blocks)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would copy whatever threads there are
    with ProcessPoolExecutor(jobs, spawn, initializer=gc.freeze) as pool:
        waiting = {pool.submit(_try, block) for block in blocks[: 2 * jobs]}
        following = iter(blocks[2 * jobs :])
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            more = itertools.islice(following, len(done))
            waiting |= {pool.submit(_try, block) for block in more}
            for future in done:
                yield future.result()


def _try(seeds: range) -> tuple[int, int | None, str]:
    """Say how many were tried, which one failed, and how."""
    for tried, seed in enumerate(seeds, 1):
        try:
            play(seed)
        except Exception:  # noqa: BLE001 - it is what we look for
            return tried, seed, traceback.format_exc()
    return len(seeds), None, ""
