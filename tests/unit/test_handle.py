"""What a submitter holds: a handle, which does not own its run, or a ticket, which does."""

from __future__ import annotations

import asyncio

import pytest
from agents import Agent, ends, quiet

from sessionsched import (
    CancelReceipt,
    DuplicateRun,
    InvalidOption,
    RunHandle,
    RunState,
    Scheduler,
    Status,
)

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")
WITHDRAWN = ("canceled", "withdrawn")
UNPREPARED = ("failed", "unprepared")


# --- handles ---


async def test_a_handle_says_what_its_run_is_and_where() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a", run_id="mine")
        about = (handle.run_id, handle.session_id, handle.seq, handle.run.prompt)
        assert about == ("mine", "chat", 1, "a")
        assert handle.state == "active"
        assert repr(handle) == "<Run mine of 'chat': active>"
        agent.finish("a")
        await handle
        assert handle.state == "ended"


async def test_a_run_has_one_handle_and_is_its_own() -> None:
    async with Scheduler(Agent()) as scheduler:
        handle = scheduler.submit("chat", "a", run_id="mine")
        same, other = scheduler.find("mine"), scheduler.submit("chat", "a")
        assert isinstance(handle, RunHandle)
        assert same is handle
        assert len({handle, same, other}) == 2
        assert handle.run is scheduler.session("chat").active
        assert handle != other


@pytest.mark.contract("A6")
async def test_losing_a_handle_changes_nothing() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        run = scheduler.submit("chat", "a").run
        await quiet()
        agent.finish("a")
        await quiet()
        assert run.ended is not None
        assert run.ended.status is Status.COMPLETED


@pytest.mark.contract("X9", "X11")
async def test_a_handle_cancels_its_own_run_and_nothing_else() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
        await quiet()
        assert handles[1].cancel() == CancelReceipt("chat", dropped=(handles[1].run,))
        assert handles[0].cancel() == CancelReceipt("chat", active=handles[0].run)
        assert not handles[0].cancel()
        agent.finish("c")
        assert await ends(*handles) == [INTERRUPTED, INTERRUPTED, COMPLETED]
        assert not handles[2].cancel()


@pytest.mark.contract("D2")
async def test_a_waiting_run_can_be_promoted_and_no_other() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, second, third = (scheduler.submit("chat", prompt) for prompt in "abc")
        assert third.promote()
        assert not active.promote()
        agent.finish(*"abc")
        assert await ends(active, second, third) == [COMPLETED] * 3
        assert not third.promote()
    assert agent.started == ["a", "c", "b"]


@pytest.mark.contract("D4")
async def test_a_run_that_is_promoted_past_one_that_is_not_ready_starts_at_once() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        with scheduler.accept("chat", "a"):
            handle = scheduler.submit("chat", "b")
            agent.finish("b")
            assert handle.promote()
            assert await handle == "b done"


async def test_the_prompt_of_a_waiting_run_can_be_replaced_and_of_no_other() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        assert waiting.replace("better")
        assert not active.replace("too late")
        agent.finish("a", "better")
        assert await active == "a done"
        assert await waiting == "better done"
        assert not waiting.replace("too late")


# --- tickets ---


@pytest.mark.contract("D2", "D3")
async def test_a_ticket_keeps_its_place_and_starts_only_when_it_is_ready() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        with scheduler.accept("chat", "a", run_id="mine") as ticket:
            behind = scheduler.submit("chat", "b")
            await asyncio.sleep(100)
            assert (ticket.run.state, behind.state) == (RunState.ACCEPTED, RunState.QUEUED)
            assert (ticket.run_id, ticket.seq) == ("mine", 1)
            assert repr(ticket) == "<Ticket of <Run mine of 'chat': accepted>>"
            assert ticket.handle.run is ticket.run
            assert ticket.ready()
            assert not ticket.ready()
        assert not ticket.close(), "it is ready, and on its way"
        agent.finish("a", "b")
        assert await ends(ticket.handle, behind) == [COMPLETED, COMPLETED]
    assert agent.started == ["a", "b"]


