"""Wrong calls: what callers do by mistake, too late or twice. None of them may change anything.

Each is made in every situation of an exploration, on the real table; each must be refused with one
of our errors, or say that it did nothing, and leave the situation as it was.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Final

from sessionsched.errors import IllegalEvent, Refused
from sessionsched.model import Cause, Event, How, Run, RunState, Scope, WhenBusy
from sessionsched.rows import ROWS, fire
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from sessionsched.testing.explore.situation import Frozen
    from sessionsched.testing.explore.world import World

    #: The sentence that it would break, the call in words, and the call.
    Wrong: TypeAlias = tuple[str, str, Callable[[], object]]

__all__ = ["make_wrong_calls"]

_LEGAL: Final = {(row.source, row.event) for row in ROWS}


def make_wrong_calls(world: World, situation: Frozen) -> int:
    """Make every wrong call there is in the situation that the world has loaded; count them.

    Raises:
        Violation: one of them did something.
    """
    before = world.sessions(), world.asking()
    refused = [_is_refused(call) for _, _, call in wrong_calls(world)]
    if not all(refused) or (world.sessions(), world.asking()) != before or world.effects():
        _name_the_culprit(world, situation)
    return len(refused)


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        return not call()
    except (Refused, IllegalEvent):
        return True


def _name_the_culprit(world: World, situation: Frozen) -> None:
    """Make the calls again, each in a fresh world, until one of them does something."""
    for place in itertools.count():
        world.load(situation)
        before = world.sessions(), world.asking()
        sentence, what, call = next(itertools.islice(wrong_calls(world), place, None))
        if not _is_refused(call):
            raise Violation(sentence, f"{what} was taken for good")
        if (world.sessions(), world.asking()) != before or world.effects():
            raise Violation(sentence, f"{what} changed something")


def wrong_calls(world: World) -> Iterator[Wrong]:
    """Give every wrong call of this situation."""
    for run in world.runs.values():
        yield from _on_run(world, run)
    for record in world.table._sessions.copy().values():  # noqa: SLF001
        yield from _on_session(world, record)
    for name in world.config.names:
        if name not in world.table._sessions:  # noqa: SLF001
            yield from _on_idle(world, name)
    yield from _on_strangers(world)


def _on_strangers(world: World) -> Iterator[Wrong]:
    table = world.table
    stranger: Run[str] = Run("a", "never accepted")
    yield "T1", "finish of a stranger", lambda: table.finish(stranger, How.RETURNED, 0.0)
    yield "T1", "settle of a stranger", lambda: table.settle(stranger, 0.0)
    yield "A4", "accept for a blank session", lambda: table.accept(Run(" ", "prompt"), 0.0)
    odd: Any = "whenever"
    yield "A4", "accept with an unknown policy", lambda: table.accept(Run("a", "", "", odd), 0.0)
    yield "A4", "cancel with an unknown scope", lambda: table.cancel("a", 0.0, scope=odd)
    yield "A4", "cancel with a cause of ours", lambda: table.cancel("a", 0.0, cause=Cause.SHUTDOWN)
    yield "X5", "cancel below every seq", lambda: table.cancel("a", 0.0, up_to=0)
    if table.closed:
        yield "A4", "accept after the close", lambda: table.accept(Run("a", "prompt"), 0.0)


def _on_run(world: World, run: Run[str]) -> Iterator[Wrong]:
    table, state, what = world.table, run.state, f"of {{{run.seq}}} ({run.state})"
    if run.session is None:  # ended long ago, and only its announcement is late
        return
    if state is not RunState.ACTIVE:
        yield "T1", f"finish {what}", lambda: table.finish(run, How.RETURNED, 0.0)
        yield "F1", f"fold {what}", lambda: table.fold(run, 0.0)
        yield "X10", f"deadline {what}", lambda: table.cancel_run(run, 0.0, scope=Scope.ACTIVE)
    elif run.canceled:
        yield "F1", f"fold {what}", lambda: table.fold(run, 0.0)
    else:
        yield "T1", f"abandon {what}", lambda: table.finish(run, How.ABANDONED, 0.0)
    if state is not RunState.ENDING:
        yield "T1", f"settle {what}", lambda: table.settle(run, 0.0)
    if state is not RunState.ACCEPTED:
        yield "D2", f"ready {what}", lambda: table.ready(run, 0.0)
        yield "X7", f"withdraw {what}", lambda: table.withdraw(run, 0.0)
    if not run.waiting:
        yield "D2", f"promote {what}", lambda: table.promote(run, 0.0)
        yield "D2", f"replace {what}", lambda: table.replace(run, "other")
        yield (
            "X10",
            f"expiry {what}",
            lambda: table.cancel_run(run, 0.0, scope=Scope.WAITING, cause=Cause.EXPIRED),
        )
    if run.canceled:
        yield (
            "X12",
            f"second cause {what}",
            lambda: table.cancel_run(run, 0.0, cause=Cause.DEADLINE),
        )
    yield "A5", f"accept {what} once more", lambda: table.accept(run, 0.0) is not run
    taken: Run[str] = Run(run.session_id, "another prompt", run.run_id)
    yield "A5", f"another prompt under the id {what}", lambda: table.accept(taken, 0.0)


def _on_session(world: World, record: Any) -> Iterator[Wrong]:
    table, name = world.table, record.session_id
    yield (
        "A4",
        f"REJECT on busy {name}",
        lambda: table.accept(Run(name, "prompt", "", WhenBusy.REJECT), 0.0),
    )
    if record.held:
        yield "X10", f"hold of held {name}", lambda: table.hold(name)
    else:
        yield "X10", f"resume of {name}", lambda: table.resume(name, 0.0)
    for event in Event:
        if (record.state, event) not in _LEGAL:
            wrong = functools.partial(fire, record, event, None, 0.0)
            yield "rows", f"{event} in {record.state}", wrong


def _on_idle(world: World, name: str) -> Iterator[Wrong]:
    table = world.table
    yield "X3", f"cancel of idle {name}", lambda: table.cancel(name, 0.0)
    yield "X3", f"cancel and hold of idle {name}", lambda: table.cancel(name, 0.0, hold=True)
    yield "R1", f"hold of idle {name}", lambda: table.hold(name)
    yield "R1", f"resume of idle {name}", lambda: table.resume(name, 0.0)
