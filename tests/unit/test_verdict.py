import itertools

import pytest

from sessionsched.model import Cause, How, Status
from sessionsched.verdict import STATUS_OF, UNCOVERED, beats, verdict

CANCELED, COMPLETED = Status.CANCELED, Status.COMPLETED
FAILED, SUSPENDED = Status.FAILED, Status.SUSPENDED

# fmt: off
#: What covered the run, how its handler was over: its status, its cause.
TABLE = (
    (None,             How.RETURNED,  COMPLETED, None),
    (None,             How.RAISED,    FAILED,    None),
    (None,             How.STOPPED,   SUSPENDED, Cause.EXTERNAL),
    (None,             How.SKIPPED,   SUSPENDED, Cause.EXTERNAL),

    (Cause.INTERRUPT,  How.RETURNED,  CANCELED,  Cause.INTERRUPT),
    (Cause.INTERRUPT,  How.RAISED,    CANCELED,  Cause.INTERRUPT),
    (Cause.INTERRUPT,  How.STOPPED,   CANCELED,  Cause.INTERRUPT),
    (Cause.INTERRUPT,  How.SKIPPED,   CANCELED,  Cause.INTERRUPT),
    (Cause.INTERRUPT,  How.ABANDONED, CANCELED,  Cause.INTERRUPT),

    (Cause.SUPERSEDED, How.RETURNED,  CANCELED,  Cause.SUPERSEDED),
    (Cause.SUPERSEDED, How.RAISED,    CANCELED,  Cause.SUPERSEDED),
    (Cause.SUPERSEDED, How.STOPPED,   CANCELED,  Cause.SUPERSEDED),
    (Cause.SUPERSEDED, How.SKIPPED,   CANCELED,  Cause.SUPERSEDED),
    (Cause.SUPERSEDED, How.ABANDONED, CANCELED,  Cause.SUPERSEDED),

    (Cause.DEADLINE,   How.RETURNED,  CANCELED,  Cause.DEADLINE),
    (Cause.DEADLINE,   How.RAISED,    CANCELED,  Cause.DEADLINE),
    (Cause.DEADLINE,   How.STOPPED,   CANCELED,  Cause.DEADLINE),
    (Cause.DEADLINE,   How.SKIPPED,   CANCELED,  Cause.DEADLINE),
    (Cause.DEADLINE,   How.ABANDONED, CANCELED,  Cause.DEADLINE),

    (Cause.EXPIRED,    How.RETURNED,  CANCELED,  Cause.EXPIRED),
    (Cause.EXPIRED,    How.RAISED,    CANCELED,  Cause.EXPIRED),
    (Cause.EXPIRED,    How.STOPPED,   CANCELED,  Cause.EXPIRED),
    (Cause.EXPIRED,    How.SKIPPED,   CANCELED,  Cause.EXPIRED),
    (Cause.EXPIRED,    How.ABANDONED, CANCELED,  Cause.EXPIRED),

    (Cause.WITHDRAWN,  How.RETURNED,  CANCELED,  Cause.WITHDRAWN),
    (Cause.WITHDRAWN,  How.RAISED,    CANCELED,  Cause.WITHDRAWN),
    (Cause.WITHDRAWN,  How.STOPPED,   CANCELED,  Cause.WITHDRAWN),
    (Cause.WITHDRAWN,  How.SKIPPED,   CANCELED,  Cause.WITHDRAWN),
    (Cause.WITHDRAWN,  How.ABANDONED, CANCELED,  Cause.WITHDRAWN),

    (Cause.UNPREPARED, How.RETURNED,  FAILED,    Cause.UNPREPARED),
    (Cause.UNPREPARED, How.RAISED,    FAILED,    Cause.UNPREPARED),
    (Cause.UNPREPARED, How.STOPPED,   FAILED,    Cause.UNPREPARED),
    (Cause.UNPREPARED, How.SKIPPED,   FAILED,    Cause.UNPREPARED),
    (Cause.UNPREPARED, How.ABANDONED, FAILED,    Cause.UNPREPARED),

    (Cause.EXTERNAL,   How.RETURNED,  SUSPENDED, Cause.EXTERNAL),
    (Cause.EXTERNAL,   How.RAISED,    SUSPENDED, Cause.EXTERNAL),
    (Cause.EXTERNAL,   How.STOPPED,   SUSPENDED, Cause.EXTERNAL),
    (Cause.EXTERNAL,   How.SKIPPED,   SUSPENDED, Cause.EXTERNAL),
    (Cause.EXTERNAL,   How.ABANDONED, SUSPENDED, Cause.EXTERNAL),

    (Cause.SHUTDOWN,   How.RETURNED,  COMPLETED, None),
    (Cause.SHUTDOWN,   How.RAISED,    SUSPENDED, Cause.SHUTDOWN),
    (Cause.SHUTDOWN,   How.STOPPED,   SUSPENDED, Cause.SHUTDOWN),
    (Cause.SHUTDOWN,   How.SKIPPED,   SUSPENDED, Cause.SHUTDOWN),
    (Cause.SHUTDOWN,   How.ABANDONED, SUSPENDED, Cause.SHUTDOWN),
)
# fmt: on

