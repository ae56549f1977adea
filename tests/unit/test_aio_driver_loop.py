"""The driver and its loop: calls from other threads, and a loop that is gone."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from agents import Agent, ends, quiet, watching

from sessionsched import (
    RunProgress,
    RunQueued,
    RunState,
    Scheduler,
    SchedulerClosed,
    WhenBusy,
)
from sessionsched.hub import Mailbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import Run, RunHandle, Ticket

AnswerT = TypeVar("AnswerT")

COMPLETED = ("completed", None)
INTERRUPTED = ("canceled", "interrupt")
SHUTDOWN = ("suspended", "shutdown")


def elsewhere(call: Callable[[], AnswerT]) -> AnswerT:
    """Do it in another thread, while this one waits."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(60)


# --- other threads ---


@pytest.mark.contract("D5", "T5")
async def test_the_loop_goes_on_although_orders_keep_coming() -> None:
    agent, left = Agent(), 100_000
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()

        def more() -> None:  # as other threads can, while the loop performs what they ordered
            nonlocal left
            left -= 1
            if left > 0:
                handle.run.emit("more")

        box: Mailbox[str] = Mailbox("", "", 100_000, more)
        scheduler._driver.watch(box)
        await asyncio.sleep(0)
        assert left > 0, "the loop stood still until nobody ordered any more"
        other = scheduler.submit("other", "b")  # its turn comes with the rest
        for _ in range(1000):
            await asyncio.sleep(0)
        assert left <= 0, "nobody came back for the rest"
        scheduler._driver.hub.leave(box)
        agent.finish("a", "b")
        assert (await handle, await other) == ("a done", "b done")


@pytest.mark.contract("D5")
async def test_nothing_is_performed_while_others_have_their_turn_and_everything_after_that() -> (
    None
):
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler._driver._rest()
        handle = scheduler.submit("chat", "a")
        assert handle.state is RunState.ACTIVE
        assert len(scheduler._driver.orders) > 0, "others have been kept waiting long enough"
        await asyncio.sleep(0)
        assert len(scheduler._driver.orders) == 0
        scheduler.submit("other", "b")
        assert len(scheduler._driver.orders) == 0, "and then at once again"
        agent.finish("a")
        assert await handle == "a done"


@pytest.mark.contract("A1", "R4", "X1", "X2", "X11")
@pytest.mark.real_loop
async def test_a_call_from_another_thread_is_decided_there_and_performed_on_the_loop() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:

        def calls() -> list[RunHandle[str, str]]:
            first, second = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
            assert (first.state, second.state) == (RunState.ACTIVE, RunState.QUEUED)
            receipt = scheduler.cancel("chat")
            assert receipt.covered == (first.run, second.run)
            third = scheduler.submit("chat", "c")
            assert third.state is RunState.QUEUED
            return [first, second, third]

        handles = elsewhere(calls)
        assert agent.log == []
        agent.finish("c")
        assert await ends(*handles) == [INTERRUPTED, INTERRUPTED, COMPLETED]
    assert agent.started == ["c"]


@pytest.mark.contract("R4")
@pytest.mark.real_loop
async def test_any_number_of_threads_may_submit_and_cancel_at_once() -> None:
    async def handler(run: Run[int]) -> int:
        await asyncio.sleep(0)
        return run.prompt

    made: list[RunHandle[int, int]] = []

    def calls(number: int) -> None:
        for count in range(25):
            made.append(scheduler.submit(f"chat-{(number + count) % 3}", count))
            if count % 5 == 4:
                scheduler.cancel(f"chat-{count % 3}")

    async with Scheduler(handler) as scheduler:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(4) as pool:
            await asyncio.gather(*(loop.run_in_executor(pool, calls, it) for it in range(4)))
        statuses = {end[0] for end in await ends(*made)}
        assert len({handle.seq for handle in made}) == 100
    assert statuses <= {"completed", "canceled"}
    assert all(handle.run.ended for handle in made)


@pytest.mark.contract("D2")
async def test_progress_is_shown_after_what_was_decided_before_it() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler, watching(scheduler) as watch:
        handle = scheduler.submit("chat", "a")
        await quiet()
        assert handle.run.emit("half")
        agent.finish("a")
        await handle
        assert not handle.run.emit("too late")
    assert [event.item for event in watch.of(RunProgress)] == ["half"]
    assert watch.lines()[-2:] == ["RunProgress run-1", "RunEnded run-1"]


@pytest.mark.contract("R4")
@pytest.mark.real_loop
async def test_progress_may_be_shown_from_another_thread_and_to_nobody() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        assert handle.run.emit("nobody listens")
        async with watching(scheduler) as watch:
            assert elsewhere(lambda: handle.run.emit("half"))
            await quiet()
        assert [event.item for event in watch.of(RunProgress)] == ["half"]


