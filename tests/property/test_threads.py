# ruff: noqa: E501 - a table of stories reads better with each in one line
"""Many threads at one table: whatever they do at the same time, the history keeps the contract."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import queue
import random
import sys
import threading
import time
from collections import deque
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
    Run,
    Scope,
    Status,
    WhenBusy,
)
from sessionsched.slots import Slots
from sessionsched.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.table import Record

#: Few, so that threads collide, and sessions fall idle and are made anew all the time.
SESSIONS: Final = ("a", "b", "c")
#: Nothing takes that long but a deadlock.
STUCK_S: Final = 60.0


class SeenTable(Table[str]):
    """A table that shows what happens inside."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        #: Whoever found a record that is freed before its lock is free looks again.
        self.looks: list[tuple[int, Record[str]]] = []
        #: When this thread's call began, and what all sessions answered it.
        self.own = threading.local()

    def _make(self, session_id: str) -> Record[str]:
        record = super()._make(session_id)
        self.looks.append((self.own.began, record))
        return record

    def _ask_each(self, question: Callable[[Record[str]], Any]) -> list[Any]:
        self.own.answers = super()._ask_each(question)
        return list(self.own.answers)


def seeded(*seed: int) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - to do the same again is the point


class Hammer:
    """One table, the threads around it, and what they write down."""

    def __init__(self, limits: Limits, steps: int, seed: int = 0) -> None:
        self.table = SeenTable(limits)
        self.history = History(max_active=limits.max_active, remembered=limits.remembered)
        self.tick = itertools.count(1).__next__
        self.steps, self.seed = steps, seed
        self.performing = threading.Lock()
        #: Effects that were performed while another one was.
        self.overlaps = 0
        self.orders: queue.SimpleQueue[tuple[Effect, AnyRun, int] | None] = queue.SimpleQueue()
        self.counting = threading.Lock()
        #: Orders that are not carried out, and one more while somebody may still ask.
        self.open = 1
        self.half_way = threading.Event()
        self.lately: deque[AnyRun] = deque(maxlen=8)
        self.failures: list[BaseException] = []

    def ask(self, name: str, *about: Any, **how: Any) -> Any:
        """Call a method of the table, write it down, and drain as a driver does."""
        began = self.table.own.began = self.tick()
        try:
            answer = getattr(self.table, name)(*about, now=self.tick(), **how)
        except Refused as refusal:
            answer = refusal
        if name in sentence.CLOSING:
            answer = tuple(self.table.own.answers)
        call = Call(name, about[0] if about else "", answer, began, self.tick(), how)
        self.history.calls.append(call)
        self.table.drain(self.perform)
        return answer

    def perform(self, effect: Effect, run: AnyRun, _at: float) -> None:
        alone = self.performing.acquire(blocking=False)
        self.overlaps += not alone
        self.history.told.append(Told(effect, run, self.tick(), run.ended))
        slow = effect is Effect.ACCEPTED and run.prompt == "slow"
        if slow or effect in (Effect.START, Effect.INTERRUPT, Effect.DROP):
            with self.counting:
                self.open += 1
            self.orders.put((effect, run, run.seq % 4))
        if alone:
            self.performing.release()

    def submit(self, rng: random.Random) -> None:
        kinds = (*WhenBusy, *[WhenBusy.QUEUE] * 5, *[WhenBusy.FOLD] * 5)
        for step in range(self.steps):
            if step * 2 >= self.steps:
                self.half_way.set()
            self.handle(rng, enough=10)
            session, prompt = rng.choice(SESSIONS), rng.choice(("quick", "quick", "slow"))
            run: AnyRun = Run(session, prompt, when_busy=rng.choice(kinds))
            if rng.random() < 0.3:  # all come by the same ids at about the same time
                session = SESSIONS[step // 4 % 3] if rng.random() < 0.6 else session
                run = Run(session, prompt, f"id-{step // 4}")
            if isinstance(taken := self.ask("accept", run, ready=prompt != "slow"), Run):
                self.lately.append(taken)

    def cancel(self, rng: random.Random) -> None:
        for _ in range(self.steps // 2):
            session = rng.choice(SESSIONS)
            cause = rng.choice((Cause.INTERRUPT, Cause.INTERRUPT, Cause.EXPIRED))
            how: dict[str, Any] = {"scope": rng.choice((Scope.ALL, *Scope)), "cause": cause}
            what: list[tuple[str, AnyRun | str, dict[str, Any]]] = [
                ("cancel", session, {}),
                ("cancel", session, how | {"hold": rng.random() < 0.5}),
                ("resume", session, {}),
            ]
            if self.lately:
                run = rng.choice(self.lately)
                run = self.table.run(run.run_id) or run  # found by its id, as people do
                what += [("cancel", run.session_id, how | {"up_to": run.seq})]
                what += [("cancel_run", run, how), ("promote", run, {})]
            name, about, how = rng.choice(what)
            self.ask(name, about, **how)

    def close(self, _rng: random.Random) -> None:
        self.half_way.wait()
        self.ask("close")
        self.ask("suspend_active")

    def handle(self, rng: random.Random, enough: int = -1) -> None:
        """Carry out orders: until no more can come, or else until few enough are open."""
        with contextlib.suppress(queue.Empty):
            while self.open > enough:
                if (order := self.orders.get(block=enough < 0)) is None:
                    self.orders.put(None)  # for the next one to see
                    break
                self.carry_out(rng, *order)

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
            self.ask("finish", run, rng.choice((How.STOPPED, How.ABANDONED)), result=self.tick())
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

    def strike(self, *, closing: bool = False) -> History:
        """Let them all loose. Gives the history once nothing is left to do."""
        asking = [self.submit] * 4 + [self.cancel] * 3 + [self.close] * closing
        together = threading.Barrier(len(asking) + 3)
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            handlers = [self.thread(self.handle, n, together) for n in range(3)]
            self.join([self.thread(ask, n, together) for n, ask in enumerate(asking, 3)])
            for session in SESSIONS:
                self.ask("resume", session)
            self.order_done()
            self.join(handlers)
        finally:
            sys.setswitchinterval(before)
        if self.failures:
            raise self.failures[0]
        assert not self.overlaps, f"{self.overlaps} effects were performed during another"
        return self.history

    def thread(
        self, body: Callable[[random.Random], None], number: int, together: threading.Barrier
    ) -> threading.Thread:
        chance = seeded(self.seed, -number).random

        def give_way(frame: Any, _event: str, _arg: object) -> None:
            # Called as functions come and go. What happens in between takes less than 1 us.
            if chance() < 0.05 and frame.f_globals["__name__"].startswith("sessionsched."):
                time.sleep(0)  # waits for nothing, but lets another thread go on

        def run() -> None:
            together.wait(STUCK_S)
            sys.setprofile(give_way)
            try:
                body(seeded(self.seed, number))
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
                faulthandler.dump_traceback(file=2)
                pytest.fail(f"a thread is stuck, stderr says where; {self.failures=}")


def nothing_is_left(table: Table[str]) -> None:
    """R1, D4: no session, no effect, no slot taken, and no run but the last named ones."""
    assert not table.snapshot().sessions, f"stranded: {table.snapshot()}"
    assert not len(table.outbox), "effects that nobody performed"
    assert not table.ids.in_flight, f"in flight for ever: {table.ids.in_flight}"
    assert sorted(table.ids.named) == sorted(table.ids.ended), (
        f"{table.ids.named}, not {table.ids.ended}"
    )
    assert len(table.ids.ended) <= table.limits.remembered, "more than it may remember"
    if isinstance(slots := table._slots, Slots):
        assert (slots._free, len(slots._asking)) == (table.limits.max_active, 0), "slots are lost"


def corners(hammer: Hammer) -> set[object]:
    """What the threads came by."""
    history, looks = hammer.history, hammer.table.looks
    seen: set[object] = {outcome.cause for _, outcome in history.ends()}
    seen |= {type(call.answer) for call in history.named("accept")}
    seen |= {call.name for call in history.calls if call.answer}
    seen |= {"looked again"} if len(looks) > len({began for began, _ in looks}) else set()
    seen |= {"made anew"} if len({record for _, record in looks}) > len(SESSIONS) else set()
    return seen


def hammer_until(due: set[object], max_active: int | None, *, closing: bool) -> None:
    """Strike many times and judge each, until they have come by these corners."""
    limits = Limits(max_waiting=6, max_active=max_active, remembered=20)
    seen: set[object] = set()
    for seed in range(1000):
        if seed >= 40 and seen >= due:  # what comes up is a matter of luck, so try some more
            break
        # A long one, and many short ones: what is left behind only shows at an end.
        hammer = Hammer(limits, 20 if seed else 200, seed)
        history = hammer.strike(closing=closing)
        nothing_is_left(hammer.table)
        for checker in CHECKERS:
            checker(history)
        seen |= corners(hammer)
    assert seen >= due


@pytest.mark.contract(
    "R4", "A2", "A3", "A4", "A5", "D1", "D2", "D4", "X1", "X2", "X5", "X7", "X9", "X10", "X11",
    "X12", "X14", "F1", "F2", "F3", "T1", "T2", "R1",
)  # fmt: skip
@pytest.mark.parametrize("max_active", [None, 2])
def test_whatever_threads_do_at_once_the_history_keeps_the_contract(max_active: int | None) -> None:
    due = {"looked again", "made anew", "fold", "promote", "resume", "ready", "cancel_run"}
    refusals = {DuplicateRun, LineFull, SessionBusy}
    causes = {None, *Cause} - {Cause.DEADLINE, Cause.SHUTDOWN}
    hammer_until(due | refusals | causes, max_active, closing=False)


@pytest.mark.contract("S5", "S2", "X12", "R1", "R4")
@pytest.mark.parametrize("max_active", [None, 2])
def test_a_prompt_that_races_the_close_is_refused_or_ends(max_active: int | None) -> None:
    due = {"looked again", "made anew", SchedulerClosed, Cause.SHUTDOWN, Cause.INTERRUPT}
    hammer_until(due, max_active, closing=True)


@pytest.mark.contract("D5")
def test_a_session_whose_lock_is_held_delays_no_other() -> None:
    hammer = Hammer(Limits(), steps=50)
    hammer.ask("accept", Run("stuck", "quick"), ready=False)
    with hammer.table._sessions["stuck"].lock:
        hammer.strike()
    assert list(hammer.table._sessions) == ["stuck"]


# --- the checkers themselves ---

EFFECTS: Final = {effect.value[0]: effect for effect in Effect}
ENDS: Final = {
    "": (Status.COMPLETED, None),
    "x": (Status.CANCELED, Cause.INTERRUPT),
    "p": (Status.CANCELED, Cause.SUPERSEDED),
    "z": (Status.SUSPENDED, Cause.SHUTDOWN),
}


def make_runs() -> list[AnyRun]:
    """Runs by their seq. 3 and 4 have one id, 5 is of another session, 7 is a FOLD, 8 LATEST."""
    kinds = [WhenBusy.QUEUE] * 7 + [WhenBusy.FOLD, WhenBusy.LATEST]
    runs: list[AnyRun] = [Run("s", "p", f"r{seq}", kind) for seq, kind in enumerate(kinds)]
    for seq, run in enumerate(runs):
        run.seq = seq
    runs[4].name, runs[5].session_id = "r3", "t"
    return runs


def tell(runs: list[AnyRun], script: str, *calls: Call, max_active: int | None = None) -> History:
    """A history in words like `a1 s1 e1x`: effect, run and, for an END, how. One word, ten ticks."""
    history = History([*calls], max_active=max_active, remembered=len(runs))
    for tick, word in zip(itertools.count(10, 10), script.split(), strict=False):
        effect, run = EFFECTS[word[0]], runs[int(word[1])]
        if effect is Effect.ACCEPTED:
            history.calls.append(Call("accept", run, run, tick, tick))
        if effect is Effect.END:
            history.calls.append(Call("finish", run, True, tick, tick))
            run.accepted_at, run.started_at = 0.0, None if f"d{run.seq}" in script else 0.0
            run.conclude(ENDS[word[2:]], None, None, 0.0)
        history.told.append(Told(effect, run, tick, run.ended))
    return history


def canceled(*runs: AnyRun, mark: int = 2, at: int = 100, **how: Any) -> Call:
    return Call("cancel", "s", CancelReceipt("s", mark, dropped=runs), at, at, how)


BAD: Final[list[tuple[Callable[[History], None], str, Callable[[list[AnyRun]], History]]]] = [
    (sentence.seqs_rise_in_accept_order, "was told after", lambda r: tell(r, "a2 a1")),
    (sentence.seqs_rise_in_accept_order, "came after seq 5", lambda r: tell(r, "a5 a1")),
    (sentence.every_run_ends_once, "no end", lambda r: tell(r, "a1 s1")),
    (sentence.every_run_ends_once, "ends too many", lambda r: tell(r, "a1 s1 e1 e1")),
    (sentence.every_run_ends_once, "not told", lambda r: tell(r, "", Call("accept", r[1], r[1]))),
    (sentence.every_run_ends_once, "too many", lambda r: tell(r, "a1 e1", Call("settle", r[1], True))),
    (sentence.an_id_is_one_run, "has that id", lambda r: tell(r, "a3 s3 e3 a4")),
    (sentence.an_id_is_one_run, "for <Run r2", lambda r: tell(r, "a1", Call("accept", r[2], r[1]))),
    (sentence.what_was_refused_left_no_trace, "refused", lambda r: tell(r, "", Call("accept", r[1], LineFull("")))),
    (sentence.a_close_loses_nothing, "accepted after", lambda r: tell(r, "a1", Call("close", "", (), 1, 2))),
    (sentence.a_close_loses_nothing, "refused before", lambda r: tell(r, "", Call("accept", r[1], SchedulerClosed(""), 1, 2), Call("close", "", (), 3, 4))),
    (sentence.a_close_loses_nothing, "lost", lambda r: tell(r, "a1 s1 e1", Call("suspend_active", "", (), 15, 16))),
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
    (sentence.follow_ups_end_with_their_taker, ", not ", lambda r: tell(r, "a1 a7 s1 f7 e1x e7", Call("fold", r[1], (r[7],)))),
    (sentence.slots_are_kept, "2 were active", lambda r: tell(r, "a1 a5 s1 s5 e1 e5", max_active=1)),
]  # fmt: skip
CHECKERS: Final = dict.fromkeys(checker for checker, _, _ in BAD)


@pytest.mark.parametrize(("checker", "complaint", "story"), BAD)
def test_a_bad_history_is_rejected(
    checker: Callable[[History], None], complaint: str, story: Callable[[list[AnyRun]], History]
) -> None:
    with pytest.raises(AssertionError, match=complaint):
        checker(story(make_runs()))


def test_what_is_left_and_what_is_performed_at_once_is_noticed() -> None:
    hammer = Hammer(Limits(), steps=0)
    with hammer.performing:
        hammer.ask("accept", Run("a", "quick"), ready=False)
    with pytest.raises(AssertionError, match="stranded"):
        nothing_is_left(hammer.table)
    with pytest.raises(AssertionError, match="performed during another"):
        hammer.strike()
