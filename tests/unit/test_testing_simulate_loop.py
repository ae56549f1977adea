"""Threads, sockets, and the rest of what an event loop offers."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from simulating import orders_of, run, three

from sessionsched.testing.simulate import (
    NotSimulated,
    Seeded,
    SimulatedLoop,
    Stuck,
    quiet,
)


def test_a_function_for_another_thread_is_a_step_there() -> None:
    async def main() -> list[Any]:
        loop, names = asyncio.get_running_loop(), list[int]()

        def work() -> int:
            loop.call_soon_threadsafe(names.append, threading.get_ident())
            return threading.get_ident()

        there = await asyncio.to_thread(work)
        await quiet()
        assert names == [there] != [threading.get_ident()]
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 / 0)
        return names

    assert len(run(main())) == 1


def test_a_cancel_comes_before_after_or_in_the_middle_of_such_a_step() -> None:
    async def main() -> str:
        done: list[int] = []
        task = asyncio.create_task(asyncio.to_thread(done.append, 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await quiet()
        return f"{'canceled' if task.cancelled() else 'returned'}, done {len(done)} times"

    assert orders_of(main, 200) == {
        "canceled, done 0 times", "canceled, done 1 times", "returned, done 1 times",
    }  # fmt: skip


def test_a_function_that_is_no_longer_wanted_is_not_called() -> None:
    async def main() -> list[int]:
        done: list[int] = []
        asyncio.get_running_loop().run_in_executor(None, done.append, 1).cancel()
        await quiet()
        return done

    assert run(main()) == []


def test_a_function_that_waits_for_the_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()

    async def main() -> None:
        await asyncio.to_thread(let_go.wait)

    monkeypatch.setattr("sessionsched.testing.simulate.loop._PATIENCE_S", 0.01)
    with pytest.raises(Stuck, match="a function in a thread waits for the loop"):
        run(main())
    let_go.set()


def test_other_threads_are_refused() -> None:
    async def main() -> list[BaseException]:
        loop, errors = asyncio.get_running_loop(), list[BaseException]()

        def speak() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except NotSimulated as error:
                errors.append(error)

        thread = threading.Thread(target=speak)
        thread.start()
        thread.join()
        return errors

    (error,) = run(main())
    assert "threads are not simulated" in str(error)


@pytest.mark.parametrize(
    "name", ["add_reader", "sock_recv", "create_connection", "subprocess_exec"]
)
def test_sockets_and_processes_are_refused_by_name(name: str) -> None:
    async def main() -> None:
        getattr(asyncio.get_running_loop(), name)(1, 2)

    with pytest.raises(NotSimulated, match=f"loop.{name} is not there"):
        run(main())


def test_nothing_that_a_loop_has_is_missing() -> None:
    missing = [
        name
        for name in dir(asyncio.AbstractEventLoop)
        if not name.startswith("_")
        and getattr(SimulatedLoop, name) is getattr(asyncio.AbstractEventLoop, name)
    ]
    assert missing == []


def test_the_loop_can_be_run_by_a_runner_and_started_and_stopped_by_hand() -> None:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(Seeded(3)), debug=True) as runner:
        assert sorted(runner.run(three(0, 0, 0))) == list("abc")
    loop = SimulatedLoop(Seeded(1))
    loop.call_later(3, loop.stop)
    loop.run_forever()
    assert (loop.time(), loop.is_running()) == (3.0, False)
    loop.close()
    assert loop.is_closed()
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_later(1, print),
        loop.run_forever,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_a_loop_that_is_stopped_too_early_says_so() -> None:
    async def main() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="stopped before"):
        run(main())


def test_a_running_loop_is_neither_run_nor_closed() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(RuntimeError, match="running"):
            loop.run_forever()
        with pytest.raises(RuntimeError, match="running"):
            loop.close()

    run(main())


def test_tasks_are_made_by_the_factory_that_was_set() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        assert loop.get_task_factory() is None
        loop.set_task_factory(lambda loop, coro, **how: asyncio.Task(coro, loop=loop, **how))
        task = loop.create_task(asyncio.sleep(0), name="mine", context=contextvars.copy_context())
        await task
        return task.get_name()

    assert run(main()) == "mine"
