"""Parts: what a model streams. Any provider fits that can be put into these.

Rule 1. A stream is any number of parts, and then one Finish. Without it the stream was cut off.
Rule 2. A call has an id that no other call of its step has. It is started once, may grow by deltas,
        and is done once; a provider that doesn't stream calls gives each as one CallDone.
Rule 3. Blank text is no content, but a sign of life.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

__all__ = [
    "CallDelta",
    "CallDone",
    "CallStart",
    "Extra",
    "Finish",
    "Part",
    "Reasoning",
    "Text",
    "Usage",
]


@frozen
class Text:
    """Something said."""

    text: str


@frozen
class Reasoning:
    """Something thought."""

    text: str


@frozen
class CallStart:
    """The model begins to call a tool."""

    call_id: str
    name: str


@frozen
class CallDelta:
    """More of the input of a call, as JSON text."""

    call_id: str
    text: str


@frozen
class CallDone:
    """A call is complete."""

    call_id: str
    #: May be blank when the start has said it.
    name: str = ""
    #: The whole input as JSON text; None: it is what the deltas have said.
    input: str | None = None


@frozen
class Extra:
    """Something of the provider's own (a signature, a citation): kept in its place, not read."""

    value: object


@frozen
class Usage:
    """How many tokens a step took."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """What the next request has to begin with, in tokens."""
        return self.input_tokens + self.output_tokens


@frozen
class Finish:
    """The model is through with this step."""

    #: In the provider's words. The loop goes by the calls in the step, not by this.
    reason: str = "stop"
    usage: Usage | None = None


Part: TypeAlias = Text | Reasoning | CallStart | CallDelta | CallDone | Extra | Finish
