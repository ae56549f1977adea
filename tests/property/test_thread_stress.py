"""Everything at once on the real ThreadScheduler: whatever happened, the contract was kept."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from attrs import Factory, define

from sessionsched import RunCanceled, Status, ThreadScheduler, WhenBusy
from sessionsched.errors import Refused, SchedulerClosed
from sessionsched.events import RunEnded, RunStarted
from sessionsched.model import Cause, Limits, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import ThreadHandle, ThreadRun

#: Nothing takes that long but a deadlock.
STUCK_S: Final = 60.0
SESSIONS: Final = ("a", "b", "c", "d")
STEPS: Final = 120
KINDS: Final = ("returns", "raises", "waits", "ignores", "folds", "emits", "submits")


@define(eq=False)
class Life:
    """One prompt, in ticks of one counter: what happened first has the smaller ones."""

    session_id: str
    kind: str
    asked: int
    accepted: int = 0
    handle: ThreadHandle[Life, str] | None = None
    handled: list[tuple[int, int]] = Factory(list)
    dropped: list[tuple[int, int]] = Factory(list)
    taken: int = 0
    #: The handler, or on_dropped, was here and has gone.
    over: threading.Event = Factory(threading.Event)


class Stress:
    """One scheduler, everybody around it, and what they write down."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.seed = seed
        self.tick = itertools.count(1).__next__
        self.lives: list[Life] = []
        #: From when to when, the receipt, and whether it was for the whole session.
        self.cancels: list[tuple[int, int, Any, bool]] = []
        self.events: list[Any] = []
        self.joined: list[list[Any]] = []
        self.failures: list[BaseException] = []
        self.half_way = threading.Event()
        self.scheduler: ThreadScheduler[Life, str] = ThreadScheduler(
            self.handler, on_dropped=self.on_dropped, threads=3, **options
        )

    # --- handlers and hooks ---

    @contextlib.contextmanager
    def visit(self, life: Life, visits: list[tuple[int, int]]) -> Iterator[None]:
        began = self.tick()
        try:
            yield
        finally:
            visits.append((began, self.tick()))
            life.over.set()

    def handler(self, run: ThreadRun[Life]) -> str:
        life = run.prompt
        with self.visit(life, life.handled):
            getattr(self, life.kind)(run)
        return life.kind

    def on_dropped(self, run: ThreadRun[Life]) -> None:
        with self.visit(run.prompt, run.prompt.dropped):
            time.sleep(0)

    def returns(self, run: ThreadRun[Life]) -> None:
        pass

    def raises(self, run: ThreadRun[Life]) -> None:
        raise OSError("as it does")

    def waits(self, run: ThreadRun[Life]) -> None:
        told: list[bool] = []
        run.on_cancel(lambda: told.append(run.canceled))
        if not run.wait_canceled(STUCK_S):
            raise AssertionError("nobody has canceled it, not even the close")
        run.raise_if_canceled()

    def ignores(self, run: ThreadRun[Life]) -> None:
        for _ in range(300):
            time.sleep(0)

    def folds(self, run: ThreadRun[Life]) -> None:
        for _ in range(3):
            for follow_up in run.take_follow_ups():
                follow_up.prompt.taken += 1
            time.sleep(0)

    def emits(self, run: ThreadRun[Life]) -> None:
        for item in range(3):
            run.emit(item)

    def submits(self, run: ThreadRun[Life]) -> None:
        following = SESSIONS[(SESSIONS.index(run.session_id) + 1) % len(SESSIONS)]
        self.submit(following, "returns")

    # --- people ---

    def submit(self, session_id: str, kind: str, **options: Any) -> None:
        life = Life(session_id, kind, self.tick())
        try:
            life.handle = self.scheduler.submit(session_id, life, **options)
        except Refused:
            return
        life.accepted = self.tick()
        self.lives.append(life)

    def submitter(self, rng: random.Random) -> None:
        ways = (*WhenBusy, *[WhenBusy.QUEUE] * 3, *[WhenBusy.FOLD] * 2)
        for step in range(STEPS * 5):
            if step * 3 > STEPS * 2:
                self.half_way.set()
            if step >= STEPS and self.scheduler.snapshot().closed:
                break  # not before: the close must find something in flight
            options: dict[str, Any] = {"when_busy": rng.choice(ways)}
            if rng.random() < 0.2:
                options[rng.choice(("deadline", "wait_at_most"))] = 0.001
            self.submit(rng.choice(SESSIONS), rng.choice(KINDS), **options)
            if self.lives and rng.random() < 0.8:  # let others catch up
                handle = rng.choice(self.lives[-10:]).handle
                with contextlib.suppress(TimeoutError):
                    assert handle is not None
                    handle.outcome(rng.choice((0.0, 0.001, 0.005)))

    def canceler(self, rng: random.Random) -> None:
        for _ in range(STEPS):
            if self.seed % 2 and self.scheduler.snapshot().closed:
                return  # else an INTERRUPT may overrule every SHUTDOWN that there is
            began = self.tick()
            scope = rng.choice((None, Scope.ALL, *Scope))
            if scope is None and self.lives:
                handle = rng.choice(self.lives).handle
                assert handle is not None
                receipt = handle.cancel()
            else:
                receipt = self.scheduler.cancel(rng.choice(SESSIONS), scope=scope or Scope.ALL)
            self.cancels.append((began, self.tick(), receipt, scope is Scope.ALL))
            self.scheduler.snapshot()
            time.sleep(0.001)

    def reader(self, rng: random.Random) -> None:
        with self.scheduler.subscribe(rng.choice(SESSIONS), buffer=10_000) as events:
            self.joined.append(list(events))

    def closer(self, rng: random.Random) -> None:
        self.half_way.wait(STUCK_S)
        time.sleep(0.002)
        self.scheduler.close(rng.choice((0.0, 0.01)))

    def watcher(self, begun: threading.Event) -> None:
        with self.scheduler.subscribe(buffer=1_000_000) as events:
            begun.set()
            self.events.extend(events)

    @staticmethod
    def after(
        begun: threading.Event, person: Callable[[random.Random], None], rng: random.Random
    ) -> None:
        assert begun.wait(STUCK_S)
        person(rng)

    def strike(self) -> None:
        """Let them all loose, and wait until the scheduler is closed and everybody is done."""
        begun = threading.Event()
        people = [self.submitter] * 4 + [self.canceler] * 2 + [self.reader] * 2 + [self.closer] * 2
        bodies: list[Callable[[], object]] = [partial(self.watcher, begun)]
        for number, person in enumerate(people):
            rng = random.Random(f"{self.seed} {number}")  # noqa: S311 - to do the same again
            bodies.append(partial(self.after, begun, person, rng))
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [self.thread(body) for body in bodies]
            for thread in threads:
                thread.join(STUCK_S)
                if thread.is_alive():
                    faulthandler.dump_traceback(file=2)
                    pytest.fail(f"a thread is stuck, stderr says where; {self.failures=}")
        finally:
            sys.setswitchinterval(before)
        if self.failures:
            raise self.failures[0]
        for life in self.lives:
            outcome = outcome_of(life)
            if outcome.abandoned and outcome.folded_into is None:  # nobody has waited for it
                assert life.over.wait(STUCK_S), f"{life} goes on for ever"

    def thread(self, body: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                body()
            except BaseException as failure:  # noqa: BLE001 - strike() raises it
                self.failures.append(failure)
                self.half_way.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


# --- what must be so ---


def outcome_of(life: Life) -> Any:
    assert life.handle is not None
    return life.handle.outcome(0)


def every_prompt_was_seen_once_and_ended(stress: Stress) -> None:
    """T1, P1, X7, F3: by the handler, by on_dropped, or by the run that took it."""
    ends = Counter(event.run for event in stress.events if isinstance(event, RunEnded))
    for life in stress.lives:
        outcome = outcome_of(life)
        seen = (len(life.handled), len(life.dropped), life.taken)
        assert sorted(seen) == [0, 0, 1], f"seen by (handler, on_dropped, a taker): {seen}, {life}"
        assert outcome.started is not bool(life.dropped), f"{life}: {outcome}"
        assert bool(life.taken) is (outcome.folded_into is not None), f"{life}: {outcome}"
        assert life.handle is not None
        assert ends[life.handle.run] == 1, f"{ends[life.handle.run]} ends of {life}"
        if outcome.status is Status.FAILED:
            assert life.taken or isinstance(outcome.error, OSError), f"{outcome}"
        assert life.handle.run.ended == outcome


def sessions_keep_their_order(stress: Stress) -> None:
    """D1, D2, P1: one at a time, in accept order, and after the drops of those before."""
    for session_id in SESSIONS:
        lives = [life for life in stress.lives if life.session_id == session_id]
        lives.sort(key=lambda life: getattr(life.handle, "seq", 0))
        last, recorded = 0, 0
        for life in lives:
            outcome = outcome_of(life)
            for began, ended in life.handled:
                assert began > last, f"{life} began before the one before it was over"
                assert began > recorded, f"{life} began before an earlier drop was recorded"
                last = began if outcome.abandoned else ended
            recorded = max([recorded, *(ended for _, ended in life.dropped)])


def cancels_cover_what_they_say(stress: Stress) -> None:
    """X1, X2, X11, X12."""
    lives = {life.handle.run: life for life in stress.lives if life.handle is not None}
    for began, ended, receipt, whole in stress.cancels:
        for run in receipt.covered:
            assert lives[run].asked < ended, f"{run} was covered before it was there"
            assert run.ended.status is Status.CANCELED, f"{run}: {run.ended}"
        for life in lives.values() if whole else ():
            over = max((at for _, at in (*life.handled, *life.dropped)), default=0)
            there = life.accepted < began and ended < over
            if there and life.session_id == receipt.session_id:
                outcome = outcome_of(life)
                told = outcome.abandoned or outcome.status is Status.CANCELED
                assert told, f"{life} was in flight: {receipt}"


def events_come_in_order(stress: Stress) -> None:
    """T2, T6: numbers rise; a session's run ends before the next one starts; none is missed."""
    for events in (stress.events, *stress.joined):
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers)), "numbers must rise"
        going: dict[str, Any] = {}
        by_run: dict[Any, list[Any]] = defaultdict(list)
        for event in events:
            by_run[event.run].append(event)
            if isinstance(event, RunStarted):
                assert event.session_id not in going, f"{event} before an end"
                going[event.session_id] = event.run
            if isinstance(event, RunEnded) and going.get(event.session_id) is event.run:
                del going[event.session_id]
        for run, its in by_run.items():
            assert [isinstance(it, RunEnded) for it in its].count(True) == 1, f"{run}: {its}"
            assert isinstance(its[-1], RunEnded), f"{run}: {its[-1]} after its end"


