"""Plans: which worlds `make test` and `make verify` explore.

Three prompts is the floor: some bugs can't exist with two.
"""

from __future__ import annotations

from typing import Final

from sessionsched.testing.explore.situation import Config

__all__ = ["QUICK", "THOROUGH"]

#: More than 100,000 states in well under a minute.
QUICK: Final = {
    "one session": Config(prompts=4, cancels=2),
    "effects arrive late": Config(prompts=3, cancels=2, lag=True),
    "two sessions, one slot": Config(prompts=3, cancels=1, sessions=2, slots=1),
}

THOROUGH: Final = {
    "any length, 3 in flight, everything": Config.endless(3, everything=True),
    "any length, 4 in flight": Config.endless(4),
}
