"""How a simulation ends, well or not, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from simulating import hang, run

from sessionsched.testing.simulate import (
    Complained,
    Listed,
    Stuck,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine


# --- whoever does not come to an end ---


def test_who_waits_for_what_will_never_come_is_found_at_once() -> None:
    with pytest.raises(Stuck, match=r"never come; at 0 s(.|\n)*simulating.py:\d+"):
        run(hang())


def test_who_is_not_over_in_time_is_found() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - that is the fault
            await asyncio.sleep(7)

    with pytest.raises(Stuck, match="not over within 100 s; at 98 s"):
        run(main(), within=100)


def test_who_goes_on_without_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - that is the fault
            await asyncio.sleep(0)

    monkeypatch.setattr("sessionsched.testing.simulate.loop._ENDLESS", 1000)
    with pytest.raises(Stuck, match="goes on for ever"):
        run(main())


def test_after_a_failure_everybody_can_clean_up_and_nothing_is_said() -> None:
    cleaned: list[str] = []

    async def stubborn() -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(1)
            cleaned.append("a task")

    async def generator() -> Any:
        try:
            yield
        finally:
            cleaned.append("a generator")

    async def main() -> None:
        open_ = generator()
        await anext(open_)
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(1)
        assert task is open_, "on purpose"

    with pytest.raises(AssertionError, match="on purpose"):
        run(main())
    assert cleaned == ["a task", "a generator"]


def test_who_can_not_be_stopped_after_a_failure_is_left_behind_in_silence() -> None:
    async def immortal() -> None:
        while True:
            try:
                await hang()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        task = asyncio.create_task(immortal())
        await hang()
        del task

    with pytest.raises(Stuck):
        run(main())
    gc.collect()


def test_an_order_that_fails_is_not_asked_for_the_clean_up() -> None:
    class Broken(Listed):
        def _pick(self, count: int) -> int:
            msg = f"can't choose from {count}"
            raise OSError(msg)

    cleaned: list[int] = []

    async def clean_up(number: int) -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(1)
            cleaned.append(number)

    async def main() -> None:
        task = asyncio.create_task(clean_up(1))
        await asyncio.sleep(1)
        await asyncio.gather(task, clean_up(2), clean_up(3))

    with pytest.raises(OSError, match="can't choose from 2"):
        run(main(), Broken())
    assert cleaned == [1]


# --- the end ---


def test_it_ends_as_asyncio_run_does_and_what_is_left_is_canceled_and_awaited() -> None:
    log: list[str] = []

    async def left(name: str) -> None:
        try:
            await hang()
        finally:
            await asyncio.sleep(1)
            log.append(name)

    async def main() -> str:
        tasks = [asyncio.create_task(left(name)) for name in "ab"]
        await asyncio.sleep(1)
        return f"{len(tasks)} are left"

    assert run(main(), Listed()) == "2 are left"
    assert log == ["a", "b"]


async def fail(*, at_the_end: bool = False) -> None:
    if at_the_end:
        with contextlib.suppress(asyncio.CancelledError):
            await hang()
    raise OSError("on purpose")


async def a_callback_raises() -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(1)


async def nobody_asks_a_task() -> None:
    task = asyncio.create_task(fail())
    await asyncio.sleep(1)
    del task


async def nobody_asks_a_task_in_a_circle() -> None:
    circle: list[Any] = [asyncio.create_task(fail())]
    circle.append(circle)
    await asyncio.sleep(1)


async def a_task_fails_when_it_is_torn_down() -> None:
    task = asyncio.create_task(fail(at_the_end=True))
    await asyncio.sleep(1)
    del task


#: Async generators that nobody closes.
OPEN: list[AsyncGenerator[None, None]] = []


async def a_generator_fails_to_close() -> None:
    async def generator() -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await fail()

    OPEN[:] = [generator()]
    await anext(OPEN[0])


async def a_generator_that_is_thrown_away_fails_to_close() -> None:
    await a_generator_fails_to_close()
    OPEN.clear()


@pytest.mark.parametrize(
    "main",
    [
        a_callback_raises, nobody_asks_a_task, nobody_asks_a_task_in_a_circle,
        a_task_fails_when_it_is_torn_down, a_generator_fails_to_close,
        a_generator_that_is_thrown_away_fails_to_close,
    ],
)  # fmt: skip
def test_what_asyncio_would_only_log_is_a_failure(
    main: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    with pytest.raises(Complained, match="asyncio would log") as failed:
        run(main())
    assert isinstance(failed.value.__cause__, OSError | ZeroDivisionError)


def test_who_has_a_handler_for_what_asyncio_logs_gets_it() -> None:
    said: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: said.append(about["message"]))
        assert loop.get_exception_handler() is not None
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    run(main())
    assert len(said) == 1


def test_an_async_generator_that_is_thrown_away_is_closed() -> None:
    closed: list[float] = []

    async def numbers() -> Any:
        try:
            for number in range(9):
                yield number
        finally:
            await asyncio.sleep(1)
            closed.append(asyncio.get_running_loop().time())

    async def main() -> None:
        async for _ in numbers():
            break
        await asyncio.sleep(5)

    run(main())
    assert closed == [1.0]


def test_garbage_is_collected_as_before_afterwards() -> None:
    assert gc.isenabled()
    run(asyncio.sleep(1))
    assert gc.isenabled()
    gc.disable()
    try:
        run(asyncio.sleep(1))
        assert not gc.isenabled()
    finally:
        gc.enable()
