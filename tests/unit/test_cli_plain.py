from __future__ import annotations

from sessionsched import SessionState
from sessionsched.cli.plain import ASCII, UNICODE, bar, did, legend
from sessionsched.cli.stage import Cell

IDLE, ACCEPTED, ACTIVE, QUEUED, CANCELED = SessionState


def drawn(*cells: Cell) -> str:
    return "".join(glyph for glyph, _ in bar(cells, ASCII))


def test_every_state_has_a_character_of_its_own() -> None:
    for glyphs in (ASCII, UNICODE):
        assert set(glyphs) == set(SessionState)
        assert len(set(glyphs.values())) == len(SessionState)
        assert {len(glyph) for glyph in glyphs.values()} == {1}
    assert legend(ASCII) == ". idle  o accepted  - active  = queued  x canceled"


def test_a_timeline_has_one_character_for_each_cell() -> None:
    assert drawn(*map(Cell, (IDLE, ACCEPTED, ACTIVE, QUEUED, CANCELED))) == ".o-=x"


def test_a_run_that_starts_is_written_into_its_timeline() -> None:
    assert drawn(Cell(IDLE), Cell(ACTIVE, started="12"), Cell(QUEUED), Cell(QUEUED)) == ".12="


def test_a_run_that_starts_before_the_last_one_is_written_replaces_it() -> None:
    cells = [Cell(ACTIVE, started="12"), Cell(ACTIVE, started="13"), Cell(ACTIVE), Cell(ACTIVE)]
    assert drawn(*cells) == "113-"


def test_what_people_did_stands_above_its_cell() -> None:
    assert did([Cell(IDLE), Cell(ACTIVE, did="7"), Cell(ACTIVE), Cell(CANCELED, did="Esc")]) == (
        " 7 Esc"
    )


def test_what_people_did_at_once_is_kept_apart() -> None:
    assert did([Cell(QUEUED, did="10 11"), Cell(QUEUED, did="12"), Cell(QUEUED)]) == "10 11 12"
