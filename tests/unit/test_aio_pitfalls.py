"""Where asyncio bites a scheduler, 1 to 7 and 18: what a task makes of a cancel.

The other pitfalls, by number, are in test_aio_pitfalls_beside.py (8 to 10, 14, 15, 17, 19, 20: what
lives beside a run), _loop.py (11, 12, 16, 22), _closed.py (13: the loop is gone) and _fork.py (21).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import Cause, RunNotCompleted, RunState, RunStuck, Scheduler, Status, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import TypeAlias

    from sessionsched import Run, RunHandle

    Hole: TypeAlias = Callable[[asyncio.Future[None]], Awaitable[None]]

CANCELED = ("canceled", "interrupt")
EXTERNAL = ("suspended", "external")
FAILED = ("failed", None)


def task_of(handle: RunHandle[Any, Any]) -> asyncio.Task[Any]:
    """The task behind a run, found as a stranger would find it."""
    [task] = [it for it in asyncio.all_tasks() if it.get_name() == handle.session_id]
    return task


async def for_ever() -> None:
    await asyncio.Event().wait()


# --- 1: canceled before the first step ---


@pytest.mark.contract("X1", "X13", "T1", "D4")
@pytest.mark.parametrize(
    ("cancel", "end"),
    [
        (lambda scheduler, _: scheduler.cancel("chat"), CANCELED),
        (lambda _, handle: task_of(handle).cancel(), EXTERNAL),
    ],
    ids=["by us", "from outside"],
)
async def test_pitfall_01_a_run_ends_although_its_body_never_took_a_step(
    cancel: Callable[[Scheduler[str, str], RunHandle[str, str]], object], end: tuple[str, str]
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        assert handle.state is RunState.ACTIVE
        cancel(scheduler, handle)
        after = scheduler.submit("chat", "b")
        agent.finish("b")
        assert await ends(handle, after) == [end, ("completed", None)]
    outcome = await handle.outcome()
    assert not outcome.started
    assert agent.log == ["start b", "over b"]


# --- 2: the handler swallows a cancel ---


@pytest.mark.contract("X8")
@pytest.mark.parametrize("times", [1, 3])
async def test_pitfall_02_a_handler_that_swallows_cancels_is_canceled_again_after_every_grace(
    times: int,
) -> None:
    swallowed = 0

    async def handler(run: Run[str]) -> None:
        nonlocal swallowed
        while swallowed < times:
            with contextlib.suppress(asyncio.CancelledError):
                await for_ever()
            swallowed += 1
        await for_ever()

    async with Scheduler(handler, grace=2) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        await quiet()
        before = asyncio.get_running_loop().time()
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
        await quiet()
        seen = [(it.told, it.at - before) for it in watch.of(RunStuck)]
        assert seen == [(n, pytest.approx(2 * n)) for n in range(1, times + 1)]


# --- 3 and 4: asyncio itself swallows a cancel ---


async def wait_for_whose_inner_is_done(inner: asyncio.Future[None]) -> None:
    await asyncio.wait_for(inner, 60)


async def group_whose_child_fails_too(_inner: asyncio.Future[None]) -> None:
    async def child() -> None:
        try:
            await for_ever()
        finally:
            raise LookupError("the clean-up fails")

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            await for_ever()


async def groups_that_fail_together(inner: asyncio.Future[None]) -> None:
    async def child() -> None:
        await asyncio.shield(inner)
        raise LookupError("both of us")

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as outer:
            outer.create_task(child())
            async with asyncio.TaskGroup() as group:
                group.create_task(child())
                await for_ever()


async def timeout_in_the_same_tick(_inner: asyncio.Future[None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await for_ever()


async def timeout_in_the_clean_up(_inner: asyncio.Future[None]) -> None:
    with contextlib.suppress(TimeoutError):
        try:
            await for_ever()
        finally:
            async with asyncio.timeout(0.5):
                await for_ever()


async def told_until_it_stops(hole: Hole, *, cancel_first: bool) -> None:
    """Cancel a run while it is in a hole. What gets out of it is canceled once more."""
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    got_out = 0

    async def handler(run: Run[str]) -> None:
        nonlocal got_out
        if run.prompt == "a":
            await hole(inner)
            await asyncio.sleep(0)  # a cancel that was only put off comes here
            got_out += 1
        await for_ever()

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        await asyncio.sleep(1)
        if cancel_first:
            scheduler.cancel("chat")
        if not inner.done():  # a cancel takes it along, where it is awaited directly
            inner.set_result(None)
        scheduler.cancel("chat")
        after = scheduler.submit("chat", "b")
        assert await ends(handle) == [CANCELED]
        await quiet()
        # Which holes are open depends on the version of Python.
        assert len(watch.of(RunStuck)) == got_out
        assert after.state is RunState.ACTIVE


@pytest.mark.contract("X8", "D4")
@pytest.mark.parametrize("cancel_first", [True, False])
async def test_pitfall_03_a_wait_for_that_completes_in_the_same_tick_only_delays_the_cancel(
    *, cancel_first: bool
) -> None:
    await told_until_it_stops(wait_for_whose_inner_is_done, cancel_first=cancel_first)


@pytest.mark.contract("X8", "D4")
@pytest.mark.parametrize("cancel_first", [True, False])
@pytest.mark.parametrize(
    "hole",
    [
        group_whose_child_fails_too,
        groups_that_fail_together,
        timeout_in_the_same_tick,
        timeout_in_the_clean_up,
    ],
)
async def test_pitfall_04_a_group_or_a_timeout_that_swallows_the_cancel_only_delays_it(
    hole: Hole, *, cancel_first: bool
) -> None:
    await told_until_it_stops(hole, cancel_first=cancel_first)


# --- 5: cancel against completion ---


@pytest.mark.contract("X6", "X11")
async def test_pitfall_05_there_is_no_moment_between_a_task_that_is_done_and_a_run_that_ended() -> (
    None
):
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        task = task_of(handle)
        agent.finish("a")
        await asyncio.sleep(0)
        assert task.done()
        assert not task.cancel()
        assert not scheduler.cancel("chat"), "it has ended: there is nothing to cover"
        outcome = await handle.outcome()
        assert (outcome.status, outcome.result) == (Status.COMPLETED, "a done")


@pytest.mark.contract("X6")
@pytest.mark.parametrize("error", [None, LookupError("it fails")], ids=["returns", "raises"])
async def test_pitfall_05_a_handler_that_covers_itself_in_its_last_step_keeps_what_it_came_to(
    error: Exception | None,
) -> None:
    async def handler(run: Run[str]) -> str:
        if run.prompt == "a":
            scheduler.submit("chat", "b", when_busy=WhenBusy.INTERRUPT)
            if error is not None:
                raise error
        return f"{run.prompt} done"

    async with Scheduler(handler) as scheduler:
        outcome = await scheduler.submit("chat", "a").outcome()
        assert (outcome.status, outcome.cause) == (Status.CANCELED, Cause.SUPERSEDED)
        assert (outcome.result, outcome.error) == (None if error else "a done", error)


@pytest.mark.contract("X3", "X11")
async def test_pitfall_05_a_cancel_that_comes_after_the_end_covers_nothing() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        agent.finish("a")
        await handle
        assert not scheduler.cancel("chat")
        assert await ends(handle) == [("completed", None)]


# --- 6 and 18: what a task says of itself ---


async def raises_it(error: BaseException) -> None:
    raise error


async def awaits_a_canceled_task() -> None:
    task = asyncio.ensure_future(for_ever())
    task.cancel()
    await task


async def awaits_a_canceled_future() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


STRAY: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    "raised": lambda: raises_it(asyncio.CancelledError("made up")),
    "of a task inside": awaits_a_canceled_task,
    "of a future inside": awaits_a_canceled_future,
    "in a group": lambda: raises_it(BaseExceptionGroup("all", [asyncio.CancelledError()])),
}


@pytest.mark.contract("X13")
@pytest.mark.parametrize("stray", STRAY)
async def test_pitfall_06_and_18_a_cancel_that_nobody_asked_for_is_a_failure(stray: str) -> None:
    async def handler(run: Run[str]) -> None:
        await STRAY[stray]()

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        assert await ends(handle) == [FAILED]
        outcome = await handle.outcome()
        assert isinstance(outcome.error, asyncio.CancelledError | BaseExceptionGroup)
        with pytest.raises(RunNotCompleted):  # and not what would cancel whoever waits
            await handle


@pytest.mark.contract("X1", "X6")
@pytest.mark.parametrize("stray", STRAY)
async def test_pitfall_06_and_18_the_same_is_canceled_once_the_run_is_covered(stray: str) -> None:
    async def handler(run: Run[str]) -> None:
        scheduler.cancel("chat")
        await STRAY[stray]()

    async with Scheduler(handler) as scheduler:
        assert await ends(scheduler.submit("chat", "a")) == [CANCELED]


@pytest.mark.contract("X6")
async def test_pitfall_18_a_group_around_the_cancel_is_canceled_and_the_group_is_kept() -> None:
    async def handler(run: Run[str]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(for_ever())
            try:
                await for_ever()
            except asyncio.CancelledError:
                raise LookupError("on the way out") from None

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
        error = (await handle.outcome()).error
        assert isinstance(error, ExceptionGroup)
        assert [str(it) for it in error.exceptions] == ["on the way out"]


# --- 7: uncancel ---


@pytest.mark.contract("X6", "X8", "X13")
@pytest.mark.parametrize("then", ["goes on", "returns", "raises CancelledError", "raises another"])
async def test_pitfall_07_a_handler_that_uncancels_is_canceled_all_the_same(then: str) -> None:
    async def handler(run: Run[str]) -> str:
        try:
            await for_ever()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            assert task.uncancel() == 0
        if then == "goes on":
            await for_ever()
        elif then != "returns":
            raise asyncio.CancelledError if "Cancelled" in then else LookupError
        return "half a poem"

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
        outcome = await handle.outcome()
        assert outcome.result == ("half a poem" if then == "returns" else None)
        # The cancel itself is no error: somebody had asked for it.
        assert repr(outcome.error) == ("LookupError()" if then == "raises another" else "None")
        await quiet()
        assert len(watch.of(RunStuck)) == (then == "goes on")
