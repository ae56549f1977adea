import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionsched import checks
from sessionsched.errors import InvalidOption, InvalidSession
from sessionsched.model import Cause, Scope, WhenBusy


class Loudness(enum.Enum):
    LOW = 1
    HIGH = 11


# --- session names ---


@pytest.mark.contract("A4")
@pytest.mark.parametrize("value", [None, 7, b"chat", ["chat"], object, "", " ", "\t\r\n", "\u2003"])
def test_what_is_not_a_non_blank_string_names_no_session(value: object) -> None:
    with pytest.raises(InvalidSession, match="non-blank string") as refused:
        checks.session_name(value)
    assert refused.value.session_id is value
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize("value", ["chat-1", " chat ", "0", "ü", "\N{ZERO WIDTH SPACE}"])
def test_any_other_string_names_a_session(value: str) -> None:
    checks.session_name(value)


@given(st.text(alphabet=st.sampled_from(" \t\n\x1c\xa0\u3000ab")))
def test_a_name_is_refused_exactly_when_nothing_is_left_of_it_without_blanks(text: str) -> None:
    try:
        checks.session_name(text)
    except InvalidSession:
        assert not text.strip()
    else:
        assert text.strip()


# --- choices ---


@pytest.mark.parametrize("member", [*Scope, *WhenBusy, *Cause])
def test_a_member_is_a_choice_and_so_is_its_spelling(member: enum.StrEnum) -> None:
    assert checks.choice(type(member), "option", member) is member
    assert checks.choice(type(member), "option", member.value) is member


def test_a_member_of_another_enumeration_counts_by_what_it_spells() -> None:
    assert checks.choice(Cause, "cause", WhenBusy.INTERRUPT) is Cause.INTERRUPT


def test_a_choice_need_not_be_among_strings() -> None:
    assert checks.choice(Loudness, "loudness", 11) is Loudness.HIGH
    with pytest.raises(InvalidOption, match=r"^loudness is one of 1, 11; not 12$"):
        checks.choice(Loudness, "loudness", 12)


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    "value", ["everything", "ALL", " all", "", None, 0, [], {}, WhenBusy.QUEUE]
)
def test_what_spells_no_member_is_refused_with_what_is_known(value: object) -> None:
    with pytest.raises(InvalidOption) as refused:
        checks.choice(Scope, "scope", value)
    assert str(refused.value) == f"scope is one of all, active, waiting; not {value!r}"


def test_the_refusal_of_a_choice_does_not_show_how_it_was_looked_up() -> None:
    with pytest.raises(InvalidOption) as refused:
        checks.choice(Scope, "scope", "everything")
    assert refused.value.__suppress_context__


# --- whole numbers ---


@pytest.mark.parametrize("value", [3, 4, 10**30])
def test_the_least_number_and_all_above_it_are_enough(value: int) -> None:
    checks.at_least(3, "count", value)


@pytest.mark.parametrize("value", [2, 0, -3, 3.0, 4.5, float("nan"), "3", None, True, [3]])
def test_less_than_the_least_is_refused_and_so_is_what_is_not_a_whole_number(value: object) -> None:
    with pytest.raises(InvalidOption) as refused:
        checks.at_least(3, "count", value)
    assert str(refused.value) == f"count must be a whole number of at least 3, not {value!r}"


@pytest.mark.parametrize("least", [0, 1])
def test_a_truth_is_not_a_number_even_where_it_would_be_enough(least: int) -> None:
    with pytest.raises(InvalidOption):
        checks.at_least(least, "count", True)
