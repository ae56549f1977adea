"""Where asyncio bites a scheduler, 13: calls after its loop has closed, or while it does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import pytest
from agents import Agent, quiet
from attrs import define

from sessionsched import Scheduler, SchedulerClosed, Status, WhenBusy, WrongLoop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from sessionsched import Run, RunHandle, Ticket

AnswerT = TypeVar("AnswerT")


def in_a_thread(call: Callable[[], AnswerT]) -> AnswerT:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(timeout=60)


@define
class Closed:
    """A scheduler with a run in every place, on a loop that has closed or is about to."""

    scheduler: Scheduler[str, str]
    active: RunHandle[str, str]
    waiting: RunHandle[str, str]
    ticket: Ticket[str, str]

    @property
    def runs(self) -> list[Run[str]]:
        return [self.active.run, self.waiting.run, self.ticket.run]


CALLS: Final[dict[str, Callable[[Closed], object]]] = {
    "submit": lambda it: it.scheduler.submit("chat", "late"),
    "submit elsewhere": lambda it: it.scheduler.submit("another chat", "late"),
    "interrupt": lambda it: it.scheduler.submit("chat", "late", when_busy=WhenBusy.INTERRUPT),
    "accept": lambda it: it.scheduler.accept("chat", "late").close(),
    "cancel": lambda it: it.scheduler.cancel("chat"),
    "cancel one": lambda it: it.scheduler.cancel_run(it.active.run_id),
    "cancel all": lambda it: it.scheduler.cancel_all(),
    "pause": lambda it: it.scheduler.pause("chat"),
    "resume": lambda it: it.scheduler.pause("chat") and it.scheduler.resume("chat"),
    "waiting": lambda it: it.scheduler.waiting("chat"),
    "session": lambda it: it.scheduler.session("chat"),
    "snapshot": lambda it: it.scheduler.snapshot(),
    "explain": lambda it: it.scheduler.explain(it.waiting.run_id),
    "handle.cancel": lambda it: it.waiting.cancel(),
    "handle.promote": lambda it: it.waiting.promote(),
    "handle.replace": lambda it: it.waiting.replace("other"),
    "ticket.ready": lambda it: it.ticket.ready(),
    "ticket.close": lambda it: it.ticket.close(),
    "emit": lambda it: it.active.run.emit("progress"),
    "take_follow_ups": lambda it: it.active.run.take_follow_ups(),
}


class ClosesInBetween(asyncio.SelectorEventLoop):
    """A loop that closes after somebody found it open, and before it is told something."""

    armed = False

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        if self.armed:
            self.close()
        return super().call_soon_threadsafe(*args, **options)


@pytest.fixture
def loop() -> Iterator[ClosesInBetween]:
    loop = ClosesInBetween()
    loop.set_exception_handler(lambda *_: None)  # it will be closed while tasks are pending
    yield loop
    loop.close()
    for task in asyncio.all_tasks(loop):  # else the garbage collector does this, at any time
        cast("Coroutine[Any, Any, Any]", task.get_coro()).close()


@pytest.fixture
def closed(loop: ClosesInBetween) -> Iterator[Closed]:
    async def read() -> None:
        async with scheduler.subscribe() as events:
            async for _ in events:
                pass

    async def open_it() -> Closed:
        active, waiting = (scheduler.submit("chat", prompt) for prompt in "ab")
        return Closed(scheduler, active, waiting, scheduler.accept("chat", "c"))

    async def make() -> Scheduler[str, str]:
        return Scheduler(Agent())

    scheduler = loop.run_until_complete(make())
    reading = loop.create_task(read())
    closed = loop.run_until_complete(open_it())
    loop.run_until_complete(quiet())
    assert not reading.done()
    yield closed
    loop.close()
    scheduler.cancel_all()


def called(call: Callable[[Closed], object], closed: Closed) -> None:
    """Nothing but a refusal may come out of it; and whatever was accepted gets its end."""
    with contextlib.suppress(SchedulerClosed):
        call(closed)
    with pytest.raises(SchedulerClosed):
        closed.scheduler.submit("chat", "later still")
    closed.scheduler.cancel_all()
    assert all(run.ended is not None for run in closed.runs)
    assert closed.scheduler.snapshot().sessions == ()


@pytest.mark.contract("R4", "S5", "T1")
@pytest.mark.parametrize("where", ["here", "in a thread"])
@pytest.mark.parametrize("name", CALLS)
def test_pitfall_13_a_call_after_the_loop_closed_is_refused_or_counts_as_before(
    name: str, where: str, loop: ClosesInBetween, closed: Closed
) -> None:
    loop.close()
    if where == "here":
        called(CALLS[name], closed)
    else:
        in_a_thread(lambda: called(CALLS[name], closed))


@pytest.mark.contract("R4", "S5", "T1")
@pytest.mark.parametrize("name", CALLS)
def test_pitfall_13_a_call_in_whose_middle_the_loop_closes_is_refused_or_counts_as_before(
    name: str, loop: ClosesInBetween, closed: Closed
) -> None:
    def call() -> None:
        with contextlib.suppress(SchedulerClosed):
            CALLS[name](closed)
        loop.close()
        called(lambda _: None, closed)

    loop.armed = True
    in_a_thread(call)


@pytest.mark.contract("S5", "T1")
def test_pitfall_13_a_prompt_in_whose_submit_the_loop_closes_ends_without_having_started(
    loop: ClosesInBetween, closed: Closed
) -> None:
    loop.armed = True
    late = in_a_thread(lambda: closed.scheduler.submit("another chat", "late"))
    outcomes = [it.ended for it in (*closed.runs, late.run)]
    assert [it and it.status for it in outcomes] == [Status.SUSPENDED] * 4
    assert [it and it.started for it in outcomes] == [True, False, False, False]


def test_pitfall_13_a_ticket_that_is_lost_while_the_loop_closes_waits_for_no_lock(
    loop: ClosesInBetween, closed: Closed
) -> None:
    loop.armed = True
    # The garbage collector comes at any time: also to a thread that holds this lock.
    lose = threading.Thread(target=closed.ticket.handle.driver.forsaken, args=[closed.ticket.run])
    with closed.scheduler._driver.table._sessions["chat"].lock:
        lose.start()
        lose.join(60)
        waits = lose.is_alive()
    lose.join()
    assert not waits


@pytest.mark.contract("R4", "S5")
@pytest.mark.parametrize("inside", [True, False], ids=["async with", "bare"])
@pytest.mark.parametrize("name", CALLS)
def test_pitfall_13_a_call_after_asyncio_run_is_refused_or_counts_as_before(
    name: str, *, inside: bool
) -> None:
    made: list[Closed] = []

    async def main() -> None:
        scheduler = Scheduler(Agent())
        async with scheduler if inside else contextlib.nullcontext():
            active, ticket = scheduler.submit("chat", "a"), scheduler.accept("chat", "b")
            made.append(Closed(scheduler, active, ticket.handle, ticket))
            await quiet()

    asyncio.run(main())
    called(CALLS[name], made[0])


WAITS: Final[dict[str, Callable[[Closed], Awaitable[object]]]] = {
    "open": lambda it: it.scheduler.__aenter__(),
    "close": lambda it: it.scheduler.close(),
    "turn": lambda it: it.scheduler.turn("chat", "late").__aenter__(),
    "subscribe": lambda it: it.scheduler.subscribe().__aenter__(),
    "outcome": lambda it: it.active.outcome(),
}


@pytest.mark.parametrize("name", WAITS)
def test_pitfall_13_nobody_waits_on_another_loop_for_what_the_closed_one_will_never_do(
    name: str, loop: ClosesInBetween, closed: Closed
) -> None:
    async def wait() -> None:
        await WAITS[name](closed)

    loop.close()
    with pytest.raises((WrongLoop, SchedulerClosed)):
        asyncio.run(wait())


@pytest.mark.contract("S8", "T1")
def test_pitfall_13_a_block_that_is_thrown_away_with_its_loop_ends_without_a_stray_error(
    loop: ClosesInBetween,
) -> None:
    handles: list[RunHandle[str, str]] = []

    async def host() -> None:
        async with Scheduler(Agent()) as scheduler:
            handles.extend(scheduler.submit("chat", prompt) for prompt in "ab")
            await asyncio.Event().wait()

    body = host()
    task = loop.create_task(body)
    loop.run_until_complete(quiet())
    loop.close()
    assert not task.done()
    body.close()  # as the garbage collector does
    assert [it.run.ended and it.run.ended.status for it in handles] == [Status.SUSPENDED] * 2
