"""The zoo: one tiny scheduler for each race that agent hosts have shipped, and the kit over them.

    python -m sessionsched.testing.zoo

Rule 1. Each animal is `Tiny` but for its one bug. Tiny itself is never accused.
Rule 2. All are caught with the default settings, by the same stories every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched.testing.zoo.canceling import (
    CountedCancels,
    DequeuedIsNobody,
    HookOfTheNext,
    IdleCancelStays,
    LostBeforeActive,
    MarkClearedEarly,
    MarkTooHigh,
    MarkTooLow,
)
from sessionsched.testing.zoo.ending import (
    ClearedWithoutLock,
    EarlyReturn,
    ErrorOfAnother,
    LastToKnow,
    SilentDrop,
    VanishedFollowUps,
)
from sessionsched.testing.zoo.ordering import (
    BehindTheUnwinding,
    LastComeFirst,
    StrandedByAnError,
    TwoSeeNotBusy,
)
from sessionsched.testing.zoo.tiny import Tiny

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.contract.story import Story
    from sessionsched.testing.zoo.animal import Animal

__all__ = ["ANIMALS", "Catch", "Tiny", "run", "table"]

#: Every animal, by the number of its race.
ANIMALS: Final[tuple[type[Animal], ...]] = (
    LostBeforeActive,
    CountedCancels,
    IdleCancelStays,
    MarkClearedEarly,
    MarkTooLow,
    MarkTooHigh,
    SilentDrop,
    EarlyReturn,
    StrandedByAnError,
    BehindTheUnwinding,
    DequeuedIsNobody,
    TwoSeeNotBusy,
    HookOfTheNext,
    ClearedWithoutLock,
    LastComeFirst,
    LastToKnow,
    VanishedFollowUps,
    ErrorOfAnother,
)


@frozen
class Catch:
    """What became of one animal."""

    animal: str
    #: Its number in the list of races; 0 for Tiny, which has none.
    race: int
    #: The bug, and who shipped it.
    bug: str
    shipped_by: str
    #: How many stories were tried.
    examples: int
    seconds: float
    #: The shortest story that shows it; None: it got away.
    story: Story | None

    @property
    def caught(self) -> bool:
        """Whether the kit found it."""
        return self.story is not None

    @property
    def sentence(self) -> str:
        """The sentence of the contract that caught it; blank: none did."""
        return "" if self.story is None else self.story.sentence

    @property
    def length(self) -> int:
        """How many calls the shortest story has."""
        return 0 if self.story is None else len(self.story)


def run(
    progress: Callable[[Catch], object] | None = None, *, examples: int | None = None
) -> list[Catch]:
    """Run the kit over every animal, and give what became of each; `progress` is told one by one.

    Raises:
        ModuleNotFoundError: Hypothesis is not installed; says what to install.
    """
    catches = []
    for animal in ANIMALS:
        catch = watch(animal, examples=examples)
        catches.append(catch)
        if progress is not None:
            progress(catch)
    return catches


def watch(animal: type[Tiny], *, examples: int | None = None) -> Catch:
    """Run the kit over one animal, or over Tiny.

    Raises:
        ModuleNotFoundError: Hypothesis is not installed; says what to install.
    """
    from sessionsched.testing.contract import check  # noqa: PLC0415 - needs Hypothesis

    found = check(animal, examples=examples)
    return Catch(
        animal=animal.__name__,
        race=getattr(animal, "race", 0),
        bug=(animal.__doc__ or "").strip(),
        shipped_by=getattr(animal, "shipped_by", ""),
        examples=found.examples,
        seconds=found.seconds,
        story=found.story,
    )


def table(catches: list[Catch]) -> str:
    """Draw what became of the animals, for people."""
    rows = [("race", "animal", "caught by", "examples", "calls", "bug")]
    rows += [
        (
            str(it.race), it.animal, it.sentence or "got away", str(it.examples),
            str(it.length or "-"), it.bug,
        )
        for it in catches
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]  # fmt: skip
    lines.insert(1, "  ".join("-" * width for width in widths[:-1]))
    return "\n".join(lines)
