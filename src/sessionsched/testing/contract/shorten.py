"""Makes a story as short as leaving things out can make it.

Rule 1. What is left still breaks a sentence, when told to a fresh scheduler from the start.
Rule 2. No call, and no two calls, can be left out of it; none can be made a plainer one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from attrs import evolve

from sessionsched.model import How
from sessionsched.testing.contract.play import replay
from sessionsched.testing.contract.story import story_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sessionsched.testing.contract.adapter import Adapter
    from sessionsched.testing.contract.calls import Call
    from sessionsched.testing.contract.play import Play
    from sessionsched.testing.contract.story import Story

__all__ = ["shortened"]

#: Of how many calls it is worth while to try every two.
FEW = 12


def shortened(make: Callable[[], Adapter], story: Story) -> Story:
    """Give the shortest story that leaving things out comes to."""
    while (better := _better(make, story)) is not None:
        story = better
    return story


def _better(make: Callable[[], Adapter], story: Story) -> Story | None:
    """Give the first simpler story that still goes wrong; None: there is none."""
    for script in _simpler(story.script):
        play = _told(make, script)
        if play is None or play.broken is None:
            continue
        if _weight(play.script) < _weight(story.script):
            return story_of(play)
    return None


def _told(make: Callable[[], Adapter], script: list[Call]) -> Play | None:
    """Tell a story; None: the scheduler broke down on it, which is another story."""
    try:
        return replay(make(), script)
    except Exception:  # noqa: BLE001 - the one that was found is to be told, whatever this is
        return None


def _weight(script: Sequence[Call]) -> tuple[int, ...]:
    """Fewer calls are better; then less haste; then one session; then what is plainer."""
    haste = [call.steps for call in script if call.steps is not None]
    elsewhere = sum(call.session not in ("", "a") for call in script)
    follow_ups = sum(call.verb == "follow_up" for call in script)
    errors = sum(call.how is not How.RETURNED for call in script)
    return len(script), len(haste) + sum(haste), elsewhere, follow_ups, errors


def _simpler(script: tuple[Call, ...]) -> Iterator[list[Call]]:
    """Leave out much, then little; then take things more slowly."""
    calls = list(script)
    size = len(calls) // 2
    while size:
        for at in range(len(calls) - size, -1, -1):
            yield calls[:at] + calls[at + size :]
        size //= 2
    for first, second in itertools.combinations(range(len(calls)), 2):
        if len(calls) <= FEW:
            yield [call for at, call in enumerate(calls) if at not in (first, second)]
    for at, call in enumerate(calls):
        for plainer in _plainer(call):
            yield [*calls[:at], plainer, *calls[at + 1 :]]
    yield [evolve(call, session=call.session and "a") for call in calls]


def _plainer(call: Call) -> Iterator[Call]:
    if call.steps is not None:
        yield evolve(call, steps=None)
    if call.steps:
        yield evolve(call, steps=call.steps - 1)
    if call.verb == "follow_up":
        yield evolve(call, verb="accept")
    if call.how is not How.RETURNED:
        yield evolve(call, how=How.RETURNED)
