"""The plain calls: cancel, look, and move the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet

from sessionsched import (
    CancelReceipt,
    Cause,
    InvalidOption,
    InvalidSession,
    RunState,
    Scheduler,
    Scope,
    SessionState,
    SessionView,
    WhenBusy,
    Why,
)

if TYPE_CHECKING:
    from collections.abc import Callable

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")


# --- cancel ---


@pytest.mark.contract("X1", "X11")
async def test_a_cancel_covers_everything_and_its_receipt_says_so() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        unready = scheduler.accept("chat", "c")
        elsewhere = scheduler.submit("another chat", "d")
        await quiet()
        receipt = scheduler.cancel("chat")
        later = scheduler.submit("chat", "e")
        assert receipt == CancelReceipt("chat", 3, active.run, dropped=(waiting.run, unready.run))
        agent.finish("d", "e")
        handles = (active, waiting, unready.handle, elsewhere, later)
        assert await ends(*handles) == [INTERRUPTED] * 3 + [COMPLETED] * 2


@pytest.mark.contract("X10", "X11")
async def test_scope_active_keeps_the_line() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        receipt = scheduler.cancel("chat", scope=Scope.ACTIVE)
        assert receipt == CancelReceipt("chat", 0, active.run, kept=(waiting.run,))
        agent.finish("b")
        assert await ends(active, waiting) == [INTERRUPTED, COMPLETED]


@pytest.mark.contract("X10", "X11")
async def test_scope_waiting_keeps_the_active_run() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        receipt = scheduler.cancel("chat", scope=Scope.WAITING)
        assert receipt == CancelReceipt("chat", 0, dropped=(waiting.run,), kept=(active.run,))
        agent.finish("a")
        assert await ends(active, waiting) == [COMPLETED, INTERRUPTED]


@pytest.mark.contract("X10", "X11")
async def test_hold_keeps_the_line_from_moving_until_it_is_resumed() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        receipt = scheduler.cancel("chat", scope=Scope.ACTIVE, hold=True)
        assert receipt.held
        later = scheduler.submit("chat", "c")
        assert await ends(active) == [INTERRUPTED]
        await quiet()
        assert scheduler.waiting("chat") == (waiting.run, later.run)
        assert scheduler.explain(waiting.run_id).why is Why.HELD
        assert agent.started == ["a"]
        agent.finish("b", "c")
        assert scheduler.resume("chat")
        assert await ends(waiting, later) == [COMPLETED, COMPLETED]


@pytest.mark.contract("X5")
async def test_a_cancel_with_a_fence_keeps_what_is_above_it() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        receipt = scheduler.cancel("chat", up_to=first.seq, cause=Cause.SUPERSEDED)
        assert receipt == CancelReceipt("chat", 1, first.run, kept=(second.run,))
        agent.finish("b")
        assert await ends(first, second) == [("canceled", "superseded"), COMPLETED]


@pytest.mark.contract("A4")
@pytest.mark.parametrize("wrong", ["", " \t", "\u2003", None, 7, ["chat"], b"chat"])
async def test_nobody_is_canceled_in_a_session_without_a_name(wrong: Any) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(InvalidSession):
            scheduler.cancel(wrong)


@pytest.mark.contract("A4")
@pytest.mark.parametrize("wrong", [{"scope": "most"}, {"cause": "whim"}, {"up_to": -1}])
async def test_an_unknown_option_is_refused_though_the_session_is_idle(
    wrong: dict[str, Any],
) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(InvalidOption):
            scheduler.cancel("chat", **wrong)


@pytest.mark.contract("X3")
@pytest.mark.parametrize("options", [{"scope": Scope.ACTIVE}, {"up_to": 7}, {"hold": True}])
async def test_a_cancel_on_an_idle_session_covers_nothing_whatever_it_is_told(
    options: dict[str, Any],
) -> None:
    class Name(str):
        """A name of the host's own."""

        __slots__ = ()

    async with Scheduler(Agent()) as scheduler:
        assert scheduler.cancel("chat", **options) == CancelReceipt("chat")
        assert scheduler.cancel(Name("chat"), **options) == CancelReceipt("chat")


