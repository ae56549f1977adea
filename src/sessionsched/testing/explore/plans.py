"""Plans: which worlds `make test` and `make verify` explore.

Three prompts is the floor: some bugs can't exist with two.
"""

from __future__ import annotations

from typing import Final

from sessionsched.testing.explore.situation import Config

__all__ = ["PLANS"]

#: More than 100,000 states in well under a minute.
QUICK: Final = {
    "one session": Config(prompts=4, cancels=2),
    "effects arrive late": Config(prompts=3, cancels=2, lag=True),
    "two sessions, one slot": Config(prompts=3, cancels=1, sessions=2, slots=1),
}

#: More than 5 million, in some twenty minutes on two processors; the longest first.
THOROUGH: Final = {
    "effects arrive late, 6 cancels": Config(4, 6, 3, 2, lag=True),
    "five prompts": Config(5, 4, 2, 1),
    "four prompts in two sessions, one slot": Config(4, 1, sessions=2, slots=1),
    "any length, 4 in flight": Config.endless(4),
    "any length, 3 in flight, everything": Config.endless(3, everything=True),
    "any length, 3 in flight, effects arrive late": Config.endless(3, lag=True),
    "two sessions, one slot, effects arrive late": Config(3, 1, sessions=2, slots=1, lag=True),
    **QUICK,
}

PLANS: Final = {"quick": QUICK, "thorough": THOROUGH}
