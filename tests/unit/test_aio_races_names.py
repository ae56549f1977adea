"""Names: the same run submitted twice (race 37), and sessions that nobody uses (race 38)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import CancelReceipt, DuplicateRun, Limits, RunAccepted, Scheduler, WhenBusy, Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


# --- 37: a submit that is retried ---


@pytest.mark.contract("A5", "T1")
async def test_race_37_a_submit_that_is_retried_at_any_turn_runs_once() -> None:
    for turns in range(10):
        agent = Agent()
        async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
            first = scheduler.submit("chat", "a", run_id="r")
            await quiet(2)
            agent.finish("a")
            await quiet(turns)
            again = scheduler.submit("chat", "a", run_id="r")
            assert (again, again.seq) == (first, first.seq)
            assert [await first, await again] == ["a done"] * 2
        assert agent.started == ["a"]
        assert len(watch.of(RunAccepted)) == 1


@pytest.mark.contract("A5")
@pytest.mark.parametrize("when_busy", list(WhenBusy))
async def test_race_37_a_retry_neither_interrupts_nor_is_refused_by_the_run_that_it_repeats(
    when_busy: WhenBusy,
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", "a", run_id="r", when_busy=when_busy) for _ in range(5)]
        waiters = [asyncio.ensure_future(handle.outcome()) for handle in handles]
        await quiet()
        agent.finish("a")
        first, *others = await asyncio.gather(*waiters)
        assert all(outcome == first for outcome in others)
        assert await ends(*handles) == [COMPLETED] * 5
    assert agent.log == ["start a", "over a"]


@pytest.mark.contract("A5", "X1", "X2")
async def test_race_37_a_retry_of_a_canceled_run_gives_that_run_and_not_a_new_one() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a", run_id="r")
        scheduler.cancel("chat")
        while_it_unwinds = scheduler.submit("chat", "a", run_id="r")
        assert await ends(first, while_it_unwinds) == [CANCELED] * 2
        assert await ends(scheduler.submit("chat", "a", run_id="r")) == [CANCELED]
    assert agent.started == []


@pytest.mark.contract("A5", "A4")
@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("session_id", "prompt"), [("chat", "b"), ("other", "a")])
async def test_race_37_another_prompt_under_the_same_id_is_refused_and_changes_nothing(
    session_id: str, prompt: str, *, ended: bool
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a", run_id="r")
        await quiet()
        if ended:
            agent.finish("a")
            await handle
        before = scheduler.snapshot()
        for when_busy in WhenBusy:
            with pytest.raises(DuplicateRun):
                scheduler.submit(session_id, prompt, run_id="r", when_busy=when_busy)
        assert scheduler.snapshot() == before
    assert agent.started == ["a"]


@pytest.mark.contract("A5", "D3")
async def test_race_37_a_retried_accept_does_not_give_back_the_place_of_the_first_one() -> None:
    agent = Agent()
    agent.finish("a")
    async with Scheduler(agent) as scheduler:
        ticket = scheduler.accept("chat", "a", run_id="r")
        with scheduler.accept("chat", "a", run_id="r") as again:
            assert again.run is ticket.run
        assert ticket.ready()
        assert await ticket.handle == "a done"


# --- 38: nothing is kept for idle sessions ---


def kept(scheduler: Scheduler[Any, Any]) -> dict[str, int]:
    """How much the scheduler remembers, by where."""
    driver = scheduler._driver
    sizes = {
        "sessions": len(driver.table),
        "runs": len(driver.table.ids.in_flight),
        "effects": len(driver.table.outbox),
        "timers": len(driver.timers),
        "preparing": len(driver._preparing),
        "tasks": len(driver.kept),
        "waits": len(driver.waits._runs),
        "carriers": len(driver.waits._carriers),
        "mailboxes": len(driver.hub._boxes),
    }
    return {name: size for name, size in sizes.items() if size}


@pytest.mark.contract("R1", "X3")
async def test_race_38_made_up_ids_leave_nothing_behind() -> None:
    async with Scheduler(Agent()) as scheduler:
        for number in range(100):
            name = f"made up {number}"
            assert scheduler.cancel(name) == CancelReceipt(name)
            assert scheduler.cancel(name, hold=True) == CancelReceipt(name)
            assert not scheduler.cancel_run(name)
            assert not scheduler.pause(name)
            assert not scheduler.resume(name)
            assert scheduler.waiting(name) == ()
            assert scheduler.session(name).in_flight == ()
            assert scheduler.explain(name).why is Why.UNKNOWN
            async with scheduler.subscribe(name), scheduler.subscribe(run_id=name):
                pass
        assert kept(scheduler) == {}


@pytest.mark.contract("R1", "X3")
async def test_race_38_an_idle_session_costs_nothing_however_its_runs_ended() -> None:
    async def handler(run: Run[str]) -> None:
        if run.prompt == "fail":
            raise ValueError
        await asyncio.sleep({"return": 1, "long": 100}.get(run.prompt, 0))

    async def hook(run: Run[str]) -> None:
        await asyncio.sleep(100 if run.prompt == "slow hook" else 1)

    async with Scheduler(
        handler,
        prepare=hook,
        prepare_timeout=5,
        on_dropped=hook,
        settle_timeout=5,
        limits=Limits(max_active=15),
    ) as scheduler:
        for number in range(20):
            chat = f"chat {number}"
            for prompt in ("return", "fail", "slow hook", "long", "dropped"):
                scheduler.submit(chat, prompt, deadline=10, wait_at_most=500)
            scheduler.submit(chat, "expired", wait_at_most=1)
            scheduler.accept(chat, "withdrawn", wait_at_most=50).close()
            if number % 2:
                scheduler.cancel(chat, hold=True)
        assert kept(scheduler)
        await asyncio.sleep(1000)
        assert kept(scheduler) == {}


class Prompt:
    """Something whose end can be seen."""


async def _canceled(scheduler: Scheduler[Prompt, None], prompt: Prompt) -> None:
    handle = scheduler.submit("chat", prompt)
    handle.cancel()
    await handle.outcome()


async def _dropped(scheduler: Scheduler[Prompt, None], prompt: Prompt) -> None:
    ticket = scheduler.accept("chat", prompt, wait_at_most=1000)
    ticket.close()
    await ticket.handle.outcome()


async def _completed(scheduler: Scheduler[Prompt, None], prompt: Prompt) -> None:
    await scheduler.submit("chat", prompt, deadline=1000)


@pytest.mark.contract("R1")
@pytest.mark.parametrize("way", [_canceled, _dropped, _completed])
async def test_race_38_nobody_holds_on_to_the_prompt_of_a_run_that_has_ended(
    way: Callable[..., Any],
) -> None:
    async def handler(_run: Run[Prompt]) -> None:
        await asyncio.sleep(1)

    async with Scheduler(handler) as scheduler:
        prompt = Prompt()
        seen = weakref.ref(prompt)
        await way(scheduler, prompt)
        del prompt
        await quiet()
        gc.collect()
        assert seen() is None
