"""The judge: whether what a scheduler did keeps the contract, sentence by sentence.

Rule 1. Judged is what was seen: no sentence is broken by what might have been meant.
Rule 2. Where the order of two things was left open, because the scheduler was stopped in the middle
        of them, either is right.
Rule 3. News are judged when they come. What must have happened is judged at rest (`look_around`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionsched.model import How, Status
from sessionsched.testing.contract.adapter import Feature
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionsched.testing.contract.adapter import News
    from sessionsched.testing.contract.life import Facts, Life

__all__ = ["accepted", "folded", "look_around", "take_note"]

#: The sentence that a kind of cancel is under.
_BY_KIND = {"all": "X1", "fence": "X5", "one": "X9", "active": "X10", "waiting": "X10"}


def take_note(facts: Facts, news: News) -> None:
    """Judge one piece of news, and write it down.

    Raises:
        Violation: of the first sentence that it breaks.
    """
    life = facts.by_seq.get(news.seq)
    if life is None:
        raise Violation("A3", f"something {news.what} under seq {news.seq}, which nobody was given")
    if news.what == "started":
        _started(facts, life)
        life.started = True
    elif news.what == "told":
        if life.covered is None and life.in_flight:  # who has ended doesn't mind
            raise Violation(_blame(facts, life), f"{_case(facts, life)} and was told to stop")
        life.told = True
    elif news.what == "dropped":
        _dropped(facts, life)
        life.dropped = True
    else:
        _ended(facts, life, news.status)
        life.status = news.status


# --- accept and fold ---


def accepted(facts: Facts, seq: int | None) -> None:
    """A2, S1: judge the answer of an accept.

    Raises:
        Violation: it should have been refused, or not; or its seq is none.
    """
    if facts.closed and seq is not None:
        raise Violation("S1", "a prompt was accepted after the close had begun")
    if seq is None:
        if not facts.closed:
            raise Violation("A3", "a prompt was refused, and nothing speaks against it")
        return
    newest = facts.lives[-1].seq if facts.lives else None
    if newest is not None and seq <= newest:
        raise Violation("A2", f"seq {seq} was given after seq {newest}")


def folded(facts: Facts, taker: Life, seqs: Sequence[int]) -> None:
    """F1, F2: judge what a handler got that asked for follow-ups, and write it down.

    Raises:
        Violation: it got what it should not have, or not what it should have.
    """
    got = [facts.by_seq[seq] for seq in seqs]
    waiting = [life for life in facts.of(taker.session) if life.waits]
    for life in got:
        if not life.follow_up:
            raise Violation("F2", f"{life} asked for its own turn, and was folded into {taker}")
        if taker.covered is not None:
            raise Violation("F1", f"{life} was folded into {taker}, which is canceled")
        if life not in waiting or not life.ready:
            raise Violation("F1", f"{life} was folded into {taker} and was not ready and in line")
    should = [life for life in waiting if life.follow_up and life.ready]
    if got != sorted(got, key=lambda life: life.seq):
        raise Violation("F1", f"follow-ups joined {taker} in another order than they were accepted")
    if got != should and taker.covered is None and not _stands_still(facts, taker.session):
        left = next(life for life in should if life not in got)
        raise Violation("F1", f"{taker} asked for follow-ups, and {left} was not among them")
    for life in got:
        life.taker = taker


def _stands_still(facts: Facts, session: str) -> bool:
    """Whether the line need not move: it is held, or a dropped run has not ended."""
    held = session in facts.held or session in facts.maybe_held
    return held or any(life.ending for life in facts.of(session))


# --- starts ---


def _started(facts: Facts, life: Life) -> None:
    if life.started:
        raise Violation("A3", f"{life} starts twice")
    if not life.in_flight:
        raise Violation("T1", f"{life} starts after its end was announced")
    if life.taker is not None:
        raise Violation("F1", f"{life} was folded into {life.taker}, and starts all the same")
    if life.covered is not None:
        _started_although_covered(life)
    if not life.ready:
        raise Violation("D3", f"{life} starts, and its owner has not made it ready")
    if life.session in facts.held:
        raise Violation("X10", f"{life} starts, and session {life.session} is held")
    for other in facts.of(life.session):
        if other is not life:
            _started_beside(life, other)


def _started_although_covered(life: Life) -> None:
    if life.covered is not None and life.covered.kind == "close":
        raise Violation("S2", f"{life} waited when the close began, and starts")
    raise Violation("X7", f"{life} was canceled before it started, and starts")


def _started_beside(life: Life, other: Life) -> None:
    """D1, D2, T2, P1, F3: who is not through yet."""
    if other.going:
        raise Violation("D1", f"{life} starts while {other} is active in the same session")
    if other.started:
        raise Violation("T2", f"{life} starts before the end of {other} is announced")
    if other.taker is not None:
        raise Violation("F3", f"{life} starts before the end of {other}, a follow-up, is announced")
    if other.seq > life.seq:
        return
    if other.dropped and not other.settled:
        raise Violation("P1", f"{life} starts before the drop of {other} is recorded")
    if other.covered is not None:
        raise Violation("T2", f"{life} starts before the end of {other} is announced")
    raise Violation("D2", f"{life} starts, and {other} was accepted before it and waits")


# --- drops and ends ---


def _dropped(facts: Facts, life: Life) -> None:
    if life.dropped or life.started or not life.in_flight:
        raise Violation("P1", f"{life} is dropped, and has been seen before")
    if life.covered is None:
        raise Violation(_blame(facts, life), f"{_case(facts, life)} and was dropped")


def _ended(facts: Facts, life: Life, status: str) -> None:
    if not life.in_flight:
        raise Violation("T1", f"{life} ended {life.status}, and once more: {status}")
    if life.taker is not None:
        _ended_as_follow_up(life, life.taker, status)
        return
    if life.going:
        sentence = "T1" if life.covered is None else "X8"
        what = f"the end of {life} is announced ({status}), and its handler is not over"
        raise Violation(_blamed(facts, life, status) or sentence, what)
    if not life.started:
        _ended_unseen(facts, life, status)
    if status not in life.right_ends():
        _ended_wrong(facts, life, status)


def _ended_as_follow_up(life: Life, taker: Life, status: str) -> None:
    if taker.in_flight:
        raise Violation("F3", f"{life} ended before {taker}, which had taken it")
    if status != taker.status:
        raise Violation("F3", f"{life} ended {status}; {taker}, which had taken it, {taker.status}")


def _ended_unseen(facts: Facts, life: Life, status: str) -> None:
    """P1, T1: it ended, and no handler has seen it."""
    if life.covered is None:
        sentence = _blamed(facts, life, status)
        if sentence:
            raise Violation(sentence, f"{_case(facts, life)} and was {status}")
        raise Violation("T1", f"{life} ended {status}, and no handler has seen it")
    if Feature.RECORD in facts.features and not life.settled:
        raise Violation("P1", f"the end of {life} is announced before its drop is recorded")


def _ended_wrong(facts: Facts, life: Life, status: str) -> None:
    handler = f"its handler {life.over}" if life.started else "it never started"
    if life.covered is None and life.over is How.STOPPED:
        raise Violation("X13", f"{life} raised a cancellation that nobody sent: it was {status}")
    if life.covered is None:
        sentence = _blamed(facts, life, status)
        if sentence:
            raise Violation(sentence, f"{_case(facts, life)} and was {status}")
        raise Violation("T1", f"{life} ended {status}, and {handler}")
    if life.covered.kind == "close":
        sentence = "S3" if life.started else "S2"
        raise Violation(sentence, f"{life} ended {status} after the close; {handler}")
    if life.told and life.over is not How.STOPPED:
        raise Violation("X6", f"{life} was told to stop; {handler}, and it ended {status}")
    what = f"{life} had not ended when it was canceled, and ended {status}"
    raise Violation(_BY_KIND[life.covered.kind], what)


def _blamed(facts: Facts, life: Life, status: str) -> str | None:
    """Name the sentence for a run that nothing covers, if it looks canceled."""
    if life.covered is None and status == Status.CANCELED:
        return _blame(facts, life)
    return None


def _blame(facts: Facts, life: Life) -> str:
    """Name the sentence that keeps cancels away from a run that none covers."""
    near = [it for it in facts.cancels if it.session == life.session and it.kind != "close"]
    if not near:
        return "D5" if facts.cancels else "X13"
    last = near[-1]
    if last.at > life.at:
        return _BY_KIND[last.kind]
    return "X2" if any(it.met_something for it in near) else "X3"


def _case(facts: Facts, life: Life) -> str:
    """Say how a run that no cancel covers stood to the cancels there were."""
    return {
        "X2": f"{life} was accepted after the cancel",
        "X3": f"{life} was accepted after a cancel that found its session idle",
        "X13": f"{life} was canceled by nobody",
        "D5": f"{life} was accepted in session {life.session}, where nobody canceled anything,",
    }.get(_blame(facts, life), f"{life} was not meant by the cancel")


# --- at rest ---


def look_around(facts: Facts) -> None:
    """Judge what must have happened by now, the scheduler being at rest.

    Raises:
        Violation: something has not happened.
    """
    for life in facts.lives:
        if life.in_flight:
            _comes_to_its_end(facts, life)
    for session in facts.sessions:
        _nothing_strands(facts, session)


def _comes_to_its_end(facts: Facts, life: Life) -> None:
    if life.over is not None:
        raise Violation("T1", f"the handler of {life} is over, and nobody announces its end")
    if life.taker is not None and not life.taker.in_flight:
        raise Violation("F3", f"{life.taker} took {life} and has ended; {life} has not")
    if life.covered is None:
        return
    if life.going and Feature.TOLD in facts.features and not life.told:
        raise Violation("X8", f"{life} was canceled, and nobody tells its handler to stop")
    if life.ending and life.ready:
        _is_recorded_and_ends(facts, life)


def _is_recorded_and_ends(facts: Facts, life: Life) -> None:
    if life.settled:
        raise Violation("P2", f"the drop of {life} is recorded, and nobody announces its end")
    if not life.dropped:
        raise Violation(
            "T1", f"{life} was canceled before it started, and nobody announces its end"
        )
    if Feature.RECORD not in facts.features:
        raise Violation("P1", f"{life} is dropped, and nobody said that drops are recorded")


def _nothing_strands(facts: Facts, session: str) -> None:
    """D4: no situation in which work waits and nothing is under way."""
    lives = facts.of(session)
    line = [life for life in lives if life.waits]
    if not line or not line[0].ready or len(line) < len(lives) or _stands_still(facts, session):
        return
    sentence = "F4" if line[0].follow_up else "D4"
    raise Violation(sentence, f"{line[0]} could start, and nobody starts it")
