"""The crowd around a scheduler: people who submit and cancel, and handlers that do as they like.

Rule 1. Everything that anybody asks for, and everything that a handler or a hook goes through, is
        written into the ledger.
Rule 2. A prompt says what will be done for it, step by step: the same calls do the same again.
Rule 3. Every step comes to an end, at the latest when it was canceled a few times.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from sessionsched.aio.turn import TurnRun
from sessionsched.errors import Refused, RunNotCompleted, WouldDeadlock
from sessionsched.model import Cause, Scope, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import TypeAlias

    from sessionsched.aio import RunHandle, Scheduler, Ticket
    from sessionsched.model import CloseReport, Run
    from sessionsched.testing.ledger import Ledger, Life, Visit

    AnyRun: TypeAlias = Run["Prompt"]
    Handle: TypeAlias = RunHandle["Prompt", str]
    Step: TypeAlias = Callable[["Crowd", AnyRun], Awaitable[object]]

__all__ = ["HOOKS", "STEPS", "Crowd", "Prompt"]


@frozen
class Prompt:
    """What a handler and the hooks will do for it."""

    number: int
    #: In STEPS: what the handler does, in turn; then it returns.
    steps: tuple[str, ...] = ()
    #: In HOOKS: what `on_dropped` and `prepare` do.
    drop: str = "quick"
    prepare: str = "quick"


class Crowd:
    """Everybody around one scheduler. Plain calls may be made from any thread."""

    def __init__(
        self, ledger: Ledger, unit_s: float, neighbour: Callable[[str], str], first: int = 0
    ) -> None:
        self.ledger = ledger
        #: How long a short while is.
        self.unit_s = unit_s
        #: Another session.
        self.neighbour = neighbour
        self.next_number: Final = itertools.count(first).__next__
        #: Set before anybody does anything.
        self.scheduler: Scheduler[Prompt, str]

    # --- what a scheduler calls ---

    async def handle(self, run: AnyRun) -> str:
        """Do what the prompt says."""
        with self.ledger.visit(self.ledger.of(run).handled) as visit:
            await self._steps(run)
            visit.result = answer = f"{run.prompt.number} is done"
        return answer

    async def record(self, run: AnyRun) -> None:
        """Record a drop."""
        await self._hook(run.prompt.drop, self.ledger.of(run).dropped)

    async def prepare(self, run: AnyRun) -> None:
        """Prepare a run; it is a reason to end if that fails."""
        self.ledger.of(run).reasons.add(Cause.UNPREPARED)
        await self._hook(run.prompt.prepare, self.ledger.of(run).prepared)

    async def _steps(self, run: AnyRun) -> None:
        for step in run.prompt.steps:
            await STEPS[step](self, run)

    async def _hook(self, what: str, visits: list[Visit]) -> None:
        with self.ledger.visit(visits):
            await HOOKS[what](self)

    # --- prompts ---

    def submit(self, session_id: str, prompt: Prompt, **options: Any) -> Handle | None:
        """Submit. None: it was refused."""
        life = self.ledger.asked(session_id, prompt.number, options)
        try:
            handle = self.scheduler.submit(session_id, prompt, **options)
        except Refused:
            life.refused = True
            return None
        self.ledger.accepted(life)
        return handle

    def ticket(self, session_id: str, prompt: Prompt, **options: Any) -> Ticket[Prompt, str] | None:
        """Take a place in line. None: it was refused."""
        life = self.ledger.asked(session_id, prompt.number, options)
        life.reasons |= {Cause.UNPREPARED, Cause.WITHDRAWN}
        try:
            ticket = self.scheduler.accept(session_id, prompt, **options)
        except Refused:
            life.refused = True
            return None
        self.ledger.accepted(life)
        return ticket

    async def turn(self, session_id: str, prompt: Prompt, **options: Any) -> None:
        """Do in a turn of one's own what a handler would do."""
        life = self.ledger.asked(session_id, prompt.number, options)
        try:
            async with self.scheduler.turn(session_id, prompt, **options) as run:
                with self.ledger.visit(life.handled):
                    await self._steps(run)
        except (Refused, WouldDeadlock):
            life.refused = not life.accepted
        except (RunNotCompleted, Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            self._as_it_was(life, error)
        await self._nothing_strikes_later(life)

    def _as_it_was(self, life: Life, error: BaseException) -> None:
        """Look at what came out of a turn: the body's own error, or that it was canceled."""
        own = bool(life.handled) and error is life.handled[0].error
        if not (own or isinstance(error, RunNotCompleted) or Cause.EXTERNAL in life.reasons):
            self.ledger.complaints.append(f"X13: {error!r} came out of a turn: {life}")

    async def _nothing_strikes_later(self, life: Life) -> None:
        """Look whether a cancel of a turn that is over strikes its host."""
        task = asyncio.current_task()
        if Cause.EXTERNAL in life.reasons or task is None:
            return
        try:
            struck = task.cancelling() > 0
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            struck = True
        if struck and Cause.EXTERNAL not in life.reasons:
            self.ledger.complaints.append(f"X2: a cancel outlived its turn: {life}")

    def child(self, session_id: str, when_busy: WhenBusy = WhenBusy.QUEUE) -> Handle | None:
        """Submit something short."""
        prompt = Prompt(self.next_number(), ("turn",))
        return self.submit(session_id, prompt, when_busy=when_busy)

    def fold(self, run: AnyRun) -> None:
        """Take the follow-ups that wait."""
        taker = self.ledger.of(run)
        for taken in run.take_follow_ups():
            self.ledger.of(taken).takers.append(taker)

    # --- cancels ---

    def cancel(self, session_id: str, scope: Scope = Scope.ALL, up_to: int | None = None,
               *, hold: bool = False) -> None:  # fmt: skip
        """Cancel a session, or a part of it."""
        began = self.ledger.tick()
        receipt = self.scheduler.cancel(session_id, scope=scope, up_to=up_to, hold=hold)
        self.ledger.canceled(began, (receipt,), None, session_id, scope, up_to)

    def cancel_run(self, run: AnyRun) -> None:
        """Cancel one run, by its id."""
        began = self.ledger.tick()
        receipt = self.scheduler.cancel_run(run.run_id)
        self.ledger.canceled(began, (receipt,), run.prompt.number, run.session_id)

    def cancel_all(self) -> None:
        """Cancel every session."""
        began = self.ledger.tick()
        self.ledger.canceled(began, self.scheduler.cancel_all())

    def outside(self, run: AnyRun) -> None:
        """Cancel a run's task behind the scheduler's back, if it has one."""
        task = getattr(run, "host", None) or getattr(run, "carrier", None)
        self._cancel_task(self.ledger.of(run), task)

    @staticmethod
    def _cancel_task(life: Life, task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            life.reasons |= {Cause.EXTERNAL, Cause.WITHDRAWN}
            task.cancel()

    # --- closing ---

    async def close(self, drain: float) -> CloseReport[Prompt]:
        """Close the scheduler; then stop what it has given up on, handlers and bodies of turns."""
        self.ledger.closing = self.ledger.closing or self.ledger.tick()
        report = await self.scheduler.close(drain)
        for life in self._abandoned():
            run = life.told[0].run
            if run not in report.still_going and not isinstance(run, TurnRun):
                self.ledger.complaints.append(f"S1: its handler goes on, unsaid: {life}")
        while going := self._abandoned():
            for life in going:
                self._cancel_task(life, life.handled[0].task)
            await asyncio.sleep(self.unit_s)
        return report

    def _abandoned(self) -> list[Life]:
        """Give those whose end did not wait for their handlers, which are still going."""
        return [
            life
            for life in self.ledger.taken_in
            if life.outcome and life.outcome.abandoned
            if any(not visit.ended for visit in life.handled)  # not so for what it took
        ]


# --- what handlers and hooks do ---


async def _nap(crowd: Crowd, run: AnyRun) -> None:
    del run
    await asyncio.sleep(crowd.unit_s)


async def _turn(crowd: Crowd, run: AnyRun) -> None:
    del crowd, run
    await asyncio.sleep(0)


async def _hang(crowd: Crowd, run: AnyRun) -> None:
    del crowd, run
    await asyncio.get_running_loop().create_future()


async def _swallow(crowd: Crowd, run: AnyRun) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await _nap(crowd, run)


async def _endure(crowd: Crowd, run: AnyRun) -> None:
    """Ignore the first cancels; go on for longer than anybody is patient."""
    del run
    for _ in range(3):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(20 * crowd.unit_s)


async def _uncancel(crowd: Crowd, run: AnyRun) -> None:
    try:
        await _nap(crowd, run)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()


async def _tidy(crowd: Crowd, run: AnyRun) -> None:
    """Be slow to clean up."""
    try:
        await _nap(crowd, run)
    finally:
        await asyncio.sleep(2 * crowd.unit_s)


async def _group(crowd: Crowd, run: AnyRun) -> None:
    """Answer a cancel with an ExceptionGroup."""

    async def grumble() -> None:
        try:
            await _nap(crowd, run)
        except asyncio.CancelledError:
            raise ValueError("not now") from None

    async with asyncio.TaskGroup() as group:
        group.create_task(grumble())


async def _timeout(crowd: Crowd, run: AnyRun) -> None:
    """Have a timeout of its own, at the very time at which others may cancel."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(crowd.unit_s):
            await asyncio.sleep(3 * crowd.unit_s)
    await _turn(crowd, run)


async def _raise(crowd: Crowd, run: AnyRun) -> None:
    del crowd
    msg = f"{run.prompt.number} fails"
    raise ValueError(msg)


async def _stray(crowd: Crowd, run: AnyRun) -> None:
    """Raise a cancel that nobody sent."""
    del crowd, run
    raise asyncio.CancelledError


async def _ask(crowd: Crowd, run: AnyRun) -> None:
    """Submit to another session, and wait a while for what comes of it."""
    handle = crowd.child(crowd.neighbour(run.session_id))
    if handle is not None:
        with contextlib.suppress(TimeoutError, RunNotCompleted, WouldDeadlock):
            await asyncio.wait_for(handle.outcome(), 2 * crowd.unit_s)


def _at_once(act: Callable[[Crowd, AnyRun], object]) -> Step:
    async def step(crowd: Crowd, run: AnyRun) -> None:
        act(crowd, run)

    return step


#: What a handler can do, by the words of a prompt.
STEPS: Final[Mapping[str, Step]] = {
    "nap": _nap,
    "turn": _turn,
    "hang": _hang,
    "swallow": _swallow,
    "endure": _endure,
    "uncancel": _uncancel,
    "tidy": _tidy,
    "group": _group,
    "timeout": _timeout,
    "raise": _raise,
    "stray": _stray,
    "ask": _ask,
    "fold": _at_once(Crowd.fold),
    "emit": _at_once(lambda _, run: run.emit(run.prompt.number)),
    "queue": _at_once(lambda crowd, run: crowd.child(run.session_id)),
    "follow up": _at_once(lambda crowd, run: crowd.child(run.session_id, WhenBusy.FOLD)),
    "interrupt": _at_once(lambda crowd, run: crowd.child(run.session_id, WhenBusy.INTERRUPT)),
    "cancel own": _at_once(lambda crowd, run: crowd.cancel(run.session_id)),
    "cancel other": _at_once(lambda crowd, run: crowd.cancel(crowd.neighbour(run.session_id))),
    "cancel self": _at_once(Crowd.cancel_run),
}


async def _quick(crowd: Crowd) -> None:
    del crowd


async def _slow(crowd: Crowd) -> None:
    await asyncio.sleep(crowd.unit_s)


async def _fail(crowd: Crowd) -> None:
    await asyncio.sleep(crowd.unit_s / 2)
    raise OSError("the disk is full")


async def _late(crowd: Crowd) -> None:
    await asyncio.sleep(100 * crowd.unit_s)


async def _stubborn(crowd: Crowd) -> None:
    """Be late, and then go on for a while."""
    try:
        await _late(crowd)
    except asyncio.CancelledError:
        await asyncio.sleep(crowd.unit_s)


#: What a hook can do.
HOOKS: Final[Mapping[str, Callable[[Crowd], Awaitable[None]]]] = {
    "quick": _quick,
    "slow": _slow,
    "fail": _fail,
    "late": _late,
    "stubborn": _stubborn,
}
