"""The asyncio scheduler, broken on purpose in one place each: what a simulation must find."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sessionsched import How, Run, RunEnded, RunStarted
from sessionsched.aio import driver as aio_driver
from sessionsched.aio import run as aio_run
from sessionsched.aio.run import AioRun
from sessionsched.aio.subscription import Subscription
from sessionsched.aio.turn import Turn, TurnRun
from sessionsched.driver import Driver
from sessionsched.hooks import Hook
from sessionsched.hub import Hub
from sessionsched.machine import Session
from sessionsched.stopping import Stopping
from sessionsched.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    Patch = pytest.MonkeyPatch


def the_coroutine_has_not_begun_when_its_task_is_canceled(patch: Patch) -> None:
    class Nothing:
        def __await__(self) -> Iterator[None]:
            return iter(())

    def begin(run: AioRun[Any], driver: Any) -> None:
        run.carrier = task = asyncio.Task(run._work(driver), loop=driver.loop, context=run.context)
        aio_run.alive[task] = run

    patch.setattr(aio_run, "_ONE_STEP", Nothing())
    patch.setattr(AioRun, "begin", begin)


def an_interrupt_that_comes_before_the_first_step_is_lost(patch: Patch) -> None:
    right = AioRun.stop

    def stop(run: AioRun[Any]) -> None:
        if run.begun:
            right(run)

    patch.setattr(AioRun, "stop", stop)


def interrupts_overtake_starts(patch: Patch) -> None:
    _later(patch, RunStarted)


def nobody_comes_back_after_the_grace(patch: Patch) -> None:
    patch.setattr(Stopping, "_look_at", lambda *_: None)


def timers_outlive_their_runs(patch: Patch) -> None:
    patch.setattr(Driver, "clear_timer", lambda driver, run: driver.timers.pop(run, None))
    patch.setattr(Stopping, "over", lambda stopping, run: stopping._looks.pop(run, None))


def no_hand_over_after_a_failure(patch: Patch) -> None:
    right = Session.finish

    def finish(session: Any, run: Any, how: How, *rest: Any) -> Any:
        with patch.context() as inside:
            if how is How.RAISED:
                inside.setattr(Session, "_advance", lambda *_: None)
            return right(session, run, how, *rest)

    patch.setattr(Session, "finish", finish)


def the_end_is_told_after_whoever_waits_is_woken(patch: Patch) -> None:
    _later(patch, RunEnded)


def a_drop_is_recorded_while_the_line_moves_on(patch: Patch) -> None:
    right = Driver._drop

    def drop(driver: Any, runs: Any, at: float) -> None:
        right(driver, runs, at)
        driver.table.settle_all(runs, at)

    patch.setattr(Driver, "_drop", drop)


def a_cancel_is_what_the_task_says(patch: Patch) -> None:
    def is_canceled(run: Any, driver: Any, _error: BaseException) -> None:
        if run.begun:
            driver.finish(run, How.STOPPED)
        else:
            driver.skipped(run)

    patch.setattr(AioRun, "_is_canceled", is_canceled)


def what_is_returned_after_a_cancel_is_lost(patch: Patch) -> None:
    right = Table.finish

    def finish(table: Any, run: Any, how: How, now: float, result: Any = None, *error: Any) -> bool:
        return right(table, run, how, now, None if run.canceled else result, *error)

    patch.setattr(Table, "finish", finish)


def a_turn_does_not_take_its_cancel_back(patch: Patch) -> None:
    async def take_back(turn: Any, run: Any, *, stopped: bool) -> bool:
        return stopped

    patch.setattr(Turn, "_take_back", take_back)


def a_turn_is_canceled_after_its_body(patch: Patch) -> None:
    patch.setattr(TurnRun, "going", property(lambda run: run.carrier is not None))
    patch.setattr(TurnRun, "stop", lambda run: run.driver.loop.call_soon(run.host.cancel))


def a_turn_that_was_canceled_on_its_way_in_goes_in(patch: Patch) -> None:
    async def canceled_before(*_: Any) -> None:
        return

    patch.setattr(Turn, "_canceled_before", canceled_before)


def a_full_mailbox_drops_ends(patch: Patch) -> None:
    right = Hub._put_or_miss

    def put_or_miss(hub: Any, box: Any, event: Any) -> None:
        if type(event) is not RunEnded:
            right(hub, box, event)

    patch.setattr(Hub, "_put_or_miss", put_or_miss)


def a_reader_that_waits_is_not_woken_by_the_close(patch: Patch) -> None:
    right = Subscription._wake

    def wake(subscription: Any) -> None:
        if subscription._mailbox.unread:
            right(subscription)

    patch.setattr(Subscription, "_wake", wake)


def a_close_does_not_wait_for_hooks(patch: Patch) -> None:
    patch.setattr(aio_driver.AioDriver, "stragglers", lambda _: ())


def hooks_take_as_long_as_they_like(patch: Patch) -> None:
    patch.setattr(Hook, "limit", lambda *_: None)


def cancels_hit_whoever_is_active_when_they_are_delivered(patch: Patch) -> None:
    """A late cancel: sent to the session's task, not to the run's."""

    def stop(run: Any) -> None:
        def later() -> None:
            active: Run[Any] | None = run.session.active
            carrier = getattr(active, "carrier", None)
            if carrier is not None:
                carrier.cancel()

        run.driver.loop.call_soon(later)

    patch.setattr(AioRun, "stop", stop)


def _later(patch: Patch, late: type[Any]) -> None:
    """Let one kind of event be told a turn of the loop late."""
    right = Hub.publish

    def publish(hub: Any, kind: Any, *about: Any) -> None:
        if kind is late:
            asyncio.get_running_loop().call_soon(right, hub, kind, *about)
        else:
            right(hub, kind, *about)

    patch.setattr(Hub, "publish", publish)


MUTANTS = {
    name: it
    for name, it in list(globals().items())
    if name[0] != "_" and getattr(it, "__module__", "") == __name__
}
