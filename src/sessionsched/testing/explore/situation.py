"""A situation: everything that the future of a table depends on, as a plain tuple.

Situations are cheap to compare, hash and store. Merging them is sound because decisions only
compare seqs: runs in flight are numbered 1, 2, 3 ... again in accept order, the mark becomes the
number of those at or below it, and runs that have ended are forgotten, since whatever they did was
judged when they did it. The time is always 0: no decision depends on it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from attrs import frozen

from sessionsched.model import Cause, Effect, SessionState, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    #: (verb, arguments of its own)
    Action: TypeAlias = tuple[Any, ...]
    #: (effect, seq), and for an end also its status and cause
    Out: TypeAlias = tuple[Any, ...]

STATES: Final = tuple(SessionState)
CAUSES: Final = (None, *Cause)
CODES: Final = {cause: code for code, cause in enumerate(CAUSES)}
#: Announcements order nothing, so that they are never late to anything.
ORDERS: Final = frozenset({Effect.START, Effect.INTERRUPT, Effect.DROP, Effect.END})


class FrozenRun(NamedTuple):
    """What a decision can see of a run in flight."""

    seq: int
    ready: bool
    cause: int
    follows_up: bool
    promoted: bool


#: There are only a few hundred different ones: each is made once.
frozen_run: Final = functools.cache(FrozenRun)


class FrozenSession(NamedTuple):
    """What a decision can see of a session."""

    name: str
    mark: int
    newest: int
    held: bool
    active: FrozenRun | None
    taken: tuple[FrozenRun, ...]
    line: tuple[FrozenRun, ...]
    ending: tuple[FrozenRun, ...]
    #: Not part of what the naive model knows.
    state: int


class Budget(NamedTuple):
    """What may still happen on purpose; the table can't see it. ANY: no end to it."""

    prompts: float
    cancels: float
    holds: float
    promotes: float


class Frozen(NamedTuple):
    """A whole situation: the table, and what its driver still has to do."""

    sessions: tuple[FrozenSession, ...]
    asking: tuple[str, ...]
    closing: int
    #: Orders that were given and not carried out yet: (effect, seq, session).
    pending: tuple[tuple[Effect, int, str], ...]
    #: Seqs whose handler was begun, was told to stop, and whose drop is being recorded.
    begun: tuple[int, ...]
    told: tuple[int, ...]
    recording: tuple[int, ...]


#: The situation in which nothing has happened.
NOTHING: Final = Frozen((), (), 0, (), (), (), ())
#: A budget that never ends.
ANY: Final = float("inf")


@frozen
class Config:
    """How large a world is explored, and what can happen in it.

    With a budget of ANY prompts, cancels and so on, and only so many runs in flight at once, the
    exploration covers histories of every length.
    """

    prompts: float = 4
    cancels: float = 2
    holds: float = 1
    promotes: float = 1
    #: Runs at once that are in flight, or whose end is not announced yet.
    in_flight: float = ANY
    sessions: int = 1
    slots: int | None = None
    #: Effects are carried out some time after they were ordered, in order.
    lag: bool = False
    #: Also supersede, deadline, expiry, withdrawal, failed preparation and shutdown.
    everything: bool = False

    @classmethod
    def endless(cls, in_flight: float, **options: Any) -> Config:
        """Histories of any length, with at most so many runs in flight at once."""
        return cls(ANY, ANY, ANY, ANY, in_flight, **options)

    @property
    def policies(self) -> tuple[WhenBusy, ...]:
        """What prompts do when the session is busy. REJECT is among the wrong calls."""
        quiet = (WhenBusy.QUEUE, WhenBusy.FOLD)
        return (*quiet, WhenBusy.INTERRUPT, WhenBusy.LATEST) if self.everything else quiet

    @property
    def names(self) -> tuple[str, ...]:
        """The sessions of this world."""
        return tuple("ab"[: self.sessions])

    @property
    def budget(self) -> Budget:
        """What may happen on purpose, at the start."""
        return Budget(self.prompts, self.cancels, self.holds, self.promotes)

    @property
    def most(self) -> int:
        """How many runs can be in flight."""
        return int(min(self.prompts, self.in_flight))


def normal(
    sessions: tuple[FrozenSession, ...], others: Iterable[int]
) -> tuple[tuple[FrozenSession, ...], Mapping[int, int]]:
    """Number the runs in flight (and `others`) 1, 2, 3 ... in accept order."""
    seqs = sorted({run.seq for it in sessions for run in runs_of(it)}.union(others))
    new = {seq: place for place, seq in enumerate(seqs, 1)}
    if all(it.newest <= len(seqs) for it in sessions) and (not seqs or seqs[-1] == len(seqs)):
        return sessions, new  # nothing has ended
    return tuple(_renumber(it, seqs, new) for it in sessions), new


def _renumber(it: FrozenSession, seqs: list[int], new: Mapping[int, int]) -> FrozenSession:
    def again(runs: tuple[FrozenRun, ...]) -> tuple[FrozenRun, ...]:
        return tuple([frozen_run(new[run[0]], *run[1:]) for run in runs])

    mark = sum(seq <= it.mark for seq in seqs)
    newest = sum(seq <= it.newest for seq in seqs)
    active = None if it.active is None else again((it.active,))[0]
    return FrozenSession(
        it.name, mark, newest, it.held, active,
        again(it.taken), again(it.line), again(it.ending), it.state,
    )  # fmt: skip


def runs_of(it: FrozenSession) -> Iterator[FrozenRun]:
    """Give every run that the session has in flight."""
    if it.active is not None:
        yield it.active
    yield from it.taken
    yield from it.line
    yield from it.ending


def in_flight(it: Frozen) -> set[int]:
    """Give the seqs of the runs that have not ended."""
    return {run.seq for session in it.sessions for run in runs_of(session)}


def mentioned(it: Frozen) -> set[int]:
    """Give those, and the seqs whose end is still to be announced."""
    return in_flight(it).union(seq for _, seq, _ in it.pending)
