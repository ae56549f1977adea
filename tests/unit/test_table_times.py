"""When it happened: whatever a call leads to has the time that the call was told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driving import Driver

from sessionsched import Effect, How, Limits, Run, Scope, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Callable


class Dated(Driver):
    """Notes for each effect what time it carries."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.dated: list[tuple[Effect, str, float]] = []

    def perform(self, effect: Effect, run: Run[Any], at: float) -> None:
        self.dated.append((effect, run.prompt, at))


A, Q, S, F, I, D, E = (
    Effect.ACCEPTED, Effect.QUEUED, Effect.START, Effect.FOLDED, Effect.INTERRUPT, Effect.DROP,
    Effect.END,
)  # fmt: skip

Call = tuple[str, "Callable[[Dated], Callable[[], object]]", list[tuple[Effect, str]]]


def _accept(driver: Dated) -> Callable[[], object]:
    driver.submit("chat", "a")
    return lambda: driver.submit("chat", "b")


def _accept_at_once(driver: Dated) -> Callable[[], object]:
    return lambda: driver.submit("chat", "a")


def _accept_instead(driver: Dated) -> Callable[[], object]:
    driver.submit_each("chat", "a", "b")
    return lambda: driver.submit("chat", "c", when_busy=WhenBusy.INTERRUPT)


def _ready(driver: Dated) -> Callable[[], object]:
    run = driver.submit("chat", "a", ready=False)
    return lambda: driver.ready(run)


def _ready_behind(driver: Dated) -> Callable[[], object]:
    driver.submit("chat", "a")
    run = driver.submit("chat", "b", ready=False)
    return lambda: driver.ready(run)


def _withdraw(driver: Dated) -> Callable[[], object]:
    run = driver.submit("chat", "a", ready=False)
    return lambda: driver.withdraw(run)


def _cancel(driver: Dated) -> Callable[[], object]:
    driver.submit_each("chat", "a", "b")
    return lambda: driver.cancel("chat")


def _cancel_run(driver: Dated) -> Callable[[], object]:
    _, run = driver.submit_each("chat", "a", "b")
    return lambda: driver.cancel_run(run)


def _cancel_all(driver: Dated) -> Callable[[], object]:
    driver.submit_each("chat", "a", "b")
    return lambda: driver._after(driver.table.cancel_all(driver.tick()))


def _close(driver: Dated) -> Callable[[], object]:
    driver.submit_each("chat", "a", "b")
    return driver.close


def _suspend(driver: Dated) -> Callable[[], object]:
    driver.submit_each("chat", "a", "b")
    return driver.suspend_active


def _fold(driver: Dated) -> Callable[[], object]:
    taker = driver.submit("chat", "a")
    driver.submit("chat", "b", when_busy=WhenBusy.FOLD)
    return lambda: driver.fold(taker)


def _finish(driver: Dated) -> Callable[[], object]:
    _fold(driver)()
    active = driver.table.session("chat").active
    assert active is not None
    driver.submit("chat", "c")
    return lambda: driver.finish(active)


def _finish_for_another(driver: Dated) -> Callable[[], object]:
    run = driver.submit("chat", "a")
    driver.submit("other", "b")
    return lambda: driver.finish(run, How.RAISED)


def _settle(driver: Dated) -> Callable[[], object]:
    run = driver.submit("chat", "a", ready=False)
    driver.submit("chat", "b")
    driver.cancel_run(run)
    return lambda: driver.settle(run)


def _resume(driver: Dated) -> Callable[[], object]:
    run = driver.submit("chat", "a")
    driver.submit("chat", "b")
    driver.hold()
    driver.finish(run)
    return driver.resume


def _promote(driver: Dated) -> Callable[[], object]:
    driver.submit("chat", "a", ready=False)
    run = driver.submit("chat", "b")
    return lambda: driver.promote(run)


CALLS: list[Call] = [
    ("accept", _accept, [(A, "b"), (Q, "b")]),
    ("accept, idle", _accept_at_once, [(A, "a"), (S, "a")]),
    ("accept, interrupting", _accept_instead, [(I, "a"), (D, "b"), (A, "c"), (Q, "c")]),
    ("ready", _ready, [(S, "a")]),
    ("ready, behind another", _ready_behind, [(Q, "b")]),
    ("withdraw", _withdraw, [(D, "a")]),
    ("cancel", _cancel, [(I, "a"), (D, "b")]),
    ("cancel one run", _cancel_run, [(D, "b")]),
    ("cancel all", _cancel_all, [(I, "a"), (D, "b")]),
    ("close", _close, [(D, "b")]),
    ("suspend what is active", _suspend, [(I, "a")]),
    ("fold", _fold, [(F, "b")]),
    ("finish", _finish, [(E, "a"), (E, "b"), (S, "c")]),
    ("finish, slot for another", _finish_for_another, [(E, "a"), (S, "b")]),
    ("settle", _settle, [(E, "a"), (S, "b")]),
    ("resume", _resume, [(S, "b")]),
    ("promote", _promote, [(S, "b")]),
]


@pytest.mark.parametrize(("name", "scene", "effects"), CALLS, ids=[name for name, *_ in CALLS])
def test_every_effect_has_the_time_of_the_call_that_led_to_it(
    name: str, scene: Callable[[Dated], Callable[[], object]], effects: list[tuple[Effect, str]]
) -> None:
    driver = Dated(Limits(max_active=1))
    call = scene(driver)
    driver.dated.clear()
    call()
    assert driver.dated == [(*effect, driver.now) for effect in effects], name


def test_a_run_knows_when_it_was_accepted_and_when_it_started() -> None:
    driver = Dated()
    first, second = driver.submit_each("chat", "a", "b")
    assert (first.accepted_at, first.started_at) == (1, 1)
    assert (second.accepted_at, second.started_at) == (2, None)
    driver.cancel(scope=Scope.ACTIVE)
    driver.finish(first, How.STOPPED)
    assert (second.accepted_at, second.started_at) == (2, 4)
