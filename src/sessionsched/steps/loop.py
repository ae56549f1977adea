"""The turn inside a run: a model streams, tools answer, until there is nothing more to do.

Rule 1. A step is stored once, whole, before anything follows from it. If that fails, the turn has.
Rule 2. A cancel cuts the step that is under way. What came of it is stored, with every call
        answered, out of the cancel's reach; then the cancel goes on its way.
Rule 3. Follow-ups are taken just before a request, and at no other time: so there is always a step
        that answers them, no call is open, and whoever comes later has a turn of their own.
Rule 4. A turn whose last step is stored is over. A cancel that comes later strikes the handler.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from sessionsched import checks
from sessionsched.errors import InvalidOption
from sessionsched.steps.history import Said, Step, mended
from sessionsched.steps.reach import Reach
from sessionsched.steps.request import Request
from sessionsched.steps.retry import Retry, stream_step
from sessionsched.steps.tools import Answers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable

    from sessionsched.model import Run
    from sessionsched.steps.draft import Draft
    from sessionsched.steps.history import Entry
    from sessionsched.steps.parts import Usage
    from sessionsched.steps.request import Model
    from sessionsched.steps.tools import Tool

__all__ = ["Compaction", "StepsResult", "WhyOver", "run_steps"]

#: For `persist_step`, from a cancel on.
PERSIST_S: Final = 5.0


class WhyOver(enum.StrEnum):
    """Why a turn was over."""

    FINISHED = "finished"  #: the model called no tool
    TOOL = "tool"  #: a tool said stop
    MAX_STEPS = "max_steps"  #: it took as many steps as it may


@frozen
class StepsResult:
    """A turn that came to its end."""

    why: WhyOver
    #: What was stored, in order.
    steps: tuple[Step, ...]
    #: What the next turn begins with: compacted, if it was.
    history: tuple[Entry, ...]

    @property
    def text(self) -> str:
        """What the model said last."""
        return self.steps[-1].text


@frozen
class Compaction:
    """When a history is made shorter, and how."""

    #: Gets the history, and what the last step used; gives the history to go on with.
    compact: Callable[[tuple[Entry, ...], Usage], Coroutine[Any, Any, Iterable[Entry]]]
    #: How many tokens the model can take.
    window: int
    #: The part of the window from which on it is called.
    threshold: float = 0.8

    def __attrs_post_init__(self) -> None:
        checks.coroutine_function("compact", self.compact)
        checks.at_least(1, "window", self.window)
        if not 0 < self.threshold <= 1:
            msg = f"threshold is a part of the window, not {self.threshold!r}"
            raise InvalidOption(msg, option="threshold", value=self.threshold)

    def due(self, usage: Usage) -> bool:
        """Whether so much was used that the next request might not fit."""
        return usage.total >= self.threshold * self.window


async def run_steps(
    run: Run[Any],
    *,
    model: Model,
    history: Iterable[Entry],
    persist_step: Callable[[Step], Coroutine[Any, Any, object]],
    tools: Iterable[Tool] = (),
    active_tools: Collection[str] | None = None,
    max_steps: int = 100,
    compact: Compaction | None = None,
    retry: Retry | None = None,
    silence_timeout: float = 600.0,
) -> StepsResult:
    """Take one turn: ask the model, run the tools that it calls, and again, until it is through.

    Parts, results of tools and Discarded are shown to whoever subscribed (RunProgress).

    Args:
        run: The run that the turn belongs to; call this from its handler, or inside of its turn.
        model: Streams the parts of one step. See Model.
        history: What the model is asked with, the run's own prompt included.
        persist_step: Awaited once for each step, with the whole of it. After a cancel it has five
            seconds, and is not reached by it; `step.cause` says why the step was cut short.
        tools: What the model may call.
        active_tools: Names of those that it may call in this turn; None: all of them.
        max_steps: How many steps the turn may take.
        compact: When and how to make the history shorter.
        retry: Which attempts are made again. None: the defaults of Retry.
        silence_timeout: Seconds without a part, after which an attempt has failed.

    Raises:
        CancelledError: the run was canceled, or its task was. What there was of the step is stored.
        InvalidOption: an option is wrong; nothing was asked.
        BaseException: what `persist_step` or `compact` raised, or the last attempt of a step.
    """
    checks.at_least(1, "max_steps", max_steps)
    checks.seconds("silence_timeout", silence_timeout, positive=True)
    checks.coroutine_function("persist_step", persist_step)
    kit = Toolkit.checked(tools, active_tools)
    async with Reach(run) as reach:
        loop = Loop(
            reach, model, persist_step, kit, max_steps, compact, retry or Retry(),
            silence_timeout, mended(history),
        )  # fmt: skip
        return await loop.go()


@frozen
class Toolkit:
    """The tools of a turn, by name."""

    tools: dict[str, Tool]
    active: frozenset[str]

    @classmethod
    def checked(cls, tools: Iterable[Tool], active: Collection[str] | None) -> Toolkit:
        """Take what the host gave.

        Raises:
            InvalidOption: a name stands for two tools, or for none.
        """
        by_name: dict[str, Tool] = {}
        for tool in tools:
            if by_name.setdefault(tool.name, tool) is not tool:
                msg = f"there are two tools named {tool.name!r}"
                raise InvalidOption(msg, option="tools", value=tool.name)
        names = frozenset(by_name if active is None else active)
        if unknown := sorted(names - by_name.keys()):
            msg = f"active_tools names what is not among the tools: {', '.join(unknown)}"
            raise InvalidOption(msg, option="active_tools", value=active)
        return cls(by_name, names)

    def offered(self) -> tuple[Tool, ...]:
        """Those that the model is told of, in the order in which they were given."""
        return tuple(tool for name, tool in self.tools.items() if name in self.active)


@define
class Loop:
    """One turn, while it is taken."""

    reach: Reach
    model: Model
    persist_step: Callable[[Step], Coroutine[Any, Any, object]]
    kit: Toolkit
    max_steps: int
    compaction: Compaction | None
    retry: Retry
    silence_s: float
    #: What the next request begins with: all that was stored, or what became of it.
    history: tuple[Entry, ...]
    #: What was stored.
    steps: tuple[Step, ...] = ()
    #: The history was compacted in this turn: that is enough for its end.
    compacted: bool = field(default=False, init=False)

    async def go(self) -> StepsResult:
        """Take steps until one of them is the last. See run_steps."""
        why: WhyOver | None = None
        while why is None:
            if self.reach.canceled:
                await self.reach.leave()
            step = await self._step()
            why = self._why_over(step)
            await self._compact(step, last=why is not None)
        return StepsResult(why, self.steps, self.history)

    def _why_over(self, step: Step) -> WhyOver | None:
        if step.cause is not None:
            return None  # cut short is not over: the cancel will be
        if step.final:
            return WhyOver.FINISHED
        if any(result.stop for result in step.results):
            return WhyOver.TOOL
        return WhyOver.MAX_STEPS if step.number == self.max_steps else None

    async def _step(self) -> Step:
        run = self.reach.run
        asked = tuple(Said(follow_up.prompt) for follow_up in run.take_follow_ups())
        number = len(self.steps) + 1
        request = Request(run, number, (*self.history, *asked), self.kit.offered())
        draft = await stream_step(self.reach, self.model, request, self.retry, self.silence_s)
        step = await self._answered(draft, number, asked)
        await self._store(step)
        return step

    async def _answered(self, draft: Draft, number: int, asked: tuple[Said, ...]) -> Step:
        step = Step(number, draft.content(), (), draft.finish, asked)
        answers = Answers(self.reach, self.kit.tools, self.kit.active, step.calls)
        results = await answers.collect()
        cut = draft.finish is None or any(result.synthetic for result in results)
        return evolve(step, results=results, cause=self.reach.cause if cut else None)

    async def _store(self, step: Step) -> None:
        if step.finish is None and not step.content and not step.asked:
            return  # canceled before anything came
        await self.reach.out_of_reach(self.persist_step(step), PERSIST_S)
        self.steps += (step,)
        self.history += step.entries

    async def _compact(self, step: Step, *, last: bool) -> None:
        usage = None if step.finish is None else step.finish.usage
        if self.compaction is None or usage is None or not self.compaction.due(usage):
            return
        if self.reach.canceled or (last and self.compacted):
            return
        shorter = self.reach.start(self.compaction.compact(self.history, usage))
        if await self.reach.wait([shorter]):
            self.history = tuple(shorter.result())
            self.compacted = True
