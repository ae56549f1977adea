from __future__ import annotations

import asyncio
import os
import selectors
import time

import pytest

from sessionsched.cli.loop import BEHIND_S, ShowLoop, put_on


async def sleeps(loop: ShowLoop) -> list[tuple[str, float]]:
    """Wake up in turns, and write down when."""
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, wait_s: float) -> None:
        for _ in range(3):
            await asyncio.sleep(wait_s)
            woken.append((name, round(loop.time(), 6)))

    await asyncio.gather(sleeper("a", 2.0), sleeper("b", 3.0))
    return woken


IN_ORDER = [("a", 2.0), ("b", 3.0), ("a", 4.0), ("b", 6.0), ("a", 6.0), ("b", 9.0)]


@pytest.mark.parametrize("pace", [0.0, 0.001])
def test_the_pace_changes_nothing_about_what_happens_and_when(pace: float) -> None:
    assert put_on(sleeps, pace) == IN_ORDER


def test_without_a_pace_a_day_takes_no_time() -> None:
    async def day(loop: ShowLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert put_on(day, 0.0) == 86_400


def test_a_wait_that_nothing_can_end_is_an_error() -> None:
    async def never(_loop: ShowLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="can't happen any more"):
        put_on(never, 0.0)


def test_with_nothing_to_wait_for_but_a_file_time_stands_still() -> None:
    async def reads(loop: ShowLoop) -> tuple[bytes, float]:
        reading, writing = os.pipe()
        came: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(reading, lambda: came.set_result(os.read(reading, 9)))
        os.write(writing, b"here")
        try:
            return await came, loop.time()
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            os.close(writing)

    assert put_on(reads, 1.0) == (b"here", 0.0)


@pytest.mark.parametrize("pace", [0.0, 0.001])
def test_a_file_ends_a_wait_early_and_no_more_time_has_passed_than_that(pace: float) -> None:
    """What is written from a timer is there before the next, long wait."""

    async def reads(loop: ShowLoop) -> float:
        reading, writing = os.pipe()
        came: asyncio.Future[None] = loop.create_future()
        loop.add_reader(reading, lambda: came.set_result(None))
        loop.call_later(5.0, os.write, writing, b"x")
        far = loop.call_later(10_000_000.0, came.cancel)
        try:
            await came
        finally:
            far.cancel()
            loop.remove_reader(reading)
            os.close(reading)
            os.close(writing)
        return loop.time()

    assert 5.0 <= put_on(reads, pace) < 1_000_000.0


@pytest.mark.parametrize(
    ("held_up_s", "waits_s"),
    [(0.0, 1.0), (BEHIND_S / 2, 1.0 - BEHIND_S / 2), (99.0, 1.0 - BEHIND_S)],
)
def test_a_show_that_was_held_up_makes_up_for_a_little_and_not_for_more(
    held_up_s: float, waits_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_time, waits = [0.0], [0.0]

    def wait(_selector: object, timeout_s: float) -> list[object]:
        waits.append(timeout_s)
        real_time[0] += timeout_s
        return []

    async def show(_loop: ShowLoop) -> None:
        await asyncio.sleep(0.5)
        real_time[0] += held_up_s  # drawing took so long, or a laptop was closed
        await asyncio.sleep(0)
        await asyncio.sleep(1.0)

    with monkeypatch.context() as patch:
        patch.setattr(selectors.DefaultSelector, "select", wait)
        patch.setattr(time, "monotonic", lambda: real_time[0])
        put_on(show, 1.0)
    assert [wait for wait in waits if wait] == pytest.approx([0.5, waits_s])


def test_ctrl_c_leaves_nothing_behind() -> None:
    async def pressed(_loop: ShowLoop) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        put_on(pressed, 0.0)
