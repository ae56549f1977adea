"""A story: the way to a violation, in words, with prompts numbered as they came."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sessionsched.testing.explore.judge import Violation
from sessionsched.testing.explore.situation import NOTHING, mentioned
from sessionsched.testing.explore.step import take
from sessionsched.testing.explore.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionsched.testing.explore.situation import Action, Config, Frozen

__all__ = ["tell"]


def tell(config: Config, path: list[Action], violation: Violation) -> list[str]:
    """Walk a path again and tell it, in words, with prompts numbered as they came."""
    world, at = World(config), NOTHING
    names: dict[int, int] = {}
    prompts, told = 0, []
    for place, action in enumerate(path, 1):
        if action[0] == "accept":
            prompts += 1
            names[max(mentioned(at), default=0) + 1] = prompts
        told.append(f"  {place}. {_in_words(action, at, names)}")
        try:
            at, new = take(world, at, action)
        except Violation:
            break
        names = {new[seq]: name for seq, name in names.items() if seq in new}
    text = re.sub(r"\{(\d+)\}", lambda seq: _prompt(int(seq[1]), names), violation.text)
    return [*told, f"  => {violation.sentence}: {text}"]


def _prompt(seq: int, names: Mapping[int, int]) -> str:
    return f"prompt {names[seq]}" if seq in names else f"run {seq}"


def _in_words(  # noqa: PLR0911 - one line for each verb
    action: Action, at: Frozen, names: Mapping[int, int]
) -> str:
    match action:
        case ("accept", name, policy, ready):
            new = max(mentioned(at), default=0) + 1
            how = "" if ready else ", and is not ready yet"
            return f"{_prompt(new, names)} is accepted in session {name} ({policy}{how})"
        case ("cancel", name, scope, fence, hold):
            upto = "" if fence is None else f", up to {_prompt(fence, names)}"
            return f"session {name} is canceled ({scope}{upto}{', and held' if hold else ''})"
        case ("cancel_run", seq, _, cause):
            return f"{_prompt(seq, names)} alone is canceled ({cause})"
        case ("finish", seq, how):
            return f"the handler of {_prompt(seq, names)} is over ({how})"
        case ("settle", seq):
            return f"the drop of {_prompt(seq, names)} is recorded"
        case ("deliver",):
            effect, seq, _ = at.pending[0]
            return f"(the order to {effect} {_prompt(seq, names)} is carried out)"
        case (verb, int(seq), *_):
            return f"{verb} {_prompt(seq, names)}"
    return " ".join(str(part) for part in action)
