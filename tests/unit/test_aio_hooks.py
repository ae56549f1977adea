"""`on_dropped`: awaited once for every run that ends unstarted, and nothing gets around it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    RunCanceled,
    RunEnded,
    RunStarted,
    RunState,
    Scheduler,
    Scope,
    Status,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from sessionsched import Run, RunHandle, Ticket

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")


class Desk(Agent):
    """An agent that also records what was dropped, and takes its time for that."""

    def __init__(self, takes_s: float = 1.0) -> None:
        super().__init__()
        self.takes_s = takes_s

    async def on_dropped(self, run: Run[str]) -> None:
        assert run.ended is None
        self.log.append(f"drop {run.prompt}")
        try:
            await asyncio.sleep(self.takes_s)
        except asyncio.CancelledError:
            self.log.append(f"cut {run.prompt}")
            raise
        self.log.append(f"dropped {run.prompt}")

    def scheduler(self, **options: Any) -> Scheduler[str, str]:
        return Scheduler(self, on_dropped=self.on_dropped, **options)


def now() -> float:
    return asyncio.get_running_loop().time()


# --- every way to be dropped ---


class World:
    """A session with an active run, and one behind it that is about to be dropped."""

    def __init__(self, scheduler: Scheduler[str, str], way: str) -> None:
        self.scheduler = scheduler
        self.active = scheduler.submit("chat", "a")
        wait = 2 if way == "expiry" else None
        self.ticket: Ticket[str, str] = scheduler.accept("chat", "x", wait_at_most=wait)
        self.later: list[RunHandle[str, str]] = []
        self.closing: asyncio.Task[Any] | None = None

    async def supersede(self, when_busy: WhenBusy) -> None:
        self.later.append(self.scheduler.submit("chat", "z", when_busy=when_busy))

    async def fail(self) -> None:
        with pytest.raises(ValueError, match="no file"), self.ticket:
            raise ValueError("no file")

    async def shut(self) -> None:
        self.closing = asyncio.create_task(self.scheduler.close(drain=9))
        await quiet(2)

    async def call(self, call: Callable[[], object]) -> None:
        assert call()


if TYPE_CHECKING:
    Way: TypeAlias = Callable[[World], Coroutine[Any, Any, None]]

#: How to drop it, whether it is ready before that, and how it ends.
WAYS: dict[str, tuple[Way, bool, tuple[str, str]]] = {
    "cancel": (lambda it: it.call(lambda: it.scheduler.cancel("chat")), True, INTERRUPTED),
    "scope": (
        lambda it: it.call(lambda: it.scheduler.cancel("chat", scope=Scope.WAITING)),
        True,
        INTERRUPTED,
    ),
    "not ready": (lambda it: it.call(lambda: it.scheduler.cancel("chat")), False, INTERRUPTED),
    "cancel_all": (lambda it: it.call(it.scheduler.cancel_all), True, INTERRUPTED),
    "cancel_run": (
        lambda it: it.call(lambda: it.scheduler.cancel_run(it.ticket.run_id)),
        True,
        INTERRUPTED,
    ),
    "handle": (lambda it: it.call(it.ticket.handle.cancel), True, INTERRUPTED),
    "interrupt": (
        lambda it: it.supersede(WhenBusy.INTERRUPT),
        True,
        ("canceled", "superseded"),
    ),
    "latest": (lambda it: it.supersede(WhenBusy.LATEST), True, ("canceled", "superseded")),
    "expiry": (lambda _: asyncio.sleep(2), True, ("canceled", "expired")),
    "withdrawal": (lambda it: it.call(it.ticket.close), False, ("canceled", "withdrawn")),
    "failed": (lambda it: it.fail(), False, ("failed", "unprepared")),
    "late": (lambda _: asyncio.sleep(3), False, ("failed", "unprepared")),
    "shutdown": (lambda it: it.shut(), True, ("suspended", "shutdown")),
}


@pytest.mark.contract("P1", "X7", "T2")
@pytest.mark.parametrize("name", WAYS)
async def test_whatever_drops_a_run_it_is_recorded_once_before_its_end_and_all_that_follows(
    name: str,
) -> None:
    way, ready, end = WAYS[name]
    desk = Desk()
    async with desk.scheduler(prepare_timeout=3) as scheduler, watching(scheduler) as watch:
        world = World(scheduler, name)
        if ready:
            world.ticket.ready()
        await quiet()
        await way(world)
        await quiet(1)
        dropped_at = now()
        assert world.ticket.run.state is RunState.ENDING
        if world.closing is None and not world.later:
            world.later.append(scheduler.submit("chat", "z"))
        if not world.active.run.canceled:
            desk.finish("a")
        desk.finish("z")
        assert await ends(world.ticket.handle) == [end]
        assert now() == pytest.approx(dropped_at + desk.takes_s)
        assert await ends(*world.later) == [COMPLETED] * len(world.later)
        if world.closing is not None:
            await world.closing
    assert "start x" not in desk.log
    assert desk.log.count("drop x") == 1
    if world.later:
        assert desk.log.index("dropped x") < desk.log.index("start z")
        lines = watch.lines()
        ended = f"{RunEnded.__name__} {world.ticket.run_id}"
        assert lines.index(ended) < lines.index(f"{RunStarted.__name__} {world.later[0].run_id}")


@pytest.mark.contract("P1", "X7")
async def test_a_run_that_is_canceled_before_its_first_step_is_recorded_too() -> None:
    desk = Desk()
    async with desk.scheduler(grace=0.25) as scheduler:
        first, second = scheduler.submit("chat", "x"), scheduler.submit("chat", "b")
        first.cancel()
        desk.finish("b")
        outcome = await first.outcome()
        assert (outcome.status, outcome.started, outcome.started_at) == ("canceled", False, None)
        assert outcome.ended_at == pytest.approx(1)
        assert await second == "b done"
    assert desk.log == ["drop x", "dropped x", "start b", "over b"]


async def test_a_run_that_was_started_is_not_recorded_as_dropped() -> None:
    desk = Desk()
    async with desk.scheduler() as scheduler:
        for prompt, end in (("a", desk.finish), ("b", lambda it: desk.fail(it, ValueError()))):
            handle = scheduler.submit("chat", prompt)
            await quiet()
            end(prompt)
            await handle.outcome()
        canceled = scheduler.submit("chat", "c")
        await quiet()
        canceled.cancel()
        scheduler.submit("chat", "d")
        await quiet()
    assert [entry for entry in desk.log if "drop" in entry] == []


@pytest.mark.contract("P1", "F1")
async def test_what_is_dropped_together_is_recorded_at_once_begun_in_line_order() -> None:
    desk = Desk()
    async with desk.scheduler() as scheduler:
        scheduler.submit("chat", "a")
        handles = [scheduler.submit("chat", prompt) for prompt in "xyz"]
        handles[2].promote()
        await quiet()
        scheduler.cancel("chat")
        assert await ends(*handles) == [INTERRUPTED] * 3
        assert now() == pytest.approx(1)
    assert [it for it in desk.log if it.startswith("drop ")] == ["drop z", "drop x", "drop y"]


# --- out of reach ---


REACHES: dict[str, Callable[[Scheduler[str, str], RunHandle[str, str]], object]] = {
    "cancel": lambda scheduler, _: scheduler.cancel("chat"),
    "cancel_all": lambda scheduler, _: scheduler.cancel_all(),
    "handle": lambda _, handle: handle.cancel(),
    "interrupt": lambda scheduler, _: scheduler.submit("chat", "new", when_busy=WhenBusy.INTERRUPT),
    "close": lambda scheduler, _: asyncio.ensure_future(scheduler.close()),
    "nothing": lambda *_: None,
}


@pytest.mark.contract("P1", "A6")
@pytest.mark.parametrize("first_step", [False, True], ids=["waiting", "before its first step"])
@pytest.mark.parametrize("reach", REACHES)
async def test_no_cancel_of_anything_reaches_the_record_of_a_dropped_run(
    reach: str, *, first_step: bool
) -> None:
    desk = Desk()
    made: list[RunHandle[str, str]] = []

    async def submits() -> None:
        if not first_step:
            scheduler.submit("chat", "a")
        made.append(scheduler.submit("chat", "x"))
        made[0].cancel()
        await made[0]

    async with desk.scheduler() as scheduler:
        submitter = asyncio.create_task(submits())
        await quiet()
        waiter = asyncio.ensure_future(made[0])
        await quiet()
        assert desk.log[-1] == "drop x"
        REACHES[reach](scheduler, made[0])
        submitter.cancel()
        waiter.cancel()
        await quiet()
        assert await ends(made[0]) == [INTERRUPTED]
    assert "cut x" not in desk.log
    assert desk.log.count("drop x") == desk.log.count("dropped x") == 1


# --- when it goes wrong ---


@pytest.mark.contract("P2")
@pytest.mark.parametrize("first_step", [False, True], ids=["waiting", "before its first step"])
@pytest.mark.parametrize("error", [OSError("disk full"), asyncio.CancelledError()], ids=repr)
async def test_when_it_fails_the_run_still_ends_with_that_error_and_the_line_moves(
    error: BaseException, *, first_step: bool
) -> None:
    async def on_dropped(run: Run[str]) -> None:
        await asyncio.sleep(1)
        raise error

    agent = Agent()
    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        if not first_step:
            scheduler.submit("chat", "a")
        dropped, later = scheduler.submit("chat", "x"), scheduler.submit("chat", "b")
        dropped.cancel()
        agent.finish("b", *([] if first_step else ["a"]))
        with pytest.raises(RunCanceled) as caught:
            await dropped
        outcome = await dropped.outcome()
        assert outcome.status is Status.CANCELED
        assert outcome.ended_at == pytest.approx(1)
        assert caught.value.__cause__ is outcome.error
        assert type(outcome.error) is type(error)
        assert await later == "b done"


@pytest.mark.contract("P1", "P2")
@pytest.mark.parametrize("first_step", [False, True], ids=["waiting", "before its first step"])
@pytest.mark.parametrize("limit_s", [0, 0.5, 3])
async def test_it_gets_its_time_and_not_more(limit_s: float, *, first_step: bool) -> None:
    desk = Desk(takes_s=100)
    async with desk.scheduler(settle_timeout=limit_s) as scheduler:
        if not first_step:
            scheduler.submit("chat", "a")
        dropped, later = scheduler.submit("chat", "x"), scheduler.submit("chat", "b")
        dropped.cancel()
        desk.finish("b", *([] if first_step else ["a"]))
        outcome = await dropped.outcome()
        assert outcome.ended_at == pytest.approx(limit_s)
        assert isinstance(outcome.error, TimeoutError)
        assert (
            str(outcome.error) == f"a hook for run {dropped.run_id!r} took longer than {limit_s} s"
        )
        assert await later == "b done"
        await quiet()
        assert desk.log.count("cut x") == 1
        assert scheduler._driver.kept == {}


@pytest.mark.contract("P2")
@pytest.mark.parametrize("late", ["returns", "raises"])
async def test_one_that_ignores_its_cancel_holds_nobody_up_and_what_it_comes_to_is_forgotten(
    late: str,
) -> None:
    went_on: list[str] = []

    async def on_dropped(run: Run[str]) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(100)
        await asyncio.sleep(10)
        went_on.append(run.prompt)
        if late == "raises":
            raise OSError("disk full")

    agent = Agent()
    async with Scheduler(agent, on_dropped=on_dropped, settle_timeout=2) as scheduler:
        scheduler.submit("chat", "a")
        dropped, later = scheduler.submit("chat", "x"), scheduler.submit("chat", "b")
        dropped.cancel()
        agent.finish("a", "b")
        outcome = await dropped.outcome()
        assert outcome.ended_at == pytest.approx(2)
        assert went_on == []
        assert await later == "b done"
        assert now() == pytest.approx(2)
        await asyncio.sleep(20)
        assert went_on == ["x"]
        assert await dropped.outcome() == outcome
        assert isinstance(outcome.error, TimeoutError)


async def test_one_that_is_done_in_time_leaves_no_timer_behind() -> None:
    desk = Desk()
    async with desk.scheduler(settle_timeout=50) as scheduler:
        scheduler.submit("chat", "a")
        dropped = scheduler.submit("chat", "x")
        dropped.cancel()
        await dropped.outcome()
        loop: Any = asyncio.get_running_loop()
        assert [it for it in loop._scheduled if not it.cancelled()] == []


@pytest.mark.contract("D5", "P1")
async def test_a_slow_record_holds_up_its_own_session_only() -> None:
    desk = Desk(takes_s=3)
    async with desk.scheduler() as scheduler:
        scheduler.submit("chat", "a")
        dropped = scheduler.submit("chat", "x")
        await quiet()
        scheduler.cancel("chat")
        behind, elsewhere = scheduler.submit("chat", "b"), scheduler.submit("another chat", "c")
        desk.finish("b", "c")
        assert await elsewhere == "c done"
        assert (now(), dropped.state, behind.state) == (0, RunState.ENDING, RunState.QUEUED)
        assert await behind == "b done"
        assert now() == pytest.approx(3)
