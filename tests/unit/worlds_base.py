"""One suite for both schedulers: a world is a scheduler, with a handler in the test's hands.

The test's own thread makes the plain calls; where it has to wait, the world knows how. What means
something else on threads than in tasks (nobody can stop a thread) is said here, once.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sessionsched import RunAccepted, RunEnded, RunEvent, RunFolded, RunStarted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sessionsched import CloseReport, Gap, Outcome, Run
    from sessionsched.face import Face
    from sessionsched.handle import BaseHandle

__all__ = ["STUCK_S", "WHO", "Host", "Recorder", "World", "check_history"]

#: Nothing takes that long but a deadlock.
STUCK_S: Final = 60.0
#: More events than any test makes.
ROOM: Final = 1_000_000
#: What handlers and hooks see of their submitter.
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Recorder:
    """Everything that one subscriber has read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.events: list[Any] = []
        #: Set when the subscription has begun.
        self.begun = threading.Event()
        #: Done when it may read.
        self.may_read: Future[None] = Future()
        #: Done when it has come to its end, or failed.
        self.over: Future[None] = Future()

    def add(self, event: RunEvent[Any] | Gap) -> None:
        with self._world.changed:
            self.events.append(event)
            self._world.changed.notify_all()

    def of(self, kind: type[Any], *prompts: str) -> list[Any]:
        """What has been read of one kind, and of these prompts (or of all)."""
        return [
            it
            for it in self.events
            if isinstance(it, kind) and (not prompts or it.run.prompt in prompts)
        ]

    def wait_for(self, kind: type[Any], prompt: str, times: int = 1) -> Any:
        """Wait until it has read such an event for the `times`-th time, and give it."""
        self._world.wait_until(
            lambda: len(self.of(kind, prompt)) >= times, f"{kind.__name__} {prompt}"
        )
        return self.of(kind, prompt)[times - 1]

    def lines(self, *prompts: str) -> list[str]:
        """Kind and prompt of what has been read, as "RunStarted a"; nothing that is no event."""
        return [f"{type(it).__name__} {it.run.prompt}" for it in self.of(RunEvent, *prompts)]


class Host:
    """Somebody who takes a turn, and does in it what the handler would do."""

    def __init__(self, run: Run[str], over: Future[None]) -> None:
        self.run = run
        self._over = over

    def error(self) -> BaseException | None:
        """Wait until it is through; give what came out of the turn."""
        return self._over.exception(STUCK_S)


