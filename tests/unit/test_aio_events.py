"""What subscribers see of a scheduler at work, and what it costs the others (T1 to T6)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet, watching
from driving import elsewhere

from sessionsched import (
    Cause,
    Gap,
    Limits,
    Run,
    RunCanceling,
    RunEnded,
    RunEvent,
    RunFolded,
    RunProgress,
    RunStarted,
    RunStuck,
    Scheduler,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agents import Watch

    from sessionsched import RunHandle


async def hard_to_stop(_run: Run[str]) -> None:
    """Work for long, and don't care for the first cancel."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(1000)
    await asyncio.sleep(1000)


async def everything(scheduler: Scheduler[str, None]) -> None:
    """Let all happen that is an event, in one second of grace."""
    a = scheduler.submit("chat", "a", run_id="a")
    b = scheduler.submit("chat", "b", run_id="b", when_busy=WhenBusy.FOLD)
    c = scheduler.submit("chat", "c", run_id="c")
    await quiet()
    a.run.take_follow_ups()
    a.run.emit("news")
    scheduler.cancel("chat")
    d = scheduler.submit("chat", "d", run_id="d")
    await ends(a, b, c)
    scheduler.cancel("chat")
    await ends(d)


# --- T1, T2, T6: what is seen ---


@pytest.mark.contract("T1", "T2", "T6", "X8", "F3")
async def test_the_lives_of_four_runs_are_seen_as_they_happened() -> None:
    async with Scheduler(hard_to_stop, grace=1) as scheduler, watching(scheduler) as watch:
        await everything(scheduler)
        await quiet()
        assert watch.lines() == [
            "RunAccepted a",
            "RunStarted a",
            "RunAccepted b",
            "RunQueued b",
            "RunAccepted c",
            "RunQueued c",
            "RunFolded b",
            "RunProgress a",
            "RunCanceling a",
            "RunCanceling c",
            "RunEnded c",
            "RunAccepted d",
            "RunQueued d",
            "RunStuck a",
            "RunEnded a",
            "RunEnded b",
            "RunStarted d",
            "RunCanceling d",
            "RunEnded d",
        ]
        assert [it.number for it in watch.events] == list(range(1, 20))
        assert [it.at for it in watch.events] == sorted(it.at for it in watch.events)
        assert [it.at for it in watch.of(RunStarted)] == [0.0, 1.0]
        assert [it.at for it in watch.of(RunEnded)] == [
            it.outcome.ended_at for it in watch.of(RunEnded)
        ]
        assert [it.into for it in watch.of(RunFolded)] == ["a"]
        assert [it.item for it in watch.of(RunProgress)] == ["news"]
        assert {it.cause for it in watch.of(RunCanceling)} == {Cause.INTERRUPT}
        assert [it.told for it in watch.of(RunStuck)] == [1]


@pytest.mark.contract("T1")
async def test_what_was_announced_before_is_told_to_who_comes_later() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, scheduler.subscribe():
        scheduler.submit("chat", "a")
        scheduler.submit("chat", "b")
        async with scheduler.subscribe() as later:
            seen = [await anext(later), await anext(later)]
        assert [type(event).__name__ for event in seen] == ["RunStarted", "RunQueued"]


async def test_the_outcome_in_the_event_is_the_outcome_of_the_handle() -> None:
    agent = Agent()
    scheduler = Scheduler(agent)
    async with watching(scheduler) as watch:
        handles = [scheduler.submit(name, name) for name in ("done", "fails", "stops", "waits")]
        handles += [
            scheduler.submit("done", "drop"),
            scheduler.submit("done", "fold", when_busy=WhenBusy.FOLD),
        ]
        await quiet()
        agent.runs["done"].take_follow_ups()
        handles[4].cancel()
        scheduler.cancel("stops")
        agent.finish("done")
        agent.fail("fails", ValueError("no"))
        await quiet()
        await scheduler.close()
        outcomes = {handle.run_id: await handle.outcome() for handle in handles}
        seen = {it.run_id: it.outcome for it in watch.of(RunEnded)}
        assert len(watch.of(RunEnded)) == len(handles)
        assert all(seen[name] == outcome for name, outcome in outcomes.items())
        assert sorted(it.status.value for it in seen.values()) == [
            "canceled", "canceled", "completed", "completed", "failed", "suspended",
        ]  # fmt: skip


@pytest.mark.contract("T1")
async def test_the_handle_has_its_outcome_when_the_event_is_read() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, scheduler.subscribe(run_id="me") as events:
        handle = scheduler.submit("chat", "me", run_id="me")
        agent.finish("me")
        async for event in events:
            assert isinstance(event, RunEnded) == (handle.run.ended is not None)


@pytest.mark.real_loop
@pytest.mark.contract("T6", "R4")
async def test_progress_is_seen_after_what_another_thread_has_decided_before_it() -> None:
    async def handler(run: Run[str]) -> None:
        if run.prompt == "a":
            elsewhere(lambda: scheduler.submit("chat", "b"))
            run.emit("later")

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        await scheduler.submit("chat", "a")
        await quiet()
        news = watch.lines()
        assert news.index("RunQueued run-2") < news.index("RunProgress run-1")


