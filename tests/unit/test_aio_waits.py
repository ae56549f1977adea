"""Nobody waits for itself: such a wait is refused at once, and no other is."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet

from sessionsched import Limits, RunCanceled, Scheduler, WhenBusy, WouldDeadlock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched import Run, RunHandle

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")


class Crowd:
    """Handlers that wait for other runs: each does what its prompt names."""

    def __init__(self, limits: Limits | None = None, **does: Any) -> None:
        self.does: dict[str, Callable[[Run[str]], Awaitable[object]]] = does
        #: Runs by prompt, for handlers to wait for.
        self.handles: dict[str, RunHandle[str, object]] = {}
        #: Prompts whose wait was refused, with the error.
        self.refused: dict[str, WouldDeadlock] = {}
        self.scheduler: Scheduler[str, object] = Scheduler(self.handle, limits=limits)

    async def handle(self, run: Run[str]) -> object:
        if run.prompt not in self.does:
            return f"{run.prompt} done"
        try:
            return await self.does[run.prompt](run)
        except WouldDeadlock as error:
            self.refused[run.prompt] = error
            return "refused"

    def submit(
        self, session_id: str, prompt: str, when_busy: WhenBusy = WhenBusy.QUEUE
    ) -> RunHandle[str, object]:
        handle = self.scheduler.submit(session_id, prompt, when_busy=when_busy)
        self.handles[prompt] = handle
        return handle

    async def waits_for(self, prompt: str) -> object:
        return await self.handles[prompt]


def waits_for(prompt: str) -> Callable[[Run[str]], Awaitable[object]]:
    """A handler that waits for the run with this prompt."""

    async def wait(run: Run[str]) -> object:
        crowd: Crowd = run.driver.options.handler.__self__  # type: ignore[attr-defined]
        return await crowd.waits_for(prompt)

    return wait


async def test_a_run_that_waits_for_itself_is_told() -> None:
    crowd = Crowd(a=waits_for("a"))
    async with crowd.scheduler:
        handle = crowd.submit("chat", "a")
        assert await handle == "refused"
    error = crowd.refused["a"]
    assert (error.session_id, error.run_id) == ("chat", handle.run_id)


async def test_a_run_that_waits_for_the_next_one_of_its_session_is_told() -> None:
    crowd = Crowd(a=waits_for("b"))
    async with crowd.scheduler:
        first, second = crowd.submit("chat", "a"), crowd.submit("chat", "b")
        assert await first == "refused"
        assert await second == "b done", "it is as it was"


async def test_a_run_that_waits_for_a_follow_up_that_it_took_is_told() -> None:
    async def takes(run: Run[str]) -> object:
        [taken] = run.take_follow_ups()
        assert taken is crowd.handles["b"].run
        return await crowd.waits_for("b")

    crowd = Crowd(a=takes)
    async with crowd.scheduler:
        first = crowd.submit("chat", "a")
        second = crowd.submit("chat", "b", when_busy=WhenBusy.FOLD)
        assert await first == await second == "refused"


@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("behind", [False, True], ids=["the active run", "the one behind it"])
async def test_of_runs_that_wait_for_each_other_in_a_ring_exactly_one_is_told(
    length: int, *, behind: bool
) -> None:
    names = "abcd"[:length]
    ring: dict[str, Any] = {
        name: waits_for(after.upper() if behind else after)
        for name, after in zip(names, names[1:] + names[0], strict=True)
    }
    crowd = Crowd(**ring)
    async with crowd.scheduler:
        active = [crowd.submit(f"chat-{name}", name) for name in names]
        waiting = [crowd.submit(f"chat-{name}", name.upper()) for name in names]
        assert await ends(*active, *waiting) == [COMPLETED] * (2 * length)
    # Who waits for an active run lets it have its first step first, and so begins to wait later.
    closes = names[-1] if behind else names[-2]
    assert list(crowd.refused) == [closes], "the one that would close the ring, and no other"


async def test_a_turn_in_a_ring_is_told_too() -> None:
    crowd = Crowd(a=waits_for("b"))
    async with crowd.scheduler:
        async with crowd.scheduler.turn("chat-b", "me"):
            crowd.submit("chat-b", "b")
            active = crowd.submit("chat-a", "a")
            await quiet()
            with pytest.raises(WouldDeadlock):
                await active
            with pytest.raises(WouldDeadlock):
                await crowd.scheduler.turn("chat-a", "never").__aenter__()
            assert len(crowd.scheduler.session("chat-a").in_flight) == 1, "nothing was taken in"
        assert await active == "b done"


# --- slots ---


async def test_a_run_that_holds_the_only_slot_can_not_wait_for_another_session() -> None:
    crowd = Crowd(Limits(max_active=1), a=waits_for("b"))
    async with crowd.scheduler:
        first, second = crowd.submit("chat-a", "a"), crowd.submit("chat-b", "b")
        assert await first == "refused"
        assert await second == "b done", "now there is a slot"
    error = crowd.refused["a"]
    assert "all 1 slots are held by runs that wait" in str(error)
    assert (error.session_id, error.run_id) == ("chat-b", second.run_id)
    waits = crowd.scheduler._driver.waits
    assert waits._carriers == waits._runs == {}, "who was refused does not wait"


async def test_a_turn_that_holds_the_only_slot_can_not_wait_for_another_session() -> None:
    crowd = Crowd(Limits(max_active=1))
    async with crowd.scheduler:
        async with crowd.scheduler.turn("chat-a", "a"):
            other = crowd.submit("chat-b", "b")
            with pytest.raises(WouldDeadlock, match="all 1 slots"):
                await other
        assert await other == "b done", "now there is a slot"


async def test_a_host_that_gave_up_may_wait_for_the_slot_that_its_turn_will_give_back() -> None:
    async def handler(run: Run[str]) -> str:
        return f"{run.prompt} done"

    async def record(run: Run[str]) -> None:
        await asyncio.sleep(1)

    async def host() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await scheduler.turn("chat", "b").__aenter__()
        return await scheduler.submit("other", "c")

    limits = Limits(max_active=1)
    async with Scheduler(handler, on_dropped=record, limits=limits) as scheduler:
        async with scheduler.turn("chat", "a"):
            task = asyncio.create_task(host())
            await quiet()
            scheduler._driver.table.hold("chat")
        scheduler.resume("chat")  # its turn has come,
        task.cancel()  # and it does not want it any longer
        assert await task == "c done"


async def test_of_runs_that_hold_all_slots_and_wait_for_one_the_last_is_told() -> None:
    crowd = Crowd(Limits(max_active=2), a=waits_for("c"), b=waits_for("c"))
    async with crowd.scheduler:
        handles = [crowd.submit(f"chat-{name}", name) for name in "abc"]
        assert [await it for it in handles] == ["c done", "refused", "c done"]


async def test_while_a_slot_is_held_by_a_run_that_does_not_wait_the_others_may() -> None:
    async def works(run: Run[str]) -> object:
        await asyncio.sleep(5)
        return "b done"

    crowd = Crowd(Limits(max_active=2), a=waits_for("c"), b=works)
    async with crowd.scheduler:
        handles = [crowd.submit(f"chat-{name}", name) for name in "abc"]
        assert [await it for it in handles] == ["c done", "b done", "c done"]
    assert crowd.refused == {}


async def test_while_a_slot_is_free_a_run_may_wait_for_one_that_is_not_ready() -> None:
    crowd = Crowd(Limits(max_active=2), a=waits_for("b"))
    async with crowd.scheduler:
        with crowd.scheduler.accept("chat-b", "b") as ticket:
            crowd.handles["b"] = ticket.handle
            first = crowd.submit("chat-a", "a")
            await quiet()
            ticket.ready()
        assert await first == "b done"
    assert crowd.refused == {}


async def test_a_slot_that_a_canceled_run_will_give_back_is_worth_waiting_for() -> None:
    async def waits_then_unwinds(run: Run[str]) -> object:
        try:
            return await crowd.waits_for("c")
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            raise

    async def cancels(run: Run[str]) -> object:
        crowd.handles["a"].cancel()
        return await crowd.waits_for("c")

    crowd = Crowd(Limits(max_active=2), a=waits_then_unwinds, b=cancels)
    async with crowd.scheduler:
        handles = [crowd.submit(f"chat-{name}", name) for name in "abc"]
        assert await ends(*handles) == [INTERRUPTED, COMPLETED, COMPLETED]
    assert crowd.refused == {}


# --- not raised ---


async def test_waiting_for_another_session_is_no_deadlock() -> None:
    crowd = Crowd(a=waits_for("b"))
    async with crowd.scheduler:
        crowd.submit("chat-b", "before")
        crowd.submit("chat-b", "b")
        assert await crowd.submit("chat-a", "a") == "b done"
    assert crowd.refused == {}


async def test_waiting_for_one_that_waits_for_a_third_is_no_deadlock() -> None:
    crowd = Crowd(a=waits_for("b"), b=waits_for("c"), d=waits_for("b"))
    async with crowd.scheduler:
        handles = [crowd.submit(f"chat-{name}", name) for name in "abcd"]
        assert [await it for it in handles] == ["c done"] * 4
    assert crowd.refused == {}


async def test_a_run_may_wait_for_one_of_its_session_that_is_being_dropped() -> None:
    async def cancels(run: Run[str]) -> object:
        crowd.handles["b"].cancel()
        with pytest.raises(RunCanceled):
            await crowd.waits_for("b")
        return "a done"

    async def on_dropped(_run: Run[str]) -> None:
        await asyncio.sleep(3)

    crowd = Crowd(a=cancels)
    crowd.scheduler = Scheduler(crowd.handle, on_dropped=on_dropped)
    async with crowd.scheduler:
        first, second = crowd.submit("chat", "a"), crowd.submit("chat", "b")
        assert await first == "a done"
        assert await ends(second) == [INTERRUPTED]


async def test_a_run_may_wait_for_one_of_its_session_that_has_ended() -> None:
    crowd = Crowd(a=waits_for("before"))
    async with crowd.scheduler:
        crowd.submit("chat", "before")
        assert await crowd.submit("chat", "a") == "before done"


async def test_a_wait_that_was_given_up_is_no_part_of_a_ring() -> None:
    async def tries(run: Run[str]) -> object:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await crowd.waits_for("b")
        await asyncio.sleep(3)
        return "a done"

    async def waits_later(run: Run[str]) -> object:
        await asyncio.sleep(4)
        return await crowd.waits_for("a")

    crowd = Crowd(a=tries, b=waits_later)
    async with crowd.scheduler:
        crowd.submit("chat-a", "a")
        assert await crowd.submit("chat-b", "b") == "a done"
    assert crowd.refused == {}


async def test_who_is_not_a_run_may_wait_for_anything() -> None:
    agent = Agent()
    async with Scheduler(agent, limits=Limits(max_active=1)) as scheduler:
        handles = [scheduler.submit(name, name) for name in "abc"]
        waiters = [asyncio.ensure_future(handle) for handle in handles for _ in range(2)]
        await quiet()
        agent.finish(*"abc")
        assert await asyncio.gather(*waiters) == [f"{name} done" for name in "aabbcc"]
        assert scheduler._driver.waits._runs == {}
