"""A driver for tests: it performs effects by writing them down, and ends what a test tells it to.

Beside it stand the few things that make a race come out the same way every time.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar, cast

from sessionsched import Cause, How, Run, RunState, Scope, Table, WhenBusy
from sessionsched.rows import HOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from sessionsched import CancelReceipt, Effect, Event, Limits, Outcome, SessionState
    from sessionsched.rows import Step
    from sessionsched.table import Record

__all__ = [
    "PATIENCE_S",
    "Driver",
    "OneByOne",
    "elsewhere",
    "ends",
    "outcome",
    "overtake",
    "running_on",
    "states",
]

AnswerT = TypeVar("AnswerT")

#: A thread that was to come and did not would hang the tests; this ends them with an error.
PATIENCE_S = 60


class Driver:
    """Owns a table and drains it after every call. Every call takes one second."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.table: Table[str] = Table(limits)
        #: What was performed and not asked for yet, as (effect, seq).
        self.performed: list[tuple[str, int]] = []
        self.now = 0.0

    def tick(self) -> float:
        self.now += 1
        return self.now

    def perform(self, effect: Effect, run: Run[Any], _at: float) -> None:
        self.performed.append((effect.value, run.seq))

    def news(self) -> list[tuple[str, int]]:
        """What was performed since the last call."""
        news, self.performed = self.performed, []
        return news

    def facts(self) -> tuple[object, ...]:
        """Everything that a call which changes nothing leaves as it was."""
        runs = [
            (name, run.seq, run.state, run.cause, run.prompt, run.ended, run.folded)
            for name, run in self.table.ids.in_flight.items()
        ]
        return self.table.snapshot(), runs, len(self.table.outbox), list(self.performed)

    def _after(self, answer: AnswerT) -> AnswerT:
        self.table.drain(self.perform)
        return answer

    # --- prompts ---

    def take_in(self, run: Run[str], *, ready: bool = True) -> Run[str]:
        return self._after(self.table.accept(run, self.tick(), ready=ready))

    def submit(
        self,
        session_id: str,
        prompt: str,
        *,
        run_id: str = "",
        when_busy: WhenBusy = WhenBusy.QUEUE,
        ready: bool = True,
    ) -> Run[str]:
        return self.take_in(Run(session_id, prompt, run_id, when_busy), ready=ready)

    def submit_each(self, session_id: str, *prompts: str) -> list[Run[str]]:
        return [self.submit(session_id, prompt) for prompt in prompts]

    def bring(self, state: RunState, prompt: str = "hello", run_id: str = "") -> Run[str]:
        """Submit a run to session "chat", which is idle, and bring it into this state."""
        behind = state in {RunState.QUEUED, RunState.FOLDED, RunState.ENDING}
        first = self.submit("chat", "first") if behind else None
        fold = WhenBusy.FOLD if state is RunState.FOLDED else WhenBusy.QUEUE
        ready = state is not RunState.ACCEPTED
        run = self.submit("chat", prompt, run_id=run_id, when_busy=fold, ready=ready)
        if state is RunState.FOLDED and first is not None:
            self.fold(first)
        elif state is RunState.ENDING:
            self.cancel_run(run)
        elif state is RunState.ENDED:
            self.finish(run)
        assert run.state is state
        return run

    def ready(self, run: Run[str]) -> bool:
        return self._after(self.table.ready(run, self.tick()))

    def withdraw(self, run: Run[str], failure: BaseException | None = None) -> bool:
        return self._after(self.table.withdraw(run, self.tick(), failure))

    # --- cancels ---

    def cancel(
        self,
        session_id: str = "chat",
        *,
        scope: Scope = Scope.ALL,
        up_to: int | None = None,
        hold: bool = False,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[str]:
        return self._after(
            self.table.cancel(
                session_id, self.tick(), scope=scope, up_to=up_to, hold=hold, cause=cause
            )
        )

    def cancel_run(
        self, run: Run[str], *, scope: Scope = Scope.ALL, cause: Cause = Cause.INTERRUPT
    ) -> CancelReceipt[str]:
        return self._after(self.table.cancel_run(run, self.tick(), scope=scope, cause=cause))

    # --- ends ---

    def finish(
        self,
        run: Run[str],
        how: How = How.RETURNED,
        *,
        result: str | None = None,
        error: BaseException | None = None,
    ) -> bool:
        return self._after(self.table.finish(run, how, self.tick(), result=result, error=error))

    def settle(self, run: Run[str], error: BaseException | None = None) -> bool:
        return self._after(self.table.settle(run, self.tick(), error))

    def end_all(self) -> None:
        """Finish whatever is active and settle whatever is ending, for as long as there is any."""
        while ended := [
            run
            for view in self.table.snapshot().sessions
            for run in (view.active, *view.ending)
            if run is not None and (self.finish(run) or self.settle(run))
        ]:
            assert all(run.ended for run in ended)

    def close(self) -> None:
        self.table.close(self.tick())
        self.table.drain(self.perform)

    def suspend_active(self) -> None:
        self.table.suspend_active(self.tick())
        self.table.drain(self.perform)

    # --- the line ---

    def fold(self, taker: Run[str]) -> tuple[Run[str], ...]:
        return self._after(self.table.fold(taker, self.tick()))

    def hold(self, session_id: str = "chat") -> bool:
        return self._after(self.table.hold(session_id))

    def resume(self, session_id: str = "chat") -> bool:
        return self._after(self.table.resume(session_id, self.tick()))

    def promote(self, run: Run[str]) -> bool:
        return self._after(self.table.promote(run, self.tick()))


def states(*runs: Run[Any]) -> list[str]:
    """The states of these runs, spelt."""
    return [run.state.value for run in runs]


def outcome(run: Run[Any]) -> Outcome[Any]:
    """The outcome of a run that has ended."""
    assert run.ended is not None
    return run.ended


def ends(*runs: Run[Any]) -> list[tuple[str, str | None]]:
    """How these runs ended: status and cause of each, spelt."""
    return [(outcome(run).status.value, outcome(run).cause) for run in runs]


def elsewhere(call: Callable[[], AnswerT]) -> AnswerT:
    """Give the answer of a call on another thread. A call that waits for something is an error."""
    answers: list[AnswerT] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert answers, "it raised, or it waits"
    return answers[0]


class OneByOne:
    """A lock that counts how often it was taken, and lets somebody else be faster once."""

    def __init__(self, first: Callable[[], object] | None = None) -> None:
        self.taken = 0
        self._first = first
        self._lock = threading.Lock()

    def acquire(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            first()
        self._lock.acquire()
        self.taken += 1

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def overtake(record: Record[Any], first: Callable[[], object] | None = None) -> OneByOne:
    """Let `first` happen just before the next one takes this record's lock, as another thread can.

    Gives the lock, which counts from here on.
    """
    lock = OneByOne(first)
    record.lock = cast("threading.Lock", lock)
    return lock


@contextlib.contextmanager
def running_on(table: Mapping[Event, Mapping[SessionState, Step]]) -> Iterator[None]:
    """Let sessions run on these steps, instead of those that were compiled from ROWS."""
    before = {event: dict(steps) for event, steps in HOT.items()}
    try:
        for event, steps in table.items():
            HOT[event].update(steps)
        yield
    finally:
        for event, steps in before.items():
            HOT[event].update(steps)
