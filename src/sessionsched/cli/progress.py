"""A bar on stderr for what takes a while, if somebody looks; it leaves no trace."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    #: Told in words how far it is, and which part that is of the whole; 0: nobody knows.
    Show: TypeAlias = Callable[[str, float], None]

__all__ = ["progress"]


@contextlib.contextmanager
def progress() -> Iterator[Show]:
    """Show how far something is, while the block runs."""
    if not sys.stderr.isatty():
        yield lambda _text, _part: None
        return
    from rich.console import Console  # noqa: PLC0415 - only who looks needs it
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("working", total=None)
        yield lambda text, part: bars.update(
            bar, description=text, total=1.0 if part else None, completed=part
        )
