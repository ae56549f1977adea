"""A step: one call on the real table, the same on the naive model, and the judge's word on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.errors import SessionSchedError
from sessionsched.model import Cause, Effect, RunState
from sessionsched.testing.explore.judge import Step, Violation, judge
from sessionsched.testing.explore.situation import (
    CAUSES,
    CODES,
    ORDERS,
    Frozen,
    FrozenRun,
    FrozenSession,
    frozen_run,
    in_flight,
    mentioned,
    normal,
    runs_of,
)
from sessionsched.testing.naive import Naive, NaiveSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionsched.testing.explore.situation import Action, Config, Out
    from sessionsched.testing.explore.world import World

__all__ = ["CLOSING", "SUSPENDING", "deliver", "take"]

CLOSING = 1
SUSPENDING = 2


def take(world: World, before: Frozen, action: Action) -> tuple[Frozen, Mapping[int, int]]:
    """Take one step in the real table and judge it. Gives where it led, and the new numbers.

    Raises:
        Violation: the step broke a sentence.
    """
    if action[0] == "deliver":
        return deliver(before), {seq: seq for seq in mentioned(before)}
    world.load(before)
    naive = naive_of(before, world.config)
    act_naively(naive, action, max(world.runs, default=0) + 1)
    try:
        answer = world.act(action)
    except SessionSchedError as error:
        raise Violation("refused", f"{action[0]} raised {error!r}") from error
    after, effects = world.sessions(), world.effects()
    judge(Step(action, before, after, effects, naive.out, naive_sessions(naive)))
    if not answer:
        raise Violation("refused", f"{action[0]} was possible, and did nothing")
    if world.config.slots is not None and list(world.asking()) != naive.asking:
        raise Violation("D6", f"slots go to {world.asking()}; should go to {naive.asking}")
    return _settle_down(world, before, action, after, effects)


def _settle_down(
    world: World,
    before: Frozen,
    action: Action,
    after: tuple[FrozenSession, ...],
    effects: list[Out],
) -> tuple[Frozen, Mapping[int, int]]:
    """Number everything again."""
    pending = before.pending
    if world.config.lag:
        pending += tuple(
            (out[0], out[1], world.runs[out[1]].session_id) for out in effects if out[0] in ORDERS
        )
    sessions, new = normal(after, [seq for _, seq, _ in pending])
    ended = {seq for seq in world.runs if world.runs[seq].state is RunState.ENDED}

    def still(seqs: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([new[seq] for seq in seqs if seq not in ended])

    closing = {"close": CLOSING, "suspend_active": SUSPENDING}.get(action[0], before.closing)
    result = Frozen(
        sessions, world.asking(), closing,
        tuple([(effect, new[seq], name) for effect, seq, name in pending]),
        still(before.begun), still(before.told), still(before.recording),
    )  # fmt: skip
    return result, new


def deliver(before: Frozen) -> Frozen:
    """Carry out the oldest order that is still on its way, as a driver would.

    Raises:
        Violation: it comes at a time at which it can't be carried out.
    """
    (effect, seq, name), *rest = before.pending
    after = before._replace(pending=tuple(rest))
    if effect is Effect.START:
        late = [old for order, old, of in rest if order is Effect.END and of == name]
        if any(old < seq for old in late):
            raise Violation("T2", f"{{{seq}}} begins before the end of {{{late[0]}}} is announced")
        return after._replace(begun=(*before.begun, seq))
    if effect is Effect.INTERRUPT:
        if seq in in_flight(before) and seq not in before.begun:
            raise Violation("X1", f"{{{seq}}} is told to stop before it begins: the cancel is lost")
        return after._replace(told=(*before.told, seq)) if seq in before.begun else after
    if effect is Effect.DROP:
        return after._replace(recording=(*before.recording, seq))
    return after  # END: whoever waits is told


# --- the naive model of a situation ---


def act_naively(naive: Naive, action: Action, next_seq: int) -> None:
    """Do the same to the naive model."""
    match action:
        case ("accept", name, policy, ready):
            naive.accept(name, next_seq, policy, ready=ready)
        case ("withdraw", seq, failed):
            naive.withdraw(seq, failed=failed)
        case ("cancel", name, scope, up_to, hold):
            naive.cancel(name, scope, up_to, Cause.INTERRUPT, hold=hold)
        case ("cancel_run", seq, _, cause):
            naive.cancel_run(seq, cause)
        case (verb, *args):
            getattr(naive, verb)(*args)


def naive_of(situation: Frozen, config: Config) -> Naive:
    """Make the naive model of a situation that it has agreed with."""
    naive = Naive(config.slots, closed=situation.closing > 0, asking=list(situation.asking))
    for it in situation.sessions:
        session = NaiveSession(held=it.held, mark=it.mark, newest=it.newest)
        session.line = [run.seq for run in it.line]
        session.taken = [run.seq for run in it.taken]
        session.dropped = [run.seq for run in it.ending]
        if it.active is not None:
            session.active = it.active.seq
        for run in runs_of(it):
            _note(session, run)
        naive.sessions[it.name] = session
    return naive


def naive_sessions(naive: Naive) -> tuple[FrozenSession, ...]:
    """Say how the sessions of the naive model stand, in the same form, without a state."""
    return tuple(_freeze_naive(name, naive.sessions[name]) for name in sorted(naive.sessions))


def _freeze_naive(name: str, it: NaiveSession) -> FrozenSession:
    def runs(seqs: list[int], taker: int | None = None) -> tuple[FrozenRun, ...]:
        return tuple(
            [
                frozen_run(
                    seq,
                    (waits := seq in it.line) and seq in it.ready,
                    CODES[it.cause.get(seq if taker is None else taker)],
                    waits and seq in it.follow_ups,
                    waits and seq in it.promoted,
                )
                for seq in seqs
            ]
        )

    active = None if it.active is None else runs([it.active])[0]
    return FrozenSession(
        name, it.mark, it.newest, it.held, active,
        runs(it.taken, it.active), runs(it.line), runs(it.dropped), -1,
    )  # fmt: skip


def _note(session: NaiveSession, run: FrozenRun) -> None:
    if run.ready:
        session.ready.add(run.seq)
    if run.follows_up:
        session.follow_ups.add(run.seq)
    if run.promoted:
        session.promoted.add(run.seq)
    cause = CAUSES[run.cause]
    if cause is not None:
        session.cause[run.seq] = cause