@pytest.mark.contract("X3", "R1")
async def test_a_cancel_on_an_idle_session_is_false_and_leaves_nothing_behind() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        assert scheduler.cancel("chat") == CancelReceipt("chat")
        assert not scheduler.cancel("chat")
        assert scheduler.cancel_all() == ()
        assert scheduler.snapshot().sessions == ()
        agent.finish("a")
        assert await ends(scheduler.submit("chat", "a")) == [COMPLETED]


@pytest.mark.contract("X9")
async def test_one_run_can_be_canceled_by_its_id() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat", "a", run_id="one")
        second = scheduler.submit("chat", "b", run_id="two")
        await quiet()
        receipt = scheduler.cancel_run("two")
        assert receipt == CancelReceipt("chat", dropped=(second.run,))
        assert not scheduler.cancel_run("two"), "it has ended"
        assert scheduler.cancel_run("three") == CancelReceipt("")
        agent.finish("a")
        assert await ends(first, second) == [COMPLETED, INTERRUPTED]


async def test_every_session_can_be_canceled_at_once() -> None:
    async with Scheduler(Agent()) as scheduler:
        handles = [scheduler.submit(f"chat-{number}", "x") for number in range(3)]
        await quiet()
        handles[1].cancel()
        receipts = scheduler.cancel_all()
        assert [receipt.session_id for receipt in receipts] == ["chat-0", "chat-2"]
        assert [receipt.active for receipt in receipts] == [handles[0].run, handles[2].run]
        assert await ends(*handles) == [INTERRUPTED] * 3


# --- the line ---


async def test_a_paused_line_stands_still_while_the_active_run_goes_on() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        assert not scheduler.pause("chat"), "there is no line to hold"
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        assert scheduler.pause("chat")
        assert not scheduler.pause("chat")
        agent.finish("a", "b")
        assert await active == "a done"
        await quiet()
        assert scheduler.session("chat") == SessionView(
            "chat", SessionState.ACCEPTED, 0, None, (waiting.run,), held=True
        )
        assert scheduler.resume("chat")
        assert not scheduler.resume("chat")
        assert await waiting == "b done"
        assert not scheduler.resume("chat"), "there is no line any longer"


# --- look ---


async def test_how_things_stand_can_be_looked_at() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        assert scheduler.session("chat") == SessionView("chat")
        assert scheduler.waiting("chat") == ()
        active, waiting = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        view = SessionView("chat", SessionState.QUEUED, 0, active.run, (waiting.run,))
        assert scheduler.session("chat") == view
        assert scheduler.snapshot().sessions == (view,)
        assert not scheduler.snapshot().closed
        assert scheduler.waiting("chat") == (waiting.run,)
        explanation = scheduler.explain(waiting.run_id)
        assert (explanation.why, explanation.behind) == (Why.TURN, (active.run_id,))
        assert scheduler.explain("nobody").why is Why.UNKNOWN


# --- refusals ---


CALLS: dict[str, Callable[[Scheduler[str, str], Any], object]] = {
    "cancel": lambda it, value: it.cancel(value),
    "pause": lambda it, value: it.pause(value),
    "resume": lambda it, value: it.resume(value),
    "waiting": lambda it, value: it.waiting(value),
    "session": lambda it, value: it.session(value),
}


@pytest.mark.contract("A4")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", ["", "  ", None, 7, ["chat"]])
async def test_what_names_no_session_is_refused_everywhere(call: str, value: object) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(InvalidSession):
            CALLS[call](scheduler, value)


@pytest.mark.parametrize(
    "options",
    [{"scope": "half"}, {"up_to": -1}, {"up_to": 1.5}, {"cause": "boredom"}, {"cause": "shutdown"}],
    ids=str,
)
async def test_a_cancel_with_an_option_that_it_can_not_have_covers_nothing(
    options: dict[str, Any],
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        with pytest.raises(InvalidOption):
            scheduler.cancel("chat", **options)
        assert handle.state is RunState.ACTIVE
        assert not handle.run.canceled
        agent.finish("a")
        assert await ends(handle) == [COMPLETED]


@pytest.mark.contract("A4", "F1")
@pytest.mark.parametrize(
    ("when_busy", "says"),
    [(WhenBusy.FOLD, "it can't be folded"), ("fold", "it can't be folded"), ("soon", "is one of")],
)
async def test_a_turn_that_another_run_could_take_is_refused(when_busy: Any, says: str) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(InvalidOption, match=says) as refused:
            scheduler.turn("chat", "me", when_busy=when_busy)
        assert refused.value.option == "when_busy"
