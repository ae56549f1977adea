"""Two threads at one real table: stories for the baton, and what must be so at the end of each."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import history as sentence
import pytest
from history import AnyRun, Call, History, Told

from sessionsched import table as table_module
from sessionsched.errors import Refused
from sessionsched.model import Effect, How, Limits, Run, Scope, WhenBusy
from sessionsched.slots import Slots
from sessionsched.table import Record, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from sessionsched.testing.baton import Baton, Story

#: Lines in these are points; the machine below them is only ever called under a session's lock.
FILES: Final = (
    "sessionsched/table.py", "sessionsched/ids.py", "sessionsched/outbox.py",
    "sessionsched/slots.py",
)  # fmt: skip


#: What a history is judged by.
CHECKERS: Final = [
    check
    for check in vars(sentence).values()
    if inspect.isfunction(check) and [*inspect.signature(check).parameters] == ["history"]
]


@contextlib.contextmanager
def all_under(baton: Baton) -> Iterator[Any]:
    """Let everything in sessionsched wait under a baton. Gives what stands in for `threading`."""
    modules = [
        module
        for name, module in [*sys.modules.items()]
        if name.startswith("sessionsched.") and not name.startswith("sessionsched.testing")
    ]
    right: Any = Record  # its lock is made by what its class was given, and not by a module
    with baton.stands_in(modules) as threading, pytest.MonkeyPatch.context() as patch:
        lock = threading.Lock
        patch.setattr(table_module, "Record", lambda *args: right(*args, lock=lock()))
        yield threading


class SeenTable(Table[str]):
    """Keeps what all sessions answered to a close."""

    answers: tuple[Any, ...] = ()

    def _ask_each(self, question: Callable[[Record[str]], Any]) -> list[Any]:
        self.answers = tuple(super()._ask_each(question))
        return list(self.answers)


class World:
    """One table, what was asked of it, and a driver that does what it orders later."""

    def __init__(self, max_active: int | None = None) -> None:
        self.table = SeenTable(Limits(max_active=max_active, remembered=2))
        self.history = History(max_active=max_active, remembered=2)
        self.tick = itertools.count(1).__next__
        self.orders: list[tuple[Effect, AnyRun]] = []
        self.performing = False

    def ask(self, name: str, *about: Any, **how: Any) -> Any:
        """Call a method of the table, write it down, and drain as a driver does."""
        began = self.tick()
        try:
            answer = getattr(self.table, name)(*about, now=began, **how)
        except Refused as refusal:
            answer = refusal
        if name in sentence.CLOSING:
            answer = self.table.answers
        call = Call(name, about[0] if about else "", answer, began, self.tick(), how)
        self.history.calls.append(call)
        self.table.drain(self.perform)
        return answer

    def asks(self, *calls: tuple[Any, ...]) -> Callable[[], None]:
        """Give a body that makes these calls: (name, about), or (name, about, options)."""

        def body() -> None:
            for name, *about in calls:
                how = about.pop() if about and isinstance(about[-1], dict) else {}
                self.ask(name, *about, **how)

        return body

    def perform(self, effect: Effect, run: AnyRun, _at: float) -> None:
        assert not self.performing, "two perform at once"
        self.performing = True
        self.history.told.append(Told(effect, run, self.tick(), run.ended))
        if effect in (Effect.START, Effect.DROP):
            self.orders.append((effect, run))
        self.performing = False

    def carry_out(self) -> None:
        """Let all handlers and hooks come to their end."""
        for session_id in "st":
            if self.table.session(session_id).held:
                self.ask("resume", session_id)
        while self.orders:
            effect, run = self.orders.pop(0)
            if effect is Effect.DROP:
                self.ask("settle", run)
            elif run.ended is None:
                self.ask("finish", run, How.RETURNED, result=self.tick())

    def judge(self) -> None:
        table = self.table
        assert not table.snapshot().sessions, f"stranded: {table.snapshot()}"
        assert not table._sessions, f"records are left: {table._sessions}"
        assert not len(table.outbox), "effects that nobody performed"
        ids = table.ids
        assert not ids.in_flight, f"in flight for ever: {ids.in_flight}"
        assert sorted(ids.named) == sorted(ids.ended), f"{ids.named}, not {ids.ended}"
        if isinstance(slots := table._slots, Slots):
            assert (slots._free, len(slots._asking)) == (1, 0), "slots are lost"
        for checker in CHECKERS:
            checker(self.history)


def a_run(session_id: str = "s", run_id: str = "", when: WhenBusy = WhenBusy.QUEUE) -> AnyRun:
    return Run(session_id, "prompt", run_id, when)


def story(
    setting: Callable[[World], Sequence[Callable[[], object]]], max_active: int | None = None
) -> Story:
    """Tell what `setting` sets up and gives bodies for; then all ends, and is judged."""

    def told(baton: Baton) -> Generator[Any, None, None]:
        with all_under(baton):
            world = World(max_active)
            yield setting(world)
            world.carry_out()
            world.judge()

    return told


def started(world: World, **how: Any) -> AnyRun:
    run = a_run(**how)
    world.ask("accept", run)
    return run


def accept_and_cancel(world: World) -> Any:
    return [world.asks(("accept", a_run())), world.asks(("cancel", "s"))]


def accept_and_cancel_behind_another(world: World) -> Any:
    started(world)
    return accept_and_cancel(world)


def accept_and_close(world: World) -> Any:
    return [world.asks(("accept", a_run())), world.asks(("close",), ("suspend_active",))]


def cancel_and_finish(world: World) -> Any:
    run, _ = started(world), started(world)
    return [world.asks(("cancel", "s")), partial(finish, world, run)]


def finish(world: World, run: AnyRun) -> None:
    world.ask("finish", run, How.RETURNED, result=world.tick())


def one_id_twice(world: World) -> Any:
    return [world.asks(("accept", a_run(run_id="id"))) for _ in range(2)]


def one_id_in_two_sessions(world: World) -> Any:
    return [world.asks(("accept", a_run(session_id, "id"))) for session_id in "st"]


def accept_and_fall_idle(world: World) -> Any:
    run = started(world)
    return [partial(finish, world, run), world.asks(("accept", a_run()))]


def accept_and_refuse_when_idle(world: World) -> Any:
    run, busy = started(world), a_run(when=WhenBusy.REJECT)
    return [partial(finish, world, run), world.asks(("accept", busy), ("cancel", "s"))]


def two_drainers(world: World) -> Any:
    return [world.asks(("accept", a_run(session_id))) for session_id in "st"]


def hold_and_cancel(world: World) -> Any:
    run, _ = started(world), started(world)
    held = {"scope": Scope.ACTIVE, "hold": True}

    def over() -> None:
        world.ask("cancel", "s", **held)
        finish(world, run)

    return [over, world.asks(("resume", "s"), ("cancel", "s"))]


def a_slot_for_another(world: World) -> Any:
    run = started(world)
    return [partial(finish, world, run), world.asks(("accept", a_run("t")))]


def a_slot_that_nobody_wants(world: World) -> Any:
    run, _ = started(world), started(world, session_id="t")
    return [partial(finish, world, run), world.asks(("cancel", "t"), ("accept", a_run("t")))]


def a_slot_that_two_ask_for(world: World) -> Any:
    run = started(world)
    for session_id in "tu":
        started(world, session_id=session_id)
    return [partial(finish, world, run), world.asks(("cancel", "t"))]


def ready_close_and_cancel(world: World) -> Any:
    run = a_run()
    world.ask("accept", run, ready=False)
    return [world.asks((what, run)) for what in ("ready", "withdraw", "cancel_run")]


def fold_and_cancel(world: World) -> Any:
    run, _ = started(world), started(world, when=WhenBusy.FOLD)
    return [world.asks(("fold", run)), world.asks(("cancel", "s"))]


def two_interrupting_prompts(world: World) -> Any:
    started(world)
    return [world.asks(("accept", a_run(when=WhenBusy.INTERRUPT))) for _ in range(2)]


#: Each setting, and the slots that it is told with.
STORIES: Final[dict[str, Story]] = {
    **{
        setting.__name__: story(setting)
        for setting in (
            accept_and_cancel, accept_and_cancel_behind_another, accept_and_close,
            cancel_and_finish, one_id_twice, one_id_in_two_sessions, accept_and_fall_idle,
            accept_and_refuse_when_idle, two_drainers, hold_and_cancel, ready_close_and_cancel,
            fold_and_cancel, two_interrupting_prompts,
        )
    },
    **{
        f"{setting.__name__} (one slot)": story(setting, max_active=1)
        for setting in (
            two_drainers, a_slot_for_another, a_slot_that_nobody_wants, a_slot_that_two_ask_for,
        )
    },
}  # fmt: skip
