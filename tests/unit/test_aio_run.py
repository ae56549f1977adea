"""A run and its task: whose it is, what its handler sees and may do, and how its end is read."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, ends, quiet

from sessionsched import RunState, Scheduler, Status, WhenBusy
from sessionsched.aio.run import alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run, RunHandle

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")

speaker: ContextVar[str] = ContextVar("speaker", default="nobody")


# --- whose it is ---


@pytest.mark.contract("A6")
async def test_canceling_who_submitted_or_who_waits_changes_nothing() -> None:
    agent = Agent()
    made: list[RunHandle[str, str]] = []

    async def submits() -> None:
        made.append(scheduler.submit("chat", "a"))
        await made[0]

    async with Scheduler(agent) as scheduler:
        submitter = asyncio.create_task(submits())
        await quiet()
        waiter = asyncio.ensure_future(made[0])
        await quiet()
        assert submitter.cancel()
        assert waiter.cancel()
        await quiet()
        assert submitter.cancelled()
        assert waiter.cancelled()
        run: Any = made[0].run
        assert run.waiter == [], "who has left is not told of the end"
        agent.finish("a")
        assert await made[0] == "a done"
    assert agent.log == ["start a", "over a"]


@pytest.mark.parametrize(("waiters", "place"), [(1, 0), (3, 0), (3, 1), (3, 2)])
async def test_a_waiter_that_is_canceled_in_the_moment_of_the_end_is_canceled_and_no_more(
    waiters: int, place: int
) -> None:
    async with Scheduler(Agent()) as scheduler:
        scheduler.submit("chat", "a")
        handle = scheduler.submit("chat", "b")
        patient = [asyncio.ensure_future(handle.outcome()) for _ in range(waiters)]
        await quiet()
        waiter = patient.pop(place)
        waiter.cancel()
        handle.cancel()  # has ended when this returns
        assert handle.state is RunState.ENDED
        assert [(await it).status for it in patient] == [Status.CANCELED] * len(patient)
        await quiet()
        assert waiter.cancelled()


async def test_whoever_waits_after_the_first_one_has_left_is_told_like_the_others() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        first, second = (asyncio.ensure_future(handle) for _ in range(2))
        await quiet()
        first.cancel()
        await quiet()
        third = asyncio.ensure_future(handle)
        await quiet()
        agent.finish("a")
        assert [await second, await third] == ["a done", "a done"]
        assert first.cancelled()


async def test_the_tasks_of_handlers_and_hooks_are_known_while_they_go_on_and_whose_they_are() -> (
    None
):
    seen: list[tuple[str, bool, str]] = []

    async def look(run: Run[str]) -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append((run.prompt, alive[task] is run, task.get_name()))

    before = len(alive)
    async with Scheduler(look, on_dropped=look) as scheduler:
        scheduler.submit("chat", "a", run_id="mine")
        scheduler.submit("chat", "b").cancel()
        await quiet()
        assert len(alive) == before
    assert [(prompt, known) for prompt, known, _ in seen] == [("a", True), ("b", True)]
    assert seen[0][2] == "mine"


async def test_a_run_that_has_ended_keeps_neither_its_task_nor_its_context() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        run: Any = agent.runs["a"]
        assert run.carrier is not None
        assert run.context is not None
        agent.finish("a")
        await handle
        assert (run.carrier, run.context) == (None, None)


def test_what_python_closes_after_its_loop_has_gone_is_reported_to_nobody() -> None:
    async def main() -> None:
        scheduler = Scheduler(Agent())
        handle = scheduler.submit("chat", "a")
        await quiet()
        handles.append(handle)

    handles: list[RunHandle[str, str]] = []
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())  # and nobody tears it down
    run: Any = handles[0].run
    task = run.carrier
    task.get_coro().close()
    assert run.ended is None
    del alive[task]
    task.cancel()  # asyncio complains of a task that is pending when it is lost
    loop.run_until_complete(asyncio.wait([task]))
    assert isinstance(task.exception(), RuntimeError), "its coroutine is closed"
    loop.close()


# --- what it sees ---


class Witness:
    """Notes whose context variables the handler and the hooks see."""

    def __init__(self) -> None:
        self.saw: list[tuple[str, str, str]] = []

    def note(self, what: str) -> Callable[[Run[str]], Any]:
        async def look(run: Run[str]) -> None:
            self.saw.append((what, run.prompt, speaker.get()))
            await asyncio.sleep(0)
            self.saw.append((what, run.prompt, speaker.get()))
            if what == "handler":
                speaker.set(f"the handler of {run.prompt}")  # no other run is to see this

        return look

    def of(self, what: str) -> list[tuple[str, str]]:
        return [(prompt, who) for kind, prompt, who in self.saw if kind == what]


BOTH = [("of ann", "ann")] * 2 + [("of bob", "bob")] * 2


@pytest.mark.contract("A7")
async def test_handler_and_hooks_see_the_context_variables_of_their_own_submitter() -> None:
    witness = Witness()
    async with Scheduler(
        witness.note("handler"), on_dropped=witness.note("on_dropped")
    ) as scheduler:
        for who in ("ann", "bob"):
            speaker.set(who)
            scheduler.submit("chat", f"of {who}")
        speaker.set("eve")
        dropped = scheduler.accept("chat", "of eve")
        speaker.set("the main task")
        await quiet()
        dropped.close()
        await quiet()
    assert witness.of("handler") == BOTH
    assert witness.of("on_dropped") == [("of eve", "eve")] * 2
    assert speaker.get() == "the main task"


@pytest.mark.contract("A7", "R4")
@pytest.mark.real_loop
async def test_that_holds_for_submitters_in_other_threads_and_for_preparations() -> None:
    witness = Witness()
    handles: list[RunHandle[str, Any]] = []

    def submit(who: str) -> None:
        speaker.set(who)
        handles.append(scheduler.submit("chat", f"of {who}"))

    async with Scheduler(witness.note("handler"), prepare=witness.note("prepare")) as scheduler:
        for who in ("ann", "bob"):
            thread = threading.Thread(target=submit, args=(who,))
            thread.start()
            thread.join()
        assert witness.saw == [], "what a thread decided is performed by the loop"
        assert await ends(*handles) == [COMPLETED, COMPLETED]
    assert witness.of("handler") == sorted(witness.of("prepare")) == BOTH


@pytest.mark.contract("A7")
async def test_a_run_that_is_canceled_before_its_first_step_is_dropped_in_its_own_context() -> None:
    witness = Witness()
    async with Scheduler(
        witness.note("handler"), on_dropped=witness.note("on_dropped")
    ) as scheduler:
        speaker.set("ann")
        handle = scheduler.submit("chat", "of ann")
        speaker.set("the main task")
        handle.cancel()
        assert await ends(handle) == [INTERRUPTED]
    assert witness.saw == [("on_dropped", "of ann", "ann")] * 2


@pytest.mark.contract("A1")
@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
@pytest.mark.parametrize("prepared", [False, True])
async def test_with_an_eager_task_factory_no_handler_and_no_hook_runs_inside_a_call(
    *, prepared: bool
) -> None:
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    inside: list[str] = []

    async def hook(run: Run[str]) -> None:
        inside.append(run.prompt)

    async with Scheduler(hook, prepare=hook if prepared else None, on_dropped=hook) as scheduler:
        first = scheduler.submit("chat", "a")
        assert inside == []
        assert await ends(first) == [COMPLETED]
        assert inside == ["a"] * (1 + prepared)
        dropped = scheduler.accept("chat", "b")
        scheduler.cancel("chat")
        assert inside[-1] == "a"
        assert await ends(dropped.handle) == [INTERRUPTED]
    assert inside[-1] == "b"


# --- what it may do ---


async def test_a_handler_may_submit_to_any_session_its_own_included() -> None:
    made: dict[str, RunHandle[str, str]] = {}

    async def handler(run: Run[str]) -> str:
        if run.prompt == "first":
            made["next"] = scheduler.submit(run.session_id, "next")
            made["elsewhere"] = scheduler.submit("another chat", "elsewhere")
            assert await made["elsewhere"] == "elsewhere done"
            assert made["next"].state is RunState.QUEUED
        return f"{run.prompt} done"

    async with Scheduler(handler) as scheduler:
        first = scheduler.submit("chat", "first")
        assert await ends(first) == [COMPLETED]
        assert await ends(made["next"]) == [COMPLETED]


@pytest.mark.contract("X1", "X2")
async def test_a_handler_may_cancel_its_own_session_and_prompt_it_anew() -> None:
    made: list[RunHandle[str, str]] = []

    async def handler(run: Run[str]) -> str:
        if run.prompt == "first":
            receipt = scheduler.cancel(run.session_id)
            assert receipt.active is run
            assert [it.prompt for it in receipt.dropped] == ["second"]
            made.append(scheduler.submit(run.session_id, "third"))
            await asyncio.sleep(1)
        return run.prompt

    async with Scheduler(handler) as scheduler:
        made += [scheduler.submit("chat", "first"), scheduler.submit("chat", "second")]
        assert await ends(*made) == [INTERRUPTED, INTERRUPTED]
        assert await made[2] == "third"


async def test_a_handler_may_interrupt_itself_by_a_prompt_of_its_own() -> None:
    async def handler(run: Run[str]) -> str:
        if run.prompt == "first":
            made.append(scheduler.submit("chat", "again", when_busy=WhenBusy.INTERRUPT))
            await asyncio.sleep(1)
        return run.prompt

    made: list[RunHandle[str, str]] = []
    async with Scheduler(handler) as scheduler:
        made.append(scheduler.submit("chat", "first"))
        await quiet()
        assert await ends(*made) == [("canceled", "superseded"), COMPLETED]


async def test_a_handler_may_cancel_another_session_and_wait_for_that() -> None:
    agent = Agent()

    async def handler(run: Run[str]) -> str:
        if run.session_id == "chat":
            return await agent(run)
        scheduler.cancel("chat")
        return (await victim.outcome()).status

    async with Scheduler(handler) as scheduler:
        victim = scheduler.submit("chat", "a")
        await quiet()
        assert await scheduler.submit("another chat", "stop it") == "canceled"
    assert agent.log == ["start a", "stop a", "over a"]


# --- how its end is read ---


class NothingIn(Exception):
    """An error that counts what is in it: nothing."""

    def __len__(self) -> int:
        return 0


@pytest.mark.contract("D4", "T1")
async def test_an_error_is_an_error_also_when_it_is_false() -> None:
    error = NothingIn()

    async def handler(run: Run[str]) -> None:
        if run.prompt == "a":
            raise error

    async with Scheduler(handler) as scheduler:
        first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        await quiet()
        assert first.run.ended is not None, "its session is stranded"
        assert (first.run.ended.status, first.run.ended.error) == (Status.FAILED, error)
        assert await ends(second) == [COMPLETED]


@pytest.mark.contract("T1", "X13")
async def test_how_a_handler_is_over_is_how_its_run_ends() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        returned, raised, stray, outside = (scheduler.submit(it, it) for it in "abcd")
        await quiet()
        agent.finish("a")
        agent.fail("b", error := ValueError("no"))
        agent._gate("c").cancel()  # its own doing: nobody has canceled the run
        [task] = [it for it in asyncio.all_tasks() if it.get_name() == outside.session_id]
        task.cancel()
        outcomes = [await it.outcome() for it in (returned, raised, stray, outside)]
    assert [it.status for it in outcomes] == ["completed", "failed", "failed", "suspended"]
    assert [it.result for it in outcomes] == ["a done", None, None, None]
    assert outcomes[1].error is error
    assert isinstance(outcomes[2].error, asyncio.CancelledError)
    assert (outcomes[3].cause, outcomes[3].error) == ("external", None)
    assert all(it.started for it in outcomes)


@pytest.mark.contract("T1")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_handler_that_tears_the_loop_down_has_failed_before_that(error: BaseException) -> None:
    async def handler(run: Run[str]) -> None:
        raise error

    async def main() -> None:
        async with Scheduler(handler) as scheduler:
            handles.append(scheduler.submit("chat", "a"))
            await asyncio.sleep(99)

    handles: list[RunHandle[str, None]] = []
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    with pytest.raises(type(error)) as caught:
        loop.run_until_complete(task)
    assert caught.value is error
    outcome = handles[0].run.ended
    assert outcome is not None, "nobody knows whether the loop runs on"
    assert (outcome.status, outcome.error) == (Status.FAILED, error)
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()


@pytest.mark.contract("A7")
def test_a_handler_does_not_see_what_the_one_before_it_has_set() -> None:
    seen: list[tuple[str, str]] = []

    async def handler(run: Run[str]) -> None:
        task = asyncio.current_task()
        seen.append((speaker.get(), "" if task is None else task.get_name()))
        if run.prompt == "a":
            speaker.set("a")

    async def main() -> None:
        async with Scheduler(handler) as scheduler:
            handles = [scheduler.submit("chat", "a"), scheduler.submit("chat", "b", run_id="mine")]
            handles.append(scheduler.submit("other", "c"))
            speaker.set("main")
            handles.append(scheduler.submit("other", "d"))
            for handle in handles:
                await handle.outcome()

    Context().run(asyncio.run, main())  # without any variables, as most hosts are
    assert sorted(seen) == [
        ("main", "other"), ("nobody", "chat"), ("nobody", "mine"), ("nobody", "other"),
    ]  # fmt: skip


@pytest.mark.contract("F3")
async def test_an_outcome_says_which_run_took_a_follow_up() -> None:
    async def handler(run: Run[str]) -> None:
        await asyncio.sleep(0)
        run.take_follow_ups()

    async with Scheduler(handler) as scheduler:
        taker = scheduler.submit("chat", "a")
        follow_up = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
        assert (await follow_up.outcome()).folded_into == taker.run_id
