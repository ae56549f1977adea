"""Tools: what a model may call, and how its calls are answered.

Rule 1. Every call has exactly one result, and results are in the order of the calls.
Rule 2. Whatever goes wrong with one call (no such tool, bad input, an exception) is an error for
        the model to read, and no end of the loop.
Rule 3. Tools run side by side, but for exclusive ones: those before it are over when an exclusive
        one begins, and those after it begin when it is over.
Rule 4. A cancel stops them all. What they have said by then, or say within a second, is kept; calls
        that are still open get a result that says so. What a tool says later is heard by nobody.
"""

from __future__ import annotations

import inspect
import json
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from attrs import Factory, field, frozen

from sessionsched import checks
from sessionsched.steps.history import ToolResult, unanswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from sessionsched.model import Run
    from sessionsched.steps.history import ToolCall
    from sessionsched.steps.reach import Reach

__all__ = ["Answers", "FunctionTool", "Tool", "ToolOutput"]

#: For tools that were told to stop to say what they still have to say.
LAST_WORDS_S: Final = 1.0


class Tool(Protocol):
    """Something that a model can call by its name."""

    @property
    def name(self) -> str:
        """What the model calls it."""
        ...

    @property
    def exclusive(self) -> bool:
        """Whether nothing else may run beside it."""
        ...

    def parse(self, text: str, /) -> Any:
        """Read its input.

        Raises:
            Exception: that is no input for this tool; the model is told what the exception says.
        """
        ...

    async def call(self, run: Run[Any], given: Any, /) -> object:
        """Do it. A ToolOutput, or anything else as its content; exceptions go to the model."""
        ...


@frozen
class ToolOutput:
    """What a tool gives back, when it has more to say than the content."""

    content: object
    #: It did not work out.
    error: bool = False
    #: The turn is over with this step.
    stop: bool = False


@frozen
class FunctionTool:
    """An `async def` as a tool: it gets the run, and the members of a JSON object by name."""

    function: Callable[..., Awaitable[object]]
    name: str = Factory(lambda it: it.function.__name__, takes_self=True)
    #: For the model: what it does, and a JSON schema of its input.
    description: str = Factory(lambda it: inspect.getdoc(it.function) or "", takes_self=True)
    schema: Mapping[str, Any] = Factory(dict)
    exclusive: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        checks.coroutine_function("function", self.function)

    def parse(self, text: str, /) -> dict[str, Any]:
        """Read a JSON object whose members the function takes; blank text is an empty one.

        Raises:
            ValueError: it is not JSON, or no object.
            TypeError: a member is missing, or one too many.
        """
        given = json.loads(text or "{}", parse_constant=_no_constant)
        if not isinstance(given, dict):
            msg = f"the input is a JSON object, not {text}"
            raise ValueError(msg)  # noqa: TRY004 - a wrong value in a text, whatever its type
        inspect.signature(self.function).bind(None, **given)
        return given

    async def call(self, run: Run[Any], given: dict[str, Any], /) -> object:
        """Call the function."""
        return await self.function(run, **given)


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)


class Answers:
    """The answers to the calls of one step."""

    def __init__(
        self, reach: Reach, tools: Mapping[str, Tool], active: frozenset[str],
        calls: Sequence[ToolCall],
    ) -> None:  # fmt: skip
        self._reach = reach
        self._tools = tools
        self._active = active
        self._calls = calls
        #: By call id; each is written once.
        self._results: dict[str, ToolResult] = {}
        #: Calls that have reached their tool.
        self._begun: set[str] = set()
        #: What is said from here on is too late.
        self._sealed = False

    async def collect(self) -> tuple[ToolResult, ...]:
        """Run the tools, and give one result for each call, in order.

        Raises:
            BaseException: what stops the whole program. No Exception of a tool does.
        """
        for batch in self._batches():
            if self._reach.canceled:
                break
            await self._run(batch)
        self._sealed = True
        return tuple(self._results.get(call.call_id) or self._missing(call) for call in self._calls)

    def _batches(self) -> Iterator[list[ToolCall]]:
        """Calls that may run side by side, in order."""
        batch: list[ToolCall] = []
        for call in self._calls:
            if self._is_exclusive(call):
                yield from (batch, [call])
                batch = []
            else:
                batch.append(call)
        yield batch

    def _is_exclusive(self, call: ToolCall) -> bool:
        tool = self._tools.get(call.name)
        return tool is not None and tool.exclusive

    async def _run(self, batch: list[ToolCall]) -> None:
        going = [self._reach.start(self._answer(call)) for call in batch]
        if not await self._reach.wait(going):
            for task in going:
                task.cancel()
            await self._reach.wait_through(going, LAST_WORDS_S)
        for task in going:
            if task.done() and not task.cancelled():
                task.result()  # _answer lets nothing through that isn't to stop the program

    def _missing(self, call: ToolCall) -> ToolResult:
        """Answer for a tool that did not: it was stopped, or has made up a cancellation."""
        if self._reach.canceled:
            result = unanswered(call, f"stopped ({self._reach.cause}) {self._how_far(call)}")
        else:
            text = "the tool was canceled, and nobody has asked for it"
            result = ToolResult(call.call_id, call.name, text, error=True)
        self._reach.run.emit(result)
        return result

    def _how_far(self, call: ToolCall) -> str:
        if call.call_id in self._begun:
            return "while it was at it: it may have done a part of its work, or all of it"
        return "before it began" if call.complete else "before its input was complete"

    # --- in a tool's task ---

    async def _answer(self, call: ToolCall) -> None:
        try:
            output = await self._output(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, the model may read it
            text = "".join(traceback.format_exception_only(error)).strip()
            output = ToolOutput(text, error=True)
        self._settle(call, output)

    async def _output(self, call: ToolCall) -> ToolOutput:
        refusal = self._refusal(call)
        if refusal is not None:
            return ToolOutput(refusal, error=True)
        tool = self._tools[call.name]
        given = tool.parse(call.input)
        self._begun.add(call.call_id)
        output = await tool.call(self._reach.run, given)
        return output if isinstance(output, ToolOutput) else ToolOutput(output)

    def _refusal(self, call: ToolCall) -> str | None:
        if not call.complete:
            return "the call was cut off before its input was complete"
        if call.name not in self._tools:
            return f"there is no tool {call.name!r}; there are: {', '.join(sorted(self._active))}"
        if call.name not in self._active:
            return f"{call.name!r} can't be called now; try: {', '.join(sorted(self._active))}"
        return None

    def _settle(self, call: ToolCall, output: ToolOutput) -> None:
        if self._sealed:
            return
        result = ToolResult(call.call_id, call.name, output.content, output.error, output.stop)
        self._results[call.call_id] = result
        self._reach.run.emit(result)
