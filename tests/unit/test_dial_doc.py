"""The page about dialing: it takes as long as it says, and its diagram knows every outcome."""

from __future__ import annotations

import re

import pytest
from pages import blocks, run_code, text_of
from phones import OLD, Connection, Phone, after

from sessionsched.dial import NoTarget

PAGE = "docs/dial.md"
(PICTURE,) = blocks(PAGE, "mermaid")


def test_the_code_takes_as_long_as_the_page_says() -> None:
    assert f"after {run_code(PAGE).took:.1f} seconds" in text_of(PAGE)


# --- every path of the diagram, walked ---

ROWS = re.findall(r"^    (\S+) --> (\S+)(?: : (.*))?$", PICTURE.text, re.MULTILINE)
FAILED = ConnectionRefusedError()
ANSWER: dict[str, object] = {
    "the same target": OLD, "another target": "new", "no target": None,
    "validation fails": LookupError(),
}  # fmt: skip


def arrows(state: str) -> dict[str, str]:
    """Where each label leads to; one arrow may have several, each in a line of its own."""
    drawn = [(then, labels) for source, then, labels in ROWS if source == state]
    return {label: then for then, labels in drawn for label in labels.split("<br/>")}


def test_the_diagram_begins_with_the_dial_and_every_state_of_it_is_reached() -> None:
    assert arrows("[*]") == {"": "dialing"}
    assert {src for src, _, _ in ROWS} == {then for _, then, _ in ROWS}
    assert arrows("dialing") == {
        "succeeds": "connected",
        "fails": "asking",
        "delay passes": "beside",
    }


@pytest.mark.parametrize("state", ["asking", "beside"])
@pytest.mark.parametrize("last", ["succeeds", "fails"])
async def test_every_way_through_the_diagram_ends_where_it_says(state: str, last: str) -> None:
    for label, then in arrows(state).items():
        end = then if then in {"none", "failed"} else arrows(then)[last]
        late = after(9, Connection(OLD)) if last == "succeeds" else after(9, FAILED)
        first = after(1, FAILED) if state == "asking" else late
        phone = Phone(first, late, validate=after(1, ANSWER[label]))
        assert await outcome(phone) == end, (state, label)
        dialed_again = sum("dial" in what and "canceled" not in what for _, what in phone.log) == 2
        assert dialed_again == (then == "again"), (state, label)


async def outcome(phone: Phone) -> str:
    try:
        await phone.call()
    except NoTarget:
        return "none"
    except (ConnectionRefusedError, LookupError):
        return "failed"
    return "connected"
