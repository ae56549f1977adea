"""Every page for people: its links lead somewhere, and its code does what the page says."""

from __future__ import annotations

import re

import pytest
from pages import DOCS, PAGES, anchors, blocks, leads_nowhere, links, run_code, text_of

import sessionsched

#: Pages whose code is tests: see test_docs_simulate.py.
UNDER_PYTEST = {"docs/simulate.md"}

WITH_CODE = [page for page in PAGES if blocks(page, "python") and page not in UNDER_PYTEST]


def test_there_are_pages_and_most_have_code() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/contract.md"} <= set(PAGES)
    assert len(WITH_CODE) >= 7


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_the_page_leads_somewhere(page: str) -> None:
    assert [link for link in links(page) if leads_nowhere(page, link)] == []


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_the_page_prints_what_the_page_says(page: str) -> None:
    for was, should in run_code(page).printed:
        assert was == should


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_the_page_names_is_there(page: str) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text_of(page), re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))


def test_the_site_has_every_page_of_the_folder_in_its_menu() -> None:
    menu = set(re.findall(r"^ +- .*?([\w-]+\.md)$", text_of("mkdocs.yml"), re.MULTILINE))
    assert menu == {path.name for path in DOCS.glob("*.md")}


@pytest.mark.parametrize("link", ["nowhere.md", "contract.md#nowhere", "#nowhere", "../../out.md"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    assert leads_nowhere("docs/index.md", link)


def test_headings_are_linked_to_by_what_they_say() -> None:
    assert "every-row" in anchors("docs/state-diagram.md")
    assert "whats-new" not in anchors("docs/state-diagram.md")


def test_the_api_page_has_every_public_name() -> None:
    named = re.findall(r"^::: sessionsched\.(\w+)$", text_of("docs/api.md"), re.MULTILINE)
    assert sorted(named) == sessionsched.__all__
