"""The zoo: every animal is caught, and Tiny, which has no bug, is not accused."""

from __future__ import annotations

import json

import pytest

from sessionsched.testing import zoo
from sessionsched.testing.contract import checking, every_story
from sessionsched.testing.zoo import ANIMALS, Catch, Tiny
from sessionsched.testing.zoo.__main__ import main

#: Which sentence may catch which animal: the bug decides, not the story that comes first.
CAUGHT_BY = {
    "LostBeforeActive": {"X7", "X1"},
    "CountedCancels": {"X2", "X7"},
    "IdleCancelStays": {"X3", "X2"},
    "MarkClearedEarly": {"X7"},
    "MarkTooLow": {"X7"},
    "MarkTooHigh": {"X2"},
    "SilentDrop": {"T1"},
    "EarlyReturn": {"T1"},
    "StrandedByAnError": {"D4", "F4"},
    "BehindTheUnwinding": {"D4", "F4"},
    "DequeuedIsNobody": {"X7"},
    "TwoSeeNotBusy": {"D1"},
    "HookOfTheNext": {"X8", "X1"},
    "ClearedWithoutLock": {"D4", "F4", "T1"},
    "LastComeFirst": {"D2"},
    "LastToKnow": {"T2", "T1"},
    "VanishedFollowUps": {"F3"},
    "ErrorOfAnother": {"T1"},
}


@pytest.fixture(scope="module")
def catches() -> dict[str, Catch]:
    told: list[Catch] = []
    found = zoo.run(told.append)
    assert told == found
    return {catch.animal: catch for catch in found}


def test_there_is_an_animal_for_every_race_that_can_happen_here() -> None:
    assert {animal.race for animal in ANIMALS} == {*range(1, 17), 18}
    assert [animal.race for animal in ANIMALS] == sorted(animal.race for animal in ANIMALS)


@pytest.mark.parametrize("animal", ANIMALS, ids=lambda animal: animal.__name__)
def test_the_animal_is_caught_by_the_right_sentence_in_a_short_story(
    animal: type[zoo.Tiny], catches: dict[str, Catch]
) -> None:
    catch = catches[animal.__name__]
    assert catch.sentence in CAUGHT_BY[catch.animal], str(catch.story)
    assert 2 <= catch.length <= 9
    assert catch.bug.endswith(".")
    assert catch.shipped_by


def test_tiny_is_not_accused_in_ten_thousand_stories() -> None:
    report = every_story(Tiny, calls=4, haste=(0, 1))
    assert report.ok, str(report)
    assert report.examples > 10_000


def test_tiny_is_not_accused_in_longer_stories() -> None:
    catch = zoo.watch(Tiny, examples=100)
    assert not catch.caught, str(catch.story)
    assert catch.examples >= 100


def test_the_table_shows_what_became_of_each(catches: dict[str, Catch]) -> None:
    lines = zoo.table(list(catches.values())).splitlines()
    assert lines[0].split() == ["race", "animal", "caught", "by", "examples", "calls", "bug"]
    assert len(lines) == len(ANIMALS) + 2
    assert lines[2].split()[:3] == ["1", "LostBeforeActive", catches["LostBeforeActive"].sentence]


def test_who_gets_away_is_shown(catches: dict[str, Catch]) -> None:
    free = Catch("Phoenix", 99, "None.", "nobody", 1000, 1.0, None)
    assert "Phoenix" in zoo.table([free])
    assert "got away" in zoo.table([free])
    assert (free.caught, free.sentence, free.length) == (False, "", 0)


def test_the_command_fails_when_an_animal_gets_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "ANIMALS", (Tiny,))
    monkeypatch.setattr(checking, "EXAMPLES", 5)
    assert main(["--examples", "5"]) == 1
    assert "0 of 1 caught" in capsys.readouterr().out


def test_the_command_fails_when_tiny_is_accused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "ANIMALS", ())
    monkeypatch.setattr(Tiny, "announce", lambda *_: None)
    assert main(["--examples", "50"]) == 1
    assert "Tiny, which has no bug, is accused" in capsys.readouterr().out


def test_the_command_speaks_to_machines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "ANIMALS", ANIMALS[:2])
    assert main(["--json", "--examples", "5"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [it["animal"] for it in said["animals"]] == ["LostBeforeActive", "CountedCancels"]
    assert said["animals"][1]["caught_by"] == "X2"
    assert said["animals"][0]["shipped_by"] == "an agent host"
    assert said["animals"][0]["diagram"].startswith("sequenceDiagram")
    assert said["tiny"]["caught_by"] is None


def test_the_command_tells_stories(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "ANIMALS", ANIMALS[2:3])
    assert main(["--stories", "--examples", "5"]) == 0
    said = capsys.readouterr().out
    assert "IdleCancelStays: A cancel on an idle session leaves a mark behind" in said
    assert "  1. session a is canceled" in said
