"""A draft: the content of one step while it is streamed.

Rule 1. Every attempt has a draft of its own: what a failed one said is never mixed with the next.
Rule 2. A sealed draft does not change, whatever the stream still says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from attrs import Factory, define

from sessionsched.steps.faults import StreamBroken
from sessionsched.steps.history import ToolCall
from sessionsched.steps.parts import (
    CallDelta,
    CallDone,
    CallStart,
    Extra,
    Finish,
    Reasoning,
    Text,
)

if TYPE_CHECKING:
    from sessionsched.steps.history import Content
    from sessionsched.steps.parts import Part

__all__ = ["Draft"]


@define
class _Prose:
    """Text, or reasoning, that grows."""

    kind: type[Text | Reasoning]
    chunks: list[str] = Factory(list)

    def content(self) -> Content:
        return self.kind("".join(self.chunks))


@define
class _Call:
    """A call whose input grows until it is complete."""

    call_id: str
    name: str
    chunks: list[str] = Factory(list)
    complete: bool = False

    def content(self) -> Content:
        return ToolCall(self.call_id, self.name, "".join(self.chunks), self.complete)


_Piece: TypeAlias = _Prose | _Call | Extra


class Draft:
    """What one attempt has streamed so far."""

    def __init__(self) -> None:
        #: In the order in which they were begun; only the last prose grows, and calls by their id.
        self._pieces: list[_Piece] = []
        #: The calls among the pieces.
        self._calls: dict[str, _Call] = {}
        #: Set once, by the last part.
        self.finish: Finish | None = None
        #: Set once, when nobody listens any longer.
        self.sealed = False

    def add(self, part: Part) -> None:
        """Take one more part.

        Raises:
            StreamBroken: it makes no sense here; nothing has changed.
        """
        match part:
            case Text(text) | Reasoning(text):
                self._say(type(part), text)
            case CallStart(call_id, name):
                self._begin(call_id, name)
            case CallDelta(call_id, text):
                self._open_call(call_id).chunks.append(text)
            case CallDone():
                self._complete(part)
            case Extra():
                self._pieces.append(part)
            case Finish():
                self.finish = part
            case _:
                msg = f"a stream is made of parts; {part!r} is none"
                raise StreamBroken(msg)

    def content(self) -> tuple[Content, ...]:
        """Give what came, half calls included."""
        return tuple(it if isinstance(it, Extra) else it.content() for it in self._pieces)

    def _say(self, kind: type[Text | Reasoning], text: str) -> None:
        if not text:
            return
        last = self._pieces[-1] if self._pieces else None
        if not isinstance(last, _Prose) or last.kind is not kind:
            last = _Prose(kind)
            self._pieces.append(last)
        last.chunks.append(text)

    def _begin(self, call_id: str, name: str) -> _Call:
        if call_id in self._calls:
            msg = f"call {call_id!r} was started before"
            raise StreamBroken(msg)
        call = self._calls[call_id] = _Call(call_id, name)
        self._pieces.append(call)
        return call

    def _open_call(self, call_id: str) -> _Call:
        call = self._calls.get(call_id)
        if call is None or call.complete:
            msg = f"call {call_id!r} was not started, or is complete"
            raise StreamBroken(msg)
        return call

    def _complete(self, part: CallDone) -> None:
        known = part.call_id in self._calls
        call = self._open_call(part.call_id) if known else self._begin(part.call_id, part.name)
        call.name = part.name or call.name
        if part.input is not None:
            call.chunks = [part.input]
        call.complete = True
