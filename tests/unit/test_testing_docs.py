"""The pages of the testing kit: the tutorial is as long and as right as it says."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
from pages import blocks, run_code, text_of

TUTORIAL = "docs/testing-your-own.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the tutorial's code defines."""
    return run_code(TUTORIAL).names


def test_the_naive_scheduler_of_the_tutorial_has_forty_lines() -> None:
    code, *_ = blocks(TUTORIAL, "python")
    lines = [line for line in code.text.splitlines() if line.strip()]
    assert 30 <= len(lines) <= 40


def test_the_tutorials_test_case_passes_with_the_fixes_and_fails_without(
    names: dict[str, Any],
) -> None:
    naive = names["contract_for"](names["NaiveAdapter"]).TestCase
    for case, passes in ((names["TestThird"], True), (naive, False)):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        assert result.testsRun == 1
        assert result.wasSuccessful() is passes


def test_the_page_of_the_protocol_names_every_feature_verb_and_kind_of_news() -> None:
    from sessionsched.testing.contract import Feature  # noqa: PLC0415
    from sessionsched.testing.contract.calls import VERBS  # noqa: PLC0415

    text = text_of("docs/pipe-protocol.md")
    missing = [str(name) for name in Feature if f"`{name}`" not in text]
    missing += [name for name in VERBS if f'"do": "{name}"' not in text]
    missing += [
        name for name in ("started", "ended", "told", "dropped") if f'["{name}"' not in text
    ]
    assert missing == []
