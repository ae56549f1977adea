"""Simulate: asyncio in an order that is chosen and can be repeated, on a virtual clock.

    @simulate(orders=1000)
    async def test_my_agent() -> None:
        ...

Rule 1. Which of the tasks that are ready goes next is chosen: by a seed, by Hypothesis, by a list,
        or systematically. What one task hands to `call_soon` is called in that order all the same.
Rule 2. Time passes when nobody can go on, and at no other time; a test that waits for an hour takes
        none. Timers that are due together go in a chosen order, too.
Rule 3. Whoever waits for what will never come is found at once.
Rule 4. The same order gives the same run. A failure says how to replay it.

order.py       where choices come from
ready.py       who is ready, and who owns what; all that is private in asyncio
loop.py        the loop; surface.py is the part of it that has no choice
simulation.py  one simulation from its beginning to its end: `simulated`, `simulate`, `choose`
scenario.py    our own scheduler in a small crowd, for one seed
search.py      many seeds, in several processes; or all deviations

docs/simulate.md shows how to use it.
"""

from sessionsched.testing.simulate.loop import NotSimulated, SimulatedLoop, Stuck
from sessionsched.testing.simulate.order import Deviating, Drawn, Listed, Order, Seeded
from sessionsched.testing.simulate.simulation import (
    Complained,
    Simulation,
    choose,
    quiet,
    simulate,
    simulated,
)

__all__ = [
    "Complained",
    "Deviating",
    "Drawn",
    "Listed",
    "NotSimulated",
    "Order",
    "Seeded",
    "SimulatedLoop",
    "Simulation",
    "Stuck",
    "choose",
    "quiet",
    "simulate",
    "simulated",
]
