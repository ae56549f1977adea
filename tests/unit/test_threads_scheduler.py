"""Sessions on a few threads: they don't hold them, and there are never more."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import NEVER_S, PATIENCE_S, Agent, come, ends, ours, spawn, until

from sessionsched import InvalidOption, Limits, ThreadScheduler, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import ThreadRun

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)


class Busy:
    """A handler that counts how many of it there are at once."""

    def __init__(self) -> None:
        self.most = 0
        self.threads: set[threading.Thread] = set()
        self._now = 0
        self._lock = threading.Lock()

    def __call__(self, run: ThreadRun[int]) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.threads.add(threading.current_thread())
        with self._lock:
            self._now -= 1
        return run.prompt


def test_ten_thousand_sessions_on_eight_threads_are_ordinary() -> None:
    handler = Busy()
    with ThreadScheduler(handler, threads=8) as scheduler:
        handles = [scheduler.submit(f"session {number}", number) for number in range(10_000)]
        assert [handle.result(PATIENCE_S * 4) for handle in handles] == list(range(10_000))
        names = Counter(thread.name for thread in ours())
    assert 1 <= names.pop("sessionsched-handler") <= 8
    # A caller who would perform for all the others without an end is relieved by one more thread.
    assert names.keys() <= {"sessionsched-relief"}
    assert 1 <= handler.most <= 8
    assert len(handler.threads) <= 8


def test_a_session_with_nothing_to_do_holds_no_thread() -> None:
    agent = Agent()
    with ThreadScheduler(agent, threads=2) as scheduler:
        tickets = [scheduler.accept(f"session {number}", "held") for number in range(1000)]
        assert ours() == [], "what is not ready needs none"
        agent.finish("b")
        assert ends(scheduler.submit("another", "b")) == [COMPLETED]
        assert len(ours()) == 1
        for ticket in tickets:
            ticket.close()


@pytest.mark.contract("D6")
def test_threads_go_to_sessions_in_the_order_in_which_they_became_startable() -> None:
    agent = Agent()
    with ThreadScheduler(agent, threads=1) as scheduler:
        scheduler.submit("first", "first")
        agent.started("first")
        names = [str(number) for number in range(50)]
        late = scheduler.accept("late", "late")
        handles = [scheduler.submit(name, name) for name in names]
        late.ready()
        agent.finish("first", "late", *names)
        ends(*handles, late.handle)
    started = [it.split()[1] for it in agent.log if it.startswith("start")]
    assert started == ["first", *names, "late"]


@pytest.mark.contract("X7")
def test_what_waits_for_a_thread_can_be_canceled() -> None:
    agent = Agent()
    with ThreadScheduler(agent, threads=1) as scheduler:
        scheduler.submit("chat", "a")
        agent.started("a")
        other = scheduler.submit("other", "b")
        assert other.cancel()
        assert ends(other) == [CANCELED]
        agent.finish("a")
    assert "start b" not in agent.log


@pytest.mark.parametrize(
    ("threads", "limits", "most"),
    [
        (3, None, 3),
        (3, Limits(max_active=2), 2),
        (2, Limits(max_active=5), 2),
        (1, Limits(max_waiting=9), 1),
    ],
)
def test_as_many_runs_are_active_as_threads_and_limits_allow(
    threads: int, limits: Limits | None, most: int
) -> None:
    agent = Agent()
    with ThreadScheduler(agent, threads=threads, limits=limits) as scheduler:
        prompts = "abcdef"
        handles = [scheduler.submit(prompt, prompt) for prompt in prompts]
        agent.started(*prompts[:most])
        assert scheduler.snapshot().active == most
        agent.finish(*prompts)
        ends(*handles)
        driver = scheduler._driver
        assert driver.table.limits.max_waiting == (limits or Limits()).max_waiting


def test_a_turn_counts_like_a_handler() -> None:
    agent = Agent()
    agent.finish("b")
    with ThreadScheduler(agent, threads=1) as scheduler:
        with scheduler.turn("chat", "a"):
            other = scheduler.submit("other", "b")
            assert scheduler.snapshot().active == 1
        assert ends(other) == [COMPLETED]


def plain(_: Any) -> None:
    """Do nothing."""


async def coroutine(_: Any) -> None:
    """Do nothing, once it is awaited."""


class Async:
    """Called, it gives a coroutine."""

    async def __call__(self, _: Any) -> None:
        """Do nothing, once it is awaited."""


@pytest.mark.contract("A4")
@pytest.mark.parametrize("name", ["handler", "on_dropped", "prepare"])
@pytest.mark.parametrize("bad", [coroutine, Async(), partial(coroutine), "handler", 3])
def test_what_is_no_plain_function_is_refused(name: str, bad: Any) -> None:
    options: dict[str, Any] = {"handler": plain, name: bad}
    with pytest.raises(InvalidOption) as caught:
        ThreadScheduler(**options)
    assert (caught.value.option, caught.value.value) == (name, bad)


@pytest.mark.parametrize("good", [plain, partial(plain), Busy(), lambda _: None, print, list])
def test_whatever_can_be_called_is_a_handler(good: Callable[[Any], Any]) -> None:
    ThreadScheduler(good, on_dropped=good, prepare=good)


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    "option",
    [
        {"threads": 0}, {"threads": True}, {"threads": 1.5}, {"threads": "8"}, {"threads": None},
        {"grace": 0}, {"grace": "x"}, {"abandon_after": -1}, {"settle_timeout": -1},
        {"prepare_timeout": float("nan")},
    ],
)  # fmt: skip
def test_a_number_that_is_out_of_range_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as caught:
        ThreadScheduler(plain, **option)
    assert caught.value.option in option


@pytest.mark.contract("R4")
def test_everything_may_be_called_from_any_thread() -> None:
    agent = Agent()
    with ThreadScheduler(agent) as scheduler:
        handle = spawn(scheduler.submit, "chat", "a").result(PATIENCE_S)
        agent.started("a")
        other = spawn(scheduler.submit, "chat", "b").result(PATIENCE_S)
        agent.finish("b")
        calls: list[Callable[[], object]] = [
            partial(scheduler.pause, "chat"), partial(scheduler.resume, "chat"), scheduler.snapshot,
            partial(scheduler.session, "chat"), partial(scheduler.waiting, "chat"),
            partial(scheduler.explain, handle.run_id), partial(scheduler.find, handle.run_id),
            other.promote, partial(other.replace, "b"), handle.cancel,
            partial(scheduler.cancel_run, handle.run_id),
        ]  # fmt: skip
        answers = [spawn(call).result(PATIENCE_S) for call in calls]
        assert all(answers[:-1]), "each of them had something to say"
        assert ends(handle, other) == [CANCELED, COMPLETED]


def test_a_handler_may_submit_and_cancel_and_wait_for_other_sessions() -> None:
    def handler(run: ThreadRun[str]) -> str:
        if run.prompt != "a":
            return f"{run.prompt} done"
        scheduler.submit("chat", "next")
        return scheduler.submit("other", "b", when_busy=WhenBusy.INTERRUPT).result(PATIENCE_S)

    with ThreadScheduler(handler, threads=2) as scheduler:
        assert scheduler.submit("chat", "a").result(PATIENCE_S) == "b done"


@pytest.mark.contract("R3")
def test_a_long_line_is_no_deep_recursion() -> None:
    order: list[int] = []
    go = threading.Event()

    def handler(run: ThreadRun[int]) -> None:
        come(go)
        order.append(run.prompt)

    with ThreadScheduler(handler, threads=1, limits=Limits(max_waiting=5000)) as scheduler:
        handles = [scheduler.submit("chat", number) for number in range(5000)]
        go.set()
        handles[-1].outcome(PATIENCE_S * 4)
    assert order == list(range(5000))


@pytest.mark.contract("X12")
def test_times_are_kept_by_the_timer_thread() -> None:
    agent = Agent()
    with ThreadScheduler(agent, threads=1) as scheduler:
        slow = scheduler.submit("chat", "a", deadline=NEVER_S)
        agent.started("a")
        expired = scheduler.submit("chat", "b", wait_at_most=0.01)
        assert ends(expired) == [("canceled", "expired")]
        agent.finish("a")
        assert ends(slow) == [COMPLETED]
        assert ends(scheduler.submit("chat", "c", deadline=0.01)) == [("canceled", "deadline")]
        until(lambda: "sessionsched-timer" not in {it.name for it in ours()})
