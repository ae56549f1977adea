"""What is said to whoever would wait for itself, and that nothing has changed by then."""

from __future__ import annotations

import pytest

from sessionsched import Limits, Run, RunHandle, RunState, Scheduler, WouldDeadlock
from sessionsched.waits import Waits


class Carried(Run[str]):
    """A run that somebody carries, as those of a driver are; a plain Run is carried by nobody."""

    carrier: str


async def nothing(run: Run[str]) -> None:
    """Do the work of a run that has none."""


async def test_a_turn_behind_its_own_task_is_refused_before_it_is_accepted() -> None:
    async with Scheduler(nothing) as scheduler:
        async with scheduler.turn("chat", "me") as active:
            inner = scheduler.turn("chat", "never")
            with pytest.raises(WouldDeadlock) as caught:
                await inner.__aenter__()
        assert inner._run.state is RunState.NEW
    error = caught.value
    assert (error.session_id, error.run_id) == ("chat", active.run_id)
    assert str(error) == "session 'chat' can't go on before the run that waits here is over"


async def test_a_wait_that_would_hold_the_last_slot_says_what_to_do() -> None:
    async def wait_for_the_other(run: Run[str]) -> None:
        if run.session_id == "mine":
            await handles[1]

    async with Scheduler(wait_for_the_other, limits=Limits(max_active=1)) as scheduler:
        handles: list[RunHandle[str, None]] = [
            scheduler.submit(session_id, "go") for session_id in ("mine", "other")
        ]
        error = (await handles[0].outcome()).error
    assert str(error) == (
        "all 1 slots are held by runs that wait for other runs;"
        " allow more runs to be active, or don't wait inside a run"
    )


def test_a_run_that_waits_for_its_own_turn_when_that_has_come_holds_no_slot_in_vain() -> None:
    waits = Waits(max_active=2)
    mine, theirs, next_one = Carried("a", "mine"), Carried("b", "theirs"), Run("c", "next")
    with waits.wait("me", mine):  # and here its turn comes, before `me` has gone on
        mine.carrier = "me"
        waits.carries(theirs, "it")
        waits.carries(mine, "me")
        with waits.wait("it", next_one):
            pass


def test_a_run_that_nobody_has_carried_may_be_over() -> None:
    Waits(max_active=1).over(Run("a", "mine"))


def test_who_carries_a_run_is_known_until_that_is_over() -> None:
    waits, mine = Waits(max_active=1), Run("a", "mine")
    waits.carries(mine, "me")
    assert (waits.is_carrier("me"), waits.is_carrier("you")) == (True, False)
    waits.over(mine)
    assert not waits.is_carrier("me")
