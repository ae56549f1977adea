"""Every story up to a length, the shortest first: no sampling, and no Hypothesis.

The explorer of our own table merges situations that are alike, and loads them at will: it looks
into the machine for that. Somebody else's scheduler can only be told stories from the start, so
here nothing is merged, and a few calls is as far as it goes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sessionsched.model import How
from sessionsched.testing.contract.adapter import Feature
from sessionsched.testing.contract.calls import VERBS, Call, can_mean, is_possible
from sessionsched.testing.contract.play import Play
from sessionsched.testing.contract.report import Report
from sessionsched.testing.contract.sentences import judged, skipped
from sessionsched.testing.contract.shorten import shortened
from sessionsched.testing.contract.story import story_of
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.testing.contract.adapter import Adapter
    from sessionsched.testing.contract.life import Facts

__all__ = ["every_story"]

#: Some bugs can't exist with fewer prompts.
PROMPTS = 3
SESSION = "a"
_ABOUT_A_PROMPT = ("ready", "finish", "cancel_one", "cancel_up_to", "fold", "settle")


def every_story(
    make: Callable[[], Adapter], *, calls: int, haste: tuple[int, ...] = (0, 1), name: str = ""
) -> Report:
    """Tell every story of up to so many calls in one session, until one goes wrong.

    Args:
        make: Makes a fresh adapter for each.
        calls: How long the longest is, without what brings it to its end.
        haste: How many steps the scheduler may get between two calls, besides all it wants. Only
            for adapters with STEPS.
        name: For the report.
    """
    began = time.perf_counter()
    told = 0
    for play in _breadth_first(make, calls, haste):
        told += 1
        if play.broken is not None:
            break
    features, broken = play.facts.features, play.broken is not None
    return Report(
        name=name or getattr(make, "__name__", "scheduler"),
        judged=judged(features),
        skipped=skipped(features),
        examples=told,
        seconds=time.perf_counter() - began,
        story=shortened(make, story_of(play)) if broken else None,
    )


def _breadth_first(
    make: Callable[[], Adapter], calls: int, haste: tuple[int, ...]
) -> Iterator[Play]:
    scripts: list[tuple[Call, ...]] = [()]
    for length in range(calls + 1):
        longer: list[tuple[Call, ...]] = []
        for script in scripts:
            play, then = _tell(make(), script, haste, goes_on=length < calls)
            yield play
            longer += [(*script, call) for call in then]
        scripts = longer


def _tell(
    adapter: Adapter, script: tuple[Call, ...], haste: tuple[int, ...], *, goes_on: bool
) -> tuple[Play, list[Call]]:
    """Tell one story to its end. Gives what could have come next instead of the end."""
    play = Play(adapter)
    then: list[Call] = []
    try:
        for call in script:
            play.make(call)
        then = list(_next(play.facts, haste)) if goes_on else []
        play.wind_up()
    except Violation:
        pass
    finally:
        adapter.stop()
    return play, then


def _next(facts: Facts, haste: tuple[int, ...]) -> Iterator[Call]:
    """Give every call that is possible as things stand."""
    paces = (None, *haste) if Feature.STEPS in facts.features else (None,)
    for verb in VERBS:
        for call in _of(facts, verb):
            if is_possible(facts, call):
                yield from (Call(verb, call.session, call.prompt, call.how, pace) for pace in paces)


def _of(facts: Facts, verb: str) -> Iterator[Call]:
    new = len(facts.lives) + 1
    if verb in ("accept", "follow_up"):
        if new <= PROMPTS:
            yield Call(verb, SESSION, new)
    elif verb in _ABOUT_A_PROMPT:
        hows = tuple(_HOWS.get(verb, (How.RETURNED,)))
        for life in can_mean(facts, verb):
            yield from (Call(verb, SESSION, life.label, how) for how in hows)
    else:
        yield Call(verb, SESSION)


_HOWS = {"finish": (How.RETURNED, How.RAISED, How.STOPPED), "settle": (How.RETURNED, How.RAISED)}
