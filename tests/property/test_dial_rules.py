"""Dials, answers, closes and cancels at random times on a coarse grid, so that they often coincide.

What must hold whatever happens: no connection leaks, none is closed twice, none that was returned
is closed; nobody is kept waiting; and the connection is one that no answer has spoken against.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import async_solipsism
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionsched.dial import Dialed, NoTarget, StrayCancel, dial_with_lazy_validation

if TYPE_CHECKING:
    from collections.abc import Coroutine

OLD, NEW = "old", "new"
FOREVER = 1000.0

SECONDS = st.sampled_from([0.0, 1.0, 2.0, 3.0])
#: Turns of the loop that something takes beyond its time: they order what falls together.
TURNS = st.integers(0, 4)


class Broken(Exception):
    """What a dial, a validation or a close raises here."""


@define(frozen=True)
class Act:
    """How something goes: for how long, whether it heeds a cancel, and to which end."""

    seconds: float
    turns: int
    heeds: bool
    end: str

    async def take_its_time(self) -> None:
        over = asyncio.get_running_loop().time() + self.seconds
        await self._wait(over)
        for _ in range(self.turns):
            with contextlib.suppress(*self._deaf()):
                await asyncio.sleep(0)
        if self.end == "raise":
            raise Broken
        if self.end == "stray":
            raise asyncio.CancelledError

    async def _wait(self, over: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < over:
            with contextlib.suppress(*self._deaf()):
                await asyncio.sleep(over - loop.time())

    def _deaf(self) -> tuple[type[BaseException], ...]:
        return () if self.heeds else (asyncio.CancelledError,)


def acts(*ends: str) -> st.SearchStrategy[Act]:
    return st.builds(Act, SECONDS, TURNS, st.booleans(), st.sampled_from(ends))


DIAL = acts("connect", "connect", "connect", "raise", "stray")
ANSWER = acts(OLD, NEW, NEW, "none", "raise", "stray")
CLOSE = st.none() | acts("close", "raise")
CANCEL = st.none() | st.tuples(st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), TURNS)


@define(eq=False)
class Connection:
    target: str
    how: Act | None
    closed: int = 0

    def close(self) -> Coroutine[Any, Any, None] | None:
        self.closed += 1
        return None if self.how is None else self.how.take_its_time()


@define
class World:
    """One call, and all that becomes of it."""

    dials: list[Act]
    answer: Act
    how_to_close: Act | None
    delay: float
    dialed: list[tuple[float, str]] = field(factory=list)
    asked: list[float] = field(factory=list)
    answered: list[str | None] = field(factory=list)
    made: list[Connection] = field(factory=list)
    complaints: list[Any] = field(factory=list)
    result: Dialed[str, Connection] | BaseException | None = None
    over: float = FOREVER

    async def dial(self, target: str) -> Connection:
        self.dialed.append((asyncio.get_running_loop().time(), target))
        await self.dials[len(self.dialed) - 1].take_its_time()
        self.made.append(Connection(target, self.how_to_close))
        return self.made[-1]

    async def validate(self, target: str) -> str | None:
        assert target == OLD
        self.asked.append(asyncio.get_running_loop().time())
        await self.answer.take_its_time()
        answer = None if self.answer.end == "none" else self.answer.end
        if self.over == FOREVER:  # else it comes too late to matter
            self.answered.append(answer)
        return answer

    async def call(self) -> None:
        try:
            self.result = await dial_with_lazy_validation(OLD, self.dial, self.validate, self.delay)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see the judge
            self.result = error
        self.over = asyncio.get_running_loop().time()

    async def live(self, cancel: tuple[float, int] | None) -> list[asyncio.Task[Any]]:
        """Call, cancel, wait until everything is over, and give what is left all the same."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        caller = asyncio.create_task(self.call())
        if cancel is not None:
            seconds, turns = cancel
            await asyncio.sleep(seconds)
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await caller  # canceled before its first step
        await asyncio.sleep(FOREVER)
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def run(world: World, cancel: tuple[float, int] | None) -> list[asyncio.Task[Any]]:
    loop = async_solipsism.EventLoop()
    try:
        left: list[asyncio.Task[Any]] = loop.run_until_complete(world.live(cancel))
    finally:
        loop.close()
    return left


WORLD = st.builds(
    World, st.lists(DIAL, min_size=2, max_size=2), ANSWER, CLOSE, st.sampled_from([0.0, 1.0, 2.0])
)


@given(world=WORLD, cancel=CANCEL)
@settings(max_examples=min(20 * settings().max_examples, 1500))
def test_whatever_happens_nothing_leaks(world: World, cancel: tuple[float, int] | None) -> None:
    left = run(world, cancel)
    result = world.result
    assert left == []
    returned = [result.connection] if isinstance(result, Dialed) else []
    assert [connection for connection in returned if connection.closed] == []
    given_up = [connection for connection in world.made if connection not in returned]
    assert [connection.closed for connection in given_up] == [1] * len(given_up)
    judge_complaints(world, len(given_up))
    judge_result(world, cancel)
    judge_calls(world)


def judge_complaints(world: World, given_up: int) -> None:
    gc.collect(0)
    fails = world.how_to_close is not None and world.how_to_close.end == "raise"
    assert [type(context["exception"]) for context in world.complaints] == (
        [Broken] * given_up if fails else []
    )


def judge_result(world: World, cancel: tuple[float, int] | None) -> None:
    result = world.result
    if isinstance(result, Dialed):
        assert result.target == result.connection.target
        assert result.switched == (result.target != OLD)
        assert result.target == NEW or not {NEW, None} & set(world.answered)
    elif isinstance(result, NoTarget):
        assert world.answered == [None]
    elif isinstance(result, asyncio.CancelledError) or result is None:
        assert cancel is not None
        assert world.over == cancel[0] or result is None
    else:
        assert isinstance(result, Broken | StrayCancel)


def judge_calls(world: World) -> None:
    first, second = world.dials
    assert len(world.asked) <= 1
    assert [target for _, target in world.dialed[:1]] in ([], [OLD])
    if len(world.dialed) == 2:
        assert world.dialed[1][1] in world.answered
    if world.asked and first.seconds < world.delay:
        assert first.end != "connect"
    if world.asked and first.seconds > world.delay:
        assert world.asked == [world.delay]
    latest = max(first.seconds, world.delay) + world.answer.seconds + second.seconds
    assert world.over in (FOREVER, min(world.over, latest))
