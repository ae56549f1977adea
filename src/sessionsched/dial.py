"""Which connection a handler gets to a machine that may have been replaced in the meantime.

Rule 1. Dial at once. Ask which target is current only when that dial is slow, or has failed.
Rule 2. A dial is given up only when the answer names another target, or none. Until then, and after
        an error, nothing is proven against it.
Rule 3. Whoever dials owns the connection, until it is returned. One that is not returned is closed
        exactly once, however late it comes, and nobody waits for that.
Rule 4. A cancel of the caller is never lost: if a connection is there, it is returned, and the
        cancel strikes at the caller's next await.

`dial` and `validate` run in tasks of their own, so that neither can keep a caller who is canceled:
one that ignores its cancel goes on behind, and nobody hears how it ends.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from attrs import frozen

from sessionsched import checks
from sessionsched.errors import SessionSchedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import TypeAlias

    Dial: TypeAlias = Callable[["TargetT"], Awaitable["ConnectionT"]]
    Validate: TypeAlias = Callable[["TargetT"], Awaitable["TargetT | None"]]

__all__ = ["Closable", "Dialed", "NoTarget", "StrayCancel", "dial_with_lazy_validation"]

T = TypeVar("T")
TargetT = TypeVar("TargetT")
ConnectionT = TypeVar("ConnectionT", bound="Closable")

#: What goes on by itself: asyncio alone would let it be collected. Each leaves when it is over.
_GOING: set[asyncio.Task[Any]] = set()


class Closable(Protocol):
    """A connection: `close` is a plain function that is quick, or one that is to be awaited."""

    def close(self) -> object:
        """Give back what it holds."""
        ...


class NoTarget(SessionSchedError):
    """There is nothing to dial any longer: validation says that no target is current."""

    def __init__(self, message: str, target: object = None) -> None:
        super().__init__(message)
        #: The one that was dialed in vain.
        self.target = target


class StrayCancel(SessionSchedError):
    """`dial` or `validate` came up with a CancelledError although nobody had canceled it."""


@frozen
class Dialed(Generic[TargetT, ConnectionT]):
    """A connection that is the caller's from now on."""

    connection: ConnectionT
    #: What it is connected to.
    target: TargetT
    #: That is another target than the one which was asked for.
    switched: bool


async def dial_with_lazy_validation(
    target: TargetT,
    dial: Dial[TargetT, ConnectionT],
    validate: Validate[TargetT],
    delay: float,
) -> Dialed[TargetT, ConnectionT]:
    """Connect to `target`, or to what has taken its place.

    `validate(target)` is asked which target is current (None: there is none), but only when the
    dial has failed, or is not there after `delay` seconds. From then on the answer is waited for,
    also when the dial succeeds first: bound it in time, if it may hang.

    Raises:
        NoTarget: no target is current.
        StrayCancel: the last dial, or a validation that was needed, canceled itself.
        InvalidOption: `delay` is not a number of seconds; nothing was dialed.
        Exception: whatever the last dial raised, or a validation that a failed dial has made
            necessary.
    """
    checks.seconds("delay", delay)
    call = _Call(target, dial, validate)
    try:
        return await call.run(delay)
    except asyncio.CancelledError as cancel:
        if not call.is_ready():
            raise
        _strike_later(cancel)
        return call.take()
    finally:
        call.give_up()


