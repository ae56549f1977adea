"""Where the choices of a simulation come from: a seed, a list, Hypothesis, or a few deviations.

Rule 1. Choice 0 is always the one that asyncio itself would take: what became ready first.
Rule 2. The same order gives the same choices to the same questions. That is how a failure replays.
Rule 3. A question with one answer is not asked.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from sessionsched.testing.deviations import passed_over

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Deviating", "Drawn", "Listed", "Order", "Seeded", "as_order"]


class Order(ABC):
    """A source of choices, for one simulation."""

    def __init__(self) -> None:
        #: What was chosen so far; `Listed(made)` chooses the same again.
        self.made: list[int] = []

    def begin(self) -> None:
        """Begin from the beginning: for one simulation after the other."""
        self.made = []

    def pick(self, count: int) -> int:
        """Choose one of so many, from 0 on; there are at least two."""
        choice = self._pick(count)
        self.made.append(choice)
        return choice

    @abstractmethod
    def _pick(self, count: int) -> int: ...


class Seeded(Order):
    """At random, the same for the same seed on every Python."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._seed = seed
        self.begin()

    def begin(self) -> None:
        """Begin from the beginning."""
        super().begin()
        rng = random.Random(self._seed)  # noqa: S311 - to do the same again is the point
        self._random = rng.random

    def __repr__(self) -> str:
        return f"Seeded({self._seed})"

    def _pick(self, count: int) -> int:
        return int(self._random() * count)


class Listed(Order):
    """As a list says; after its end, and where it asks for too much, as asyncio would."""

    def __init__(self, choices: Iterable[int] = ()) -> None:
        super().__init__()
        self._choices = tuple(choices)

    def __repr__(self) -> str:
        return f"Listed({list(self._choices)})"

    def _pick(self, count: int) -> int:
        at = len(self.made)
        return min(self._choices[at], count - 1) if at < len(self._choices) else 0


class Deviating(Order):
    """As asyncio would, but for some deviations: see `sessionsched.testing.deviations`."""

    def __init__(self, schedule: Iterable[int] = ()) -> None:
        super().__init__()
        self._schedule = Counter(schedule)
        self.begin()

    def begin(self) -> None:
        """Begin from the beginning."""
        super().begin()
        #: How many other choices there were at each point.
        self.others: list[int] = []

    def __repr__(self) -> str:
        return f"Deviating({tuple(self._schedule.elements())})"

    def _pick(self, count: int) -> int:
        self.others.append(count - 1)
        return passed_over(self._schedule, len(self.others), count - 1)


class Drawn(Order):
    """As Hypothesis draws them, so that it looks for what fails, and shrinks it."""

    def __init__(self, data: Any) -> None:
        """Draw from `data`, as `hypothesis.strategies.data()` gives it to a test."""
        from hypothesis import strategies  # noqa: PLC0415 - only whoever draws needs it

        super().__init__()
        self._draw, self._integers = data.draw, strategies.integers

    def __repr__(self) -> str:
        return f"Listed({self.made})"  # what was drawn can't be drawn again, but it can be listed

    def _pick(self, count: int) -> int:
        choice: int = self._draw(self._integers(0, count - 1))
        return choice


def as_order(order: Order | int) -> Order:
    """Take a number for a seed."""
    return Seeded(order) if isinstance(order, int) else order
