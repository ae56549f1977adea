"""What a model is asked: the protocol that a provider is put behind, and what it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from sessionsched.model import Run
    from sessionsched.steps.history import Entry
    from sessionsched.steps.parts import Part
    from sessionsched.steps.tools import Tool

__all__ = ["Model", "Request"]


@frozen
class Request:
    """What one step begins with. A retried attempt begins with the same."""

    run: Run[Any]
    #: The step's number in its turn, from 1.
    step: int
    #: Every call in it is answered.
    history: tuple[Entry, ...]
    #: Those that the model may call just now.
    tools: tuple[Tool, ...]


class Model(Protocol):
    """Anything that streams parts: an `async def` that yields, or an object that is called so."""

    def __call__(self, request: Request, /) -> AsyncIterable[Part]:
        """Stream one step. What it gives is closed (`aclose`), in the task that has read it."""
        ...
