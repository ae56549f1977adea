"""A cancel while tools run: what they have said is kept, and every call is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from agents import ends, quiet
from scripted import DONE, Host, Script, call, flat, tool

from sessionsched import Cause, RunProgress, RunStuck, Status
from sessionsched.steps import (
    Finish,
    Step,
    Text,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from scripted import Item

    from sessionsched import Run

CANCELED = ("canceled", "interrupt")
SUSPENDED = ("suspended", "shutdown")


async def slow(run: Run[str]) -> str:
    await asyncio.sleep(10)
    return "slow"


SLOW = tool(slow)


def cut(call_id: str, how: str, cause: str = "interrupt") -> ToolResult:
    """The result of a call that a cancel has cut off."""
    text = f"stopped ({cause}) {how}"
    return ToolResult(call_id, "slow", text, error=True, synthetic=True)


AT_IT = "while it was at it: it may have done a part of its work, or all of it"


@pytest.mark.contract("X12", "S3")
async def test_race_19_a_shutdown_during_a_tool_call_is_no_interrupt() -> None:
    seen = []

    class Shown(Host):
        async def persist(self, step: Step) -> None:
            seen.append((step.cause, self.run.cause))
            await super().persist(step)

    host = Shown(Script([Text("a"), call("1", "slow"), DONE]), [SLOW])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        report = await scheduler.close()
        assert await ends(handle) == [SUSPENDED]
        assert report.suspended == (handle.run,)
    assert seen == [(Cause.SHUTDOWN, Cause.SHUTDOWN)]
    assert host.stored[0].results == (cut("1", AT_IT, "shutdown"),)


@pytest.mark.contract("X12", "S3")
async def test_race_19_an_interrupt_during_a_tool_call_is_no_shutdown() -> None:
    host = Host(Script([Text("a"), call("1", "slow"), DONE]), [SLOW])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        report = await scheduler.close()
        assert await ends(handle) == [CANCELED]
        assert report.suspended == ()
    assert host.stored[0].cause is Cause.INTERRUPT
    assert host.stored[0].results == (cut("1", AT_IT),)


@pytest.mark.contract("X1")
async def test_race_24_a_cancel_at_no_moment_loses_what_a_tool_has_finished() -> None:
    """At each turn of the loop from the first request to the end of the second step."""
    cuts = set()
    for turns in range(40):
        ran: list[int] = []

        async def note(run: Run[str], ran: list[int] = ran) -> str:
            await quiet(2)
            ran.append(1)
            return "noted"

        host = Host(Script([Text("a"), call("1", "note"), DONE], [Text("b"), DONE]), [tool(note)])
        async with host.open() as (scheduler, _):
            handle = scheduler.submit("chat", "hi")
            await quiet(turns)
            receipt = scheduler.cancel("chat")
            assert await ends(handle) == [CANCELED if receipt else ("completed", None)]
        numbers = [step.number for step in host.given]
        assert numbers == sorted(set(numbers)), "each is stored once"
        assert host.given == host.stored
        for step in host.stored[:1]:
            assert len(step.results) == len(step.calls)
            assert [it.content for it in step.results if not it.synthetic] == ["noted"] * len(ran)
        assert bool(host.stored) >= bool(ran)
        cuts.add((len(host.stored), bool(ran), bool(receipt)))
    assert cuts >= {(0, False, True), (1, False, True), (1, True, True), (2, True, True)}


async def test_race_24_a_cancel_while_the_step_is_being_stored_does_not_reach_that() -> None:
    host = Host(Script([call("1", "slow"), DONE], [Text("never"), DONE]), [SLOW])
    host.persist_s = 4.0
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(11)
        assert len(host.given) == 1
        assert host.stored == []
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 14)
    assert host.stored == [
        Step(1, (ToolCall("1", "slow", "{}"),), (ToolResult("1", "slow", "slow"),), Finish())
    ]
    assert len(host.model.requests) == 1


async def test_tools_that_are_over_keep_their_results_and_the_others_are_stopped() -> None:
    stopped = []

    async def quick(run: Run[str]) -> str:
        return "quick"

    async def endless(run: Run[str]) -> str:
        try:
            await asyncio.sleep(1000)
        finally:
            stopped.append(run.cause)
        return "never"

    async def tidy(run: Run[str]) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return f"stopped by {run.cause}"
        return "never"

    line: list[Item] = [call("1", "quick"), call("2", "endless"), call("3", "tidy"), DONE]
    host = Host(Script(line), [tool(quick), tool(endless), tool(tidy)])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        outcome = await handle.outcome()
        assert (outcome.status, outcome.ended_at) == (Status.CANCELED, 5)
    (step,) = host.stored
    assert flat(step)[3:] == [
        "result 1: quick",
        f"error 2: stopped (interrupt) {AT_IT}",
        "result 3: stopped by interrupt",
    ]
    assert (step.finish, step.cause, stopped) == (DONE, Cause.INTERRUPT, [Cause.INTERRUPT])


async def test_tools_that_all_answer_the_cancel_leave_a_step_that_is_whole() -> None:
    async def tidy(run: Run[str]) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return "tidied up"
        return "never"

    host = Host(Script([call("1", "tidy"), DONE]), [tool(tidy)])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    assert (host.stored[0].cause, len(host.model.requests)) == (None, 1)


async def test_a_tool_that_ignores_every_cancel_keeps_the_run_but_not_the_step() -> None:
    release = asyncio.Event()

    async def stubborn(run: Run[str]) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                told.append(len(host.stored))
        return "too late"

    told: list[int] = []
    host = Host(Script([call("1", "stubborn"), DONE]), [tool(stubborn)])
    async with host.open() as (scheduler, watch):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(1)
        scheduler.cancel("chat")
        asyncio.get_running_loop().call_later(11, release.set)
        await asyncio.sleep(2)
        assert len(host.stored) == 1, "stored while the tool still goes on"
        assert await ends(handle) == [CANCELED]
        assert len(watch.of(RunStuck)) == 2
    assert told == [0, 1, 1, 1]
    (result,) = host.stored[0].results
    assert result.synthetic
    assert [it.item for it in watch.of(RunProgress)][-1] is result


async def test_tools_that_have_not_begun_never_do_after_a_cancel() -> None:
    begun = []

    async def first(run: Run[str]) -> str:
        await asyncio.sleep(10)
        return "first"

    async def second(run: Run[str]) -> None:
        begun.append(run)

    line: list[Item] = [call("1", "first"), call("2", "second"), DONE]
    host = Host(Script(line), [tool(first, exclusive=True), tool(second)])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        scheduler.cancel("chat")
        assert await ends(handle) == [CANCELED]
    assert flat(host.stored[0])[2:] == [
        f"error 1: stopped (interrupt) {AT_IT}", "error 2: stopped (interrupt) before it began",
    ]  # fmt: skip
    assert begun == []


async def test_a_tool_that_cancels_its_own_run_has_its_answer_stored() -> None:
    async def give_up(run: Run[str]) -> str:
        scheduler.cancel("chat")
        return "gave up"

    host = Host(Script([call("1", "give_up"), DONE]), [tool(give_up)])
    async with host.open() as (scheduler, _):
        assert await ends(scheduler.submit("chat", "hi")) == [CANCELED]
    assert flat(*host.stored) == ["call 1: give_up", "result 1: gave up"]
    assert len(host.model.requests) == 1


@pytest.mark.parametrize("first", ["the cancel", "the answer"])
async def test_an_answer_that_is_ready_in_the_same_turn_as_the_cancel_is_kept(first: str) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def waits(run: Run[str]) -> str:
        return await answer

    host = Host(Script([call("1", "waits"), DONE]), [tool(waits)])
    async with host.open() as (scheduler, _):
        handle = scheduler.submit("chat", "hi")
        await asyncio.sleep(1)
        if first == "the answer":
            answer.set_result("got it")
        scheduler.cancel("chat")
        if first == "the cancel":
            answer.set_result("got it")
        assert await ends(handle) == [CANCELED]
    assert flat(*host.stored) == ["call 1: waits", "result 1: got it"]
