"""How a scheduler was set up, checked once. Times are in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from sessionsched import checks
from sessionsched.model import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Options"]


@frozen
class Options:
    """What the host asked for."""

    handler: Callable[..., Any]
    on_dropped: Callable[..., Any] | None
    prepare: Callable[..., Any] | None
    #: For `prepare`, or for a ticket to become ready; None: no limit.
    prepare_s: float | None
    limits: Limits
    #: How long a handler may go on after a cancel before it is told again.
    grace_s: float
    #: How long it may go on before nobody waits for it any longer; None: for ever.
    abandon_s: float | None
    #: For one call of `on_dropped`.
    settle_s: float

    @classmethod
    def checked(
        cls,
        check_function: Callable[[str, object], None],
        handler: Callable[..., Any],
        *,
        on_dropped: Callable[..., Any] | None,
        prepare: Callable[..., Any] | None,
        prepare_timeout: float | None,
        limits: Limits | None,
        grace: float,
        abandon_after: float | None,
        settle_timeout: float,
    ) -> Options:
        """Take what the host gave.

        Raises:
            InvalidOption: a function is of the wrong kind, or a time is none.
        """
        check_function("handler", handler)
        for name, hook in (("on_dropped", on_dropped), ("prepare", prepare)):
            if hook is not None:
                check_function(name, hook)
        for name, limit in (
            ("prepare_timeout", prepare_timeout), ("abandon_after", abandon_after),
        ):  # fmt: skip
            if limit is not None:
                checks.seconds(name, limit)
        checks.seconds("settle_timeout", settle_timeout)
        checks.seconds("grace", grace, positive=True)
        return cls(
            handler, on_dropped, prepare, prepare_timeout, limits or Limits(), grace,
            abandon_after, settle_timeout,
        )  # fmt: skip
