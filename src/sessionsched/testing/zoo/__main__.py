"""The command: `python -m sessionsched.testing.zoo`. Gives 1 if an animal got away."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from sessionsched.testing.zoo import ANIMALS, Catch, Tiny, run, table, watch


def main(argv: list[str] | None = None) -> int:
    """Run the kit over the zoo, and over Tiny, which has no bug."""
    args = _parser().parse_args(argv)
    catches = run(_progress if sys.stderr.isatty() else None)
    tiny = watch(Tiny, examples=args.examples)
    if args.json:
        _print(json.dumps({"animals": [_as_json(it) for it in catches], "tiny": _as_json(tiny)}))
    else:
        _print_table(catches, tiny, stories=args.stories)
    return 0 if all(it.caught for it in catches) and not tiny.caught else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sessionsched.testing.zoo", description=(
        "Run the kit over small schedulers that have one historical bug each, and over one that "
        "has none."
    ))  # fmt: skip
    parser.add_argument("--examples", type=int, default=500, help=(
        "how many stories the scheduler without a bug is told"
    ))  # fmt: skip
    parser.add_argument("--stories", action="store_true", help="also how each was caught")
    parser.add_argument("--json", action="store_true", help="for machines")
    return parser


def _print_table(catches: list[Catch], tiny: Catch, *, stories: bool) -> None:
    _print(table(catches))
    caught = sum(it.caught for it in catches)
    seconds = sum(it.seconds for it in catches)
    _print(f"\n{caught} of {len(catches)} caught in {seconds:.1f} s")
    verdict = "is accused, and has no bug" if tiny.caught else "is not accused"
    _print(f"Tiny, which has no bug, {verdict} in {tiny.examples:,} stories")
    for it in [*catches, tiny] if stories else [tiny] if tiny.caught else []:
        _print(f"\n{it.animal}: {it.bug}\n{it.story}")


def _as_json(catch: Catch) -> dict[str, Any]:
    story = catch.story
    return {
        "animal": catch.animal,
        "race": catch.race,
        "bug": catch.bug,
        "shipped_by": catch.shipped_by,
        "caught_by": catch.sentence or None,
        "examples": catch.examples,
        "seconds": round(catch.seconds, 3),
        "calls": catch.length,
        "story": None if story is None else [line.strip() for line in story.lines],
        "text": None if story is None else story.text,
        "diagram": None if story is None else story.diagram,
    }


def _progress(catch: Catch) -> None:
    sys.stderr.write(f"\r\033[K{catch.animal}: {catch.sentence or 'got away'}")
    if catch.animal == ANIMALS[-1].__name__:
        sys.stderr.write("\r\033[K")
    sys.stderr.flush()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
