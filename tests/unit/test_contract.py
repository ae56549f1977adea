"""The contract is kept track of: every sentence has a test, or waits for a layer to come."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sessionsched

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]

#: Sentences that can't be said without a driver, by the module that must come first.
WAITING = {
    "aio": {"A6", "A7", "X8", "T3", "T5", "T6", "P1", "P2", "S1", "S7", "S8"},
}


def sentences() -> list[str]:
    text = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    return re.findall(r"^- ([A-Z]\d+) ", text, flags=re.MULTILINE)


def marks() -> Iterator[tuple[str, str]]:
    """Every (file, sentence) that a test is marked with."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.contract":
                for argument in node.args:
                    yield path.name, ast.literal_eval(argument)


@functools.cache
def with_a_test() -> frozenset[str]:
    return frozenset(sentence for _, sentence in marks())


def missing_layers() -> set[str]:
    package = Path(sessionsched.__file__).parent
    return {layer for layer in WAITING if not (package / f"{layer}.py").exists()}


def excused() -> set[str]:
    return {sentence for layer in missing_layers() for sentence in WAITING[layer]}


def test_every_sentence_has_a_number_of_its_own() -> None:
    found = sentences()
    assert len(found) == len(set(found)) == 52


@pytest.mark.parametrize("sentence", sentences())
def test_the_sentence_has_a_test_or_waits_for_its_layer(sentence: str) -> None:
    assert sentence in with_a_test() | excused(), f"no test is marked with contract({sentence!r})"


def test_no_test_names_a_sentence_that_is_not_in_the_contract() -> None:
    assert [mark for mark in marks() if mark[1] not in sentences()] == []


def test_nothing_waits_that_has_a_test() -> None:
    waiting = {sentence for layer in WAITING.values() for sentence in layer}
    assert waiting & with_a_test() == set(), "take it off the list of those that wait"


def test_nothing_waits_for_a_layer_that_is_there() -> None:
    assert missing_layers() == set(WAITING)
