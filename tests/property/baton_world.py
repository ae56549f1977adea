"""The real ThreadScheduler under a baton, with the threads that it starts; and what judges it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from baton_table import all_under

from sessionsched import ThreadScheduler
from sessionsched.errors import Refused
from sessionsched.model import RunState, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sessionsched import ThreadRun
    from sessionsched.testing.baton import Baton, Story

    Body = Callable[[], object]


class World:
    """One scheduler whose handler and hooks do what each prompt says, and what they saw."""

    def __init__(self, baton: Baton, threading: Any, **options: Any) -> None:
        self.baton: Any = baton
        self.threading = threading
        self.handled: list[Any] = []
        self.dropped: list[Any] = []
        self.handles: list[Any] = []
        #: How long it takes to record a drop.
        self.drop_s = 0.0
        #: What else somebody saw.
        self.seen: list[Any] = []
        #: Looks at what a story is about, at its end.
        self.look: Body = bool
        chosen: dict[str, Any] = {"threads": 2, "on_dropped": self.drop, "grace": 1.0} | options
        self.scheduler: ThreadScheduler[Any, str] = ThreadScheduler(self.handle, **chosen)
        self.driver = self.scheduler._driver

    def handle(self, run: ThreadRun[Any]) -> str:
        self.handled.append(run)
        return str(run.prompt(run) if callable(run.prompt) else run.prompt)

    def drop(self, run: ThreadRun[Any]) -> None:
        self.dropped.append(run)
        self.baton.sleep(self.drop_s)

    def submit(self, prompt: Any = "hello", session_id: str = "s", **options: Any) -> Any:
        try:
            handle = self.scheduler.submit(session_id, prompt, **options)
        except Refused as refusal:
            self.seen.append(refusal)
            return None
        self.handles.append(handle)
        return handle

    def submits(self, *args: Any, **options: Any) -> Body:
        return partial(self.submit, *args, **options)

    def outcome(self, handle: Any, timeout: float | None = None) -> Status:
        return Status(handle.outcome(timeout).status)

    def close(self, drain: float = 0.0) -> None:
        self.seen.append(self.scheduler.close(drain))

    def judge(self) -> None:
        """T1, P1, S7: what must be so whatever was done."""
        driver = self.driver
        for handle in self.handles:
            run: Any = handle.run
            assert run.state is RunState.ENDED, f"{run} has not ended"
            assert run.ended.status is not Status.FAILED, f"{run}: {run.ended.error!r}"
            assert run.announced, f"the end of {run} was not announced"
            by = (self.handled.count(run), self.dropped.count(run))
            assert by in ((1, 0), (0, 1)), f"{run} was seen by (handler, on_dropped): {by}"
        assert not driver.table.busy
        assert not driver.table._sessions, "records are left"
        assert driver.table.outbox.idle, "effects are left"
        assert not driver.waits._runs, "somebody waits"
        assert not driver.waits._carriers, "somebody is carried"
        assert not driver.timers, "timers of runs are left"
        assert not driver._preparing, "preparations are left"
        assert not driver.stragglers(), f"something goes on: {driver._kept}"
        if driver.closing is not None:
            left = [it for it in self.baton._threads if not it.over]
            assert not left, f"threads are left: {[it.where() for it in left]} (S7)"


def story(setting: Callable[[World], list[Body]], **options: Any) -> Story:
    """Tell what `setting` gives bodies for; judge; close, and judge once more."""

    def told(baton: Baton) -> Generator[Any, None, None]:
        with all_under(baton) as threading:
            world = World(baton, threading, **options)
            bodies = setting(world)
            yield bodies
            world.judge()
            world.look()
            baton.run([world.close])
            world.judge()

    return told
