"""The baton: real threads, one at a time, in an order that is chosen and can be repeated.

Rule 1. Only the thread that has the baton runs. It may pass it on at *points*: at every operation
        of a lock (event, queue ...) and before every line of `files` that is under no lock.
Rule 2. Left alone, a thread keeps the baton until it is over or has to wait. A schedule names the
        points where this is not so: a *deviation* passes the baton to the next thread, and if it
        names the point twice, to the one after that. Points without a choice don't count.
Rule 3. Time stands still while anybody can go on; then the earliest timeout is over.
Rule 4. The same story and the same schedule give the same run: that is how a failure is repeated.
        So the collector waits meanwhile: it would come, and call what it finds, at any line.

Most races need one or two switches at the wrong moment. So all schedules with up to a few
deviations are tried, one after the other, where hammering with real threads waits for luck.

    def story(baton):                            # is told anew for each schedule
        with baton.stands_in([accounts]):        # the module's `threading`, `time`, `SimpleQueue`
            account = accounts.Account()
            pay = lambda: account.pay(1)
            yield [pay, pay]                     # these run at the same time, in two threads
            assert account.balance == 2          # then look at what came of it

    found = explore(story, deviations=2, files=["accounts.py"])
    print(found.schedules, found.failed)         # 3 (2,)
    repeat(story, found.failed, files=["accounts.py"])

What happens within one line is one step: a race inside of `count += 1` is not seen.
Threads that the code itself starts take part, also those started before the `yield`, and may still
wait at the end. `baton.run(bodies)` before or after the `yield` lets threads run undisturbed.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Any

from sessionsched.testing.deviations import Explored, try_all
from sessionsched.testing.relay import Baton, Stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from typing import TypeAlias

    from sessionsched.testing.deviations import Schedule
    from sessionsched.testing.relay import Bodies

    Story: TypeAlias = Callable[[Baton], Generator[Bodies, None, None]]

__all__ = ["Baton", "Explored", "Stuck", "explore", "repeat"]


def explore(story: Story, deviations: int = 3, limit: int | None = None, **how: Any) -> Explored:
    """Try all schedules with up to so many deviations, those with fewer first.

    Stops at the first failure, or after `limit` schedules. `how` is as for a Baton.
    """

    def tell(schedule: Schedule, count_all: bool) -> list[int]:  # noqa: FBT001 - for try_all
        baton = Baton(schedule, count_all=count_all, **how)
        _tell(story, baton)
        return baton.choices

    return try_all(tell, deviations, limit)


def repeat(story: Story, schedule: Iterable[int], **how: Any) -> None:
    """Tell a story once more, under the schedule that it failed with. Raises what it raised."""
    _tell(story, Baton(schedule, **how))


def _tell(story: Story, baton: Baton) -> None:
    with _without_the_collector(), contextlib.closing(story(baton)) as telling:
        try:
            baton.run(next(telling), deviate=True)
            for _ in telling:
                raise RuntimeError("a story yields once; baton.run lets more threads run")
        finally:
            baton.end()


@contextlib.contextmanager
def _without_the_collector() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
