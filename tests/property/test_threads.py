"""Many threads at one table: whatever they do at the same time, the history keeps the contract."""

from __future__ import annotations

import faulthandler
import itertools
import queue
import random
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import history as sentence
import pytest
from history import AnyRun, Call, History, Told

from sessionsched.errors import DuplicateRun, LineFull, Refused, SchedulerClosed, SessionBusy
from sessionsched.model import (
    CancelReceipt,
    Cause,
    Effect,
    How,
    Limits,
    Outcome,
    Run,
    Scope,
    Status,
    WhenBusy,
)
from sessionsched.slots import LimitedSlots
from sessionsched.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.table import Record

#: Few, so that threads collide, and sessions fall idle and are made anew all the time.
SESSIONS: Final = ("a", "b", "c")
#: Nothing takes that long but a deadlock.
STUCK_S: Final = 60.0
#: So many orders may be open before the submitters, too, carry some out.
ENOUGH: Final = 10


class SeenTable(Table[str, int]):
    """A table that shows what happens inside."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        #: The record of each look that an accept took. More looks than accepts: it looked again.
        self.looks: list[Record[str, int]] = []
        #: What the sessions said to this thread's last question to each of them.
        self.answers = threading.local()

    def _find_or_make(self, session_id: str) -> Record[str, int]:
        self.looks.append(super()._find_or_make(session_id))
        return self.looks[-1]

    def _ask_each(self, question: Callable[[Record[str, int]], Any]) -> list[Any]:
        self.answers.last = super()._ask_each(question)
        return list(self.answers.last)


def seeded(*seed: int) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - to do the same again is the point


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Hammer:
    """One table, the threads around it, and what they write down."""

    def __init__(self, limits: Limits, seed: int = 0) -> None:
        self.table = SeenTable(limits)
        self.history = History(max_active=limits.max_active)
        self.tick = itertools.count(1).__next__
        self.seed = seed
        self.performing = threading.Lock()
        self.orders: queue.SimpleQueue[tuple[Effect, AnyRun, int] | None] = queue.SimpleQueue()
        self.counting = threading.Lock()
        #: Orders that are not carried out, and one more while somebody may still ask.
        self.open = 1
        self.half_way = threading.Event()
        self.lately: deque[AnyRun] = deque(maxlen=8)
        self.failures: list[BaseException] = []

    # --- calls and effects ---

    def ask(self, name: str, *about: Any, **how: Any) -> Any:
        """Call a method of the table, write it down, and drain as a driver does."""
        began = self.tick()
        try:
            answer = getattr(self.table, name)(*about, now=self.tick(), **how)
        except Refused as refusal:
            answer = refusal
        if name in sentence.CLOSING:
            answer = tuple(self.table.answers.last)
        call = Call(name, about[0] if about else "", answer, began, self.tick(), how)
        self.history.calls.append(call)
        self.table.drain(self.perform)
        return answer

    def perform(self, effect: Effect, run: AnyRun, _at: float) -> None:
        alone = self.performing.acquire(blocking=False)
        self.history.overlaps += not alone
        self.history.told.append(Told(effect, run, self.tick(), run.outcome))
        slow = effect is Effect.ACCEPTED and run.prompt == "slow"
        if slow or effect in (Effect.START, Effect.INTERRUPT, Effect.DROP):
            with self.counting:
                self.open += 1
            self.orders.put((effect, run, run.seq % 4))
        if alone:
            self.performing.release()

    # --- what the threads do ---

    def submit(self, rng: random.Random, steps: int) -> None:
        kinds = (*WhenBusy, *[WhenBusy.QUEUE] * 5, *[WhenBusy.FOLD] * 5)
        for step in range(steps):
            if step * 2 >= steps:
                self.half_way.set()
            while self.open > ENOUGH and (order := self.next_order()) is not None:
                self.carry_out(rng, *order)
            session, prompt = rng.choice(SESSIONS), rng.choice(("quick", "quick", "slow"))
            run: AnyRun = Run(session, prompt, when_busy=rng.choice(kinds))
            if rng.random() < 0.3:  # all come by the same ids at about the same time
                session = SESSIONS[step // 4 % 3] if rng.random() < 0.8 else session
                run = Run(session, prompt, f"id-{step // 4}")
            if isinstance(taken := self.ask("accept", run, ready=prompt != "slow"), Run):
                self.lately.append(taken)

    def cancel(self, rng: random.Random, steps: int) -> None:
        for _ in range(steps // 2):
            session, scope = rng.choice(SESSIONS), rng.choice((Scope.ALL, *Scope))
            cause = rng.choice((Cause.INTERRUPT, Cause.INTERRUPT, Cause.EXPIRED))
            recent = rng.choice(self.lately) if self.lately else None
            kind = rng.randrange(6)
            if kind == 0:
                self.ask("cancel", session)
            elif kind == 1:
                hold = rng.random() < 0.5
                self.ask("cancel", session, scope=scope, cause=cause, hold=hold)
            elif kind == 2 and recent:
                self.ask("cancel", recent.session_id, scope=scope, cause=cause, up_to=recent.seq)
            elif kind == 3 and recent:
                self.ask("cancel_run", recent, scope=scope, cause=cause)
            elif kind == 4 and recent:
                self.ask("promote", recent)
            else:
                self.ask("resume", session)

    def close(self, _rng: random.Random, _steps: int) -> None:
        self.half_way.wait()
        self.ask("close")
        self.ask("suspend_active")

    def handle(self, rng: random.Random, _steps: int) -> None:
        while (order := self.orders.get()) is not None:
            self.carry_out(rng, *order)
        self.orders.put(None)  # for the next handler

    def next_order(self) -> tuple[Effect, AnyRun, int] | None:
        try:
            return self.orders.get_nowait()
        except queue.Empty:
            return None

    def carry_out(self, rng: random.Random, effect: Effect, run: AnyRun, left: int) -> None:
        """Do a step of what was ordered; a handler has some steps to go, and folds on its way."""
        if effect is Effect.START and left:
            if rng.random() < 0.5:
                self.ask("fold", run)
            self.orders.put((effect, run, left - 1))
            return
        if effect is Effect.START:
            self.ask("finish", run, rng.choice(list(How)[:3]), result=self.tick())
        elif effect is Effect.INTERRUPT and rng.random() < 0.5:
            self.ask("finish", run, rng.choice(list(How)[2:]), result=self.tick())
        elif effect is Effect.DROP:
            for _ in range(rng.choice((1, 1, 2))):
                self.ask("settle", run)
        elif effect is Effect.ACCEPTED and rng.random() < 0.7:
            self.ask("ready", run)
        elif effect is Effect.ACCEPTED:
            self.ask("withdraw", run, failure=rng.choice((None, OSError("not prepared"))))
        self.order_done()

    def order_done(self) -> None:
        with self.counting:
            self.open -= 1
            if not self.open:
                self.orders.put(None)

    # --- all at once ---

    def strike(self, steps: int, *, closing: bool = False) -> History:
        """Let them all loose. Gives the history once nothing is left to do."""
        asking = [self.submit] * 4 + [self.cancel] * 3 + [self.close] * closing
        together = threading.Barrier(len(asking) + 3)
        with switching_often():
            handlers = [self.thread(self.handle, n, steps, together) for n in range(3)]
            askers = [self.thread(ask, n, steps, together) for n, ask in enumerate(asking, 3)]
            self.join(askers)
            for session in SESSIONS:
                self.ask("resume", session)
            self.order_done()
            self.join(handlers)
        if self.failures:
            raise self.failures[0]
        return self.history

    def thread(
        self,
        body: Callable[[random.Random, int], None],
        number: int,
        steps: int,
        together: threading.Barrier,
    ) -> threading.Thread:
        chance = seeded(self.seed, -number).random

        def give_way(frame: Any, _event: str, _arg: object) -> None:
            # Called as functions come and go: 1 us is too long for what happens in between.
            if chance() < 0.03 and frame.f_globals["__name__"].startswith("sessionsched."):
                time.sleep(0)  # waits for nothing, but lets another thread go on

        def run() -> None:
            together.wait(STUCK_S)
            sys.setprofile(give_way)
            try:
                body(seeded(self.seed, number), steps)
            except BaseException as failure:  # noqa: BLE001 - strike() raises it
                self.failures.append(failure)
                self.half_way.set()
                self.orders.put(None)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(STUCK_S)
            if thread.is_alive():
                faulthandler.dump_traceback(file=sys.__stderr__)
                pytest.fail("a thread is stuck; stderr says where")


def nothing_is_left(table: Table[str, int]) -> None:
    """R1, D4: no session, no effect, no slot taken, and no run but the last named ones."""
    assert not table.snapshot().sessions, f"stranded: {table.snapshot()}"
    assert not len(table.outbox), "effects that nobody performed"
    assert sorted(table._runs) == sorted(table._ended), f"{table._runs}, not {table._ended}"
    assert len(table._ended) <= table.limits.remembered, "more than it may remember"
    if isinstance(slots := table._slots, LimitedSlots):
        assert (slots._free, len(slots._asking)) == (table.limits.max_active, 0), "slots are lost"


def corners(hammer: Hammer) -> set[object]:
    """What the threads came by."""
    history, looks = hammer.history, hammer.table.looks
    seen: set[object] = {outcome.cause for _, outcome in history.ends()}
    seen |= {type(call.answer) for call in history.named("accept")}
    seen |= {call.name for call in history.calls if call.answer}
    seen |= {"looked again"} if len(looks) > len(history.named("accept")) else set()
    seen |= {"made anew"} if len(set(looks)) > len(SESSIONS) else set()
    return seen


LIMITS: Final = pytest.mark.parametrize(
    "limits",
    [Limits(max_waiting=6, remembered=20), Limits(max_waiting=6, remembered=20, max_active=2)],
    ids=["no limit", "two slots"],
)


def hammered(limits: Limits, rounds: int, steps: int, *, closing: bool) -> set[object]:
    """Strike several times and judge each. Gives the corners that were come by."""
    seen = set()
    for seed in range(rounds):
        hammer = Hammer(limits, seed)
        history = hammer.strike(steps, closing=closing)
        nothing_is_left(hammer.table)
        for checker in CHECKERS:
            checker(history)
        seen |= corners(hammer)
    return seen


@pytest.mark.contract(
    "R4", "A2", "A3", "A4", "A5", "D1", "D2", "D4", "X1", "X2", "X5", "X7", "X9", "X10", "X11",
    "X12", "X14", "F1", "F2", "F3", "T1", "T2", "R1",
)  # fmt: skip
@LIMITS
def test_whatever_threads_do_at_once_the_history_keeps_the_contract(limits: Limits) -> None:
    seen = hammered(limits, rounds=2, steps=300, closing=False)
    assert seen >= {"looked again", "made anew", "fold", "promote", "resume", "ready", "cancel_run"}
    assert seen >= {DuplicateRun, LineFull, SessionBusy}
    assert seen >= {None, *Cause} - {Cause.DEADLINE, Cause.SHUTDOWN}


@pytest.mark.contract("S5", "S2", "X12", "R1", "R4")
@LIMITS
def test_a_prompt_that_races_the_close_is_refused_or_ends(limits: Limits) -> None:
    seen = hammered(limits, rounds=20, steps=40, closing=True)
    assert seen >= {"looked again", "made anew", SchedulerClosed, Cause.SHUTDOWN, Cause.INTERRUPT}


@pytest.mark.contract("D5")
def test_a_session_whose_lock_is_held_delays_no_other() -> None:
    hammer = Hammer(Limits())
    hammer.table.accept(Run("stuck", "quick"), 0.0, ready=False)
    hammer.table.drain(lambda *_: None)
    with hammer.table._sessions["stuck"].lock:
        history = hammer.strike(50)
    sentence.every_run_ends_once(history)
    assert list(hammer.table._sessions) == ["stuck"]


# --- the checkers themselves ---

EFFECTS: Final = {effect.value[0]: effect for effect in Effect} | {"e": Effect.END}
ENDS: Final = {
    "": (Status.COMPLETED, None),
    "x": (Status.CANCELED, Cause.INTERRUPT),
    "p": (Status.CANCELED, Cause.SUPERSEDED),
    "z": (Status.SUSPENDED, Cause.SHUTDOWN),
}


def make_runs() -> list[AnyRun]:
    """Runs by their seq. 3 and 4 have one id, 5 is of another session, 7 is a FOLD, 8 LATEST."""
    kinds = {7: WhenBusy.FOLD, 8: WhenBusy.LATEST}
    runs: list[AnyRun] = []
    for seq in range(9):
        run_id = "r3" if seq == 4 else f"r{seq}"
        runs.append(Run("t" if seq == 5 else "s", "p", run_id, kinds.get(seq, WhenBusy.QUEUE)))
        runs[seq].seq = seq
    return runs


def tell(runs: list[AnyRun], script: str, *calls: Call, **facts: int) -> History:
    """A history in words like `a1 s1 e1x`: effect, run and, for an END, how. One word, ten ticks."""
    history = History([*calls], **facts)
    for tick, word in zip(itertools.count(10, 10), script.split(), strict=False):
        effect, run = EFFECTS[word[0]], runs[int(word[1])]
        if effect is Effect.ACCEPTED:
            history.calls.append(Call("accept", run, run, tick, tick))
        if effect is Effect.END:
            history.calls.append(Call("finish", run, True, tick, tick))
            started = f"d{run.seq}" not in script
            end = ENDS[word[2:]]
            run.outcome = Outcome(*end, None, None, started, None, False, 0.0, None, 0.0)
        history.told.append(Told(effect, run, tick, run.outcome))
    return history


def canceled(*runs: AnyRun, mark: int = 2, at: int = 100, **how: Any) -> Call:
    return Call("cancel", "s", CancelReceipt("s", mark, dropped=runs), at, at, how)


BAD: Final[list[tuple[Callable[[History], None], str, Callable[[list[AnyRun]], History]]]] = [
    (sentence.effects_are_performed_one_by_one, "during another", lambda r: tell(r, "", overlaps=1)),
    (sentence.seqs_rise_in_accept_order, "in the order", lambda r: tell(r, "a2 a1")),
    (sentence.seqs_rise_in_accept_order, "came after seq 5", lambda r: tell(r, "a5 a1")),
    (sentence.every_run_ends_once, "no end", lambda r: tell(r, "a1 s1")),
    (sentence.every_run_ends_once, "ends too many", lambda r: tell(r, "a1 s1 e1 e1")),
    (sentence.every_run_ends_once, "not told", lambda r: tell(r, "", Call("accept", r[1], r[1]))),
    (sentence.every_run_ends_once, "report", lambda r: tell(r, "a1 e1", Call("settle", r[1], True))),
    (sentence.an_id_is_one_run, "has that id", lambda r: tell(r, "a3 a4")),
    (sentence.an_id_is_one_run, "for", lambda r: tell(r, "a1", Call("accept", r[2], r[1]))),
    (sentence.what_was_refused_left_no_trace, "refused", lambda r: tell(r, "", Call("accept", r[1], LineFull("")))),
    (sentence.a_close_parts_the_accepted_from_the_refused, "after", lambda r: tell(r, "a1", Call("close", "", (), 1, 2))),
    (sentence.a_close_parts_the_accepted_from_the_refused, "before", lambda r: tell(r, "", Call("accept", r[1], SchedulerClosed(""), 1, 2), Call("close", "", (), 3, 4))),
    (sentence.one_run_at_a_time, "while", lambda r: tell(r, "a1 a2 s1 s2")),
    (sentence.one_run_at_a_time, "isn't active", lambda r: tell(r, "a1 a2 s1 i2")),
    (sentence.runs_start_in_accept_order, "first in line", lambda r: tell(r, "a1 a2 s2")),
    (sentence.ends_are_told_before_the_next_start, "before the end", lambda r: tell(r, "a1 a2 d1 s2")),
    (sentence.a_dropped_run_never_starts, "then start", lambda r: tell(r, "a1 d1 s1")),
    (sentence.a_cancel_covers_what_came_before, "in flight", lambda r: tell(r, "a1 s1 e1", canceled(at=15))),
    (sentence.a_cancel_never_covers_what_came_after, "not there", lambda r: tell(r, "a1 d1", canceled(r[1], at=5))),
    (sentence.receipts_name_exactly_what_was_covered, "covers .*r2.* names", lambda r: tell(r, "a1 a2 d1", canceled(r[1]))),
    (sentence.receipts_name_exactly_what_was_covered, "names .*r2", lambda r: tell(r, "a1 a2 d1 d2", canceled(r[1], r[2], up_to=1))),
    (sentence.receipts_name_exactly_what_was_covered, "keeps", lambda r: tell(r, "a1 a2 d1", canceled(r[1], up_to=1))),
    (sentence.receipts_name_exactly_what_was_covered, "told", lambda r: tell(r, "a1 a2 d1 a3 d2", canceled(r[1], r[2]))),
    (sentence.receipts_name_exactly_what_was_covered, "mark", lambda r: tell(r, "a1 d1", canceled(r[1], mark=0))),
    (sentence.a_held_line_stands_still, "started", lambda r: tell(r, "a1 a2 d1 e1x s2", canceled(r[1], hold=True))),
    (sentence.causes_are_kept_apart, "no receipt", lambda r: tell(r, "a1 d1 e1x")),
    (sentence.causes_are_kept_apart, "covered by", lambda r: tell(r, "a1 d1 e1z", canceled(r[1]))),
    (sentence.causes_are_kept_apart, "more than once", lambda r: tell(r, "a1 d1 e1x", canceled(r[1]), canceled(r[1]))),
    (sentence.superseding_is_one_step, "was superseded", lambda r: tell(r, "a1 d1 a2 e1p")),
    (sentence.superseding_is_one_step, "has not covered", lambda r: tell(r, "a1 a8")),
    (sentence.follow_ups_end_with_their_taker, "was folded", lambda r: tell(r, "a1 a2 s1 f2", Call("fold", r[1], (r[2],)))),
    (sentence.follow_ups_end_with_their_taker, "covered", lambda r: tell(r, "a1 a7 s1 i1 f7", Call("fold", r[1], (r[7],)))),
    (sentence.follow_ups_end_with_their_taker, "took", lambda r: tell(r, "a1 a7 s1 f7 e1 a8 e7", Call("fold", r[1], (r[7],)))),
    (sentence.follow_ups_end_with_their_taker, "not", lambda r: tell(r, "a1 a7 s1 f7 e1x e7", Call("fold", r[1], (r[7],)))),
    (sentence.slots_are_kept, "2 were active", lambda r: tell(r, "a1 a5 s1 s5 e1 e5", max_active=1)),
]  # fmt: skip
CHECKERS: Final = dict.fromkeys(checker for checker, _, _ in BAD)


@pytest.mark.parametrize(("checker", "complaint", "story"), BAD)
def test_a_bad_history_is_rejected(
    checker: Callable[[History], None], complaint: str, story: Callable[[list[AnyRun]], History]
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        checker(story(make_runs()))


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_good_history_is_accepted(checker: Callable[[History], None]) -> None:
    runs = make_runs()
    checker(tell(runs, "a1 a2 s1 d2 e2x e1 a3 s3 e3", canceled(runs[2], at=45, scope=Scope.WAITING)))
