from __future__ import annotations

import asyncio
import os
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from sessionsched.cli.keys import ESCAPE, Decoder, is_terminal, listen, listen_to_lines
from sessionsched.cli.loop import ShowLoop, put_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

# Each: the bytes as they came in, the keys at once, the keys after a while.
CHUNKS = [
    ([b"hi"], ["h", "i"], []),
    ([ESCAPE.encode()], [], [ESCAPE]),
    ([b"\x1b[A"], [], []),  # an arrow
    ([b"\x1b", b"[A"], [], []),  # the same, torn apart
    ([b"\x1b[", b"1;5C", b"x"], ["x"], []),
    ([b"\x1bOP"], [], []),  # F1
    ([b"\x1bO"], [], [ESCAPE, "O"]),
    ([b"\x1b["], [], [ESCAPE, "["]),
    ([b"\x1b\x1b"], [ESCAPE], [ESCAPE]),
    ([b"\x1bh"], [ESCAPE, "h"], []),  # Escape, and typing on at once
    ([b"\x1b[Ax\x1b"], ["x"], [ESCAPE]),
    (["é".encode()[:1], "é".encode()[1:]], ["é"], []),
    ([b"\xff"], ["\ufffd"], []),
]


@pytest.mark.parametrize(("chunks", "at_once", "later"), CHUNKS)
def test_keys_are_made_of_bytes(chunks: list[bytes], at_once: list[str], later: list[str]) -> None:
    decoder = Decoder()
    assert [key for chunk in chunks for key in decoder.feed(chunk)] == at_once
    assert decoder.flush() == later
    assert decoder.flush() == []


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = os.openpty()
    yield ours, theirs
    for fd in (ours, theirs):
        os.close(fd)


async def press(
    loop: ShowLoop, terminal: tuple[int, int], *presses: tuple[bytes, str]
) -> list[str]:
    """Press keys, the next ones when those that were awaited have come. Gives what came."""
    ours, theirs = terminal
    keys: asyncio.Queue[str] = asyncio.Queue()
    with listen(loop, theirs, keys.put_nowait):
        for chunk, awaited in presses:
            os.write(ours, chunk)
            assert [await keys.get() for _ in awaited] == list(awaited)
    return [keys.get_nowait() for _ in range(keys.qsize())]


def test_keys_are_read_as_they_are_pressed(terminal: tuple[int, int]) -> None:
    presses = [(b"a", "a"), (b"\x1b", ESCAPE), (b"\x1b[Ab", "b")]
    assert put_on(lambda loop: press(loop, terminal, *presses), 0.0) == []


def test_escape_at_once_followed_by_an_arrow_is_still_escape(terminal: tuple[int, int]) -> None:
    assert put_on(lambda loop: press(loop, terminal, (b"\x1b\x1b[A", ESCAPE)), 0.0) == []


def test_the_terminal_is_given_back_as_it_was(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])

    async def fails(loop: ShowLoop) -> None:
        with listen(loop, terminal[1], print):
            assert termios.tcgetattr(terminal[1]) != before
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_on(fails, 0.0)
    assert termios.tcgetattr(terminal[1]) == before


def test_nothing_is_pressed_after_the_listening_is_over(terminal: tuple[int, int]) -> None:
    async def leave(loop: ShowLoop) -> list[str]:
        keys: list[str] = []
        with listen(loop, terminal[1], keys.append):
            os.write(terminal[0], b"x\x1b")
            while not keys:  # noqa: ASYNC110 - no event: that would be another wake-up
                await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        return keys

    assert put_on(leave, 0.0) == ["x"]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_terminal_that_has_gone_is_told_once(gone: int) -> None:
    """One side reads an end when the other goes, and the other an error."""
    sides = os.openpty()

    async def hang_up(loop: ShowLoop) -> list[str]:
        keys: asyncio.Queue[str] = asyncio.Queue()
        with listen(loop, sides[1 - gone], keys.put_nowait):
            os.close(sides[gone])
            first = await keys.get()
            await asyncio.sleep(1.0)
        return [first, *(keys.get_nowait() for _ in range(keys.qsize()))]

    assert put_on(hang_up, 0.0) == [""]
    os.close(sides[1 - gone])


def test_without_terminals_no_key_is_ever_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "termios", None)

    async def windows(loop: ShowLoop) -> str:
        with listen(loop, -1, print):
            return "fine"

    assert put_on(windows, 0.0) == "fine"


async def lines(loop: ShowLoop, fd: int) -> AsyncIterator[str]:
    read: asyncio.Queue[str | None] = asyncio.Queue()
    with listen_to_lines(loop, fd, read.put_nowait):
        while (line := await read.get()) is not None:
            yield line


def test_lines_come_from_a_pipe_however_they_are_torn() -> None:
    reading, writing = os.pipe()

    async def torn(loop: ShowLoop) -> list[str]:
        for place, chunk in enumerate((b"one\ntw", b"o\n", b"three")):
            loop.call_later(place, os.write, writing, chunk)
        loop.call_later(3, os.close, writing)
        return [line async for line in lines(loop, reading)]

    assert put_on(torn, 0.0) == ["one", "two", "three"]
    os.close(reading)


def test_lines_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_bytes(b"one\n\xff\n")

    async def all_of_it(loop: ShowLoop) -> list[str]:
        with path.open() as file:
            return [line async for line in lines(loop, file.fileno())]

    assert put_on(all_of_it, 0.0) == ["one", "\ufffd", ""]


def test_only_a_terminal_is_one(terminal: tuple[int, int], tmp_path: Path) -> None:
    with os.fdopen(os.dup(terminal[1])) as file:
        assert is_terminal(file)
    assert not is_terminal(file)  # closed
    assert not is_terminal(None)
    with (tmp_path / "file").open("w") as file:
        assert not is_terminal(file)
