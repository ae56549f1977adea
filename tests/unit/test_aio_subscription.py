"""Subscriptions: what a reader sees, and that nobody else notices the reader (T1 to T6)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from agents import Agent, quiet, watching
from driving import elsewhere, overtake

from sessionsched import (
    InvalidOption,
    InvalidSession,
    Run,
    RunEnded,
    RunEvent,
    Scheduler,
    SchedulerClosed,
    Subscription,
    WhenBusy,
    WrongLoop,
)
from sessionsched.hub import Mailbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from sessionsched import Gap

Seen: TypeAlias = "RunEvent[str] | Gap"


async def read_now(events: Subscription[str]) -> list[Seen]:
    """What a reader can read now. Then it loses patience, in the midst of waiting for more."""
    seen: list[Seen] = []

    async def read() -> None:
        async for event in events:
            seen.append(event)  # noqa: PERF401 - what was read before the cancel counts

    reader = asyncio.create_task(read())
    await quiet(5)
    reader.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reader
    return seen


def lines(seen: list[Seen], run_id: str | None = None) -> list[str]:
    return [f"{type(it).__name__} {it.run_id}" for it in seen if run_id in (None, it.run_id)]


def kinds(seen: list[Seen], run_id: str) -> list[str]:
    return [type(it).__name__ for it in seen if it.run_id == run_id]


def numbers(seen: list[Seen]) -> list[int]:
    return [it.number for it in seen]


class Scene:
    """A scheduler whose run "me" is brought into each state that a run can be in."""

    def __init__(self) -> None:
        self.agent = Agent()
        self.recorded = asyncio.Event()
        self.scheduler: Scheduler[str, str] = Scheduler(self.agent, on_dropped=self.record)

    async def record(self, _run: Run[str]) -> None:
        await self.recorded.wait()

    async def accepted(self) -> object:
        return self.scheduler.accept("chat", "me", run_id="me")

    async def queued(self) -> None:
        self.scheduler.submit("chat", "a")
        self.scheduler.submit("chat", "me", run_id="me")

    async def active(self) -> None:
        self.scheduler.submit("chat", "me", run_id="me")
        await quiet()

    async def covered(self) -> None:
        await self.active()
        self.scheduler.cancel("chat")

    async def folded(self) -> None:
        self.scheduler.submit("chat", "a")
        self.scheduler.submit("chat", "me", run_id="me", when_busy=WhenBusy.FOLD)
        await quiet()
        self.agent.runs["a"].take_follow_ups()

    async def ending(self) -> None:
        await self.queued()
        self.scheduler.cancel_run("me")

    async def ended(self) -> None:
        await self.active()
        self.agent.finish("me")
        await quiet()


STATES: list[tuple[Callable[[Scene], Awaitable[object]], list[str]]] = [
    (Scene.accepted, ["RunAccepted"]),
    (Scene.queued, ["RunQueued"]),
    (Scene.active, ["RunStarted"]),
    (Scene.covered, ["RunStarted", "RunCanceling"]),
    (Scene.folded, ["RunFolded"]),
    (Scene.ending, ["RunCanceling"]),
    (Scene.ended, ["RunEnded"]),
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"session_id": "chat"},
    {"run_id": "me"},
    {"session_id": "chat", "run_id": "me"},
]


# --- how things stand ---


@pytest.mark.contract("T6")
@pytest.mark.parametrize("wanted", FILTERS, ids=" ".join)
@pytest.mark.parametrize(("bring", "expected"), STATES)
async def test_a_subscription_begins_with_how_things_stand_and_goes_on_to_the_end(
    bring: Callable[[Scene], Awaitable[object]], expected: list[str], wanted: dict[str, Any]
) -> None:
    scene = Scene()
    async with scene.scheduler as scheduler:
        kept = await bring(scene)
        async with scheduler.subscribe(**wanted) as events:
            in_flight = "RunEnded" not in expected
            seen = await read_now(events)
            if not in_flight and "run_id" not in wanted:
                expected = []  # what has ended is remembered by its name, and by nothing else
            assert kinds(seen, "me")[: len(expected)] == expected
            assert {it.session_id for it in seen} <= {"chat"}
            scene.recorded.set()
            scheduler.cancel("chat")
            seen += await read_now(events)
        assert kinds(seen, "me").count("RunEnded") == (in_flight or "run_id" in wanted)
        assert numbers(seen) == sorted(set(numbers(seen)))
        del kept


async def test_a_run_of_another_session_is_not_what_was_asked_for() -> None:
    scene = Scene()
    async with scene.scheduler as scheduler:
        async with scheduler.subscribe("other", "me") as events:
            await scene.queued()
            async with scheduler.subscribe("other", "me") as later:
                assert await read_now(events) == await read_now(later) == []
        scene.recorded.set()


@pytest.mark.contract("T6")
async def test_who_subscribes_to_an_id_before_it_is_used_sees_everything() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler, run_id="me") as watch:
        scheduler.submit("chat", "a")
        scheduler.submit("chat", "me", run_id="me")
        agent.finish("a", "me")
        await quiet()
        assert watch.lines() == ["RunAccepted me", "RunQueued me", "RunStarted me", "RunEnded me"]


@pytest.mark.real_loop
@pytest.mark.contract("T6", "R4")
async def test_what_another_thread_does_while_one_subscribes_is_seen_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        active = scheduler.submit("chat", "a")
        ticket = scheduler.accept("chat", "me", run_id="me")
        begin_with = Mailbox.begin_with

        def interfere(box: Mailbox[str], news: Any) -> None:
            """Just before the hub takes the newcomer in: it has looked at the runs already."""
            assert elsewhere(lambda: ticket.ready() and bool(scheduler.cancel_run("me")))
            begin_with(box, news)

        monkeypatch.setattr(Mailbox, "begin_with", interfere)
        async with scheduler.subscribe(run_id="me") as events:
            seen = [type(event).__name__ async for event in events]
        life = ["RunAccepted", "RunQueued", "RunCanceling", "RunEnded"]
        assert seen == [kind for kind in life if kind in seen]
        assert seen[-1] == "RunEnded"
        active.cancel()


@pytest.mark.real_loop
@pytest.mark.contract("T6", "R4")
async def test_what_another_thread_submits_while_one_looks_is_told_once() -> None:
    async with Scheduler(Agent()) as scheduler:
        scheduler.submit("chat", "a")
        overtake(
            scheduler._driver.table._sessions["chat"],
            lambda: elsewhere(lambda: scheduler.submit("chat", "b")),
        )
        async with scheduler.subscribe("chat") as events:
            seen = lines(await read_now(events))
            assert seen == ["RunStarted run-1", "RunAccepted run-2", "RunQueued run-2"]


# --- the end of a subscription ---


@pytest.mark.parametrize("wanted", FILTERS[2:], ids=" ".join)
async def test_a_subscription_for_one_run_ends_with_it(wanted: dict[str, Any]) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, scheduler.subscribe(**wanted) as events:
        handle = scheduler.submit("chat", "me", run_id="me")
        scheduler.submit("chat", "next")
        agent.finish("me")
        seen = [event async for event in events]
        assert lines(seen) == ["RunAccepted me", "RunStarted me", "RunEnded me"]
        assert handle.state == "ended"
        assert [event async for event in events] == []


@pytest.mark.contract("S1")
@pytest.mark.parametrize("wanted", FILTERS, ids=" ".join)
async def test_subscriptions_end_when_the_scheduler_has_closed_and_all_is_read(
    wanted: dict[str, Any],
) -> None:
    scheduler = Scheduler(Agent())
    async with scheduler.subscribe(**wanted) as events, watching(scheduler, **wanted) as watch:
        scheduler.submit("chat", "me", run_id="me")
        scheduler.submit("chat", "other")
        await quiet()
        report = await scheduler.close()
        suspended = {run.run_id for run in report.suspended} & (
            {"me"} if "run_id" in wanted else {"me", "run-2"}
        )
        seen = [event async for event in events]  # all of it was unread at the close
        await quiet()
        assert lines(seen) == watch.lines()
        assert {it.run_id for it in seen if isinstance(it, RunEnded)} == suspended
        assert lines(seen)[-1].startswith("RunEnded")
        assert scheduler._driver.hub.listening is False


@pytest.mark.parametrize("wanted", FILTERS, ids=" ".join)
async def test_who_subscribes_after_the_close_reads_to_the_end_at_once(
    wanted: dict[str, Any],
) -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    handle = scheduler.submit("chat", "me", run_id="me")
    agent.finish("me")
    await handle
    await scheduler.close()
    async with scheduler.subscribe(**wanted) as events:
        expected = ["RunEnded me"] if "run_id" in wanted else []
        assert lines([event async for event in events]) == expected
    assert scheduler._driver.hub.listening is False


async def test_leaving_ends_the_reader_that_still_waits() -> None:
    async with Scheduler(Agent()) as scheduler:
        async with scheduler.subscribe() as events:

            async def read() -> list[Seen]:
                return [event async for event in events]

            reader = asyncio.create_task(read())
            scheduler.submit("chat", "a")
            await quiet()
        scheduler.submit("chat", "too late")
        assert lines(await reader) == ["RunAccepted run-1", "RunStarted run-1"]


async def test_a_reader_who_waits_is_woken_once_for_all_that_came_until_its_turn() -> None:
    async with Scheduler(Agent()) as scheduler, scheduler.subscribe() as events:
        woken: list[bool] = []
        wake = events._mailbox.wake
        events._mailbox.wake = lambda: woken.append(True) or wake()  # type: ignore[func-returns-value]
        scheduler.submit("chat", "a")
        assert woken == [], "nobody waits"
        seen = [await anext(events), await anext(events)]
        reader = asyncio.create_task(anext(events))
        await quiet()
        for prompt in "bc":
            scheduler.submit("chat", prompt)
        assert len(woken) == 1
        seen += [await reader, *await read_now(events)]
        assert numbers(seen) == [1, 2, 3, 4, 5, 6]


async def test_a_reader_may_stop_in_the_midst_of_it() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        async with scheduler.subscribe() as events:
            scheduler.submit("chat", "a")
            async for event in events:
                assert lines([event]) == ["RunAccepted run-1"]
                break
        assert scheduler._driver.hub.listening is False


# --- what is refused ---


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"session_id": ""}, InvalidSession),
        ({"session_id": " \t"}, InvalidSession),
        ({"session_id": 7}, InvalidSession),
        ({"run_id": ""}, InvalidOption),
        ({"run_id": "  "}, InvalidOption),
        ({"run_id": 7}, InvalidOption),
        ({"session_id": "chat", "run_id": ""}, InvalidOption),
        ({"buffer": 0}, InvalidOption),
        ({"buffer": -1}, InvalidOption),
        ({"buffer": 1.5}, InvalidOption),
        ({"buffer": True}, InvalidOption),
    ],
)
async def test_what_cannot_be_watched_is_refused(
    options: dict[str, Any], error: type[Exception]
) -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(error):
            scheduler.subscribe(**options)
        assert scheduler._driver.hub.listening is False


async def test_a_second_reader_is_refused_and_the_first_one_reads_on() -> None:
    async with Scheduler(Agent()) as scheduler, scheduler.subscribe() as events:
        first = asyncio.create_task(anext(events))
        await quiet()
        with pytest.raises(
            RuntimeError, match=r"^a subscription has one reader; subscribe once more for another$"
        ):
            await anext(events)
        scheduler.submit("chat", "a")
        assert lines([await first]) == ["RunAccepted run-1"]
        assert lines([await anext(events)]) == ["RunStarted run-1"]


TWICE = r"^a subscription is entered once; subscribe once more$"


async def test_nothing_can_be_read_before_a_subscription_is_entered() -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(RuntimeError, match=r"^a subscription begins with `async with`$"):
            await anext(scheduler.subscribe(buffer=1))


async def test_a_reader_is_told_why_there_is_nothing_to_read() -> None:
    async with Scheduler(Agent()) as scheduler, scheduler.subscribe() as events:
        scheduler._driver.shut = "out for lunch"
        with pytest.raises(SchedulerClosed, match=r"^out for lunch$"):
            await anext(events)
        scheduler._driver.shut = None


async def test_without_a_word_a_reader_may_be_1024_events_late() -> None:
    async with Scheduler(Agent()) as scheduler:
        assert scheduler.subscribe()._mailbox.room == 1024


async def test_a_refusal_names_the_option_and_the_session() -> None:
    async with Scheduler(Agent()) as scheduler:
        with pytest.raises(InvalidOption, match=r"^buffer must be a whole number of at least 1"):
            scheduler.subscribe(buffer=0)
        with pytest.raises(
            InvalidOption, match=r"^a run is named by a non-blank string"
        ) as refused:
            scheduler.subscribe("chat", "")
        assert refused.value.session_id == "chat"


async def test_a_subscription_is_entered_once() -> None:
    async with Scheduler(Agent()) as scheduler:
        async with scheduler.subscribe() as events:
            with pytest.raises(RuntimeError, match=TWICE):
                await events.__aenter__()
            scheduler.submit("chat", "a")
            assert lines(await read_now(events)) == ["RunAccepted run-1", "RunStarted run-1"]
        with pytest.raises(RuntimeError, match=TWICE):
            await events.__aenter__()


def test_a_scheduler_that_is_not_open_has_nothing_to_watch() -> None:
    scheduler = Scheduler(Agent())
    with pytest.raises(SchedulerClosed):
        asyncio.run(scheduler.subscribe().__aenter__())


@pytest.mark.real_loop
async def test_another_loop_can_neither_subscribe_nor_wait_for_an_event() -> None:
    async with Scheduler(Agent()) as scheduler, scheduler.subscribe() as events:

        def refused(wait: Callable[[], Coroutine[Any, Any, object]]) -> bool:
            with pytest.raises(WrongLoop):
                asyncio.run(wait())
            return True

        assert elsewhere(lambda: refused(scheduler.subscribe().__aenter__))
        assert elsewhere(lambda: refused(events.__anext__))
        scheduler.submit("chat", "a")
        assert lines([await anext(events)]) == ["RunAccepted run-1"]  # and nothing was spoilt
