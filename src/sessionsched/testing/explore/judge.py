"""The judge: whether one step kept the contract, sentence by sentence.

Rule 1. Whatever is wrong is named by the sentence that it breaks; what no sentence here catches is
        caught by the last one, which compares with the naive model to the letter.
Rule 2. It judges what was ordered and what is so now, never what the machine thinks of itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from sessionsched.model import Effect
from sessionsched.rows import SENTENCES
from sessionsched.testing.explore.situation import runs_of

if TYPE_CHECKING:
    from sessionsched.machine import Session
    from sessionsched.testing.explore.situation import (
        Action,
        Frozen,
        FrozenRun,
        FrozenSession,
        Out,
    )
    from sessionsched.testing.explore.world import World

__all__ = ["Step", "Violation", "judge", "look_around"]


class Violation(Exception):
    """A step broke a sentence of the contract."""

    def __init__(self, sentence: str, text: str) -> None:
        super().__init__(f"{sentence}: {text}")
        self.sentence = sentence
        self.text = text


@define
class Step:
    """One step, as seen from outside."""

    action: Action
    before: Frozen
    after: tuple[FrozenSession, ...]
    #: What was ordered, in order.
    effects: list[Out]
    #: What the naive model says should have been, and how it should stand now.
    expected: list[Out]
    expected_after: tuple[FrozenSession, ...]

    @property
    def was(self) -> dict[int, FrozenRun]:
        """Runs in flight before the step."""
        return _in_flight(self.before.sessions)

    @property
    def now(self) -> dict[int, FrozenRun]:
        """Runs in flight after it."""
        return _in_flight(self.after)

    def ordered(self, effect: Effect) -> list[int]:
        """The seqs that got this order, in order."""
        return [out[1] for out in self.effects if out[0] is effect]


def judge(step: Step) -> None:
    """Find nothing wrong, or raise.

    Raises:
        Violation: of the first sentence that was broken.
    """
    if step.effects == step.expected and _agree(step.after, step.expected_after):
        return
    for sentence in (
        _idle_cancel_changes_nothing,
        _marks_rise,
        _no_cancel_is_lost,
        _no_later_prompt_is_poisoned,
        _starts,
        _folds,
        _ends_once,
        _to_the_letter,
    ):
        sentence(step)


def _idle_cancel_changes_nothing(step: Step) -> None:
    """X3."""
    if step.action[0] != "cancel":
        return
    name = step.action[1]
    if all(it.name != name for it in step.before.sessions) and (
        step.effects or any(it.name == name for it in step.after)
    ):
        raise Violation("X3", f"a cancel on idle session {name} left something behind")


def _marks_rise(step: Step) -> None:
    """X4."""
    marks = {it.name: it.mark for it in step.before.sessions}
    for it in step.after:
        if it.mark < marks.get(it.name, 0):
            raise Violation("X4", f"the mark of {it.name} fell from {marks[it.name]} to {it.mark}")
        if it.mark > it.newest:
            raise Violation("X2", f"the mark of {it.name} is above every run accepted there")


def _no_cancel_is_lost(step: Step) -> None:
    """X1, X5, X9, X10: what a cancel should cover is covered, now."""
    should = _in_flight(step.expected_after)
    for seq, run in step.now.items():
        if seq in should and should[seq].cause and not run.cause:
            raise Violation(
                "X1", f"{{{seq}}} was in flight when it was canceled, and isn't covered"
            )


def _no_later_prompt_is_poisoned(step: Step) -> None:
    """X2: what no cancel reached is not covered."""
    should = _in_flight(step.expected_after)
    for seq, run in step.now.items():
        if seq in should and run.cause and not should[seq].cause:
            raise Violation("X2", f"{{{seq}}} is covered, and no cancel reached it")


def _starts(step: Step) -> None:
    """D1, D2, X7, T2."""
    for seq in step.ordered(Effect.START):
        before = step.was.get(seq)
        if before is not None and before.cause:
            raise Violation("X7", f"{{{seq}}} was covered before it started, and starts")
        name, others = _neighbours(step, seq)
        place = step.effects.index((Effect.START, seq))
        ended = {out[1] for out in step.effects[:place] if out[0] is Effect.END}
        active = {it.name: it.active for it in step.before.sessions}.get(name)
        if active is not None and active.seq not in ended:
            still = "T2" if active.seq in step.ordered(Effect.END) else "D1"
            raise Violation(still, f"{{{seq}}} starts before the end of {{{active.seq}}}")
        first = [run for run in others if run.seq < seq and not (before and before.promoted)]
        if first:
            raise Violation("D2", f"{{{seq}}} starts, and {{{first[0].seq}}} was first in line")


def _neighbours(step: Step, seq: int) -> tuple[str, tuple[FrozenRun, ...]]:
    for it in step.after:
        if it.active is not None and it.active.seq == seq:
            return it.name, it.line
    raise Violation("D1", f"{{{seq}}} was started, and is not the active run of its session")


def _folds(step: Step) -> None:
    """F1, F2."""
    for seq in step.ordered(Effect.FOLDED):
        taker = next(it.active for it in step.after if seq in {run.seq for run in it.taken})
        if taker is not None and taker.cause:
            raise Violation("F1", f"{{{seq}}} was folded into {{{taker.seq}}}, which is covered")
        if not step.was[seq].follows_up:
            raise Violation("F2", f"{{{seq}}} was folded and had asked for its own turn")


def _ends_once(step: Step) -> None:
    """T1, and conservation: accepted = ended + in flight."""
    ends = step.ordered(Effect.END)
    for seq in ends:
        if ends.count(seq) > 1 or seq not in step.was:
            raise Violation("T1", f"{{{seq}}} ends twice")
        if seq in step.now:
            raise Violation("T1", f"the end of {{{seq}}} is announced, and it goes on")
    for seq in step.was:
        if seq not in step.now and seq not in ends:
            raise Violation("T1", f"{{{seq}}} is gone, and nobody announced its end")


def look_around(world: World, it: Frozen) -> None:
    """Find nothing wrong with a situation, however it came about, or raise.

    Raises:
        Violation: of what must be true at any time.
    """
    for record in world.table._sessions.values():  # noqa: SLF001
        _five_sentences(record)
    taken = sum(session.active is not None for session in it.sessions)
    for session in it.sessions:
        if world.config.slots is None or taken < world.config.slots:
            _nothing_strands(session)
        if world.config.lag:
            _the_handler_will_hear(it, session)


def _five_sentences(record: Session[Any]) -> None:
    """The explicit state is what the sentences say about the fields."""
    true = [state for state, (_, holds) in SENTENCES.items() if holds(record)]
    if true != [record.state]:
        said = " and ".join(true) or "none of them"
        text = f"{record.session_id} says that it is {record.state}; what is true is {said}"
        raise Violation("sentences", text)


def _nothing_strands(it: FrozenSession) -> None:
    """D4: no situation in which work waits and nothing is under way."""
    waits = it.line and it.line[0].ready and not it.held
    if waits and it.active is None and not it.ending:
        raise Violation("D4", f"{{{it.line[0].seq}}} could start, and nobody starts it")


def _the_handler_will_hear(it: Frozen, session: FrozenSession) -> None:
    """X8: who runs and is covered has been told to stop, or will be."""
    active = session.active
    if active is None or not active.cause or active.seq in it.told:
        return
    if (Effect.INTERRUPT, active.seq, session.name) not in it.pending:
        raise Violation("X8", f"{{{active.seq}}} is covered, and its handler never hears of it")


def _to_the_letter(step: Step) -> None:
    if step.effects != step.expected:
        raise Violation("exact", f"ordered {_say(step.effects)}; should be {_say(step.expected)}")
    pairs = zip(step.after, step.expected_after, strict=False)
    wrong = [f"{is_!r}; should be {should!r}" for is_, should in pairs if is_[:-1] != should[:-1]]
    raise Violation("exact", " / ".join(wrong) or "a session that should be idle has a record")


def _in_flight(sessions: tuple[FrozenSession, ...]) -> dict[int, FrozenRun]:
    return {run.seq: run for it in sessions for run in runs_of(it)}


def _agree(these: tuple[FrozenSession, ...], those: tuple[FrozenSession, ...]) -> bool:
    """But for the state, which comes last and which the naive model has no idea of."""
    return [it[:-1] for it in these] == [it[:-1] for it in those]


def _say(effects: list[Out]) -> str:
    return ", ".join(" ".join(str(part) for part in out) for out in effects) or "nothing"
