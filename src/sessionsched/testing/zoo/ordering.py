"""Animals that strand the line, or let it move in the wrong order (races 8, 9, 11 and 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.model import How
from sessionsched.testing.zoo.animal import Animal

if TYPE_CHECKING:
    from sessionsched.testing.zoo.tiny import Prompt, Room

__all__ = ["BehindTheUnwinding", "LastComeFirst", "StrandedByAnError", "TwoSeeNotBusy"]


class StrandedByAnError(Animal):
    """The run ends with an error, and the hand-over to the next in line is skipped."""

    race = 8

    def hand_over(self, prompt: Prompt, how: How) -> None:
        if how is not How.RAISED:
            super().hand_over(prompt, how)


class BehindTheUnwinding(Animal):
    """Prompt B is sent while canceled A unwinds: B is queued behind A and nobody starts it."""

    race = 9

    def hand_over(self, prompt: Prompt, how: How) -> None:
        if prompt.stopped:
            return  # the cancel has emptied the line
        super().hand_over(prompt, how)


class TwoSeeNotBusy(Animal):
    """Two submitters both see "not busy": two runs of one session at once."""

    race = 11

    def advance(self, room: Room) -> None:
        self.reap(room)
        if room.active is None:
            self.later(self.start_next, room)

    def start_next(self, room: Room) -> None:
        """Start the first in line, having seen that nobody is active."""
        self.reap(room)
        if room.line and room.line[0].ready:
            self.start(room, room.line.pop(0))


class LastComeFirst(Animal):
    """Accepted A, B, C and started A, C, B."""

    race = 14

    def advance(self, room: Room) -> None:
        self.reap(room)
        if room.active is None and room.line and room.line[0].ready:
            ready = [it for it in room.line if it.ready]
            room.line.remove(ready[-1])
            self.start(room, ready[-1])
