"""Judges by the clock, where that is virtual: time is exact, and stands still while anybody acts.

Rule 1. Whatever has a term is over when that is: P1, P2, D3, `deadline` and `wait_at_most`.
Rule 2. Who goes on after a cancel is told again after every `grace`: X8.
Rule 3. Whenever nothing can happen without time's passing, somebody is at work for all that does
        not wait, and nothing waits that could go: D4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sessionsched.events import RunAccepted, RunCanceling, RunEnded, RunQueued, RunStarted, RunStuck
from sessionsched.model import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched.model import Run, Snapshot
    from sessionsched.testing.ledger import Ledger, Life

__all__ = ["forgotten", "too_late"]


def forgotten(
    ledger: Ledger,
    snapshot: Snapshot[Any],
    max_active: int | None,
    is_prepared: Callable[[Run[Any]], bool],
) -> Iterator[str]:
    """Say what nobody will ever come back to. For when nothing can happen without time's passing.

    `is_prepared` says of a run that is not ready whether it still has an owner.
    """
    for life in ledger.lives.values():
        prompt = life.told[0].run.prompt if life.ended else None
        stubborn = prompt is None or "stubborn" in {prompt.drop, prompt.prepare}
        if not stubborn and not all(it.ended for it in (*life.dropped, *life.prepared)):
            yield f"P1: a hook goes on after the end of {life}"
    free = max_active is None or snapshot.active < max_active
    for view in snapshot.sessions:
        at_work = [run for run in (view.active, *view.ending) if run is not None]
        idle = [run for run in at_work if not ledger.of(run).at_work]
        yield from (f"D4: nobody is at work for {run}" for run in idle)
        if view.waiting and not at_work and not view.held:
            first = view.waiting[0]
            prepared = first.state is RunState.ACCEPTED
            if not (prepared and (ledger.of(first).at_work or is_prepared(first))) and (
                free or prepared
            ):
                yield f"D4: {first} is stranded"


def too_late(ledger: Ledger, grace_s: float, settle_s: float) -> Iterator[str]:
    """Say what was late, once everything has ended."""
    for life in ledger.taken_in:
        accepted = life.told[0].at
        yield from (f"{what}: {life}" for what in _of_hooks(life, settle_s))
        yield from (f"{what}: {life}" for what in _of_terms(life, accepted))
        yield from (f"{what}: {life}" for what in _of_cancels(life, grace_s))


def _of_hooks(life: Life, settle_s: float) -> Iterator[str]:
    covered = _covered(life)
    limit_s = settle_s * (2 if life.prepared else 1)  # a preparation has some time to stop first
    if life.outcome and not life.outcome.started and covered[-1] > covered[0] + limit_s:
        yield f"P1: dropped at {covered[0]}, and ended at {covered[-1]}"
    if life.prepared and life.dropped and life.prepared[0].ended > life.dropped[0].began:
        yield "P1: its drop was recorded while it was prepared"


def _of_terms(life: Life, accepted: float) -> Iterator[str]:
    started = [it.at for it in life.told if isinstance(it, RunStarted)]
    moved = [it.at for it in life.told if not isinstance(it, RunAccepted | RunQueued)]
    if life.wait_s is not None and moved[0] > accepted + life.wait_s:
        yield f"accepted at {accepted}, and not dropped until {moved[0]}"
    covered = _covered(life)[0]
    if life.deadline_s is not None and started and covered > started[0] + life.deadline_s:
        yield f"started at {started[0]}, and not stopped until {covered}"


def _of_cancels(life: Life, grace_s: float) -> Iterator[str]:
    covered = _covered(life)
    again = math.ceil((covered[-1] - covered[0]) / grace_s) - 1
    if life.handled and life.count(RunStuck) < again:
        yield f"X8: told {life.count(RunStuck)} times again to stop, and not {again} times"


def _covered(life: Life) -> list[float]:
    """Give when it was covered, if it was, and when it ended."""
    return [it.at for it in life.told if isinstance(it, RunCanceling | RunEnded)]
