"""The simulated loop: who goes next, and what time it is."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest
from simulating import ALL, orders_of, run, three

from sessionsched.testing.simulate import (
    Listed,
    quiet,
    simulated,
)

# --- who goes next ---


def test_tasks_that_are_ready_go_in_every_order() -> None:
    assert orders_of(lambda: three(0, 0, 0)) == ALL


def test_the_first_choice_is_always_the_one_that_asyncio_takes() -> None:
    async def busy() -> str:
        written: list[str] = []
        loop = asyncio.get_running_loop()

        async def write(name: str) -> None:
            written.append(name)
            loop.call_soon(written.append, name.upper())
            await asyncio.sleep(0)
            written.append(name)
            loop.call_later(0.5, written.append, name.upper())
            await asyncio.sleep(1)
            written.append(name)

        await asyncio.gather(*map(write, "abc"))
        return "".join(written)

    assert run(busy(), Listed()) == asyncio.run(busy())


def test_timers_that_are_due_together_go_in_every_order_and_others_in_that_of_their_times() -> None:
    assert orders_of(lambda: three(1, 1, 1)) == ALL
    assert orders_of(lambda: three(3, 1, 2), 20) == {"bca"}
    assert orders_of(lambda: three(2, 1, 2)) == {"bac", "bca"}


def test_on_a_coarse_grid_timers_meet_and_none_is_early() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        began, word = loop.time(), await three(0.7, 0.9, 0.2)
        assert loop.time() - began == 1.0
        await asyncio.sleep(0.1)
        assert loop.time() - began == 2.0
        return word

    assert {run(main(), seed, grid=1.0) for seed in range(200)} == ALL
    assert run(main(), Listed(), grid=1.0) == "cab"


def test_what_one_task_hands_to_call_soon_is_called_in_that_order() -> None:
    async def main() -> str:
        written: list[str] = []

        async def hand_over(names: str) -> None:
            loop = asyncio.get_running_loop()
            for name in names:
                loop.call_soon(written.append, name)
            await asyncio.sleep(0)
            written.append(names[-1].upper())

        await asyncio.gather(hand_over("abc"), hand_over("xyz"))
        return "".join(written)

    for word in (words := orders_of(main)):
        assert [it for it in word if it in "abcC"] == list("abcC")
        assert [it for it in word if it in "xyzZ"] == list("xyzZ")
    assert len(words) > 20


def test_what_is_called_by_a_callback_belongs_to_whoever_handed_that_over() -> None:
    async def main() -> str:
        written: list[str] = []
        loop = asyncio.get_running_loop()

        def first() -> None:
            loop.call_soon(written.append, "b")
            loop.call_soon(written.append, "c")

        loop.call_later(1, first)
        loop.call_later(1, written.append, "x")
        await asyncio.sleep(2)
        return "".join(written)

    assert orders_of(main) == {"bcx", "bxc", "xbc"}


def test_the_callbacks_of_a_task_that_is_done_are_called_in_order() -> None:
    async def main() -> str:
        written: list[str] = []
        task = asyncio.ensure_future(asyncio.sleep(0))
        for name in "abc":
            task.add_done_callback(lambda _, name=name: written.append(name))  # type: ignore[misc]
        await asyncio.gather(task, asyncio.sleep(1))
        return "".join(written)

    assert orders_of(main, 50) == {"abc"}


def test_a_method_of_a_task_that_is_handed_over_belongs_to_whoever_does_that() -> None:
    async def main() -> str:
        written: list[str] = []
        loop = asyncio.get_running_loop()
        victim = asyncio.ensure_future(asyncio.sleep(1))
        loop.call_soon(victim.cancel)
        loop.call_soon(lambda: written.append(str(victim.cancelling())))
        await asyncio.wait([victim])
        return "".join(written)

    assert orders_of(main, 50) == {"1"}


def test_tasks_that_are_woken_in_the_order_of_a_set_go_by_age() -> None:
    async def main() -> list[int]:
        written: list[int] = []
        gate = [asyncio.get_running_loop().create_future() for _ in range(20)]

        async def wait(number: int) -> None:
            await gate[number]
            written.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(20)]
        await quiet()
        for future in set(gate):  # in whatever order they lie in memory
            future.set_result(None)
        await asyncio.gather(*tasks)
        return written

    assert run(main(), Listed()) == list(range(20))
    assert run(main(), 5) == run(main(), 5)


def test_a_handle_that_is_canceled_is_not_called() -> None:
    async def main() -> list[str]:
        written: list[str] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(written.append, "a").cancel()
        loop.call_later(1, written.append, "b").cancel()
        timers = [loop.call_later(2, written.append, name) for name in "cd"]
        loop.call_later(2, timers[1].cancel)
        await asyncio.sleep(3)
        return written

    assert {"".join(run(main(), seed)) for seed in range(100)} == {"c", "cd", "dc"}


def test_context_variables_are_kept() -> None:
    name = contextvars.ContextVar("name", default="nobody")

    async def main() -> str:
        loop, written = asyncio.get_running_loop(), list[str]()
        context = contextvars.copy_context()
        context.run(name.set, "somebody")
        loop.call_soon(lambda: written.append(name.get()), context=context)
        loop.call_later(1, lambda: written.append(name.get()), context=context)
        task = loop.create_task(_name(name), context=context)
        await asyncio.sleep(2)
        return " ".join([*written, await task, name.get()])

    assert run(main()) == "somebody somebody somebody nobody"


async def _name(name: contextvars.ContextVar[str]) -> str:
    return name.get()


# --- time ---


def test_time_passes_only_when_nobody_can_go_on_and_costs_nothing() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        for _ in range(100):
            await asyncio.sleep(0)
        assert loop.time() == 0.0
        await asyncio.sleep(3600)
        return loop.time()

    began = time.monotonic()
    assert run(main()) == 3600.0
    assert time.monotonic() - began < 60


def test_a_timeout_is_virtual_too() -> None:
    async def main() -> None:
        async with asyncio.timeout(5):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run(main())


def test_whoever_asks_is_told_when_it_is_quiet() -> None:
    async def main() -> list[int]:
        counts = [0]

        async def count() -> None:
            for _ in range(50):
                await asyncio.sleep(0)
                counts[0] += 1

        task = asyncio.create_task(count())
        impatient = asyncio.create_task(quiet())
        await asyncio.sleep(0)
        impatient.cancel()
        await quiet()
        await task
        return counts

    for seed in range(20):
        assert run(main(), seed) == [50]


def test_only_a_simulated_loop_knows_when_it_is_quiet() -> None:
    with pytest.raises(RuntimeError, match="only a simulated loop"):
        asyncio.run(quiet())


def test_a_check_is_called_whenever_it_is_quiet_and_fails_the_simulation() -> None:
    seen: list[float] = []

    def check() -> None:
        seen.append(simulation.loop.time())
        assert simulation.loop.time() < 2.0, "too late"

    with pytest.raises(AssertionError, match="too late"), simulated() as simulation:  # noqa: PT012
        simulation.whenever_quiet(check)
        simulation.run(three(1, 2, 3))
    assert seen == [0.0, 1.0, 2.0]
