"""Turns that are made up: whatever is streamed, whatever tools do, whoever cancels and when.

The history is always well-formed, nothing that was streamed before the cancel is lost, and each
step is stored once. See steps_world.py for how it is judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st
from steps_plan import FAULTS, MANNERS, TOOLS, Deed, Line, Plan
from steps_world import World

from sessionsched.steps import CallDelta, CallDone, CallStart, Extra, Reasoning, Text

if TYPE_CHECKING:
    from sessionsched.steps import Part

NAMES = st.sampled_from([*(tool.name for tool in TOOLS), "no_such"])
NAPS = st.sampled_from([0, 0, 1, 2.5, 30])
PROSE = st.sampled_from(["", "a", "bc"])


@st.composite
def calls(draw: st.DrawFn, number: int) -> list[Part | float]:
    """One call: in one part, in several, or cut off."""
    call_id, name = f"c{number}", draw(NAMES)
    text = draw(st.sampled_from(["{}", "", '{"x": 1}', "{"]))
    nap = draw(NAPS)
    how = draw(st.sampled_from(["whole", "streamed", "half", "replaced"]))
    begin: list[Part | float] = [CallStart(call_id, name), nap, CallDelta(call_id, text)]
    ways: dict[str, list[Part | float]] = {
        "whole": [CallDone(call_id, name, text)],
        "streamed": [*begin, nap, CallDone(call_id)],
        "half": begin,
        "replaced": [*begin, CallDone(call_id, name, "{}")],
    }
    return ways[how]


@st.composite
def lines(draw: st.DrawFn) -> Line:
    items: list[Part | float] = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "reasoning", "call", "call", "nap", "extra"]))
        if kind == "call":
            items += draw(calls(number))
        else:
            prose = draw(PROSE)
            one: dict[str, Part | float] = {
                "text": Text(prose),
                "reasoning": Reasoning(prose),
                "nap": draw(NAPS),
                "extra": Extra(prose),
            }
            items.append(one[kind])
    fault = draw(st.sampled_from(["", "", "", "", *FAULTS]))
    return Line(tuple(items), fault, draw(st.sampled_from(MANNERS)))


DEEDS = st.builds(
    Deed,
    at=st.sampled_from([0, 0, 0.5, 1, 2, 2.5, 3, 4.5, 7, 20, 22]),
    turns=st.integers(0, 12),
    what=st.sampled_from(["interrupt", "interrupt", "outside", "close", "ask", "ask"]),
)
PLANS = st.builds(
    Plan,
    lines=st.lists(lines(), max_size=5).map(tuple),
    deeds=st.lists(DEEDS, max_size=4).map(tuple),
    persist_s=st.sampled_from([0, 0, 1.0, 4.0]),
    max_steps=st.integers(1, 4),
)

CALLS = Line((1, CallDone("c0", "quick", "{}")))
LATE = Line((5, Text("a")))
HELLO = Line((Text("a"), 1, CallDone("c0", "stubborn", "{}"), CallDone("c1", "tidy", "{}")))


@given(PLANS)
@settings(max_examples=300)
@example(Plan((CALLS, LATE), (Deed(0.5, 0, "ask"), Deed(3, 0, "interrupt"))))
@example(Plan((HELLO,), (Deed(2, 0, "interrupt"),)))
@example(Plan((HELLO,), (Deed(2, 0, "close"), Deed(2, 3, "interrupt")), persist_s=4.0))
@example(Plan((HELLO,), (Deed(1, 0, "ask"), Deed(9.5, 0, "outside")), persist_s=4.0))
def test_whatever_happens_in_a_turn_its_record_is_well_formed_and_complete(plan: Plan) -> None:
    World(plan).run()