async def test_nothing_can_be_shown_of_a_run_that_has_ended() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        assert handle.run.emit("while it waits, or runs") is True
        scheduler.cancel("chat")
        assert handle.run.emit("while it stops") is True
        await ends(handle)
        assert handle.run.emit("too late") is False
        await quiet()
        assert len(watch.of(RunProgress)) == 2


# --- T3: too slow ---


@pytest.mark.contract("T3")
async def test_race_31_a_reader_who_is_too_slow_misses_events_but_no_end() -> None:
    async def handler(run: Run[str]) -> None:
        for item in range(10):
            run.emit(item)

    scheduler = Scheduler(handler)
    async with scheduler.subscribe(buffer=5) as late, watching(scheduler) as watch:
        await ends(*[scheduler.submit("chat", f"{number}") for number in range(20)])
        await scheduler.close()
        await quiet()
        seen = [event async for event in late]
    everything = [it.number for it in watch.events]
    assert len(everything) == 20 * 13 + 19  # all but the first were queued
    assert [it for it in seen if isinstance(it, RunEnded)] == watch.of(RunEnded)
    assert sum(not isinstance(it, RunEnded | Gap) for it in seen) == 5
    read = [it.number for it in seen if not isinstance(it, Gap)]
    assert sum(it.missed for it in seen if isinstance(it, Gap)) == len(everything) - len(read)
    for before, gap in itertools.pairwise(seen):
        if isinstance(gap, Gap):
            missing = range(before.number + 1, gap.number + 1)
            assert gap.missed == len(missing)
            assert not set(missing) & set(read)


@pytest.mark.contract("T3")
@pytest.mark.parametrize("readers", [1, 2])
async def test_what_all_readers_are_too_slow_for_is_counted_to_the_last_one(readers: int) -> None:
    async def handler(run: Run[str]) -> None:
        run.emit("begun")

    async with contextlib.AsyncExitStack() as stack:
        scheduler = await stack.enter_async_context(Scheduler(handler))
        late = [scheduler.subscribe(buffer=1) for _ in range(readers)]
        for events in late:
            await stack.enter_async_context(events)
        handles = [scheduler.submit("chat", f"{number}") for number in range(20)]
        await ends(*handles)
        await scheduler.close()
        for events in late:
            seen = [event async for event in events]
            assert [it.run for it in seen if isinstance(it, RunEnded)] == [it.run for it in handles]
            missed = sum(it.missed for it in seen if isinstance(it, Gap))
            read = [it.number for it in seen if not isinstance(it, Gap)]
            assert missed + len(read) == read[-1] == 20 * 4 + 19  # all but the first were queued


@pytest.mark.contract("T3")
async def test_who_catches_up_misses_nothing_more() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, scheduler.subscribe(buffer=2) as events:
        run = scheduler.submit("chat", "a").run
        for item in range(3):
            run.emit(item)  # RunAccepted and RunStarted fill the buffer
        kinds = [type(await anext(events)).__name__ for _ in range(3)]
        assert kinds == ["RunAccepted", "RunStarted", "Gap"]
        for item in range(10):
            run.emit(item)
            event = await anext(events)
            assert isinstance(event, RunProgress)
            assert event.item == item


# --- T5: one reader's trouble is nobody else's ---


