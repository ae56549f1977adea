"""Runs the contract over a scheduler and reports: for commands, and for the zoo.

Rule 1. The same scheduler gets the same stories every time.
Rule 2. The first story that goes wrong is shortened by leaving things out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import run_state_machine_as_test

from sessionsched.testing.contract.report import Report
from sessionsched.testing.contract.rules import STEPS, SchedulerContract
from sessionsched.testing.contract.sentences import judged, skipped
from sessionsched.testing.contract.shorten import shortened
from sessionsched.testing.contract.story import story_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.contract.adapter import Adapter, Feature
    from sessionsched.testing.contract.story import Story
    from sessionsched.testing.explore.judge import Violation

__all__ = ["EXAMPLES", "check"]

#: How many stories are tried.
EXAMPLES = 1000


class _Enough(BaseException):
    """Hypothesis need not go on. Not an Exception: it would tell the story once more."""


def check(
    make: Callable[[], Adapter],
    *,
    examples: int | None = None,
    steps: int | None = None,
    name: str = "",
) -> Report:
    """Try so many stories on fresh adapters, until one goes wrong.

    Args:
        make: Makes a fresh adapter for each story.
        examples: How many stories; 1000 unless told. Hypothesis may try a few more.
        steps: How many rules each story follows, at most; 16 unless told.
        name: For the report.

    Raises:
        Exception: what the scheduler or its adapter raised, with the story as a note.
    """
    began = time.perf_counter()
    search = _Search(make)
    story = search.run(_settings(examples or EXAMPLES, steps or STEPS))
    return Report(
        name=name or getattr(make, "__name__", "scheduler"),
        judged=judged(search.features),
        skipped=skipped(search.features),
        examples=search.examples,
        seconds=time.perf_counter() - began,
        story=None if story is None else shortened(make, story),
    )


class _Search:
    """One run of the contract that leaves Hypothesis at the first thing that goes wrong."""

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self._make = make
        self.examples = 0
        self.features: frozenset[Feature] = frozenset()
        self._story: Story | None = None
        self._error: Exception | None = None

    def run(self, how: settings) -> Story | None:
        """Give the first story that went wrong."""
        try:
            run_state_machine_as_test(self._contract(), settings=how)
        except _Enough:
            if self._error is not None:
                raise self._error from None
        return self._story

    def make(self) -> Adapter:
        """Make an adapter, and count."""
        try:
            adapter = self._make()
        except Exception as error:
            self._error = error
            raise _Enough from error
        self.examples += 1
        self.features = frozenset(adapter.features)
        return adapter

    def _contract(self) -> type[SchedulerContract]:
        search = self

        class Leaving(SchedulerContract):
            """Leaves at the first thing that goes wrong."""

            make = staticmethod(search.make)

            def tell(self, violation: Violation) -> NoReturn:
                search._story = story_of(self.play)
                raise _Enough from violation

            def fail(self, error: Exception) -> NoReturn:
                try:
                    super().fail(error)
                except Exception as noted:
                    search._error = noted
                    raise _Enough from noted

        return Leaving


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
