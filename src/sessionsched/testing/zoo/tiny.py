"""Tiny: a small scheduler that keeps the contract. Each animal of the zoo is this one, but for one
bug.

Rule 1. Nobody holds a lock: a call does its part at once and leaves the rest for later, one step at
        a time. Between two steps anybody may call. Where a step should have been one with another,
        there is a race.
Rule 2. A cancel raises the session's mark. Whoever waits at or below it is dropped at the next
        step; the active run is stopped by its hook.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from attrs import Factory, define

from sessionsched.model import How, Status
from sessionsched.testing.contract.adapter import Adapter, Feature

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

__all__ = ["Prompt", "Room", "Tiny"]


@define(eq=False)
class Prompt:
    """One run."""

    seq: int
    room: Room
    follow_up: bool = False
    ready: bool = False
    #: It was active when its session was canceled.
    stopped: bool = False
    #: Follow-ups that it took, in accept order.
    taken: list[Prompt] = Factory(list)


@define(eq=False)
class Room:
    """One session."""

    #: Who waits, in accept order.
    line: list[Prompt] = Factory(list)
    active: Prompt | None = None
    #: What a cancel stops: the active run, from its start to its end.
    hook: Prompt | None = None
    #: Whoever waits with a seq at or below this is canceled.
    mark: int = 0
    #: The greatest seq that was accepted here.
    newest: int = 0


class Tiny(Adapter):
    """Correct."""

    features: Collection[Feature] = (
        Feature.READY, Feature.STEPS, Feature.TOLD, Feature.FOLD,
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.prompts: dict[int, Prompt] = {}
        self.rooms: dict[str, Room] = {}
        #: What is left for later, in this order.
        self._later: deque[Callable[[], None]] = deque()

    def later(self, what: Callable[..., None], *args: object) -> None:
        """Leave something for a step of its own."""
        self._later.append(partial(what, *args))

    def step(self) -> bool:
        if self._later:
            self._later.popleft()()
        return bool(self._later)

    # --- prompts ---

    def accept(self, session: str) -> int:
        return self.enter(session, follow_up=False).seq

    def follow_up(self, session: str) -> int:
        return self.enter(session, follow_up=True).seq

    def enter(self, session: str, *, follow_up: bool) -> Prompt:
        """Take a place at the end of the line."""
        room = self.rooms.setdefault(session, Room())
        prompt = Prompt(len(self.prompts) + 1, room, follow_up)
        self.prompts[prompt.seq] = prompt
        room.line.append(prompt)
        room.newest = prompt.seq
        return prompt

    def ready(self, seq: int) -> None:
        prompt = self.prompts[seq]
        prompt.ready = True
        self.later(self.advance, prompt.room)

    # --- cancels ---

    def cancel(self, session: str) -> None:
        room = self.rooms.get(session, Room())
        room.mark = self.newest(room)
        self.pull_hook(room)
        self.later(self.advance, room)

    def newest(self, room: Room) -> int:
        """Give what the mark is raised to."""
        return room.newest

    def pull_hook(self, room: Room) -> None:
        """Stop what is active."""
        if room.hook is not None and not room.hook.stopped:
            room.hook.stopped = True
            self.note_told(room.hook.seq)

    def is_covered(self, prompt: Prompt) -> bool:
        """Whether a cancel has reached it while it waited."""
        return prompt.seq <= prompt.room.mark

    # --- the line ---

    def advance(self, room: Room) -> None:
        """Drop who is canceled; let the next one start, if nobody is active."""
        self.reap(room)
        if room.active is None and room.line and room.line[0].ready:
            self.start(room, room.line.pop(0))

    def reap(self, room: Room) -> None:
        """Drop everybody in line who is canceled."""
        for prompt in [it for it in room.line if self.is_covered(it)]:
            self.drop(prompt)

    def drop(self, prompt: Prompt) -> None:
        """Take it out of the line, and announce its end."""
        prompt.room.line.remove(prompt)
        self.announce(prompt, Status.CANCELED)

    def start(self, room: Room, prompt: Prompt) -> None:
        """Call its handler."""
        room.active = room.hook = prompt
        self.note_started(prompt.seq)

    def fold(self, seq: int) -> Sequence[int]:
        taker = self.prompts[seq]
        if taker.stopped:
            return []
        room = taker.room
        found = [it for it in room.line if it.follow_up and it.ready and not self.is_covered(it)]
        room.line = [it for it in room.line if it not in found]
        taker.taken += found
        return [it.seq for it in found]

    # --- ends ---

    def finish(self, seq: int, how: How) -> None:
        self.later(self.over, self.prompts[seq], how)

    def over(self, prompt: Prompt, how: How) -> None:
        """Announce its end, and hand over to the next in line."""
        prompt.room.active = prompt.room.hook = None
        self.announce_all(prompt, self.status_of(prompt, how))
        self.hand_over(prompt, how)

    def status_of(self, prompt: Prompt, how: How) -> Status:
        """Say how a run ended whose handler is over."""
        if prompt.stopped:
            return Status.CANCELED
        return Status.COMPLETED if how is How.RETURNED else Status.FAILED

    def announce_all(self, prompt: Prompt, status: Status) -> None:
        """Announce its end, and then those of the follow-ups that it took."""
        for it in (prompt, *prompt.taken):
            self.announce(it, status)

    def announce(self, prompt: Prompt, status: Status) -> None:
        """Tell whoever waits for it."""
        self.note_ended(prompt.seq, status)

    def hand_over(self, prompt: Prompt, how: How) -> None:
        """Let the next in line have its turn."""
        del how  # whatever it was
        self.later(self.advance, prompt.room)
