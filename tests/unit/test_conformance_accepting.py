"""Chapter A of the contract, and R4, for both schedulers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from worlds import STUCK_S, WHO, World, both_worlds

from sessionsched import (
    DuplicateRun,
    InvalidOption,
    InvalidSession,
    Limits,
    LineFull,
    Refused,
    RunState,
    SchedulerClosed,
    SessionBusy,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

world = both_worlds

COMPLETED = ("completed", None)
CANCELED = ("canceled", "interrupt")


@pytest.mark.contract("A1")
def test_accepting_waits_for_nothing_though_everybody_is_stuck(world: World) -> None:
    scheduler = world.open(recorded=True, prepared=True)
    world.hold("prepare a", "prepare b", "drop a")
    first = scheduler.submit("chat", "a")
    first.cancel()
    world.finish("prepare a")
    world.wait_log("drop a")  # which does not come back
    later, ticket = scheduler.submit("chat", "b"), scheduler.accept("chat", "c")
    assert [later.state, ticket.run.state] == [RunState.ACCEPTED] * 2
    world.finish("drop a", "prepare b", "b")
    assert world.ends(first, later) == [CANCELED, COMPLETED]
    ticket.close()


@pytest.mark.contract("A2", "R4")
def test_seqs_rise_over_all_sessions_and_threads_and_each_is_given_once(world: World) -> None:
    scheduler = world.open()

    def send(name: str) -> list[Any]:
        return [scheduler.submit(name, f"{name}{n}") for n in range(20)]

    submitters = [world.aside(send, name) for name in "abcd"]
    handles = [submitter.result(STUCK_S) for submitter in submitters]
    for own in handles:
        seqs = [handle.seq for handle in own]
        assert seqs == sorted(seqs)
    every = {handle.seq for own in handles for handle in own}
    assert len(every) == 80
    assert scheduler.submit("e", "last").seq > max(every)


@pytest.mark.contract("A3")
def test_whatever_may_run_has_a_seq_is_visible_and_can_be_canceled(world: World) -> None:
    scheduler = world.open(prepared=True)
    world.hold("prepare c", "prepare e")
    active = world.active("chat", "a")
    host = world.turn("chat", "b")
    ticket = scheduler.accept("chat", "d")
    runs = [active.run, host.run, scheduler.submit("chat", "c").run, ticket.run]
    other = scheduler.submit("other", "e").run
    assert {run.seq for run in [*runs, other]} == {1, 2, 3, 4, 5}
    assert [view.in_flight for view in scheduler.snapshot().sessions] == [
        tuple(sorted(runs, key=lambda run: run.seq)),
        (other,),
    ]
    for run in [*runs, other]:
        found = scheduler.find(run.run_id)
        assert found is not None
        assert found.run is run
        assert scheduler.cancel_run(run.run_id).covered == (run,)
        assert world.ends(found) == [CANCELED]


def _one_too_many(world: World) -> None:
    for prompt in "bcdex":
        world.scheduler.submit("chat", prompt)


REFUSALS: dict[str, tuple[type[Refused], Callable[[World], Any]]] = {
    "a session id that is no string": (InvalidSession, lambda it: it.scheduler.submit(7, "x")),  # type: ignore[arg-type]
    "a blank session id": (InvalidSession, lambda it: it.scheduler.submit("  ", "x")),
    "a ticket for a blank one": (InvalidSession, lambda it: it.scheduler.accept("", "x")),
    "an unknown option": (
        InvalidOption,
        lambda it: it.scheduler.submit("chat", "x", when_busy="hurry"),  # type: ignore[arg-type]
    ),
    "a deadline in the past": (
        InvalidOption,
        lambda it: it.scheduler.submit("chat", "x", deadline=-1.0),
    ),
    "a blank run id": (InvalidOption, lambda it: it.scheduler.submit("chat", "x", run_id=" ")),
    "a full line": (LineFull, _one_too_many),
    "a busy session": (
        SessionBusy,
        lambda it: it.scheduler.submit("chat", "x", when_busy=WhenBusy.REJECT),
    ),
    "a run id in use": (DuplicateRun, lambda it: it.scheduler.submit("chat", "x", run_id="mine")),
    "a turn for a run id in use": (
        DuplicateRun,
        lambda it: _raise(it.turn("chat", "x", run_id="mine").error()),
    ),
    "a turn of a busy session": (
        SessionBusy,
        lambda it: _raise(it.turn("chat", "x", when_busy=WhenBusy.REJECT).error()),
    ),
}


def _raise(error: BaseException | None) -> None:
    assert error is not None
    raise error


@pytest.mark.contract("A4")
@pytest.mark.parametrize("why", REFUSALS)
def test_what_is_refused_leaves_no_trace(world: World, why: str) -> None:
    scheduler = world.open(limits=Limits(max_waiting=4))
    first = world.active("chat", "a", run_id="mine")
    kind, call = REFUSALS[why]
    with pytest.raises(kind):
        call(world)
    before = scheduler.session("chat")
    assert before.active is first.run
    assert [run.prompt for run in before.waiting] in ([], [*"bcde"])
    assert scheduler.find("run-2") is None or before.waiting
    last = scheduler.submit("other", "z")
    assert last.seq == 2 + len(before.waiting)
    world.finish(*"abcdez")
    assert world.ends(first, last) == [COMPLETED] * 2
    world.close()
    assert "x" not in {event.run.prompt for event in world.events.events}


@pytest.mark.contract("A4", "S1")
def test_a_closed_scheduler_refuses_every_way_in(world: World) -> None:
    scheduler = world.open()
    world.close()
    for way in (scheduler.submit, scheduler.accept):
        with pytest.raises(SchedulerClosed):
            way("chat", "x")
    assert isinstance(world.turn("chat", "x").error(), SchedulerClosed)


@pytest.mark.contract("A5")
def test_race_37_a_submit_that_many_threads_retry_runs_once(world: World) -> None:
    scheduler = world.open()
    retries = [
        world.aside(partial(scheduler.submit, "chat", "a", run_id="mine")) for _ in range(16)
    ]
    handles = [retry.result(STUCK_S) for retry in retries]
    assert len(set(handles)) == 1
    world.finish("a")
    assert {world.value(handle) for handle in handles} == {"a done"}
    again = scheduler.submit("chat", "a", run_id="mine", when_busy=WhenBusy.REJECT)
    assert again == handles[0]
    for session_id, prompt in (("chat", "b"), ("other", "a")):
        with pytest.raises(DuplicateRun):
            scheduler.submit(session_id, prompt, run_id="mine")
    assert world.started == ["a"]


@pytest.mark.contract("A5")
def test_only_so_many_ended_runs_are_remembered(world: World) -> None:
    scheduler = world.open(limits=Limits(remembered=1))
    world.finish("a", "b", "c")
    for prompt in "ab":
        world.value(scheduler.submit("chat", prompt, run_id=f"my {prompt}"))
    assert scheduler.find("my a") is None
    assert scheduler.find("my b") is not None
    assert world.value(scheduler.submit("chat", "c", run_id="my a")) == "c done"


@pytest.mark.contract("A5")
def test_race_37_a_retried_accept_does_not_give_back_the_place_of_the_first_one(
    world: World,
) -> None:
    scheduler = world.open()
    ticket = scheduler.accept("chat", "a", run_id="mine")
    with scheduler.accept("chat", "a", run_id="mine") as again:
        assert again.run is ticket.run
    assert ticket.ready()
    world.finish("a")
    assert world.ends(ticket.handle) == [COMPLETED]


@pytest.mark.contract("A6")
def test_whoever_stops_waiting_changes_nothing(world: World) -> None:
    world.open()
    first = world.active("chat", "a")
    second = world.scheduler.submit("chat", "b")
    for handle in (first, second):
        world.give_up(handle)
    assert (first.state, second.state) == (RunState.ACTIVE, RunState.QUEUED)
    world.finish("a", "b")
    assert [world.value(first), world.value(second)] == ["a done", "b done"]


@pytest.mark.contract("A7")
def test_a_handler_and_hooks_see_the_context_of_their_own_submitter(world: World) -> None:
    scheduler = world.open(recorded=True, prepared=True)
    handles = []
    for prompt in "abc":
        token = WHO.set(f"who sent {prompt}")
        handles.append(scheduler.submit("chat", prompt))
        WHO.reset(token)
    world.wait_log("start a", "prepare b over", "prepare c over")
    handles[1].cancel()
    world.finish("a", "c")
    assert world.ends(*handles) == [COMPLETED, CANCELED, COMPLETED]
    assert {entry: who[-1] for entry, who in world.saw.items()} == {
        "prepare a": "a",
        "prepare b": "b",
        "prepare c": "c",
        "start a": "a",
        "drop b": "b",
        "start c": "c",
    }


@pytest.mark.contract("A7")
def test_a_handler_sees_what_its_own_preparation_has_set(world: World) -> None:
    scheduler = world.open(prepared=True)
    world.at_first["prepare a"] = lambda run: WHO.set("the preparation of a")
    world.finish("a", "b")
    handles = [scheduler.submit("chat", prompt) for prompt in "ab"]
    assert world.ends(*handles) == [COMPLETED] * 2
    assert (world.saw["start a"], world.saw["start b"]) == ("the preparation of a", "nobody")