CHECKERS: Final = (
    every_prompt_was_seen_once_and_ended,
    sessions_keep_their_order,
    cancels_cover_what_they_say,
    events_come_in_order,
)


@pytest.mark.contract(
    "R4", "T1", "T2", "T6", "P1", "D1", "D2", "X1", "X2", "X7", "X12", "F3", "S1", "S5", "S6", "S7"
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limits": Limits(max_waiting=5, max_active=1)},
        {"grace": 0.001, "abandon_after": 0.002, "settle_timeout": 5.0},
    ],
    ids=["plain", "one slot", "abandons"],
)
def test_whatever_people_and_handlers_do_at_once_the_contract_is_kept(
    options: dict[str, Any],
) -> None:
    seen: set[object] = set()
    due = {*KINDS, "dropped", "folded", None, Cause.INTERRUPT, Cause.SHUTDOWN, Cause.SUPERSEDED}
    for seed in range(40):
        if seed >= 5 and seen >= due:  # what comes up is a matter of luck, so try some more
            break
        before = set(threading.enumerate())
        stress = Stress(seed, **options)
        stress.strike()
        for checker in CHECKERS:
            checker(stress)
        seen |= {outcome_of(life).cause for life in stress.lives}
        seen |= {life.kind for life in stress.lives if life.handled}
        seen |= {"dropped" for life in stress.lives if life.dropped}
        seen |= {"folded" for life in stress.lives if life.taken}
        driver: Any = stress.scheduler._driver
        assert not driver.table._sessions
        assert not driver.timers
        assert not driver.waits._carriers
        with pytest.raises(SchedulerClosed):
            stress.scheduler.submit("a", Life("a", "returns", 0))
        left = set(threading.enumerate()) - before
        if "abandon_after" not in options:  # else some go on after the close, as it reports
            assert not any(it.name.startswith("sessionsched") for it in left), left
        for thread in left:
            thread.join(STUCK_S)
            assert not thread.is_alive(), f"{thread} is left behind"
    assert seen >= due


def test_a_bad_history_is_rejected() -> None:
    stress = Stress(0)
    stress.submit("a", "returns")
    stress.submit("a", "returns")
    for life in stress.lives:
        outcome_of_waiting(life)
    one, two = stress.lives
    with pytest.raises(AssertionError, match="ends of"):
        every_prompt_was_seen_once_and_ended(stress)
    one.handled.append(one.handled[0])
    with pytest.raises(AssertionError, match="seen by"):
        every_prompt_was_seen_once_and_ended(stress)
    one.handled[:] = [(1, two.handled[0][1])]
    with pytest.raises(AssertionError, match="began before"):
        sessions_keep_their_order(stress)
    stress.scheduler.close()


def outcome_of_waiting(life: Life) -> None:
    assert life.handle is not None
    with contextlib.suppress(RunCanceled):
        life.handle.result(STUCK_S)
