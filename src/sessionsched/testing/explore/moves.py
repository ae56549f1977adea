"""Moves: every call that is right in a situation, and what it costs of the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.model import Cause, How, Scope
from sessionsched.testing.explore.situation import CAUSES, mentioned
from sessionsched.testing.explore.step import SUSPENDING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionsched.testing.explore.situation import (
        Action,
        Budget,
        Config,
        Frozen,
        FrozenRun,
        FrozenSession,
    )

__all__ = ["pay", "possible"]


def possible(it: Frozen, budget: Budget, config: Config) -> Iterator[Action]:
    """Give every call that is right in this situation, and affordable."""
    if it.pending:
        yield ("deliver",)
    if budget.prompts and not it.closing and len(mentioned(it)) < config.most:
        yield from _prompts(config)
    for session in it.sessions:
        yield from _calls(it, session, budget, config)
        if budget.cancels:
            yield from _cancels(session, budget, config)
    if config.everything and it.closing < SUSPENDING and it.sessions:
        yield ("suspend_active",) if it.closing else ("close",)


def _prompts(config: Config) -> Iterator[Action]:
    for name in config.names:
        for policy in config.policies:
            yield ("accept", name, policy, True)
            yield ("accept", name, policy, False)


def _calls(it: Frozen, session: FrozenSession, budget: Budget, config: Config) -> Iterator[Action]:
    if session.active is not None and (not config.lag or session.active.seq in it.begun):
        yield from _from_the_handler(session.active)
    for run in session.ending:
        if not config.lag or run.seq in it.recording:
            yield ("settle", run.seq)
    for run in session.line:
        if not run.ready:
            yield ("ready", run.seq)
        if budget.promotes:
            yield ("promote", run.seq)
    if session.held:
        yield ("resume", session.name)
    elif budget.holds:
        yield ("hold", session.name)


def _from_the_handler(active: FrozenRun) -> Iterator[Action]:
    yield ("finish", active.seq, How.RETURNED)
    yield ("finish", active.seq, How.RAISED)
    if active.cause:
        yield ("finish", active.seq, How.ABANDONED)
    else:
        yield ("finish", active.seq, How.STOPPED)
        yield ("fold", active.seq)


def _cancels(session: FrozenSession, budget: Budget, config: Config) -> Iterator[Action]:
    """Give every cancel that covers something; those that don't are among the wrong calls."""
    weak = (None, Cause.SHUTDOWN, Cause.UNPREPARED)  # what an INTERRUPT still covers
    active = [session.active] if session.active else []
    runs = [*active, *session.line, *session.ending]
    reach = {Scope.ALL: runs, Scope.ACTIVE: active, Scope.WAITING: runs[len(active) :]}
    for scope, seen in reach.items():
        open_ = sorted(run.seq for run in seen if CAUSES[run.cause] in weak)
        for fence in (None, *open_, session.newest + 1) if open_ else ():
            yield ("cancel", session.name, scope, fence, False)
        if open_ and budget.holds and not session.held:
            yield ("cancel", session.name, scope, None, True)
    for run in runs:
        if CAUSES[run.cause] in weak:
            yield ("cancel_run", run.seq, Scope.ALL, Cause.INTERRUPT)
        if config.everything and not run.cause:
            late = (Scope.WAITING, Cause.EXPIRED), (Scope.ACTIVE, Cause.DEADLINE)
            yield ("cancel_run", run.seq, *late[run in active])
    for run in session.line:
        if config.everything and not run.ready:
            yield ("withdraw", run.seq, False)
            yield ("withdraw", run.seq, True)


def pay(budget: Budget, action: Action) -> Budget:
    """Say what may still happen after this action."""
    match action:
        case ("accept", *_):
            return budget._replace(prompts=budget.prompts - 1)
        case ("cancel", _, _, _, hold):
            return budget._replace(cancels=budget.cancels - 1, holds=budget.holds - hold)
        case ("cancel_run" | "withdraw", *_):
            return budget._replace(cancels=budget.cancels - 1)
        case ("hold", _):
            return budget._replace(holds=budget.holds - 1)
        case ("promote", _):
            return budget._replace(promotes=budget.promotes - 1)
    return budget
