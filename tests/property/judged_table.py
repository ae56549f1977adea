"""A table that is followed by the naive model, call by call.

Each call that a driver makes is made on the model too, in the order in which the driver makes them;
what the driver then performs must be what the model says, exactly. For calls from one thread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from sessionsched import (
    CancelReceipt,
    Cause,
    Effect,
    How,
    Limits,
    Refused,
    Run,
    RunState,
    Scope,
    Table,
)
from sessionsched.outbox import Outbox, one_by_one
from sessionsched.testing.crowd import Prompt
from sessionsched.testing.naive import Naive, NaiveSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    AnyRun: TypeAlias = Run[Prompt]


class JudgedOrders(deque[tuple[Any, Any, float]]):
    """Orders that say what is performed: each when it is taken, before that is done."""

    def __init__(self, performing: Callable[[Effect, AnyRun], None]) -> None:
        super().__init__()
        self._performing = performing

    def popleft(self) -> tuple[Any, Any, float]:
        order, about, at = super().popleft()
        for effect, run in one_by_one(order, about):
            if isinstance(effect, Effect):  # else somebody subscribes
                self._performing(effect, run)
        return order, about, at


class JudgedOutbox(Outbox):
    """An outbox that says what is performed."""

    def __init__(self, performing: Callable[[Effect, AnyRun], None]) -> None:
        super().__init__()
        self.effects = JudgedOrders(performing)  # type: ignore[misc]  # nobody has seen the other
        self.append = self.effects.append


class JudgedTable(Table[Prompt]):
    """A table that makes every call on the naive model too."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.outbox = JudgedOutbox(self.performing)
        self.naive = Naive(limits.max_active)
        #: How many of the model's effects have been performed.
        self.performed = 0
        #: In which the two differ, or the driver has done wrong.
        self.complaints: list[str] = []

    def agree(self, what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            self.complaints.append(f"{what}: {ours}, and by the naive model {theirs}")

    # --- prompts ---

    def accept(self, run: AnyRun, now: float, ready: bool = True) -> AnyRun:  # noqa: FBT001,FBT002 - as the table has it
        fresh = super().run(run.run_id) is None
        refused = fresh and self.naive.refuses(
            run.session_id, run.when_busy, self.limits.max_waiting
        )
        try:
            known = super().accept(run, now, ready=ready)
        except Refused:
            self.agree(f"refusal of {run}", ours=True, theirs=refused)
            raise
        self.agree(f"refusal of {run}", ours=False, theirs=refused)
        if known is run:
            self.naive.accept(run.session_id, run.seq, run.when_busy, ready=ready)
        return known

    def ready(self, run: AnyRun, now: float) -> bool:
        if answer := super().ready(run, now):
            self.naive.ready(run.seq)
        return answer

    def withdraw(
        self,
        run: AnyRun,
        now: float,
        failure: BaseException | None = None,
        *,
        cause: Cause = Cause.WITHDRAWN,
    ) -> bool:
        if answer := super().withdraw(run, now, failure, cause=cause):
            self.naive.withdraw(run.seq, failed=failure is not None)
        return answer

    # --- cancels ---

    def cancel(
        self,
        session_id: str,
        now: float,
        *,
        scope: Scope = Scope.ALL,
        up_to: int | None = None,
        hold: bool = False,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[Prompt]:
        receipt = super().cancel(session_id, now, scope=scope, up_to=up_to, hold=hold, cause=cause)
        taken = set(self.naive.sessions.get(session_id, NaiveSession()).taken)
        covered = self.naive.cancel(session_id, scope, up_to, cause, hold=hold)
        named = {run.seq for run in receipt.covered}
        self.agree(f"cancel of {session_id}", named - taken, set(covered))
        return receipt

    def cancel_run(
        self,
        run: AnyRun,
        now: float,
        *,
        scope: Scope = Scope.ALL,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[Prompt]:
        receipt = super().cancel_run(run, now, scope=scope, cause=cause)
        if run.state is RunState.ENDED:
            self.agree(f"cancel of {run}", bool(receipt), theirs=False)
            return receipt
        session = self.naive.owner(run.seq)
        where = Scope.ACTIVE if run.seq in (session.active, *session.taken) else Scope.WAITING
        covered = self.naive.cancel_run(run.seq, cause) if scope in (where, Scope.ALL) else []
        self.agree(f"cancel of {run}", bool(receipt), bool(covered))
        return receipt

    def cancel_all(self, now: float) -> tuple[CancelReceipt[Prompt], ...]:
        receipts = super().cancel_all(now)
        for name in list(self.naive.sessions):
            self.naive.cancel(name, Scope.ALL, None, Cause.INTERRUPT)
        return receipts

    # --- what the driver reports ---

    def finish(
        self,
        run: AnyRun,
        how: How,
        now: float,
        result: object = None,
        error: BaseException | None = None,
    ) -> bool:
        abandoned = run.ended is not None and run.ended.abandoned
        answer = super().finish(run, how, now, result=result, error=error)
        self.agree(f"report {how} of {run}", answer or abandoned, theirs=True)
        if answer:
            self.naive.finish(run.seq, how)
        return answer

    def settle_all(
        self, runs: Sequence[AnyRun], now: float, error: BaseException | None = None
    ) -> bool:
        ending = [run.state is RunState.ENDING for run in runs]
        self.agree(f"report of the drops of {runs}", ending, [True] * len(runs))
        answer = super().settle_all(runs, now, error)
        for run in runs:
            self.naive.settle(run.seq)
        return answer

    def fold(self, taker: AnyRun, now: float) -> tuple[AnyRun, ...]:
        taken = super().fold(taker, now)
        theirs = [] if taker.state is RunState.ENDED else self.naive.fold(taker.seq)
        self.agree(f"fold into {taker}", [run.seq for run in taken], theirs)
        return taken

    def performing(self, effect: Effect, run: AnyRun) -> None:
        """See whether this is what the model would have performed now."""
        ours: tuple[object, ...] = (effect, run.seq)
        if run.ended is not None and effect is Effect.END:
            ours += (run.ended.status, run.ended.cause)
        theirs = self.naive.out[self.performed : self.performed + 1]
        self.agree(f"effect {self.performed}", [ours], theirs)
        self.performed += 1

    # --- the line, and closing ---

    def hold(self, session_id: str) -> bool:
        if answer := super().hold(session_id):
            self.naive.hold(session_id)
        return answer

    def resume(self, session_id: str, now: float) -> bool:
        if answer := super().resume(session_id, now):
            self.naive.resume(session_id)
        return answer

    def promote(self, run: AnyRun, now: float) -> bool:
        if answer := super().promote(run, now):
            self.naive.promote(run.seq)
        return answer

    def close(self, now: float) -> None:
        super().close(now)
        self.naive.close()

    def suspend_active(self, now: float) -> None:
        super().suspend_active(now)
        self.naive.suspend_active()
