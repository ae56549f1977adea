"""Those that were told to stop: one queue, one timer, and the right time for everybody."""

from __future__ import annotations

import pytest
from attrs import evolve
from test_driver import Acting, Alarm, Carried

from sessionsched import How
from sessionsched.driven import Terms


class Timed(Acting):
    """Its clock stands still until the test moves it. A grace is 9 seconds."""

    def __init__(self, abandon_s: float | None = None, grace_s: float = 9) -> None:
        super().__init__(abandon_s=0)
        self.options = evolve(self.options, abandon_s=abandon_s, grace_s=grace_s)
        #: Who was told to stop, and when.
        self.told: list[tuple[str, float]] = []

    def now(self) -> float:
        return self.clock

    def cover(self, name: str, at: float) -> Carried:
        """Begin a run in a session of that name, and cancel it."""
        run = Carried(name, name)
        run.told_so = lambda: self.told.append((name, self.clock))
        self.clock = at
        self.accept(run, ready=True)
        run.begun = True
        self.cancel_run(run)
        return run

    def finish_now(self, run: Carried) -> None:
        self.finish(run, How.STOPPED)

    @property
    def live(self) -> list[Alarm]:
        return [alarm for alarm in self.alarms if not alarm.canceled]

    def ring(self, at: float) -> None:
        """Move the clock, and call the timer that is due first."""
        self.clock = at
        min(self.live, key=lambda alarm: alarm.when).call()

    @property
    def due(self) -> list[float]:
        return sorted(alarm.when for alarm in self.live)


@pytest.mark.contract("X8")
def test_one_timer_is_enough_for_all_and_everybody_is_told_again_after_a_grace() -> None:
    driver = Timed()
    for at, name in enumerate("abc"):
        driver.cover(name, at)
    assert driver.due == [9]
    driver.told.clear()
    driver.ring(9)
    assert (driver.told, driver.due) == ([("a", 9)], [10])
    driver.ring(11)
    assert driver.told == [("a", 9), ("b", 11), ("c", 11)], "both were due by then"
    assert driver.due == [18]


@pytest.mark.contract("S7")
def test_the_timer_goes_with_the_last_of_them_and_not_before() -> None:
    driver = Timed()
    runs = [driver.cover(name, 0) for name in "abc"]
    for run in runs[:-1]:
        driver.finish_now(run)
        assert driver.due == [9]
    driver.finish_now(runs[-1])
    assert (driver.due, len(driver.stopping)) == ([], 0)


def test_nobody_is_told_for_one_that_has_ended_and_the_next_is_told_in_time() -> None:
    driver = Timed()
    first, _second = driver.cover("a", 0), driver.cover("b", 4)
    driver.finish_now(first)
    driver.told.clear()
    driver.ring(9)
    assert (driver.told, driver.due) == ([], [13])
    driver.ring(13)
    assert driver.told == [("b", 13)]


@pytest.mark.contract("X8")
def test_one_that_may_be_abandoned_before_others_are_due_does_not_wait_for_them() -> None:
    driver = Timed(abandon_s=12)
    first, second = driver.cover("a", 0), driver.cover("b", 5)
    driver.ring(9)
    assert driver.due == [12, 14]
    driver.ring(12)
    assert (first.abandoned, second.abandoned) == (True, False)
    assert driver.due == [14]
    driver.ring(14)
    driver.ring(17)
    assert second.abandoned
    assert driver.due == []


def test_a_timer_that_is_called_a_little_early_is_not_called_for_nothing() -> None:
    driver = Timed()
    driver.cover("a", 0)
    driver.told.clear()
    driver.ring(9 - 1e-9)
    assert [name for name, _ in driver.told] == ["a"]


def test_however_short_the_grace_is_nobody_is_told_twice_at_once() -> None:
    driver = Timed(grace_s=1e-300)
    driver.cover("a", 5)
    driver.told.clear()
    driver.ring(5)
    assert driver.told == [("a", 5)]
    assert driver.due == [5]


def test_an_error_on_the_way_to_one_does_not_keep_the_others_from_being_told() -> None:
    driver = Timed()
    first = driver.cover("a", 0)
    driver.cover("b", 1)

    def fail() -> None:
        raise KeyboardInterrupt

    first.told_so = fail
    driver.told.clear()
    with pytest.raises(KeyboardInterrupt):
        driver.ring(10)
    driver.ring(10)
    assert driver.told == [("b", 10)]


def test_one_that_stops_of_itself_in_the_last_moment_is_left_alone() -> None:
    driver = Timed()
    run = driver.cover("a", 0)
    driver.told.clear()
    run.carrier = None  # its end is about to be reported
    driver.ring(9)
    assert (driver.told, driver.due) == ([], [])


def test_one_that_comes_while_the_timer_is_set_for_another_is_looked_after_too() -> None:
    driver = Timed()
    first = driver.cover("a", 0)
    driver.finish_now(first)

    def meanwhile() -> None:
        driver.meanwhile = int
        (active,) = [view.active for view in driver.table.snapshot().sessions]
        assert isinstance(active, Carried)
        driver.table.finish(active, How.STOPPED, 0)
        driver.stopping.over(active)
        driver.cover("c", 3)

    driver.meanwhile = meanwhile
    driver.cover("b", 2)
    assert driver.due == [12]
    driver.told.clear()
    driver.ring(12)
    assert driver.told == [("c", 12)]


def test_the_deadline_of_one_that_was_told_to_stop_is_called_off() -> None:
    driver, run = Timed(), Carried("a", "a")
    run.told_so = int
    run.own.terms = Terms(deadline_s=5)
    driver.accept(run, ready=True)
    assert driver.due == [5]
    driver.cancel_run(run)
    assert driver.due == [9], "there is nothing but the grace to wait for"


@pytest.mark.contract("S7")
def test_one_that_has_ended_by_the_time_it_is_told_is_not_looked_after() -> None:
    driver = Timed()
    run = driver.cover("a", 0)
    driver.finish_now(run)
    run.carrier = "somebody"  # as another thread may have seen it just before
    driver.stopping.tell(run, 0, 0)
    assert (driver.due, len(driver.stopping)) == ([], 0)
