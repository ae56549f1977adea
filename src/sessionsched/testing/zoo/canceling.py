"""Animals that lose a cancel, or let it hit somebody else (races 1 to 5, 10 and 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.testing.zoo.animal import Animal
from sessionsched.testing.zoo.tiny import Prompt, Room

if TYPE_CHECKING:
    from sessionsched.model import How

__all__ = [
    "CountedCancels",
    "DequeuedIsNobody",
    "HookOfTheNext",
    "IdleCancelStays",
    "LostBeforeActive",
    "MarkClearedEarly",
    "MarkTooHigh",
    "MarkTooLow",
]


class LostBeforeActive(Animal):
    """A cancel lands between accept and the moment the run registers as active: lost."""

    race = 1

    def newest(self, room: Room) -> int:
        registered = [it.seq for it in room.line if it.ready]
        return max(registered, default=room.mark)


class CountedCancels(Animal):
    """Pending cancels are counted, not fenced: a later prompt uses up the count for an earlier."""

    race = 2

    def __init__(self) -> None:
        super().__init__()
        #: How many runs that are not ready yet are to be canceled, for each session.
        self.pending: dict[int, int] = {}

    def cancel(self, session: str) -> None:
        room = self.rooms.get(session, Room())
        for prompt in [it for it in room.line if it.ready]:
            self.drop(prompt)
        self.pending[id(room)] = len(room.line)
        self.pull_hook(room)

    def ready(self, seq: int) -> None:
        prompt = self.prompts[seq]
        if self.pending.get(id(prompt.room)):
            self.pending[id(prompt.room)] -= 1
            self.drop(prompt)
            self.later(self.advance, prompt.room)
        else:
            super().ready(seq)


class IdleCancelStays(Animal):
    """A cancel on an idle session leaves a mark behind: the next prompt is canceled."""

    race = 3

    def __init__(self) -> None:
        super().__init__()
        #: Sessions that were canceled while they were idle.
        self.flags: set[str] = set()

    def cancel(self, session: str) -> None:
        room = self.rooms.get(session, Room())
        if not room.line and room.active is None:
            self.flags.add(session)
        super().cancel(session)

    def enter(self, session: str, *, follow_up: bool) -> Prompt:
        prompt = super().enter(session, follow_up=follow_up)
        if session in self.flags:
            self.flags.remove(session)
            prompt.room.mark = prompt.seq
            self.later(self.advance, prompt.room)
        return prompt


class MarkClearedEarly(Animal):
    """The mark is cleared as soon as one covered run is through: its sibling runs."""

    race = 4

    def reap(self, room: Room) -> None:
        for prompt in [it for it in room.line if self.is_covered(it)][:1]:
            self.drop(prompt)
            room.mark = 0


class MarkTooLow(Animal):
    """`<` for `<=` at the mark: the newest accepted run escapes."""

    race = 5

    def is_covered(self, prompt: Prompt) -> bool:
        return prompt.seq < prompt.room.mark


class MarkTooHigh(Animal):
    """The mark is set one too high: the next prompt is hit."""

    race = 5

    def newest(self, room: Room) -> int:
        return super().newest(room) + 1


class DequeuedIsNobody(Animal):
    """Between dequeue and becoming active the session looks idle: a cancel there is a no-op."""

    race = 10

    def __init__(self) -> None:
        super().__init__()
        #: Sessions that have one between the line and its start.
        self.between: set[int] = set()

    def advance(self, room: Room) -> None:
        self.reap(room)
        busy = room.active is not None or id(room) in self.between
        if not busy and room.line and room.line[0].ready:
            self.between.add(id(room))
            self.later(self.start, room, room.line.pop(0))

    def start(self, room: Room, prompt: Prompt) -> None:
        self.between.remove(id(room))
        super().start(room, prompt)


class HookOfTheNext(Animal):
    """A finishing run deletes the newer run's cancel hook: the newer run can't be canceled."""

    race = 12

    def over(self, prompt: Prompt, how: How) -> None:
        prompt.room.active = None
        self.announce_all(prompt, self.status_of(prompt, how))
        self.hand_over(prompt, how)
        self.later(self.unhook, prompt.room)

    @staticmethod
    def unhook(room: Room) -> None:
        """Clean up, whoever's it is by now."""
        room.hook = None
