"""What every driver does: performs what the table orders, and reports what came of it.

Rule 1. Nothing is decided here. What a handler, a timer or a hook came to is reported to the table,
        and the table says what follows.
Rule 2. After every call on the table comes `obey`: what the table ordered is performed, here or
        wherever such things are performed. Performing never waits and never raises.
Rule 3. A run without a deadline has no timer, and no event is made when nobody listens.
Rule 4. A driver belongs to one process. After a fork the child has a copy whose locks may be held
        by threads that it does not have: every call on it is refused.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Protocol, cast

from sessionsched.driven import as_told
from sessionsched.errors import SchedulerClosed
from sessionsched.events import (
    RunAccepted,
    RunCanceling,
    RunEnded,
    RunFolded,
    RunProgress,
    RunQueued,
    RunStarted,
)
from sessionsched.hooks import Hook
from sessionsched.hub import Hub
from sessionsched.model import PLAIN, Cause, Effect, How, PromptT, RunState, Scope
from sessionsched.outbox import DROPS, ENDS, Outbox
from sessionsched.stopping import Stopping
from sessionsched.table import Table
from sessionsched.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sessionsched.closing import Closing
    from sessionsched.driven import DrivenRun, Terms
    from sessionsched.events import RunEvent
    from sessionsched.hooks import Report
    from sessionsched.hub import Mailbox
    from sessionsched.model import CancelReceipt, Run
    from sessionsched.options import Options

__all__ = ["AT_ONCE", "HEAR", "OVER", "TELL", "WATCH", "Driver", "Timer"]

#: Orders in the outbox that are no effects of a session: let an observer in, tell observers, let
#: one hear again who has caught up, and tell all that nothing will happen any more.
WATCH: Final = "watch"
TELL: Final = "tell"
HEAR: Final = "hear"
OVER: Final = "over"

#: How many orders are performed before others have their turn: some keep giving orders.
AT_ONCE: Final = 1000

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_EFFECT_ACCEPTED: Final = Effect.ACCEPTED
_EFFECT_QUEUED: Final = Effect.QUEUED
_EFFECT_START: Final = Effect.START
_EFFECT_FOLDED: Final = Effect.FOLDED
_EFFECT_INTERRUPT: Final = Effect.INTERRUPT
_EFFECT_DROP: Final = Effect.DROP
_EFFECT_END: Final = Effect.END

_FORKED: Final = "this is a copy made by a fork: the scheduler lives on in the parent process only"


class Timer(Protocol):
    """Something that will be called, unless it is canceled first."""

    def cancel(self) -> None:
        """Don't call it, if it was not called yet."""


