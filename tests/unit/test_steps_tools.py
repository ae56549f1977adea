"""Tools: side by side, one result for each call, and what goes wrong is for the model to read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from scripted import DONE, Host, Script, call, flat, tool

from sessionsched import InvalidOption, RunProgress, Scheduler
from sessionsched.steps import (
    CallDelta,
    CallStart,
    Finish,
    FunctionTool,
    ToolOutput,
    ToolResult,
    WhyOver,
)

if TYPE_CHECKING:
    from sessionsched import Run
    from sessionsched.steps import Tool


class Clocked:
    """A tool that writes down when it began and was over. It takes as long as it is told."""

    def __init__(self, name: str, *, exclusive: bool = False) -> None:
        self.name = name
        self.exclusive = exclusive
        self.times: list[tuple[float, float]] = []

    def parse(self, text: str) -> float:
        return float(text)

    async def call(self, run: Run[Any], seconds: float) -> str:
        clock = asyncio.get_running_loop().time
        began = clock()
        await asyncio.sleep(seconds)
        self.times.append((began, clock()))
        return f"{self.name} {seconds:g}"


async def results(tools: list[Tool], *calls: Any) -> list[str]:
    """What the model reads after these calls."""
    model = Script([*calls, DONE], [DONE])
    await Host(model, tools).take()
    (step,) = model.requests[1].history[1:]
    return flat(step)[len(calls) :]


async def test_tools_run_side_by_side_and_results_are_in_the_order_of_the_calls() -> None:
    a = Clocked("a")
    model = Script([call("1", "a", "3"), call("2", "a", "1"), call("3", "a", "2"), DONE], [DONE])
    host = Host(model, [a])
    async with host.open() as (scheduler, watch):
        await scheduler.submit("chat", "hi")
    assert a.times == [(0, 1), (0, 2), (0, 3)]
    assert flat(host.stored[0])[3:] == ["result 1: a 3", "result 2: a 1", "result 3: a 2"]
    shown = [it.item.call_id for it in watch.of(RunProgress) if isinstance(it.item, ToolResult)]
    assert shown == ["2", "3", "1"], "as they come"


async def test_an_exclusive_tool_runs_alone_in_its_place() -> None:
    a, x = Clocked("a"), Clocked("x", exclusive=True)
    calls = [("1", a), ("2", a), ("3", x), ("4", x), ("5", a), ("6", a)]
    said = await results([a, x], *[call(number, it.name, number) for number, it in calls])
    assert x.times == [(2, 5), (5, 9)]
    assert a.times == [(0, 1), (0, 2), (9, 14), (9, 15)]
    assert said == [f"result {number}: {it.name} {number}" for number, it in calls]


async def test_an_exception_of_a_tool_is_an_error_for_the_model() -> None:
    async def broken(run: Run[str]) -> None:
        raise LookupError("no such file")

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def worse(run: Run[str]) -> None:
        raise Unspeakable

    async def group(run: Run[str]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken(run))

    said = await results(
        [tool(broken), tool(worse), tool(group)],
        call("1", "broken"), call("2", "worse"), call("3", "group"),
    )  # fmt: skip
    assert said[0] == "error 1: LookupError: no such file"
    assert said[1].startswith("error 2: ")
    assert said[2].startswith("error 3: ExceptionGroup: ")


async def test_a_cancellation_that_a_tool_makes_up_is_an_error_for_the_model() -> None:
    async def stray(run: Run[str]) -> None:
        raise asyncio.CancelledError

    assert await results([tool(stray)], call("1", "stray")) == [
        "error 1: the tool was canceled, and nobody has asked for it"
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1', "JSONDecodeError"),
        ("[1]", "the input is a JSON object, not [1]"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("{}", "missing a required argument: 'a'"),
        ('{"a": 1, "b": 2}', "got an unexpected keyword argument 'b'"),
        ("[" * 100_000, "RecursionError"),
    ],
)
async def test_input_that_is_none_for_the_tool_is_an_error_for_the_model(
    text: str, complaint: str
) -> None:
    called = []

    async def picky(run: Run[str], a: int) -> None:
        called.append(a)

    (said,) = await results([tool(picky)], call("1", "picky", text))
    assert said.startswith("error 1: ")
    assert complaint in said
    assert called == []


async def test_blank_input_is_an_empty_object() -> None:
    async def plain(run: Run[str]) -> str:
        return "plain"

    assert await results([tool(plain)], call("1", "plain", "")) == ["result 1: plain"]


async def test_a_call_that_a_finished_stream_has_cut_off_is_an_error_for_the_model() -> None:
    model = Script([CallStart("1", "a"), CallDelta("1", "3"), Finish("length")], [DONE])
    host = Host(model, [Clocked("a")])
    result = await host.take()
    assert flat(host.stored[0]) == [
        "call 1: a", "error 1: the call was cut off before its input was complete",
    ]  # fmt: skip
    assert (result.why, host.stored[0].cause) == (WhyOver.FINISHED, None)


async def test_a_tool_says_more_than_its_content_if_it_likes() -> None:
    async def sorry(run: Run[str]) -> ToolOutput:
        return ToolOutput({"code": 1}, error=True)

    assert await results([tool(sorry)], call("1", "sorry")) == ["error 1: {'code': 1}"]


async def test_every_tool_gets_the_run() -> None:
    async def who(run: Run[str]) -> str:
        return f"{run.session_id} {run.prompt} {run.canceled}"

    assert await results([tool(who)], call("1", "who")) == ["result 1: chat hi False"]


async def test_what_is_no_exception_is_let_through_when_the_others_are_over() -> None:
    class Torn(BaseException):
        """What stops a whole program."""

    async def tear(run: Run[str]) -> None:
        raise Torn

    async def handler(run: Run[str]) -> str:
        with pytest.raises(Torn):
            await host.handle(run)
        return "torn"

    a = Clocked("a")
    host = Host(Script([call("1", "tear"), call("2", "a", "5"), DONE]), [tool(tear), a])
    async with Scheduler(handler) as scheduler:
        assert await scheduler.submit("chat", "hi") == "torn"
    assert (a.times, host.given) == ([(0, 5)], [])


def test_a_tool_is_made_of_an_async_function() -> None:
    with pytest.raises(InvalidOption, match="async def"):
        FunctionTool(print)  # type: ignore[arg-type]
