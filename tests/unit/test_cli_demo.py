from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from cli_tools import typing

from sessionsched.cli import main
from sessionsched.cli.scenes import SCENES
from sessionsched.cli.stage import Stage

GOLDEN = Path(__file__).with_name("cli_demo.txt")


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["demo", *args]) == 0
    return capsys.readouterr().out


def test_the_demo_is_the_same_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == GOLDEN.read_text(encoding="ascii")


def test_another_seed_tells_the_same_stories_at_other_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = shown(capsys, "--seed", "2")
    assert other != GOLDEN.read_text(encoding="ascii")
    assert "accepted 19 = ended 19: 10 completed, 7 canceled, 2 suspended" in other


def test_as_text_no_line_is_longer_than_a_small_terminal_is_wide() -> None:
    assert max(map(len, GOLDEN.read_text(encoding="ascii").splitlines())) <= 80


def test_every_scene_says_what_it_shows() -> None:
    text = GOLDEN.read_text(encoding="ascii")
    for scene in SCENES:
        assert f"{scene.title}\n    {scene.shows}\n" in text


def frames(screen: io.StringIO) -> list[str]:
    """What stood on the screen, one after the other."""
    return screen.getvalue().split("\x1b[H")


def drawn(screen: io.StringIO) -> int:
    """How often the board was drawn."""
    return screen.getvalue().count("any key: next")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_in_a_terminal_it_moves_and_fills_the_screen(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    with typing(monkeypatch, ("2/5", "q"), size=size) as screen:
        assert main(["demo", "--speed", "500"]) == 0
    assert drawn(screen) > 50
    assert {len(frame.splitlines()) for frame in frames(screen)[2:-1]} == {size[1]}
    assert "accepted 19 = ended 19" in screen.getvalue()
    for scene in SCENES:
        assert scene.shows in screen.getvalue()


def test_a_key_goes_to_the_next_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    presses = [(f"{place}/{len(SCENES)}", " ") for place in range(1, len(SCENES) + 1)]
    with typing(monkeypatch, *presses) as screen:
        assert main(["demo", "--speed", "2"]) == 0
    assert screen.all_pressed
    assert drawn(screen) < 100  # and not three times as often
    assert "accepted 19 = ended 19" in screen.getvalue()


def test_q_goes_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch, ("1/5", "q")) as screen:
        assert main(["demo", "--speed", "2"]) == 0
    assert drawn(screen) < 100
    assert "accepted 19 = ended 19" in screen.getvalue()


def test_fast_does_not_wait_and_shows_every_scene_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch) as screen:
        assert main(["demo", "--fast"]) == 0
    assert drawn(screen) == len(SCENES)


def test_live_or_as_text_the_same_happens_at_the_same_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with typing(monkeypatch, size=(120, 50)) as screen:
        assert main(["demo", "--fast"]) == 0
    notes = re.findall(r"^  ( +\d+\.\d  .*)$", GOLDEN.read_text(encoding="ascii"), re.MULTILINE)
    assert len(notes) > 50
    assert [note for note in notes if note not in screen.getvalue()] == []


def test_without_a_keyboard_it_plays_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch) as screen:
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        assert main(["demo", "--fast"]) == 0
    assert "accepted 19 = ended 19" in screen.getvalue()


def test_plain_is_text_also_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch) as screen:
        assert main(["demo", "--plain"]) == 0
    assert screen.getvalue() == GOLDEN.read_text(encoding="ascii")


def test_a_dumb_terminal_gets_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch) as screen:
        monkeypatch.setenv("TERM", "dumb")
        assert main(["demo"]) == 0
    assert screen.getvalue() == GOLDEN.read_text(encoding="ascii")


def test_a_prompt_that_is_lost_is_shouted_about(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Stage, "accounts", lambda _stage: (19, 18))
    assert main(["demo"]) == 1
    assert "accepted 19 IS NOT ended 18" in capsys.readouterr().out
    with typing(monkeypatch) as screen:
        assert main(["demo", "--fast"]) == 1
    assert "accepted 19 IS NOT ended 18" in screen.getvalue()
