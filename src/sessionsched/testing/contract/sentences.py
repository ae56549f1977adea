"""The sentences of the contract that the kit can judge, and what it needs for each.

Rule 1. A sentence is quoted as docs/contract.md has it, as far as an adapter lets us see.
Rule 2. A sentence that needs a feature which an adapter doesn't have is skipped, and listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched.testing.contract.adapter import Feature

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["SENTENCES", "Sentence", "judged", "skipped"]


@frozen
class Sentence:
    """One promise of the contract."""

    text: str
    #: One of these is needed for it to be judged; none: it always is.
    needs: tuple[Feature, ...] = ()


# fmt: off
SENTENCES: Final = {
    "A2": Sentence("An accepted run's seq is greater than every seq given before by that scheduler."),
    "A3": Sentence("There is no untracked path: whatever may run has a seq, is visible, and can be canceled."),
    "D1": Sentence("At most one run of a session is active at any time."),
    "D2": Sentence("Runs of a session start in accept order, whatever the order in which they become ready."),
    "D3": Sentence("A run that is accepted but not ready keeps its place.", (Feature.READY,)),
    "D4": Sentence("Nothing strands: when no run is active or ending, the first in line is ready, the session isn't held and a slot is free, that run starts, however the run before it ended."),
    "D5": Sentence("Sessions don't touch each other: a slow, stuck or canceled run in one never delays or cancels another, slots aside."),
    "X1": Sentence("A cancel covers every run of the session that was accepted before it and has not ended. Each of them ends CANCELED."),
    "X2": Sentence("A cancel never covers a run accepted after it."),
    "X3": Sentence("A cancel on an idle session changes nothing, makes no record and can't affect any later run."),
    "X5": Sentence("With `up_to`, only runs with seq at or below it are covered; a fence above the newest accepted run means that run.", (Feature.FENCE,)),
    "X6": Sentence("If the handler returns or fails after the cancel, the run is still CANCELED.", (Feature.TOLD,)),
    "X7": Sentence("A covered run that had not started never starts."),
    "X8": Sentence("The handler of a covered active run is canceled at once. Until it is over the session starts nothing.", (Feature.TOLD,)),
    "X9": Sentence("Canceling one run covers that run and the runs folded into it, and nothing else.", (Feature.CANCEL_ONE,)),
    "X10": Sentence("Scope ACTIVE keeps the line; scope WAITING keeps the active run; `hold` keeps the line from moving until resumed.", (Feature.SCOPE, Feature.HOLD)),
    "X13": Sentence("CANCELED means that somebody asked the scheduler to cancel.", (Feature.STRAY,)),
    "F1": Sentence("Only ready FOLD runs are folded, in accept order among themselves, when the active handler asks, and never into a covered run.", (Feature.FOLD,)),
    "F2": Sentence("A QUEUE run is never folded.", (Feature.FOLD,)),
    "F3": Sentence("A folded run ends right after the run that took it, with the same status.", (Feature.FOLD,)),
    "F4": Sentence("FOLD runs that nobody took run on their own, in accept order.", (Feature.FOLD,)),
    "T1": Sentence("Every accepted run ends exactly once."),
    "T2": Sentence("A run's end is announced before the next run of that session starts."),
    "P1": Sentence("`on_dropped` is awaited once for every run that ends without having started, before its RunEnded and before any later run of that session starts.", (Feature.RECORD,)),
    "P2": Sentence("If it fails or times out, the run still ends", (Feature.RECORD,)),
    "S1": Sentence("Closing refuses new prompts first.", (Feature.CLOSE,)),
    "S2": Sentence("Waiting runs end SUSPENDED without starting.", (Feature.CLOSE,)),
    "S3": Sentence("An active run that is interrupted by the shutdown ends SUSPENDED; one that returned all the same is COMPLETED; one that was also canceled is CANCELED.", (Feature.CLOSE,)),
}
# fmt: on


def judged(features: Collection[Feature]) -> list[str]:
    """Name the sentences that can be judged with these features."""
    left_out = skipped(features)
    return [name for name in SENTENCES if name not in left_out]


def skipped(features: Collection[Feature]) -> dict[str, str]:
    """Name the sentences that are skipped, each with the features that would let us judge it."""
    return {
        name: " or ".join(it.needs)
        for name, it in SENTENCES.items()
        if it.needs and not any(need in features for need in it.needs)
    }
