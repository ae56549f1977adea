"""Who owns what: the one place where a simulation touches what is private in asyncio."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from sessionsched.testing.simulate import Listed, SimulatedLoop, simulated
from sessionsched.testing.simulate.ready import Ready


class Seen(SimulatedLoop):
    """Writes down who owns what is handed over."""

    def __init__(self) -> None:
        super().__init__(Listed())
        self.owners: list[int] = []
        add = self._ready.add

        def note(handle: asyncio.Handle, owner: int) -> None:
            self.owners.append(owner)
            add(handle, owner)

        self._ready.add = note  # type: ignore[method-assign]


def owners_of(kind: Any) -> tuple[int, int, list[int]]:
    """The ages of two tasks, and who owned what while one waited for the other."""
    loop = Seen()

    async def inner() -> None:
        await asyncio.sleep(0)  # its first step, and one more

    async def outer() -> None:
        task.add_done_callback(lambda _: None)  # handed over by the one that is done
        await task  # woken up
        loop.call_soon(task.cancel)  # no step of the other one's, but a call of ours

    task = kind(inner(), loop=loop)
    main = kind(outer(), loop=loop)
    loop.run_until_complete(main)
    ages = loop._ready.age(task), loop._ready.age(main)
    loop.close()
    return *ages, loop.owners


@pytest.mark.parametrize("kind", [asyncio.Task, asyncio.tasks._PyTask])  # type: ignore[attr-defined]
def test_the_steps_of_a_task_are_its_own_and_all_else_is_whose_who_hands_it_over(kind: Any) -> None:
    inner, outer, owners = owners_of(kind)
    first_steps, again, callback, wake_up, call = [inner, outer], inner, inner, outer, outer
    assert owners == [*first_steps, again, callback, wake_up, call]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
def test_eager_tasks_are_simulated_too() -> None:
    async def main() -> set[str]:
        loop, written = asyncio.get_running_loop(), list[str]()
        loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009

        async def write(name: str) -> None:
            written.append(name)
            await asyncio.sleep(1)
            written.append(name)

        await asyncio.gather(*map(write, "abc"))
        assert written[:3] == list("abc")
        return {"".join(written[3:])}

    words: set[str] = set()
    for seed in range(200):
        with simulated(seed) as simulation:
            words |= simulation.run(main())
    assert len(words) == 6


def handle(loop: asyncio.AbstractEventLoop) -> asyncio.Handle:
    return asyncio.Handle(lambda: None, (), loop, None)


def test_lines_are_kept_and_the_first_in_each_goes_by_when_it_became_ready() -> None:
    loop, ready = SimulatedLoop(Listed()), Ready()
    a, b, c, x = (handle(loop) for _ in range(4))
    ready.add(a, 1)
    ready.add(b, 1)
    ready.step += 1
    ready.add(x, 2)
    ready.step += 1
    ready.add(c, 1)
    assert [it[-1] for it in ready.heads] == [a, x]
    assert ready.take(0) is a
    assert [it[-1] for it in ready.heads] == [b, x], "b became ready before x"
    assert ready.take(0) is b
    assert [it[-1] for it in ready.heads] == [x, c]
    assert ready.take(1) is c
    assert ready.owner == 1
    ready.add(a, 1)
    assert [ready.take(0), ready.take(0)] == [x, a]
    assert ready.heads == []


def test_of_what_became_ready_in_one_step_the_oldest_owner_is_first() -> None:
    loop, ready = SimulatedLoop(Listed()), Ready()
    young, old = handle(loop), handle(loop)
    ready.add(young, 7)
    ready.add(old, 3)
    assert [it[-1] for it in ready.heads] == [old, young]
