"""A loop that is torn down closes what nobody has closed; a copy made by a fork is left be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import Run, RunHandle, RunStuck, Scheduler, SchedulerClosed, driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.aio.driver import AioDriver


def teardown(prompts: str, *, close: bool = False) -> tuple[list[Any], list[dict[str, Any]]]:
    """What became of prompts whose scheduler was left to `asyncio.run`, and what it logged."""
    handles: list[RunHandle[str, str]] = []
    logged: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: logged.append(said))
        scheduler = Scheduler(Agent())
        handles.extend(scheduler.submit("chat", prompt) for prompt in prompts)
        await quiet()
        if close:
            await scheduler.close()

    asyncio.run(main())
    return [handle.run.ended and handle.run.ended.status.value for handle in handles], logged


@pytest.mark.contract("T1", "X13")
@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("prompts", ["", "a", "abc"])
def test_pitfall_12_nothing_is_left_and_nothing_is_said(prompts: str, *, close: bool) -> None:
    assert teardown(prompts, close=close) == (["suspended"] * len(prompts), [])


@pytest.mark.contract("R4")
async def test_pitfall_21_a_forked_copy_refuses_every_call_and_can_be_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    parent: Scheduler[str, str] = Scheduler(agent)
    handle = parent.submit("chat", "a")
    await quiet()
    real: AioDriver[str] = parent._driver
    table, hub = real.table, real.hub
    unopened: Any = object.__new__(type(real))
    unopened._opened = False
    monkeypatch.setattr(driver, "_drivers", [real, unopened])
    async with parent.subscribe() as events:
        driver._refuse_in_the_child()
        calls: list[Callable[[], object]] = [
            lambda: parent.submit("chat", "b"),
            lambda: parent.cancel("chat"),
            lambda: agent.runs["a"].emit("x"),
            handle.promote,
        ]
        for call in calls:
            with pytest.raises(SchedulerClosed, match="fork"):
                call()
        with pytest.raises(SchedulerClosed, match="fork"):
            await anext(events)
    await parent.__aexit__(None, None, None)
    assert "shut" not in vars(unopened), "one that was not open works in the child"
    real.table, real.hub, real.shut = table, hub, None
    agent.finish("a")
    assert await ends(handle) == [("completed", None)]
    await parent.close()


async def test_a_subscription_is_read_inside_of_its_block() -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(RuntimeError, match="async with"):
            await anext(scheduler.subscribe())


async def test_a_run_that_is_in_a_hook_can_be_seen_by_what_holds_it() -> None:
    async def on_dropped(run: Run[str]) -> None:
        seen.append(list(scheduler._driver.stragglers()))

    seen: list[list[Run[str]]] = []
    async with Scheduler(Agent(), on_dropped=on_dropped) as scheduler:
        handle = scheduler.submit("chat", "a")
        scheduler.cancel("chat")
        await handle.outcome()
    assert seen == [[handle.run]]


@pytest.mark.contract("T6")
async def test_nothing_is_told_of_a_run_after_its_end() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        agent.finish("a")
        await handle
        scheduler._driver.tell(RunStuck, handle.run, 1)  # a timer that was just being called
        await quiet()
        assert watch.lines()[-1] == f"RunEnded {handle.run_id}"
