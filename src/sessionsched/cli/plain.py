"""The show as text, for pipes, files and logs: ASCII, no colours, the same bytes every time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sessionsched import SessionState, Status
from sessionsched.cli.stage import how

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sessionsched.cli.scenes import Scene
    from sessionsched.cli.stage import Cell, Stage

__all__ = ["ASCII", "UNICODE", "bar", "did", "legend", "outcomes", "scene", "summary", "table"]

# One line for one run, two lines for one with others behind it: to be told apart without colours.
ASCII: Final[Mapping[SessionState, str]] = {
    SessionState.IDLE: ".",
    SessionState.ACCEPTED: "o",
    SessionState.ACTIVE: "-",
    SessionState.QUEUED: "=",
    SessionState.CANCELED: "x",
}
UNICODE: Final[Mapping[SessionState, str]] = {
    SessionState.IDLE: "·",
    SessionState.ACCEPTED: "○",
    SessionState.ACTIVE: "━",
    SessionState.QUEUED: "═",
    SessionState.CANCELED: "╳",  # noqa: RUF001 - no X is as tall
}
HEADER: Final = ("run", "session", "prompt", "outcome")


def bar(cells: Sequence[Cell], glyphs: Mapping[SessionState, str]) -> list[tuple[str, Cell]]:
    """One character for each cell: its state, or a digit of the seq that starts there."""
    digits: list[str] = []
    drawn = []
    for cell in cells:
        digits = list(cell.started) or digits
        drawn.append((digits.pop(0) if digits else glyphs[cell.state], cell))
    return drawn


def did(cells: Sequence[Cell]) -> str:
    """What people did, each above the cell where it shows, or right of what is there already."""
    line = ""
    for place, cell in enumerate(cells):
        if cell.did:
            gap = " " if line else ""
            line = (line + gap).ljust(place) + cell.did
    return line


def scene(place: str, shown: Scene, stage: Stage) -> str:
    """A scene that is over: what happened, and a timeline for each session."""
    notes = [f"  {note.line()}" for note in stage.notes]
    return "\n".join(
        [f"{place} {shown.title}", f"    {shown.shows}", "", *notes, "", *_rows(stage)]
    )


def _rows(stage: Stage) -> Iterable[str]:
    for session_id, row in stage.rows.items():
        cells = tuple(row.cells)
        yield f"  {'':<8}{did(cells)}".rstrip()
        yield f"  {session_id:<8}{''.join(glyph for glyph, _ in bar(cells, ASCII))}"


def legend(glyphs: Mapping[SessionState, str]) -> str:
    """What each character of a timeline means."""
    return "  ".join(f"{glyph} {state}" for state, glyph in glyphs.items())


def outcomes(stage: Stage) -> list[tuple[str, str, str, str]]:
    """How each accepted prompt ended, in accept order."""
    return [
        (
            f"#{handle.seq}",
            handle.session_id,
            handle.run.prompt,
            "in flight" if handle.run.ended is None else how(handle.run.ended),
        )
        for handle in stage.handles.values()
    ]


def table(stage: Stage) -> str:
    """The outcomes, in columns."""
    rows = [HEADER, *outcomes(stage)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2], "-" * widths[3]))
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def summary(stage: Stage) -> str:
    """The accounts: accepted = ended, and how."""
    accepted, ended = stage.accounts()
    how_many = Counter(end.outcome.status for end in stage.ends)
    parts = ", ".join(f"{how_many[status]} {status}" for status in Status if how_many[status])
    sign = "=" if stage.balanced else "IS NOT"
    return f"accepted {accepted} {sign} ended {ended}" + (f": {parts}" if parts else "")