class World(ABC):
    """A scheduler, whose handler and hooks do as the test says."""

    scheduler: Face[str, Any, Any]
    #: What an observer saw from the beginning.
    events: Recorder

    def __init__(self) -> None:
        #: Notified when there is something new in a log, a recorder or a future.
        self.changed = threading.Condition()
        #: What handlers and hooks did: "start a", "stop a" (was canceled), "over a"; "drop a",
        #: "drop a over"; "prepare a", "prepare a over".
        self.log: list[str] = []
        #: Those whose handlers were called, by prompt.
        self.runs: dict[str, Run[str]] = {}
        #: What each of them (by what it logged first) saw in WHO.
        self.saw: dict[str, str] = {}
        #: What the handler of a prompt does at first (or a hook: "drop a"), and waits for.
        self.at_first: dict[str, Callable[[Run[str]], object]] = {}
        #: Prompts whose handlers go on after a cancel.
        self.stubborn: set[str] = set()
        self._gates: dict[str, Future[str]] = {}
        self._recorded = False
        #: At the end nobody waits for the test any longer.
        self._let_go = False

    # --- opening and closing ---

    def open(
        self, *, recorded: bool = False, prepared: bool = False, **options: Any
    ) -> Face[str, Any, Any]:
        """Make the scheduler; with `on_dropped` if it is recorded, with `prepare` if prepared."""
        # Where a test does not say so, nobody is ever too slow: the machine may be.
        options = {"grace": 600.0, "settle_timeout": 600.0} | options
        self._recorded = recorded
        if recorded:
            options["on_dropped"] = partial(self._hook, "drop")
        if prepared:
            options["prepare"] = partial(self._hook, "prepare")
        self.scheduler = self._make(options)
        self.events = self.watch(buffer=ROOM)
        return self.scheduler

    def close(self, drain: float = 0.0) -> CloseReport[str]:
        """Close, and wait for that, and until `events` has read everything."""
        report = self.begin_close(drain).result(STUCK_S)
        self.events.over.result(STUCK_S)
        return report

    def end(self) -> None:
        """Let everybody go, and look at what is left and at what everybody has seen."""
        with self.changed:
            self._let_go = True
            gates = list(self._gates.values())
        for gate in gates:
            with contextlib.suppress(Exception):  # it is done, or is being set just now
                gate.set_result("let go")
        try:
            if hasattr(self, "scheduler"):
                self.close()
                check_history(self.events.events)
                self._check_who_saw_what()
        finally:
            self._leave()

    def _check_who_saw_what(self) -> None:
        """Every prompt is seen by the handler or by on_dropped: never by both, nor by neither."""
        ended = [event.run for event in self.events.of(RunEnded)]
        folded = {event.run for event in self.events.of(RunFolded)}
        for run in ended:
            if run not in folded:
                started = self.log.count(f"start {run.prompt}")
                dropped = self.log.count(f"drop {run.prompt}")
                assert started + dropped == 1 or not (self._recorded or dropped), run

    # --- the handler and the hooks ---

    def finish(self, *names: str) -> None:
        """Let them go on: a handler by its prompt ("<prompt> done"), a hook as "drop a"."""
        for name in names:
            self.gate(name).set_result(f"{name} done")

    def fail(self, name: str, error: BaseException) -> None:
        """Let a handler (or a hook) raise."""
        self.gate(name).set_exception(error)

    def hold(self, *names: str) -> None:
        """Let these hooks wait until they are told to go on."""
        for name in names:
            self.gate(name)

    def gate(self, name: str) -> Future[str]:
        """What a handler waits for."""
        with self.changed:
            if name not in self._gates:
                self._gates[name] = Future()
                if self._let_go:
                    self._gates[name].set_result("let go")
            return self._gates[name]

    def note(self, entry: str) -> None:
        """Write down what happens."""
        with self.changed:
            self.log.append(entry)
            self.changed.notify_all()

    def _begin(self, entry: str, name: str, run: Run[str]) -> object:
        self.saw[entry] = WHO.get()
        if entry.startswith("start"):
            self.runs[name] = run
        self.note(entry)
        return self.at_first[name](run) if name in self.at_first else None

    @property
    def started(self) -> list[str]:
        """The prompts whose handlers were called, in order."""
        return [entry.split()[1] for entry in self.log if entry.startswith("start")]

    # --- waiting ---

    def wait_until(self, is_so: Callable[[], object], what: str = "") -> None:
        """Wait for something that is noted, read, or done."""
        with self.changed:
            assert self.changed.wait_for(is_so, STUCK_S), f"{what} never came; {self.log}"

    def wait_log(self, *entries: str) -> None:
        """Wait until all of these are in the log."""
        self.wait_until(lambda: set(entries) <= set(self.log), str(entries))

    def active(self, session_id: str, prompt: str, **options: Any) -> Any:
        """Submit, and wait until the handler was called."""
        handle = self.scheduler.submit(session_id, prompt, **options)
        self.wait_log(f"start {prompt}")
        return handle

    def ends(self, *handles: BaseHandle[str]) -> list[tuple[str, str | None]]:
        """How these runs end: status and cause of each; by then all of their events were read."""
        outcomes = [self.outcome(handle) for handle in handles]
        runs = {handle.run for handle in handles}
        self.wait_until(lambda: runs <= {it.run for it in self.events.of(RunEnded)}, f"{runs}")
        return [(it.status.value, it.cause and it.cause.value) for it in outcomes]

    def aside(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call something in another thread."""
        done: Future[Any] = Future()
        done.add_done_callback(lambda _: self._tell())

        def work() -> None:
            try:
                done.set_result(call(*args))
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                done.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return done

    def _tell(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def turn(self, session_id: str, prompt: str, **options: Any) -> Host:
        """Have somebody take a turn; goes on when it stands in line, or was refused."""
        turn = self.scheduler.turn(session_id, prompt, **options)  # type: ignore[attr-defined]
        over = self._take(turn)
        over.add_done_callback(lambda _: self._tell())
        self.wait_until(
            lambda: over.done() or self.events.of(RunAccepted, prompt), f"turn {prompt}"
        )
        return Host(turn._run, over)

    def watch(self, *, reading: bool = True, **options: Any) -> Recorder:
        """Subscribe, and read whatever comes; not before `may_read` is done, if not reading."""
        recorder = Recorder(self)
        if reading:
            recorder.may_read.set_result(None)
        self._subscribe(recorder, self.scheduler.subscribe(**options))  # type: ignore[attr-defined]
        assert recorder.begun.wait(STUCK_S)
        return recorder

    # --- what differs ---

    @abstractmethod
    def _make(self, options: dict[str, Any]) -> Face[str, Any, Any]: ...

    @abstractmethod
    def _hook(self, name: str, run: Any) -> Any: ...

    @abstractmethod
    def _take(self, turn: Any) -> Future[None]: ...

    @abstractmethod
    def _subscribe(self, recorder: Recorder, subscription: Any) -> None: ...

    @abstractmethod
    def begin_close(self, drain: float = 0.0) -> Future[CloseReport[str]]:
        """Close, without waiting for that."""

    @abstractmethod
    def outcome(self, handle: Any) -> Outcome[str]:
        """Wait for the outcome."""

    @abstractmethod
    def value(self, handle: Any) -> str:
        """Wait for what the handler returns, or raises."""

    @abstractmethod
    def enter(self, turn: Any) -> Any:
        """Take a turn without leaving it: for `at_first`."""

    @abstractmethod
    def give_up(self, handle: Any) -> None:
        """Wait for the outcome, and stop waiting before it is there."""

    @abstractmethod
    def block(self, body: Callable[[Face[str, Any, Any]], None]) -> BaseException | None:
        """Use a scheduler as a context manager. Gives what came out of the block."""

    @abstractmethod
    def check_told(self, prompt: str, times: int) -> None:
        """A stubborn handler was told to stop that often (X8): wait for it."""

    @abstractmethod
    def check_nothing_left(self) -> None:
        """There is nothing of the scheduler outside of any call (S7)."""

    @abstractmethod
    def _leave(self) -> None: ...


def check_history(events: Iterable[RunEvent[str]]) -> None:
    """Whatever a test is about: what its observer saw keeps the contract."""
    last, ended = 0, set()
    active: dict[str, Run[str]] = {}
    newest: dict[str, int] = {}
    accepted = set()
    for event in events:
        run = event.run
        assert event.number > last, f"numbers rise (T6): {event}"
        assert run not in ended, f"nothing happens to a run that has ended (T1): {event}"
        last = event.number
        if isinstance(event, RunAccepted):
            accepted.add(run)
        elif isinstance(event, RunStarted):
            assert run.session_id not in active, f"one run is active at a time (D1): {event}"
            assert run.promoted or run.seq > newest.get(run.session_id, 0), f"order (D2): {event}"
            active[run.session_id] = run
            if not run.promoted:
                newest[run.session_id] = run.seq
        elif isinstance(event, RunEnded):
            assert event.outcome == run.ended, f"handle and event agree (T1): {event}"
            ended.add(run)
            if active.get(run.session_id) is run:
                del active[run.session_id]
    assert accepted <= ended, f"every accepted run ends (T1): {accepted - ended}"