@pytest.mark.contract("F3", "T6")
async def test_who_watches_one_run_sees_that_it_was_taken_and_its_end() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "a")
        follow_up = scheduler.submit("chat", "b", when_busy=WhenBusy.FOLD)
        await quiet()
        async with watching(scheduler, run_id=follow_up.run_id) as watch:
            agent.runs["a"].take_follow_ups()
            agent.finish("a")
            await follow_up
        assert watch.lines() == [f"{kind} run-2" for kind in ("RunQueued", "RunFolded", "RunEnded")]
        async with watching(scheduler, run_id="nobody") as watch:
            pass
        assert watch.lines() == []


@pytest.mark.contract("T6")
async def test_who_comes_later_is_told_how_each_run_stands() -> None:
    async def on_dropped(_run: Run[str]) -> None:
        await asyncio.sleep(1)

    agent = Agent()
    async with Scheduler(agent, on_dropped=on_dropped) as scheduler:
        scheduler.submit("chat", "a", run_id="active")
        scheduler.submit("chat", "b", run_id="taken", when_busy=WhenBusy.FOLD)
        await quiet()
        agent.runs["a"].take_follow_ups()
        dropped = scheduler.submit("chat", "c", run_id="dropped")
        scheduler.submit("chat", "d", run_id="ready")
        unready = scheduler.accept("chat", "e", run_id="unready")
        await quiet()
        dropped.cancel()
        async with watching(scheduler) as watch:
            pass
        assert watch.lines() == [
            "RunStarted active", "RunFolded taken", "RunCanceling dropped", "RunQueued ready",
            "RunAccepted unready",
        ]  # fmt: skip
        unready.close()
        scheduler.cancel("chat")
        async with watching(scheduler, run_id="active") as watch:
            await quiet()
        assert watch.lines() == ["RunStarted active", "RunCanceling active", "RunEnded active"]
        async with watching(scheduler, run_id="active") as watch:
            pass
        assert watch.lines() == ["RunEnded active"]


@pytest.mark.contract("T6", "X1")
@pytest.mark.real_loop
async def test_what_another_thread_decided_is_shown_before_the_progress_after_it() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        handle = scheduler.submit("chat", "a")
        await quiet()
        async with watching(scheduler) as watch:
            assert elsewhere(handle.cancel)
            assert handle.run.emit("my last words")
        assert watch.lines()[:3] == ["RunStarted run-1", "RunCanceling run-1", "RunProgress run-1"]


class Overtaken(str):
    """A session id: somebody looks it up, and just then another thread is faster."""

    __slots__ = ("meanwhile",)

    meanwhile: list[Callable[[], object]]

    def __hash__(self) -> int:
        if self.meanwhile:
            elsewhere(self.meanwhile.pop())
        return super().__hash__()


@pytest.mark.contract("T6")
@pytest.mark.real_loop
async def test_a_subscriber_is_told_of_a_prompt_that_comes_in_just_then_once() -> None:
    agent = Agent()
    async with Scheduler(agent) as scheduler:
        scheduler.submit("chat", "a")
        await quiet()
        chat = Overtaken("chat")
        chat.meanwhile = [lambda: scheduler.submit("chat", "b")]
        async with watching(scheduler, session_id=chat) as watch:
            await quiet()
        assert chat.meanwhile == []
    assert watch.lines() == ["RunStarted run-1", "RunAccepted run-2", "RunQueued run-2"]
    assert len(watch.of(RunQueued)) == 1


# --- a loop that is gone ---


class Gone:
    """A scheduler with a run in every place, whose loop can be closed under it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.agent = Agent()
        self.scheduler: Scheduler[str, str] = loop.run_until_complete(self._begin())
        submit = self.scheduler.submit
        self.active, self.canceled = submit("chat", "a"), submit("another chat", "b")
        self.waiting = submit("chat", "c")
        accept = self.scheduler.accept
        self.tickets: list[Ticket[str, str]] = [accept("chat", "d"), accept("a quiet chat", "d")]
        loop.run_until_complete(quiet())
        self.canceled.cancel()

    async def _begin(self) -> Scheduler[str, str]:
        return Scheduler(self.agent)

    def ends(self) -> list[tuple[str, str | None] | None]:
        outcomes = [it.run.ended for it in (self.active, self.canceled, self.waiting)]
        return [None if it is None else (it.status, it.cause) for it in outcomes]


class KeepsToItself(asyncio.SelectorEventLoop):
    """A loop that may not tell which thread it runs in, as others than asyncio's own do not."""

    silent = False
    _own: int | None = None

    @property
    def _thread_id(self) -> int | None:
        if self.silent:
            raise AttributeError
        return self._own

    @_thread_id.setter
    def _thread_id(self, thread: int | None) -> None:
        self._own = thread


@pytest.mark.contract("R4")
def test_on_a_loop_that_does_not_tell_its_thread_all_is_as_on_any_other() -> None:
    loop = KeepsToItself()

    async def main() -> None:
        agent = Agent()
        agent.finish("a", "b")
        loop.silent = True
        async with Scheduler(agent) as scheduler:
            handle = scheduler.submit("chat", "a")
            loop.silent = False  # asyncio itself asks, too
            assert not scheduler._driver.orders, "it was performed at once"
            afar = elsewhere(lambda: scheduler.submit("other", "b"))
            assert scheduler._driver.orders, "that is for the loop to do"
            assert await ends(handle, afar) == [COMPLETED] * 2

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())