@pytest.mark.contract("D3", "D4")
async def test_a_ticket_that_is_closed_gives_its_place_back_once() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        ticket, behind = scheduler.accept("chat", "a"), scheduler.submit("chat", "b")
        agent.finish("b")
        assert ticket.close()
        assert not ticket.close()
        assert not ticket.ready()
        assert await ends(ticket.handle, behind) == [WITHDRAWN, COMPLETED]
    assert agent.started == ["b"]


@pytest.mark.contract("D3")
async def test_a_ticket_whose_block_ends_before_it_is_ready_is_given_back() -> None:
    async with Scheduler(Agent()) as scheduler:
        with scheduler.accept("chat", "a") as ticket:
            pass
        assert await ends(ticket.handle) == [WITHDRAWN]


@pytest.mark.contract("D3")
@pytest.mark.parametrize(
    ("error", "end"),
    [
        (ValueError("no such file"), UNPREPARED),
        (asyncio.CancelledError(), WITHDRAWN),
        (KeyboardInterrupt(), WITHDRAWN),
    ],
    ids=repr,
)
async def test_an_error_in_its_block_is_why_it_failed_but_giving_up_is_no_failure(
    error: BaseException, end: tuple[str, str]
) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(type(error)), scheduler.accept("chat", "a") as ticket:
            raise error
        outcome = await ticket.handle.outcome()
        assert (outcome.status, outcome.cause) == end
        assert outcome.error is (error if end == UNPREPARED else None)


@pytest.mark.contract("D3")
async def test_an_error_after_it_is_ready_does_not_touch_it() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        ticket = scheduler.accept("chat", "a")
        ticket.ready()
        with pytest.raises(ValueError, match="later"), ticket:
            raise ValueError("later")
        agent.finish("a")
        assert await ticket.handle == "a done"


@pytest.mark.contract("X1")
async def test_a_ticket_that_was_canceled_has_nothing_to_give_back() -> None:
    async with Scheduler(Agent()) as scheduler:
        with scheduler.accept("chat", "a") as ticket:
            scheduler.cancel("chat")
            assert not ticket.ready()
        assert not ticket.close(ValueError("too late"))
        outcome = await ticket.handle.outcome()
        assert (outcome.status, outcome.cause) == INTERRUPTED
        assert outcome.error is None


@pytest.mark.contract("A5")
async def test_who_accepts_the_same_run_again_is_not_its_owner() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        owner = scheduler.accept("chat", "a", run_id="mine")
        with scheduler.accept("chat", "a", run_id="mine") as other:
            assert other.run is owner.run
            assert other.handle == owner.handle
            assert not other.close()
            assert not other.close(ValueError("not yours"))
        del other  # and that is no loss
        assert owner.run.state is RunState.ACCEPTED
        assert owner.ready()
        agent.finish("a")
        assert await owner.handle == "a done"
        assert scheduler.accept("chat", "a", run_id="mine").run is owner.run, "ended lately"


@pytest.mark.contract("A5")
async def test_a_turn_is_not_taken_again_under_the_same_id() -> None:
    async with Scheduler(Agent()) as scheduler:
        async with scheduler.turn("chat", "me", run_id="mine") as run:
            pass
        with pytest.raises(DuplicateRun, match="a turn can't be taken twice") as refused:
            await scheduler.turn("chat", "me", run_id="mine").__aenter__()
        assert (refused.value.session_id, refused.value.run_id) == ("chat", "mine")
        known: object = scheduler.find("mine")
        assert known is run


async def test_what_kept_a_ticket_from_becoming_ready_is_an_exception() -> None:
    async with Scheduler(Agent()) as scheduler:
        with scheduler.accept("chat", "a") as ticket:
            with pytest.raises(InvalidOption, match="not 'no disk'"):
                ticket.close("no disk")  # type: ignore[arg-type]
            assert ticket.handle.state is RunState.ACCEPTED
            assert ticket.close(OSError("no disk"))
        assert await ends(ticket.handle) == [UNPREPARED]
