"""The contract as a Hypothesis state machine: `TestMine = contract_for(MyAdapter).TestCase`.

Rule 1. It can do whatever people can do, in any order; what its scheduler can't is left out.
Rule 2. Judging is done by the play. Nothing is asserted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from attrs import evolve
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from sessionsched.model import How
from sessionsched.testing.contract.adapter import Feature
from sessionsched.testing.contract.calls import FEATURE_OF, Call, can_mean, is_possible
from sessionsched.testing.contract.play import Play
from sessionsched.testing.contract.sentences import skipped
from sessionsched.testing.contract.shorten import shortened
from sessionsched.testing.contract.story import ContractBroken, story_of
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.contract.adapter import Adapter
    from sessionsched.testing.contract.life import Life

__all__ = ["STEPS", "SchedulerContract", "contract_for"]

#: How many rules a story follows at most.
STEPS = 16
#: More than that in flight at once in one session makes stories longer, not better.
MOST_IN_FLIGHT = 4

SESSIONS = st.sampled_from(["a", "a", "a", "b"])
PICK = st.integers(0, 7)
OVER = st.sampled_from([How.RETURNED, How.RAISED, How.STOPPED])
#: The scheduler may rest after a call, or the next one comes in the middle of things.
PACE = st.sampled_from([None, 0, 1, 2])
#: Whether it is a follow-up; whether it is ready at once; what the scheduler has time for then.
PROMPT = st.tuples(st.booleans(), st.sampled_from([True, True, True, False]), PACE)
PROMPTS = st.lists(PROMPT, min_size=1, max_size=4)


def _has(verb: str) -> Callable[[Any], bool]:
    """Whether this is something that the scheduler can do."""
    return lambda self: FEATURE_OF[verb] in self.play.facts.features


def _some(verb: str) -> Callable[[Any], bool]:
    """Whether there is a prompt that this verb can be about."""

    def some(self: Any) -> bool:
        needs = FEATURE_OF.get(verb)
        can = needs is None or needs in self.play.facts.features
        return can and bool(can_mean(self.play.facts, verb))

    return some


class SchedulerContract(RuleBasedStateMachine):
    """Every call that an adapter has, in any order, judged by the contract.

    Subclass it with `make`, or let `contract_for` do that. Rules of your own may be added: they
    call `self.do`. What Hypothesis is told is `TestCase.settings`, as ever; begin with those that
    are there: `TestMine.settings = settings(TestMine.settings, max_examples=1000)`.
    """

    #: Makes a fresh adapter for every story.
    make: ClassVar[Callable[[], Adapter]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Stories are shortened here, call by call: that is quicker, and shorter, than what can be
        # done by somebody who doesn't know what a call is.
        cls.TestCase.settings = settings(
            cls.TestCase.settings,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            report_multiple_bugs=False,
            stateful_step_count=STEPS,
        )

    def __init__(self) -> None:
        super().__init__()
        self.play = Play(type(self).make())
        #: The scheduler, or its adapter, raised an error of its own: nobody asks it again.
        self._failed = False
        self._labels = 0

    def do(self, call: Call) -> None:
        """Make a call, if it is possible.

        Raises:
            ContractBroken: a sentence was broken.
        """
        self._watched(lambda: self.play.make(call))

    def teardown(self) -> None:
        """Bring the story to its end."""
        try:
            if not self._failed:
                self._watched(self.play.wind_up)
        finally:
            self.play.adapter.stop()

    def _watched(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Violation as violation:
            self.tell(violation)
        except Exception as error:  # noqa: BLE001 - raised again by `fail`
            self._failed = True
            self.fail(error)

    def tell(self, violation: Violation) -> NoReturn:
        """Say how a sentence was broken, in as few calls as can be.

        Raises:
            ContractBroken: always.
        """
        story = shortened(type(self).make, story_of(self.play))
        raise ContractBroken(story) from violation

    def fail(self, error: Exception) -> NoReturn:
        """Say what was called when the scheduler, or its adapter, raised an error of its own.

        Raises:
            Exception: that error.
        """
        told = "\n".join(f"  {line.words}" for line in self.play.lines)
        error.add_note(f"It was raised in this story:\n{told}")
        raise error

    # --- what people do ---

    @rule(session=SESSIONS, prompts=PROMPTS)
    def people_do_not_wait(
        self, session: str, prompts: list[tuple[bool, bool, int | None]]
    ) -> None:
        """A few prompts come, one after the other."""
        for follow_up, ready, steps in prompts:
            self.take_in(session, follow_up=follow_up, ready=ready, steps=steps)

    def take_in(self, session: str, *, follow_up: bool, ready: bool, steps: int | None) -> None:
        """A prompt comes, and may be ready at once."""
        features = self.play.facts.features
        if len(self.play.facts.of(session)) < MOST_IN_FLIGHT:
            self._labels += 1
            folds = follow_up and Feature.FOLD in features
            self.do(Call("follow_up" if folds else "accept", session, self._labels, steps=steps))
            if ready:
                self.do(Call("ready", session, self._labels, steps=steps))

    @precondition(_some("ready"))
    @rule(pick=PICK, steps=PACE)
    def ready(self, pick: int, steps: int | None) -> None:
        """A prompt is prepared."""
        self._about("ready", pick, steps)

    @rule(session=SESSIONS, steps=PACE)
    def cancel(self, session: str, steps: int | None) -> None:
        """Somebody presses Escape."""
        self.do(Call("cancel", session, steps=steps))

    @precondition(_some("cancel_one"))
    @rule(pick=PICK, steps=PACE)
    def cancel_one(self, pick: int, steps: int | None) -> None:
        """One prompt alone is canceled."""
        self._about("cancel_one", pick, steps)

    @precondition(_some("cancel_up_to"))
    @rule(pick=PICK, steps=PACE)
    def cancel_up_to(self, pick: int, steps: int | None) -> None:
        """A cancel comes late, with a fence."""
        self._about("cancel_up_to", pick, steps)

    @precondition(_has("cancel_active"))
    @rule(session=SESSIONS, waiting=st.booleans())
    def cancel_part(self, session: str, waiting: bool) -> None:  # noqa: FBT001 - drawn by name
        """The active run, or those that wait, are canceled alone."""
        self.do(Call("cancel_waiting" if waiting else "cancel_active", session))

    @precondition(_has("hold"))
    @rule(session=SESSIONS)
    def hold(self, session: str) -> None:
        """The line is held."""
        self.do(Call("hold", session))

    @precondition(lambda self: self.play.facts.held or self.play.facts.maybe_held)
    @rule(pick=PICK, steps=PACE)
    def resume(self, pick: int, steps: int | None) -> None:
        """The line may move again."""
        held = sorted(self.play.facts.held | self.play.facts.maybe_held)
        self.do(Call("resume", held[pick % len(held)], steps=steps))

    @precondition(_has("close"))
    @rule(pick=PICK)
    def close(self, pick: int) -> None:
        """The scheduler is shut down; seldom, for little happens after that."""
        if pick == 0:
            self.do(Call("close"))

    # --- what handlers do ---

    @precondition(_some("finish"))
    @rule(pick=PICK, how=OVER, folds=st.booleans(), steps=PACE)
    def finish(self, pick: int, how: How, folds: bool, steps: int | None) -> None:  # noqa: FBT001
        """A handler is over. One that can't stop, since nobody told it to, fails."""
        life = self._pick("finish", pick)
        if folds:
            self.do(Call("fold", life.session, life.label))
        call = Call("finish", life.session, life.label, how, steps)
        possible = is_possible(self.play.facts, call)
        self.do(call if possible else evolve(call, how=How.RAISED))

    @precondition(_some("fold"))
    @precondition(lambda self: any(it.waits and it.follow_up for it in self.play.facts.lives))
    @rule(pick=PICK)
    def fold(self, pick: int) -> None:
        """A handler asks for follow-ups."""
        self._about("fold", pick, None)

    @precondition(_some("settle"))
    @rule(pick=PICK, failed=st.booleans(), steps=PACE)
    def settle(self, pick: int, failed: bool, steps: int | None) -> None:  # noqa: FBT001
        """A drop is recorded, or that fails."""
        self._about("settle", pick, steps, How.RAISED if failed else How.RETURNED)

    def _about(self, verb: str, pick: int, steps: int | None, how: How = How.RETURNED) -> None:
        life = self._pick(verb, pick)
        self.do(Call(verb, life.session, life.label, how, steps))

    def _pick(self, verb: str, pick: int) -> Life:
        lives = can_mean(self.play.facts, verb)
        return lives[pick % len(lives)]


def contract_for(make: Callable[[], Adapter]) -> type[SchedulerContract]:
    """Give the contract for an adapter; what pytest collects is its `TestCase`.

    The sentences that are skipped for want of a feature stand in its docstring.
    """
    adapter = make()
    features = frozenset(adapter.features)
    adapter.stop()
    left_out = ", ".join(f"{name} ({needs})" for name, needs in skipped(features).items())
    name = f"{getattr(make, '__name__', type(adapter).__name__)}Contract"
    doc = f"The contract for {type(adapter).__name__}. Skipped: {left_out or 'nothing'}."
    return type(name, (SchedulerContract,), {"make": staticmethod(make), "__doc__": doc})
