"""A play: one story on one fresh scheduler, call by call, judged as it goes.

Rule 1. After a call the scheduler may rest, unless the call says how many steps it gets.
Rule 2. Everything that happens is kept in the order in which it was seen, for the story.
Rule 3. At the end everything is made ready and finished (`wind_up`), and then nothing may be left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve

from sessionsched.testing.contract.adapter import Adapter, Feature, News, missing_methods
from sessionsched.testing.contract.calls import RESTS_FIRST, Call, in_words, is_possible, perform
from sessionsched.testing.contract.judge import look_around, take_note
from sessionsched.testing.contract.life import Facts
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sessionsched.testing.contract.life import Life

__all__ = ["Line", "Play", "replay"]

#: In which order news are read that came together, when nobody knows their order. An order that is
#: right is taken for granted.
_GIVEN_THE_BENEFIT: Final = ("told", "dropped", "ended", "started")


class Line:
    """One line of a story: a call that was made, or news that came of it."""

    def __init__(self, what: Call | News, life: Life | None) -> None:
        self.what = what
        #: The prompt that it is about, if it is about one.
        self.life = life

    @property
    def words(self) -> str:
        """The same in plain words. Put into words late: most stories are never told."""
        if isinstance(self.what, Call):
            return in_words(self.what, self.life)
        return _news_in_words(self.what, self.life)


class Play:
    """A story in the making."""

    def __init__(self, adapter: Adapter) -> None:
        """Begin.

        Raises:
            TypeError: the adapter says that it has a feature, and lacks the methods for it.
        """
        missing = missing_methods(adapter)
        if missing:
            msg = f"{type(adapter).__name__} says what it has, and lacks: {', '.join(missing)}"
            raise TypeError(msg)
        self.adapter = adapter
        self.facts = Facts(frozenset(adapter.features))
        #: What was called and seen so far.
        self.lines: list[Line] = []
        #: The sentence that was broken, if one was. Nothing is called any more then.
        self.broken: Violation | None = None
        #: How much of the adapter's notes was read: all of them; starts; ends.
        self._read, self._starts, self._ends = 0, 0, 0

    @property
    def script(self) -> list[Call]:
        """What was called so far: enough to tell the story again."""
        return [line.what for line in self.lines if isinstance(line.what, Call)]

    def make(self, call: Call) -> bool:
        """Make a call and judge what comes of it. False: it isn't possible, and wasn't made.

        Raises:
            Violation: a sentence was broken; `broken` says so from here on.
        """
        if Feature.STEPS not in self.facts.features:
            call = evolve(call, steps=None)
        try:
            if call.verb in RESTS_FIRST:
                self._rest()
            if not is_possible(self.facts, call):
                return False
            line = Line(call, self.facts.labelled(call.prompt))
            self.lines.append(line)
            perform(self.adapter, self.facts, call)
            line.life = self.facts.labelled(call.prompt)
            self._go_on(call.steps)
        except Violation as violation:
            self.broken = violation
            raise
        return True

    def wind_up(self) -> None:
        """Make everything ready, let every handler return, and see that nothing is left.

        Raises:
            Violation: something never ends.
        """
        if self.broken is None:
            try:
                self._rest()
            except Violation as violation:
                self.broken = violation
                raise
            while sum(self.make(call) for call in list(self._what_is_left())):
                pass
            self._nothing_is_left()

    def _what_is_left(self) -> Iterator[Call]:
        for session in sorted(self.facts.held | self.facts.maybe_held):
            yield Call("resume", session)
        for life in self.facts.lives:
            if life.in_flight:
                yield Call("settle", prompt=life.label)
                yield Call("finish", prompt=life.label)
                yield Call("ready", prompt=life.label)

    def _nothing_is_left(self) -> None:
        left = [life for life in self.facts.lives if life.in_flight]
        if left:
            self.broken = Violation("T1", f"nothing can happen any more, and {left[0]} never ends")
            raise self.broken

    # --- what comes of a call ---

    def _go_on(self, steps: int | None) -> None:
        self._read_news()
        for _ in range(steps or 0):
            self.adapter.step()
            self._read_news()
        if steps is None:
            self._rest()

    def _rest(self) -> None:
        self.adapter.rest()
        self._read_news()
        look_around(self.facts)
        idle = self.facts.held - set(self.facts.sessions)
        self.facts.held -= idle
        self.facts.maybe_held |= idle

    def _read_news(self) -> None:
        for news in self._news():
            life = self.facts.by_seq.get(news.seq)
            self.lines.append(Line(news, life))
            take_note(self.facts, news)

    def _news(self) -> Iterable[News]:
        """Give what was noted since the last time."""
        new = self.adapter.history[self._read :]
        self._read += len(new)
        if self.adapter.ordered and _keeps_notes(self.adapter):
            return new
        starts = self.adapter.started()[self._starts :]
        ends = self.adapter.ended()[self._ends :]
        self._starts += len(starts)
        self._ends += len(ends)
        news = [it for it in new if it.what in ("told", "dropped")]
        news += [News("ended", seq, str(status)) for seq, status in ends]
        news += [News("started", seq) for seq in starts]
        return sorted(news, key=lambda it: _GIVEN_THE_BENEFIT.index(it.what))


def _keeps_notes(adapter: Adapter) -> bool:
    """Whether starts and ends are found in the adapter's notes, and not asked for elsewhere."""
    kind = type(adapter)
    return kind.started is Adapter.started and kind.ended is Adapter.ended


def _news_in_words(news: News, life: Life | None) -> str:
    prompt = life or f"seq {news.seq}"
    return {
        "started": f"{prompt} starts",
        "told": f"the handler of {prompt} is told to stop",
        "dropped": f"{prompt} is dropped, which waits to be recorded",
        "ended": f"{prompt} ends: {news.status}",
    }.get(news.what, f"{prompt}: {news.what}")


def replay(adapter: Adapter, script: Iterable[Call]) -> Play:
    """Tell a story again, without the calls that are not possible; stop where it goes wrong."""
    play = Play(adapter)
    try:
        for call in script:
            play.make(call)
        play.wind_up()
    except Violation:
        pass
    finally:
        adapter.stop()
    return play
