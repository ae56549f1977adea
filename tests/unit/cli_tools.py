"""A terminal for the tests of the command line, in this process, and somebody who types."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

__all__ = ["Screen", "typing"]


class Screen(io.StringIO):
    """What a program writes to; when it shows what is waited for, keys are pressed."""

    def __init__(self, keyboard: int, script: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keyboard = keyboard
        #: (wait for this text, then press these keys); the first is next.
        self._script = list(script)
        #: What was written before is not looked at again.
        self._seen = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._script and self._script[0][0] in self.getvalue()[self._seen :]:
            self._seen = len(self.getvalue())
            os.write(self._keyboard, self._script.pop(0)[1].encode())
        return written

    @property
    def all_pressed(self) -> bool:
        return not self._script


@contextlib.contextmanager
def typing(
    monkeypatch: pytest.MonkeyPatch, *script: tuple[str, str], size: tuple[int, int] = (80, 24)
) -> Iterator[Screen]:
    """Stdin is a real terminal and stdout looks like one, while the block runs."""
    keyboard, stdin = os.openpty()
    screen = Screen(keyboard, script)
    with os.fdopen(stdin) as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", file)
        patch.setattr(sys, "stdout", screen)
        for name, value in zip(("COLUMNS", "LINES"), size, strict=True):
            patch.setenv(name, str(value))
        patch.setenv("TERM", "xterm-256color")
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            patch.delenv(name, raising=False)
        yield screen
    os.close(keyboard)
