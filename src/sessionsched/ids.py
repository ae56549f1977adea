"""The ids of runs: every run in flight is found by its id, and no two have the same.

Rule 1. A seq is given once; it only rises.
Rule 2. A run that its caller has named is found for a while after its end, so that a submit that is
        repeated finds it. One that was not is called after its seq, and forgotten with its end.

It has no lock. Whoever adds or forgets a run holds the lock of that run's session, and what threads
of different sessions do here at once are single operations on a dict or a deque, which don't tear.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Final, Generic

from sessionsched.model import MADE_UP, PromptT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionsched.model import Run

__all__ = ["LONGEST_SEQ", "Ids"]

#: Digits, of a seq that anybody will see.
LONGEST_SEQ: Final = 18


class Ids(Generic[PromptT]):
    """The runs of one scheduler, by seq and by name."""

    def __init__(self, remembered: int) -> None:
        self._remembered = remembered
        #: `next` gives a seq.
        self.seqs: Iterator[int] = itertools.count(1)
        #: Every run in flight, by seq.
        self.in_flight: dict[int, Run[PromptT]] = {}
        #: Runs that their callers have named, in flight or ended lately, by that name.
        self.named: dict[str, Run[PromptT]] = {}
        #: Names of runs that have ended, oldest first; at most so many as are remembered.
        self.ended: deque[str] = deque()
        #: Somebody has named a run as we would; only then can two ids be the same by chance.
        self.lookalikes = False

    def find(self, run_id: str) -> Run[PromptT] | None:
        """Give a run that is in flight, or was named and ended lately."""
        return self.named.get(run_id) or self._made_up(run_id)

    def add(self, run: Run[PromptT]) -> None:
        """Give a run its seq. From here on it can be found: it must be complete."""
        run.seq = seq = next(self.seqs)
        self.in_flight[seq] = run

    def add_name(self, run: Run[PromptT]) -> Run[PromptT]:
        """See to it that no other run has its id. Gives the run that was faster with it, if any."""
        while not run.name and run.run_id in self.named:  # somebody has named theirs like that
            del self.in_flight[run.seq]
            self.add(run)
        if not run.name:
            return run
        self.lookalikes = self.lookalikes or run.name.startswith(MADE_UP)
        known = self.named.setdefault(run.name, run)
        if known is run:
            # Looked for after that: one that gets this seq meanwhile looks for the name after that.
            known = self._made_up(run.name) or run
        if known is not run:
            self._take_back(run)
        return known

    def forget(self, *runs: Run[PromptT]) -> None:
        """Let go of runs that have ended; remember for a while those that were named."""
        in_flight = self.in_flight
        for run in runs:
            del in_flight[run.seq]
            if run.name:
                self._remember(run.name)

    def _remember(self, name: str) -> None:
        self.ended.append(name)
        if len(self.ended) > self._remembered:
            del self.named[self.ended.popleft()]

    def _made_up(self, run_id: str) -> Run[PromptT] | None:
        """Find a run in flight by the id that we made up for it."""
        digits = run_id[len(MADE_UP) :]
        if not run_id.startswith(MADE_UP) or not digits.isdecimal() or len(digits) > LONGEST_SEQ:
            return None
        run = self.in_flight.get(int(digits))
        return run if run is not None and run.run_id == run_id else None

    def _take_back(self, run: Run[PromptT]) -> None:
        """Another run was faster with its id: it has never been here."""
        if self.named[run.name] is run:
            del self.named[run.name]
        del self.in_flight[run.seq]
        run.seq, run.session = 0, None
