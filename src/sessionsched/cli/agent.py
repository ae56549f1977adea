"""The agent of the demo: it streams words, works in steps, and takes a while to stop.

Rule 1. The seed, the prompt and the seq decide what it says and how fast: the same every time.
Rule 2. It is an ordinary handler. Nothing in here knows about the demo.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionsched import Run

__all__ = ["Agent"]

ANSWERS: Final = (
    "Let me look first, then change it in steps and test it",
    "I read the code around it and write a test that fails",
    "There are two ways to do it; I take the short one",
    "I have found the place; one line of it is simply wrong",
)
#: A prompt with this word in it is answered at such length.
LONG: Final = "long"
AT_LENGTH: Final = 3
#: Words from one step boundary to the next: there the agent looks for follow-ups.
STEP: Final = 4
#: Seconds for a word, at least and at most.
TEMPO_S: Final = (0.12, 0.2)
#: Seconds to stop: half an answer is written down, tools are told.
STOPPING_S: Final = 0.8
#: Seconds to write down that a prompt was dropped.
RECORDING_S: Final = 0.4


class Agent:
    """A fake model with a fake record: `Scheduler(agent, on_dropped=agent.record)`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def __call__(self, run: Run[str]) -> str:
        """Answer a prompt word by word, and at each step boundary what was said meanwhile."""
        dice = random.Random(f"{self.seed}/{run.seq}/{run.prompt}")  # noqa: S311 - no secret
        length = AT_LENGTH if LONG in run.prompt else 1
        to_say = deque(dice.choice(ANSWERS).split() * length)
        said: list[str] = []
        try:
            while to_say:
                await asyncio.sleep(dice.uniform(*TEMPO_S))
                said.append(to_say.popleft())
                run.emit(said[-1])
                if len(said) % STEP == 0:
                    for follow_up in run.take_follow_ups():
                        to_say.extend(f"(and {follow_up.prompt})".split())
        except asyncio.CancelledError:
            await asyncio.sleep(STOPPING_S)
            raise
        return " ".join(said)

    async def record(self, _run: Run[str]) -> None:
        """Write down that a prompt never ran. Takes a while, as a database does."""
        await asyncio.sleep(RECORDING_S)
