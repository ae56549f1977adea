"""What happens in the moment of the close (races 19 to 21, 25, 26, 33)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import RunCanceling, RunEnded, RunSuspended, Scheduler, SchedulerClosed, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from sessionsched import Run

    Handler: TypeAlias = Callable[[Run[str]], Coroutine[None, None, str]]

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)
SUSPENDED = ("suspended", "shutdown")

#: More turns of the loop than a run takes to end.
TURNS = 10


# --- 19, 20: a shutdown is neither a person's cancel nor an error ---


async def _is_struck(run: Run[str]) -> str:
    await asyncio.sleep(100)
    return run.prompt


async def _calls_a_tool(run: Run[str]) -> str:
    return await asyncio.shield(asyncio.create_task(asyncio.sleep(3, run.prompt)))


async def _raises(run: Run[str]) -> str:
    try:
        return await _is_struck(run)
    except asyncio.CancelledError:
        raise ConnectionError from None


async def _groups(run: Run[str]) -> str:
    async def child() -> None:
        await _raises(run)

    async with asyncio.TaskGroup() as group:
        group.create_task(child())
    return run.prompt


async def _makes_one_up(run: Run[str]) -> str:
    try:
        return await _is_struck(run)
    except asyncio.CancelledError as error:
        raise asyncio.CancelledError("another one") from error


@pytest.mark.contract("S3", "S4", "X12")
@pytest.mark.parametrize("drain", [0, 1])
@pytest.mark.parametrize("handler", [_is_struck, _calls_a_tool, _makes_one_up])
async def test_race_19_a_shutdown_during_a_tool_call_is_not_taken_for_a_cancel(
    handler: Handler, drain: float
) -> None:
    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        await quiet()
        report = await scheduler.close(drain)
        assert await ends(handle) == [SUSPENDED]
        assert [(run.prompt, run.seq) for run in report.suspended] == [("a", 1)]
        with pytest.raises(RunSuspended):
            await handle
        await asyncio.sleep(3)  # let the tool come to its end
    assert [event.cause for event in watch.of(RunCanceling)] == ["shutdown"]


@pytest.mark.contract("S3", "S4")
@pytest.mark.parametrize("handler", [_raises, _groups])
async def test_race_20_a_handler_that_raises_because_of_the_shutdown_has_not_failed(
    handler: Handler,
) -> None:
    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        report = await scheduler.close()
        assert await ends(handle) == [SUSPENDED]
        assert report.suspended == (handle.run,)
        error = (await handle.outcome()).error
        assert isinstance(error, ConnectionError | ExceptionGroup)


@pytest.mark.contract("X12", "S3")
@pytest.mark.parametrize("cancel_first", [False, True])
async def test_race_19_a_person_who_cancels_around_the_shutdown_is_heard(
    *, cancel_first: bool
) -> None:
    cleaned_up = []

    async def handler(run: Run[str]) -> str:
        try:
            return await _is_struck(run)
        finally:
            await asyncio.sleep(2)
            cleaned_up.append(run.prompt)

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        if cancel_first:
            scheduler.cancel("chat")
        closing = asyncio.create_task(scheduler.close())
        await asyncio.sleep(1)
        if not cancel_first:
            assert scheduler.cancel("chat").active is handle.run
        assert await ends(handle) == [CANCELED]
        assert (await closing).suspended == ()
    assert cleaned_up == ["a"]


# --- 21: success in the moment of the close ---


@pytest.mark.contract("S3", "S4", "T1")
@pytest.mark.parametrize(
    ("close_first", "drain", "expected"),
    [(False, 0, {True, False}), (False, 10, {True}), (True, 0, {False}), (True, 10, {True})],
)
async def test_race_21_a_run_that_returns_around_the_close_has_completed_or_is_in_the_report(
    drain: float, expected: set[bool], *, close_first: bool
) -> None:
    found = set()
    for turns in range(TURNS):
        gate = asyncio.Event()

        async def handler(run: Run[str], gate: asyncio.Event = gate) -> str:
            await gate.wait()
            return run.prompt

        async with Scheduler(handler) as scheduler:
            handle = scheduler.submit("chat", "a")
            await quiet()
            if close_first:
                closing = asyncio.create_task(scheduler.close(drain))
                await quiet(turns)
                gate.set()
                report = await closing
            else:
                gate.set()
                await quiet(turns)
                report = await scheduler.close(drain)
            outcome = await handle.outcome()
            returned = outcome.result == "a"
            assert await ends(handle) == [COMPLETED if returned else SUSPENDED]
            assert report.suspended == (() if returned else (handle.run,))
            found.add(returned)
    assert found == expected


@pytest.mark.contract("S3")
async def test_race_21_a_run_that_swallows_the_shutdown_and_returns_has_completed() -> None:
    async def handler(run: Run[str]) -> str:
        try:
            return await _is_struck(run)
        except asyncio.CancelledError:
            return f"{run.prompt} in time"

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        report = await scheduler.close()
        assert await handle == "a in time"
        assert report.suspended == ()


# --- 25: prompts around the close ---


@pytest.mark.contract("S5", "A4")
async def test_race_25_a_prompt_sent_at_any_turn_after_the_close_began_is_refused() -> None:
    for turns in range(1, TURNS):
        agent = Agent()
        async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
            scheduler.submit("chat", "a")
            await quiet()
            closing = asyncio.create_task(scheduler.close(drain=10))
            await quiet(turns)
            for when_busy in WhenBusy:
                with pytest.raises(SchedulerClosed):
                    scheduler.submit("chat", "b", when_busy=when_busy)
                with pytest.raises(SchedulerClosed):
                    scheduler.accept("other", "b", when_busy=when_busy)
            agent.finish("a")
            await closing
        assert {event.run_id for event in watch.events} == {"run-1"}


@pytest.mark.contract("S5", "S2", "S4", "T1")
async def test_race_25_a_prompt_accepted_at_any_turn_before_the_close_has_an_end() -> None:
    for turns in range(TURNS):
        agent = Agent()
        async with Scheduler(agent) as scheduler:
            handles = [scheduler.submit("chat", "a"), scheduler.submit("chat", "b")]
            ticket = scheduler.accept("other", "c")
            await quiet(turns)
            report = await scheduler.close()  # between the submit and the wait
            assert await ends(*handles, ticket.handle) == [SUSPENDED] * 3
            assert not ticket.ready()
            assert [run.prompt for run in report.suspended] == ["a", "b", "c"]
        assert agent.started in ([], ["a"])


@pytest.mark.contract("S5", "S1", "T1")
async def test_race_25_whoever_sends_a_prompt_because_of_the_close_is_refused() -> None:
    refused: list[str] = []

    def try_again(run: Run[str]) -> None:
        assert not run.prompt.endswith("again")
        with pytest.raises(SchedulerClosed):
            scheduler.submit("chat", f"{run.prompt} again")
        refused.append(run.prompt)

    async def handler(run: Run[str]) -> str:
        try:
            return await _is_struck(run)
        finally:
            try_again(run)

    async def on_dropped(run: Run[str]) -> None:
        try_again(run)

    async with Scheduler(handler, on_dropped=on_dropped) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        await quiet()
        await scheduler.close()
        assert await ends(*handles) == [SUSPENDED] * 2
    assert sorted(refused) == ["a", "b"]


@pytest.mark.contract("S6")
async def test_race_25_closing_again_while_it_closes_is_the_same_close() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        closes = [asyncio.create_task(scheduler.close(drain)) for drain in (50, 10, 20)]
        first, *others = await asyncio.gather(*closes)
        assert all(report is first for report in [*others, await scheduler.close()])
        assert (await handle.outcome()).ended_at == 10.0
    assert agent.log.count("stop a") == 1


# --- 26: helpers that nobody waits for ---


@pytest.mark.contract("S1", "S7")
async def test_race_26_a_detached_helper_of_a_run_does_not_hold_up_the_close() -> None:
    helpers = []

    async def handler(run: Run[str]) -> str:
        helpers.append(asyncio.create_task(asyncio.sleep(1000)))
        return await _is_struck(run)

    async with Scheduler(handler) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        began = asyncio.get_running_loop().time()
        await scheduler.close()
        assert asyncio.get_running_loop().time() == began
        assert await ends(handle) == [SUSPENDED]
    [helper] = helpers
    assert not helper.done()  # it is the host's own
    helper.cancel()
    await asyncio.wait([helper])


@pytest.mark.contract("S1", "X8", "P1")
async def test_race_26_what_ignores_every_cancel_does_not_hold_up_the_close_for_ever() -> None:
    release = asyncio.Event()

    async def ignores(_run: Run[str]) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    scheduler = Scheduler(
        ignores, on_dropped=ignores, grace=1.0, abandon_after=2.0, settle_timeout=3.0
    )
    handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
    await quiet()
    report = await scheduler.close()
    assert await ends(*handles) == [SUSPENDED] * 2
    assert asyncio.get_running_loop().time() == 4.0  # b is settled, then one last grace
    assert report.still_going == (handles[0].run,)
    release.set()
    await quiet()


# --- 33: everything in flight has an end ---


@pytest.mark.contract("S1", "S2", "S3", "S4", "T1", "S7")
@pytest.mark.parametrize("drain", [0, 3])
@pytest.mark.parametrize("recorded", [False, True])
async def test_race_33_whatever_is_in_flight_when_the_close_comes_has_an_end(
    drain: float, *, recorded: bool
) -> None:
    async def handler(run: Run[str]) -> str:
        await asyncio.sleep(1)
        run.take_follow_ups()
        return await _is_struck(run)

    async def on_dropped(_run: Run[str]) -> None:
        await asyncio.sleep(2)

    async def prepare(run: Run[str]) -> None:
        await asyncio.sleep(100 if run.prompt == "preparing" else 0)

    async with (
        Scheduler(handler, prepare=prepare, on_dropped=on_dropped if recorded else None) as it,
        watching(it) as watch,
    ):
        active = it.submit("chat", "active")
        folded = it.submit("chat", "folded", when_busy=WhenBusy.FOLD)
        dropped = it.submit("chat", "dropped")
        await asyncio.sleep(1.5)
        assert folded.state == "folded"
        waiting = [it.submit("chat", "queued"), it.submit("chat", "preparing")]
        ticket = it.accept("other", "ticket")
        skipped = it.accept("third", "about to start")
        dropped.cancel()
        skipped.ready()
        report = await it.close(drain)
        suspended = [active, folded, *waiting, ticket.handle, skipped.handle]
        assert await ends(*suspended, dropped) == [SUSPENDED] * 6 + [CANCELED]
        assert report.suspended == tuple(handle.run for handle in suspended)
        await quiet()
        told = {event.run_id: event.outcome for event in watch.of(RunEnded)}
        assert len(told) == len(watch.of(RunEnded)) == 7
        assert [told[handle.run_id] for handle in suspended] == [
            handle.run.ended for handle in suspended
        ]
