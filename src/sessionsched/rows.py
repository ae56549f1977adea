# ruff: noqa: E501 - a table reads better with its columns in one line
"""The table: the whole truth about the states of a session.

Rule 1. If a state changes anywhere but through a row of ROWS, the diagram lies.
Rule 2. Where several rows match, the first whose `when` holds is taken; the last has none.
Rule 3. Each state is a plain statement about the session's fields (SENTENCES); at any time exactly
        one of them is true, and it is the one that `state` names.

The words in the rows are defined in actions.py. ROWS is declared once: as a `transitions.Machine`
for reference, and compiled from that machine into HOT, which is what sessions run on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from attrs import frozen
from transitions import Machine

from sessionsched import actions as do
from sessionsched.errors import IllegalEvent
from sessionsched.model import Event, SessionState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias

    from sessionsched.machine import Session

    AnySession: TypeAlias = Session[Any]
    Guard: TypeAlias = Callable[[AnySession, Any, float], bool]
    Action: TypeAlias = Callable[[AnySession, Any, float], None]
    #: The rows of one state and event, in their order.
    Group: TypeAlias = tuple[tuple[Guard | None, Action, SessionState], ...]
    #: Takes the row that fits, on (session, what the event is about, now).
    Step: TypeAlias = Callable[[AnySession, Any, float], None]

__all__ = [
    "HOT", "MACHINE", "ROWS", "SENTENCES", "Row", "compile_group", "compile_table", "declare", "fire",
    "flatten",
]  # fmt: skip


@frozen
class Row:
    """One line of the table: in `source`, on `event`, if `when` holds: `do`, go to `target`."""

    source: SessionState
    event: Event
    target: SessionState
    do: Action
    because: str
    when: Guard | None = None


def _rows() -> tuple[Row, ...]:
    idle, accepted, active, queued, canceled = SessionState
    # fmt: off
    return (
        Row(idle,     Event.ACCEPT, accepted, do.enqueue,     "the first prompt wakes the session"),
        Row(accepted, Event.ACCEPT, accepted, do.enqueue,     "it waits behind those that were first"),
        Row(active,   Event.ACCEPT, queued,   do.enqueue,     "one run at a time: it waits"),
        Row(queued,   Event.ACCEPT, queued,   do.enqueue,     "one run at a time: it waits"),
        Row(canceled, Event.ACCEPT, canceled, do.enqueue,     "it came after the cancel and waits for its end"),

        Row(accepted, Event.START,  active,   do.start,       "nobody is left in line", do.it_is_the_only_one_waiting),
        Row(accepted, Event.START,  queued,   do.start,       "the others wait on"),

        Row(accepted, Event.CANCEL, canceled, do.drop,        "what was dropped must be recorded first"),
        Row(active,   Event.CANCEL, canceled, do.interrupt,   "its handler takes time to stop"),
        Row(queued,   Event.CANCEL, canceled, do.interrupt,   "its handler takes time to stop", do.the_active_run_is_covered),
        Row(queued,   Event.CANCEL, active,   do.drop,        "the active run goes on alone", do.all_that_wait_are_covered),
        Row(queued,   Event.CANCEL, queued,   do.drop,        "the active run and some that wait go on"),
        Row(canceled, Event.CANCEL, canceled, do.drop,        "what came after the last cancel is dropped too"),

        Row(active,   Event.FINISH, canceled, do.end_active,  "a drop is not recorded yet", do.some_are_still_ending),
        Row(active,   Event.FINISH, idle,     do.end_active,  "that was all"),
        Row(queued,   Event.FINISH, canceled, do.end_active,  "a drop is not recorded yet", do.some_are_still_ending),
        Row(queued,   Event.FINISH, accepted, do.end_active,  "the next in line may go"),
        Row(canceled, Event.FINISH, canceled, do.end_active,  "it stopped; a drop is not recorded yet", do.some_are_still_ending),
        Row(canceled, Event.FINISH, accepted, do.end_active,  "it stopped; later prompts are not touched", do.some_wait),
        Row(canceled, Event.FINISH, idle,     do.end_active,  "it stopped, and that was all"),

        Row(active,   Event.SETTLE, active,   do.end_dropped, "the active run was not covered and goes on"),
        Row(queued,   Event.SETTLE, queued,   do.end_dropped, "the active run was not covered and goes on"),
        Row(canceled, Event.SETTLE, canceled, do.end_dropped, "that was not the last one", do.another_canceled_run_has_not_ended),
        Row(canceled, Event.SETTLE, accepted, do.end_dropped, "later prompts are not touched", do.some_wait),
        Row(canceled, Event.SETTLE, idle,     do.end_dropped, "that was all"),

        Row(queued,   Event.FOLD,   active,   do.join,        "nobody is left in line", do.it_is_the_only_one_waiting),
        Row(queued,   Event.FOLD,   queued,   do.join,        "the others wait on"),
    )
    # fmt: on


ROWS: Final = _rows()

#: What is true in each state: exactly one of these holds at any time, and it is `state`.
SENTENCES: Final[Mapping[SessionState, tuple[str, Callable[[AnySession], bool]]]] = {
    SessionState.IDLE: (
        "nothing is in flight",
        lambda s: s.active is None and s.length == 0 and s.ending.length == 0,
    ),
    SessionState.ACCEPTED: (
        "runs wait, none is active",
        lambda s: s.active is None and s.length > 0 and s.ending.length == 0,
    ),
    SessionState.ACTIVE: (
        "one run is active, none waits",
        lambda s: s.active is not None and not s.active.canceled and s.length == 0,
    ),
    SessionState.QUEUED: (
        "one run is active, others wait behind it",
        lambda s: s.active is not None and not s.active.canceled and s.length > 0,
    ),
    SessionState.CANCELED: (
        "a canceled run has not ended yet: its handler unwinds, or none is active and its drop is being recorded",
        lambda s: s.active.canceled if s.active is not None else s.ending.length > 0,
    ),
}


def declare(rows: Iterable[Row]) -> Machine:
    """Say it to `transitions`. Sessions are never registered with the machine (a registered model
    costs 5 kB, and a slotted one can't be): they are passed to it, or run on what it compiles to.
    """
    return Machine(
        model=None,
        states=SessionState,
        initial=SessionState.IDLE,
        auto_transitions=False,
        transitions=[
            {
                "trigger": row.event.value,
                "source": row.source,
                "dest": row.target,
                "conditions": [] if row.when is None else [row.when],
                "before": [row.do],
            }
            for row in rows
        ],
    )


def flatten(machine: Machine) -> dict[Event, dict[SessionState, Group]]:
    """Read a `transitions` machine back into (guard, action, target), row by row."""
    # Its stubs allow strings for all three; ROWS gives functions and members, and so do these.
    stock: Any = machine
    return {
        Event(name): {
            source: tuple(
                (
                    transition.conditions[0].func if transition.conditions else None,
                    transition.before[0],
                    stock.get_state(transition.dest).value,
                )
                for transition in event.transitions.get(source.name, ())
            )
            for source in SessionState
        }
        for name, event in stock.events.items()
    }


def compile_table(machine: Machine) -> dict[Event, dict[SessionState, Step]]:
    """Make one function of each group of rows: 30 times faster than the machine."""
    return {
        event: {source: compile_group(rows, _refusing(event)) for source, rows in groups.items()}
        for event, groups in flatten(machine).items()
    }


def compile_group(rows: Group, otherwise: Step) -> Step:
    """Make a function that takes the first row whose guard holds, or else does something else."""
    if not rows:
        return otherwise
    (when, act, target), *others = rows
    if when is None:
        return _always(act, target)
    if len(others) == 1 and others[0][0] is None:
        return _either(when, act, target, *others[0][1:])
    return _if(when, act, target, compile_group(tuple(others), otherwise))


def _always(act: Action, target: SessionState) -> Step:
    def step(session: AnySession, about: object, now: float) -> None:
        act(session, about, now)
        session.state = target

    return _tuned(step)


def _either(
    when: Guard, act: Action, target: SessionState, else_act: Action, else_target: SessionState
) -> Step:
    """`_if` and `_always` in one: what most runs come by."""

    def step(session: AnySession, about: object, now: float) -> None:
        if when(session, about, now):
            act(session, about, now)
            session.state = target
        else:
            else_act(session, about, now)
            session.state = else_target

    return _tuned(step)


def _if(when: Guard, act: Action, target: SessionState, otherwise: Step) -> Step:
    def step(session: AnySession, about: object, now: float) -> None:
        if when(session, about, now):
            act(session, about, now)
            session.state = target
        else:
            otherwise(session, about, now)

    return _tuned(step)


def _tuned(step: Step) -> Step:
    """Let it have its code to itself: Python tunes each place to what is called from there."""
    step.__code__ = step.__code__.replace()
    return step


def _refusing(event: Event) -> Step:
    def step(session: AnySession, _about: object, _now: float) -> NoReturn:
        raise IllegalEvent(session.state, event, session.session_id)

    return step


#: The one declaration: the reference in the tests, and the source of HOT.
MACHINE: Final = declare(ROWS)
#: What sessions run on: for each event and state, the function that takes the row that fits.
HOT: Final = compile_table(MACHINE)


def fire(session: AnySession, event: Event, about: object, now: float) -> None:
    """Take the one row that fits: do what it says, and go where it says.

    Raises:
        IllegalEvent: ROWS has no row for it; the session is as it was.
    """
    HOT[event][session.state](session, about, now)
