"""Keys: what a person presses, read from a terminal as it is pressed; and lines, from elsewhere.

Rule 1. Escape is never lost: a byte 27 that does not begin a known sequence is the Escape key.
Rule 2. The terminal is given back as it was, however the reading ends.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

__all__ = ["ESCAPE", "Decoder", "is_terminal", "listen", "listen_to_lines"]

ESCAPE: Final = "\x1b"
#: Seconds after which a byte 27 that came alone was no beginning of a sequence.
ALONE_S: Final = 0.05
#: Arrows, function keys and pastes; `?` ends the pattern where a sequence is not complete.
SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?P<csi>[@-~])?|O(?P<ss3>[@-~])?)")


class Decoder:
    """Makes keys of bytes. A key is a character; sequences of arrow keys and the like are none."""

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        #: What may be the beginning of a sequence.
        self._begun = ""

    def feed(self, chunk: bytes) -> list[str]:
        """Give the keys that are complete."""
        text, self._begun = self._begun + self._utf8.decode(chunk), ""
        keys: list[str] = []
        place = 0
        while place < len(text):
            found = SEQUENCE.match(text, place)
            if found and found.lastgroup:
                place = found.end()
            elif text[place] == ESCAPE and (found.end() if found else place + 1) == len(text):
                self._begun, place = text[place:], len(text)
            else:
                keys.append(text[place])
                place += 1
        return keys

    def flush(self) -> list[str]:
        """Give what was thought to begin a sequence, and didn't."""
        keys, self._begun = list(self._begun), ""
        return keys


def is_terminal(file: TextIO | None) -> bool:
    """Whether somebody can press keys there. False also for what is closed or no file at all."""
    try:
        return file is not None and os.isatty(file.fileno())
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def listen(
    loop: asyncio.AbstractEventLoop, fd: int, on_key: Callable[[str], object]
) -> Iterator[None]:
    """Call `on_key` for every key that is pressed at the terminal `fd`; "" when it has gone.

    Without line editing and echo; Ctrl-C is a signal as ever. Where Python knows no terminals
    (Windows), no key is ever pressed.
    """
    try:
        import termios  # noqa: PLC0415 - not there on every system
        import tty  # noqa: PLC0415 - as above
    except ImportError:
        yield
        return
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    reader = _Reader(loop, fd, on_key)
    loop.add_reader(fd, reader)
    try:
        yield
    finally:
        reader.stop()
        with contextlib.suppress(termios.error):  # it has gone
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


class _Reader:
    """Called when there is something to read."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, on_key: Callable[[str], object]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_key = on_key
        self._decoder = Decoder()
        #: Runs while a sequence may have begun; None until something was read.
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        try:
            chunk = os.read(self._fd, 1024)
        except OSError:  # the terminal was closed
            chunk = b""
        self._wait_no_longer()
        if not chunk:
            self.stop()
            self._on_key("")
            return
        self._tell(self._decoder.feed(chunk))
        self._timer = self._loop.call_later(ALONE_S, lambda: self._tell(self._decoder.flush()))

    def stop(self) -> None:
        """Press no more keys."""
        self._loop.remove_reader(self._fd)
        self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, keys: list[str]) -> None:
        for key in keys:
            self._on_key(key)


@contextlib.contextmanager
def listen_to_lines(
    loop: asyncio.AbstractEventLoop, fd: int, on_line: Callable[[str | None], object]
) -> Iterator[None]:
    """Call `on_line` for every line that can be read; None when there is nothing left to read."""
    read = _LineReader(loop, fd, on_line)
    try:
        loop.add_reader(fd, read)
    except PermissionError:  # a file on a disk: nobody has to wait for it
        while read():
            pass
    try:
        yield
    finally:
        loop.remove_reader(fd)


class _LineReader:
    """Called when there is something to read."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, on_line: Callable[[str | None], object]
    ) -> None:
        self._loop = loop
        self._fd = fd
        self._on_line = on_line
        #: The beginning of a line whose end is still to come.
        self._begun = b""

    def __call__(self) -> bool:
        """Read what is there. False: that was all."""
        chunk = os.read(self._fd, 65536)
        *whole, self._begun = (self._begun + chunk).split(b"\n")
        if not chunk:
            self._loop.remove_reader(self._fd)
            whole = [self._begun]
        for line in whole:
            self._on_line(line.decode("utf-8", "replace"))
        if not chunk:
            self._on_line(None)
        return bool(chunk)
