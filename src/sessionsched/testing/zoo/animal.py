"""What every animal says of itself, beside its bug, which is the first line of its docstring."""

from __future__ import annotations

from typing import ClassVar

from sessionsched.testing.zoo.tiny import Tiny

__all__ = ["Animal"]


class Animal(Tiny):
    """Tiny, but for one bug."""

    #: Its number in the list of races.
    race: ClassVar[int]
    #: Which kind of system shipped it.
    shipped_by: ClassVar[str] = "an agent host"
