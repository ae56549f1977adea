from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

import sessionsched.cli.zoo as front
from sessionsched.cli import main
from sessionsched.testing.zoo import Catch, Tiny, watch
from sessionsched.testing.zoo.canceling import LostBeforeActive

if TYPE_CHECKING:
    from collections.abc import Callable

CAUGHT = watch(LostBeforeActive)
AWAY = evolve(CAUGHT, animal="GotAway", story=None)
TINY = watch(Tiny, examples=5)


class Looks(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the kit finds, so that not every test has to look for it."""

    def finds(*catches: Catch, tiny: Catch = TINY) -> None:
        def run(progress: Callable[[Catch], object]) -> list[Catch]:
            for catch in catches:
                progress(catch)
            return list(catches)

        monkeypatch.setattr(front, "run", run)
        monkeypatch.setattr(front, "watch", lambda _animal, examples: tiny)

    return finds


def test_the_animals_are_listed_with_what_caught_them(
    found: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(CAUGHT)
    assert main(["zoo"]) == 0
    printed = capsys.readouterr().out
    assert f"LostBeforeActive  {CAUGHT.sentence}" in printed
    assert "\n1 of 1 caught\nTiny, which has no bug, is not accused in 5 stories\n" in printed


def test_an_animal_that_got_away_is_exit_code_1(
    found: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(CAUGHT, AWAY)
    assert main(["zoo", "--stories"]) == 1
    printed = capsys.readouterr().out
    assert "\n1 of 2 caught\n" in printed
    assert printed.endswith(f"\nLostBeforeActive: {CAUGHT.bug}\n{CAUGHT.story}\n")


def test_a_scheduler_that_is_accused_without_a_bug_is_exit_code_1_with_its_story(
    found: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(CAUGHT, tiny=evolve(CAUGHT, animal="Tiny"))
    assert main(["zoo"]) == 1
    printed = capsys.readouterr().out
    assert "is accused, and has no bug" in printed
    assert f"\nTiny: {CAUGHT.bug}\n{CAUGHT.story}\n" in printed


def test_the_zoo_is_also_for_machines(
    found: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    found(CAUGHT)
    assert main(["zoo", "--json"]) == 0
    animal, tiny = json.loads(capsys.readouterr().out)
    assert (animal["animal"], animal["race"], animal["caught"]) == ("LostBeforeActive", 1, True)
    assert animal["story"] == str(CAUGHT.story)
    assert (tiny["race"], tiny["caught"], tiny["sentence"], tiny["story"]) == (0, False, None, None)


def test_whoever_looks_sees_one_animal_after_the_other(
    found: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(CAUGHT, AWAY)
    looks = Looks()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", looks)
    main(["zoo"])
    assert "GotAway got away" in looks.getvalue()


def test_without_hypothesis_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_progress: object) -> None:
        msg = "check needs Hypothesis"
        raise ModuleNotFoundError(msg, name="hypothesis")

    monkeypatch.setattr(front, "run", missing)
    assert main(["zoo"]) == 2
    said = "sessionsched: hypothesis is not installed; pip install 'sessionsched[testing]'\n"
    assert capsys.readouterr().err == said
