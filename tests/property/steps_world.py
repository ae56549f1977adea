"""A turn of which everything is made up: what the model streams, what tools do, who cancels when.

What observers were shown is written into a ledger of its own, which knows nothing of drafts and
steps; in the end what was stored must be what was shown.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import async_solipsism
from attrs import Factory, define, evolve
from steps_plan import FAULTS, LINGER_S, TOOLS, Line, linger

from sessionsched import Cause, RunCanceling, RunProgress, RunState, Scheduler, Status, WhenBusy
from sessionsched.steps import (
    CallDelta,
    CallDone,
    CallStart,
    Discarded,
    Finish,
    FunctionTool,
    Reasoning,
    Retry,
    Said,
    Step,
    StreamSilent,
    Text,
    ToolCall,
    ToolResult,
    run_steps,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from steps_plan import Deed, Plan

    from sessionsched import Outcome, Run, RunHandle
    from sessionsched.steps import Entry, Part, Request, StepsResult

__all__ = ["World"]

#: The id of the run that is judged; follow-ups that come too late have runs of their own.
TURN: Final = "turn"
SILENCE_S: Final = 20.0
#: What a stream says when it is told to stop, because of a cancel or of its silence.
TOO_LATE: Final = Text("too late")
RETRY: Final = Retry(attempts=3, pause=1.0, cap=4.0, jitter=0.0)


@define
class Shown:
    """One step, as whoever watched would have it."""

    text: str = ""
    reasoning: str = ""
    #: Inputs as far as they came, by call.
    calls: dict[str, str] = Factory(dict)
    finished: bool = False

    def see(self, part: object) -> None:
        match part:
            case Text(text):
                self.text += text
            case Reasoning(text):
                self.reasoning += text
            case CallStart(call_id):
                self.calls[call_id] = ""
            case CallDelta(call_id, text):
                self.calls[call_id] += text
            case CallDone(call_id, _, whole):
                self.calls[call_id] = self.calls.get(call_id, "") if whole is None else whole
            case Finish():
                self.finished = True

    @classmethod
    def of(cls, step: Step) -> Shown:
        reasoning = "".join(it.text for it in step.content if isinstance(it, Reasoning))
        calls = {it.call_id: it.input for it in step.calls}
        return cls(step.text, reasoning, calls, finished=step.finish is not None)

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.calls or self.finished)


class World:
    """One turn, from its prompt to its judgement."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = async_solipsism.EventLoop()
        self.complaints: list[str] = []
        self.loop.set_exception_handler(lambda _, about: self.complaints.append(str(about)))
        self.requests: list[Request] = []
        #: Streams that are not closed, and tools that are not over, by run.
        self.open: Counter[str] = Counter()
        self.at_work: Counter[str] = Counter()
        #: What the model said before anybody had told it to stop.
        self.said: list[Part] = []
        self.shown: list[object] = []
        #: What was handed over to be stored, and what was, by run.
        self.given: defaultdict[str, list[Step]] = defaultdict(list)
        self.stored: defaultdict[str, list[Step]] = defaultdict(list)
        #: A cancel of each kind that found the run in flight.
        self.canceled: set[str] = set()
        self.follow_ups: list[RunHandle[str, Any]] = []
        #: The one that takes the turn.
        self.task: asyncio.Task[Any] | None = None

    # --- the host ---

    async def model(self, request: Request) -> AsyncIterator[Part]:
        self.requests.append(request)
        number = len(self.requests) - 1
        line = self.plan.lines[number] if number < len(self.plan.lines) else Line((Text("end"),))
        self.open[request.run.run_id] += 1
        try:
            async for part in self._follow(line):
                if part is not TOO_LATE and not self.canceled and request.run.run_id == TURN:
                    self.said.append(part)
                yield part
        finally:
            self.open[request.run.run_id] -= 1

    async def _follow(self, line: Line) -> AsyncIterator[Part]:
        for item in line.items:
            if not isinstance(item, int | float):
                yield item
                continue
            try:
                await asyncio.sleep(item)
            except asyncio.CancelledError:
                match line.manner:
                    case "ends":
                        return
                    case "fails":
                        raise ConnectionError("reset") from None
                    case "speaks":
                        yield TOO_LATE
                    case "lingers":
                        await linger(LINGER_S)
                raise
        if not line.fault:
            yield Finish()
        elif (error := FAULTS[line.fault]()) is not None:
            raise error

    async def persist(self, run_id: str, step: Step) -> None:
        self.given[run_id].append(step)
        await asyncio.sleep(self.plan.persist_s)
        self.stored[run_id].append(step)

    async def handle(self, run: Run[str]) -> StepsResult:
        if run.run_id == TURN:
            self.task = asyncio.current_task()
        return await run_steps(
            run, model=self.model, history=[Said(run.prompt)],
            persist_step=functools.partial(self.persist, run.run_id),
            tools=self.tools(), max_steps=self.plan.max_steps,
            retry=RETRY, silence_timeout=SILENCE_S,
        )  # fmt: skip

    def tools(self) -> list[FunctionTool]:
        return [evolve(it, function=self._counted(it)) for it in TOOLS]

    def _counted(self, tool: FunctionTool) -> Callable[..., Coroutine[Any, Any, object]]:
        async def counted(run: Run[str]) -> object:
            self.at_work[run.run_id] += 1
            try:
                return await tool.function(run)
            finally:
                self.at_work[run.run_id] -= 1

        return counted

    # --- the people ---

    async def act(self, deed: Deed, scheduler: Scheduler[str, Any]) -> None:
        await asyncio.sleep(deed.at)
        for _ in range(deed.turns):
            await asyncio.sleep(0)
        match deed.what:
            case "interrupt":
                if scheduler.cancel("chat", up_to=1):
                    self.canceled.add("interrupt")
            case "outside" if self.task is not None and not self.task.done():
                self.canceled.add("outside")
                self.task.cancel()
            case "close":
                turn = scheduler.find(TURN)
                if turn is not None and turn.state is not RunState.ENDED:
                    self.canceled.add("close")
                await scheduler.close()
            case "ask" if not self.canceled:
                prompt = f"more {len(self.follow_ups)}"
                self.follow_ups.append(scheduler.submit("chat", prompt, when_busy=WhenBusy.FOLD))

    async def main(self) -> None:
        async with Scheduler(self.handle, grace=2.0) as scheduler:
            async with scheduler.subscribe(run_id=TURN, buffer=10**6) as events:
                handle = scheduler.submit("chat", "hi", run_id=TURN)
                deeds = [asyncio.create_task(self.act(it, scheduler)) for it in self.plan.deeds]
                async for event in events:
                    if isinstance(event, RunProgress | RunCanceling):
                        self.shown.append(getattr(event, "item", event))
            outcome = await handle.outcome()
            self._judge_who_is_left()
            for follow_up in self.follow_ups:
                await follow_up.outcome()
            self.judge(outcome)
            for deed in deeds:
                deed.cancel()
            await asyncio.gather(*deeds, return_exceptions=True)

    def run(self) -> None:
        try:
            self._run(self.main())
            # A silent stream that ignores being closed is left behind; these are over by then.
            self._run(asyncio.sleep(LINGER_S))
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        finally:
            self.loop.close()
        gc.collect(0)
        assert (self.complaints, left) == ([], [])
        assert (self.open.total(), self.at_work.total()) == (0, 0)

    def _run(self, main: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(main)

    # --- the judgement ---

    def judge(self, outcome: Outcome[StepsResult]) -> None:
        assert self.given == self.stored, "what was begun to be stored is stored"
        for steps in self.stored.values():
            assert [step.number for step in steps] == list(range(1, len(steps) + 1))
            assert [step for step in steps[:-1] if step.cause is not None] == []
            well_formed([entry for step in steps for entry in step.entries])
        for request in self.requests:
            well_formed(request.history)
        self._judge_what_was_shown()
        self._judge_end(outcome, self.stored[TURN])
        if outcome.status is not Status.FAILED:
            self._judge_follow_ups()

    def _judge_who_is_left(self) -> None:
        """With the turn its tools and its stream are over; not one that was silent and lingers."""
        silent = [it for it in self.shown if isinstance(it, Discarded)]
        lingering = sum(isinstance(it.error, StreamSilent) for it in silent)
        assert self.at_work[TURN] == 0
        assert self.open[TURN] <= lingering

    def _judge_what_was_shown(self) -> None:
        seen = [Shown()]
        for item in self.shown:
            if isinstance(item, Discarded):
                seen[-1] = Shown()
                continue
            seen[-1].see(item)
            if seen[-1].finished:
                seen.append(Shown())
        stored = [Shown.of(step) for step in self.stored[TURN]]
        assert [it for it in stored if it] == [it for it in seen if it]
        lost = [it for it in self.said if not any(it is item for item in self.shown)]
        assert lost == [], "what was said before the cancel was shown"
        results = [it for it in self.shown if isinstance(it, ToolResult)]
        assert len(results) == sum(len(step.results) for step in self.stored[TURN])
        kinds = [type(it) for it in self.shown]
        if RunCanceling in kinds:
            assert Discarded not in kinds[kinds.index(RunCanceling) :], "a cancel beats an error"

    def _judge_end(self, outcome: Outcome[StepsResult], steps: list[Step]) -> None:
        cause = steps[-1].cause if steps else None
        if "interrupt" in self.canceled:
            assert (outcome.status, outcome.cause) == (Status.CANCELED, Cause.INTERRUPT)
        elif not self.canceled:
            assert outcome.status in {Status.COMPLETED, Status.FAILED}
        if cause is not None:
            assert outcome.status in {Status.CANCELED, Status.SUSPENDED}
            assert outcome.cause in {cause, Cause.INTERRUPT, Cause.SHUTDOWN}
        if outcome.status is Status.COMPLETED:
            assert outcome.result is not None
            assert outcome.result.steps == tuple(steps) != ()
            well_formed(outcome.result.history)

    def _judge_follow_ups(self) -> None:
        """Whoever was taken is in one step, after the results of the step before."""
        outcomes = [(it.run.prompt, it.run.ended) for it in self.follow_ups]
        taken = [prompt for prompt, it in outcomes if it is not None and it.folded_into == TURN]
        assert [it.content for step in self.stored[TURN] for it in step.asked] == taken


def well_formed(entries: Sequence[Entry]) -> None:
    """Every call is answered exactly once, in order, and nobody speaks before that.

    Looks at it as a provider does, which gets one thing after the other.
    """
    waiting: list[str] = []
    for entry in entries:
        assert waiting == [], "somebody speaks before all calls are answered"
        if isinstance(entry, Step):
            waiting = [it.call_id for it in entry.content if isinstance(it, ToolCall)]
            assert len(set(waiting)) == len(waiting)
            for result in entry.results:
                assert result.call_id == waiting.pop(0)
    assert waiting == []
