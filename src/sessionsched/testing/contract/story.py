"""A story: what was done and seen until a sentence was broken, for people.

Rule 1. Plain words first, then the sentence as the contract has it, then a picture (Mermaid).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched.model import How
from sessionsched.testing.contract.calls import Call
from sessionsched.testing.contract.sentences import SENTENCES

if TYPE_CHECKING:
    from sessionsched.testing.contract.play import Line, Play

__all__ = ["ContractBroken", "Story", "story_of"]


@frozen
class Story:
    """How a sentence was broken."""

    #: Its number in the contract.
    sentence: str
    #: What is wrong, in one line.
    text: str
    #: Enough to tell it again.
    script: tuple[Call, ...]
    #: What was done and seen, line by line.
    lines: tuple[str, ...]
    #: The same as a Mermaid sequence diagram.
    diagram: str

    def __len__(self) -> int:
        """Count the calls."""
        return len(self.script)

    def __str__(self) -> str:
        said = SENTENCES[self.sentence].text
        return "\n".join([
            *self.lines,
            f"  => {self.text}: {self.sentence}",
            "",
            f"{self.sentence} {said}",
            "",
            "```mermaid",
            self.diagram,
            "```",
        ])  # fmt: skip


class ContractBroken(AssertionError):
    """A scheduler broke a sentence of the contract; `story` says how."""

    def __init__(self, story: Story) -> None:
        super().__init__(f"{story.sentence} is broken\n{story}")
        self.story = story


def story_of(play: Play) -> Story:
    """Tell a play in which a sentence was broken.

    Raises:
        ValueError: none was.
    """
    if play.broken is None:
        raise ValueError("a story with a happy end is not worth telling")
    sentence, text = play.broken.sentence, play.broken.text
    return Story(
        sentence=sentence,
        text=text,
        script=tuple(play.script),
        lines=tuple(_told(play.lines)),
        diagram=_diagram(play.lines, f"{sentence} - {text}"),
    )


def _told(lines: list[Line]) -> list[str]:
    """Number the calls, and put what came of each below it."""
    told: list[str] = []
    calls = 0
    for line in lines:
        if isinstance(line.what, Call):
            calls += 1
            told.append(f"  {calls}. {line.words}{_haste(line.what)}")
        else:
            told.append(f"       {line.words}")
    return told


def _haste(call: Call) -> str:
    if call.steps is None:
        return ""
    if call.steps == 0:
        return "; what comes next comes at once"
    return f"; what comes next comes {call.steps} step{'s' if call.steps > 1 else ''} later"


#: Who tells whom: people (P), the scheduler (S), handlers (H).
_ARROWS: Final = {"finish": "H->>S", "fold": "H->>S", "settle": "H->>S"}
_NEWS_ARROWS: Final = {"started": "S->>H", "told": "S-xH", "dropped": "S->>H", "ended": "S-->>P"}
_NEWS: Final = {
    "started": "start",
    "told": "stop",
    "dropped": "record the drop of",
    "ended": "end of",
}
_OVER: Final = {How.RETURNED: "returned", How.RAISED: "raised", How.STOPPED: "stopped"}


def _diagram(lines: list[Line], verdict: str) -> str:
    """Draw it."""
    drawn = [
        "sequenceDiagram",
        "    actor P as people",
        "    participant S as scheduler",
        "    participant H as handlers",
    ]
    drawn += [f"    {_arrow(line)}" for line in lines]
    return "\n".join([*drawn, f"    Note over P,H: {_plain(verdict)}"])


def _arrow(line: Line) -> str:
    call = line.what
    if not isinstance(call, Call):
        text = f"{_NEWS.get(call.what, call.what)} {line.life or f'seq {call.seq}'}"
        status = f": {call.status}" if call.status else ""
        return f"{_NEWS_ARROWS.get(call.what, 'S->>P')}: {_plain(text + status)}"
    about = str(line.life) if line.life else f"session {call.session}" if call.session else ""
    if call.verb in ("accept", "follow_up") and line.life:
        about = f"{line.life} in session {call.session}"
    if call.verb == "finish":
        return f"H->>S: {line.life} {_OVER[call.how]}"
    text = f"{call.verb.replace('_', ' ')} {about}".strip()
    return f"{_ARROWS.get(call.verb, 'P->>S')}: {_plain(text)}"


def _plain(text: str) -> str:
    """Leave out what Mermaid would take for the end of the text."""
    return text.replace(";", ",").replace("#", "no. ")
