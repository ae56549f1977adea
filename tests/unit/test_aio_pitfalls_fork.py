"""Where asyncio bites a scheduler, 21: a fork while locks are held.

This file is also the program that forks: the tests run it, and read what its children say.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sessionsched import Run, RunHandle, Scheduler, SchedulerClosed, Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.aio import Subscription

gate = asyncio.Event()


async def handler(run: Run[str]) -> str:
    await gate.wait()
    return f"{run.prompt} done"


async def at_once(run: Run[str]) -> str:
    return f"{run.prompt} done"


#: Made where no loop runs, as hosts do that fork and then serve.
not_open: Scheduler[str, str] = Scheduler(at_once)


# --- what a child tries ---


async def value_of(handle: RunHandle[str, str]) -> str:
    return await handle


async def use(scheduler: Scheduler[str, str]) -> str:
    """Refused at the door, or served: anything else is a trap."""
    await scheduler.__aenter__()
    try:
        answer = await scheduler.submit("chat", "b")
    except SchedulerClosed:
        return "let in, and then refused"
    await scheduler.close()
    return answer


def calls(
    it: Scheduler[str, str],
    handle: RunHandle[str, str],
    ticket: Ticket[str, str],
    events: Subscription[str],
) -> dict[str, Callable[[], object]]:
    """Everything public; what is awaited gives a coroutine."""
    return {
        "submit": lambda: it.submit("chat", "x"),
        "accept": lambda: it.accept("chat", "x"),
        "turn": it.turn("chat", "x").__aenter__,
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
        "close": it.close,
        "open again": it.__aenter__,
        "subscribe": it.subscribe().__aenter__,
        "read": events.__anext__,
        "handle.cancel": handle.cancel,
        "handle.promote": handle.promote,
        "handle.replace": lambda: handle.replace("y"),
        "handle.outcome": handle.outcome,
        "await handle": lambda: value_of(handle),
        "ticket.ready": ticket.ready,
        "ticket.close": ticket.close,
        "run.emit": lambda: handle.run.emit("x"),
        "run.take_follow_ups": handle.run.take_follow_ups,
        "leave the scheduler": lambda: it.__aexit__(None, None, None),
        "leave the subscription": lambda: events.__aexit__(None, None, None),
        "one of its own": lambda: asyncio.run(use(Scheduler(at_once))),
        "one that was not open": lambda: asyncio.run(use(not_open)),
    }


def answer_to(call: Callable[[], object]) -> str:
    try:
        answer = call()
        if inspect.iscoroutine(answer):
            answer.send(None)
            return "waits"
    except SchedulerClosed:
        return "refused"
    except StopIteration as stop:
        return str(stop.value)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the answer
        return repr(error)
    return str(answer)


def answer_of_a_child(call: Callable[[], object]) -> str:
    """Fork, call there, and give what came of it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # a child that waits for a lock is ended by this
        os.write(writer, answer_to(call).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read() or "hangs"


# --- the program ---


@contextlib.contextmanager
def held_by_another_thread(*locks: threading.Lock) -> Iterator[None]:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        for lock in locks:
            lock.acquire()
        held.set()
        done.wait()
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


async def program(where: str) -> dict[str, str]:
    async with Scheduler(handler) as scheduler, scheduler.subscribe() as events:
        handle, ticket = scheduler.submit("chat", "a"), scheduler.accept("chat", "b")
        await asyncio.sleep(0)
        tried = calls(scheduler, handle, ticket, events)
        driver = scheduler._driver
        locks = driver.table._sessions["chat"].lock, driver.hub._lock
        with held_by_another_thread(*locks), ThreadPoolExecutor(1) as pool:
            ask = answer_of_a_child
            if where == "in a thread":
                ask = lambda call: pool.submit(answer_of_a_child, call).result()  # noqa: E731
            answers = {name: ask(call) for name, call in tried.items()}
        gate.set()
        ticket.ready()
        answers["the parent"] = f"{await handle}, {await ticket.handle}"
        return answers


# --- the tests ---


@functools.cache
def answers(where: str) -> dict[str, str]:
    done = subprocess.run(  # noqa: S603 - it is this file
        [sys.executable, "-W", "ignore::DeprecationWarning", __file__, where],
        capture_output=True, check=True, text=True, timeout=600,
    )  # fmt: skip
    found: dict[str, str] = json.loads(done.stdout)
    return found


pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here"),
    pytest.mark.parametrize("where", ["on the loop", "in a thread"]),
]

#: What has no use for an error: the block is left, that is all.
LEAVING = ("leave the scheduler", "leave the subscription")
WORKING = ("one of its own", "one that was not open", "the parent")


def test_pitfall_21_every_call_is_refused_in_a_forked_child(where: str) -> None:
    said = {name: it for name, it in answers(where).items() if name not in (*LEAVING, *WORKING)}
    assert len(said) == 26
    assert {name: it for name, it in said.items() if it != "refused"} == {}


@pytest.mark.parametrize("name", LEAVING)
def test_pitfall_21_a_forked_child_can_leave_the_blocks_that_it_is_in(
    name: str, where: str
) -> None:
    assert answers(where)[name] in ("None", "refused")


def test_pitfall_21_a_forked_child_can_have_a_scheduler_of_its_own(where: str) -> None:
    assert answers(where)["one of its own"] == "b done"


def test_pitfall_21_one_that_was_not_open_is_refused_at_the_door_or_works(where: str) -> None:
    assert answers(where)["one that was not open"] in ("refused", "b done")


def test_pitfall_21_the_parent_goes_on(where: str) -> None:
    assert answers(where)["the parent"] == "a done, b done"


if __name__ == "__main__":
    print(json.dumps(asyncio.run(program(sys.argv[1]))))  # noqa: T201 - for the test to read
