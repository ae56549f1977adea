"""Animals that forget to announce an end, or announce it wrongly (races 6, 7, 13, 15, 16, 18)."""

from __future__ import annotations

from sessionsched.model import How, Status
from sessionsched.testing.zoo.animal import Animal
from sessionsched.testing.zoo.tiny import Prompt, Room

__all__ = [
    "ClearedWithoutLock",
    "EarlyReturn",
    "ErrorOfAnother",
    "LastToKnow",
    "SilentDrop",
    "VanishedFollowUps",
]


class SilentDrop(Animal):
    """A queued prompt is dropped by a cancel and nobody announces its end: its caller waits."""

    race = 6

    def drop(self, prompt: Prompt) -> None:
        prompt.room.line.remove(prompt)
        if not prompt.ready:
            self.announce(prompt, Status.CANCELED)


class EarlyReturn(Animal):
    """Cancel-on-entry returns early, before the code that announces the end."""

    race = 7

    def reap(self, room: Room) -> None:
        for prompt in [it for it in room.line if self.is_covered(it) and it.ready]:
            self.drop(prompt)

    def ready(self, seq: int) -> None:
        prompt = self.prompts[seq]
        if not self.is_covered(prompt):
            super().ready(seq)
            return
        prompt.room.line.remove(prompt)
        self.later(self.advance, prompt.room)


class ClearedWithoutLock(Animal):
    """Clearing the line without the lock: a prompt appended meanwhile vanishes without an end."""

    race = 13

    def cancel(self, session: str) -> None:
        super().cancel(session)
        self.later(self.clear, self.rooms.get(session, Room()))

    @staticmethod
    def clear(room: Room) -> None:
        """Empty the line, whose runs have been announced by now, or so it thinks."""
        room.line.clear()


class LastToKnow(Animal):
    """A's end is announced only after everything queued behind it has run: ends come as B, A."""

    race = 15

    def __init__(self) -> None:
        super().__init__()
        #: Ends that were not announced yet, for each session.
        self.stack: dict[int, list[tuple[Prompt, Status]]] = {}

    def announce_all(self, prompt: Prompt, status: Status) -> None:
        stack = self.stack.setdefault(id(prompt.room), [])
        stack.append((prompt, status))
        if not any(it.ready for it in prompt.room.line):
            while stack:
                super().announce_all(*stack.pop())


class VanishedFollowUps(Animal):
    """Follow-ups are off the line when recording the first one fails: the rest vanish."""

    race = 16

    def announce_all(self, prompt: Prompt, status: Status) -> None:
        if status is Status.FAILED:
            del prompt.taken[1:]
        super().announce_all(prompt, status)


class ErrorOfAnother(Animal):
    """B's error is reported under A's run id."""

    race = 18

    def __init__(self) -> None:
        super().__init__()
        #: The run that found its session idle, and goes on to run those behind it.
        self.carriers: dict[int, Prompt] = {}

    def start(self, room: Room, prompt: Prompt) -> None:
        super().start(room, prompt)
        self.carriers.setdefault(id(room), prompt)

    def over(self, prompt: Prompt, how: How) -> None:
        super().over(prompt, how)
        if not prompt.room.line:
            self.carriers.pop(id(prompt.room), None)

    def announce(self, prompt: Prompt, status: Status) -> None:
        carrier = self.carriers.get(id(prompt.room), prompt)
        super().announce(carrier if status is Status.FAILED else prompt, status)
