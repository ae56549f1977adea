"""What is refused at the door, before anything changes."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
from typing import TypeVar

from sessionsched.errors import InvalidOption, InvalidSession

__all__ = [
    "at_least",
    "choice",
    "coroutine_function",
    "plain_function",
    "run_name",
    "seconds",
    "session_name",
]

EnumT = TypeVar("EnumT", bound=enum.Enum)


def session_name(value: object) -> None:
    """Refuse what can't name a session.

    Raises:
        InvalidSession: it is not a string, or blank.
    """
    if not isinstance(value, str) or not value or value.isspace():
        msg = f"a session is named by a non-blank string, not by {value!r}"
        raise InvalidSession(msg, value)


def run_name(value: object, session_id: object = None) -> None:
    """Refuse what can't name a run.

    Raises:
        InvalidOption: it is not a string, or blank.
    """
    if not isinstance(value, str) or not value or value.isspace():
        msg = f"a run is named by a non-blank string, not by {value!r}"
        raise InvalidOption(msg, session_id, option="run_id", value=value)


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


def seconds(name: str, value: object, *, positive: bool = False) -> None:
    """Refuse what is not a number of seconds.

    Raises:
        InvalidOption: it is not a number, not finite, negative, or zero where it can't be.
    """
    fits = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (0 < value <= sys.float_info.max or (value == 0 and not positive))
    )
    if not fits:
        at_least = "more than zero" if positive else "zero or more"
        msg = f"{name} is a number of seconds, {at_least}, not {value!r}"
        raise InvalidOption(msg, option=name, value=value)


def coroutine_function(name: str, value: object) -> None:
    """Refuse what can't be called and awaited.

    Raises:
        InvalidOption: it is neither written with `async def` nor an object that is called so.
    """
    if not _is_async(value):
        msg = f"{name} must be written with async def; {value!r} is not"
        raise InvalidOption(msg, option=name, value=value)


def plain_function(name: str, value: object) -> None:
    """Refuse what can't be called, or does nothing until it is awaited.

    Raises:
        InvalidOption: it can't be called, or is written with `async def`.
    """
    if not callable(value) or _is_async(value):
        msg = f"{name} must be a function that is not written with async def; {value!r} is not"
        raise InvalidOption(msg, option=name, value=value)


def _is_async(value: object) -> bool:
    while isinstance(value, functools.partial):
        value = value.func
    called = None if isinstance(value, type) else getattr(type(value), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(called)
