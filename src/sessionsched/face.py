"""The public face: the plain calls that every scheduler has, whatever drives it.

Rule 1. Plain calls are plain calls: they decide, return at once, and may come from any thread.
Rule 2. Nothing is decided here: each is one call on the table, and then the driver obeys.
        A cancel that finds no session has nothing to call it for, and nothing follows.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sessionsched import checks
from sessionsched.driven import DrivenRun, Terms
from sessionsched.errors import InvalidOption
from sessionsched.model import CancelReceipt, Cause, PromptT, Scope, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.driver import Driver
    from sessionsched.explain import Explanation
    from sessionsched.model import Run, SessionView, Snapshot

__all__ = ["Face", "own_turn"]

# Members as globals: on Python 3.11 a look into the class costs more than a call.
_SCOPE_ALL: Final = Scope.ALL
_CAUSE_INTERRUPT: Final = Cause.INTERRUPT

HandleT = TypeVar("HandleT")
TicketT = TypeVar("TicketT")
DrivenT = TypeVar("DrivenT", bound=DrivenRun[Any])


class Face(Generic[PromptT, HandleT, TicketT]):
    """Submit, cancel, look, and move the line."""

    _driver: Driver[PromptT]
    #: What runs and tickets are here: each kind of scheduler has its own. A run is its own handle.
    _run_kind: Callable[..., Any]
    _ticket_kind: Callable[..., TicketT]

    # --- prompts ---

    def submit(
        self,
        session_id: str,
        prompt: PromptT,
        *,
        run_id: str | None = None,
        when_busy: WhenBusy = WhenBusy.QUEUE,
        deadline: float | None = None,
        wait_at_most: float | None = None,
    ) -> HandleT:
        """Hand over a prompt. Returns at once; the run goes on whatever becomes of the caller.

        Args:
            session_id: The conversation: one run at a time, in the order of submission.
            prompt: Whatever the handler understands.
            run_id: A name of the caller's own. Submitting it again with the same session and
                prompt gives the same run; with another, it is refused.
            when_busy: What to do when the session has something in flight.
            deadline: Seconds that it may be active; then it is canceled (DEADLINE).
            wait_at_most: Seconds that it may wait; then it is dropped (EXPIRED).

        Raises:
            Refused: one of its kinds; there is no seq, no outcome, no event.
        """
        driver = self._driver
        if run_id is None and deadline is None and wait_at_most is None and driver.plain:
            # A submitter without context variables, as most are, costs no context while it waits.
            run = self._run_kind(session_id, prompt, "", when_busy, copy_context() or None)
            driver.accept(run, True)
            return run  # type: ignore[no-any-return]  # a run is its own handle
        terms = self._terms(deadline, wait_at_most)
        run = self._make(self._run_kind, session_id, prompt, run_id, when_busy, terms)
        return driver.accept(run, driver.plain)  # type: ignore[return-value]

    def accept(
        self,
        session_id: str,
        prompt: PromptT,
        *,
        run_id: str | None = None,
        when_busy: WhenBusy = WhenBusy.QUEUE,
        deadline: float | None = None,
        wait_at_most: float | None = None,
    ) -> TicketT:
        """Take a place in line for a prompt that the caller still prepares: `submit` in two steps.

        The run can be canceled, and others queue behind it, but it starts only after
        `ticket.ready()`; `ticket.close()` gives the place back. `prepare` is not called for it.

        Raises:
            Refused: one of its kinds; there is no seq, no outcome, no event.
        """
        terms = self._terms(deadline, wait_at_most, ticket=True)
        run = self._make(self._run_kind, session_id, prompt, run_id, when_busy, terms)
        known = self._driver.accept(run, False)
        return self._ticket_kind(known, owner=known is run)

    def find(self, run_id: str) -> HandleT | None:
        """Give the handle of a run that is in flight, or that was named and ended lately."""
        return self._driver.table.run(run_id)  # type: ignore[return-value]  # see submit

    def _terms(
        self, deadline: float | None, wait_at_most: float | None, *, ticket: bool = False
    ) -> Terms | None:
        """Write down what is unusual about a run, if anything is."""
        if deadline is not None:
            checks.seconds("deadline", deadline)
        if wait_at_most is not None:
            checks.seconds("wait_at_most", wait_at_most)
        prepare = not self._driver.plain and not ticket
        unusual = ticket or prepare or deadline is not None or wait_at_most is not None
        return Terms(deadline, wait_at_most, prepare, ticket) if unusual else None

    def _make(
        self,
        kind: Callable[..., DrivenT],
        session_id: str,
        prompt: PromptT,
        run_id: str | None,
        when_busy: WhenBusy,
        terms: Terms | None,
    ) -> DrivenT:
        if run_id is not None:
            checks.run_name(run_id, session_id)
        run = kind(session_id, prompt, run_id or "", when_busy, copy_context() or None)
        if terms is not None:
            run.own.terms = terms
        return run

    # --- cancel ---

    def cancel(
        self,
        session_id: str,
        *,
        scope: Scope = Scope.ALL,
        up_to: int | None = None,
        hold: bool = False,
        cause: Cause = Cause.INTERRUPT,
    ) -> CancelReceipt[PromptT]:
        """Cancel what the session has in flight: everything accepted before, and nothing later.

        Args:
            session_id: Which session.
            scope: Everything, only the active run, or only those that wait.
            up_to: A fence: nothing with a greater seq is touched. For cancels that come late.
            hold: Also keep the line from moving until `resume`, if anything was covered.
            cause: What to write down as the reason.

        Returns:
            What was covered and what was kept. It is final, and false when nothing was covered.

        Raises:
            InvalidSession, InvalidOption: nothing has changed.
        """
        driver = self._driver
        if (  # a plain cancel of an idle session, as most are: that needs no call, and no clock
            session_id.__class__ is str
            and session_id not in driver.table._sessions  # noqa: SLF001 - as the table would look
            and session_id.strip()
            and scope is _SCOPE_ALL
            and cause is _CAUSE_INTERRUPT
            and up_to is None
        ):
            return CancelReceipt(session_id)
        receipt = driver.table.cancel(
            session_id, driver.now(), scope=scope, up_to=up_to, hold=hold, cause=cause
        )
        driver.obey()
        return receipt

    def cancel_run(self, run_id: str) -> CancelReceipt[PromptT]:
        """Cancel one run, and the follow-ups that it took. False for an id that nobody knows."""
        run = self._driver.table.run(run_id)
        return CancelReceipt("") if run is None else self._driver.cancel_run(run)

    def cancel_all(self) -> tuple[CancelReceipt[PromptT], ...]:
        """Cancel every session. Gives the receipts of those where that covered something."""
        driver = self._driver
        receipts = driver.table.cancel_all(driver.now())
        driver.obey()
        return receipts

    # --- the line ---

    def pause(self, session_id: str) -> bool:
        """Keep the line from moving; the active run goes on. False: held already, or idle.

        Raises:
            InvalidSession: nothing has changed.
        """
        return self._driver.table.hold(session_id)

    def resume(self, session_id: str) -> bool:
        """Let the line move again. False: it wasn't held.

        Raises:
            InvalidSession: nothing has changed.
        """
        driver = self._driver
        answer = driver.table.resume(session_id, driver.now())
        driver.obey()
        return answer

    def waiting(self, session_id: str) -> tuple[Run[PromptT], ...]:
        """Give the runs that wait, in the order in which they will start."""
        return self._driver.table.session(session_id).waiting

    # --- look ---

    def session(self, session_id: str) -> SessionView[PromptT]:
        """Say how one session stands."""
        return self._driver.table.session(session_id)

    def snapshot(self) -> Snapshot[PromptT]:
        """Say how every session stands that has something in flight."""
        return self._driver.table.snapshot()

    def explain(self, run_id: str) -> Explanation:
        """Say why a run has not ended: what it waits for, behind what, since when."""
        return self._driver.table.explain(run_id)


def own_turn(when_busy: object) -> WhenBusy:
    """Refuse what would let another run take the prompt.

    Raises:
        InvalidOption: FOLD, or no such option.
    """
    known = checks.choice(WhenBusy, "when_busy", when_busy)
    if known is WhenBusy.FOLD:
        msg = "a turn runs in its host's own task or thread: it can't be folded into another run"
        raise InvalidOption(msg, option="when_busy", value=known)
    return known
