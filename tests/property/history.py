"""A history: what threads asked of one table, what it answered and what it ordered, to be judged.

Rule 1. Calls carry two ticks of one counter: one that ended before another began came first.
Rule 2. Effects stand in the order in which they were performed: for one session, the order of its
        decisions. So each is judged by what the session had in flight just then.
Rule 3. For each checker, test_threads.py has bad histories that it must reject.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import Factory, define, evolve, frozen

from sessionsched.errors import Refused, SchedulerClosed
from sessionsched.model import CancelReceipt, Cause, Effect, Run, RunState, Scope, Status, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sessionsched.model import Outcome

AnyRun: TypeAlias = Run[str]
Receipt: TypeAlias = CancelReceipt[str]
COVERS: Final = (Effect.DROP, Effect.INTERRUPT)
SUPERSEDES: Final = (WhenBusy.INTERRUPT, WhenBusy.LATEST)
#: What a covered run ends as, where that is not CANCELED. Any INTERRUPT beats these.
WEAK: Final = {Cause.SHUTDOWN: Status.SUSPENDED, Cause.UNPREPARED: Status.FAILED}
CLOSING: Final = {"close": Scope.WAITING, "suspend_active": Scope.ACTIVE}


@frozen
class Call:
    """One call of a method of the table: what was asked, what came back, and from when to when."""

    name: str
    about: AnyRun | str
    answer: Any
    began: int = 0
    ended: int = 0
    how: Mapping[str, Any] = Factory(dict)

    @property
    def run(self) -> AnyRun | None:
        return self.about if isinstance(self.about, Run) else None

    @property
    def scope(self) -> Scope:
        return CLOSING.get(self.name) or self.how.get("scope", Scope.ALL)

    @property
    def cause(self) -> Cause:
        if self.name == "withdraw":
            return Cause.UNPREPARED if self.how.get("failure") else Cause.WITHDRAWN
        return Cause.SHUTDOWN if self.name in CLOSING else self.how.get("cause", Cause.INTERRUPT)

    @property
    def receipts(self) -> list[Receipt]:
        """What it got for its cancel. Closing gets one from each session."""
        answers = self.answer if isinstance(self.answer, tuple) else (self.answer,)
        return [it for it in answers if isinstance(it, CancelReceipt)]

    @property
    def covered(self) -> list[AnyRun]:
        """What it covered, by its own account."""
        if self.run is not None and self.name == "withdraw":
            return [self.run] * self.answer
        return [run for receipt in self.receipts for run in receipt.covered]


@frozen
class Told:
    """One effect, and the outcome that its run had when it was performed."""

    effect: Effect
    run: AnyRun
    tick: int = 0
    outcome: Outcome[int] | None = None


@define
class InFlight:
    """What one session has in flight, by what its effects have told so far."""

    newest: int = 0
    line: list[AnyRun] = Factory(list)
    active: AnyRun | None = None
    #: What the active run took.
    folded: list[AnyRun] = Factory(list)
    #: Covered, and not ended: dropped runs, and the active one.
    covered: list[AnyRun] = Factory(list)

    @property
    def uncovered(self) -> list[AnyRun]:
        if self.active is None or self.active in self.covered:
            return [*self.line]
        return [self.active, *self.folded, *self.line]

    def tell(self, told: Told) -> None:
        run, effect = told.run, told.effect
        if effect is not Effect.QUEUED:
            self.line = [other for other in self.line if other is not run]
        if effect is Effect.ACCEPTED:
            self.newest = max(self.newest, run.seq)
            self.line.append(run)
        elif effect is Effect.START:
            self.active, self.folded = run, []
        elif effect is Effect.FOLDED:
            self.folded.append(run)
        elif effect in COVERS:
            self.covered.append(run)
        elif effect is Effect.END:
            self.covered = [other for other in self.covered if other is not run]
            self.active = None if run is self.active else self.active


@define
class History:
    """Everything that was asked and told, until nothing was left to do."""

    calls: list[Call] = Factory(list)
    told: list[Told] = Factory(list)
    max_active: int | None = None
    remembered: int = 0

    def named(self, name: str) -> list[Call]:
        return [call for call in self.calls if call.name == name]

    def accepting(self) -> list[Call]:
        return [call for call in self.named("accept") if call.answer is call.run]

    def ends(self) -> Iterator[tuple[AnyRun, Outcome[int]]]:
        for told in self.told:
            if told.effect is Effect.END:
                assert told.outcome is not None, f"{told.run} was announced without an outcome"
                yield told.run, told.outcome

    def takers(self) -> dict[AnyRun, AnyRun]:
        return {run: call.run for call in self.named("fold") if call.run for run in call.answer}

    def reports(self) -> list[tuple[AnyRun, Call]]:
        over = self.named("finish") + self.named("settle")
        return [(call.run, call) for call in over if call.run and call.answer]

    def ended_by(self) -> dict[AnyRun, Call]:
        over = dict(self.reports())
        return over | {run: over[taker] for run, taker in self.takers().items() if taker in over}

    def retold(self) -> Iterator[tuple[Told, InFlight, Sequence[Told]]]:
        """Each effect, with what its session had in flight just before, and told just after."""
        streams: dict[str, list[Told]] = defaultdict(list)
        for told in self.told:
            streams[told.run.session_id].append(told)
        for stream in streams.values():
            flight = InFlight()
            for index, told in enumerate(stream):
                yield told, flight, stream[index + 1 : index + 200]
                flight.tell(told)

    def cancels(self) -> Iterator[tuple[Call, Receipt, InFlight, Sequence[Told]]]:
        """Each receipt that was the first to cover some run, and the moment in which it did so."""
        weakly = {run for call in self.calls if call.cause in WEAK for run in call.covered}
        owners = {
            run: (call, receipt)
            for call in self.calls
            for receipt in call.receipts
            for run in receipt.covered
            if call.cause in WEAK or run not in weakly
        }
        placed: list[int] = []
        for told, flight, after in self.retold():
            call, receipt = owners.get(told.run, (None, None))
            if told.effect in COVERS and call and receipt and id(receipt) not in placed[-1:]:
                placed.append(id(receipt))
                yield call, receipt, flight, (told, *after)


def seqs_rise_in_accept_order(history: History) -> None:
    """A2, by what each session told, and by which calls came first over all sessions."""
    for told, flight, _ in history.retold():
        if told.effect is Effect.ACCEPTED:
            assert told.run.seq > flight.newest, f"{told.run} was told after {flight.newest}"
    done = sorted(history.accepting(), key=lambda call: call.ended, reverse=True)
    greatest = 0
    for call in sorted(done, key=lambda call: call.began):
        while done[-1].ended < call.began:
            greatest = max(greatest, done.pop().answer.seq)
        assert call.answer.seq > greatest, f"{call.answer} came after seq {greatest}"


def an_id_is_one_run(history: History) -> None:
    """A5: an id may be used anew only when its run has ended and may be forgotten."""
    forgetful = sum(call.answer.named for call in history.accepting()) > history.remembered
    for call in history.named("accept"):
        if isinstance(call.answer, Run) and (run := call.run) is not None:
            given = (call.answer.run_id, call.answer.session_id, call.answer.prompt)
            assert (run.run_id, run.session_id, run.prompt) == given, f"{given} for {run}"
    known: dict[str, AnyRun] = {}
    for told in history.told:
        run = known.setdefault(told.run.run_id, told.run)
        assert run is told.run, f"{told.run} while {run} has that id"
        if told.effect is Effect.END and forgetful:
            del known[run.run_id]


def what_was_refused_left_no_trace(history: History) -> None:
    """A4, S5: no seq, no effect, no outcome."""
    told = {told.run for told in history.told}
    for call in history.named("accept"):
        if isinstance(call.answer, Refused) and (run := call.run) is not None:
            trace = (run.seq, run.state, run.ended, run in told)
            assert trace == (0, RunState.NEW, None, False), f"{run} was refused: {trace}"


def a_close_loses_nothing(history: History) -> None:
    """S1, S5: who comes later is refused, and who is in flight when all is suspended is covered."""
    for close, call in itertools.product(history.named("close"), history.named("accept")):
        if call.began > close.ended:
            assert call.answer is not call.run, f"{call.run} was accepted after the close"
        if isinstance(call.answer, SchedulerClosed):
            assert call.ended > close.began, f"{call.run} was refused before the close"
    covered = {run for run, outcome in history.ends() if outcome.cause is Cause.SUPERSEDED}
    covered.update(run for call in history.calls for run in call.covered)
    for close in history.named("suspend_active"):
        for run, call in history.ended_by().items():
            assert run in covered or call.began < close.ended, f"{run} was lost by the close"


def one_run_at_a_time(history: History) -> None:
    """D1: START and END alternate, and only an active run is interrupted."""
    for told, flight, _ in history.retold():
        if told.effect is Effect.START:
            assert flight.active is None, f"{told.run} started while {flight.active} is active"
        if told.effect is Effect.INTERRUPT:
            assert flight.active is told.run, f"{told.run} was interrupted and isn't active"


def runs_start_in_accept_order(history: History) -> None:
    """D2, among those that nobody promoted."""
    promoted = {call.run for call in history.named("promote") if call.answer}
    for told, flight, _ in history.retold():
        if told.effect is Effect.START and told.run not in promoted:
            first = next((run for run in flight.line if run not in promoted), None)
            assert told.run is first, f"{told.run} started, and {first} is first in line"


def every_run_ends_once(history: History) -> None:
    """T1, A3: as many ends as runs, each reported once, with the outcome that the run keeps."""
    taken = Counter(call.answer for call in history.accepting())
    accepted = Counter(told.run for told in history.told if told.effect is Effect.ACCEPTED)
    ended = Counter(run for run, _ in history.ends())
    reports = Counter([*(run for run, _ in history.reports()), *history.takers()])
    assert accepted == taken, f"accepted, not told: {taken - accepted}"
    assert ended == accepted, f"no end: {accepted - ended}; ends too many: {ended - accepted}"
    assert reports == ended, f"no report: {ended - reports}; too many: {reports - ended}"
    over = history.ended_by()
    for run, it in history.ends():
        assert it == run.ended, f"{run} has got another outcome"
        assert it.result == over[run].how.get("result"), f"{run}: {it} by {over[run]}"


def ends_are_told_before_the_next_start(history: History) -> None:
    """T2, P1: when a run starts, nothing that was covered is still to end."""
    for told, flight, _ in history.retold():
        if told.effect is Effect.START:
            assert not flight.covered, f"{told.run} started before the end of {flight.covered}"


def a_dropped_run_never_starts(history: History) -> None:
    """X7, and it is dropped but once."""
    dropped: set[AnyRun] = set()
    for told in history.told:
        if told.run in dropped:
            assert told.effect is Effect.END, f"{told.run} was dropped; then {told.effect}"
        dropped |= {told.run} if told.effect is Effect.DROP else set()
    for run, outcome in history.ends():
        assert outcome.started is (run not in dropped), f"{run}: {outcome}"


def a_cancel_covers_what_came_before(history: History) -> None:
    """X1, by the order of calls alone: who was in flight all the while ends CANCELED."""
    runs = defaultdict(list)
    over = history.ended_by()
    for call in history.accepting():
        runs[call.answer.session_id].append((call.ended, over[call.answer].began, call.answer))
    for call in history.named("cancel"):
        if (call.cause, call.scope, call.how.get("up_to")) == (Cause.INTERRUPT, Scope.ALL, None):
            for accepted, ended, run in runs[str(call.about)]:
                if accepted < call.began and call.ended < ended:
                    assert run.ended.status is Status.CANCELED, f"{run} was in flight: {call}"


def a_cancel_never_covers_what_came_after(history: History) -> None:
    """X2, by the order of calls alone."""
    began = {call.answer: call.began for call in history.accepting()}
    for call in history.calls:
        for run in call.covered:
            assert began[run] < call.ended, f"{run} was not there yet: {call}"


def receipts_name_exactly_what_was_covered(history: History) -> None:
    """X1, X2, X5, X9, X10, X11: all that it asked for and that was in flight, in one step."""
    for call, receipt, flight, rest in history.cancels():
        hit = [run for run in flight.uncovered if _asks_for(call, run, flight)]
        kept = [run for run in flight.uncovered if run not in hit]
        known = flight.covered + (flight.folded if flight.active in flight.covered else [])
        named = [run for run in receipt.covered if run not in known]
        assert set(named) == set(hit), f"covers {hit}, names {named}: {call}"
        assert call.run or set(receipt.kept) == set(kept), f"keeps {kept}: {call}"
        own = [run for run in hit if run not in flight.folded]
        told = {told.run for told in rest[: len(own)] if told.effect in COVERS}
        assert told == set(own), f"covers {own}, told {told}: {call}"
        if call.run is None and call.scope is Scope.ALL:
            fence = min(call.how.get("up_to") or flight.newest, flight.newest)
            assert fence <= receipt.mark <= flight.newest, f"mark {receipt.mark}, not {fence}"


def _asks_for(call: Call, run: AnyRun, flight: InFlight) -> bool:
    """Whether a cancel means a run that is in flight. A folded one is a part of its taker."""
    whole = flight.active if flight.active is not None and run in flight.folded else run
    where = Scope.ACTIVE if whole is flight.active else Scope.WAITING
    below = call.how.get("up_to") is None or whole.seq <= call.how["up_to"]
    return call.run in (None, whole) and call.scope in (Scope.ALL, where) and below


def a_held_line_stands_still(history: History) -> None:
    """X10: after a cancel with `hold` nothing starts, until somebody resumes or all has ended."""
    resumed = [call for call in history.named("resume") if call.answer]
    for call, receipt, flight, rest in history.cancels():
        now = evolve(flight, covered=[*flight.covered], folded=[*flight.folded])
        for told in rest if call.how.get("hold") else ():
            if told.effect is Effect.START:
                by = [it for it in resumed if it.ended > call.began and it.began < told.tick]
                assert receipt.session_id in [it.about for it in by], f"{told.run} started: {call}"
                break
            now.tell(told)
            if not now.uncovered and not now.covered:
                break


def causes_are_kept_apart(history: History) -> None:
    """X11, X12: who was covered is named once and ends so; an INTERRUPT beats a weak cause."""
    causes: dict[AnyRun, list[Cause]] = defaultdict(list)
    for call in history.calls:
        for run in call.covered:
            causes[run].append(call.cause)
    for run, outcome in history.ends():
        named = sorted(causes[run], key=lambda cause: cause in WEAK)
        twice = len(named) > 1 and (named[0] is not Cause.INTERRUPT or named[1] not in WEAK)
        assert not twice, f"{run} was covered more than once: {named}"
        judged = (outcome.status, outcome.cause)
        if not named:
            superseded = outcome.cause is Cause.SUPERSEDED
            assert superseded is (outcome.status is Status.CANCELED), f"{run}: {judged}, no receipt"
        elif named[0] is not Cause.SHUTDOWN or judged != (Status.COMPLETED, None):
            due = (WEAK.get(named[0], Status.CANCELED), named[0])
            assert judged == due, f"{run} is {judged}, covered by {named}"


def superseding_is_one_step(history: History) -> None:
    """X14: what a prompt supersedes is covered, all of it, just before that is accepted."""
    superseded = {run for run, outcome in history.ends() if outcome.cause is Cause.SUPERSEDED}
    for told, flight, after in history.retold():
        if told.effect in COVERS and told.run in superseded:
            rest = (it for it in after if it.effect not in COVERS or it.run not in superseded)
            by = next(rest, told)
            accepted = by.effect is Effect.ACCEPTED and by.run.when_busy in SUPERSEDES
            assert accepted, f"{told.run} was superseded; then {by}"
        if told.effect is Effect.ACCEPTED and told.run.when_busy in SUPERSEDES:
            spared = flight.line if told.run.when_busy is WhenBusy.LATEST else flight.uncovered
            assert not spared, f"{told.run} has not covered {spared}"


def follow_ups_end_with_their_taker(history: History) -> None:
    """F1, F2, F3."""
    takers, outcomes, taken = history.takers(), dict(history.ends()), defaultdict(list)
    for told, flight, after in history.retold():
        if told.effect is Effect.FOLDED:
            taker = takers[told.run]
            assert told.run.follows_up, f"{told.run} was folded into {taker}"
            assert taker in flight.uncovered[:1], f"{taker} isn't active, or covered: {told}"
            taken[taker].append(told.run)
        if told.effect is Effect.END and (own := taken.pop(told.run, [])):
            ended = [it.run for it in after[: len(own)] if it.effect is Effect.END]
            assert ended == own, f"{told.run} took {own}; then ended {ended}"
            like = (outcomes[told.run].status, outcomes[told.run].cause, told.run.run_id)
            for it in (outcomes[run] for run in own):
                assert (it.status, it.cause, it.folded_into) == like, f"{it}, not {like}"


def slots_are_kept(history: History) -> None:
    """Never more runs between their START and their END than there are slots."""
    active: set[AnyRun] = set()
    for told in history.told:
        if told.effect is Effect.START:
            active.add(told.run)
        if told.effect is Effect.END:
            active.discard(told.run)
        most = history.max_active or len(active)
        assert len(active) <= most, f"{len(active)} were active at once"
