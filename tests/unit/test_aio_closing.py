"""Closing: prompts are refused, what waits is suspended, handlers are waited for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    CloseReport,
    InvalidOption,
    RunCanceling,
    RunEnded,
    RunState,
    Scheduler,
    SchedulerClosed,
    SessionState,
    WhenBusy,
)

if TYPE_CHECKING:
    from sessionsched import Run

COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")
INTERRUPTED = ("canceled", "interrupt")


def now() -> float:
    return asyncio.get_running_loop().time()


def nothing_is_left(scheduler: Scheduler[Any, Any]) -> bool:
    """Whether it refers to no task, no timer and no session."""
    driver = scheduler._driver
    kept = (driver.kept, driver.timers, driver._preparing, driver.waits._runs, driver.table)
    return not any(len(it) for it in kept) and not driver.hub.listening


class Slow(Agent):
    """An agent whose handlers take two seconds to unwind."""

    async def __call__(self, run: Run[str]) -> str:
        try:
            return await super().__call__(run)
        except asyncio.CancelledError:
            await asyncio.sleep(2)
            self.log.append(f"gone {run.prompt}")
            raise


# --- in which order ---


@pytest.mark.contract("S1", "S2", "X7")
async def test_prompts_are_refused_and_what_waits_is_suspended_before_anything_else() -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
    unready = scheduler.accept("chat", "c")
    closing = asyncio.create_task(scheduler.close(drain=50))
    await quiet()
    with pytest.raises(SchedulerClosed):
        scheduler.submit("another chat", "d")
    assert await ends(waiting, unready.handle) == [SUSPENDED, SUSPENDED]
    assert now() == 0
    assert (active.state, active.run.canceled) == (RunState.ACTIVE, False), "it may go on"
    agent.finish("a")
    assert (await closing).suspended == (waiting.run, unready.run)
    assert await ends(active) == [COMPLETED]
    assert not unready.ready()
    assert agent.started == ["a"]


@pytest.mark.contract("S1")
async def test_active_runs_may_go_on_for_a_while_and_no_longer() -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    quick, slow = scheduler.submit("chat-1", "a"), scheduler.submit("chat-2", "b")
    closing = asyncio.create_task(scheduler.close(drain=10))
    await asyncio.sleep(4)
    agent.finish("a")
    report = await closing
    assert now() == pytest.approx(10)
    assert await ends(quick, slow) == [COMPLETED, SUSPENDED]
    assert report == CloseReport((slow.run,))
    assert agent.log[-2:] == ["stop b", "over b"]


@pytest.mark.contract("S1")
async def test_it_does_not_wait_longer_than_there_is_something_to_wait_for() -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    scheduler.submit("chat", "a")
    closing = asyncio.create_task(scheduler.close(drain=10))
    await asyncio.sleep(4)
    agent.finish("a")
    assert await closing == CloseReport()
    assert now() == pytest.approx(4)


@pytest.mark.contract("S1", "T3")
async def test_every_handler_is_waited_for_and_every_end_announced_before_it_returns() -> None:
    agent = Slow()
    scheduler = Scheduler(agent)
    seen: list[str] = []

    async def read() -> None:
        async with scheduler.subscribe() as events:
            seen.extend(
                [
                    f"{type(event).__name__} {event.run.prompt}"
                    async for event in events
                    if isinstance(event, RunCanceling | RunEnded)
                ]
            )
        seen.append("the subscription is over")

    reader = asyncio.create_task(read())
    await quiet()
    for prompt in ("a", "b"):
        scheduler.submit("chat", prompt)
    await quiet()
    await scheduler.close()
    assert agent.log[-1] == "gone a"
    assert now() == pytest.approx(2)
    await reader
    assert seen == [
        "RunCanceling b", "RunEnded b", "RunCanceling a", "RunEnded a", "the subscription is over",
    ]  # fmt: skip


@pytest.mark.contract("S3")
@pytest.mark.parametrize(
    ("then", "end"),
    [
        ("stops", SUSPENDED),
        ("returns", COMPLETED),
        ("raises", SUSPENDED),
        ("was canceled before", INTERRUPTED),
        ("is canceled meanwhile", INTERRUPTED),
    ],
)
async def test_how_an_active_run_ends_that_the_shutdown_interrupts(
    then: str, end: tuple[str, str]
) -> None:
    async def handler(run: Run[str]) -> str:
        try:
            await asyncio.sleep(99)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            if then == "raises":
                raise OSError("disk full") from None
            if then != "returns":
                raise
        return "all the same"

    scheduler = Scheduler(handler)
    handle = scheduler.submit("chat", "a")
    await quiet()
    if then == "was canceled before":
        handle.cancel()
    closing = asyncio.create_task(scheduler.close())
    await quiet()
    if then == "is canceled meanwhile":
        handle.cancel()
    report = await closing
    assert await ends(handle) == [end]
    assert report.suspended == ((handle.run,) if end == SUSPENDED else ())
    outcome = await handle.outcome()
    assert outcome.result == ("all the same" if then == "returns" else None)
    assert isinstance(outcome.error, OSError) is (then == "raises")


@pytest.mark.contract("S4")
async def test_the_report_names_what_was_suspended_with_its_prompts_in_accept_order() -> None:
    agent = Slow()
    scheduler = Scheduler(agent)
    for prompt in ("a1", "b1", "c1", "b2", "a2", "c2"):
        scheduler.submit(f"chat-{prompt[0]}", prompt)
    folded = scheduler.submit("chat-b", "b3", when_busy=WhenBusy.FOLD)
    await quiet()
    assert agent.runs["b1"].take_follow_ups() == (folded.run,)
    agent.finish("c1")
    await quiet()
    canceled = scheduler.submit("chat-d", "d1")
    canceled.cancel()
    report = await scheduler.close()
    suspended = [(run.prompt, run.seq) for run in report.suspended]
    assert suspended == [("a1", 1), ("b1", 2), ("b2", 4), ("a2", 5), ("c2", 6), ("b3", 7)]
    assert report.still_going == ()


# --- once, however often ---


@pytest.mark.contract("S6")
async def test_closing_from_many_places_is_one_close_with_one_report() -> None:
    agent = Slow()
    scheduler = Scheduler(agent)
    handle = scheduler.submit("chat", "a")
    await quiet()
    async with watching(scheduler) as watch:
        reports = await asyncio.gather(*(scheduler.close() for _ in range(3)))
        assert await scheduler.close(drain=7) is reports[0], "long after, too"
    assert now() == pytest.approx(2)
    assert all(report is reports[0] for report in reports)
    assert reports[0].suspended == (handle.run,)
    assert len(watch.of(RunEnded)) == 1


@pytest.mark.contract("S6")
@pytest.mark.parametrize(
    ("first", "then", "after", "interrupted_at"),
    [(10, 0, 4, 4), (10, 3, 4, 7), (10, 8, 4, 10), (10, 6, 4, 10), (0, 10, 1, 0), (3, 0, 4, 3)],
)
async def test_the_earliest_time_that_anybody_asked_for_counts(
    first: float, then: float, after: float, interrupted_at: float
) -> None:
    agent = Slow()
    scheduler = Scheduler(agent)
    handle = scheduler.submit("chat", "a")
    await quiet()
    closers = [asyncio.create_task(scheduler.close(first))]
    await asyncio.sleep(after)
    closers.append(asyncio.create_task(scheduler.close(then)))
    await asyncio.gather(*closers)
    assert (await handle.outcome()).ended_at == pytest.approx(interrupted_at + 2)


@pytest.mark.contract("S6")
async def test_who_stops_waiting_for_the_close_does_not_stop_it() -> None:
    agent = Slow()
    scheduler = Scheduler(agent)
    handle = scheduler.submit("chat", "a")
    await quiet()
    closer = asyncio.create_task(scheduler.close(drain=1))
    await quiet()
    closer.cancel()
    await asyncio.wait([closer])
    assert closer.cancelled()
    assert await ends(handle) == [SUSPENDED]
    assert now() == pytest.approx(3)
    assert (await scheduler.close()).suspended == (handle.run,)


# --- nothing is left ---


@pytest.mark.contract("S7")
async def test_after_the_close_there_is_nothing_left_and_nothing_can_be_done() -> None:
    async def prepare(run: Run[str]) -> None:
        await asyncio.sleep(1 if run.prompt == "a" else 99)

    scheduler = Scheduler(Slow(), prepare=prepare, prepare_timeout=200)
    handle = scheduler.submit("chat", "a", deadline=77)
    waiting = scheduler.submit("chat", "b", wait_at_most=88)
    ticket = scheduler.accept("chat", "c")
    await asyncio.sleep(2)
    assert handle.state is RunState.ACTIVE
    await scheduler.close()
    assert nothing_is_left(scheduler)
    assert len(asyncio.all_tasks()) == 1
    assert await ends(handle, waiting, ticket.handle) == [SUSPENDED] * 3
    for take in (scheduler.submit, scheduler.accept):
        with pytest.raises(SchedulerClosed):
            take("chat", "d")
    assert not scheduler.cancel("chat")
    assert not handle.cancel()
    assert not scheduler.pause("chat")
    assert scheduler.session("chat").state is SessionState.IDLE
    assert scheduler.snapshot().closed


async def test_a_scheduler_that_nobody_has_used_closes_at_once() -> None:
    assert await Scheduler(Agent()).close(drain=99) == CloseReport()
    assert now() == 0


def test_a_scheduler_that_was_never_opened_can_be_closed() -> None:
    scheduler = Scheduler(Agent())
    assert asyncio.run(scheduler.close()) == CloseReport()


@pytest.mark.contract("A4")
@pytest.mark.parametrize("drain", [-1, float("inf"), float("nan"), "5", None, True])
async def test_a_drain_that_is_not_a_number_of_seconds_closes_nothing(drain: Any) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        with pytest.raises(InvalidOption, match=r"^drain is a number of seconds"):
            await scheduler.close(drain)
        agent.finish("a")
        assert await scheduler.submit("chat", "a") == "a done"


# --- hooks that are under way ---


@pytest.mark.contract("S1", "P1")
async def test_drops_that_are_being_recorded_are_waited_for() -> None:
    recorded: list[str] = []

    async def on_dropped(run: Run[str]) -> None:
        await asyncio.sleep(3)
        recorded.append(run.prompt)

    scheduler = Scheduler(Agent(), on_dropped=on_dropped)
    handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
    await quiet()
    handles[1].cancel()
    await asyncio.sleep(1)
    report = await scheduler.close()
    assert now() == pytest.approx(4)
    assert recorded == ["b", "c"]
    assert await ends(*handles) == [SUSPENDED, INTERRUPTED, SUSPENDED]
    assert report.suspended == (handles[0].run, handles[2].run)
    assert nothing_is_left(scheduler)


async def ignores_cancels(_run: object) -> None:
    """Go on for 20 seconds, whoever says what."""
    until = now() + 20
    while now() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(until - now())


@pytest.mark.contract("S1", "S2")
@pytest.mark.parametrize("hook", ["prepare", "on_dropped"])
async def test_a_hook_that_ignores_every_cancel_is_waited_for_only_so_long(hook: str) -> None:
    hooks: dict[str, Any] = {hook: ignores_cancels}
    scheduler = Scheduler(Agent(), grace=6, settle_timeout=2, **hooks)
    ticket = scheduler.accept("chat", "a") if hook == "on_dropped" else None
    handle = ticket.handle if ticket else scheduler.submit("chat", "a")
    await quiet()
    report = await scheduler.close()
    ended_at = 2 if hook == "on_dropped" else 0
    assert (await handle.outcome()).ended_at == pytest.approx(ended_at)
    assert now() == pytest.approx(ended_at + 6)
    assert report == CloseReport((handle.run,)), "no handler goes on"
    await asyncio.sleep(30)
    assert nothing_is_left(scheduler)


# --- handlers that go on ---


@pytest.mark.contract("S1", "X8")
async def test_a_handler_that_ignores_every_cancel_is_waited_for() -> None:
    scheduler = Scheduler[str, None](ignores_cancels, grace=1)
    handle = scheduler.submit("chat", "a")
    await quiet()
    report = await scheduler.close()
    assert now() == pytest.approx(20)
    assert await ends(handle) == [COMPLETED], "it returned all the same"
    assert report == CloseReport()


@pytest.mark.contract("S1", "X8")
@pytest.mark.parametrize(("grace", "still"), [(6, True), (30, False)])
async def test_a_handler_that_was_given_up_on_is_waited_for_only_so_long(
    grace: float, *, still: bool
) -> None:
    scheduler = Scheduler[str, None](ignores_cancels, grace=grace, abandon_after=3)
    first = scheduler.submit("chat-1", "a")
    second = scheduler.submit("chat-2", "b")
    await quiet()
    report = await scheduler.close()
    assert now() == pytest.approx(3 + 6 if still else 20)
    assert report.suspended == (first.run, second.run)
    assert report.still_going == ((first.run, second.run) if still else ())
    assert (await first.outcome()).abandoned
    await asyncio.sleep(30)
    assert nothing_is_left(scheduler)


@pytest.mark.contract("S1")
async def test_a_handler_that_was_given_up_on_gets_one_last_cancel() -> None:
    times: list[float] = []

    async def handler(run: Run[str]) -> None:
        while len(times) < 3:
            try:
                await asyncio.sleep(99)
            except asyncio.CancelledError:
                times.append(now())

    scheduler = Scheduler(handler, grace=50, abandon_after=2)
    handle = scheduler.submit("chat", "a")
    await quiet()
    handle.cancel()
    assert (await handle.outcome()).abandoned
    await asyncio.sleep(5)
    assert await scheduler.close() == CloseReport()
    assert times == pytest.approx([0, 2, 7])
    assert nothing_is_left(scheduler)
