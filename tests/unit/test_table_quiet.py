"""While nobody listens, what is only there to be announced is not ordered; later it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driving import Driver

from sessionsched import Effect, Run

if TYPE_CHECKING:
    from collections.abc import Callable


class Telling(Driver):
    """Notes on the run what was performed for it, as every driver does."""

    def __init__(self, *, loud: bool = False) -> None:
        super().__init__()
        self.table.outbox.loud = loud

    def perform(self, effect: Effect, run: Run[Any], at: float) -> None:
        run.seen = effect
        super().perform(effect, run, at)


def test_a_prompt_that_waits_while_nobody_listens_orders_nothing_and_is_seen_to_wait() -> None:
    driver = Telling()
    driver.submit("chat", "a")
    assert driver.news() == [("start", 1)]
    run = driver.submit("chat", "b")
    assert (driver.news(), run.seen) == ([], Effect.QUEUED)


@pytest.mark.contract("T3")
def test_what_nobody_has_room_for_is_counted_and_not_ordered() -> None:
    driver = Telling(loud=True)
    outbox = driver.table.outbox
    outbox.deaf = True

    def counted() -> tuple[int, bool]:
        """Look, which counts one more."""
        return next(outbox.tally), outbox.counted

    driver.submit("chat", "a")
    assert (driver.news(), counted()) == ([("start", 1)], (1, True))
    run = driver.submit("chat", "b")
    assert (driver.news(), counted()) == ([], (4, True))  # accepted, queued, and the look above
    assert run.seen is Effect.QUEUED
    outbox.counted = False
    run = driver.submit("chat", "c", ready=False)
    assert (driver.news(), counted(), run.seen) == ([], (6, True), Effect.ACCEPTED)


def test_that_a_run_waits_is_not_counted_before_that_it_was_accepted_is_known() -> None:
    """All mailboxes have become full just after its ACCEPTED was ordered."""
    driver = Telling(loud=True)
    table = driver.table
    driver.submit("chat", "a")
    driver.news()
    append = table.outbox.append

    def fill_up(order: Any) -> None:
        append(order)
        table.outbox.deaf = True

    table.outbox.append = fill_up
    run = table.accept(Run("chat", "b"), 9.0, ready=True)
    assert run.seen is None
    table.drain(driver.perform)
    assert driver.news() == [("accepted", 2), ("queued", 2)]


def test_a_run_whose_accept_was_performed_meanwhile_is_announced_to_be_queued() -> None:
    """By another thread, which needs no lock of the session."""
    driver = Telling(loud=True)
    table = driver.table
    driver.submit("chat", "a")
    driver.news()
    append = table.outbox.append

    def perform_at_once(order: Any) -> None:
        append(order)
        table.drain(driver.perform)

    table.outbox.append = perform_at_once
    table.accept(Run("chat", "b"), 9.0, ready=True)
    assert driver.news() == [("accepted", 2), ("queued", 2)]


def test_a_drain_performs_no_more_than_it_is_asked_to_and_says_whether_that_was_all() -> None:
    driver = Telling(loud=True)
    driver.table.accept(Run("chat", "a"), 0.0)
    assert driver.table.drain(driver.perform, 1)
    assert driver.news() == [("accepted", 1)]
    assert not driver.table.drain(driver.perform, 2)
    assert driver.news() == [("start", 1)]


def test_a_prompt_is_announced_as_long_as_somebody_listens() -> None:
    driver = Telling(loud=True)
    driver.submit("chat", "a")
    run = driver.submit("chat", "b", ready=False)
    assert driver.news() == [("accepted", 1), ("start", 1), ("accepted", 2)]
    driver.ready(run)
    assert driver.news() == [("queued", 2)]
    assert run.seen is Effect.QUEUED


def rare(run: Run[str]) -> Run[str]:
    """A run with terms of its own: its driver does something when it is accepted and queued."""
    run.own.terms = "of its own"
    return run


def test_a_run_with_terms_of_its_own_is_announced_to_its_driver_although_nobody_listens() -> None:
    driver = Telling()
    driver.submit("chat", "a")
    driver.news()
    run = driver.take_in(rare(Run("chat", "b")), ready=False)
    assert driver.news() == [("accepted", 2)]
    driver.ready(run)
    assert driver.news() == [("queued", 2)]


def test_a_run_that_became_rare_while_it_was_prepared_is_announced_when_it_is_ready() -> None:
    driver = Telling()
    driver.submit("chat", "a")
    run = driver.submit("chat", "b", ready=False)
    driver.promote(run)
    driver.news()
    driver.ready(run)
    assert driver.news() == [("queued", 2)]


@pytest.mark.parametrize("become", [lambda _: None, rare])
def test_that_a_run_waits_is_not_known_before_that_it_was_accepted(
    become: Callable[[Run[str]], object],
) -> None:
    driver = Telling(loud=True)
    table = driver.table
    driver.submit("chat", "a")
    driver.news()
    run = table.accept(Run("chat", "b"), 9.0, ready=False)
    become(run)
    table.outbox.loud = False  # whoever listened has left, and the order is still on its way
    table.ready(run, 9.0)
    assert run.seen is None
    table.drain(driver.perform)
    assert driver.news() == [("accepted", 2), ("queued", 2)]


@pytest.mark.contract("T3")
def test_whoever_counts_that_a_run_waits_says_so_once_more() -> None:
    """Somebody looks between the two."""
    driver = Telling(loud=True)
    outbox = driver.table.outbox
    outbox.deaf = True
    driver.submit("chat", "a")

    class Looking:
        """A tally, and whether what was counted before was noticed just then."""

        def __next__(self) -> int:
            outbox.counted = False
            return 0

    outbox.tally = Looking()  # type: ignore[assignment,misc]
    driver.submit("chat", "b")
    assert outbox.counted
