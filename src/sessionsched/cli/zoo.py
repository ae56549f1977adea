"""`sessionsched zoo`: a thin front for sessionsched.testing.zoo."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sessionsched.cli.progress import progress
from sessionsched.testing.zoo import ANIMALS, Tiny, run, table, watch

if TYPE_CHECKING:
    import argparse

    from sessionsched.cli.progress import Show
    from sessionsched.testing.zoo import Catch

__all__ = ["zoo"]


def zoo(args: argparse.Namespace) -> int:
    """Run the kit over every animal, and over Tiny; 1 if one got away, or Tiny was accused.

    Raises:
        ModuleNotFoundError: Hypothesis is not installed.
    """
    with progress() as show:
        catches = run(_Told(show))
        tiny = watch(Tiny, examples=args.examples)
    if args.json:
        print(json.dumps([_document(catch) for catch in (*catches, tiny)], indent=2))
    else:
        _print(catches, tiny, stories=args.stories)
    return 0 if all(catch.caught for catch in catches) and not tiny.caught else 1


class _Told:
    """Shows one animal after the other."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._done = 0

    def __call__(self, catch: Catch) -> None:
        self._done += 1
        found = f"caught by {catch.sentence}" if catch.caught else "got away"
        self._show(f"{catch.animal} {found}", self._done / len(ANIMALS))


def _print(catches: list[Catch], tiny: Catch, *, stories: bool) -> None:
    print(table(catches))
    print(f"\n{sum(catch.caught for catch in catches)} of {len(catches)} caught")
    verdict = "is accused, and has no bug" if tiny.caught else "is not accused"
    print(f"Tiny, which has no bug, {verdict} in {tiny.examples:,} stories")
    for catch in (*catches, tiny):
        if catch.caught and (stories or catch is tiny):
            print(f"\n{catch.animal}: {catch.bug}\n{catch.story}")


def _document(catch: Catch) -> dict[str, object]:
    """A catch for machines; the last is Tiny, with race 0."""
    return {
        "animal": catch.animal,
        "race": catch.race,
        "bug": catch.bug,
        "shipped_by": catch.shipped_by,
        "caught": catch.caught,
        "sentence": catch.sentence or None,
        "examples": catch.examples,
        "calls": catch.length,
        "seconds": catch.seconds,
        "story": None if catch.story is None else str(catch.story),
    }
