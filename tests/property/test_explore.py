"""Exploring: as many states as promised, and a command that says what it found."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sessionsched.line import Line
from sessionsched.testing.explore import Config, explore
from sessionsched.testing.explore.__main__ import main

if TYPE_CHECKING:
    from sessionsched.testing.explore import Report


@pytest.mark.contract("D1", "D2", "D4", "D6", "X1", "X2", "X3", "X7", "X9", "X10", "T1", "T2")
def test_every_sentence_holds_in_100_000_states() -> None:
    command = [sys.executable, "-m", "sessionsched.testing.explore", "--plan", "quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"in all: ([\d,]+) states.*every sentence held", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1].replace(",", "")) >= 100_000


@pytest.mark.contract("X12", "X14", "F1", "F2", "F3", "D3")
def test_every_sentence_holds_with_everything_that_can_happen() -> None:
    report = explore(Config(prompts=3, cancels=1, everything=True))
    assert report.ok, str(report)
    assert report.finals > 0


def test_any_length_of_history_is_a_finite_number_of_situations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--in-flight", "3", "--holds", "0"]) == 0
    found = re.match(r"([\d,]+) states \(([\d,]+) situations\)", capsys.readouterr().out)
    assert found is not None
    assert found[1] == found[2]
    assert int(found[1].replace(",", "")) > 4_000


def test_wrong_calls_are_made_everywhere() -> None:
    report = explore(Config(prompts=3, cancels=0))
    assert report.wrong_calls > 10 * report.situations


def test_progress_is_told_every_ten_thousand_states() -> None:
    told: list[int] = []

    def note(report: Report) -> None:
        told.append(report.states)

    report = explore(Config(prompts=3, cancels=3, holds=2, promotes=2), note)
    assert len(told) == report.states // 10_000 > 0


def test_the_command_explores_what_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--prompts", "3", "--cancels", "1"]) == 0
    assert "4,184 states" in capsys.readouterr().out


def test_fewer_than_three_prompts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--prompts", "2"])
    assert exited.value.code == 2
    assert "can't exist with fewer than 3" in capsys.readouterr().err


def test_a_violation_is_told_as_a_story_and_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def up_to(line: Line[Any], fence: int) -> list[Any]:
        return [run for run in line if run.seq < fence]

    monkeypatch.setattr(Line, "up_to", up_to)
    assert main(["--prompts", "3", "--cancels", "1"]) == 1
    *_, first, second, end = capsys.readouterr().out.splitlines()
    assert first == "  1. prompt 1 is accepted in session a (queue, and is not ready yet)"
    assert second == "  2. session a is canceled (all)"
    assert end == "  => X1: prompt 1 was in flight when it was canceled, and isn't covered"
