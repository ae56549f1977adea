"""The naive model: what the contract says, on lists and sets of integers, with no states at all.

Rule 1. It shares no code with the machine, so that a mistake has to be made twice to go unseen.
Rule 2. It is exact: which runs start, end, are interrupted or dropped, in which order, as what.
Rule 3. It is slow and obvious. Where speed or cleverness would help, it goes without.

Prompts are known by their seq alone. Each call appends what must follow from it to `out`, in the
order in which a correct scheduler decides it: (effect, seq), or (END, seq, status, cause).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import Factory, define

from sessionsched.model import Cause, Effect, How, Scope, Status, WhenBusy

if TYPE_CHECKING:
    from typing import TypeAlias

    Out: TypeAlias = tuple[Any, ...]

__all__ = ["Naive", "NaiveSession"]


@define
class NaiveSession:
    """One session, as somebody with pen and paper would keep it."""

    line: list[int] = Factory(list)
    ready: set[int] = Factory(set)
    follow_ups: set[int] = Factory(set)
    promoted: set[int] = Factory(set)
    active: int | None = None
    taken: list[int] = Factory(list)
    dropped: list[int] = Factory(list)
    cause: dict[int, Cause] = Factory(dict)
    held: bool = False
    mark: int = 0
    newest: int = 0

    @property
    def in_flight(self) -> list[int]:
        """Everything that has been accepted and has not ended."""
        active = [] if self.active is None else [self.active]
        return active + self.taken + self.dropped + self.line

    @property
    def startable(self) -> bool:
        """D4, but for the slot."""
        return (
            self.active is None
            and not self.dropped
            and not self.held
            and self.line != []
            and self.line[0] in self.ready
        )


@define
class Naive:
    """All sessions of one scheduler."""

    max_active: int | None = None
    sessions: dict[str, NaiveSession] = Factory(dict)
    #: Names of startable sessions without a slot, in the order in which they became so.
    asking: list[str] = Factory(list)
    closed: bool = False
    out: list[Out] = Factory(list)

    def owner(self, seq: int) -> NaiveSession:
        """Give the session that has this run in flight."""
        return next(session for session in self.sessions.values() if seq in session.in_flight)

    # --- prompts ---

    def refuses(self, name: str, when_busy: WhenBusy, max_waiting: int) -> bool:
        """Whether a prompt must be refused (A4)."""
        session = self.sessions.get(name, NaiveSession())
        if self.closed or (when_busy is WhenBusy.REJECT and session.in_flight):
            return True
        covers = when_busy in (WhenBusy.INTERRUPT, WhenBusy.LATEST)
        return len(session.line) >= max_waiting and not covers

    def accept(self, name: str, seq: int, when_busy: WhenBusy, *, ready: bool) -> None:
        """Take in a prompt that is not refused."""
        if when_busy is WhenBusy.INTERRUPT:
            self.cancel(name, Scope.ALL, None, Cause.SUPERSEDED)
        if when_busy is WhenBusy.LATEST:
            self.cancel(name, Scope.WAITING, None, Cause.SUPERSEDED)
        session = self.sessions.setdefault(name, NaiveSession())
        session.line.append(seq)
        session.newest = seq
        if when_busy is WhenBusy.FOLD:
            session.follow_ups.add(seq)
        self.out.append((Effect.ACCEPTED, seq))
        if ready:
            self.ready(seq)

    def ready(self, seq: int) -> None:
        """Let a waiting run start when its turn comes."""
        session = self.owner(seq)
        session.ready.add(seq)
        self._go_on()
        if seq in session.line:
            self.out.append((Effect.QUEUED, seq))

    def withdraw(self, seq: int, *, failed: bool) -> None:
        """Give back a run that isn't ready."""
        self._cover(self.owner(seq), [seq], Cause.UNPREPARED if failed else Cause.WITHDRAWN)

    # --- cancels ---

    def cancel(
        self, name: str, scope: Scope, up_to: int | None, cause: Cause, *, hold: bool = False
    ) -> list[int]:
        """Cover what is in scope and not above the fence; give what that covered."""
        session = self.sessions.get(name)
        if session is None:
            return []
        fence = session.newest if up_to is None else min(up_to, session.newest)
        seen = []
        if scope is not Scope.WAITING and session.active is not None:
            seen += [session.active]
        if scope is not Scope.ACTIVE:
            seen += session.dropped + session.line
        covered = self._cover(session, [seq for seq in seen if seq <= fence], cause)
        if covered and scope is Scope.ALL:
            session.mark = max(session.mark, fence)
        if covered and hold:
            session.held = True
        return covered

    def cancel_run(self, seq: int, cause: Cause) -> list[int]:
        """Cover one run."""
        session = self.owner(seq)
        return [] if seq in session.taken else self._cover(session, [seq], cause)

    def _cover(self, session: NaiveSession, seqs: list[int], cause: Cause) -> list[int]:
        """Cover those of `seqs` that aren't yet; an INTERRUPT also overrules a weaker cause."""
        weak = (Cause.SHUTDOWN, Cause.UNPREPARED)
        covered = []
        for seq in seqs:
            old = session.cause.get(seq)
            if old is not None and not (cause is Cause.INTERRUPT and old in weak):
                continue
            session.cause[seq] = cause
            covered.append(seq)
            if old is not None:
                continue
            if seq == session.active:
                self.out.append((Effect.INTERRUPT, seq))
            else:
                session.line.remove(seq)
                session.dropped.append(seq)
                self.out.append((Effect.DROP, seq))
        self._go_on()
        return covered

    # --- ends ---

    def finish(self, seq: int, how: How) -> None:
        """The handler of the active run is over."""
        session = self.owner(seq)
        cause = session.cause.get(seq)
        if how is How.RETURNED and cause in (None, Cause.SHUTDOWN):
            self._end(session, Status.COMPLETED, None)
        elif cause is None and how is How.RAISED:
            self._end(session, Status.FAILED, None)
        elif cause is None:
            self._end(session, Status.SUSPENDED, Cause.EXTERNAL)
        elif cause is Cause.SHUTDOWN:
            self._end(session, Status.SUSPENDED, Cause.SHUTDOWN)
        else:
            self._end(session, Status.CANCELED, cause)
        self._go_on()

    def _end(self, session: NaiveSession, status: Status, cause: Cause | None) -> None:
        """End the active run and, right after it, the follow-ups that it took (F3)."""
        ended = [seq for seq in (session.active, *session.taken) if seq is not None]
        self.out += [(Effect.END, seq, status, cause) for seq in ended]
        session.active, session.taken = None, []
        self._forget(session, *ended)

    def settle(self, seq: int) -> None:
        """A dropped run has been recorded."""
        session = self.owner(seq)
        cause = session.cause[seq]
        status = Status.CANCELED
        if cause is Cause.SHUTDOWN:
            status = Status.SUSPENDED
        if cause is Cause.UNPREPARED:
            status = Status.FAILED
        self.out.append((Effect.END, seq, status, cause))
        session.dropped.remove(seq)
        self._forget(session, seq)
        self._go_on()

    def fold(self, taker: int) -> list[int]:
        """The active run asks for follow-ups."""
        session = self.owner(taker)
        if taker != session.active or taker in session.cause:
            return []
        if session.held or session.dropped:
            return []
        found = sorted(set(session.line) & session.ready & session.follow_ups)
        for seq in found:
            session.line.remove(seq)
            session.taken.append(seq)
            self.out.append((Effect.FOLDED, seq))
        return found

    # --- the line ---

    def hold(self, name: str) -> None:
        """Keep the line from moving."""
        self.sessions[name].held = True
        self._go_on()

    def resume(self, name: str) -> None:
        """Let it move again."""
        self.sessions[name].held = False
        self._go_on()

    def promote(self, seq: int) -> None:
        """Move a waiting run to the front."""
        session = self.owner(seq)
        session.line.remove(seq)
        session.line.insert(0, seq)
        session.promoted.add(seq)
        self._go_on()

    # --- closing ---

    def close(self) -> None:
        """Refuse prompts, suspend what waits."""
        self.closed = True
        for name in self.sessions:
            self.cancel(name, Scope.WAITING, None, Cause.SHUTDOWN)

    def suspend_active(self) -> None:
        """Interrupt what is active."""
        for name in self.sessions:
            self.cancel(name, Scope.ACTIVE, None, Cause.SHUTDOWN)

    # --- what follows by itself ---

    def _go_on(self) -> None:
        """Start what may start (D4), slots in the order of asking (D6); forget what is idle."""
        self.sessions = {name: it for name, it in self.sessions.items() if it.in_flight}
        self.asking = [name for name in self.asking if self._asks(name)]
        came = [name for name in self.sessions if self._asks(name) and name not in self.asking]
        self.asking += came
        while self.asking and self._slot_is_free():
            session = self.sessions[self.asking.pop(0)]
            session.active = session.line.pop(0)
            self.out.append((Effect.START, session.active))

    def _asks(self, name: str) -> bool:
        return name in self.sessions and self.sessions[name].startable

    def _slot_is_free(self) -> bool:
        active = sum(session.active is not None for session in self.sessions.values())
        return self.max_active is None or active < self.max_active

    @staticmethod
    def _forget(session: NaiveSession, *seqs: int) -> None:
        for seq in seqs:
            session.cause.pop(seq, None)
            session.ready.discard(seq)
            session.follow_ups.discard(seq)
            session.promoted.discard(seq)
