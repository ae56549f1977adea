"""What is refused at the door, before anything changes."""

from __future__ import annotations

import enum
from typing import TypeVar

from sessionsched.errors import InvalidOption, InvalidSession

__all__ = ["at_least", "choice", "session_name"]

EnumT = TypeVar("EnumT", bound=enum.Enum)


def session_name(value: object) -> None:
    """Refuse what can't name a session.

    Raises:
        InvalidSession: it is not a string, or blank.
    """
    if not isinstance(value, str) or not value or value.isspace():
        msg = f"a session is named by a non-blank string, not by {value!r}"
        raise InvalidSession(msg, value)


def choice(kind: type[EnumT], name: str, value: object) -> EnumT:
    """Give the member of `kind` that `value` is or spells.

    Raises:
        InvalidOption: there is none.
    """
    if value.__class__ is kind:
        return value  # looking it up would be ten times slower
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        msg = f"{name} is one of {known}; not {value!r}"
        raise InvalidOption(msg, option=name, value=value) from None


def at_least(least: int, name: str, value: object) -> None:
    """Refuse what is not a whole number of at least `least`.

    Raises:
        InvalidOption: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"{name} must be a whole number of at least {least}, not {value!r}"
        raise InvalidOption(msg, option=name, value=value)
