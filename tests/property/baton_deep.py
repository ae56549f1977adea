"""All stories, as deep as there is time for: `python tests/property/baton_deep.py --deviations 3`.

The tests tell each story under the schedules of QUICK. This tells them under many more, says how
many, and exits with 1 when one fails, with the schedule to repeat it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

import baton_table
import baton_threads

from sessionsched.testing.baton import explore, repeat

if TYPE_CHECKING:
    from sessionsched.testing.baton import Story

#: Each story with the files whose lines are points in it.
STORIES: Final[dict[str, tuple[Story, tuple[str, ...]]]] = {
    f"{kind}: {name}": (story, module.FILES)
    for kind, module in (("table", baton_table), ("threads", baton_threads))
    for name, story in module.STORIES.items()
}


def plans(name: str) -> list[tuple[int, dict[str, Any]]]:
    """How a story is told by the tests: up to so many deviations, and which points there are."""
    files = STORIES[name][1]
    everywhere: tuple[int, dict[str, Any]] = (1, {"files": files, "under_locks": True})
    if name.startswith("table"):  # without files: only at the operations of locks
        return [(3, {}), (2, {"files": files}), everywhere]
    return [everywhere]


def main() -> int:
    """Tell them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deviations", type=int, default=2)
    parser.add_argument("--limit", type=int, default=20_000, help="schedules for each story")
    parser.add_argument("--under-locks", action="store_true", help="points under locks too")
    parser.add_argument("--only", default="", help="stories with this in their names")
    parser.add_argument("--schedule", default=None, help="repeat this one, as 12,40")
    asked = parser.parse_args()
    failed = 0
    for name, (story, files) in STORIES.items():
        how: dict[str, Any] = {"files": files, "under_locks": asked.under_locks}
        if asked.only not in name:
            continue
        if asked.schedule is not None:
            repeat(story, [int(at) for at in asked.schedule.split(",") if at], **how)
            continue
        began = time.monotonic()
        found = explore(story, asked.deviations, asked.limit, **how)
        failed += found.failed is not None
        some = "all" if found.complete else "the first"
        print(  # noqa: T201
            f"{name}: {some} {found.schedules} schedules, {found.points} points,"
            f" {time.monotonic() - began:.0f} s",
            flush=True,
        )
        if found.error is not None:
            traceback.print_exception(found.error)
            print(f"FAILED under schedule {found.failed}")  # noqa: T201
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