class Driver(ABC, Generic[PromptT]):
    """Performs what a table orders."""

    #: Says what time it is, on the clock that all times are on.
    now: Callable[[], float]

    def __init__(self, options: Options) -> None:
        self.options = options
        #: Of the options: looked for once, and not with every run.
        self.handler = options.handler
        #: Whether a submitted run is ready at once: there is no `prepare`.
        self.plain = options.prepare is None
        self.use(Table(options.limits))
        self.waits = Waits(options.limits.max_active)
        #: Why prompts are refused whatever the table would say; None when they are not.
        self.shut: str | None = None
        #: None until somebody closes.
        self.closing: Closing[PromptT] | None = None
        #: Told to stop, and not over.
        self.stopping: Final = Stopping(self)
        #: What will happen to a run unless something else does first: at most one thing.
        self.timers: dict[Run[PromptT], Timer] = {}
        #: Those that are not ready: the call of `prepare`, or the timer of a ticket.
        self._preparing: dict[Run[PromptT], Hook | Timer] = {}
        #: How each order is performed.
        self.do: Final[dict[str, Callable[[Any, float], None]]] = {
            Effect.ACCEPTED: self._accepted,
            Effect.QUEUED: self._queued,
            Effect.START: self._start,
            Effect.FOLDED: self._folded,
            Effect.INTERRUPT: self._interrupt,
            DROPS: self._drop,
            Effect.END: self._end,
            ENDS: self._end_all,
            WATCH: self._watch,
            TELL: self._told,
            HEAR: self._hear,
            OVER: self._over,
        }
        _drivers.add(self)

    def use(self, table: Table[PromptT]) -> None:
        """Perform what this table orders. Before anything has happened to either."""
        self.table: Table[PromptT] = table
        table.driver = self
        #: What was ordered and not performed yet.
        self.orders = table.outbox.effects
        self.hub: Hub[PromptT] = Hub(table.outbox)

    # --- what differs from driver to driver ---

    @abstractmethod
    def obey(self) -> None:
        """Perform what the table has ordered so far, or see to it that it is performed."""

    @abstractmethod
    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        """Have something called at a time on this driver's clock."""

    @abstractmethod
    def call_hook(
        self,
        hook: Callable[..., Any],
        run: DrivenRun[PromptT],
        limit_s: float | None,
        report: Report,
        after: Hook | None = None,
    ) -> Hook:
        """Call a hook of the host's, somewhere else.

        An earlier hook of the same run, which was told to stop, gets as much time to do so first.
        """

    @abstractmethod
    def forsaken(self, run: Run[PromptT]) -> None:
        """Withdraw a run whose ticket was lost. Called by the garbage collector: takes no lock."""

    @property
    def idle(self) -> bool:
        """Whether everything that was ordered has been performed."""
        return self.table.outbox.idle

    @property
    @abstractmethod
    def in_use(self) -> bool:
        """Whether anything has been done with it that a fork would tear apart."""

    @abstractmethod
    def stragglers(self) -> Collection[Run[PromptT]]:
        """Give the runs of which something goes on outside of the table: hooks, the abandoned."""

    @abstractmethod
    def stop_stragglers(self) -> None:
        """Tell them to stop, for a last time."""

    # --- calls ---

    def accept(self, run: Run[PromptT], ready: bool) -> Run[PromptT]:  # noqa: FBT001 - keywords cost
        """Take a run in. Gives that run, or the one that was submitted under its id before."""
        if self.shut is not None:
            raise SchedulerClosed(self.shut, run.session_id, run.run_id or None)
        known = self.table.accept(run, self.now(), ready)
        self.obey()
        return known

    def refuse(self, why: str) -> None:
        """Refuse every call from here on."""
        self.shut = why

    def ready(self, run: Run[PromptT]) -> bool:
        """Its owner has prepared it."""
        answer = self.table.ready(run, self.now())
        self.obey()
        return answer

    def withdraw(
        self,
        run: Run[PromptT],
        failure: BaseException | None = None,
        *,
        cause: Cause = Cause.WITHDRAWN,
    ) -> bool:
        """Its owner gives it back, or could not prepare it."""
        answer = self.table.withdraw(run, self.now(), failure, cause=cause)
        self.obey()
        return answer

    def cancel_run(self, run: Run[PromptT], **how: Any) -> CancelReceipt[PromptT]:
        """Cover one run."""
        receipt = self.table.cancel_run(run, self.now(), **how)
        self.obey()
        return receipt

    def promote(self, run: Run[PromptT]) -> bool:
        """Move a waiting run to the front of its line."""
        answer = self.table.promote(run, self.now())
        self.obey()
        return answer

    def take_follow_ups(self, run: Run[PromptT]) -> tuple[Run[PromptT], ...]:
        """Let follow-ups join the active run."""
        taken = self.table.fold(run, self.now())
        self.obey()
        return taken

    def emit(self, run: Run[PromptT], item: object) -> bool:
        """Show progress of a run that has not ended."""
        if self.shut is not None:
            raise SchedulerClosed(self.shut, run.session_id, run.run_id)
        if run.state is RunState.ENDED:
            return False
        self.tell(RunProgress, run, item)
        return True

    # --- reports ---

    def finish(
        self, run: Run[PromptT], how: How, result: object = None, error: BaseException | None = None
    ) -> None:
        """The handler is over."""
        self.table.finish(run, how, self.now(), result, error)
        self.obey()

    def skipped(self, run: DrivenRun[PromptT], why: BaseException | None = None) -> None:
        """The handler never took a step. As for any prompt that nobody has seen: record that."""
        if self.options.on_dropped is None:
            self.finish(run, How.SKIPPED, error=why)
        else:
            report = partial(self._skip_recorded, run, why)
            self.call_hook(self.options.on_dropped, run, self.options.settle_s, report)

    def _skip_recorded(
        self,
        run: Run[PromptT],
        why: BaseException | None,
        error: BaseException | None,
        _stopped: object,
    ) -> None:
        self.finish(run, How.SKIPPED, error=why or error)

    def _prepared(self, run: Run[PromptT], error: BaseException | None, stopped: object) -> None:
        if stopped:
            self.withdraw(run, cause=Cause.EXTERNAL)
        elif error is None:
            self.ready(run)
        else:
            self.withdraw(run, error)

    def _drop_recorded(
        self, run: Run[PromptT], error: BaseException | None, _stopped: object
    ) -> None:
        self.table.settle(run, self.now(), error)
        self.obey()

    # --- effects ---

    # Each writes down that it was performed (`seen`) before anything else. What is done may come
    # back here (through a handler that submits, say): then it only adds to what is being performed.

    def _accepted(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_ACCEPTED
        if self.hub.listening:
            self.hub.publish(RunAccepted, run, at)
        if run.rare.terms is not None and run.waiting:
            self._keep_to(run.rare.terms, run, at)

    def _keep_to(self, terms: Terms, run: DrivenRun[PromptT], at: float) -> None:
        options = self.options
        if terms.wait_s is not None:
            expire = partial(self.cancel_run, run, scope=Scope.WAITING, cause=Cause.EXPIRED)
            self.set_timer(run, at + terms.wait_s, expire)
        report = partial(self._prepared, run)
        if terms.prepare and options.prepare is not None:
            self._preparing[run] = self.call_hook(options.prepare, run, options.prepare_s, report)
        elif terms.ticket and options.prepare_s is not None:
            late = TimeoutError(f"nobody made run {run.run_id!r} ready in {options.prepare_s} s")
            self._preparing[run] = self.call_at(
                at + options.prepare_s, partial(report, late, False)
            )

    def _queued(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_QUEUED
        self._is_prepared(run)
        if self.hub.listening:
            self.hub.publish(RunQueued, run, at)

    def _start(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_START
        if self.hub.listening:
            self.hub.publish(RunStarted, run, at)
        if run.rare is not PLAIN:
            self.start_on_terms(run, at)
        run.begin(self)

    def start_on_terms(self, run: DrivenRun[PromptT], at: float) -> None:
        """See to what was agreed for a run that is about to begin, if anything was."""
        terms: Terms | None = run.rare.terms
        if terms is None:
            return
        self._is_prepared(run)
        self.clear_timer(run)
        if terms.deadline_s is not None:
            stop = partial(self.cancel_run, run, scope=Scope.ACTIVE, cause=Cause.DEADLINE)
            self.set_timer(run, at + terms.deadline_s, stop)

    def _folded(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_FOLDED
        self.clear_timer(run)
        if self.hub.listening:
            self.hub.publish(RunFolded, run, at)

    def _interrupt(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_INTERRUPT
        if self.hub.listening:
            self.hub.publish(RunCanceling, run, at, run.cause)
        self.stopping.tell(run, at, at)

    def _drop(self, runs: Sequence[DrivenRun[PromptT]], at: float) -> None:
        """Have it recorded. If there is nobody to do so or to be told, they end together."""
        if self.options.on_dropped is not None or self.hub.listening:
            for run in runs:
                self._drop_one(run, at)
            return
        for run in runs if self._preparing else ():
            self._is_prepared(run)
        self.table.settle_all(runs, self.now())

    def _drop_one(self, run: DrivenRun[PromptT], at: float) -> None:
        run.seen = _EFFECT_DROP
        run.notice_cancel()
        preparation = self._is_prepared(run)
        self.clear_timer(run)
        if self.hub.listening:
            self.hub.publish(RunCanceling, run, at, run.cause)
        options = self.options
        if options.on_dropped is None:
            self.table.settle(run, self.now())
        else:
            report = partial(self._drop_recorded, run)
            self.call_hook(options.on_dropped, run, options.settle_s, report, preparation)

    def _end(self, run: DrivenRun[PromptT], at: float) -> None:
        if run.seen is _EFFECT_INTERRUPT:
            self.stopping.over(run)
        run.seen = _EFFECT_END
        if self.hub.listening:
            self.hub.publish(RunEnded, run, at)
        if self.timers or self.closing is not None:
            self.wind_up(run)
        run.release(self)

    def _end_all(self, runs: Sequence[DrivenRun[PromptT]], at: float) -> None:
        if self.hub.listening or self.timers or self.closing is not None:
            for run in runs:
                self._end(run, at)
            return
        for run in runs:  # the same: nobody was told to stop
            run.seen = _EFFECT_END
            run.release(self)

    def wind_up(self, run: DrivenRun[PromptT]) -> None:
        """See to it that nothing happens to a run any more; a close takes note of its end."""
        self.clear_timer(run)
        if self.closing is not None:
            self.closing.ended(run)

    # --- timers ---

    def set_timer(self, run: Run[PromptT], when: float, call: Callable[[], object]) -> None:
        """Have something happen to a run at that time. It has no other timer."""
        self.timers[run] = self.call_at(when, call)
        if run.state is RunState.ENDED:  # meanwhile, by another thread's doing
            self.clear_timer(run)

    def clear_timer(self, run: Run[PromptT]) -> None:
        """Let that not happen."""
        timer = self.timers.pop(run, None)
        if timer is not None:
            timer.cancel()

    def _is_prepared(self, run: Run[PromptT]) -> Hook | None:
        """Its preparation is over, or no longer wanted. Gives the hook, if it was one."""
        preparation = self._preparing.pop(run, None)
        if preparation is not None:
            preparation.cancel()
        return preparation if isinstance(preparation, Hook) else None

    # --- observers ---

    def watch(self, box: Mailbox[PromptT]) -> None:
        """Deliver events to a mailbox, beginning with how things stand.

        It is one more order in the outbox: what was decided before is announced before, and is
        part of how things stand; what is decided later is announced to this mailbox too.
        """
        self.hub.expect(box)
        self.table.outbox.append((WATCH, box, self.now()))
        self.obey()

    def tell(
        self, kind: Callable[..., RunEvent[PromptT]], run: Run[PromptT], *more: object
    ) -> None:
        """Tell observers of something that the table knows nothing of, in its turn."""
        if self.hub.listening:
            self.table.outbox.append((TELL, (kind, run, more), self.now()))
            self.obey()

    def hear(self, box: Mailbox[PromptT]) -> None:
        """Let events into a mailbox again that was behind: its reader has read everything."""
        self.table.outbox.append((HEAR, box, self.now()))
        self.obey()

    def over(self, then: Callable[[], object]) -> None:
        """Tell those who watch that nothing will happen any more, and then do something else."""
        self.table.outbox.append((OVER, then, self.now()))
        self.obey()

    def _hear(self, box: Mailbox[PromptT], at: float) -> None:
        self.hub.hear(box, at)

    def _over(self, then: Callable[[], object], at: float) -> None:
        self.hub.close(at)
        then()

    def _told(
        self,
        about: tuple[Callable[..., RunEvent[PromptT]], Run[PromptT], tuple[object, ...]],
        at: float,
    ) -> None:
        kind, run, more = about
        if run.seen is not _EFFECT_END:
            self.hub.publish(kind, run, at, *more)

    def _watch(self, box: Mailbox[PromptT], now: float) -> None:
        runs = (cast("DrivenRun[PromptT]", run) for run in self._in_flight(box))
        news = [(kind, run, at, more) for run in runs for kind, at, more in as_told(run, now)]
        self.hub.join(box, news)

    def _in_flight(self, box: Mailbox[PromptT]) -> Iterable[Run[PromptT]]:
        if box.run_id:
            run = self.table.run(box.run_id)
            if run is None or box.session_id not in ("", run.session_id):
                return ()
            return (run,)
        if box.session_id:
            return self.table.session(box.session_id).in_flight
        return (run for view in self.table.snapshot().sessions for run in view.in_flight)


_drivers: Final[weakref.WeakSet[Driver[Any]]] = weakref.WeakSet()


class _Elsewhere:
    """Stands for a table that lives in another process."""

    def __getattr__(self, name: str) -> NoReturn:
        raise SchedulerClosed(_FORKED)


def _refuse_in_the_child() -> None:
    for driver in _drivers:
        if driver.in_use:
            driver.refuse(_FORKED)
            driver.table = cast("Table[Any]", _Elsewhere())
            driver.hub.forget()
            driver.hub = Hub(Outbox())  # whoever leaves a subscription must not wait for its lock


# Not everywhere is there a fork.
getattr(os, "register_at_fork", dict)(after_in_child=_refuse_in_the_child)
