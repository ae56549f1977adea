"""Calls: what people and handlers can do in a story, when that is possible, and what it means.

Rule 1. A call names a prompt by a label, not by its seq: so a story can be told again with other
        prompts left out.
Rule 2. A call that isn't possible is not made. Nobody finishes a handler that was never called.
Rule 3. Where a call depends on what is active (hold, fold, scope, close), the scheduler may rest
        first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched.model import How
from sessionsched.testing.contract import judge
from sessionsched.testing.contract.adapter import Feature
from sessionsched.testing.contract.life import Life

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.contract.adapter import Adapter
    from sessionsched.testing.contract.life import Facts

__all__ = [
    "FEATURE_OF",
    "RESTS_FIRST",
    "VERBS",
    "Call",
    "can_mean",
    "in_words",
    "is_possible",
    "perform",
]


@frozen
class Call:
    """One call of a story."""

    verb: str
    session: str = ""
    #: The prompt that it is about; for a prompt that is accepted, the label that it gets.
    prompt: int = 0
    how: How = How.RETURNED
    #: How many steps the scheduler gets before the next call; None: as many as it wants.
    steps: int | None = None


FEATURE_OF: Final = {
    "ready": Feature.READY,
    "cancel_one": Feature.CANCEL_ONE,
    "cancel_up_to": Feature.FENCE,
    "cancel_active": Feature.SCOPE,
    "cancel_waiting": Feature.SCOPE,
    "follow_up": Feature.FOLD,
    "fold": Feature.FOLD,
    "hold": Feature.HOLD,
    "resume": Feature.HOLD,
    "settle": Feature.RECORD,
    "close": Feature.CLOSE,
}
RESTS_FIRST: Final = ("cancel_active", "cancel_waiting", "fold", "hold", "close")

#: For each verb that is about a prompt: which ones it can be about.
_CAN_MEAN: Final[dict[str, Callable[[Life], bool]]] = {
    # Its owner may not know yet that it was canceled.
    "ready": lambda life: not life.ready,
    "finish": lambda life: life.going,
    "cancel_one": lambda life: life.in_flight and life.taker is None,
    "cancel_up_to": lambda life: True,  # noqa: ARG005 - a late fence may name one that has ended
    "fold": lambda life: life.going,
    "settle": lambda life: life.dropped and not life.settled,
}


def can_mean(facts: Facts, verb: str) -> list[Life]:
    """Give the prompts that a verb can be about just now."""
    return [life for life in facts.lives if _CAN_MEAN[verb](life)]


def is_possible(facts: Facts, call: Call) -> bool:
    """Whether a call can be made as things stand."""
    needs = FEATURE_OF.get(call.verb)
    if needs is not None and needs not in facts.features:
        return False
    if call.verb in _CAN_MEAN:
        life = facts.labelled(call.prompt)
        return life is not None and _CAN_MEAN[call.verb](life) and _may_be_over(facts, call, life)
    if call.verb in ("accept", "follow_up"):
        return facts.labelled(call.prompt) is None
    if call.verb == "hold":
        return bool(facts.of(call.session)) and call.session not in facts.held
    if call.verb == "resume":
        return call.session in facts.held | facts.maybe_held
    return call.verb != "close" or not facts.closed


def _may_be_over(facts: Facts, call: Call, life: Life) -> bool:
    """A handler stops when it is covered; else only where a stray cancellation can be raised."""
    stops = call.verb == "finish" and call.how is How.STOPPED
    return not stops or life.covered is not None or Feature.STRAY in facts.features


def perform(adapter: Adapter, facts: Facts, call: Call) -> None:
    """Make a call, and write down what it means.

    Raises:
        Violation: of what the call's own answer breaks.
    """
    facts.calls += 1
    _PERFORM[call.verb](adapter, facts, call)


def _accept(adapter: Adapter, facts: Facts, call: Call) -> None:
    take_in = adapter.follow_up if call.verb == "follow_up" else adapter.accept
    seq = take_in(call.session)
    judge.accepted(facts, seq)
    if seq is None:
        return
    life = Life(
        number=len(facts.lives) + 1,
        label=call.prompt,
        seq=seq,
        session=call.session,
        follow_up=call.verb == "follow_up",
        at=facts.calls,
        ready=Feature.READY not in facts.features,
    )
    facts.lives.append(life)
    facts.by_seq[seq] = life


def _meant(facts: Facts, call: Call) -> Life:
    life = facts.labelled(call.prompt)
    if life is None:
        msg = f"no prompt {call.prompt} in this story"
        raise LookupError(msg)
    return life


def _ready(adapter: Adapter, facts: Facts, call: Call) -> None:
    life = _meant(facts, call)
    life.ready = True
    adapter.ready(life.seq)


def _finish(adapter: Adapter, facts: Facts, call: Call) -> None:
    life = _meant(facts, call)
    life.over = call.how
    adapter.finish(life.seq, call.how)


def _cancel(adapter: Adapter, facts: Facts, call: Call) -> None:
    facts.cover("all", call.session, facts.of(call.session))
    adapter.cancel(call.session)


def _cancel_one(adapter: Adapter, facts: Facts, call: Call) -> None:
    life = _meant(facts, call)
    facts.cover("one", life.session, [life])
    adapter.cancel_one(life.seq)


def _cancel_up_to(adapter: Adapter, facts: Facts, call: Call) -> None:
    fence = _meant(facts, call)
    lives = [life for life in facts.of(fence.session) if life.seq <= fence.seq]
    # A follow-up that was taken shares the end of its taker, whatever its own seq.
    facts.cover("fence", fence.session, [life for life in lives if life.taker is None])
    adapter.cancel_up_to(fence.session, fence.seq)


def _cancel_active(adapter: Adapter, facts: Facts, call: Call) -> None:
    lives = [life for life in facts.of(call.session) if life.started]
    facts.cover("active", call.session, lives)
    adapter.cancel_active(call.session)


def _cancel_waiting(adapter: Adapter, facts: Facts, call: Call) -> None:
    lives = [life for life in facts.of(call.session) if life.waits or life.ending]
    facts.cover("waiting", call.session, lives)
    adapter.cancel_waiting(call.session)


def _fold(adapter: Adapter, facts: Facts, call: Call) -> None:
    taker = _meant(facts, call)
    judge.folded(facts, taker, adapter.fold(taker.seq))


def _hold(adapter: Adapter, facts: Facts, call: Call) -> None:
    facts.held.add(call.session)
    adapter.hold(call.session)


def _resume(adapter: Adapter, facts: Facts, call: Call) -> None:
    facts.held.discard(call.session)
    facts.maybe_held.discard(call.session)
    adapter.resume(call.session)


def _settle(adapter: Adapter, facts: Facts, call: Call) -> None:
    life = _meant(facts, call)
    life.settled = True
    adapter.settle(life.seq, failed=call.how is How.RAISED)


def _close(adapter: Adapter, facts: Facts, _call: Call) -> None:
    facts.closed = True
    for session in facts.sessions:
        facts.cover("close", session, facts.of(session))
    adapter.close()


_PERFORM: Final = {
    "accept": _accept,
    "follow_up": _accept,
    "ready": _ready,
    "finish": _finish,
    "cancel": _cancel,
    "cancel_one": _cancel_one,
    "cancel_up_to": _cancel_up_to,
    "cancel_active": _cancel_active,
    "cancel_waiting": _cancel_waiting,
    "fold": _fold,
    "hold": _hold,
    "resume": _resume,
    "settle": _settle,
    "close": _close,
}
VERBS: Final = tuple(_PERFORM)


def in_words(call: Call, life: Life | None) -> str:
    """Say what was called, and for which prompt."""
    prompt = life or "a prompt"
    failed = call.how is How.RAISED
    return {
        "accept": f"{prompt} is accepted in session {call.session}",
        "follow_up": f"{prompt} is accepted in session {call.session} as a follow-up",
        "ready": f"{prompt} is ready",
        "finish": f"the handler of {prompt} {_OVER[call.how]}",
        "cancel": f"session {call.session} is canceled",
        "cancel_one": f"{prompt} alone is canceled",
        "cancel_up_to": f"its session is canceled up to {prompt}",
        "cancel_active": f"the active run of session {call.session} is canceled",
        "cancel_waiting": f"those that wait in session {call.session} are canceled",
        "fold": f"the handler of {prompt} asks for follow-ups",
        "hold": f"session {call.session} is held",
        "resume": f"session {call.session} is resumed",
        "settle": f"{'recording the drop' if failed else 'the drop'} of {prompt} "
        + ("fails" if failed else "is recorded"),
        "close": "the scheduler begins to close",
    }[call.verb]


_OVER: Final = {
    How.RETURNED: "returns",
    How.RAISED: "raises an error",
    How.STOPPED: "stops as one does that was canceled",
}
