"""What a refusal says: which session and which run it is about, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driving import Driver

from sessionsched import (
    Cause,
    DuplicateRun,
    IllegalEvent,
    InvalidOption,
    InvalidSession,
    Limits,
    LineFull,
    Run,
    RunState,
    SchedulerClosed,
    SessionBusy,
    SessionSchedError,
    WhenBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable

REJECT = WhenBusy.REJECT
WRONG: Any = 7
UNHASHABLE: Any = []

Refusal = tuple[type[SessionSchedError], "Callable[[Driver], object]", str, object, object]

REFUSALS: dict[str, Refusal] = {
    "busy": (
        SessionBusy,
        lambda driver: driver.submit("chat", "x", run_id="mine", when_busy=REJECT),
        "session 'chat' is queued; cancel it first, or wait in line",
        "chat",
        "mine",
    ),
    "line full": (
        LineFull,
        lambda driver: driver.submit("chat", "x", run_id="mine"),
        "session 'chat' has 1 runs waiting; try again later",
        "chat",
        "mine",
    ),
    "closing": (
        SchedulerClosed,
        lambda driver: closed(driver).submit("other", "x", run_id="mine"),
        "closing: no more prompts for session 'other'",
        "other",
        "mine",
    ),
    "of another prompt": (
        DuplicateRun,
        lambda driver: driver.submit("other", "x", run_id="run-2"),
        "run id 'run-2' belongs to another prompt of session 'chat'",
        "other",
        "run-2",
    ),
    "no session": (
        InvalidSession,
        lambda driver: driver.submit(WRONG, "x", run_id="mine"),
        "a session is named by a non-blank string, not by 7",
        7,
        None,
    ),
    "no session to cancel": (
        InvalidSession,
        lambda driver: driver.table.cancel(UNHASHABLE, 0.0),
        "a session is named by a non-blank string, not by []",
        UNHASHABLE,
        None,
    ),
    "nobody's session to cancel": (
        InvalidSession,
        lambda driver: driver.table.cancel(" ", 0.0),
        "a session is named by a non-blank string, not by ' '",
        " ",
        None,
    ),
    "no run": (
        InvalidOption,
        lambda driver: driver.submit("chat", "x", run_id=WRONG),
        "a run is named by a non-blank string, not by 7",
        "chat",
        None,
    ),
    "nowhere to be found": (
        InvalidOption,
        lambda driver: driver.table.run(WRONG),
        "a run is named by a non-blank string, not by 7",
        None,
        None,
    ),
    "unknown when_busy": (
        InvalidOption,
        lambda driver: driver.submit("chat", "x", when_busy=WRONG),
        "when_busy is one of queue, fold, interrupt, latest, reject; not 7",
        None,
        None,
    ),
    "unknown scope": (
        InvalidOption,
        lambda driver: driver.cancel("chat", scope=WRONG),
        "scope is one of all, active, waiting; not 7",
        None,
        None,
    ),
    "unknown scope of one run": (
        InvalidOption,
        lambda driver: driver.cancel_run(Run("chat", "x"), scope=WRONG),
        "scope is one of all, active, waiting; not 7",
        None,
        None,
    ),
    "unknown cause": (
        InvalidOption,
        lambda driver: driver.cancel("chat", cause=WRONG),
        f"cause is one of {', '.join(Cause)}; not 7",
        None,
        None,
    ),
    "cause that is nobody's to give": (
        InvalidOption,
        lambda driver: driver.cancel("chat", cause=Cause.SHUTDOWN),
        "a cancel can't have the cause shutdown: only the scheduler itself finds that",
        None,
        None,
    ),
    "no fence": (
        InvalidOption,
        lambda driver: driver.cancel("chat", up_to=-1),
        "up_to must be a whole number of at least 0, not -1",
        None,
        None,
    ),
    "never accepted": (
        IllegalEvent,
        lambda driver: driver.ready(Run("chat", "x", "mine")),
        "run 'mine' of session 'chat' is new: anything but accept can't happen there",
        "chat",
        "mine",
    ),
    "ended and forgotten": (
        IllegalEvent,
        lambda driver: driver.take_in(ended(driver)),
        "run 'run-3' of session 'other' is ended: accept can't happen there",
        "other",
        "run-3",
    ),
}


def closed(driver: Driver) -> Driver:
    driver.close()
    return driver


def ended(driver: Driver) -> Run[str]:
    """A run of an idle session that nobody remembers."""
    run = driver.submit("other", "c")
    driver.finish(run)
    assert run.state is RunState.ENDED
    return run


@pytest.mark.contract("A4")
@pytest.mark.parametrize("why", REFUSALS)
def test_a_refusal_says_what_was_refused_and_what_it_is_about(why: str) -> None:
    error, call, text, session_id, run_id = REFUSALS[why]
    driver = Driver(Limits(max_waiting=1))
    driver.submit_each("chat", "a", "b")
    with pytest.raises(error) as refused:
        call(driver)
    assert str(refused.value) == text
    assert (refused.value.session_id, refused.value.run_id) == (session_id, run_id)


@pytest.mark.parametrize(("why", "option", "value"), [
    ("unknown when_busy", "when_busy", 7),
    ("unknown scope", "scope", 7),
    ("unknown scope of one run", "scope", 7),
    ("unknown cause", "cause", 7),
    ("cause that is nobody's to give", "cause", Cause.SHUTDOWN),
    ("no fence", "up_to", -1),
    ("no run", "run_id", 7),
])  # fmt: skip
def test_the_refusal_of_an_option_names_it_and_its_value(
    why: str, option: str, value: object
) -> None:
    driver = Driver()
    driver.submit("chat", "a")
    with pytest.raises(InvalidOption) as refused:
        REFUSALS[why][1](driver)
    assert (refused.value.option, refused.value.value) == (option, value)
