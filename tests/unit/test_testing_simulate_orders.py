"""Many orders of one test, faults in some of them, and how a failure replays."""

from __future__ import annotations

import asyncio
import re

import pytest
from simulating import ALL, orders_of, run, three

from sessionsched.testing.simulate import (
    Listed,
    Seeded,
    choose,
    simulate,
)

# --- faults ---


def test_a_test_can_have_choices_of_its_own() -> None:
    async def main() -> str:
        return choose("fine", "late", "broken")

    assert orders_of(main, 50) == {"fine", "late", "broken"}
    assert run(main(), Listed()) == "fine"
    assert run(main(), Listed([2])) == "broken"
    assert asyncio.run(main()) == "fine"


# --- many orders ---


def test_a_function_becomes_a_test_in_many_orders() -> None:
    words = []

    @simulate(orders=200)
    async def in_many_orders(delay: float, *, other: float) -> None:
        """Say something."""
        words.append(await three(delay, other, other))

    in_many_orders(1, other=1)
    assert len(words) == 200
    assert set(words) == ALL
    assert in_many_orders.__doc__ == "Say something."
    assert not asyncio.iscoroutinefunction(in_many_orders)


async def fails_in_some_orders() -> None:
    word = await three(0, 0, 0)
    assert word != "cab", "this is the order"


def test_a_failure_says_how_to_replay_it_and_does_replay() -> None:
    with pytest.raises(AssertionError, match="this is the order") as failed:
        simulate(orders=1000)(fails_in_some_orders)()
    (note,) = failed.value.__notes__
    (seed,) = map(int, re.findall(r"^to replay this order: simulated\(Seeded\((\d+)\)\)$", note))
    order = Seeded(seed)
    for again in (simulate(orders=1, seed=seed), simulate(order=order), simulate(order=order)):
        with pytest.raises(AssertionError, match="this is the order"):
            again(fails_in_some_orders)()
    with pytest.raises(AssertionError, match="this is the order"):
        simulate(order=Listed(order.made))(fails_in_some_orders)()


def test_all_orders_with_a_few_deviations_are_tried() -> None:
    words: list[str] = []

    async def main() -> None:
        words.append(await three(0, 0, 0))

    simulate(deviations=0)(main)()
    assert words == ["abc"]
    simulate(deviations=3)(main)()
    assert set(words) == ALL
    words.clear()
    simulate(deviations=3, orders=5)(main)()
    assert len(words) == 5
    with pytest.raises(AssertionError, match="this is the order") as failed:
        simulate(deviations=3)(fails_in_some_orders)()
    assert "Deviating(" in failed.value.__notes__[0]
