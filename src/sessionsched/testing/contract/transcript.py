"""Transcripts: a story as the lines that a program is sent, to keep, to edit and to tell again.

    ./my-scheduler < story.jsonl

Rule 1. A transcript is nothing but what goes to the program: a shell can feed it.
Rule 2. `expect` says which seq a prompt had when the story was written down; later lines mean it by
        that. Without it prompts are counted from 1, as most programs do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from sessionsched.model import How
from sessionsched.testing.contract.calls import VERBS, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SAMPLE", "calls_of", "lines_of"]

#: A story for a first try, by hand: Escape while one prompt runs, and another one right after it.
SAMPLE: Final[Sequence[dict[str, Any]]] = (
    {"do": "hello", "protocol": 1},
    {"do": "begin"},
    {"do": "accept", "session": "a", "expect": 1},
    {"do": "ready", "seq": 1},
    {"do": "rest"},
    {"do": "cancel", "session": "a"},
    {"do": "accept", "session": "a", "expect": 2},
    {"do": "ready", "seq": 2},
    {"do": "rest"},
    {"do": "finish", "seq": 1, "how": "stopped"},
    {"do": "rest"},
    {"do": "finish", "seq": 2, "how": "returned"},
    {"do": "rest"},
)


def lines_of(requests: Iterable[dict[str, Any]]) -> str:
    """Write requests down, one per line."""
    return "".join(f"{json.dumps(request)}\n" for request in requests)


def calls_of(text: str) -> list[Call]:
    """Read a transcript as calls.

    Raises:
        ValueError: a line is no JSON object, or nothing that a transcript can say; says which.
    """
    calls: list[Call] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                _add(calls, json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                msg = f"line {number} says nothing that a transcript can say: {line} ({error!r})"
                raise ValueError(msg) from error
    return calls


def _add(calls: list[Call], request: dict[str, Any]) -> None:
    """Add a call; or, to the one before it, what the scheduler had time for."""
    do = request["do"]
    if do == "step" and calls:
        calls[-1] = evolve(
            calls[-1], steps=None if calls[-1].steps is None else calls[-1].steps + 1
        )
    elif do == "rest" and calls:
        calls[-1] = evolve(calls[-1], steps=None)
    elif do not in ("hello", "begin", "step", "rest"):
        calls.append(_call(do, request, calls))


def _call(do: str, request: dict[str, Any], calls: list[Call]) -> Call:
    if do not in VERBS:
        msg = f"{do!r} is none of {', '.join(VERBS)}"
        raise ValueError(msg)
    prompt = request.get("seq", 0)
    if do in ("accept", "follow_up"):
        before = sum(call.verb in ("accept", "follow_up") for call in calls)
        prompt = request.get("expect", before + 1) or before + 1
    how = How(request.get("how", "raised" if request.get("failed") else "returned"))
    return Call(do, request.get("session", ""), prompt, how, steps=0)
