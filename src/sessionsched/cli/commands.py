"""What a player types: `chat-1: hello`, or a command. What each does to the stage is here too.

Rule 1. Whatever is typed is answered: by what it did, or by a note that says what is wrong.
Rule 2. A prompt goes to the session that it names, else to the one in focus; naming one moves the
        focus to it.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from sessionsched import Refused, WhenBusy
from sessionsched.cli.stage import names
from sessionsched.diagram import meanings
from sessionsched.model import SessionState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from sessionsched.cli.stage import Stage

__all__ = ["HELP", "Mistake", "Player"]

#: No more lines, and no longer ones, than fit on the board of a small terminal.
HELP: Final = (
    "name: text   waits its turn; `text` goes to the focus (>)",
    "name+ text   joins the active run; name! text replaces it",
    "/cancel [name]           what the Escape key does",
    "/hold, /resume [name]    stop the line, let it move again",
    "/promote [7]             to the front: run #7, or the last",
    "/state [name]            how it stands, why its runs wait",
    "/wait [2]  seconds, or until all is quiet       /quit",
)
#: A name, how to send, and the prompt.
PROMPT: Final = re.compile(r"([^\s:+!/][^\s:+!]*)\s*([:+!])\s*(.*)", re.DOTALL)
WAYS: Final[Mapping[str, WhenBusy]] = {
    ":": WhenBusy.QUEUE,
    "+": WhenBusy.FOLD,
    "!": WhenBusy.INTERRUPT,
}


class Mistake(Exception):
    """What was typed can't be done; the text says why, for people."""


class Player:
    """A person, or a script, on a stage."""

    def __init__(self, stage: Stage, sessions: Iterable[str]) -> None:
        self.stage = stage
        for session_id in sessions:
            stage.row(session_id)
        #: The session that Escape cancels, and that prompts without a name go to. It has a row.
        self.focus = next(iter(stage.rows))
        #: Whether /quit was typed.
        self.left = False
        self._commands: Mapping[str, Callable[[str], Awaitable[None] | None]] = {
            "cancel": self._cancel,
            "help": self._help,
            "hold": self._hold,
            "promote": self._promote,
            "quit": self._quit,
            "resume": self._resume,
            "state": self._state,
            "wait": self._wait,
        }

    async def do(self, typed: str) -> None:
        """Do what a line says, or note what is wrong with it."""
        typed = typed.strip()
        try:
            if typed.startswith("/"):
                await self._command(*typed[1:].split(maxsplit=1))
            elif typed:
                self._prompt(typed)
        except (Mistake, Refused) as error:
            self.stage.note("no", "", str(error))

    def escape(self) -> None:
        """The Escape key."""
        self.stage.escape(self.focus)

    def next_session(self) -> None:
        """The Tab key: move the focus."""
        known = list(self.stage.rows)
        self.focus = known[(known.index(self.focus) + 1) % len(known)]

    def _prompt(self, typed: str) -> None:
        found = PROMPT.fullmatch(typed)
        name, way, prompt = found.groups() if found else (self.focus, ":", typed)
        if not prompt:
            msg = f"say something to {name}: `{name}{way} hello`"
            raise Mistake(msg)
        self.stage.send(name, prompt, WAYS[way])
        self.focus = name

    async def _command(self, name: str = "", argument: str = "") -> None:
        command = self._commands.get(name)
        if command is None:
            msg = f"there is no /{name}; /help lists what there is"
            raise Mistake(msg)
        answer = command(argument.strip())
        if answer is not None:
            await answer

    def _named(self, argument: str) -> str:
        """The session that was named, or the one in focus. Moves the focus."""
        name = argument or self.focus
        if name not in self.stage.rows:
            msg = f"nobody knows {name}; there are {', '.join(self.stage.rows)}"
            raise Mistake(msg)
        self.focus = name
        return name

    # --- commands ---

    def _cancel(self, argument: str) -> None:
        self.stage.escape(self._named(argument))

    def _hold(self, argument: str) -> None:
        name = self._named(argument)
        if not self.stage.scheduler.pause(name):
            msg = f"{name} is idle, or held already"
            raise Mistake(msg)
        self.stage.note("you", name, "the line is held")

    def _resume(self, argument: str) -> None:
        name = self._named(argument)
        if not self.stage.scheduler.resume(name):
            msg = f"{name} isn't held"
            raise Mistake(msg)
        self.stage.note("you", name, "the line moves again")

    def _promote(self, argument: str) -> None:
        handle = self.stage.handles.get(self._seq(argument))
        if handle is None or not handle.promote():
            msg = f"#{argument.lstrip('#')} doesn't wait; /state says what does"
            raise Mistake(msg)
        line = names(self.stage.scheduler.waiting(handle.session_id))
        self.stage.note("you", handle.session_id, f"#{handle.seq} promoted: the line is {line}")

    def _seq(self, argument: str) -> int:
        """The run that was named by its number, or the last one in line."""
        line = self.stage.scheduler.waiting(self.focus)
        if not argument and not line:
            msg = f"nothing waits in {self.focus}"
            raise Mistake(msg)
        number = argument.lstrip("#")
        if number.isdecimal():
            return int(number)
        return 0 if argument else line[-1].seq

    def _state(self, argument: str) -> None:
        name = self._named(argument)
        view = self.stage.view(name)
        held = ", and held" if view.held else ""
        mark = f"; the mark is {view.mark}" if view.mark else ""
        sentence = meanings(SessionState)[view.state]
        self.stage.note("", name, f"is {view.state}{held}: {sentence}{mark}")
        for run in view.in_flight:
            _, _, why = str(self.stage.scheduler.explain(run.run_id)).partition(": ")
            self.stage.note("", name, f"#{run.seq} {run.prompt}: {why.replace('run-', '#')}")

    async def _wait(self, argument: str) -> None:
        if not argument:
            await self.stage.quiet()
            return
        if not re.fullmatch(r"\d{1,4}(\.\d+)?", argument):
            msg = f"/wait takes a number of seconds, not {argument}"
            raise Mistake(msg)
        await asyncio.sleep(float(argument))

    def _help(self, _argument: str) -> None:
        for line in HELP:
            self.stage.note("", "", line)

    def _quit(self, _argument: str) -> None:
        self.left = True
