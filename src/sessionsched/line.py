"""A line of runs: who is next. Everything but a walk costs O(1).

Rule 1. A run stands in at most one line, and only a Line writes `prev` and `next`.
Rule 2. Whoever calls `up_to` has appended runs in accept order: promoted ones stand first, the
        last promoted before the others, and behind them everybody stands in accept order.

The links are in the runs themselves, so a line allocates nothing per run, gives up
any run in the middle at once, and is three words while it is empty. It has no truth value of its
own: a session is a line, too, and there whether anybody waits is not whether there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic

from attrs import define, field

from sessionsched.model import PromptT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionsched.model import Run

__all__ = ["NOBODY", "Line"]


@define(eq=False, weakref_slot=False, repr=False)
class Line(Generic[PromptT]):
    """Runs in the order in which they will leave."""

    #: None together with `last`, and exactly while `length` is 0.
    first: Run[PromptT] | None = field(default=None, kw_only=True)
    last: Run[PromptT] | None = field(default=None, kw_only=True)
    #: How many runs can be reached from `first`.
    length: int = field(default=0, kw_only=True)

    def __repr__(self) -> str:
        return f"Line({[run.seq for run in self]})"

    def __iter__(self) -> Iterator[Run[PromptT]]:
        run = self.first
        while run is not None:
            after = run.next  # the caller may remove the run that it was given
            yield run
            run = after

    def append(self, run: Run[PromptT]) -> None:
        """Put a run at the end."""
        last = self.last
        if last is None:
            self.first = run
        else:
            last.next = run
            run.prev = last
        self.last = run
        self.length += 1

    def take_first(self) -> None:
        """Take out the run that is first."""
        run = self.first
        self.first = after = run.next  # type: ignore[union-attr]  # there is one
        if after is None:
            self.last = None
        else:
            after.prev = run.next = None  # type: ignore[union-attr]
        self.length -= 1

    def remove(self, run: Run[PromptT]) -> None:
        """Take a run out, wherever it stands."""
        before, after = run.prev, run.next
        if before is None:
            self.first = after
        else:
            before.next = after
        if after is None:
            self.last = before
        else:
            after.prev = before
        # A run that is out refers to nobody: no cycle outlives the line.
        run.prev = run.next = None
        self.length -= 1

    def hand_over(self, runs: Sequence[Run[PromptT]], to: Line[PromptT]) -> None:
        """Move runs of this line, given in line order, to the end of another one.

        All that there are keep their links: that costs O(1).
        """
        if len(runs) < self.length:
            for run in runs:
                self.remove(run)
                to.append(run)
        elif self.first is not None:
            self._join(to)

    def _join(self, to: Line[PromptT]) -> None:
        first, last = self.first, to.last
        if last is None:
            to.first = first
        else:
            last.next, first.prev = first, last  # type: ignore[union-attr]  # there is one
        to.last = self.last
        to.length += self.length
        self.first = self.last = None
        self.length = 0

    def take_out(self, runs: Sequence[Run[PromptT]]) -> None:
        """Take several runs out, wherever they stand."""
        if len(runs) < self.length:
            for run in runs:
                self.remove(run)
            return
        for run in runs:
            run.prev = run.next = None  # as in `remove`
        self.first = self.last = None
        self.length = 0

    def to_front(self, run: Run[PromptT]) -> None:
        """Move a run of this line to the front."""
        self.remove(run)
        run.own.promoted = True
        run.next = self.first
        if run.next is None:
            self.last = run
        else:
            run.next.prev = run
        self.first = run
        self.length += 1

    def up_to(self, fence: int) -> list[Run[PromptT]]:
        """Give the runs with `seq <= fence`, in line order.

        Looks at the promoted ones, at those it gives and at one more.
        """
        found = []
        run = self.first
        while run is not None:
            if run.seq <= fence:
                found.append(run)
            elif not run.promoted:
                break
            run = run.next
        return found


#: A line that nobody ever stands in: shared by all who don't need one of their own yet.
NOBODY: Final[Line[Any]] = Line()
