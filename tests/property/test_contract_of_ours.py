"""Our own schedulers keep the contract that we ask others to keep; so does the naive model."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import async_solipsism
import pytest
from hypothesis import settings
from test_mutants import MUTANTS

from sessionsched import Cause, Effect, How, RunEnded, Scheduler, Scope, WhenBusy
from sessionsched.hub import Mailbox
from sessionsched.testing.contract import Adapter, Feature, check, contract_for, every_story
from sessionsched.testing.contract.ours import (
    SchedulerAdapter,
    TableAdapter,
    ThreadSchedulerAdapter,
)
from sessionsched.testing.contract.pipe import Peer, PipeAdapter
from sessionsched.testing.naive import Naive
from sessionsched.testing.simulate import Seeded, SimulatedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class VirtualSchedulerAdapter(SchedulerAdapter):
    new_loop = async_solipsism.EventLoop


class SimulatedSchedulerAdapter(SchedulerAdapter):
    """On a loop that takes an order of its own.

    A reader of events would be one more whose turn comes when it comes: ends are noted as they are
    announced.
    """

    patience = 50  # where a pass ends is chosen too: many come to nothing

    def _make(self) -> Scheduler[str, None]:
        scheduler = super()._make()
        self._box: Mailbox[str] = Mailbox("", "", sys.maxsize, self._look)
        scheduler._driver.watch(self._box)
        return scheduler

    def _look(self) -> None:
        while (event := self._box.take()) is not None:
            if isinstance(event, RunEnded):
                self.note_ended(event.seq, event.outcome.status)

    async def _read(self) -> None:
        """There is nothing to read."""


class NaiveAdapter(Adapter):
    """The naive model, driven as the table is."""

    features = TableAdapter.features

    def __init__(self) -> None:
        super().__init__()
        self.naive = Naive()
        self.seq = 0
        self.gone: set[int] = set()

    def _obey(self) -> None:
        out, self.naive.out = self.naive.out, []
        for effect, seq, *more in out:
            if effect is Effect.START:
                self.note_started(seq)
            elif effect is Effect.INTERRUPT:
                self.note_told(seq)
            elif effect is Effect.DROP:
                self.gone.add(seq)
                self.note_dropped(seq)
            elif effect is Effect.END:
                self.note_ended(seq, more[0])

    def accept(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.QUEUE)

    def follow_up(self, session: str) -> int | None:
        return self._take_in(session, WhenBusy.FOLD)

    def _take_in(self, session: str, when_busy: WhenBusy) -> int | None:
        if self.naive.refuses(session, when_busy, 100):
            return None
        self.seq += 1
        self.naive.accept(session, self.seq, when_busy, ready=False)
        self._obey()
        return self.seq

    def ready(self, seq: int) -> None:
        if seq not in self.gone:
            self.naive.ready(seq)
        self._obey()

    def cancel(self, session: str) -> None:
        self._cancel(session, Scope.ALL)

    def cancel_active(self, session: str) -> None:
        self._cancel(session, Scope.ACTIVE)

    def cancel_waiting(self, session: str) -> None:
        self._cancel(session, Scope.WAITING)

    def cancel_up_to(self, session: str, seq: int) -> None:
        self._cancel(session, Scope.ALL, seq)

    def _cancel(self, session: str, scope: Scope, up_to: int | None = None) -> None:
        self.naive.cancel(session, scope, up_to, Cause.INTERRUPT)
        self._obey()

    def cancel_one(self, seq: int) -> None:
        self.naive.cancel_run(seq, Cause.INTERRUPT)
        self._obey()

    def finish(self, seq: int, how: How) -> None:
        self.naive.finish(seq, How.RETURNED if how is How.RETURNED else How.RAISED)
        self._obey()

    def settle(self, seq: int, *, failed: bool) -> None:
        self.naive.settle(seq)
        self._obey()

    def fold(self, seq: int) -> Sequence[int]:
        taken = self.naive.fold(seq)
        self._obey()
        return taken

    def hold(self, session: str) -> None:
        self.naive.hold(session)
        self._obey()

    def resume(self, session: str) -> None:
        if session in self.naive.sessions:
            self.naive.resume(session)
        self._obey()

    def close(self) -> None:
        self.naive.close()
        self.naive.suspend_active()
        self._obey()


def kept_by(make: Callable[[], Adapter], examples: int) -> Any:
    """The contract for one of ours, with so many stories."""
    case = contract_for(make).TestCase
    case.settings = settings(case.settings, max_examples=examples)
    return case


mark = pytest.mark.contract(
    "A2", "A3", "D1", "D2", "D3", "D4", "D5", "X1", "X2", "X3", "X5", "X6", "X7", "X8", "X9",
    "X10", "F1", "F2", "F3", "F4", "T1", "T2", "P1", "P2", "S1", "S2", "S3",
)  # fmt: skip

TestNaive = mark(kept_by(NaiveAdapter, 50))
TestTable = mark(kept_by(TableAdapter, 50))
TestAsyncio = pytest.mark.contract("X13")(mark(kept_by(SchedulerAdapter, 50)))
TestAsyncioOnVirtualTime = pytest.mark.contract("X13")(mark(kept_by(VirtualSchedulerAdapter, 50)))
TestThreads = mark(kept_by(ThreadSchedulerAdapter, 25))


@pytest.mark.contract("X13")
@mark
@pytest.mark.parametrize("seed", range(5))
def test_the_asyncio_scheduler_keeps_the_contract_in_a_chosen_order(seed: int) -> None:
    class InThatOrder(SimulatedSchedulerAdapter):
        new_loop = staticmethod(lambda: SimulatedLoop(Seeded(seed)))  # from its beginning each time

    report = check(InThatOrder, examples=15)
    assert report.ok, str(report)


@pytest.fixture
def reference() -> Iterator[Peer]:
    peer = Peer([sys.executable, "-m", "sessionsched.testing.contract.peer"], patience=60)
    yield peer
    peer.close()


@mark
def test_the_pipe_peer_keeps_the_contract(reference: Peer) -> None:
    report = check(partial(PipeAdapter, reference), examples=25)
    assert report.ok, str(report)


@mark
@pytest.mark.parametrize("make", [NaiveAdapter, TableAdapter])
def test_every_short_story_keeps_the_contract(make: Callable[[], Adapter]) -> None:
    report = every_story(make, calls=3)
    assert report.ok, str(report)
    assert report.examples > 300


def test_the_asyncio_scheduler_has_every_feature() -> None:
    assert SchedulerAdapter.features == frozenset(Feature)


#: What of the broken versions can't be seen through an adapter: marks and causes as such, slots,
#: orders in a driver's hands, prompts that supersede.
UNSEEN = {
    "idle_cancel_records_a_mark": "only the record is left behind",
    "mark_set_one_too_high": "the table drops by its line, not by the mark",
    "a_superseding_prompt_leaves_the_active_run_alone": "no adapter supersedes",
    "orders_arrive_in_the_wrong_order": "it is the explorer's own order",
    "slots_go_to_the_last_that_asked": "no adapter has slots",
    "slot_is_lost_when_its_holder_ends": "no adapter has slots",
}


@pytest.mark.parametrize(
    ("mutate", "sentences"),
    [
        pytest.param(mutate, sentences, id=mutate.__name__)
        for mutate, sentences, _, _ in MUTANTS
        if mutate.__name__ not in UNSEEN
    ],
)
def test_a_broken_table_is_caught_by_the_kit_too(
    mutate: Callable[[pytest.MonkeyPatch], None],
    sentences: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    report = check(TableAdapter)
    assert not report.ok, f"the explorer finds {sentences}"
