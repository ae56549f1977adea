"""The board: timelines, notes and a footer, exactly as large as the terminal.

Rule 1. Looks, and never touches: the same stage and size give the same picture.
Rule 2. No colour is needed to read it: states differ in their characters and are named. Colours
        are the terminal's own, so that they suit a light one as well as a dark one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from sessionsched import SessionState, Status
from sessionsched.cli import plain
from sessionsched.cli.stage import names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console, OverflowMethod

    from sessionsched import SessionView
    from sessionsched.cli.stage import Cell, Note, Stage

__all__ = ["Board", "print_ends"]

STATE_STYLES: Final[Mapping[SessionState, str]] = {
    SessionState.IDLE: "dim",
    SessionState.ACCEPTED: "magenta",
    SessionState.ACTIVE: "green",
    SessionState.QUEUED: "cyan",
    SessionState.CANCELED: "red",
}
KIND_STYLES: Final[Mapping[str, str]] = {
    "you": "bold",
    Status.COMPLETED: "green",
    Status.FAILED: "red",
    Status.CANCELED: "red",
    Status.SUSPENDED: "magenta",
    "no": "red",
}
#: Columns left of the timelines: focus, name and state.
GUTTER: Final = 22
NAME: Final = 8
BADGE: Final = 10
#: So many of those that wait are named.
IN_LINE: Final = 5
#: Lines for one session: what people did, the timeline, what the agent says, a blank.
ROW: Final = 4
#: Lines above and below: title, sentence, blank; blank, footer.
FRAME: Final = 5
#: Lines that are left for notes, at least.
NOTES: Final = 4


class Board:
    """Draws a stage on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        ascii_only = console.options.ascii_only
        self._glyphs = plain.ASCII if ascii_only else plain.UNICODE
        self._more = "..." if ascii_only else "…"
        self._overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"

    def draw(
        self, stage: Stage, title: str, shows: str, footer: Text | None = None, focus: str = ""
    ) -> Group:
        """The whole picture."""
        width, height = self._console.size
        sessions = self._that_fit(stage, height, focus)
        rows = [line for name in sessions for line in self._row(stage, name, width, focus)]
        room = height - FRAME - len(rows)
        notes = [_note(note) for note in list(stage.notes)[max(0, len(stage.notes) - room) :]]
        lines = [
            Text.assemble((" sessionsched ", "bold reverse"), " ", (title, "bold")),
            Text(shows),
            Text(),
            *rows,
            *notes,
            *[Text()] * (room - len(notes)),
            Text(),
            footer or self.legend(),
        ]
        for line in lines:
            line.truncate(width, overflow=self._overflow)
        return Group(*lines)

    def legend(self, hint: str = "") -> Text:
        """What the colours mean, and which keys there are."""
        text = Text()
        for state, glyph in self._glyphs.items():
            text.append(glyph, f"bold {STATE_STYLES[state]}").append(f" {state}  ")
        return text.append(f" {hint}", "bold")

    def _that_fit(self, stage: Stage, height: int, focus: str) -> list[str]:
        """The session in focus, and of the others as many as there is room for, newest first."""
        room = max(1, (height - FRAME - NOTES) // ROW)
        newest = [*reversed(stage.rows)]
        newest.sort(key=lambda name: name != focus)
        return [name for name in stage.rows if name in newest[:room]]

    def _row(self, stage: Stage, name: str, width: int, focus: str) -> list[Text]:
        cells = tuple(stage.rows[name].cells)[-(width - GUTTER - 1) :]
        view = stage.view(name)
        above = Text(" " * GUTTER + plain.did(cells), "bold")
        above.highlight_words(["Esc"], "red")
        pointer = "> " if name == focus else "  "
        style = STATE_STYLES[view.state]
        timeline = Text.assemble(
            (f"{pointer}{name[:NAME]:<{NAME}} ", "bold"),
            (f" {view.state} ".ljust(BADGE), style if style == "dim" else f"reverse {style}"),
            " ",
            *self._bar(cells),
        )
        return [above, timeline, self._below(stage, view), Text()]

    def _bar(self, cells: Sequence[Cell]) -> list[tuple[str, str]]:
        return [
            (glyph, f"{'bold ' if glyph.isdigit() else ''}{STATE_STYLES[cell.state]}")
            for glyph, cell in plain.bar(cells, self._glyphs)
        ]

    def _below(self, stage: Stage, view: SessionView[str]) -> Text:
        """The mark, the active run, who waits behind it, and what it says."""
        mark = f"  mark {view.mark}" if view.mark else ""
        text = Text().append(f"{mark}{'  held' if view.held else ''}".ljust(GUTTER), "bold")
        run = view.active
        if run is not None:
            text.append(f"#{run.seq} {run.prompt}", "red strike" if run.canceled else "bold")
        if view.waiting:
            text.append(f"{', then' if run else 'next:'} {self._line(view)}", "cyan")
        if run is not None:
            said = f"{self._more} stops" if run.canceled else stage.said.get(run.seq, "")
            text.append(f": {said}", "red" if run.canceled else "")
        if view.ending:
            text.append(f"  drop of {names(view.ending)} is recorded", "red")
        return text

    def _line(self, view: SessionView[str]) -> str:
        more = f" {self._more}" if len(view.waiting) > IN_LINE else ""
        return names(view.waiting[:IN_LINE]) + more


def _note(note: Note) -> Text:
    return Text(note.line(), KIND_STYLES.get(note.kind, ""))


def print_ends(console: Console, stage: Stage) -> None:
    """How each accepted prompt ended, and that all of them did."""
    table = Table(*plain.HEADER, box=None, header_style="bold underline", pad_edge=False)
    for *cells, outcome in plain.outcomes(stage):
        status = re.split(r"\W", outcome)[0]
        table.add_row(*cells, Text(outcome, KIND_STYLES.get(status, "")))
    console.print(table)
    console.print(plain.summary(stage), style=f"bold {'green' if stage.balanced else 'red'}")