THAT_SOMEBODY_ASKS_FOR = [
    Cause.INTERRUPT,
    Cause.SUPERSEDED,
    Cause.DEADLINE,
    Cause.EXPIRED,
    Cause.WITHDRAWN,
]
THAT_NOBODY_ASKS_FOR = [Cause.UNPREPARED, Cause.EXTERNAL, Cause.SHUTDOWN]


# --- verdict ---


@pytest.mark.parametrize(("covered_by", "how", "status", "cause"), TABLE)
def test_a_run_ends_as_the_table_says(
    covered_by: Cause | None, how: How, status: Status, cause: Cause | None
) -> None:
    assert verdict(covered_by, how) == (status, cause)


def test_the_table_above_has_every_pair_but_an_uncovered_run_that_is_abandoned() -> None:
    pairs = [(covered_by, how) for covered_by, how, _, _ in TABLE]
    every = set(itertools.product([None, *Cause], How))
    assert len(pairs) == len(set(pairs))
    assert every - set(pairs) == {(None, How.ABANDONED)}


def test_a_run_that_nothing_covers_is_never_judged_as_abandoned() -> None:
    with pytest.raises(KeyError):
        verdict(None, How.ABANDONED)
    assert set(How) - set(UNCOVERED) == {How.ABANDONED}


@pytest.mark.contract("X6")
@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("cause", THAT_SOMEBODY_ASKS_FOR)
def test_a_canceled_run_is_canceled_however_its_handler_was_over(cause: Cause, how: How) -> None:
    assert verdict(cause, how) == (Status.CANCELED, cause)


@pytest.mark.contract("X13")
@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("cause", THAT_NOBODY_ASKS_FOR)
def test_a_run_that_nobody_asked_to_cancel_is_never_canceled(cause: Cause, how: How) -> None:
    assert verdict(cause, how)[0] is not Status.CANCELED


@pytest.mark.contract("X13")
def test_an_uncovered_run_has_failed_if_it_raised_and_is_suspended_if_it_was_stopped() -> None:
    assert verdict(None, How.RAISED) == (Status.FAILED, None)
    assert verdict(None, How.STOPPED) == (Status.SUSPENDED, Cause.EXTERNAL)


@pytest.mark.contract("S3")
@pytest.mark.parametrize("how", [How.RAISED, How.STOPPED, How.ABANDONED])
def test_a_run_that_the_shutdown_interrupts_is_suspended(how: How) -> None:
    assert verdict(Cause.SHUTDOWN, how) == (Status.SUSPENDED, Cause.SHUTDOWN)


@pytest.mark.contract("S3")
def test_a_run_that_returns_in_spite_of_the_shutdown_is_completed() -> None:
    assert verdict(Cause.SHUTDOWN, How.RETURNED) == (Status.COMPLETED, None)


@pytest.mark.parametrize("cause", Cause)
def test_a_dropped_run_ends_like_one_that_nobody_waits_for(cause: Cause) -> None:
    assert (STATUS_OF[cause], cause) == verdict(cause, How.ABANDONED)


def test_exactly_what_somebody_asks_for_ends_canceled() -> None:
    assert [cause for cause in Cause if STATUS_OF[cause] is Status.CANCELED] == (
        THAT_SOMEBODY_ASKS_FOR
    )


# --- beats ---


@pytest.mark.contract("X12")
@pytest.mark.parametrize("cause", Cause)
def test_the_first_cause_of_an_uncovered_run_is_taken(cause: Cause) -> None:
    assert beats(cause, None)


@pytest.mark.contract("X12", "S3")
def test_an_interrupt_beats_exactly_the_causes_that_would_not_end_canceled() -> None:
    assert [old for old in Cause if beats(Cause.INTERRUPT, old)] == THAT_NOBODY_ASKS_FOR


@pytest.mark.contract("X12")
@pytest.mark.parametrize("new", [cause for cause in Cause if cause is not Cause.INTERRUPT])
@pytest.mark.parametrize("old", Cause)
def test_otherwise_the_first_cause_stands(new: Cause, old: Cause) -> None:
    assert not beats(new, old)
