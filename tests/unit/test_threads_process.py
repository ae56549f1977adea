"""Threads and the process they live in: forks, the end of the program, Ctrl-C.

This file is also the programs that do so: the tests run it, and read what they say.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from thread_tools import NEVER_S, PATIENCE_S, Agent, come, interrupted_when, ours, spawn

from sessionsched import SchedulerClosed, ThreadScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")

#: Made before any use, as hosts do that fork and then serve.
unused: ThreadScheduler[str, str] = ThreadScheduler(lambda run: f"{run.prompt} done")


# --- what a child tries ---


def use(scheduler: ThreadScheduler[str, str]) -> str:
    with scheduler:
        return scheduler.submit("chat", "b").result(PATIENCE_S)


def calls(
    it: ThreadScheduler[str, str], handle: Any, ticket: Any, events: Any
) -> dict[str, Callable[[], object]]:
    """Everything public."""
    run = handle.run
    return {
        "submit": lambda: it.submit("chat", "x"),
        "accept": lambda: it.accept("chat", "x"),
        "turn": it.turn("chat", "x").__enter__,
        "cancel": lambda: it.cancel("chat"),
        "cancel an idle one": lambda: it.cancel("idle"),
        "cancel_run": lambda: it.cancel_run(handle.run_id),
        "cancel_all": it.cancel_all,
        "pause": lambda: it.pause("chat"),
        "resume": lambda: it.resume("chat"),
        "waiting": lambda: it.waiting("chat"),
        "session": lambda: it.session("chat"),
        "snapshot": it.snapshot,
        "explain": lambda: it.explain(handle.run_id),
        "find": lambda: it.find(handle.run_id),
        "close": it.close,
        "subscribe": it.subscribe().__enter__,
        "read": lambda: next(events),
        "get": events.get,
        "handle.cancel": handle.cancel,
        "handle.promote": handle.promote,
        "handle.replace": lambda: handle.replace("y"),
        "handle.outcome": handle.outcome,
        "handle.result": handle.result,
        "ticket.ready": ticket.ready,
        "ticket.close": ticket.close,
        "run.emit": lambda: run.emit("x"),
        "run.take_follow_ups": run.take_follow_ups,
        "run.wait_canceled": run.wait_canceled,
        "run.on_cancel": lambda: run.on_cancel(print),
        "leave the scheduler": lambda: it.__exit__(None, None, None),
        "leave the subscription": lambda: events.__exit__(None, None, None),
        "one of its own": lambda: use(ThreadScheduler(lambda run: f"{run.prompt} done")),
        "one that was not used": lambda: use(unused),
    }


def answer_to(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except SchedulerClosed:
        return "refused"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        return repr(error)


def answer_of_a_child(call: Callable[[], object]) -> str:
    """Fork, call there, and give what came of it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # a child that waits for a lock, or for ever, is ended by this
        os.write(writer, answer_to(call).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said or "hangs"


def forks() -> dict[str, str]:
    """Fork in the middle of use, once for every call, while other threads hold all locks."""
    agent = Agent(stubborn=True)
    with ThreadScheduler(agent, threads=2) as scheduler, scheduler.subscribe() as events:
        handle, ticket = scheduler.submit("chat", "a"), scheduler.accept("chat", "b")
        agent.started("a")
        with contextlib.suppress(TimeoutError):
            while events.get(0):  # what there is; a child would wait for more
                pass
        tried = calls(scheduler, handle, ticket, events)
        driver = scheduler._driver
        locks = (
            driver.table._sessions["chat"].lock, driver.hub._lock, driver.guard,
            driver.waits._lock, driver.handlers._lock, driver._timers_thread._changed,
        )  # fmt: skip
        held, go = threading.Event(), threading.Event()

        def hold() -> None:
            for lock in locks:
                lock.acquire()
            held.set()
            come(go)
            for lock in locks:
                lock.release()

        holding = spawn(hold)
        come(held)
        answers = {name: answer_of_a_child(call) for name, call in tried.items()}
        go.set()
        holding.result(PATIENCE_S)
        agent.finish("a", "b")
        ticket.ready()
        answers["the parent"] = ", ".join(it.result(PATIENCE_S) for it in (handle, ticket.handle))
    return answers


# --- programs that end ---


def say(word: str) -> None:
    print(word, flush=True)  # noqa: T201 - for the test to read


def ends_with_an_active_handler() -> None:
    inside = threading.Event()

    def handler(run: Any) -> None:
        inside.set()
        threading.Event().wait()

    ThreadScheduler(handler).submit("chat", "a")
    come(inside)


def ends_with_timers_pending() -> None:
    agent = Agent()
    agent.finish("a")
    scheduler = ThreadScheduler(agent)
    ticket = scheduler.accept("chat", "b", wait_at_most=NEVER_S)
    scheduler.submit("other", "a", deadline=NEVER_S).outcome(PATIENCE_S)
    ticket.ready()
    agent.started("b")


def ends_with_hooks_under_way() -> None:
    inside = threading.Event()

    def hang(run: Any) -> None:
        inside.set()
        threading.Event().wait()

    ThreadScheduler(Agent(), prepare=hang).submit("chat", "a")
    come(inside)


def ends_by_an_error() -> None:
    ends_with_an_active_handler()
    sys.exit(7)


def closes_at_its_exit(drain: float = 0.0) -> None:
    """No thread can be started at that time, from Python 3.12 on."""
    agent, dropped = Agent(), []
    scheduler = ThreadScheduler(agent, on_dropped=lambda run: dropped.append(run.prompt))
    for prompt in "ab":
        scheduler.submit("chat", prompt)
    agent.started("a")

    def close() -> None:
        report = scheduler.close(drain)
        say(f"suspended {[run.prompt for run in report.suspended]}, dropped {dropped}")

    atexit.register(close)


def drains_at_its_exit() -> None:
    closes_at_its_exit(0.01)


# --- programs that are interrupted ---


def interrupted_in_outcome() -> None:
    agent = Agent()
    try:
        with ThreadScheduler(agent) as scheduler:
            handle = scheduler.submit("chat", "a")
            agent.started("a")
            with interrupted_when(lambda: agent.runs["a"].waiters):
                handle.outcome()
    except KeyboardInterrupt:
        say(f"interrupted, {handle.outcome(0).status}, {ours()}")


def interrupted_in_a_waiting_turn() -> None:
    agent = Agent()
    try:
        with ThreadScheduler(agent) as scheduler:
            scheduler.submit("chat", "a")
            agent.started("a")
            turn = scheduler.turn("chat", "b", run_id="mine")
            with interrupted_when(lambda: turn._run.moment), turn:
                say("never")
    except KeyboardInterrupt:
        outcome = turn._run.ended
        say(f"interrupted, {outcome and outcome.cause}")


def interrupted_inside_a_turn() -> None:
    inside = threading.Event()
    try:
        with (
            ThreadScheduler(Agent()) as scheduler,
            interrupted_when(inside.is_set),
            scheduler.turn("chat", "b") as run,
        ):
            inside.set()
            run.wait_canceled()
    except KeyboardInterrupt:
        say(f"interrupted, {run.ended and run.ended.status}")


def interrupted_in_a_subscription() -> None:
    try:
        with ThreadScheduler(Agent()) as scheduler, scheduler.subscribe() as events:
            news: Any = events._news
            with interrupted_when(lambda: news._cond._waiters):
                events.get()
    except KeyboardInterrupt:
        say("interrupted")


def interrupted_in_close() -> None:
    agent = Agent(stubborn=True)
    scheduler = ThreadScheduler(agent)
    closed: Any = scheduler._driver._closed
    try:
        with interrupted_when(lambda: closed._cond._waiters), scheduler:
            handle = scheduler.submit("chat", "a")
            agent.started("a")
    except KeyboardInterrupt:
        say("interrupted")
        agent.finish("a")
        say(str(handle.outcome(PATIENCE_S).status))
        scheduler.close()
        say(str(ours()))


def interrupted_by_its_handler() -> None:
    """A handler that raises it is no Ctrl-C: the program goes on."""

    def handler(run: Any) -> None:
        raise KeyboardInterrupt

    with ThreadScheduler(handler) as scheduler:
        say(str(scheduler.submit("chat", "a").outcome(PATIENCE_S).status))


# --- the tests ---


def run(program: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - it is this file
        [sys.executable, "-W", "ignore::DeprecationWarning", __file__, program.__name__],
        capture_output=True, check=False, text=True, timeout=600,
    )  # fmt: skip


@functools.cache
def answers() -> dict[str, str]:
    done = run(forks)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


#: What has no use for an error: the block is left, that is all.
LEAVING = ("leave the scheduler", "leave the subscription")
WORKING = {
    "one of its own": "b done",
    "one that was not used": "b done",
    "the parent": "a done, b done",
}


def test_pitfall_21_every_call_is_refused_in_a_forked_child() -> None:
    said = {name: it for name, it in answers().items() if name not in (*LEAVING, *WORKING)}
    assert len(said) == 29
    assert {name: it for name, it in said.items() if it != "refused"} == {}


@pytest.mark.parametrize("name", LEAVING)
def test_pitfall_21_a_forked_child_can_leave_the_blocks_that_it_is_in(name: str) -> None:
    assert answers()[name] in ("None", "refused")


@pytest.mark.parametrize("name", WORKING)
def test_pitfall_21_what_was_not_used_before_the_fork_works(name: str) -> None:
    assert answers()[name] == WORKING[name]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (ends_with_an_active_handler, 0), (ends_with_timers_pending, 0),
        (ends_with_hooks_under_way, 0), (ends_by_an_error, 7),
    ],
)  # fmt: skip
def test_a_program_that_ends_without_a_close_does_not_hang(
    program: Callable[[], object], code: int
) -> None:
    done = run(program)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.contract("S1", "P1")
@pytest.mark.parametrize("program", [closes_at_its_exit, drains_at_its_exit])
def test_a_program_may_close_when_it_ends(program: Callable[[], object]) -> None:
    done = run(program)
    assert (done.stdout, done.stderr) == ("suspended ['a', 'b'], dropped ['b']\n", "")


@pytest.mark.contract("S8")
@pytest.mark.parametrize(
    ("program", "said"),
    [
        (interrupted_in_outcome, ["interrupted, suspended, []"]),
        (interrupted_in_a_waiting_turn, ["interrupted, withdrawn"]),
        (interrupted_inside_a_turn, ["interrupted, failed"]),
        (interrupted_in_a_subscription, ["interrupted"]),
        (interrupted_in_close, ["interrupted", "completed", "[]"]),
        (interrupted_by_its_handler, ["failed"]),
    ],
)
def test_ctrl_c_is_delivered_at_once_and_the_block_closes(
    program: Callable[[], object], said: list[str]
) -> None:
    done = run(program)
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (said, "", 0)


if __name__ == "__main__":
    told = globals()[sys.argv[1]]()
    if told is not None:
        say(json.dumps(told))
