"""Pages for people: what they link to, and what their code prints.

Rule 1. The python blocks of a page are one program: each goes on where the last one stopped.
Rule 2. A `text` block right after a python block is what that prints; without one it prints
        nothing.
Rule 3. `asyncio.run` is on virtual time, and what asyncio would only log is a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import async_solipsism
from attrs import define, field, frozen

if TYPE_CHECKING:
    from collections.abc import Coroutine

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
#: Every page, by its path from the root of the project.
PAGES: Final = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
)

_BLOCK: Final = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\((?!https?:)([^)\s]+)\)")


@frozen
class Block:
    """A fenced block of a page, and what stands right after it."""

    language: str
    text: str
    #: What a reader is told that it prints.
    shown: str = ""


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str | None = None) -> list[Block]:
    """Give the fenced blocks of a page, all or those in one language."""
    found = [(own, body) for _, own, body in _BLOCK.findall(text_of(page))]
    every = [
        Block(own, body, shown if then == "text" else "")
        for (own, body), (then, shown) in pairwise([*found, ("", "")])
    ]
    return [block for block in every if language in (None, block.language)]


def links(page: str) -> list[str]:
    """Give where a page links to inside of the project."""
    return _LINK.findall(_BLOCK.sub("", text_of(page)))


def anchors(page: str) -> set[str]:
    """Give the names of a page's headings, as they are linked to."""
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def leads_nowhere(page: str, link: str) -> bool:
    """Say whether nothing is where a link points to."""
    path, _, anchor = link.partition("#")
    target = (ROOT / page).parent / path if path else ROOT / page
    if not target.exists() or not target.resolve().is_relative_to(ROOT):
        return True
    return bool(anchor) and anchor not in anchors(str(target.resolve().relative_to(ROOT)))


class VirtualLoop(async_solipsism.EventLoop):  # type: ignore[misc] # it has no types
    """A loop on virtual time, without signals: there are systems that have none."""

    def add_signal_handler(self, *_: object) -> None:
        """Refuse as those systems do."""
        raise NotImplementedError


@define
class Program:
    """The code of a page, run."""

    names: dict[str, Any] = field(factory=lambda: {"__name__": "__main__"})
    #: What each block printed, and what the page says that it does.
    printed: list[tuple[str, str]] = field(factory=list)
    #: How long it took, in virtual seconds.
    took: float = 0.0

    def asyncio_run(self, main: Coroutine[Any, Any, object]) -> object:
        """Do what `asyncio.run` does, but on virtual time."""
        complaints: list[dict[str, Any]] = []
        loop = VirtualLoop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        begun = loop.time()
        try:
            result: object = loop.run_until_complete(main)
            self.took += loop.time() - begun
            loop.run_until_complete(asyncio.sleep(0))  # let the last callbacks run
            left = asyncio.all_tasks(loop)
        finally:
            loop.close()
        assert (complaints, left) == ([], set())
        return result


@functools.cache
def run_code(page: str) -> Program:
    """Run the python blocks of a page, once."""
    program = Program()
    for number, block in enumerate(blocks(page, "python"), 1):
        code = compile(block.text, f"{page}, block {number}", "exec")
        out = io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            mock.patch.object(asyncio, "run", program.asyncio_run),
        ):
            exec(code, program.names)  # noqa: S102 - our own page
        program.printed.append((out.getvalue(), block.shown))
    return program
