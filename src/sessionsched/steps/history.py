"""History: what was said so far, and what a model is asked with.

Rule 1. A step holds its calls and their results together: nothing can come between the two.
Rule 2. Nothing in here changes once it is made.

A host that stores each step it is given to persist can go on later with
`history=[*earlier, *first.entries, *second.entries]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import evolve, frozen

from sessionsched.steps.parts import Extra, Reasoning, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionsched.model import Cause
    from sessionsched.steps.parts import Finish

__all__ = ["Content", "Entry", "Said", "Step", "ToolCall", "ToolResult", "mended", "unanswered"]


@frozen
class Said:
    """What somebody other than the model said: a prompt, or what the host puts in."""

    content: object
    #: "user", "system", or whatever the model understands.
    who: str = "user"


@frozen
class ToolCall:
    """One call of a tool, in the place where the model made it."""

    call_id: str
    name: str
    #: JSON text, as far as it came.
    input: str
    #: False: it was cut off, and has not been run.
    complete: bool = True


#: What a step is made of.
Content: TypeAlias = Text | Reasoning | ToolCall | Extra


@frozen
class ToolResult:
    """The one answer to a call."""

    call_id: str
    name: str
    content: object
    #: It did not work out; the content says why.
    error: bool = False
    #: The tool wants the turn to be over with this step.
    stop: bool = False
    #: The call was cut off, or its answer was lost: nobody knows what the tool has done.
    synthetic: bool = False


@frozen
class Step:
    """One stream of a model, and the answers to the calls in it."""

    #: 1 for the first step of the turn.
    number: int
    #: In the order in which the model began each piece.
    content: tuple[Content, ...] = ()
    #: One for each call, in the order of the calls.
    results: tuple[ToolResult, ...] = ()
    #: None: the stream was cut off by a cancel.
    finish: Finish | None = None
    #: The follow-ups that were taken just before it.
    asked: tuple[Said, ...] = ()
    #: Why it was cut short, in its stream or among its tools; None: it is whole.
    cause: Cause | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What it adds to a history: the follow-ups, and then itself."""
        return (*self.asked, self)

    @property
    def text(self) -> str:
        """What the model said in it."""
        return "".join(piece.text for piece in self.content if isinstance(piece, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it, in order."""
        return tuple(piece for piece in self.content if isinstance(piece, ToolCall))

    @property
    def final(self) -> bool:
        """Whether the model has nothing more to do: it is whole, and calls no tool."""
        return self.cause is None and not self.calls


#: What a history is made of.
Entry: TypeAlias = Said | Step


def unanswered(call: ToolCall, why: str) -> ToolResult:
    """Make the result of a call that has no other."""
    return ToolResult(call.call_id, call.name, why, error=True, synthetic=True)


def mended(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """Answer what nobody has answered, in a history that comes from who knows where.

    No provider takes a call without a result, and whoever stored it may have been killed between
    the two.
    """
    return tuple(_answered(entry) if isinstance(entry, Step) else entry for entry in history)


def _answered(step: Step) -> Step:
    known = {result.call_id: result for result in step.results}
    if all(call.call_id in known for call in step.calls):
        return step
    results = tuple(
        known.get(call.call_id) or unanswered(call, "the result of this call was lost")
        for call in step.calls
    )
    return evolve(step, results=results)
