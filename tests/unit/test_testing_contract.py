"""The contract's kit: what it accuses, by which sentence, and in which words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from sessionsched.testing.contract import (
    SENTENCES,
    Adapter,
    Call,
    ContractBroken,
    Feature,
    How,
    News,
    check,
    contract_for,
    every_story,
)
from sessionsched.testing.contract.adapter import METHODS
from sessionsched.testing.contract.play import Play, replay
from sessionsched.testing.contract.sentences import judged, skipped
from sessionsched.testing.contract.shorten import shortened
from sessionsched.testing.contract.story import story_of
from sessionsched.testing.zoo import Tiny
from sessionsched.testing.zoo.canceling import MarkTooHigh
from sessionsched.testing.zoo.ending import SilentDrop

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTRACT = (Path(__file__).parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")


class Scripted(Adapter):
    """Does nothing but what a test has written down for each call, in order."""

    features = frozenset(Feature) - {Feature.STEPS}

    def __init__(self, *answers: list[Any], seqs: Sequence[int | None] = (1, 2, 3, 4)) -> None:
        super().__init__()
        self.answers = list(answers)
        self.seqs = list(seqs)
        self.took: list[int] = []

    def _next(self) -> None:
        for news in self.answers.pop(0) if self.answers else []:
            self.history.append(News(*news))

    def accept(self, session: str) -> int | None:
        self._next()
        return self.seqs.pop(0)

    follow_up = accept

    def cancel(self, session: str) -> None:
        self._next()

    hold = resume = cancel_active = cancel_waiting = cancel

    def ready(self, seq: int) -> None:
        self._next()

    cancel_one = ready

    def cancel_up_to(self, session: str, seq: int) -> None:
        self._next()

    def finish(self, seq: int, how: How) -> None:
        self._next()

    def settle(self, seq: int, *, failed: bool) -> None:
        self._next()

    def fold(self, seq: int) -> Sequence[int]:
        self._next()
        return self.took

    def close(self) -> None:
        self._next()


def start(seq: int) -> tuple[str, int]:
    return "started", seq


def end(seq: int, status: str = "canceled") -> tuple[str, int, str]:
    return "ended", seq, status


def told(seq: int) -> tuple[str, int]:
    return "told", seq


def drop(seq: int) -> tuple[str, int]:
    return "dropped", seq


def accept(prompt: int, session: str = "a") -> Call:
    return Call("accept", session, prompt)


def ready(prompt: int) -> Call:
    return Call("ready", prompt=prompt)


def finish(prompt: int, how: How = How.RETURNED) -> Call:
    return Call("finish", prompt=prompt, how=how)


def settle(prompt: int) -> Call:
    return Call("settle", prompt=prompt)


CANCEL = Call("cancel", "a")
ONE, TWO = (accept(1), ready(1)), (accept(2), ready(2))
FOLLOW_UP = (Call("follow_up", "a", 2), ready(2))
FOLD = Call("fold", prompt=1)

#: The sentence, the calls, what the scheduler does at each (the last ones: nothing), a piece of
#: the verdict.
ACCUSED: list[tuple[str, tuple[Call, ...], list[list[Any]], str]] = [
    ("A3", ONE, [[], [start(7)]], "seq 7, which nobody was given"),
    ("A3", ONE, [[], [start(1), start(1)]], "prompt 1 starts twice"),
    ("D1", (*ONE, *TWO), [[], [start(1)], [], [start(2)]], "while prompt 1 is active"),
    ("D2", (*ONE[:1], *TWO), [[], [], [start(2)]], "prompt 1 was accepted before it and waits"),
    ("D3", (accept(1),), [[start(1)]], "its owner has not made it ready"),
    ("D4", ONE, [], "prompt 1 could start, and nobody starts it"),
    ("F4", (Call("follow_up", "a", 1), ready(1)), [], "prompt 1 could start"),
    ("D5", (accept(1, "b"), CANCEL, ready(1)), [[], [], [end(1)]], "where nobody canceled"),
    ("X2", (*ONE, CANCEL, finish(1), *TWO),
     [[], [start(1)], [told(1)], [end(1)], [], [end(2)]], "prompt 2 was accepted after the cancel"),
    ("X2", (*ONE, CANCEL, finish(1), *TWO),
     [[], [start(1)], [told(1)], [end(1)], [], [start(2), told(2)]], "and was told to stop"),
    ("X2", (*ONE, CANCEL, finish(1), *TWO),
     [[], [start(1)], [told(1)], [end(1)], [], [drop(2)]], "and was dropped"),
    ("X2", (*ONE, CANCEL, finish(1), *TWO, finish(2)),
     [[], [start(1)], [told(1)], [end(1)], [], [start(2)], [end(2)]], "and was canceled"),
    ("X3", (CANCEL, *ONE), [[], [], [end(1)]], "after a cancel that found its session idle"),
    ("X5", (*ONE, *TWO, Call("cancel_up_to", "a", 1)),
     [[], [start(1)], [], [], [told(1), drop(2)]], "prompt 2 was not meant by the cancel"),
    ("X5", (*ONE, Call("cancel_up_to", "a", 1), finish(1, How.STOPPED)),
     [[], [start(1)], [told(1)], [end(1, "failed")]], "had not ended when it was canceled"),
    ("X6", (*ONE, CANCEL, finish(1)),
     [[], [start(1)], [told(1)], [end(1, "completed")]], "was told to stop; its handler returned"),
    ("X7", (accept(1), CANCEL, ready(1)), [[], [], [start(1)]], "canceled before it started"),
    ("X8", (*ONE, CANCEL), [[], [start(1)]], "nobody tells its handler to stop"),
    ("X8", (*ONE, CANCEL), [[], [start(1)], [told(1), end(1)]], "its handler is not over"),
    ("X9", (*ONE, *TWO, Call("cancel_one", prompt=2)),
     [[], [start(1)], [], [], [drop(2), told(1)]], "prompt 1 was not meant"),
    ("X10", (*ONE, *TWO, Call("cancel_active", "a")),
     [[], [start(1)], [], [], [told(1), drop(2)]], "prompt 2 was not meant"),
    ("X10", (*ONE, *TWO, Call("cancel_waiting", "a")),
     [[], [start(1)], [], [], [told(1)]], "prompt 1 was not meant"),
    ("X10", (accept(1), Call("hold", "a"), ready(1)), [[], [], [start(1)]], "is held"),
    ("X13", (*ONE, finish(1, How.STOPPED)), [[], [start(1)], [end(1)]], "that nobody sent"),
    ("X13", ONE, [[], [start(1), told(1)]], "prompt 1 was canceled by nobody"),
    ("F1", (*ONE, CANCEL, *FOLLOW_UP, FOLD), [[], [start(1)], [told(1)]], "which is canceled"),
    ("F1", (*ONE, *FOLLOW_UP[:1], FOLD), [[], [start(1)]], "was not ready and in line"),
    ("F1", (*ONE, *FOLLOW_UP, FOLD, accept(3)), [[], [start(1)], [], [], [], [start(2)]],
     "starts all the same"),
    ("F2", (*ONE, *TWO, FOLD), [[], [start(1)]], "prompt 2 asked for its own turn"),
    ("F3", (*ONE, *FOLLOW_UP, FOLD, finish(1)),
     [[], [start(1)], [], [], [], [end(1, "completed")]], "prompt 2 has not"),
    ("F3", (*ONE, *FOLLOW_UP, FOLD, finish(1)),
     [[], [start(1)], [], [], [], [end(2, "completed")]], "prompt 2 ended before prompt 1"),
    ("F3", (*ONE, *FOLLOW_UP, FOLD, finish(1)),
     [[], [start(1)], [], [], [], [end(1, "completed"), end(2, "failed")]], "ended failed"),
    ("F3", (*ONE, *FOLLOW_UP, FOLD, accept(3), ready(3), finish(1)),
     [[], [start(1)], [], [], [], [], [], [end(1, "completed"), start(3)]], "a follow-up"),
    ("T1", (*ONE, finish(1)), [[], [start(1)]], "nobody announces its end"),
    ("T1", (*ONE, finish(1), accept(2)),
     [[], [start(1)], [end(1, "failed")]], "its handler returned"),
    ("T1", (*ONE, finish(1)), [[], [start(1)], [end(1, "completed")] * 2], "and once more"),
    ("T1", (*ONE, finish(1)), [[], [end(1, "completed")]], "no handler has seen it"),
    ("T1", ONE, [[], [start(1), end(1, "completed")]], "its handler is not over"),
    ("T1", (*ONE, CANCEL), [[], [start(1)], [told(1)]], "the handler of prompt 1 is over"),
    ("T1", (accept(1), CANCEL, ready(1)), [], "was canceled before it started"),
    ("T1", (accept(1), CANCEL, settle(1), ready(1)), [[], [drop(1)], [end(1), start(1)]],
     "starts after its end"),
    ("T2", (*ONE, *TWO, finish(1)),
     [[], [start(1)], [], [], [start(2), end(1, "completed")]], "before the end of prompt 1"),
    ("T2", (accept(1), *TWO[:1], CANCEL, accept(3), ready(3)),
     [[], [], [], [], [start(3)]], "before the end of prompt 1"),
    ("P1", (accept(1), CANCEL), [[], [end(1)]], "before its drop is recorded"),
    ("P1", (accept(1), CANCEL), [[], [drop(1), drop(1)]], "has been seen before"),
    ("P1", (accept(1), CANCEL, accept(2), ready(2)), [[], [drop(1)], [], [start(2)]],
     "before the drop of prompt 1"),
    ("P2", (*ONE[:1], CANCEL, ready(1), settle(1)), [[], [drop(1)]], "the drop of prompt 1"),
    ("S1", (Call("close"), accept(1)), [], "after the close had begun"),
    ("S2", (accept(1), Call("close"), ready(1)), [[], [], [start(1)]], "and starts"),
    ("S2", (accept(1), Call("close"), settle(1)), [[], [drop(1)], [end(1)]], "never started"),
    ("S3", (*ONE, Call("close"), finish(1)),
     [[], [start(1)], [told(1)], [end(1, "suspended")]], "its handler returned"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "calls", "does", "text"),
    [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(ACCUSED)],
)
def test_what_breaks_a_sentence_is_accused_by_its_name(
    sentence: str, calls: tuple[Call, ...], does: list[list[Any]], text: str
) -> None:
    adapter = Scripted(*does)
    if FOLD in calls:
        adapter.took = [2]
    play = replay(adapter, calls)
    assert play.broken is not None
    assert (play.broken.sentence, text in play.broken.text) == (sentence, True), str(play.broken)


def test_a_lost_cancel_is_x1_where_nobody_can_see_that_the_handler_was_told() -> None:
    adapter = Scripted([], [start(1)], [], [end(1, "completed")])
    adapter.features = adapter.features - {Feature.TOLD}
    play = replay(adapter, (*ONE, CANCEL, finish(1)))
    assert play.broken is not None
    assert play.broken.sentence == "X1"
    assert play.broken.text == "prompt 1 had not ended when it was canceled, and ended completed"


def test_a_drop_that_nobody_can_record_is_p1() -> None:
    adapter = Scripted([], [drop(1)])
    adapter.features = adapter.features - {Feature.RECORD}
    play = replay(adapter, (accept(1), CANCEL, ready(1)))
    assert play.broken is not None
    assert (play.broken.sentence, "nobody said" in play.broken.text) == ("P1", True)


def test_a_seq_that_does_not_rise_is_a2() -> None:
    play = replay(Scripted(seqs=[5, 5]), (accept(1), accept(2)))
    assert play.broken is not None
    assert play.broken.sentence == "A2"


def test_a_prompt_that_is_refused_for_no_reason_is_accused() -> None:
    play = replay(Scripted(seqs=[None]), (accept(1),))
    assert play.broken is not None
    assert "nothing speaks against it" in play.broken.text


@pytest.mark.parametrize(("took", "text"), [([3, 2], "another order"), ([2], "prompt 3 was not")])
def test_follow_ups_are_taken_in_order_and_all_of_them(took: list[int], text: str) -> None:
    adapter = Scripted([], [start(1)])
    adapter.took = took
    more = (Call("follow_up", "a", 3), ready(3))
    play = replay(adapter, (*ONE, *FOLLOW_UP, *more, FOLD))
    assert play.broken is not None
    assert (play.broken.sentence, text in play.broken.text) == ("F1", True)


def test_every_sentence_that_the_kit_names_is_accused_of_something_here() -> None:
    assert {case[0] for case in ACCUSED} | {"A2", "X1"} == set(SENTENCES)


class Hasty(Scripted):
    """Can be called again before it has done anything."""

    features = frozenset(Feature)

    def step(self) -> bool:
        return False


@pytest.mark.parametrize(("status", "right"), [("completed", True), ("canceled", True),
                                               ("failed", False)])  # fmt: skip
def test_an_end_that_crosses_a_cancel_may_be_either(status: str, right: bool) -> None:  # noqa: FBT001
    adapter = Hasty([], [start(1)], [], [end(1, status)])
    play = replay(adapter, (*ONE, Call("finish", prompt=1, steps=0), CANCEL))
    assert (play.broken is None) is right


def test_who_has_ended_may_be_told_to_stop_once_more() -> None:
    news: list[list[Any]] = [[], [start(1)], [end(1, "completed")], [told(1)]]
    assert replay(Scripted(*news), (*ONE, finish(1), CANCEL)).broken is None


def test_a_session_that_fell_idle_while_it_was_held_may_be_held_or_not() -> None:
    hold = Call("hold", "a")
    news: list[list[Any]] = [[], [start(1)], [], [end(1, "completed")], []]
    for then in ([start(2)], []):
        adapter = Scripted(*news, then, *([[start(2)]] if not then else [[]]),
                           [end(2, "completed")])  # fmt: skip
        play = replay(adapter, (*ONE, hold, finish(1), *TWO, Call("resume", "a")))
        assert play.broken is None


def test_news_without_an_order_are_given_the_benefit_of_the_doubt() -> None:
    calls = (*ONE, *TWO, finish(1))
    news: list[list[Any]] = [[], [start(1)], [], [], [start(2), end(1, "completed")]]
    adapter = Scripted(*news, [end(2, "completed")])
    adapter.ordered = False
    assert replay(adapter, calls).broken is None
    assert replay(Scripted(*news), calls).broken is not None


def test_an_adapter_may_say_what_started_and_ended_without_notes() -> None:
    class Asked(Scripted):
        def started(self) -> Sequence[int]:
            return super().started()

        def ended(self) -> Sequence[tuple[int, str]]:
            return super().ended()

    play = replay(Asked([], [start(1)], [end(1, "failed")]), (*ONE, finish(1)))
    assert play.broken is not None
    assert play.broken.sentence == "T1"


# --- the sentences ---


def test_the_sentences_are_quoted_from_the_contract() -> None:
    plain = " ".join(CONTRACT.split())
    for name, sentence in SENTENCES.items():
        assert f"- {name} " in CONTRACT
        for clause in re.split(r"[.;] |\.$", sentence.text):
            assert clause.strip(". ") in plain, f"{name}: {clause}"


def test_what_needs_a_feature_that_is_not_there_is_skipped_and_listed() -> None:
    assert "X5" not in judged([])
    assert skipped([])["X5"] == "fence"
    assert skipped([])["X10"] == "scope or hold"
    assert "X10" in judged([Feature.HOLD])
    assert skipped(list(Feature)) == {}
    assert {*judged([]), *skipped([])} == set(SENTENCES)


def test_the_contract_of_an_adapter_lists_what_is_skipped() -> None:
    assert "X5 (fence)" in str(contract_for(Tiny).__doc__)
    assert "D1" not in str(contract_for(Tiny).__doc__)


def test_a_feature_without_its_methods_is_refused() -> None:
    class Boasting(Tiny):
        features = (*Tiny.features, Feature.HOLD)

    with pytest.raises(TypeError, match=r"Boasting .* lacks: hold \(hold\), resume \(hold\)"):
        Play(Boasting())


def test_every_feature_names_its_methods() -> None:
    assert set(METHODS) == set(Feature)
    assert all(hasattr(Adapter, name) for names in METHODS.values() for name in names)


# --- stories ---


def test_a_failure_tells_the_shortest_story_names_the_sentence_and_draws_it() -> None:
    report = check(MarkTooHigh)
    assert report.story is not None
    text = str(report)
    assert "X2 is broken" in text
    assert "  => prompt 2 was accepted after the cancel and was canceled: X2" in text
    assert "X2 A cancel never covers a run accepted after it." in text
    assert "```mermaid\nsequenceDiagram\n" in text
    assert "    P->>S: cancel session a\n" in text
    assert "    S-->>P: end of prompt 2: canceled\n" in text
    assert "skipped: X5 (needs fence)" in text


def test_a_test_case_fails_with_the_story() -> None:
    contract = contract_for(SilentDrop)
    case = contract.TestCase
    case.settings = settings(case.settings, max_examples=200, derandomize=True, database=None)
    with pytest.raises(ContractBroken) as broken:
        contract.TestCase("runTest").runTest()
    assert broken.value.story.sentence == "T1"
    assert "and nobody announces its end: T1" in str(broken.value)


def test_leaving_out_any_call_of_a_shortened_story_makes_it_right() -> None:
    script = (
        accept(7, "b"), *ONE, Call("follow_up", "a", 2, steps=1), ready(2), accept(3),
        Call("cancel", "a", steps=0), accept(4, "b"),
    )  # fmt: skip
    story = shortened(SilentDrop, story_of(replay(SilentDrop(), script)))
    assert story.sentence == "T1"
    for left_out in range(len(story)):
        rest = story.script[:left_out] + story.script[left_out + 1 :]
        play = replay(SilentDrop(), rest)
        assert play.broken is None or len(play.script) >= len(story)
    assert all(call.verb != "follow_up" and call.session != "b" for call in story.script)


def test_a_story_is_told_as_it_was_found_when_the_scheduler_breaks_down_on_shorter_ones() -> None:
    found = story_of(replay(SilentDrop(), (*ONE, *TWO, accept(3), CANCEL)))
    assert len(shortened(SilentDrop, found)) < len(found)
    assert shortened(Raising, found) == found


def test_a_story_with_a_happy_end_is_not_told() -> None:
    with pytest.raises(ValueError, match="happy end"):
        story_of(replay(Tiny(), ONE))


def test_every_short_story_is_told_and_the_first_that_goes_wrong_is_reported() -> None:
    assert every_story(Tiny, calls=2, haste=()).ok
    report = every_story(SilentDrop, calls=3)
    assert report.story is not None
    assert report.story.sentence == "T1"
    assert len(report.story) == 3


def test_longer_stories_are_more() -> None:
    told = [every_story(Tiny, calls=calls, haste=()).examples for calls in (0, 1, 2, 3)]
    assert told[0] == 1
    assert told == sorted(set(told))


def test_the_same_scheduler_gets_the_same_stories_every_time() -> None:
    assert check(MarkTooHigh) == check(MarkTooHigh)


# --- what goes wrong elsewhere ---


class Raising(Tiny):
    """Its code has an error of its own."""

    def cancel(self, session: str) -> None:
        raise KeyError(session)


def test_an_error_of_the_scheduler_itself_comes_with_its_story() -> None:
    with pytest.raises(KeyError) as raised:
        check(Raising)
    (note,) = raised.value.__notes__
    assert note.startswith("It was raised in this story:\n")
    assert note.endswith("is canceled")


def test_an_adapter_that_cannot_be_made_says_why() -> None:
    def make() -> Adapter:
        raise OSError("no such socket")

    with pytest.raises(OSError, match="no such socket"):
        check(make)


def test_without_hypothesis_the_kit_can_be_imported_and_says_what_to_install() -> None:
    code = """
import sys
sys.modules["hypothesis"] = None
import sessionsched.testing
from sessionsched.testing.contract import Adapter, every_story
from sessionsched.testing.zoo import Tiny, run
assert every_story(Tiny, calls=2).ok
import sessionsched.testing.contract as contract
for use in (lambda: contract.contract_for, lambda: contract.check, run):
    try:
        use()
    except ModuleNotFoundError as error:
        print(error)
"""
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.count("needs Hypothesis: pip install 'sessionsched[testing]'") == 3


def test_importing_sessionsched_brings_neither_the_kit_nor_hypothesis() -> None:
    found = "[name for name in sys.modules if 'testing' in name or name == 'hypothesis']"
    code = f"import sys, sessionsched; print({found})"
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_kit_has_no_other_names() -> None:
    import sessionsched.testing.contract as kit  # noqa: PLC0415

    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        kit.chek  # noqa: B018
