"""A turn that nobody cancels: steps, tools between them, stores, follow-ups, compaction."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from agents import ends, quiet
from scripted import DONE, Host, Script, call, flat, tool

from sessionsched import InvalidOption, RunProgress, RunState, Status, WhenBusy
from sessionsched.steps import (
    CallDelta,
    CallDone,
    CallStart,
    Extra,
    Finish,
    FunctionTool,
    Reasoning,
    Request,
    Said,
    Step,
    Text,
    ToolCall,
    ToolOutput,
    ToolResult,
    Usage,
    WhyOver,
)

if TYPE_CHECKING:
    from scripted import Item

    from sessionsched import Run


async def echo(run: Run[str], text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


ECHO = tool(echo)
A = '{"text": "a"}'

# --- steps ---


async def test_a_model_that_calls_no_tool_is_asked_once() -> None:
    host = Host(Script([Reasoning("hm"), Text("Hel"), Text("lo"), Finish("stop", Usage(5, 2))]))
    result = await host.take()
    step = Step(1, (Reasoning("hm"), Text("Hello")), (), Finish("stop", Usage(5, 2)))
    assert (result.why, result.text, result.steps) == (WhyOver.FINISHED, "Hello", (step,))
    assert host.stored == [step]
    assert result.history == (Said("hi"), step)
    assert step.final


async def test_tools_run_between_steps_and_their_results_are_in_the_next_request() -> None:
    model = Script(
        [
            Text("let me see"),
            call("1", text='{"text": "a"}'),
            call("2", text='{"text": "b"}'),
            DONE,
        ],
        [call("3", text='{"text": "c"}'), DONE],
        [Text("there you are"), DONE],
    )
    host = Host(model, [ECHO])
    result = await host.take()
    assert [flat(*request.history) for request in model.requests] == [
        first := ["user: hi"],
        second := [
            *first, "text: let me see", "call 1: echo", "call 2: echo", "result 1: echo a",
            "result 2: echo b",
        ],
        third := [*second, "call 3: echo", "result 3: echo c"],
    ]  # fmt: skip
    assert flat(*result.history) == [*third, "text: there you are"]
    assert [step.number for step in host.stored] == [1, 2, 3]
    assert model.closed == 3


async def test_a_step_is_stored_once_and_whole_before_the_model_is_asked_again() -> None:
    host = Host(Script([call("1"), DONE], [Text("ok"), DONE]), [ECHO])
    seen: list[int] = []
    host.model.lines[1] = (lambda: seen.append(len(host.stored)), *host.model.lines[1])
    host.persist_s = 3.0
    await host.take()
    assert seen == [1]
    assert host.given == host.stored
    assert host.stored[0].results == (ToolResult("1", "echo", "echo "),)


async def test_an_error_of_persist_step_ends_the_turn_and_is_raised() -> None:
    host = Host(Script([call("1"), DONE], [Text("never"), DONE]), [ECHO])
    host.persist_error = OSError("the disk is full")
    with pytest.raises(OSError, match="the disk is full"):
        await host.take()
    assert len(host.given) == len(host.model.requests) == 1


async def test_a_cancel_that_persist_step_makes_up_is_an_error_like_any_other() -> None:
    host = Host(Script([Text("a"), DONE]))
    host.persist_error = asyncio.CancelledError()
    async with host.open() as (scheduler, _):
        outcome = await scheduler.submit("chat", "hi").outcome()
    assert (outcome.status, type(outcome.error)) == (Status.FAILED, asyncio.CancelledError)


async def test_max_steps_ends_a_turn_after_the_tools_of_the_last_step_have_answered() -> None:
    model = Script([call("1"), DONE])
    result = await Host(model, [ECHO], max_steps=3).take()
    assert (result.why, len(model.requests)) == (WhyOver.MAX_STEPS, 3)
    assert all(len(step.results) == 1 for step in result.steps)


async def test_a_model_that_is_through_in_its_last_step_is_finished() -> None:
    result = await Host(Script([call("1"), DONE], [DONE]), [ECHO], max_steps=2).take()
    assert (result.why, result.text) == (WhyOver.FINISHED, "")


async def test_a_tool_that_says_stop_ends_the_turn_when_all_have_answered() -> None:
    async def submit(run: Run[str]) -> ToolOutput:
        return ToolOutput("submitted", stop=True)

    model = Script([call("1", "submit"), call("2"), DONE])
    result = await Host(model, [tool(submit), ECHO]).take()
    assert (result.why, len(model.requests)) == (WhyOver.TOOL, 1)
    assert flat(*result.history)[-2:] == ["result 1: submitted", "result 2: echo "]


async def test_a_call_is_streamed_in_pieces_beside_others() -> None:
    model = Script(
        [
            CallStart("1", "echo"), CallStart("2", ""), CallDelta("1", '{"text":'), Extra("sig"),
            CallDelta("2", "{"), CallDelta("1", ' "x"}'), CallDone("1"), Text(""), Text("so"),
            CallDone("2", "echo", '{"text": "y"}'), DONE,
        ],
        [DONE],
    )  # fmt: skip
    result = await Host(model, [ECHO]).take()
    assert result.steps[0].content == (
        ToolCall("1", "echo", '{"text": "x"}'),
        ToolCall("2", "echo", '{"text": "y"}'),
        Extra("sig"),
        Text("so"),
    )
    assert flat(result.steps[0])[-2:] == ["result 1: echo x", "result 2: echo y"]


async def test_parts_and_results_are_shown_as_progress_in_the_order_in_which_they_come() -> None:
    line: list[Item] = [Text("a"), call("1"), DONE]
    host = Host(Script(line, [Text("b"), DONE]), [ECHO])
    async with host.open() as (scheduler, watch):
        await scheduler.submit("chat", "hi")
    shown = [event.item for event in watch.of(RunProgress)]
    assert shown == [*line, ToolResult("1", "echo", "echo "), Text("b"), DONE]


async def test_a_history_with_calls_that_nobody_answered_is_mended_before_it_is_sent() -> None:
    good = Step(1, (ToolCall("0", "echo", "{}"),), (ToolResult("0", "echo", "fine"),))
    bad = Step(2, (ToolCall("1", "echo", "{}"), ToolCall("2", "echo", "{}")), good.results)
    half = ToolResult("2", "echo", "half")
    host = Host(Script([DONE]))
    host.history = (good, Step(2, bad.content, (half,)))
    await host.take()
    first, second, _ = host.model.requests[0].history
    assert first is good
    assert second.results[1] is half
    assert flat(second)[-2:] == ["error 1: the result of this call was lost", "result 2: half"]


# --- active tools ---


async def test_a_model_is_told_of_the_active_tools_and_can_call_no_other() -> None:
    called = []

    async def danger(run: Run[str]) -> None:
        called.append(run)

    model = Script([call("1", "danger"), call("2"), call("3", "no_such"), DONE], [DONE])
    host = Host(model, [tool(danger), ECHO], active_tools=["echo"])
    result = await host.take()
    assert [request.tools for request in model.requests] == [(ECHO,), (ECHO,)]
    assert flat(result.steps[0])[3:] == [
        "error 1: 'danger' can't be called now; try: echo",
        "result 2: echo ",
        "error 3: there is no tool 'no_such'; there are: echo",
    ]
    assert called == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_steps", 0),
        ("silence_timeout", 0),
        ("persist_step", print),
        ("active_tools", ["nope"]),
        ("tools", [ECHO, tool(echo)]),
    ],
)
async def test_an_option_that_makes_no_sense_is_refused_before_the_model_is_asked(
    option: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(Script([DONE]))
    host.options[option] = value
    if option == "tools":
        host.tools = host.options.pop(option)
    if option == "persist_step":
        monkeypatch.setattr(host, "persist", host.options.pop(option))
    with pytest.raises(InvalidOption) as refused:
        await host.take()
    assert refused.value.option == option
    assert host.model.requests == []


# --- follow-ups ---


async def test_follow_ups_are_taken_just_before_a_request_and_come_after_the_results() -> None:
    states = []

    async def slow(run: Run[str]) -> str:
        await asyncio.sleep(10)
        states.append([it.state for it in scheduler.waiting("chat")])
        return "slow"

    model = Script([Text("a"), 10, call("1", "slow"), DONE], [Text("b"), DONE])
    host = Host(model, [tool(slow)])
    async with host.open() as (scheduler, _):
        first = scheduler.submit("chat", "hi")
        await quiet()
        behind = scheduler.submit("chat", "and this", when_busy=WhenBusy.FOLD)
        await asyncio.sleep(5)
        later = scheduler.submit("chat", "this too", when_busy=WhenBusy.FOLD)
        result = await first
        assert (await behind.outcome()).folded_into == first.run_id
        assert (await later.outcome()).folded_into == first.run_id
    assert states == [[RunState.QUEUED, RunState.QUEUED]]
    assert flat(*model.requests[1].history) == [
        "user: hi", "text: a", "call 1: slow", "result 1: slow", "user: and this", "user: this too",
    ]  # fmt: skip
    assert host.stored[1].asked == (Said("and this"), Said("this too"))
    assert result.history == (Said("hi"), *host.stored[0].entries, *host.stored[1].entries)


async def test_a_follow_up_that_comes_after_the_last_request_has_a_turn_of_its_own() -> None:
    host = Host(Script([Text("a"), 10, DONE]))
    async with host.open() as (scheduler, _):
        first = scheduler.submit("chat", "hi")
        await asyncio.sleep(5)
        behind = scheduler.submit("chat", "and this", when_busy=WhenBusy.FOLD)
        assert await ends(first, behind) == [("completed", None)] * 2
        assert (await behind.outcome()).folded_into is None
    assert [flat(*request.history) for request in host.model.requests] == [
        ["user: hi"], ["user: and this"],
    ]  # fmt: skip


async def test_a_follow_up_that_waits_from_the_beginning_is_in_the_first_request() -> None:
    host = Host(Script([DONE]))
    async with host.open() as (scheduler, _):
        first = scheduler.submit("chat", "hi")
        behind = scheduler.submit("chat", "and this", when_busy=WhenBusy.FOLD)
        assert await ends(first, behind) == [("completed", None)] * 2
    (request,) = host.model.requests
    assert flat(*request.history) == ["user: hi", "user: and this"]


# --- the package ---


def test_the_core_does_not_import_steps() -> None:
    code = "import sys, sessionsched; sys.exit('tenacity' in sys.modules)"
    code += " or sys.exit('sessionsched.steps' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own line


def test_without_the_extra_an_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sessionsched.steps")
    monkeypatch.setitem(sys.modules, "tenacity", None)
    with pytest.raises(ImportError, match=r"pip install 'sessionsched\[steps\]'") as missing:
        __import__("sessionsched.steps")
    assert missing.value.name == "tenacity"


async def test_a_model_may_be_any_object_that_is_called_and_iterated() -> None:
    class Parts:
        """An iterator without `aclose`."""

        def __init__(self) -> None:
            self._left: list[Text | Finish] = [Text("a"), DONE]

        def __aiter__(self) -> Parts:
            return self

        async def __anext__(self) -> Text | Finish:
            return self._left.pop(0)

    def model(request: Request) -> Parts:
        assert request.run.prompt == "hi"
        return Parts()

    assert (await Host(model).take()).text == "a"


def test_a_tool_has_the_name_and_the_description_of_its_function() -> None:
    named = FunctionTool(echo, "say", "Says it.", {"type": "object"}, exclusive=True)
    assert (ECHO.name, ECHO.description, dict(ECHO.schema)) == ("echo", "Say it again.", {})
    assert (named.name, named.description, named.exclusive) == ("say", "Says it.", True)
