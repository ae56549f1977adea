"""Why a run waits: what explain says, in every state that a run can be in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from driving import Driver

from sessionsched import Explanation, Limits, Run, RunState, WhenBusy, Why
from sessionsched.explain import SAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def why(driver: Driver, run: Run[str]) -> tuple[Why, tuple[str, ...]]:
    it = driver.table.explain(run.run_id)
    assert (it.run_id, it.session_id) == (run.run_id, "chat")
    return it.why, it.behind


# --- one scene for each reason; each gives the run that is asked about, named "me" ---


def me(driver: Driver, *, ready: bool = True) -> Run[str]:
    return driver.submit("chat", "mine", run_id="me", ready=ready)


def nobody(driver: Driver) -> None:
    driver.finish(driver.submit("chat", "ended, and had no name of its own"))


def not_ready(driver: Driver) -> None:
    driver.submit("chat", "a")
    me(driver, ready=False)


def in_line(driver: Driver) -> None:
    driver.submit_each("chat", "a", "b")
    me(driver)


def next_to_an_active_run(driver: Driver) -> None:
    driver.submit("chat", "a")
    me(driver)


def next_to_a_canceled_run(driver: Driver) -> None:
    driver.submit("chat", "a")
    driver.cancel()
    me(driver)


def next_to_a_drop(driver: Driver) -> None:
    driver.submit("chat", "a", ready=False)
    driver.cancel()
    me(driver)


def held(driver: Driver) -> None:
    active = driver.submit("chat", "a")
    me(driver)
    driver.hold()
    driver.finish(active)


def no_slot(driver: Driver) -> None:
    driver.submit("other", "a")
    me(driver)


def brought(state: RunState) -> Callable[[Driver], None]:
    def scene(driver: Driver) -> None:
        driver.bring(state, run_id="me")

    return scene


SCENES: Final[Mapping[Why, tuple[Callable[[Driver], None], tuple[str, ...], str]]] = {
    Why.UNKNOWN: (nobody, (), "no run with this id is in flight, or has ended lately"),
    Why.NOT_READY: (not_ready, (), "its owner still prepares it"),
    Why.IN_LINE: (in_line, ("run-2", "run-1"), "it stands in line behind run-2, run-1"),
    Why.TURN: (next_to_an_active_run, ("run-1",), "it is next, and run-1 is active"),
    Why.UNWINDING: (
        next_to_a_canceled_run,
        ("run-1",),
        "it is next, and run-1 was canceled but has not stopped yet",
    ),
    Why.RECORDING: (
        next_to_a_drop,
        ("run-1",),
        "it is next, and that run-1 was dropped is being recorded",
    ),
    Why.HELD: (held, (), "it is next, and the line is held until somebody resumes it"),
    Why.SLOT: (no_slot, (), "it is next, and as many runs are active as there are slots"),
    Why.ACTIVE: (brought(RunState.ACTIVE), (), "its handler runs"),
    Why.FOLDED: (brought(RunState.FOLDED), ("run-1",), "it is a part of run-1"),
    Why.ENDING: (
        brought(RunState.ENDING),
        (),
        "it was canceled while it waited, and that is being recorded",
    ),
    Why.ENDED: (brought(RunState.ENDED), (), "it has ended"),
}


@pytest.mark.parametrize("reason", list(Why))
def test_each_reason_is_given_where_it_is_true_and_said_in_a_sentence(reason: Why) -> None:
    scene, behind, sentence = SCENES[reason]
    driver = Driver(Limits(max_active=1))
    scene(driver)
    it = driver.table.explain("me")
    assert (it.run_id, it.why, it.behind) == ("me", reason, behind)
    assert str(it) == f"run 'me': {sentence}"


@pytest.mark.parametrize("reason", list(Why))
def test_looking_touches_nothing(reason: Why) -> None:
    driver = Driver(Limits(max_active=1))
    SCENES[reason][0](driver)
    before = driver.facts()
    driver.table.explain("me")
    assert driver.facts() == before


def test_every_reason_has_a_sentence() -> None:
    assert list(SAYS) == list(Why)


# --- since ---


def test_who_waits_does_so_since_it_was_accepted() -> None:
    driver = Driver()
    driver.submit("chat", "a")
    waiting = me(driver)
    driver.tick()
    assert driver.table.explain("me").since == waiting.accepted_at == 2.0


@pytest.mark.parametrize("state", [RunState.ACTIVE, RunState.FOLDED, RunState.ENDED])
def test_who_was_started_is_at_it_since_then(state: RunState) -> None:
    driver = Driver()
    first = driver.submit("chat", "before")  # so that accepting and starting differ
    driver.now = 100.0
    if state is RunState.FOLDED:
        run = driver.submit("chat", "mine", run_id="me", when_busy=WhenBusy.FOLD)
        driver.now = 200.0
        driver.fold(first)
    else:
        run = me(driver)
        driver.now = 200.0
        driver.finish(first)
    if state is RunState.ENDED:
        driver.finish(run)
    assert run.state is state
    assert driver.table.explain("me").since == run.started_at == 201.0


def test_nobody_knows_since_when_an_unknown_run_waits() -> None:
    assert Driver().table.explain("me") == Explanation("me", Why.UNKNOWN)


# --- behind ---


def test_those_before_it_are_named_from_the_nearest_to_the_active_run() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    assert why(driver, d) == (Why.IN_LINE, (c.run_id, b.run_id, a.run_id))
    assert why(driver, c) == (Why.IN_LINE, (b.run_id, a.run_id))
    assert why(driver, b) == (Why.TURN, (a.run_id,))
    assert why(driver, a) == (Why.ACTIVE, ())


def test_the_line_counts_as_it_stands_now_and_not_as_it_was_accepted() -> None:
    driver = Driver()
    a, b, c, d = driver.submit_each("chat", "a", "b", "c", "d")
    driver.promote(d)
    assert why(driver, c) == (Why.IN_LINE, (b.run_id, d.run_id, a.run_id))
    assert why(driver, d) == (Why.TURN, (a.run_id,))
    driver.cancel_run(b)
    assert why(driver, c) == (Why.IN_LINE, (d.run_id, b.run_id, a.run_id)), "b is being recorded"
    driver.settle(b)
    assert why(driver, c) == (Why.IN_LINE, (d.run_id, a.run_id))


def test_a_run_that_is_not_ready_is_stood_behind_without_any_active_run() -> None:
    driver = Driver()
    first = driver.submit("chat", "a", ready=False)
    assert why(driver, me(driver)) == (Why.IN_LINE, (first.run_id,))


def test_all_drops_that_are_being_recorded_are_named_in_their_order() -> None:
    driver = Driver()
    dropped = [driver.submit("chat", prompt, ready=False) for prompt in "ab"]
    driver.cancel()
    run = me(driver)
    assert why(driver, run) == (Why.RECORDING, tuple(it.run_id for it in dropped))
    driver.settle(dropped[0])
    assert why(driver, run) == (Why.RECORDING, (dropped[1].run_id,))


def test_a_held_line_is_no_reason_while_somebody_is_active() -> None:
    driver = Driver()
    active = driver.submit("chat", "a")
    run = me(driver)
    driver.hold()
    assert why(driver, run) == (Why.TURN, (active.run_id,))
    driver.cancel_run(active)
    assert why(driver, run) == (Why.UNWINDING, (active.run_id,))
    driver.finish(active)
    assert why(driver, run) == (Why.HELD, ())
    driver.resume()
    assert why(driver, run) == (Why.ACTIVE, ())


def test_a_canceled_run_whose_handler_has_not_stopped_is_still_active() -> None:
    driver = Driver()
    run = me(driver)
    driver.cancel()
    assert why(driver, run) == (Why.ACTIVE, ())


@pytest.mark.parametrize(
    ("behind", "said"),
    [(("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d"), "a, b, c, ...")],
)
def test_a_sentence_names_the_three_nearest(behind: tuple[str, ...], said: str) -> None:
    it = Explanation("me", Why.IN_LINE, "chat", behind)
    assert str(it) == f"run 'me': it stands in line behind {said}"
