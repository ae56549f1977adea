import pickle
import re

import pytest

from sessionsched import errors
from sessionsched.errors import (
    IllegalEvent,
    InvalidOption,
    InvalidSession,
    Refused,
    RunCanceled,
    RunNotCompleted,
    RunSuspended,
    SessionSchedError,
    WouldDeadlock,
    WrongLoop,
)
from sessionsched.model import Cause, Outcome, Status

OUTCOME = Outcome[str](Status.CANCELED, Cause.DEADLINE, "half", None, 1.0, 2.0, 3.0)

ERRORS: list[type[SessionSchedError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, SessionSchedError)
]
ABOUT_AN_OUTCOME = [kind for kind in ERRORS if issubclass(kind, RunNotCompleted)]
ABOUT_A_RUN = [kind for kind in ERRORS if kind is not IllegalEvent]


def children(kind: type[SessionSchedError]) -> list[type[SessionSchedError]]:
    return [sub for sub in kind.__subclasses__() if sub.__module__ == errors.__name__]


def draw(kind: type[SessionSchedError], indent: str = "") -> list[str]:
    lines = []
    subs = children(kind)
    for sub in subs:
        last = sub is subs[-1]
        lines.append(f"{indent}{'└── ' if last else '├── '}{sub.__name__}")
        lines += draw(sub, indent + ("    " if last else "│   "))
    return lines


def example(kind: type[SessionSchedError]) -> SessionSchedError:
    if issubclass(kind, IllegalEvent):
        return kind("idle", "finish", "chat-1")
    if issubclass(kind, RunNotCompleted):
        return kind("it was so", "chat-1", "r-17", OUTCOME)
    return kind("it was so", "chat-1", "r-17")


def test_the_tree_on_top_of_the_module_is_the_tree_of_the_classes() -> None:
    _, _, below_the_root = str(errors.__doc__).partition("\nSessionSchedError\n")
    drawn, _, _ = below_the_root.partition("\n\n")
    branches = [re.match(r"[│├└─ ]*\w+", line) for line in drawn.splitlines()]
    assert [branch and branch.group() for branch in branches] == draw(SessionSchedError)


def test_every_exception_of_the_module_is_in_the_tree() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    drawn = {line.split()[-1] for line in draw(SessionSchedError)}
    assert defined == drawn | {"SessionSchedError"}


@pytest.mark.parametrize("kind", ABOUT_A_RUN)
def test_an_error_says_its_text_and_carries_session_and_run(kind: type[SessionSchedError]) -> None:
    error = kind("it was so", "chat-1", "r-17")
    assert (str(error), error.session_id, error.run_id) == ("it was so", "chat-1", "r-17")


@pytest.mark.parametrize("kind", ABOUT_A_RUN)
def test_an_error_about_no_session_and_no_run_says_none(kind: type[SessionSchedError]) -> None:
    error = kind("it was so")
    assert (error.session_id, error.run_id) == (None, None)


@pytest.mark.parametrize("kind", ABOUT_AN_OUTCOME)
def test_a_run_without_a_value_carries_its_outcome_and_its_cause(
    kind: type[RunNotCompleted],
) -> None:
    error = kind("it was so", "chat-1", "r-17", OUTCOME)
    assert error.outcome is OUTCOME
    assert error.cause is Cause.DEADLINE


@pytest.mark.parametrize("kind", ABOUT_AN_OUTCOME)
def test_a_run_whose_outcome_was_not_given_has_no_cause(kind: type[RunNotCompleted]) -> None:
    error = kind("it was so", "chat-1", "r-17")
    assert (error.outcome, error.cause) == (None, None)


def test_an_illegal_event_names_the_state_the_event_and_the_session() -> None:
    error = IllegalEvent("idle", "finish", "chat-1")
    assert (error.state, error.event) == ("idle", "finish")
    assert (error.session_id, error.run_id) == ("chat-1", None)
    assert str(error) == "session 'chat-1' is idle: finish can't happen there"


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_keeps_everything_when_it_goes_to_another_process(
    kind: type[SessionSchedError],
) -> None:
    error = example(kind)
    there = pickle.loads(pickle.dumps(error))  # noqa: S301 - written one call ago
    assert type(there) is kind
    assert there is not error
    assert (str(there), there.args, vars(there)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize("kind", [InvalidSession, InvalidOption])
def test_a_wrong_argument_is_a_value_error_to_those_who_do_not_know_us(
    kind: type[SessionSchedError],
) -> None:
    with pytest.raises(ValueError, match="it was so"):
        raise kind("it was so")


@pytest.mark.parametrize("kind", [WouldDeadlock, WrongLoop])
def test_a_wait_in_the_wrong_place_is_a_runtime_error_and_no_refusal(
    kind: type[SessionSchedError],
) -> None:
    assert issubclass(kind, RuntimeError)
    assert not issubclass(kind, Refused)


def test_nothing_else_is_a_runtime_error() -> None:
    names = {kind.__name__ for kind in ERRORS if issubclass(kind, RuntimeError)}
    assert names == {"WouldDeadlock", "WrongLoop"}


def test_nothing_else_is_a_value_error() -> None:
    names = {kind.__name__ for kind in ERRORS if issubclass(kind, ValueError)}
    assert names == {"InvalidSession", "InvalidOption"}


def test_how_a_run_ended_is_never_taken_for_a_refusal() -> None:
    for kind in (RunCanceled, RunSuspended):
        assert issubclass(kind, RunNotCompleted)
        assert not issubclass(kind, Refused)
