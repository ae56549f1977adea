"""A world: the real table, put into any situation, and one call made there.

Rule 1. It is the real `Table` that moves; what is here only loads it, pokes it and reads it.
Rule 2. What `load` writes and `sessions` reads are all the fields that a decision can depend on, so
        that the same situation has the same future. (A test looks at every field of a session.)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sessionsched.line import Line
from sessionsched.model import (
    Cause,
    Effect,
    How,
    Limits,
    Run,
    RunState,
    Scope,
    Status,
    WhenBusy,
)
from sessionsched.outbox import one_by_one
from sessionsched.table import Record, Table
from sessionsched.testing.explore.situation import (
    CAUSES,
    CODES,
    STATES,
    FrozenRun,
    FrozenSession,
    frozen_run,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from sessionsched.testing.explore.situation import Action, Config, Frozen, Out

    AnyRun: TypeAlias = Run[str]

__all__ = ["World"]


class World:
    """One table that can be put into any situation."""

    def __init__(self, config: Config) -> None:
        self.config = config
        limits = Limits(max_waiting=config.most, max_active=config.slots, remembered=0)
        self.table: Table[str] = Table(limits)
        self.runs: dict[int, AnyRun] = {}

    # --- putting the table into a situation ---

    def load(self, situation: Frozen) -> None:
        """Make the table what it was in `situation`."""
        table = self.table
        table.outbox.effects.clear()
        table._sessions = {}  # noqa: SLF001
        table._closed = situation.closing > 0  # noqa: SLF001
        self.runs = {}
        for session in situation.sessions:
            self._thaw(session)
        for _, seq, name in situation.pending:
            if seq not in self.runs:
                self.runs[seq] = _ended(seq, name)
        in_flight = (run for run in self.runs.values() if run.state is not RunState.ENDED)
        table.ids.in_flight = {run.seq: run for run in in_flight}
        table.ids.seqs = itertools.count(max(self.runs, default=0) + 1)
        if self.config.slots is not None:
            self._thaw_slots(self.config.slots, situation)

    def _thaw(self, it: FrozenSession) -> None:
        table = self.table
        record: Record[str] = Record(it.name, table.outbox, table._slots)  # noqa: SLF001
        table._sessions[it.name] = record  # noqa: SLF001
        record.state, record.mark, record.newest = STATES[it.state], it.mark, it.newest
        record.held = it.held
        for each in it.line:
            state = RunState.QUEUED if each.ready else RunState.ACCEPTED
            record.append(self._thaw_run(each, state, record))
        if it.ending:
            record.ending = Line()
        for each in it.ending:
            record.ending.append(self._thaw_run(each, RunState.ENDING, record))
        if it.active is not None:
            record.active = self._thaw_run(it.active, RunState.ACTIVE, record)
            if it.taken:
                record.active.own.folded = tuple(
                    self._thaw_run(each, RunState.FOLDED, record) for each in it.taken
                )

    def _thaw_run(self, it: FrozenRun, state: RunState, record: Record[str]) -> AnyRun:
        policy = WhenBusy.FOLD if it.follows_up else WhenBusy.QUEUE
        run: AnyRun = Run(record.session_id, "prompt", "", policy)
        run.seq, run.state, run.session = it.seq, state, record
        run.cause = CAUSES[it.cause]
        if it.promoted:
            run.own.promoted = True
        self.runs[it.seq] = run
        return run

    def _thaw_slots(self, slots: int, situation: Frozen) -> None:
        held: Any = self.table._slots  # noqa: SLF001
        held._free = slots - sum(it.active is not None for it in situation.sessions)  # noqa: SLF001
        held._asking.clear()  # noqa: SLF001
        for name in situation.asking:
            held._asking[self.table._sessions[name]] = None  # noqa: SLF001

    # --- reading it ---

    def sessions(self) -> tuple[FrozenSession, ...]:
        """Say how the sessions of the table stand now."""
        records = self.table._sessions  # noqa: SLF001
        return tuple(_freeze(records[name]) for name in sorted(records))

    def asking(self) -> tuple[str, ...]:
        """Say which sessions ask for a slot."""
        if self.config.slots is None:
            return ()
        held: Any = self.table._slots  # noqa: SLF001
        return tuple(record.session_id for record in held._asking)  # noqa: SLF001

    def effects(self) -> list[Out]:
        """Take what was ordered since the last time, as the naive model writes it."""
        ordered = self.table.outbox.effects
        found = [_out(*one) for order, about, _ in ordered for one in one_by_one(order, about)]
        ordered.clear()
        return found

    # --- one step ---

    def act(self, action: Action) -> object:
        """Do to the table what the action says, and give what it answered."""
        verb, *args = action
        return getattr(self, f"_{verb}")(*args)

    def _accept(self, name: str, policy: WhenBusy, ready: bool) -> object:  # noqa: FBT001
        run: AnyRun = Run(name, "prompt", "", policy)
        self.table.accept(run, 0.0, ready=ready)
        self.runs[run.seq] = run
        return True

    def _ready(self, seq: int) -> object:
        return self.table.ready(self.runs[seq], 0.0)

    def _withdraw(self, seq: int, failed: bool) -> object:  # noqa: FBT001
        return self.table.withdraw(self.runs[seq], 0.0, ValueError() if failed else None)

    def _cancel(self, name: str, scope: Scope, up_to: int | None, hold: bool) -> object:  # noqa: FBT001
        return self.table.cancel(name, 0.0, scope=scope, up_to=up_to, hold=hold)

    def _cancel_run(self, seq: int, scope: Scope, cause: Cause) -> object:
        return self.table.cancel_run(self.runs[seq], 0.0, scope=scope, cause=cause)

    def _finish(self, seq: int, how: How) -> object:
        return self.table.finish(self.runs[seq], how, 0.0)

    def _settle(self, seq: int) -> object:
        return self.table.settle(self.runs[seq], 0.0)

    def _fold(self, seq: int) -> object:
        self.table.fold(self.runs[seq], 0.0)
        return True  # taking nothing is an answer too

    def _hold(self, name: str) -> object:
        return self.table.hold(name)

    def _resume(self, name: str) -> object:
        return self.table.resume(name, 0.0)

    def _promote(self, seq: int) -> object:
        return self.table.promote(self.runs[seq], 0.0)

    def _close(self) -> object:
        self.table.close(0.0)
        return True

    def _suspend_active(self) -> object:
        self.table.suspend_active(0.0)
        return True


def _freeze(record: Record[str]) -> FrozenSession:
    active = record.active
    return FrozenSession(
        record.session_id,
        record.mark,
        record.newest,
        record.held,
        None if active is None else _freeze_run(active),
        () if active is None else tuple([_freeze_run(run) for run in active.folded]),
        tuple([_freeze_run(run) for run in record]),
        tuple([_freeze_run(run) for run in record.ending]),
        STATES.index(record.state),
    )


def _freeze_run(run: AnyRun) -> FrozenRun:
    # Whether it was ready matters to a run that waits; whether it follows up or was promoted, too.
    waits = run.waiting
    return frozen_run(
        run.seq,
        run.state is RunState.QUEUED,
        CODES[run.cause],
        waits and run.follows_up,
        waits and run.promoted,
    )


def _out(effect: Effect, run: AnyRun) -> Out:
    if effect is Effect.END and run.state is RunState.ENDED:
        return (effect, run.seq, *run.verdict)
    return (effect, run.seq)


def _ended(seq: int, name: str) -> AnyRun:
    run: AnyRun = Run(name, "prompt", f"ended-{seq}")
    run.seq, run.accepted_at, run.started_at = seq, 0.0, 0.0
    run.conclude((Status.COMPLETED, None), None, None, 0.0)
    return run
