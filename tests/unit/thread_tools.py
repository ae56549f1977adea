"""What tests of the thread scheduler need: a handler in their hands, and waits that have an end."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from sessionsched.hub import Hub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import ThreadRun, ThreadScheduler
    from sessionsched.threads import ThreadHandle

AnswerT = TypeVar("AnswerT")

#: What was to come and did not would hang the tests; this ends them with an error.
PATIENCE_S = 60.0
#: A time that never comes.
NEVER_S = 1e6


def come(event: threading.Event) -> None:
    """Wait for something that must come."""
    assert event.wait(PATIENCE_S), "it did not come"


def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody tells."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up_at, "it did not come"
        threading.Event().wait(0.001)


@contextlib.contextmanager
def nothing_is_told() -> Iterator[None]:
    """Hold up whoever tells observers of something, until the block is left."""
    right, go_on = Hub.publish, threading.Event()

    def publish(*event: Any) -> None:
        come(go_on)
        right(*event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hub, "publish", publish)
        try:
            yield
        finally:
            go_on.set()


def spawn(call: Callable[..., AnswerT], *args: Any) -> Future[AnswerT]:
    """Call something in a thread of its own."""
    future: Future[AnswerT] = Future()

    def work() -> None:
        try:
            future.set_result(call(*args))
        except BaseException as error:  # noqa: BLE001 - it is the answer
            future.set_exception(error)

    threading.Thread(target=work, name="test", daemon=True).start()
    return future


def answer(call: Callable[..., AnswerT], *args: Any) -> AnswerT:
    """Give what a call comes to that could wait for ever."""
    return spawn(call, *args).result(PATIENCE_S)


def ends(*handles: ThreadHandle[Any, Any]) -> list[tuple[str, str | None]]:
    """How these runs end: status and cause of each, spelt."""
    outcomes = [handle.outcome(PATIENCE_S) for handle in handles]
    return [(it.status.value, None if it.cause is None else it.cause.value) for it in outcomes]


def ours() -> list[threading.Thread]:
    """The threads of all schedulers."""
    return [it for it in threading.enumerate() if it.name.startswith("sessionsched")]


def none_left() -> None:
    """See that no scheduler has a thread, not even one that is on its way out (S7)."""
    assert ours() == []


def all_gone() -> None:
    """Wait until no scheduler has a thread: those that were given up on go when they are over."""
    until(lambda: not ours())


class Clock:
    """The time of thread schedulers: it stands still until it is moved, however slow we are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        for module in ("driver", "timers"):
            monkeypatch.setattr(f"sessionsched.threads.{module}.time", self)

    def monotonic(self) -> float:
        return self._now

    def move(self, scheduler: ThreadScheduler[Any, Any], seconds: float) -> None:
        """Let so much time pass; whatever is due by then has been called."""
        self._now += seconds
        timers, all_called = scheduler._driver._timers_thread, threading.Event()
        timers.call_at(self._now, all_called.set)
        with timers._changed:
            timers._changed.notify()
        come(all_called)


@contextlib.contextmanager
def interrupted_when(condition: Callable[[], object]) -> Iterator[None]:
    """Press Ctrl-C when it is so: the main thread waits for a lock inside of the block by then.

    A signal that comes just before that is seen by Python when the lock is free: not our doing. So
    it is pressed again and again until it is seen, and counts once.
    """
    seen, left = threading.Event(), threading.Event()
    main = threading.main_thread().ident

    def interrupt(*_: object) -> None:
        if not seen.is_set():
            seen.set()
            raise KeyboardInterrupt

    def press() -> None:
        until(condition)
        while not (seen.wait(0.1) or left.is_set()):
            signal.pthread_kill(main or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    pressing = spawn(press)
    try:
        yield
    finally:
        left.set()
        pressing.result(PATIENCE_S)
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def slow_to_begin(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[threading.Event]:
    """Let new threads of this name be as slow as a busy machine can make them: until the event."""
    go = threading.Event()
    run = threading.Thread.run

    def slow(thread: threading.Thread) -> None:
        if thread.name == name:
            go.wait(PATIENCE_S)
        run(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "run", slow)
        try:
            yield go
        finally:
            go.set()


@contextlib.contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch, name: str = "sessionsched") -> Iterator[None]:
    """Let no thread with such a name start, as when there are too many, or at interpreter exit."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


class Overtaken:
    """A lock that lets something else happen first when it is taken for the nth time."""

    def __init__(self, nth: int, first: Callable[[], object]) -> None:
        self._until_then = iter([None] * (nth - 1) + [first])
        self._lock = threading.Lock()

    def acquire(self) -> None:
        first = next(self._until_then, None)
        if first is not None:
            first()
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Agent:
    """A handler that does as it is told: each run waits for its `finish`, by prompt.

    A stubborn one goes on when it is canceled, until then.
    """

    def __init__(self, *, stubborn: bool = False) -> None:
        self.runs: dict[str, ThreadRun[str]] = {}
        #: What happened, in order: "start a", "over a".
        self.log: list[str] = []
        self._stubborn = stubborn
        self._events: dict[tuple[str, str], threading.Event] = {}

    def __call__(self, run: ThreadRun[str]) -> str:
        gate = self._event("finish", run.prompt)
        self.runs[run.prompt] = run
        self.log.append(f"start {run.prompt}")
        self._event("start", run.prompt).set()
        try:
            if self._stubborn:
                come(gate)
            else:
                forget = run.on_cancel(gate.set)
                come(gate)
                forget()
                run.raise_if_canceled()
        finally:
            self.log.append(f"over {run.prompt}")
        return f"{run.prompt} done"

    def _event(self, what: str, prompt: str) -> threading.Event:
        return self._events.setdefault((what, prompt), threading.Event())

    def started(self, *prompts: str) -> None:
        """Wait until the handler was called for these."""
        for prompt in prompts:
            come(self._event("start", prompt))

    def finish(self, *prompts: str) -> None:
        """Let these runs return "<prompt> done", now or as soon as they start."""
        for prompt in prompts:
            self._event("finish", prompt).set()
