"""The contract is kept track of: every sentence has a test."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


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


def test_every_sentence_has_a_number_of_its_own() -> None:
    found = sentences()
    assert len(found) == len(set(found)) == 52


@pytest.mark.parametrize("sentence", sentences())
def test_the_sentence_has_a_test(sentence: str) -> None:
    assert sentence in with_a_test(), f"no test is marked with contract({sentence!r})"


def test_no_test_names_a_sentence_that_is_not_in_the_contract() -> None:
    assert [mark for mark in marks() if mark[1] not in sentences()] == []
