"""`prepare`, and tickets: a run that is not ready keeps its place, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet

from sessionsched import Cause, RunState, Scheduler, Status, WhenBusy

if TYPE_CHECKING:
    from sessionsched import Run, RunHandle

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")
UNPREPARED = ("failed", "unprepared")


class Kitchen(Agent):
    """Prepares each run until it is told that it is `done`."""

    def __init__(self) -> None:
        super().__init__()
        self._dishes: dict[str, asyncio.Future[None]] = {}

    async def prepare(self, run: Run[str]) -> None:
        self.log.append(f"prepare {run.prompt}")
        try:
            await self._dish(run.prompt)
        except asyncio.CancelledError:
            self.log.append(f"cut {run.prompt}")
            await quiet(3)
            self.log.append(f"swept {run.prompt}")
            raise

    async def on_dropped(self, run: Run[str]) -> None:
        self.log.append(f"drop {run.prompt}")

    def _dish(self, prompt: str) -> asyncio.Future[None]:
        return self._dishes.setdefault(prompt, asyncio.get_running_loop().create_future())

    def done(self, prompt: str) -> None:
        self._dish(prompt).set_result(None)

    def burn(self, prompt: str, error: BaseException) -> None:
        self._dish(prompt).set_exception(error)

    def scheduler(self, **options: Any) -> Scheduler[str, str]:
        return Scheduler(self, prepare=self.prepare, **options)


def now() -> float:
    return asyncio.get_running_loop().time()


def timers() -> list[Any]:
    loop: Any = asyncio.get_running_loop()
    return [it for it in loop._scheduled if not it.cancelled()]


# --- a run keeps its place ---


@pytest.mark.contract("D2", "D3")
async def test_runs_are_prepared_side_by_side_and_start_in_accept_order() -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler() as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
        await quiet()
        assert kitchen.log == ["prepare a", "prepare b", "prepare c"]
        kitchen.finish("a", "b", "c")
        for prompt, states in (("c", ["accepted", "accepted", "queued"]),
                               ("b", ["accepted", "queued", "queued"])):  # fmt: skip
            kitchen.done(prompt)
            await quiet()
            assert [handle.state for handle in handles] == states
        assert kitchen.started == []
        kitchen.done("a")
        assert await ends(*handles) == [COMPLETED] * 3
    assert kitchen.started == ["a", "b", "c"]
    assert len(kitchen.log) == 9, "each was prepared once, and nothing was cut short"


@pytest.mark.contract("X14")
async def test_an_interrupting_prompt_interrupts_when_it_is_accepted_not_when_it_is_ready() -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler() as scheduler:
        first = scheduler.submit("chat", "a")
        kitchen.done("a")
        await quiet()
        second = scheduler.submit("chat", "b", when_busy=WhenBusy.INTERRUPT)
        assert await ends(first) == [("canceled", "superseded")]
        assert second.state is RunState.ACCEPTED
        kitchen.done("b")
        kitchen.finish("b")
        assert await second == "b done"


# --- when it fails ---


@pytest.mark.contract("D3")
@pytest.mark.parametrize("dropped", [False, True], ids=["", "on_dropped"])
async def test_a_run_that_could_not_be_prepared_fails_and_the_line_moves(*, dropped: bool) -> None:
    kitchen, error = Kitchen(), OSError("no such file")
    on_dropped = kitchen.on_dropped if dropped else None
    async with kitchen.scheduler(on_dropped=on_dropped) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        kitchen.done("b")
        kitchen.finish("b")
        await quiet()
        assert kitchen.started == []
        kitchen.burn("a", error)
        with pytest.raises(OSError, match="no such file") as raised:
            await first
        assert raised.value is error
        assert await ends(first) == [UNPREPARED]
        assert await second == "b done"
    assert ("drop a" in kitchen.log) is dropped
    assert kitchen.started == ["b"]


@pytest.mark.contract("P2")
async def test_a_preparation_that_failed_is_told_even_when_recording_that_fails_too() -> None:
    error = OSError("no such file")

    async def on_dropped(_run: Run[str]) -> None:
        raise OSError("disk full")

    kitchen = Kitchen()
    async with kitchen.scheduler(on_dropped=on_dropped) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        kitchen.burn("a", error)
        outcome = await handle.outcome()
        assert (outcome.status, outcome.error) == (Status.FAILED, error)


async def test_a_preparation_that_makes_up_a_cancel_has_failed() -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler() as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        kitchen._dish("a").cancel()
        outcome = await handle.outcome()
        assert (outcome.status, outcome.cause) == UNPREPARED
        assert isinstance(outcome.error, asyncio.CancelledError)


@pytest.mark.contract("D3")
@pytest.mark.parametrize("limit_s", [0, 0.5, 4])
async def test_a_preparation_gets_its_time_and_not_more(limit_s: float) -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler(prepare_timeout=limit_s) as scheduler:
        first = scheduler.submit("chat", "a")
        with scheduler.accept("chat", "b") as ticket:
            ticket.ready()
        kitchen.finish("b")
        with pytest.raises(TimeoutError, match=f"'run-1' took longer than {limit_s} s"):
            await first
        outcome = await first.outcome()
        assert (outcome.status, outcome.cause) == UNPREPARED
        assert outcome.ended_at == pytest.approx(limit_s)
        assert await ticket.handle == "b done"
        await quiet()
        assert kitchen.log[:2] == ["prepare a", "cut a"]
        assert scheduler._driver.kept == {}


@pytest.mark.contract("D3")
@pytest.mark.parametrize("late", ["returns", "raises"])
async def test_a_preparation_that_ignores_its_cancel_holds_nobody_up(late: str) -> None:
    agent = Agent()
    went_on: list[str] = []

    async def prepare(run: Run[str]) -> None:
        if run.prompt == "a":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(100)
            await asyncio.sleep(10)
            went_on.append(run.prompt)
            if late == "raises":
                raise OSError("no such file")

    async with Scheduler(agent, prepare=prepare, prepare_timeout=2) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        agent.finish("b")
        outcome = await first.outcome()
        assert outcome.ended_at == pytest.approx(2)
        assert await second == "b done"
        assert went_on == []
        await asyncio.sleep(20)
        assert went_on == ["a"]
        assert await first.outcome() == outcome
        assert first.state is RunState.ENDED
    assert agent.started == ["b"]


async def test_without_a_limit_a_preparation_takes_as_long_as_it_takes() -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler() as scheduler:
        handle = scheduler.submit("chat", "a")
        await asyncio.sleep(10_000)
        assert timers() == []
        kitchen.done("a")
        kitchen.finish("a")
        assert await handle == "a done"


# --- when it is not wanted any longer ---


@pytest.mark.contract("X1", "X7")
@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_the_preparation_of_a_run_that_is_dropped_is_stopped(turns: int) -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler(on_dropped=kitchen.on_dropped) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet(turns)
        scheduler.cancel("chat")
        assert await ends(handle) == [INTERRUPTED]
    swept = ["prepare a", "cut a", "swept a"] if turns else []
    assert kitchen.log == [*swept, "drop a"], "one hook of a run at a time"


@pytest.mark.contract("P1")
async def test_a_run_whose_preparation_ignores_its_cancel_is_recorded_all_the_same() -> None:
    kitchen = Kitchen()

    async def prepare(run: Run[str]) -> None:
        while run.ended is None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async with Scheduler(
        kitchen, prepare=prepare, on_dropped=kitchen.on_dropped, settle_timeout=3
    ) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        scheduler.cancel("chat")
        assert await ends(handle) == [INTERRUPTED]
        await asyncio.sleep(10)
    assert kitchen.log == ["drop a"]


@pytest.mark.contract("S2", "X13")
def test_a_preparation_that_the_teardown_of_the_loop_stops_has_not_failed() -> None:
    handles: list[RunHandle[str, str]] = []

    async def main() -> None:
        scheduler = Kitchen().scheduler()
        handles.append(scheduler.submit("chat", "a"))
        await quiet()

    asyncio.run(main())
    outcome = handles[0].run.ended
    assert outcome is not None
    assert (outcome.status, outcome.cause) == (Status.SUSPENDED, Cause.EXTERNAL)


# --- tickets ---


@pytest.mark.contract("D3")
async def test_a_ticket_is_prepared_by_its_owner_alone() -> None:
    kitchen = Kitchen()
    async with kitchen.scheduler(prepare_timeout=5) as scheduler:
        ticket = scheduler.accept("chat", "a")
        await quiet()
        assert ticket.run.state is RunState.ACCEPTED
        assert ticket.ready()
        assert not ticket.ready()
        assert timers() == []
        kitchen.finish("a")
        assert await ticket.handle == "a done"
    assert kitchen.log == ["start a", "over a"]


@pytest.mark.contract("D3")
@pytest.mark.parametrize("active", [False, True], ids=["first", "in line"])
async def test_a_ticket_that_nobody_makes_ready_in_time_fails_and_the_line_moves(
    *, active: bool
) -> None:
    agent = Agent()
    async with Scheduler(agent, prepare_timeout=4) as scheduler:
        if active:
            scheduler.submit("chat", "before")
        ticket, behind = scheduler.accept("chat", "a"), scheduler.submit("chat", "b")
        agent.finish("before", "b")
        with pytest.raises(TimeoutError, match=f"nobody made run '{ticket.run_id}' ready in 4 s"):
            await ticket.handle
        assert now() == pytest.approx(4)
        assert await behind == "b done"
        assert not ticket.ready()
        assert not ticket.close()


@pytest.mark.contract("D3", "X7")
async def test_a_ticket_that_becomes_ready_in_line_is_not_late_any_longer() -> None:
    agent = Agent()
    async with Scheduler(agent, prepare_timeout=4) as scheduler:
        scheduler.submit("chat", "before")
        ticket = scheduler.accept("chat", "a")
        await asyncio.sleep(3)
        assert ticket.ready()
        assert timers() == []
        await asyncio.sleep(9)
        agent.finish("before", "a")
        assert await ticket.handle == "a done"


@pytest.mark.parametrize("turns", [0, 3])
async def test_a_ticket_that_is_dropped_leaves_no_timer_behind(turns: int) -> None:
    async with Scheduler(Agent(), prepare_timeout=4) as scheduler:
        ticket = scheduler.accept("chat", "a", wait_at_most=7)
        await quiet(turns)
        scheduler.cancel("chat")
        assert await ends(ticket.handle) == [INTERRUPTED]
        assert timers() == []
