"""Wrong calls: what callers do by mistake, too late or twice. None of them may change anything.

Each is made in every situation of an exploration, on the real table; each must be refused with one
of our errors, or say that it did nothing, and leave the situation as it was.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from sessionsched.errors import IllegalEvent, Refused
from sessionsched.model import Cause, Event, How, Run, RunState, Scope, WhenBusy
from sessionsched.rows import HOT, fire
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from sessionsched.testing.explore.world import World

    #: What is called, in words, and the call.
    Wrong: TypeAlias = tuple[str, Callable[[], object]]

__all__ = ["make_wrong_calls"]


def make_wrong_calls(world: World) -> int:
    """Make every wrong call there is in the situation that the world has loaded; count them.

    Raises:
        Violation: one of them did something.
    """
    before = world.sessions(), world.asking()
    count = 0
    for what, call in wrong_calls(world):
        if not _is_refused(call):
            raise Violation("wrong call", f"{what} was taken for good")
        count += 1
    if (world.sessions(), world.asking()) != before or world.effects():
        raise Violation("wrong call", f"one of {count} wrong calls changed something")
    return count


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        return not call()
    except (Refused, IllegalEvent):
        return True


def wrong_calls(world: World) -> Iterator[Wrong]:
    """Give every wrong call of this situation."""
    yield from _on_strangers(world)
    for run in world.runs.values():
        yield from _on_run(world, run)
    for record in world.table._sessions.copy().values():  # noqa: SLF001
        yield from _on_session(world, record)
    for name in world.config.names:
        if name not in world.table._sessions:  # noqa: SLF001
            yield from _on_idle(world, name)


def _on_strangers(world: World) -> Iterator[Wrong]:
    table = world.table
    stranger: Run[str, str] = Run("a", "never accepted")
    yield "finish of a stranger", lambda: table.finish(stranger, How.RETURNED, 0.0)
    yield "settle of a stranger", lambda: table.settle(stranger, 0.0)
    yield "accept for a blank session", lambda: table.accept(Run(" ", "prompt"), 0.0)
    odd: Any = "whenever"
    yield "accept with an unknown policy", lambda: table.accept(Run("a", "", "", odd), 0.0)
    yield "cancel with an unknown scope", lambda: table.cancel("a", 0.0, scope=odd)
    yield "cancel with a cause of ours", lambda: table.cancel("a", 0.0, cause=Cause.SHUTDOWN)
    yield "cancel below every seq", lambda: table.cancel("a", 0.0, up_to=0)
    if table.closed:
        yield "accept after the close", lambda: table.accept(Run("a", "prompt"), 0.0)


def _on_run(world: World, run: Run[str, str]) -> Iterator[Wrong]:
    table, state, what = world.table, run.state, f"of {run!r}"
    if run.session is None:  # ended long ago, and only its announcement is late
        return
    if state is not RunState.ACTIVE:
        yield f"finish {what}", lambda: table.finish(run, How.RETURNED, 0.0)
        yield f"fold {what}", lambda: table.fold(run, 0.0)
        yield f"deadline {what}", lambda: table.cancel_run(run, 0.0, scope=Scope.ACTIVE)
    elif run.canceled:
        yield f"fold {what}", lambda: table.fold(run, 0.0)
    else:
        yield f"abandon {what}", lambda: table.finish(run, How.ABANDONED, 0.0)
    if state is not RunState.ENDING:
        yield f"settle {what}", lambda: table.settle(run, 0.0)
    if state is not RunState.ACCEPTED:
        yield f"ready {what}", lambda: table.ready(run, 0.0)
        yield f"withdraw {what}", lambda: table.withdraw(run, 0.0)
    if not run.waiting:
        yield f"promote {what}", lambda: table.promote(run, 0.0)
        yield f"replace {what}", lambda: table.replace(run, "other")
        yield (
            f"expiry {what}",
            lambda: table.cancel_run(run, 0.0, scope=Scope.WAITING, cause=Cause.EXPIRED),
        )
    if run.canceled:
        yield f"second cause {what}", lambda: table.cancel_run(run, 0.0, cause=Cause.DEADLINE)
    taken: Run[str, str] = Run(run.session_id, "another prompt", run.run_id)
    yield f"another prompt under the id {what}", lambda: table.accept(taken, 0.0)


def _on_session(world: World, record: Any) -> Iterator[Wrong]:
    table, name = world.table, record.session_id
    yield (
        f"REJECT on busy {name}",
        lambda: table.accept(Run(name, "prompt", "", WhenBusy.REJECT), 0.0),
    )
    if record.held:
        yield f"hold of held {name}", lambda: table.hold(name)
    else:
        yield f"resume of {name}", lambda: table.resume(name, 0.0)
    for event in Event:
        if record.state not in HOT[event]:
            yield f"{event} in {record.state}", functools.partial(fire, record, event)


def _on_idle(world: World, name: str) -> Iterator[Wrong]:
    table = world.table
    yield f"cancel of idle {name}", lambda: table.cancel(name, 0.0)
    yield f"cancel and hold of idle {name}", lambda: table.cancel(name, 0.0, hold=True)
    yield f"hold of idle {name}", lambda: table.hold(name)
    yield f"resume of idle {name}", lambda: table.resume(name, 0.0)
