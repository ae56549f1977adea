"""`prepare` and `on_dropped` on threads: bounded in time, called exactly once."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import NEVER_S, PATIENCE_S, Agent, answer, come, ends, until

from sessionsched import RunCanceled, Status, ThreadScheduler

if TYPE_CHECKING:
    from sessionsched import ThreadRun

CANCELED = ("canceled", "interrupt")
COMPLETED = ("completed", None)

who = contextvars.ContextVar("who", default="nobody")


@pytest.mark.contract("A7")
@pytest.mark.parametrize("what", ["handler", "on_dropped", "prepare", "on_cancel", "turn"])
def test_everything_sees_the_context_of_its_own_submitter(what: str) -> None:  # noqa: C901
    seen: dict[str, str] = {}
    done = threading.Event()

    def look(run: ThreadRun[str]) -> None:
        seen[run.prompt] = who.get()
        who.set("somebody else")
        if len(seen) == 3:
            done.set()

    def handler(run: ThreadRun[str]) -> None:
        if what == "handler":
            look(run)
        elif what == "on_cancel":
            run.on_cancel(lambda: look(run))
            run.wait_canceled(PATIENCE_S)

    scheduler = ThreadScheduler(
        handler, threads=1,
        on_dropped=look if what in ("on_dropped", "turn") else None,
        prepare=look if what == "prepare" else None,
    )  # fmt: skip

    def submit(name: str) -> None:
        who.set(name)
        if what == "on_dropped":
            scheduler.accept(name, name).close()
        elif what == "turn":
            ticket = scheduler.accept(name, "first")
            with contextlib.suppress(RunCanceled), scheduler.turn(name, name, wait_at_most=0):
                pass
            ticket.ready()
        else:
            handle = scheduler.submit(name, name)
            if what == "on_cancel":
                until(lambda: handle.run.state == "active")
                until(lambda: handle.run._callbacks)  # type: ignore[attr-defined]
                handle.cancel()

    with scheduler:
        for name in ("ann", "bob", "cem"):
            answer(contextvars.Context().run, submit, name)
        come(done)
    seen.pop("first", None)  # those before the turns may be dropped by the close
    assert seen == {"ann": "ann", "bob": "bob", "cem": "cem"}


@pytest.mark.contract("A7")
def test_a_hook_may_go_on_while_another_one_is_called_in_the_same_context() -> None:
    inside, go, recorded = (threading.Event() for _ in range(3))
    seen: list[str] = []

    def prepare(run: ThreadRun[str]) -> None:
        inside.set()
        come(go)

    def on_dropped(run: ThreadRun[str]) -> None:
        seen.append(who.get())
        recorded.set()

    with ThreadScheduler(
        Agent(), prepare=prepare, on_dropped=on_dropped, settle_timeout=0.01
    ) as scheduler:
        token = who.set("ann")
        handle = scheduler.submit("chat", "a")
        who.reset(token)
        come(inside)
        handle.cancel()
        assert ends(handle) == [CANCELED]
        come(recorded)
        assert seen == ["ann"]
        go.set()


# --- on_dropped ---


@pytest.mark.contract("P1")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("prepare", [True, False])
def test_a_hundred_drops_at_once_are_each_recorded_once(
    threads: int,
    prepare: bool,  # noqa: FBT001
) -> None:
    recorded: Counter[str] = Counter()
    handled: list[str] = []
    lock = threading.Lock()
    go = threading.Event()

    def on_dropped(run: ThreadRun[str]) -> None:
        with lock:
            recorded[run.prompt] += 1

    def handler(run: ThreadRun[str]) -> None:
        handled.append(run.prompt)
        come(go)

    with ThreadScheduler(
        handler, threads=threads, on_dropped=on_dropped,
        prepare=(lambda _: None) if prepare else None,
    ) as scheduler:  # fmt: skip
        prompts = [str(number) for number in range(100)]
        handles = [scheduler.submit(f"chat {int(it) % 10}", it) for it in prompts]
        scheduler.cancel_all()
        go.set()
        assert ends(*handles) == [CANCELED] * 100
    assert recorded + Counter(handled) == Counter(prompts), "never both, never neither"


@pytest.mark.contract("P2")
def test_a_record_that_hangs_is_given_up_and_the_line_moves() -> None:
    hang = threading.Event()
    agent = Agent()
    agent.finish("b")
    with ThreadScheduler(
        agent, on_dropped=lambda _: come(hang), settle_timeout=0.01, grace=0.01, threads=1
    ) as scheduler:
        tickets = [scheduler.accept("chat", str(number)) for number in range(5)]
        last = scheduler.submit("chat", "b")
        for ticket in tickets:
            ticket.handle.cancel()
        outcomes = [ticket.handle.outcome(PATIENCE_S) for ticket in tickets]
        assert {type(it.error) for it in outcomes} == {TimeoutError}
        assert ends(last) == [COMPLETED]
        assert answer(scheduler.close).still_going == ()
        hang.set()


@pytest.mark.contract("P2")
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_a_record_that_fails_is_in_the_outcome(error: BaseException) -> None:
    def on_dropped(run: ThreadRun[str]) -> None:
        raise error

    with ThreadScheduler(Agent(), on_dropped=on_dropped, threads=1) as scheduler:
        tickets = [scheduler.accept("chat", str(number)) for number in range(3)]
        scheduler.cancel("chat")
        assert [it.handle.outcome(PATIENCE_S).error for it in tickets] == [error] * 3


@pytest.mark.contract("P1")
def test_a_record_whose_time_is_over_before_it_begins_is_made_all_the_same() -> None:
    """Too late for the outcome, but never by neither: the handler will not see the prompt."""
    recorded = threading.Event()

    class Slow(threading.Condition):
        """Holds up the thread of the hook when it has set its timer, as a busy machine can."""

        def __exit__(self, *how: object) -> None:
            super().__exit__(*how)  # type: ignore[arg-type]
            if threading.current_thread().name == "sessionsched-aside":
                until(lambda: run.announced)

    with ThreadScheduler(
        Agent(), on_dropped=lambda _: recorded.set(), settle_timeout=0
    ) as scheduler:
        ticket = scheduler.accept("chat", "a")
        run: Any = ticket.run
        scheduler._driver._timers_thread._changed = Slow()
        ticket.close()
        assert isinstance(ticket.handle.outcome(PATIENCE_S).error, TimeoutError)
        come(recorded)


@pytest.mark.contract("D5")
def test_records_go_on_when_every_handler_is_stuck() -> None:
    agent = Agent(stubborn=True)
    recorded: list[str] = []
    with ThreadScheduler(
        agent, threads=1, on_dropped=lambda run: recorded.append(run.prompt)
    ) as scheduler:
        scheduler.submit("chat", "a")
        agent.started("a")
        other = scheduler.submit("other", "b")
        scheduler.cancel_all()
        assert ends(other) == [CANCELED]
        assert recorded == ["b"]
        agent.finish("a")


# --- prepare ---


@pytest.mark.contract("D2", "D3")
def test_preparations_are_concurrent_and_runs_start_in_order() -> None:
    barrier = threading.Barrier(3)
    agent = Agent()
    agent.finish(*"abc")
    with ThreadScheduler(agent, threads=3, prepare=lambda _: barrier.wait(PATIENCE_S)) as scheduler:
        handles = [scheduler.submit("chat", prompt) for prompt in "abc"]
        assert ends(*handles) == [COMPLETED] * 3
    assert [it for it in agent.log if it.startswith("start")] == ["start a", "start b", "start c"]


@pytest.mark.contract("D3")
def test_a_preparation_that_takes_too_long_fails_the_run_and_the_line_moves() -> None:
    hang = threading.Event()
    agent = Agent()
    agent.finish("b")

    def prepare(run: ThreadRun[str]) -> None:
        if run.prompt == "a":
            come(hang)

    with ThreadScheduler(
        agent, prepare=prepare, prepare_timeout=0.01, threads=1, grace=0.01
    ) as scheduler:
        first = scheduler.submit("chat", "a")
        outcome = first.outcome(PATIENCE_S)
        assert (outcome.status, type(outcome.error)) == (Status.FAILED, TimeoutError)
        assert scheduler.submit("chat", "b").outcome(PATIENCE_S).status is Status.COMPLETED
        hang.set()


@pytest.mark.contract("D3")
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_preparation_that_fails_fails_the_run(error: BaseException) -> None:
    def prepare(run: ThreadRun[str]) -> None:
        raise error

    with ThreadScheduler(Agent(), prepare=prepare) as scheduler:
        outcome = scheduler.submit("chat", "a").outcome(PATIENCE_S)
    assert (outcome.status, outcome.error) == (Status.FAILED, error)


def test_a_thread_prepares_one_run_after_the_other() -> None:
    threads: list[threading.Thread] = []
    agent = Agent()
    with ThreadScheduler(
        agent, threads=1, prepare=lambda _: threads.append(threading.current_thread())
    ) as scheduler:
        for number in range(10):
            agent.finish(str(number))
            ends(scheduler.submit("chat", str(number)))
    assert len(set(threads)) == 1


@pytest.mark.contract("P1")
def test_a_drop_waits_for_its_preparation_to_stop_but_not_for_one_that_will_not_be_called() -> None:
    hang, inside = threading.Event(), threading.Event()
    prepared: list[str] = []
    recorded = [threading.Event() for _ in range(3)]

    def prepare(run: ThreadRun[str]) -> None:
        prepared.append(run.prompt)
        inside.set()
        come(hang)

    with ThreadScheduler(
        Agent(), threads=1, prepare=prepare, settle_timeout=NEVER_S, grace=0.01,
        on_dropped=lambda run: recorded[int(run.prompt)].set(),
    ) as scheduler:  # fmt: skip
        handles = [scheduler.submit(str(number), str(number)) for number in range(3)]
        come(inside)
        for handle in handles[1:]:
            handle.cancel()
        assert ends(*handles[1:]) == [CANCELED] * 2
        assert prepared == ["0"]
        handles[0].cancel()
        hang.set()
        assert ends(handles[0]) == [CANCELED]
    assert all(it.is_set() for it in recorded)


def test_a_preparation_that_is_no_longer_wanted_has_no_timer() -> None:
    hang, inside = threading.Event(), threading.Event()

    def prepare(run: ThreadRun[str]) -> None:
        inside.set()
        come(hang)

    with ThreadScheduler(
        Agent(), threads=1, prepare=prepare, prepare_timeout=NEVER_S
    ) as scheduler:  # fmt: skip
        handles = [scheduler.submit(name, name) for name in "ab"]
        come(inside)
        handles[1].cancel()  # no thread has begun with it
        assert ends(handles[1]) == [CANCELED]
        hang.set()
        until(lambda: handles[0].run.state == "active")
        handles[0].cancel()
        assert ends(handles[0]) == [CANCELED]
        driver = scheduler._driver
        for pool in (driver._prepares, driver._callbacks):  # the agent has one for its cancel
            until(lambda pool=pool: pool.pending == 0)  # type: ignore[misc]
        assert driver._timers_thread._live == 0


@pytest.mark.parametrize("limit", [None, NEVER_S])
def test_a_preparation_that_hangs_does_not_keep_a_close_from_its_end(limit: float | None) -> None:
    hang, inside = threading.Event(), threading.Event()

    def prepare(run: ThreadRun[str]) -> None:
        inside.set()
        come(hang)

    scheduler = ThreadScheduler(Agent(), prepare=prepare, prepare_timeout=limit, grace=0.01)
    handle = scheduler.submit("chat", "a")
    come(inside)
    answer(scheduler.close)
    assert ends(handle) == [("suspended", "shutdown")]
    hang.set()
