"""People: those who make calls on a scheduler at random, in tasks and in threads.

Rule 1. What they do is decided by their own random numbers, and by nothing else.
Rule 2. They go through a crowd (crowd.py), which writes it all down.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sessionsched.errors import RunNotCompleted
from sessionsched.events import RunEnded
from sessionsched.model import Scope, WhenBusy
from sessionsched.testing.crowd import HOOKS, STEPS, Crowd, Prompt

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from sessionsched.aio import RunHandle, Ticket

    Handle: TypeAlias = RunHandle[Prompt, str]
    Act: TypeAlias = Callable[["People"], object]

__all__ = ["People", "a_name"]

#: What handlers mostly do; else any steps.
USUAL: Final = (
    (), (), ("turn",), ("nap",), ("nap", "fold", "nap"), ("nap", "emit", "fold"), ("tidy",),
    ("nap", "fold", "nap", "fold"), ("turn", "fold", "nap"), ("hang",), ("swallow", "nap"),
    ("group",), ("timeout", "emit"), ("raise",), ("queue",), ("ask",),
)  # fmt: skip


def a_name(rng: random.Random, sessions: int) -> str:
    """Give a session: each is used, but a few of them most of the time."""
    return f"session {int(sessions * rng.random() ** 6)}"


class People:
    """One of those who make calls, in a task or in a thread."""

    def __init__(self, crowd: Crowd, rng: random.Random, sessions: int) -> None:
        self.crowd = crowd
        self.rng = rng
        self.sessions = sessions
        #: The last runs that it knows of, the tickets it has, and the lines it may have held.
        self.handles: deque[Handle] = deque(maxlen=20)
        self.tickets: list[Ticket[Prompt, str]] = []
        self.held: list[str] = []
        #: What it does besides: turns, and waiting for runs. Only on the loop.
        self.tasks: set[asyncio.Task[object]] = set()

    def in_a_thread(self, calls: int) -> None:
        """Make calls that anybody may make anywhere."""
        for _ in range(calls):
            self._one_of(ANYWHERE)
            if self.rng.random() < 0.2:  # noqa: PLR2004
                time.sleep(self.crowd.unit_s / 4)

    async def on_the_loop(self, calls: int) -> None:
        """Make calls in bursts, and let the loop turn in between."""
        for _ in range(calls):
            self._one_of(ON_THE_LOOP)
            if self.rng.random() < 0.3:  # noqa: PLR2004
                await asyncio.sleep(self.rng.choice((0, 0, self.crowd.unit_s)))

    def _start(self, main: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(main)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _one_of(self, acts: dict[Act, int]) -> None:
        (act,) = self.rng.choices(list(acts), list(acts.values()))
        act(self)

    # --- prompts ---

    def _prompt(self) -> Prompt:
        rng, number = self.rng, self.crowd.next_number()
        any_steps = tuple(rng.choices(list(STEPS), k=rng.randrange(4)))
        steps = rng.choice(USUAL) if rng.random() < 0.8 else any_steps  # noqa: PLR2004
        drop, prepare = (rng.choice(("quick", "quick", "slow", *HOOKS)) for _ in range(2))
        return Prompt(number, steps, drop, prepare)

    def _options(self) -> dict[str, Any]:
        rng, unit_s = self.rng, self.crowd.unit_s
        kinds = (WhenBusy.QUEUE, WhenBusy.QUEUE, WhenBusy.FOLD, WhenBusy.FOLD, *WhenBusy)
        limits = (None, None, None, None, 5 * unit_s, 50 * unit_s)
        return {
            "when_busy": rng.choice(kinds),
            "deadline": rng.choice((*limits, 50 * unit_s)),
            "wait_at_most": rng.choice(limits),
        }

    def _name(self) -> str:
        return a_name(self.rng, self.sessions)

    def submit(self) -> None:
        """Submit something, now and then under a name of one's own."""
        prompt, options = self._prompt(), self._options()
        if self.rng.random() < 0.1:  # noqa: PLR2004
            options["run_id"] = f"mine {prompt.number}"
        handle = self.crowd.submit(self._name(), prompt, **options)
        if handle is not None:
            self.handles.append(handle)

    def ticket(self) -> None:
        """Take a place in line, to prepare something for it."""
        ticket = self.crowd.ticket(self._name(), self._prompt(), **self._options())
        if ticket is not None:
            self.tickets.append(ticket)

    def use_ticket(self) -> None:
        """Be ready with one's oldest ticket, or give it back."""
        if self.tickets:
            ticket = self.tickets.pop(0)
            use = (ticket.ready, ticket.ready, ticket.close, lambda: ticket.close(OSError("no")))
            self.rng.choice(use)()
            self.handles.append(ticket.handle)

    def turn(self) -> None:
        """Take a turn."""
        options = self._options() | {
            "when_busy": self.rng.choice((WhenBusy.QUEUE, WhenBusy.REJECT))
        }
        self._start(self.crowd.turn(self._name(), self._prompt(), **options))

    # --- cancels, and the line ---

    def cancel(self) -> None:
        """Cancel all of a session."""
        self.crowd.cancel(self._of_late())

    def cancel_part(self) -> None:
        """Cancel a part of a session, or up to a fence, and perhaps hold its line."""
        session_id, rng = self._of_late(), self.rng
        up_to = rng.choice((None, *(handle.seq for handle in self.handles)))
        hold = rng.random() < 0.3  # noqa: PLR2004
        self.crowd.cancel(session_id, rng.choice(list(Scope)), up_to, hold=hold)
        self.held.append(session_id)

    def cancel_run(self) -> None:
        """Cancel one run."""
        if self.handles:
            self.crowd.cancel_run(self.rng.choice(self.handles).run)

    def cancel_all(self) -> None:
        """Cancel every session."""
        self.crowd.cancel_all()

    def promote(self) -> None:
        """Move one to the front."""
        if self.handles:
            handle = self.rng.choice(self.handles)
            self.crowd.ledger.of(handle.run).promoted |= handle.promote()

    def pause(self) -> None:
        """Hold a line."""
        self.held.append(self._of_late())
        self.crowd.scheduler.pause(self.held[-1])

    def resume(self) -> None:
        """Let go of a line."""
        if self.held:
            self.crowd.scheduler.resume(self.held.pop(0))

    def _of_late(self) -> str:
        """Give a session that has something in flight, probably."""
        return self.handles[-1].session_id if self.handles else self._name()

    # --- others ---

    def look(self) -> None:
        """Ask how things stand."""
        scheduler = self.crowd.scheduler
        scheduler.session(self._of_late())
        if self.handles:
            str(scheduler.explain(self.handles[0].run_id))

    def outside(self) -> None:
        """Cancel a task behind the scheduler's back."""
        if self.handles:
            self.crowd.outside(self.rng.choice(self.handles).run)

    def wait(self) -> None:
        """Wait for a run, or watch it, and perhaps give up on it."""
        if self.handles:
            handle = self.rng.choice(self.handles)
            self._start(self.rng.choice((self._patiently, self._for_a_while))(handle))
            self._start(self._watch(handle))

    async def _patiently(self, handle: Handle) -> None:
        if await handle.outcome() != handle.run.ended:
            self.crowd.ledger.complaints.append(f"T1: two outcomes of {handle}")

    async def _for_a_while(self, handle: Handle) -> None:
        wrong = (RunNotCompleted, TimeoutError, ValueError, OSError, ExceptionGroup)
        with contextlib.suppress(*wrong):
            await asyncio.wait_for(handle, self.crowd.unit_s)

    async def _watch(self, handle: Handle) -> None:
        """Read of one run until it has ended; nothing, if it has and is forgotten."""
        last: object = None
        async with self.crowd.scheduler.subscribe(run_id=handle.run_id) as events:
            async for event in events:
                last = event
        if last is not None and not isinstance(last, RunEnded):
            self.crowd.ledger.complaints.append(f"T3: {last} is the last that was told of {handle}")


#: What people do, and how often.
ANYWHERE: Final[dict[Act, int]] = {
    People.submit: 600, People.ticket: 60, People.use_ticket: 80, People.cancel: 60,
    People.cancel_part: 40, People.cancel_run: 40, People.promote: 20, People.pause: 15,
    People.resume: 60, People.look: 15, People.cancel_all: 1,
}  # fmt: skip
ON_THE_LOOP: Final[dict[Act, int]] = ANYWHERE | {
    People.turn: 60, People.outside: 15, People.wait: 60,
}  # fmt: skip