class _Call(Generic[TargetT, ConnectionT]):
    """One call of the above: two attempts at most, and one question."""

    def __init__(
        self, target: TargetT, dial: Dial[TargetT, ConnectionT], validate: Validate[TargetT]
    ) -> None:
        self._target = target
        self._dial = dial
        self._validate = validate
        #: The newest. One that came before it has been given up.
        self._attempt = _Attempt(dial, target)
        #: Asked once at most, and only about the first attempt.
        self._question: asyncio.Task[TargetT | None] | None = None

    async def run(self, delay_s: float) -> Dialed[TargetT, ConnectionT]:
        await asyncio.wait([self._attempt.task], timeout=delay_s)
        if not self._attempt.task.done():
            return await self._slow()
        try:
            return self.take()
        except Exception:  # noqa: BLE001 - whatever it was: it is the context of what follows
            return await self._dial_again(await self._ask())

    def take(self) -> Dialed[TargetT, ConnectionT]:
        """Give the attempt's connection to the caller, or raise what the attempt has raised."""
        connection, target = self._attempt.take(), self._attempt.target
        return Dialed(connection, target, switched=target != self._target)

    def is_ready(self) -> bool:
        """Whether there is a connection that no answer speaks against."""
        return self._attempt.is_connected() and not self._is_stale()

    def give_up(self) -> None:
        """Let go of everything that has not been taken."""
        self._attempt.give_up()
        if self._question is not None:
            self._question.cancel()

    async def _slow(self) -> Dialed[TargetT, ConnectionT]:
        try:
            current = await self._ask()
        except Exception:  # noqa: BLE001 - it proves nothing, whatever it was
            current = self._target
        if current != self._target:
            return await self._dial_again(current)
        await asyncio.wait([self._attempt.task])
        return self.take()

    async def _ask(self) -> TargetT | None:
        self._question = _start(_await(self._validate, self._target))
        await asyncio.wait([self._question])
        return _result(self._question, "validate")

    async def _dial_again(self, current: TargetT | None) -> Dialed[TargetT, ConnectionT]:
        self._attempt.give_up()
        if current is None:
            msg = f"{self._target!r} is not current any longer, and nothing has taken its place"
            raise NoTarget(msg, self._target)
        self._attempt = _Attempt(self._dial, current)
        await asyncio.wait([self._attempt.task])
        return self.take()

    def _is_stale(self) -> bool:
        """Whether an answer is there that the attempt does not follow yet."""
        question = self._question
        if question is None or not _has_succeeded(question):
            return False
        return question.result() != self._attempt.target


class _Attempt(Generic[TargetT, ConnectionT]):
    """One dial, and the connection that comes of it."""

    def __init__(self, dial: Dial[TargetT, ConnectionT], target: TargetT) -> None:
        self.target = target
        #: The connection is ours: neither taken nor given up. Never true again.
        self._ours = True
        self.task = _start(self._run(dial))

    def is_connected(self) -> bool:
        """Whether a connection is there."""
        return _has_succeeded(self.task)

    def take(self) -> ConnectionT:
        """Give the connection away, or raise why there is none."""
        connection = _result(self.task, "dial")
        self._ours = False
        return connection

    def give_up(self) -> None:
        """Nobody wants the connection, whether it is there or still to come. Idempotent."""
        if not self._ours:
            return
        self._ours = False
        if self.is_connected():
            _close(self.task.result())
        else:
            self.task.cancel()

    async def _run(self, dial: Dial[TargetT, ConnectionT]) -> ConnectionT:
        connection = await dial(self.target)
        if self._ours:
            return connection
        if (closing := _close(connection)) is not None:
            await closing  # a loop that is torn down waits for us, but not for newer tasks
        raise asyncio.CancelledError


def _close(connection: Closable) -> asyncio.Task[None] | None:
    """Close it now; what is left to be awaited goes on by itself. Errors are told to the loop."""
    try:
        closing = connection.close()
    except Exception as error:  # noqa: BLE001 - it is told to the loop
        _complain(error)
        return None
    return _start(_see_through(closing)) if inspect.isawaitable(closing) else None


async def _see_through(closing: Awaitable[object]) -> None:
    try:
        await closing
    except Exception as error:  # noqa: BLE001 - it is told to the loop
        _complain(error)


def _complain(error: Exception) -> None:
    message = "closing a connection that nobody wanted any longer has failed"
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


def _strike_later(cancel: asyncio.CancelledError) -> None:
    """Let a cancel that was put off strike at the next await, unless it is taken back until then.

    Whoever takes it back (`asyncio.timeout` does) lowers the count of cancels. To cancel the task
    at once would be wrong: what it returns in this very step would be thrown away.
    """
    task = cast("asyncio.Task[Any]", asyncio.current_task())
    count = task.cancelling()

    def strike() -> None:
        if task.cancelling() >= count:
            task.uncancel()  # it is the same cancel, so it counts once
            task.cancel(*cancel.args)

    asyncio.get_running_loop().call_soon(strike)


async def _await(function: Callable[[TargetT], Awaitable[T]], target: TargetT) -> T:
    return await function(target)


def _start(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(coroutine)
    _GOING.add(task)
    task.add_done_callback(_over)
    return task


def _over(task: asyncio.Task[Any]) -> None:
    _GOING.discard(task)
    if not task.cancelled():
        task.exception()  # now it is seen: nobody has to look at what was given up


def _has_succeeded(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def _result(task: asyncio.Task[T], name: str) -> T:
    try:
        return task.result()
    except asyncio.CancelledError as stray:
        msg = f"{name} was canceled, but not by whoever waits for it"
        raise StrayCancel(msg) from stray
