"""Explore: every interleaving of a few prompts and cancels on the real table, breadth first.

    python -m sessionsched.testing.explore --prompts 4 --cancels 2

No sampling: every situation that can be reached is visited once, every call that is possible in it
is made and judged by the contract, and so is every call that isn't. A violation is printed as the
shortest story that leads to it. How situations are merged, and why that is sound: situation.py.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from attrs import Factory, define

from sessionsched.testing.explore.judge import Violation, look_around
from sessionsched.testing.explore.moves import pay, possible
from sessionsched.testing.explore.situation import ANY, NOTHING, Budget, Config, Frozen
from sessionsched.testing.explore.step import take
from sessionsched.testing.explore.story import tell
from sessionsched.testing.explore.world import World
from sessionsched.testing.explore.wrong import make_wrong_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from sessionsched.testing.explore.situation import Action

    State: TypeAlias = tuple[Frozen, Budget]

__all__ = ["ANY", "Config", "Report", "Search", "explore"]


@define
class Report:
    """What an exploration found."""

    config: Config
    #: Situations, each with what may still happen.
    states: int = 0
    #: Situations that the table can tell apart.
    situations: int = 0
    transitions: int = 0
    #: Calls made and judged: one per situation and action.
    calls: int = 0
    finals: int = 0
    wrong_calls: int = 0
    seconds: float = 0.0
    #: The sentence that was broken, or None.
    sentence: str | None = None
    #: The shortest way there, in words.
    story: list[str] = Factory(list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.sentence is None

    def __str__(self) -> str:
        figures = (
            f"{self.states:,} states ({self.situations:,} situations), "
            f"{self.transitions:,} transitions ({self.calls:,} calls judged), "
            f"{self.finals:,} final, {self.wrong_calls:,} wrong calls, {self.seconds:.1f} s"
        )
        if self.ok:
            return f"{figures}: every sentence held"
        return "\n".join([f"{figures}: {self.sentence} is broken", *self.story])


def explore(config: Config, on_progress: Callable[[Report], None] | None = None) -> Report:
    """Visit every state that `config` allows, until one is wrong."""
    search = Search(config)
    report, began = search.report, time.perf_counter()
    try:
        for visited in search.visit_all():
            if on_progress and visited % 10_000 == 0:
                search.sum_up(began)
                on_progress(report)
    except _Found as found:
        report.sentence = found.violation.sentence
        report.story = search.story(found)
    search.sum_up(began)
    return report


class _Found(Exception):
    """A violation, and where it happened."""

    def __init__(self, violation: Violation, at: State, action: Action | None) -> None:
        super().__init__(str(violation))
        self.violation = violation
        self.at = at
        self.action = action


class Search:
    """A breadth first search that remembers how it came to each state.

    A state is a situation and what may still happen. Several states have the same situation; what a
    call does there is found out once, since no call can see how many others are still to come.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.world = World(config)
        self.report = Report(config)
        start = (NOTHING, config.budget)
        self.came_from: dict[State, tuple[State, Action] | None] = {start: None}
        #: What each call led to, for each situation.
        self.known: dict[Frozen, dict[Action, Frozen]] = {}
        self._frontier = deque([start])

    def visit_all(self) -> Iterator[int]:
        """Visit everything, and count."""
        visited = 0
        while self._frontier:
            self._visit(self._frontier.popleft())
            visited += 1
            yield visited

    def _visit(self, state: State) -> None:
        """Make every call that is possible here, and every one that isn't."""
        situation, budget = state
        action: Action | None = None
        try:
            led_to = self._arrive(situation)
            for action in possible(situation, budget, self.config):
                after = led_to.get(action)
                if after is None:
                    after = led_to[action] = self._take(situation, action)
                self._reach((after, pay(budget, action)), state, action)
            if action is None:
                self.world.load(situation)
                _nothing_is_left(situation, self.world)
                self.report.finals += 1
        except Violation as violation:
            raise _Found(violation, state, action) from violation

    def _arrive(self, situation: Frozen) -> dict[Action, Frozen]:
        led_to = self.known.get(situation)
        if led_to is None:
            led_to = self.known[situation] = {}
            self.world.load(situation)
            look_around(self.world, situation)
            self.report.wrong_calls += make_wrong_calls(self.world, situation)
        return led_to

    def _take(self, situation: Frozen, action: Action) -> Frozen:
        self.report.calls += 1
        return take(self.world, situation, action)[0]

    def _reach(self, state: State, before: State, action: Action) -> None:
        self.report.transitions += 1
        if state not in self.came_from:
            self.came_from[state] = before, action
            self._frontier.append(state)

    def sum_up(self, began: float) -> None:
        """Write the figures into the report."""
        self.report.states = len(self.came_from)
        self.report.situations = len(self.known)
        self.report.seconds = time.perf_counter() - began

    def story(self, found: _Found) -> list[str]:
        """Tell the shortest way to a violation, with prompts numbered as they came."""
        path = [] if found.action is None else [found.action]
        at = found.at
        while (came := self.came_from[at]) is not None:
            at, action = came
            path.insert(0, action)
        return tell(self.config, path, found.violation)


def _nothing_is_left(it: Frozen, world: World) -> None:
    """Final: nothing can happen any more, so nothing may be in flight.

    Raises:
        Violation: something waits for ever.
    """
    if it.sessions or it.pending or it.asking or world.table.ids.in_flight:
        raise Violation("D4", "nothing can happen any more, and something is still in flight")
