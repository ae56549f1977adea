"""The stage: a real scheduler, and a record of what everybody can see of it.

Rule 1. Nothing here decides what becomes of a prompt, and nothing is made up: rows and notes are
        read from the scheduler's own views and events.
Rule 2. A prompt counts as accepted when the call that handed it over returned, and as ended when
        its RunEnded was read. The two are counted apart, so that comparing them says something.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from attrs import Factory, define

from sessionsched import (
    Cause,
    RunCanceling,
    RunEnded,
    RunFolded,
    RunProgress,
    RunStarted,
    Scheduler,
    SessionState,
    WhenBusy,
)
from sessionsched.cli.agent import Agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from sessionsched import (
        CancelReceipt,
        Gap,
        Outcome,
        Run,
        RunEvent,
        RunHandle,
        SessionView,
        Subscription,
        Ticket,
    )

__all__ = ["CELL_S", "Cell", "Note", "Row", "Stage", "how", "names", "open_stage"]

#: Seconds of a timeline that are one character wide.
CELL_S: Final = 0.1
#: So many cells and notes are kept: more than any terminal is wide or high.
KEPT: Final = 500


@define
class Cell:
    """One session for one tenth of a second."""

    state: SessionState
    #: What people did: seqs that were accepted, "Esc".
    did: str = ""
    #: The seq of a run that has just started.
    started: str = ""


@define
class Row:
    """The timeline of one session."""

    cells: deque[Cell] = Factory(lambda: deque(maxlen=KEPT))
    #: What belongs to the next cell.
    did: list[str] = Factory(list)
    started: str = ""

    def sample(self, state: SessionState) -> None:
        """Add a cell."""
        self.cells.append(Cell(state, " ".join(self.did), self.started))
        self.did, self.started = [], ""


@define
class Note:
    """Something that happened, in words."""

    at: float
    #: "you" for what people did, "no" for what was refused, the status of a run that ended, or "".
    kind: str
    session_id: str
    text: str

    def line(self) -> str:
        """The note in columns, without any colour."""
        who = self.kind if self.kind in {"you", "no"} else ""
        return f"{self.at:5.1f}  {who:<3}  {self.session_id:<7}  {self.text}".rstrip()


class Stage:
    """What a show, or a person at the keyboard, does to a scheduler; and what was seen of it."""

    def __init__(self, scheduler: Scheduler[str, str]) -> None:
        self.scheduler = scheduler
        #: In the order in which they were first named.
        self.rows: dict[str, Row] = {}
        self.notes: deque[Note] = deque(maxlen=KEPT)
        #: Told of every note as it is written.
        self.on_note: Callable[[Note], object] = lambda _note: None
        #: Called once for each cell of the timelines, and at that pace while they stand still.
        self.on_tick: Callable[[Stage], object] = lambda _stage: None
        #: By seq: everything that a call handed over.
        self.handles: dict[int, RunHandle[str, str]] = {}
        #: In the order in which they were read.
        self.ends: list[RunEnded[str]] = []
        #: By seq: what an agent has said so far, until its run ends.
        self.said: dict[int, str] = {}
        #: Whether timelines grow just now.
        self.rolling = False
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        #: For the next tick; None until it begins.
        self._timer: asyncio.TimerHandle | None = None

    # --- what people do ---

    def send(
        self, session_id: str, prompt: str, when_busy: WhenBusy = WhenBusy.QUEUE
    ) -> RunHandle[str, str]:
        """Hand over a prompt.

        Raises:
            Refused: nothing has changed.
        """
        handle = self.scheduler.submit(session_id, prompt, when_busy=when_busy)
        self._accepted(handle, "" if when_busy is WhenBusy.QUEUE else f" ({when_busy})")
        return handle

    def prepare(self, session_id: str, prompt: str) -> Ticket[str, str]:
        """Take a place in line for a prompt that is not ready yet."""
        ticket = self.scheduler.accept(session_id, prompt)
        self._accepted(ticket.handle, ", not ready yet")
        return ticket

    def escape(self, session_id: str) -> CancelReceipt[str]:
        """Press Escape: cancel whatever the session has in flight."""
        receipt = self.scheduler.cancel(session_id)
        self.row(session_id).did.append("Esc")
        covers = f"the mark is {receipt.mark}, it covers {names(receipt.covered)}"
        self.note("you", session_id, f"Escape: {covers if receipt else 'nothing is in flight'}")
        return receipt

    def note(self, kind: str, session_id: str, text: str) -> None:
        """Write something down."""
        note = Note(self._loop.time() - self._began, kind, session_id, text)
        self.notes.append(note)
        self.on_note(note)

    def row(self, session_id: str) -> Row:
        """The timeline of a session; it gets one when it is first named."""
        return self.rows.setdefault(session_id, Row())

    def _accepted(self, handle: RunHandle[str, str], how: str) -> None:
        self.handles[handle.seq] = handle
        self.row(handle.session_id).did.append(str(handle.seq))
        self.note("you", handle.session_id, f"#{handle.seq} accepted{how}: {handle.run.prompt}")

    # --- how things stand ---

    def view(self, session_id: str) -> SessionView[str]:
        """How a session stands."""
        return self.scheduler.session(session_id)

    def accounts(self) -> tuple[int, int]:
        """How many prompts were accepted, and how many of them have ended exactly once."""
        times = Counter(end.seq for end in self.ends)
        return len(self.handles), sum(times[seq] == 1 for seq in self.handles)

    @property
    def balanced(self) -> bool:
        """Whether accepted = ended: nothing is lost, ended twice, or came from nowhere."""
        accepted, ended = self.accounts()
        return accepted == ended == len(self.ends)

    async def quiet(self) -> None:
        """Wait until nothing moves: all has ended, but for what waits in a line that is held."""
        while runs := [
            run
            for view in self.scheduler.snapshot().sessions
            for run in view.in_flight
            if not (view.held and run.waiting)
        ]:
            await self.handles[runs[0].seq].outcome()

    # --- time ---

    def begin(self, sessions: Iterable[str]) -> None:
        """Clear the stage, but for empty timelines, and let them grow. The accounts are kept."""
        self.rows = {session_id: Row() for session_id in sessions}
        self.notes.clear()
        self.rolling = True
        self._began = self._loop.time()
        # Half a cell off, so that what people do on the beat falls into the same cell every time.
        self._next_tick(CELL_S / 2)

    def stop(self) -> None:
        """No more ticks."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        for session_id, row in self.rows.items() if self.rolling else ():
            row.sample(self.view(session_id).state)
        self._next_tick(CELL_S)
        self.on_tick(self)

    def _next_tick(self, wait_s: float) -> None:
        self.stop()
        self._timer = self._loop.call_later(wait_s, self._tick)

    # --- what is seen ---

    async def read(self, events: Subscription[str]) -> None:
        """Write down what happens, until the scheduler has closed."""
        async for event in events:
            self.see(event)

    def see(self, event: RunEvent[str] | Gap) -> None:
        """Write down one event."""
        match event:
            case RunStarted():
                self.row(event.session_id).started = str(event.seq)
                just = "was just being" if event.run.canceled else "is"
                self.note("", event.session_id, f"#{event.seq} {just} handed to the agent")
            case RunProgress():
                self.said[event.seq] = f"{self.said.get(event.seq, '')} {event.item}".lstrip()
            case RunFolded():
                taker = event.into.removeprefix("run-")
                self.note("", event.session_id, f"#{event.seq} joins #{taker} at its next step")
            case RunCanceling() if event.cause is not Cause.INTERRUPT:  # a receipt told of those
                self.note("", event.session_id, f"#{event.seq} is covered ({event.cause})")
            case RunEnded():
                self.ends.append(event)
                self.said.pop(event.seq, None)
                ended = f"#{event.seq} ended: {how(event.outcome)}"
                self.note(event.outcome.status, event.session_id, ended)


def how(outcome: Outcome[str]) -> str:
    """Say how a run ended, in a few words."""
    words = str(outcome.status)
    if outcome.cause is not None:
        words += f" ({outcome.cause})"
    if not outcome.started:
        words += ", never ran"
    if outcome.folded_into is not None:
        words += f", as a part of #{outcome.folded_into.removeprefix('run-')}"
    return words


def names(runs: Iterable[Run[str]]) -> str:
    """Runs by their seqs."""
    return " ".join(f"#{run.seq}" for run in runs)


@contextlib.asynccontextmanager
async def open_stage(
    seed: int, on_closed: Callable[[Stage], object] = lambda _stage: None
) -> AsyncIterator[Stage]:
    """Open a scheduler with the agent of that seed, and watch it.

    It is closed however the block ends, and `on_closed` is told when every run has ended.
    """
    agent = Agent(seed)
    async with (
        Scheduler(agent, on_dropped=agent.record) as scheduler,
        scheduler.subscribe() as events,
    ):
        stage = Stage(scheduler)
        reader = asyncio.create_task(stage.read(events))
        try:
            yield stage
        finally:
            await scheduler.close()
            await reader
            stage.stop()
            on_closed(stage)
