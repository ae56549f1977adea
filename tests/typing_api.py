"""The public face as people write it. Only type-checked (`make check`), never run.

`assert_type` says what mypy must find; a `type: ignore` that is not needed is an error too.
"""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

from attrs import define

from sessionsched import (
    CancelReceipt,
    CloseReport,
    Explanation,
    Gap,
    Limits,
    Outcome,
    Run,
    RunCanceled,
    RunEnded,
    RunEvent,
    RunHandle,
    RunProgress,
    Scheduler,
    Scope,
    SessionView,
    Snapshot,
    ThreadHandle,
    ThreadRun,
    ThreadScheduler,
    ThreadTicket,
    Ticket,
    WhenBusy,
)


@define
class Prompt:
    text: str


@define
class Answer:
    words: list[str]


async def agent(run: Run[Prompt]) -> Answer:
    for follow_up in run.take_follow_ups():
        assert_type(follow_up, Run[Prompt])
        run.emit(follow_up.prompt.text)
    return Answer([run.prompt.text, run.session_id, run.run_id, str(run.seq)])


async def record(run: Run[Prompt]) -> None:
    await asyncio.sleep(len(run.prompt.text))


def plain(run: Run[Prompt]) -> Answer:
    return Answer([run.prompt.text])


async def other(run: Run[int]) -> Answer:
    return Answer([str(run.prompt)])


class CallableAgent:
    async def __call__(self, run: Run[Prompt]) -> Answer:
        return await agent(run)


def made() -> None:
    assert_type(Scheduler(agent), Scheduler[Prompt, Answer])
    assert_type(Scheduler(CallableAgent()), Scheduler[Prompt, Answer])
    Scheduler(
        agent, on_dropped=record, prepare=record, prepare_timeout=10, limits=Limits(max_active=4),
        grace=1, abandon_after=None, settle_timeout=0.5,
    )  # fmt: skip
    Scheduler(plain)  # type: ignore[arg-type]
    Scheduler(agent, on_dropped=other)  # type: ignore[misc]


async def used(scheduler: Scheduler[Prompt, Answer]) -> None:
    handle = scheduler.submit(
        "chat", Prompt("hello"), run_id="r-1", when_busy=WhenBusy.FOLD, deadline=60, wait_at_most=5
    )
    assert_type(handle, RunHandle[Prompt, Answer])
    assert_type(await handle, Answer)
    assert_type(await handle.outcome(), Outcome[Answer])
    assert_type((await handle.outcome()).result, Answer | None)
    assert_type(await asyncio.wait_for(handle.outcome(), 1), Outcome[Answer])
    assert_type(handle.replace(Prompt("other")), bool)
    assert_type(scheduler.find("r-1"), RunHandle[Prompt, Answer] | None)
    scheduler.submit("chat", "hello")  # type: ignore[arg-type]
    handle.replace("other")  # type: ignore[arg-type]

    with scheduler.accept("chat", Prompt("hello")) as ticket:
        assert_type(ticket, Ticket[Prompt, Answer])
        assert_type(ticket.handle, RunHandle[Prompt, Answer])
        assert_type(ticket.ready(), bool)

    try:
        async with scheduler.turn("chat", Prompt("hello")) as run:
            assert_type(run, Run[Prompt])
    except RunCanceled as canceled:
        assert_type(canceled.outcome, Outcome[Any] | None)

    receipt = scheduler.cancel("chat", scope=Scope.WAITING, up_to=7, hold=True)
    assert_type(receipt, CancelReceipt[Prompt])
    assert_type([run.prompt.text for run in receipt.dropped], list[str])
    assert_type(scheduler.cancel_run("r-1"), CancelReceipt[Prompt])
    assert_type(scheduler.cancel_all(), tuple[CancelReceipt[Prompt], ...])
    assert_type(scheduler.waiting("chat"), tuple[Run[Prompt], ...])
    assert_type(scheduler.session("chat"), SessionView[Prompt])
    assert_type(scheduler.snapshot(), Snapshot[Prompt])
    assert_type(scheduler.explain("r-1"), Explanation)


async def watched(scheduler: Scheduler[Prompt, Answer]) -> None:
    async with scheduler.subscribe("chat", buffer=10) as events:
        async for event in events:
            assert_type(event, RunEvent[Prompt] | Gap)
            match event:
                case RunProgress(item=item):
                    assert_type(item, object)
                case RunEnded(run=run, outcome=outcome):
                    print(run.run_id, outcome.status)  # noqa: T201
                case Gap(missed=missed):
                    assert_type(missed, int)


def on_threads() -> None:
    def handler(run: ThreadRun[Prompt]) -> Answer:
        run.raise_if_canceled()
        assert_type(run.wait_canceled(1.5), bool)
        forget = run.on_cancel(print)
        forget()
        assert_type(run.take_follow_ups(), tuple[Run[Prompt], ...])
        return Answer([run.prompt.text])

    with ThreadScheduler(handler, threads=2, on_dropped=lambda run: run.prompt.text) as scheduler:
        assert_type(scheduler, ThreadScheduler[Prompt, Answer])
        handle = scheduler.submit("chat", Prompt("hello"))
        assert_type(handle, ThreadHandle[Prompt, Answer])
        assert_type(handle.result(timeout=1), Answer)
        assert_type(handle.outcome(), Outcome[Answer])
        with scheduler.accept("chat", Prompt("hello")) as ticket:
            assert_type(ticket, ThreadTicket[Prompt, Answer])
        with scheduler.turn("chat", Prompt("hello")) as run:
            assert_type(run, ThreadRun[Prompt])
        with scheduler.subscribe() as events:
            for event in events:
                assert_type(event, RunEvent[Prompt] | Gap)
        assert_type(scheduler.close(drain=1), CloseReport[Prompt])
    ThreadScheduler(agent)  # runs, and gives coroutines: refused when it is made


async def closed(scheduler: Scheduler[Prompt, Answer]) -> None:
    async with scheduler as same:
        assert_type(same, Scheduler[Prompt, Answer])
        report = await scheduler.close(drain=10)
    assert_type(report, CloseReport[Prompt])
    assert_type([(run.seq, run.prompt.text) for run in report.suspended], list[tuple[int, str]])
