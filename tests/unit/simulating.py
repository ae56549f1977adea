"""What tests of simulations need: a story with three tasks, and the orders that it can take."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sessionsched.testing.simulate import simulated

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["ALL", "hang", "orders_of", "run", "three"]


def run(main: Coroutine[Any, Any, Any], order: Any = 0, **how: Any) -> Any:
    with simulated(order, **how) as simulation:
        return simulation.run(main)


def orders_of(main: Callable[[], Coroutine[Any, Any, str]], seeds: int = 300) -> set[str]:
    return {run(main(), seed) for seed in range(seeds)}


async def three(*delays: float) -> str:
    """Three tasks, each of which writes its name after a while."""
    written: list[str] = []

    async def write(name: str, delay: float) -> None:
        await asyncio.sleep(delay)
        written.append(name)

    await asyncio.gather(*(write(*it) for it in zip("abc", delays, strict=True)))
    return "".join(written)


ALL = {"abc", "acb", "bac", "bca", "cab", "cba"}


async def hang() -> None:
    """Wait for what will never come."""
    await asyncio.get_running_loop().create_future()
