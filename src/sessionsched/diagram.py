"""The diagram: docs/state-diagram.md, printed from the code that sessions run on.

Rule 1. Nothing is said here that the code doesn't say: arrows come from ROWS and LIFE, sentences
        from SENTENCES and from the `#:` comments that stand at the members of an enumeration.
Rule 2. The same code prints the same text, so a test can compare it with the file.

Rows that join the same two states become one arrow, and rows that stay where they are become
lines in the box, or nobody could read the picture; the table below it keeps them apart.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from sessionsched.model import LIFE, Event, RunState, SessionState
from sessionsched.rows import ROWS, SENTENCES

if TYPE_CHECKING:
    import enum
    from collections.abc import Iterable, Sequence

    from sessionsched.rows import Row

__all__ = ["main", "meanings", "page", "plain_text", "when"]

MemberT = TypeVar("MemberT", bound="enum.StrEnum")

#: `NAME = "value"  #: what it means`, as the members in model.py are written.
MEMBER: Final = re.compile(r"^ +([A-Z_]+) = .*?  #: (.+)$", re.MULTILINE)

HEADER: Final = ("from", "event", "when", "to", "because")

PAGE: Final = """\
# The states of a session

A session is always in one of {states} states. {events} events move it, along {rows} rows and
no others: an event that has no row for the current state is a bug, and raises `IllegalEvent`.

Printed from `ROWS` by `make diagram`; do not edit.

{session}

Where an event can lead more than one way, the way without an *if* is taken when no other is.
[Every row](#every-row) has the order in which they are tried, and the reasons.

## What is true in each state

Exactly one of these sentences holds at any time, and it is the one that `state` names.

{sentences}

## What can happen

{happenings}

## Every row

Where several rows match, the first whose *when* holds is taken; the last has none.

{table}

## The life of one run

{life}

{run_sentences}
"""


class Step(NamedTuple):
    """One way from one state to another."""

    source: str
    event: str
    when: str
    target: str


def meanings(words: type[MemberT]) -> dict[MemberT, str]:
    """What each member of an enumeration means: the `#:` comment behind it in the source.

    Raises:
        KeyError: a member has none.
    """
    found = dict(MEMBER.findall(inspect.getsource(words)))
    return {member: found[member.name] for member in words}


def when(row: Row) -> str:
    """A guard's name is its sentence; a row without a guard has none."""
    return "" if row.when is None else row.when.__name__.replace("_", " ")


def page() -> str:
    """The whole of docs/state-diagram.md."""
    return PAGE.format(
        states=len(SessionState),
        events=len(Event),
        rows=len(ROWS),
        session=_mermaid([Step(row.source, row.event, when(row), row.target) for row in ROWS]),
        sentences=_markdown(("state", "what is true"), _sentences()),
        happenings=_markdown(("event", "what happens"), meanings(Event).items()),
        table=_markdown(HEADER, _cells()),
        life=_mermaid([Step(source, event, "", target) for source, event, target in LIFE]),
        run_sentences=_markdown(("state", "what is true"), meanings(RunState).items()),
    )


def plain_text() -> str:
    """The states and the rows, in columns, for a terminal."""
    states = _columns(("state", "what is true"), _sentences())
    return f"{states}\n\n{_columns(HEADER, _cells())}\n"


def _sentences() -> list[tuple[str, str]]:
    return [(state, sentence) for state, (sentence, _) in SENTENCES.items()]


def _cells() -> list[tuple[str, ...]]:
    return [(row.source, row.event, when(row), row.target, row.because) for row in ROWS]


def _mermaid(steps: Sequence[Step]) -> str:
    """A picture that begins where the first step does, and ends where no step leads on."""
    # By source, because the order of the lines decides the layout, and this one has no knots.
    arrows: dict[str, dict[str, list[Step]]] = {step.source: {} for step in steps}
    for step in steps:
        arrows[step.source].setdefault(step.target, []).append(step)
    ends = dict.fromkeys(step.target for step in steps if step.target not in arrows)
    lines = [
        f"[*] --> {steps[0].source}",
        *(line for ways in arrows.values() for same in ways.values() for line in _way(same)),
        *(f"{end} --> [*]" for end in ends),
    ]
    return "\n    ".join(["```mermaid\nstateDiagram-v2", *lines]) + "\n```"


def _way(steps: Sequence[Step]) -> list[str]:
    """An arrow; or, where a state leads to itself, lines in its box: loops hide other labels."""
    source, _, _, target = steps[0]
    if source == target:
        lines = [f"{source}: stays on {label}" for label in _labels(steps, " ")]
        return [f"{source}: {source}", *lines]  # without its name first, the box would lose it
    return [f"{source} --> {target}: {'<br/>'.join(_labels(steps, '<br/>'))}"]


def _labels(steps: Iterable[Step], gap: str) -> list[str]:
    """Events that share a guard share a line: `finish, settle if some wait`."""
    events: dict[str, list[str]] = {}
    for step in steps:
        events.setdefault(step.when, []).append(step.event)
    return [
        ", ".join(names) + (f" if{gap}{guard}" if guard else "") for guard, names in events.items()
    ]


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def _columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    table = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in table)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the page, or write it, or print the tables alone."""
    parser = argparse.ArgumentParser(
        prog="python -m sessionsched.diagram",
        description="Print the states of a session from the table that sessions run on.",
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", metavar="PATH", type=Path, help="write the page to this file")
    choice.add_argument("--table", action="store_true", help="print states and rows as plain text")
    options = parser.parse_args(argv)
    if options.write is None:
        sys.stdout.write(plain_text() if options.table else page())
        return
    options.write.write_text(page(), encoding="utf-8", newline="\n")
    sys.stdout.write(f"{options.write}: {len(SessionState)} states, {len(ROWS)} rows\n")


if __name__ == "__main__":
    main()
