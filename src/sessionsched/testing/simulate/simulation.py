"""One simulation: an order, a loop, and what was left behind at the end of it.

Rule 1. It ends as `asyncio.run` does: what is left is canceled, async generators are closed.
Rule 2. What asyncio would only log is a failure.
Rule 3. The garbage collector runs when the simulation is over and not before, since its timing is
        another one each time.
Rule 4. A failure says how to replay it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from sessionsched.testing.deviations import try_all
from sessionsched.testing.simulate.loop import SimulatedLoop, Stuck
from sessionsched.testing.simulate.order import Deviating, Listed, Order, Seeded, as_order

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from sessionsched.testing.deviations import Schedule

__all__ = [
    "TORN_DOWN",
    "WITHIN_S",
    "Complained",
    "Simulation",
    "choose",
    "quiet",
    "simulate",
    "simulated",
]

AnswerT = TypeVar("AnswerT")
GivenP = ParamSpec("GivenP")

#: A day. Who waits for longer than that in a test waits for ever.
WITHIN_S: Final = 86_400.0
#: What asyncio complains of when tasks fail that it cancels at its end.
TORN_DOWN: Final = "unhandled exception during asyncio.run() shutdown"
#: For the clean-up after a failure: how often tasks that are left are told to stop.
_PATIENCE: Final = 10


class Complained(AssertionError):
    """asyncio would have logged this."""


class Simulation:
    """One order of one story."""

    def __init__(self, order: Order, *, grid: float, within: float) -> None:
        order.begin()
        self.order = order
        self.loop = SimulatedLoop(order, grid=grid, within=within)

    def run(self, main: Coroutine[Any, Any, AnswerT]) -> AnswerT:
        """Run this to its end, and give what it returns.

        Raises:
            Stuck: it waits for what will never come, or goes on for too long.
            BaseException: what it raises.
        """
        answer: AnswerT = self.loop.run_until_complete(main)
        return answer

    def whenever_quiet(self, check: Callable[[], object]) -> None:
        """Have this called whenever nobody can go on without time's passing, to look around.

        What it raises ends the simulation, as a failure.
        """
        self.loop.whenever_quiet.append(check)

    def end(self) -> None:
        """End as `asyncio.run` does, and complain of what asyncio would log. Once is enough.

        Raises:
            Complained: there was something.
            Stuck: somebody who was canceled does not come to an end.
        """
        loop = self.loop
        if loop.is_closed():
            return
        if tasks := self._cancel_all():
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            for task in tasks:
                self._complain_of(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.quiet())  # let the last callbacks run
        loop.close()
        del tasks
        _collect()  # tasks complain when they are collected
        if loop.complaints:
            said = loop.complaints[0]
            raise Complained(_in_words(said)) from said.get("exception")

    def abort(self) -> None:
        """End after a failure: let everybody clean up who can."""
        if self.loop.is_closed():
            return
        self.loop.whenever_quiet.clear()
        self.loop.order = Listed()  # the other one may be what has failed
        for _ in range(_PATIENCE):
            tasks = self._cancel_all()
            if not tasks:
                break
            with contextlib.suppress(Stuck):
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=1.0))
        with contextlib.suppress(Stuck):
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def _cancel_all(self) -> list[asyncio.Task[Any]]:
        tasks = self.loop.tasks()
        for task in tasks:
            task.cancel()
        return tasks

    def _complain_of(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            about = {"message": TORN_DOWN, "exception": error, "task": task}
            self.loop.call_exception_handler(about)


def _collect() -> None:
    """Collect garbage: all that is young, and older generations as often as Python would."""
    counts, limits = gc.get_count(), gc.get_threshold()
    gc.collect(max(it for it in range(3) if it == 0 or counts[it] > limits[it]))


def _in_words(said: dict[str, Any]) -> str:
    more = [f"{key}: {value!r}" for key, value in said.items() if key != "message"]
    return "; ".join([f"asyncio would log: {said.get('message')}", *more])


@contextlib.contextmanager
def simulated(
    order: Order | int = 0, *, grid: float = 0.0, within: float = WITHIN_S
) -> Iterator[Simulation]:
    """Have a loop that runs in one chosen order.

        with simulated(7) as simulation:
            simulation.run(main())

    Args:
        order: Who goes next; a number is a seed.
        grid: Timers come due at multiples of so many seconds, together, and which of them goes
            first is a choice. With 0 only those meet that ask for the same time.
        within: So many virtual seconds may pass.
    """
    simulation = Simulation(as_order(order), grid=grid, within=within)
    collects = gc.isenabled()
    gc.disable()
    try:
        yield simulation
        simulation.end()
    except BaseException as error:
        simulation.abort()
        error.add_note(f"to replay this order: simulated({simulation.order!r})")
        raise
    finally:
        simulation.loop.close()
        simulation.loop.set_exception_handler(None)  # what is collected later is nobody's business
        if collects:
            gc.enable()


def simulate(
    *,
    orders: int = 1000,
    seed: int = 0,
    order: Order | None = None,
    deviations: int | None = None,
    grid: float = 0.0,
    within: float = WITHIN_S,
) -> Callable[[Callable[GivenP, Coroutine[Any, Any, object]]], Callable[GivenP, None]]:
    """Make a test of an `async def`, which runs it in many orders.

    What it is given, fixtures of pytest for one, is given to each run anew, but made once.

    Args:
        orders: How many.
        seed: The first of as many seeds. `orders=1` and a seed replay one.
        order: This one instead.
        deviations: Instead of seeds, asyncio's own order and all with up to so many deviations
            from it, but not more than `orders`.
        grid: As for `simulated`.
        within: As for `simulated`.
    """

    def decorate(main: Callable[GivenP, Coroutine[Any, Any, object]]) -> Callable[GivenP, None]:
        def once(which: Order, *args: GivenP.args, **kwargs: GivenP.kwargs) -> None:
            with simulated(which, grid=grid, within=within) as simulation:
                simulation.run(main(*args, **kwargs))

        @functools.wraps(main)
        def test(*args: GivenP.args, **kwargs: GivenP.kwargs) -> None:
            def tell(schedule: Schedule, _: object) -> list[int]:
                deviating = Deviating(schedule)
                once(deviating, *args, **kwargs)
                return deviating.others

            if order is not None:
                once(order, *args, **kwargs)
            elif deviations is None:
                for each in range(seed, seed + orders):
                    once(Seeded(each), *args, **kwargs)
            elif (error := try_all(tell, deviations, orders).error) is not None:
                raise error

        return test

    return decorate


def choose(first: AnswerT, *others: AnswerT) -> AnswerT:
    """Choose one of these as the order of the simulation says; elsewhere it is the first.

    For faults: `if choose(False, True): raise ConnectionError` fails in some orders.
    """
    loop = asyncio.get_running_loop()
    if not others or not isinstance(loop, SimulatedLoop):
        return first
    return (first, *others)[loop.order.pick(1 + len(others))]


async def quiet() -> None:
    """Let everything happen that can happen without time's passing. Only under simulation.

    Raises:
        RuntimeError: this is another loop, which does not know when it is quiet.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimulatedLoop):
        raise RuntimeError("only a simulated loop knows when nobody can go on")  # noqa: TRY004
    await loop.quiet()
