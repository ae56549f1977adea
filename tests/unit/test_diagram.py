from __future__ import annotations

import enum
import re
import runpy
from pathlib import Path

import pytest

from sessionsched.diagram import main, meanings, page, plain_text, when
from sessionsched.model import LIFE, Event, RunState, SessionState
from sessionsched.rows import ROWS, SENTENCES, Row

PAGE = Path(__file__).parents[2] / "docs" / "state-diagram.md"

every_row = pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.source}-{row.event}-{row.target}"
)


def pictures() -> list[str]:
    return re.findall(r"```mermaid\n(.*?)```", page(), re.DOTALL)


def lines_between(picture: str, source: str, target: str) -> list[str]:
    """What the picture says about going from one state to another, or about staying."""
    start = f"{source}: stays on " if source == target else f"{source} --> {target}: "
    lines = [line.strip() for line in picture.splitlines()]
    return [line.removeprefix(start) for line in lines if line.startswith(start)]


def labels(row: Row) -> list[tuple[set[str], str]]:
    """The events and the guard of everything that is drawn between the row's two states."""
    drawn = "\n".join(lines_between(pictures()[0], row.source, row.target))
    parts = [
        part.partition(" if ") for part in re.split("<br/>|\n", drawn.replace(" if<br/>", " if "))
    ]
    return [(set(events.split(", ")), guard) for events, _, guard in parts]


def test_the_page_in_docs_is_what_the_code_prints() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make diagram`"


@every_row
def test_every_row_is_a_line_of_both_tables(row: Row) -> None:
    cells = (row.source, row.event, when(row), row.target, row.because)
    assert f"| {' | '.join(cells)} |" in page().splitlines()
    columns = [line for line in plain_text().splitlines() if line.endswith(f"  {row.because}")]
    assert " ".join(filter(None, cells)) in [" ".join(line.split()) for line in columns]


@every_row
def test_every_row_is_in_the_picture_with_its_guard(row: Row) -> None:
    assert any(row.event in events and when(row) == guard for events, guard in labels(row))


def test_a_guard_reads_as_its_name_in_plain_words() -> None:
    words = {when(row) for row in ROWS if row.event is Event.SETTLE}
    assert words == {"", "another canceled run has not ended", "some wait"}


def test_the_picture_draws_one_arrow_at_most_from_one_state_to_another() -> None:
    arrows = re.findall(r"(\w+ --> \w+):", pictures()[0])
    rows = {f"{row.source} --> {row.target}" for row in ROWS if row.source is not row.target}
    assert sorted(arrows) == sorted(rows)


def test_the_picture_draws_nothing_that_is_not_a_row() -> None:
    for row in ROWS:
        same = [other for other in ROWS if (other.source, other.target) == (row.source, row.target)]
        drawn = [(event, guard) for events, guard in labels(row) for event in events]
        assert sorted(drawn) == sorted((str(other.event), when(other)) for other in same)


def test_a_session_begins_idle_and_has_no_last_state() -> None:
    assert "[*] --> idle\n" in pictures()[0]
    assert "--> [*]" not in pictures()[0]


def test_a_state_that_stays_keeps_its_name_in_the_picture() -> None:
    for state in {row.source for row in ROWS if row.source is row.target}:
        assert f"    {state}: {state}\n    {state}: stays on " in pictures()[0]


@pytest.mark.parametrize("state", SessionState)
def test_every_state_has_its_sentence_in_both_tables(state: SessionState) -> None:
    sentence, _ = SENTENCES[state]
    assert f"| {state} | {sentence} |" in page().splitlines()
    assert f"{state:<8}  {sentence}" in plain_text().splitlines()


@pytest.mark.parametrize("word", [*Event, *RunState])
def test_every_event_and_every_state_of_a_run_says_in_the_code_what_it_means(
    word: Event | RunState,
) -> None:
    meaning = meanings(type(word))[word]
    assert f"| {word} | {meaning} |" in page().splitlines()


def test_a_meaning_is_the_comment_that_stands_at_the_member() -> None:
    assert meanings(Event)[Event.FINISH] == "the active run's handler is over"


class Unexplained(enum.StrEnum):
    TOLD = "told"  #: it says what it means
    UNTOLD = "untold"


def test_a_member_without_a_meaning_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match="UNTOLD"):
        meanings(Unexplained)


def test_the_life_of_a_run_is_drawn_from_new_to_ended() -> None:
    arrows = [f"{source} --> {target}: {event}" for source, event, target in LIFE]
    drawn = [line.strip() for line in pictures()[1].splitlines()]
    assert drawn == ["stateDiagram-v2", "[*] --> new", *arrows, "ended --> [*]"]


def test_without_arguments_the_page_goes_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([])
    assert capsys.readouterr().out == page()


def test_with_table_the_terminal_gets_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--table"])
    states, rows = capsys.readouterr().out.split("\n\n")
    assert len(states.splitlines()) == 2 + len(SessionState)
    header, rule, *lines = rows.splitlines()
    assert len(lines) == len(ROWS)
    starts = [found.start() for found in re.finditer("-+", rule)]
    assert [header[start:].split()[0] for start in starts] == header.split()
    assert all(line[start - 1] == " " for line in lines for start in starts[1:])


def test_with_write_the_page_goes_to_a_file_and_one_line_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    main(["--write", str(path)])
    assert path.read_bytes() == page().encode()
    assert capsys.readouterr().out == f"{path}: 5 states, 27 rows\n"


def test_write_and_table_exclude_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    with pytest.raises(SystemExit):
        main(["--table", "--write", str(path)])
    assert "not allowed with" in capsys.readouterr().err
    assert not path.exists()


def test_it_can_be_run_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(__file__).parents[2] / "src" / "sessionsched" / "diagram.py"
    monkeypatch.setattr("sys.argv", ["diagram", "--table"])
    runpy.run_path(str(source), run_name="__main__")
    assert capsys.readouterr().out == plain_text()
