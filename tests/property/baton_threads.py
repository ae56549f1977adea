"""What races with what in a ThreadScheduler: stories for the baton."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from baton_world import story

from sessionsched import Limits, WhenBusy
from sessionsched.errors import RunNotCompleted
from sessionsched.events import RunAccepted, RunEnded, RunProgress, RunQueued, RunStarted
from sessionsched.model import Cause, Scope, Status
from sessionsched.threads.timers import Timers

if TYPE_CHECKING:
    from baton_world import Body, World

    from sessionsched import ThreadRun
    from sessionsched.testing.baton import Story

#: Lines in these are points.
FILES: Final = tuple(
    f"sessionsched/{name}.py"
    for name in (
        "table", "outbox", "driver", "stopping", "closing", "hooks", "waits", "events", "handle",
        "threads/driver", "threads/run", "threads/handle", "threads/turn", "threads/pool",
        "threads/timers", "threads/subscription",
    )
)  # fmt: skip


def the_end_and_who_waits_for_it(world: World) -> list[Body]:
    handle = world.submit()
    return [partial(world.outcome, handle)]


def the_end_and_who_waits_for_so_long(world: World) -> list[Body]:
    begun = world.threading.Event()
    handle = world.submit(lambda _: (begun.set(), world.baton.sleep(1.0)))

    def wait() -> None:
        begun.wait()
        try:
            world.outcome(handle, 1.0)
        except TimeoutError:
            world.outcome(handle)

    return [wait]


def submit_and_cancel(world: World) -> list[Body]:
    return [world.submits(), lambda: world.scheduler.cancel("s")]


def submit_and_close(world: World) -> list[Body]:
    return [world.submits(), world.close]


def cancel_and_the_first_step(world: World) -> list[Body]:
    world.submit()
    return [lambda: world.scheduler.cancel("s")]


def a_callback_and_the_cancel(world: World) -> list[Body]:
    called: list[bool] = []

    begun = world.threading.Event()

    def handle(run: ThreadRun[Any]) -> None:
        begun.set()
        run.on_cancel(lambda: called.append(run.canceled))
        assert run.wait_canceled()

    submitted = world.submit(handle)

    def look() -> None:
        assert called == [True] * len(world.handled), f"called {called}"
        assert submitted.run.ended.status is Status.CANCELED

    world.look = look
    return [lambda: (begun.wait(), world.scheduler.cancel("s"))]


def a_hook_and_its_timeout(world: World) -> list[Body]:
    reports: list[Any] = []
    right = world.driver._drop_recorded

    def record(run: Any, error: BaseException | None, stopped: object) -> None:
        reports.append(run)
        right(run, error, stopped)

    world.driver._drop_recorded = record  # type: ignore[method-assign,assignment]
    world.drop_s = 1.0
    ticket = world.scheduler.accept("s", "hello")
    world.handles.append(ticket.handle)

    def look() -> None:
        assert reports == world.dropped == [ticket.run], f"reports: {reports}"

    world.look = look
    return [lambda: (ticket.close(), world.outcome(ticket.handle), world.baton.sleep(2))]


def abandon_and_the_end(world: World) -> list[Body]:
    begun = world.threading.Event()

    def handle(run: ThreadRun[Any]) -> None:
        begun.set()
        run.wait_canceled()
        for _ in range(2):  # so that the timer comes first, a second after the cancel
            world.baton.sleep(0.5)

    first = world.submit(handle)

    def cancel() -> None:
        begun.wait()
        world.scheduler.cancel("s")
        world.outcome(first)
        world.outcome(world.submit())
        world.baton.sleep(2.0)

    return [cancel]


def a_cancel_and_a_thread_that_comes_late(world: World) -> list[Body]:
    late: list[Body] = []
    world.driver.handlers.call = late.append  # type: ignore[method-assign,assignment]
    handle = world.submit()

    def cancel() -> None:
        world.scheduler.cancel("s")
        world.baton.sleep(5.0)  # longer than it takes to abandon a handler
        late.pop()()

    def look() -> None:
        outcome = handle.run.ended
        assert (outcome.started, outcome.abandoned) == (False, False), f"{outcome}"

    world.look = look
    return [cancel]


def stuck_and_the_end(world: World) -> list[Body]:
    begun = world.threading.Event()

    def handle(run: ThreadRun[Any]) -> None:
        begun.set()
        run.wait_canceled()
        for _ in range(2):  # so that the timer comes first, a second after the cancel
            world.baton.sleep(0.5)

    world.submit(handle)
    subscription = world.scheduler.subscribe()
    subscription.__enter__()

    def cancel() -> None:
        begun.wait()
        world.scheduler.cancel("s")
        world.outcome(world.handles[0])
        world.close()

    def look() -> None:
        kinds = [type(event) for event in subscription]
        assert kinds[-1] is RunEnded, f"{kinds}"

    world.look = look
    return [cancel]


def a_turn_and_who_gives_it_up(world: World) -> list[Body]:
    world.submit()
    turn = world.scheduler.turn("s", "turn")
    run = turn._run
    world.handles.append(run)

    def give_up() -> None:
        run.host = world.threading.get_ident()
        world.driver.accept(run, ready=True)
        turn._give_up(run)

    def look() -> None:
        assert world.dropped == [run], f"{world.dropped}"

    world.look = look
    return [give_up, world.submits()]


def a_turn_and_a_cancel(world: World) -> list[Body]:
    world.submit()

    def take() -> None:
        try:
            with world.scheduler.turn("s", "turn") as run:
                world.handles.append(run)
                world.handled.append(run)
        except RunNotCompleted as error:
            world.seen.append(error)

    return [take, lambda: world.scheduler.cancel("s")]


def subscribe_and_publish(world: World) -> list[Body]:
    events: list[Any] = []
    there = world.threading.Event()

    def read() -> None:
        with world.scheduler.subscribe("s") as them:
            there.set()
            events.extend(them)

    def submit() -> None:
        world.submit(lambda run: run.emit(1))
        there.wait()
        world.close(10.0)

    def look() -> None:
        numbers = [event.number for event in events]
        assert numbers == sorted(set(numbers)), f"{numbers}"
        kinds = [type(event) for event in events]
        whole = [RunAccepted, RunStarted, RunProgress, RunEnded]
        before = [RunQueued, *whole[1:]]  # its start was decided, and not yet told
        late = [RunStarted, RunEnded]  # it was told after the progress
        assert kinds in (whole, before, whole[1:], late, []), f"{kinds}"

    world.look = look
    return [read, submit]


def subscribe_to_one_run(world: World) -> list[Body]:
    handle = world.submit(run_id="named")
    kinds: list[type] = []

    def read() -> None:
        with world.scheduler.subscribe(run_id="named") as events:
            kinds.extend(type(event) for event in events)

    def look() -> None:
        whole = [RunAccepted, RunStarted, RunEnded]
        assert kinds in (whole, whole[1:], whole[2:]), f"{kinds} of {handle}"

    world.look = look
    return [read]


def two_closers(world: World) -> list[Body]:
    def look() -> None:
        one, two = world.seen
        assert one is two, "there were two closes (S6)"

    world.look = look
    return [partial(world.close, 10.0), partial(world.close, 0.0)]


def two_closers_and_the_last_end(world: World) -> list[Body]:
    world.submit()
    return two_closers(world)


def one_closer_and_two_last_ends(world: World) -> list[Body]:
    world.submit()
    world.submit(session_id="t")
    return [partial(world.close, 10.0)]


def a_slot_for_another_session(world: World) -> list[Body]:
    one = world.submit()
    return [world.submits(session_id="t"), partial(world.outcome, one)]


def ready_close_and_cancel(world: World) -> list[Body]:
    ticket = world.scheduler.accept("s", "hello")
    world.handles.append(ticket.handle)
    bodies = [ticket.ready, ticket.close, ticket.handle.cancel]
    world.seen.append(ticket)  # keeps it from being collected
    return bodies


def two_that_are_prepared(world: World) -> list[Body]:
    return [
        lambda: world.outcome(world.submit()),
        lambda: world.outcome(world.submit(session_id="t")),
    ]


def prepared_and_canceled(world: World) -> list[Body]:
    world.submit()
    return [lambda: world.scheduler.cancel("s"), world.submits(session_id="t")]


def waiting_inside_of_runs(world: World) -> list[Body]:
    other, here = world.threading.Event(), world.threading.Event()

    def wait(_: object) -> None:
        other.wait()
        here.set()
        world.outcome(last)

    world.submit(wait)
    last = world.submit(lambda _: (other.set(), here.wait()), session_id="t")
    return [partial(world.outcome, last)]


def a_deadline_and_the_end(world: World) -> list[Body]:
    handle = world.submit(lambda _: world.baton.sleep(1.0), deadline=1.0)
    return [lambda: (world.outcome(handle), world.baton.sleep(3.0))]


def an_expiry_and_the_start(world: World) -> list[Body]:
    world.submit(lambda _: world.baton.sleep(1.0))
    second = world.submit(wait_at_most=1.0)

    def look() -> None:
        assert second.run.ended.cause in (None, Cause.EXPIRED)

    world.look = look
    return [lambda: (world.outcome(second), world.baton.sleep(3.0))]


def fold_and_the_cancel(world: World) -> list[Body]:
    taken: list[Any] = []
    world.submit(lambda run: taken.extend(run.take_follow_ups()))
    follow = world.submit(when_busy=WhenBusy.FOLD)
    world.handles.remove(follow)

    def look() -> None:
        run: Any = follow.run
        assert (run in taken) + (run in world.dropped) + (run in world.handled) == 1
        assert run.announced

    world.look = look
    return [lambda: world.scheduler.cancel("s", scope=Scope.WAITING)]


def timers_come_and_go(world: World) -> list[Body]:
    timers = Timers()

    def use() -> None:
        for _ in range(2):
            called = world.threading.Event()
            timers.call_at(world.baton.now, called.set)
            assert called.wait()

    def drop() -> None:
        timers.call_at(world.baton.now + 1, bool).cancel()

    world.look = timers.close
    return [use, drop]


PREPARED: Final = {"prepare": lambda _: None}
STORIES: Final[dict[str, Story]] = {
    **{
        setting.__name__: story(setting)
        for setting in (
            the_end_and_who_waits_for_it, the_end_and_who_waits_for_so_long, submit_and_cancel,
            submit_and_close, cancel_and_the_first_step, a_callback_and_the_cancel,
            a_turn_and_who_gives_it_up, a_turn_and_a_cancel, subscribe_and_publish,
            subscribe_to_one_run, two_closers, two_closers_and_the_last_end,
            one_closer_and_two_last_ends, ready_close_and_cancel, waiting_inside_of_runs,
            a_deadline_and_the_end, an_expiry_and_the_start, fold_and_the_cancel,
            timers_come_and_go, stuck_and_the_end,
        )
    },
    "a_hook_and_its_timeout": story(a_hook_and_its_timeout, settle_timeout=1.0),
    "a_cancel_and_a_thread_that_comes_late": story(
        a_cancel_and_a_thread_that_comes_late, abandon_after=1.0
    ),
    "abandon_and_the_end": story(abandon_and_the_end, abandon_after=1.0),
    "a_slot_for_another_session": story(a_slot_for_another_session, limits=Limits(max_active=1)),
    "two_that_are_prepared": story(two_that_are_prepared, **PREPARED),
    "prepared_and_canceled": story(prepared_and_canceled, **PREPARED),
}  # fmt: skip
