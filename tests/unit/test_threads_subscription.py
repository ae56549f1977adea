"""Events, as an iterator that blocks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import PATIENCE_S, Agent, answer, come, ends, spawn

from sessionsched import (
    Gap,
    InvalidOption,
    InvalidSession,
    RunAccepted,
    RunEnded,
    RunProgress,
    RunStarted,
    ThreadScheduler,
)
from sessionsched.hub import Mailbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from sessionsched.threads import ThreadSubscription

Event = "RunEvent[str] | Gap | None"


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def scheduler(agent: Agent) -> Iterator[ThreadScheduler[str, str]]:
    with ThreadScheduler(agent) as scheduler:
        yield scheduler


def kinds(events: list[Any]) -> list[str]:
    return [type(it).__name__ for it in events]


def test_reading_blocks_until_there_is_something(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    with scheduler.subscribe() as events:
        reading = spawn(next, events)
        handle = scheduler.submit("chat", "a")
        first = reading.result(PATIENCE_S)
    assert isinstance(first, RunAccepted)
    assert first.run is handle.run


def test_everything_is_read_in_order_and_then_it_is_over(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    with scheduler.subscribe() as events:
        agent.finish("a")
        assert ends(scheduler.submit("chat", "a")) == [("completed", None)]
        scheduler.close()
        read: list[Any] = answer(list, events)
        assert kinds(read) == ["RunAccepted", "RunStarted", "RunEnded"]
        assert list(events) == []
        assert events.get(0) is None


def test_a_reader_who_waits_is_ended_by_the_close(scheduler: ThreadScheduler[str, str]) -> None:
    with scheduler.subscribe() as events:
        reading: Future[list[Any]] = spawn(list, events)
        scheduler.close()
        assert reading.result(PATIENCE_S) == []


def test_a_reader_who_waits_is_ended_when_the_block_is_left(
    scheduler: ThreadScheduler[str, str],
) -> None:
    with scheduler.subscribe() as events:
        reading: Future[list[Any]] = spawn(list, events)
    assert reading.result(PATIENCE_S) == []
    assert scheduler._driver.hub._boxes == {}


def test_a_subscription_for_one_run_is_over_with_that_run(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    handle = scheduler.submit("chat", "a")
    agent.started("a")
    with scheduler.subscribe(run_id=handle.run_id) as events:
        reading: Future[list[Any]] = spawn(list, events)
        agent.finish("a")
        assert kinds(reading.result(PATIENCE_S)) == ["RunStarted", "RunEnded"]


def test_get_gives_up_after_its_time(scheduler: ThreadScheduler[str, str]) -> None:
    with scheduler.subscribe() as events:
        for timeout in (0, 0.001):
            with pytest.raises(TimeoutError):
                events.get(timeout)
        scheduler.submit("chat", "a")
        assert isinstance(events.get(0), RunAccepted), "nothing was lost by that"


def test_get_does_not_wait_when_there_is_something(scheduler: ThreadScheduler[str, str]) -> None:
    with scheduler.subscribe() as events:
        scheduler.submit("chat", "a")
        assert isinstance(events.get(0), RunAccepted)
        assert isinstance(events.get(0), RunStarted)


def test_two_readers_share_the_events_and_both_come_to_the_end(
    agent: Agent, scheduler: ThreadScheduler[str, str]
) -> None:
    with scheduler.subscribe() as events:
        readers: list[Future[list[Any]]] = [spawn(list, events) for _ in range(2)]
        prompts = [str(number) for number in range(100)]
        agent.finish(*prompts)
        handles = [scheduler.submit("chat", prompt) for prompt in prompts]
        ends(*handles)
        scheduler.close()
        one, two = (reader.result(PATIENCE_S) for reader in readers)
    ended = [it.run_id for it in (*one, *two) if isinstance(it, RunEnded)]
    assert sorted(ended) == sorted(it.run_id for it in handles)
    assert [it.number for it in one] == sorted(it.number for it in one)


def test_one_reader_takes_at_a_time(
    monkeypatch: pytest.MonkeyPatch, scheduler: ThreadScheduler[str, str]
) -> None:
    """To see that there is something and to take it are two steps: see Mailbox."""
    take, alone = Mailbox.take, list[bool]()
    with scheduler.subscribe() as events:

        def watched(box: Mailbox[str]) -> Any:
            alone.append(events._reading.locked())
            return take(box)

        monkeypatch.setattr(Mailbox, "take", watched)
        scheduler.submit("chat", "a")
        assert isinstance(events.get(0), RunAccepted)
        assert isinstance(next(events), RunStarted)
    assert alone == [True, True]


class OfOthers(threading.Event):
    """Wakes a reader a few times, once a second, for what other readers then take."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        self.clock, self.waits = clock, list[float | None]()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.clock[0] += 1.0
        return len(self.waits) < 4


