"""More prompts at once than tasks are made in one turn of the loop: others begin a little later.

Until a run has its task it is active and has seen nothing of its prompt. Whatever happens to it
then must come out as it does for a run whose task has not had its first step.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet

from sessionsched import Run, RunState, Scheduler, WhenBusy
from sessionsched.aio.driver import AHEAD

if TYPE_CHECKING:
    from sessionsched import RunHandle

MANY = 5 * AHEAD

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")


def burst(scheduler: Scheduler[str, str], count: int = MANY) -> list[RunHandle[str, str]]:
    """Submit to so many sessions, which takes a while until all have begun."""
    return [scheduler.submit(f"chat-{number}", f"{number}") for number in range(count)]


def tasks() -> int:
    return len(asyncio.all_tasks()) - 1  # without our own


@pytest.mark.contract("D4", "D5", "A1")
async def test_few_tasks_are_made_at_once_and_all_runs_begin_in_their_order() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = burst(scheduler)
        assert {handle.state for handle in handles} == {RunState.ACTIVE}
        assert tasks() == AHEAD
        made = list[int]()
        for _ in range(4):
            await asyncio.sleep(0)
            made.append(tasks())
        assert made == [2 * AHEAD, 3 * AHEAD, 4 * AHEAD, MANY], "as many more in each turn"
        await quiet()
        assert agent.log == [f"start {number}" for number in range(MANY)]
        agent.finish(*(f"{number}" for number in range(MANY)))
        assert await ends(*handles) == [COMPLETED] * MANY


@pytest.mark.contract("X1", "X7", "P1", "D4")
async def test_who_is_canceled_before_it_has_a_task_never_begins_and_is_recorded() -> None:
    agent, recorded = Agent(), list[str]()

    async def record(run: Run[str]) -> None:
        recorded.append(run.prompt)

    async with Scheduler(agent, on_dropped=record) as scheduler:
        last = burst(scheduler)[-1]
        assert scheduler.cancel(last.session_id).active is last.run
        after = scheduler.submit(last.session_id, "after")
        agent.finish("after")
        assert await ends(last, after) == [CANCELED, COMPLETED]
        assert not (await last.outcome()).started
        assert recorded == [f"{MANY - 1}"]
        assert f"start {MANY - 1}" not in agent.log


@pytest.mark.contract("X14", "X7")
async def test_who_is_superseded_before_it_has_a_task_never_begins() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        last = burst(scheduler)[-1]
        newer = scheduler.submit(last.session_id, "newer", when_busy=WhenBusy.INTERRUPT)
        agent.finish("newer")
        assert await ends(last, newer) == [("canceled", "superseded"), COMPLETED]
        assert f"start {MANY - 1}" not in agent.log


@pytest.mark.contract("X1", "D4")
async def test_whose_time_is_over_before_it_has_a_task_never_begins() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        burst(scheduler)
        late = scheduler.submit("late", "late", deadline=0.0)
        assert await ends(late) == [("canceled", "deadline")]
        assert "start late" not in agent.log


@pytest.mark.contract("S1", "S3", "S7", "T1")
async def test_a_close_that_comes_before_all_have_tasks_ends_all_of_them() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = burst(scheduler)
        report = await scheduler.close()
        assert len(report.suspended) == MANY
        assert await ends(*handles) == [SUSPENDED] * MANY
        assert len(agent.log) <= 2 * AHEAD, "the others have never begun"
        assert tasks() == 0


def test_a_loop_that_is_torn_down_before_all_have_tasks_leaves_no_run_behind() -> None:
    async def main() -> list[RunHandle[str, str]]:
        scheduler: Scheduler[str, str] = Scheduler(Agent())
        return burst(scheduler)

    handles = asyncio.run(main())
    assert {handle.state for handle in handles} == {RunState.ENDED}