class ClosesUnderway(asyncio.SelectorEventLoop):
    """A loop that closes in the very moment in which another thread wants something of it."""

    armed = False

    def call_soon_threadsafe(self, *args: object, **how: object) -> asyncio.Handle:
        if self.armed:
            self.close()
        return super().call_soon_threadsafe(*args, **how)  # type: ignore[arg-type]


@pytest.fixture
def gone() -> Iterator[Gone]:
    loop = ClosesUnderway()
    # What is torn down with the loop is not what these tests are about.
    loop.set_exception_handler(lambda *_: None)
    gone = Gone(loop)
    yield gone
    for ticket in gone.tickets:
        ticket.close()
    loop.close()
    gc.collect()


#: Every run that was in flight ends, and the one that was canceled ends CANCELED.
WRITTEN_OFF = [("suspended", "external"), INTERRUPTED, SHUTDOWN]


def test_a_call_between_two_runs_of_the_loop_is_performed_by_the_next(gone: Gone) -> None:
    async def later() -> None:
        gone.agent.finish("e")
        assert await handle == "e done"
        await gone.scheduler.close()

    handle = gone.scheduler.submit("a third chat", "e")
    assert handle.state is RunState.ACTIVE
    gone.loop.run_until_complete(later())


@pytest.mark.contract("P1")
def test_a_drop_between_two_runs_of_the_loop_is_recorded_by_the_next() -> None:
    async def begin() -> RunHandle[str, str]:
        scheduler.append(Scheduler(Agent(), on_dropped=record))
        scheduler[0].submit("chat", "a")
        return scheduler[0].submit("chat", "b")

    async def record(run: Run[str]) -> None:
        recorded.append(run.prompt)

    scheduler: list[Scheduler[str, str]] = []
    recorded: list[str] = []
    loop = asyncio.new_event_loop()
    dropped = loop.run_until_complete(begin())
    dropped.cancel()
    loop.run_until_complete(scheduler[0].close())
    assert recorded == ["b"]
    loop.close()


@pytest.mark.contract("A4", "S5")
def test_after_the_loop_has_closed_prompts_are_refused(gone: Gone) -> None:
    gone.loop.close()
    for take in (gone.scheduler.submit, gone.scheduler.accept):
        with pytest.raises(SchedulerClosed, match="its event loop is closed") as refused:
            take("a third chat", "e", run_id="r-17")
        assert (refused.value.session_id, refused.value.run_id) == ("a third chat", "r-17")


@pytest.mark.contract("S5", "T1")
@pytest.mark.parametrize("call", ["cancel", "cancel_all"])
def test_after_the_loop_has_closed_a_cancel_still_ends_everything(gone: Gone, call: str) -> None:
    gone.loop.close()
    receipt = gone.scheduler.cancel_all() if call == "cancel_all" else gone.waiting.cancel()
    assert receipt
    assert None not in gone.ends()
    for handle in (gone.active, gone.canceled, gone.waiting):
        outcome = handle.run.ended
        assert outcome is not None
        assert outcome.accepted_at <= outcome.ended_at <= gone.loop.time()
    assert len(gone.scheduler._driver.table.outbox) == 0
    assert len(gone.scheduler.snapshot().sessions) == 0
    assert not gone.scheduler.cancel("chat")


@pytest.mark.contract("R4", "S5")
def test_a_prompt_in_whose_submit_the_loop_closes_is_ended(gone: Gone) -> None:
    assert isinstance(gone.loop, ClosesUnderway)
    gone.loop.armed = True
    gone.scheduler._driver._awake = False  # as if nobody had woken the loop before
    late = elsewhere(lambda: gone.scheduler.submit("a third chat", "e"))
    assert late.run.ended is not None
    assert not late.run.ended.started
    assert gone.ends() == WRITTEN_OFF
    assert not late.run.emit("too late")


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_ticket_that_is_lost_with_the_loop_is_no_error(gone: Gone, when: str) -> None:
    assert isinstance(gone.loop, ClosesUnderway)
    if when == "before":
        gone.loop.close()
    gone.loop.armed = True
    with pytest.warns(ResourceWarning, match="unclosed <Ticket"):
        elsewhere(gone.tickets.clear)
    assert gone.loop.is_closed()


@pytest.mark.contract("R4")
@pytest.mark.real_loop
async def test_what_another_thread_submits_in_one_go_wakes_the_loop_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, wakes, loop = Agent(), [], asyncio.get_running_loop()
    right = loop.call_soon_threadsafe

    def noting(*call: Any, **options: Any) -> asyncio.Handle:
        wakes.append(call)
        return right(*call, **options)

    monkeypatch.setattr(loop, "call_soon_threadsafe", noting)
    async with Scheduler(agent) as scheduler:
        for burst in ("a", "b"):
            submit = partial(scheduler.submit, prompt=burst)
            handles = elsewhere(lambda: [submit(f"chat-{it}") for it in range(10)])  # noqa: B023
            agent.finish(burst)
            assert await ends(*handles) == [COMPLETED] * 10
    assert len(wakes) == 2