@pytest.mark.parametrize(
    ("timeout", "waits"), [(2.5, [2.5, 1.5, 0.5, 0.0]), (None, [None] * 4)], ids=["2.5 s", "any"]
)
def test_the_time_of_a_reader_goes_on_while_others_are_faster(
    monkeypatch: pytest.MonkeyPatch,
    scheduler: ThreadScheduler[str, str],
    timeout: float | None,
    waits: list[float | None],
) -> None:
    clock = [100.0]
    monkeypatch.setattr("sessionsched.threads.subscription.monotonic", lambda: clock[0])
    with scheduler.subscribe() as events:
        news = OfOthers(clock)
        monkeypatch.setattr(events, "_news", news)
        with pytest.raises(TimeoutError):
            events.get(timeout)
    assert news.waits == waits


class SlowEvent(threading.Event):
    """Lets a reader be slow between looking and waiting, once."""

    def __init__(self) -> None:
        super().__init__()
        self.looked, self.go = threading.Event(), threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        if not self.looked.is_set():
            self.looked.set()
            come(self.go)
        return super().wait(timeout)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, scheduler: ThreadScheduler[str, str]) -> Any:
    events = scheduler.subscribe()
    news = SlowEvent()
    monkeypatch.setattr(events, "_news", news)
    monkeypatch.setattr(events._mailbox, "wake", news.set)
    return events


def test_a_slow_reader_is_not_left_waiting_for_what_another_reader_left(
    slow: ThreadSubscription[str], scheduler: ThreadScheduler[str, str]
) -> None:
    news: Any = slow._news
    with slow as events:
        reading = spawn(events.get, PATIENCE_S)
        come(news.looked)
        scheduler.submit("chat", "a")  # two events
        assert isinstance(events.get(0), RunAccepted)
        news.go.set()
        assert isinstance(reading.result(PATIENCE_S * 2), RunStarted)


def test_a_slow_reader_is_not_left_waiting_when_another_reader_saw_the_end(
    slow: ThreadSubscription[str], scheduler: ThreadScheduler[str, str]
) -> None:
    news: Any = slow._news
    with slow as events:
        reading = spawn(events.get, PATIENCE_S)
        come(news.looked)
        scheduler.close()
        assert events.get(0) is None
        news.go.set()
        assert reading.result(PATIENCE_S * 2) is None


def test_a_subscription_is_entered_once(scheduler: ThreadScheduler[str, str]) -> None:
    events = scheduler.subscribe()
    with pytest.raises(RuntimeError, match="begins with"):
        events.get(0)
    with events, pytest.raises(RuntimeError, match="entered once"):
        events.__enter__()


def test_a_subscription_to_a_closed_scheduler_is_over_at_once(
    scheduler: ThreadScheduler[str, str],
) -> None:
    scheduler.close()
    with scheduler.subscribe() as events:
        assert answer(list, events) == []


@pytest.mark.contract("A4")
def test_what_can_not_be_watched_is_refused(scheduler: ThreadScheduler[str, str]) -> None:
    with pytest.raises(InvalidSession):
        scheduler.subscribe(" ")
    with pytest.raises(InvalidOption):
        scheduler.subscribe(run_id="")
    with pytest.raises(InvalidOption):
        scheduler.subscribe(buffer=0)


@pytest.mark.contract("T5")
def test_a_reader_who_never_reads_makes_nobody_wait(agent: Agent) -> None:
    with ThreadScheduler(agent) as scheduler, scheduler.subscribe(buffer=1) as events:
        prompts = [str(number) for number in range(20)]
        agent.finish(*prompts)
        ends(*(scheduler.submit("chat", prompt) for prompt in prompts))
        scheduler.close()
        seen = list(events)
        assert len([it for it in seen if isinstance(it, RunEnded)]) == 20
        missed = sum(it.missed for it in seen if isinstance(it, Gap))
        assert missed + sum(not isinstance(it, Gap) for it in seen) == 20 * 3 + 19


def test_what_handlers_emit_is_read_while_they_go_on() -> None:
    seen = threading.Event()

    def handler(run: Any) -> bool:
        run.emit("half")
        come(seen)
        return bool(run.emit("whole"))

    with ThreadScheduler(handler) as scheduler, scheduler.subscribe() as events:
        handle = scheduler.submit("chat", "a")
        items = []
        for event in events:
            if isinstance(event, RunProgress):
                items.append(event.item)
                seen.set()
            if isinstance(event, RunEnded):
                break
        assert items == ["half", "whole"]
        assert handle.result(PATIENCE_S) is True
        run: Any = handle.run
        assert run.emit("late") is False
    assert run.emit("later") is False