async def raises(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.subscribe() as events:
        async for _ in events:
            raise ValueError("a reader's own error")


async def is_slow(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.subscribe(buffer=1) as events:
        async for _ in events:
            await asyncio.sleep(1000)


async def never_reads(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.subscribe(buffer=1):
        await asyncio.sleep(1000)


async def waits_for_another_session(scheduler: Scheduler[str, str]) -> None:
    async with scheduler.subscribe("other") as events:
        async for _ in events:
            raise AssertionError("there is none")


@pytest.mark.contract("T5")
@pytest.mark.parametrize("trouble", [raises, is_slow, never_reads, waits_for_another_session])
async def test_nobody_notices_a_bad_reader(
    trouble: Callable[[Scheduler[str, str]], Coroutine[Any, Any, None]],
) -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        readers = [asyncio.create_task(trouble(scheduler)) for _ in range(2)]
        await quiet()
        handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
        await quiet()
        readers[0].cancel()  # it reads just now, or does what it does instead
        agent.finish("a", "b")
        assert await ends(*handles) == [("completed", None)] * 2
        await quiet()
        assert watch.lines() == [
            "RunAccepted run-1",
            "RunStarted run-1",
            "RunAccepted run-2",
            "RunQueued run-2",
            "RunEnded run-1",
            "RunStarted run-2",
            "RunEnded run-2",
        ]
        readers[1].cancel()
        await asyncio.gather(*readers, return_exceptions=True)


@pytest.mark.contract("T5")
@pytest.mark.parametrize("in_the_same_tick", [True, False])
async def test_a_reader_who_was_canceled_while_it_read_may_read_on(
    *, in_the_same_tick: bool
) -> None:
    async with Scheduler(Agent()) as scheduler, scheduler.subscribe() as events:
        reader = asyncio.create_task(anext(events))
        await quiet()
        if in_the_same_tick:
            scheduler.submit("chat", "a")
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        if not in_the_same_tick:
            scheduler.submit("chat", "a")
        seen = [type(await anext(events)).__name__ for _ in range(2)]
        assert seen == ["RunAccepted", "RunStarted"]


# --- no event is made that nobody reads ---


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of all events that are made, as they are made."""
    kinds: list[str] = []
    for kind in RunEvent.__subclasses__():
        monkeypatch.setattr(kind, "__init__", counted(kind, kinds))
    return kinds


def counted(kind: type[RunEvent[Any]], kinds: list[str]) -> Callable[..., None]:
    make: Callable[..., None] = kind.__init__

    def count(*args: object) -> None:
        kinds.append(kind.__name__)
        make(*args)

    return count


async def test_no_event_is_made_while_nobody_listens(made: list[str]) -> None:
    async with Scheduler(hard_to_stop, grace=1) as scheduler:
        await everything(scheduler)
    async with (
        Scheduler(hard_to_stop, grace=1) as scheduler,
        scheduler.subscribe("other"),
        scheduler.subscribe(run_id="other"),
    ):
        await everything(scheduler)
    assert made == []
    async with Scheduler(hard_to_stop, grace=1) as scheduler, watching(scheduler):
        await everything(scheduler)
    assert set(made) == {kind.__name__ for kind in RunEvent.__subclasses__()}


# --- threads ---


@pytest.mark.real_loop
@pytest.mark.contract("R4")
async def test_progress_may_come_from_any_thread_and_is_seen_in_its_order() -> None:
    async def handler(run: Run[str]) -> list[bool]:
        return await asyncio.to_thread(lambda: [run.emit(item) for item in range(100)])

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        assert await handle == [True] * 100
        assert elsewhere(lambda: handle.run.emit("too late")) is False
        await quiet()
        assert [it.item for it in watch.of(RunProgress)] == list(range(100))
        assert watch.lines()[-1] == "RunEnded run-1"


@pytest.mark.real_loop
@pytest.mark.contract("T6")
async def test_progress_that_comes_too_late_from_a_thread_is_not_seen_after_the_end() -> None:
    async def handler(run: Run[str]) -> bool:
        return elsewhere(lambda: run.emit("the loop learns of it when the run has ended"))

    async with Scheduler(handler) as scheduler, watching(scheduler) as watch:
        assert await scheduler.submit("chat", "a") is True
        await quiet()
        assert watch.lines()[-1] == "RunEnded run-1"


#: The order in which a run's events may come.
LIFE = ["RunAccepted", "RunQueued", "RunStarted", "RunProgress", "RunCanceling", "RunEnded"]


@pytest.mark.real_loop
@pytest.mark.contract("T1", "T2", "T6", "R4")
async def test_order_and_numbers_hold_while_threads_submit_cancel_and_emit() -> None:
    async def handler(run: Run[str]) -> None:
        run.emit("begun")
        await asyncio.sleep(0)

    def hammer(name: str) -> list[RunHandle[str, None]]:
        handles = []
        for number in range(60):
            handles.append(scheduler.submit(f"chat-{number % 2}", name))
            handles[-1].run.emit("from outside")
            if number % 5 == 0:
                scheduler.cancel("chat-0")
        return handles

    scheduler = Scheduler(handler, limits=Limits(max_waiting=1000))
    async with (
        watching(scheduler, buffer=9999) as watch,
        watching(scheduler, session_id="chat-0", buffer=9999) as session,
    ):
        lists = await asyncio.gather(*[asyncio.to_thread(hammer, name) for name in "abcd"])
        handles = list(itertools.chain(*lists))
        await ends(*handles)
        await scheduler.close()
    assert_in_order(watch)
    assert_in_order(session)
    assert len(watch.of(RunEnded)) == len(handles) == 240
    assert {it.run_id: it.outcome for it in watch.of(RunEnded)} == {
        handle.run_id: handle.run.ended for handle in handles
    }


def assert_in_order(watch: Watch) -> None:
    numbers = [it.number for it in watch.events]
    assert numbers == sorted(set(numbers))
    active: dict[str, str] = {}
    runs: dict[str, list[str]] = {}
    for event in watch.events:
        kind = type(event).__name__
        runs.setdefault(event.run_id, []).append(kind)
        if kind == "RunStarted":  # T2: whatever ran before it in its session has ended
            before = active.get(event.session_id)
            assert before is None or runs[before][-1] == "RunEnded"
            active[event.session_id] = event.run_id
    for kinds in runs.values():
        once = [kind for kind in kinds if kind != "RunProgress"]
        assert once == [kind for kind in LIFE if kind in once]  # in order, and none twice
        assert (kinds[0], kinds[-1]) == ("RunAccepted", "RunEnded")
