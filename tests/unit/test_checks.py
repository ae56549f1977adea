import enum
import functools
from collections.abc import AsyncIterator

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


# --- run names ---


@pytest.mark.contract("A4")
@pytest.mark.parametrize("value", [None, 7, b"r-17", ["r-17"], "", " ", "\t\r\n"])
def test_what_is_not_a_non_blank_string_names_no_run(value: object) -> None:
    with pytest.raises(InvalidOption, match="a run is named by a non-blank string") as refused:
        checks.run_name(value, "chat-1")
    assert (refused.value.option, refused.value.value) == ("run_id", value)
    assert refused.value.session_id == "chat-1"


@pytest.mark.parametrize("value", ["r-17", " r ", "0"])
def test_any_other_string_names_a_run(value: str) -> None:
    checks.run_name(value)


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


# --- seconds ---


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1e-9, 0.5, 3, 1e300])
def test_zero_and_more_is_a_number_of_seconds(value: float) -> None:
    checks.seconds("grace", value)


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    "value",
    [-1, -1e-9, float("inf"), float("-inf"), float("nan"), "3", None, True, False, [3], 3j,
     pytest.param(10**400, id="10**400")],
)  # fmt: skip
@pytest.mark.parametrize("positive", [False, True])
def test_what_is_negative_endless_or_no_number_is_no_number_of_seconds(
    value: object, *, positive: bool
) -> None:
    with pytest.raises(InvalidOption) as refused:
        checks.seconds("grace", value, positive=positive)
    least = "more than zero" if positive else "zero or more"
    assert str(refused.value) == f"grace is a number of seconds, {least}, not {value!r}"
    assert (refused.value.option, refused.value.value) == ("grace", value)


@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_zero_is_refused_where_it_would_never_end(value: float) -> None:
    checks.seconds("grace", 1e-9, positive=True)
    with pytest.raises(InvalidOption, match="more than zero"):
        checks.seconds("grace", value, positive=True)


# --- functions that are awaited ---


async def plain(number: int, text: str = "") -> None: ...


class Called:
    async def __call__(self, number: int) -> None: ...

    async def method(self, number: int) -> None: ...


class NotAwaited:
    def __call__(self, number: int) -> None: ...


async def generates() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "value",
    [plain, Called(), Called().method, functools.partial(plain, 1), functools.partial(Called())],
)
def test_what_is_called_like_an_async_function_is_one(value: object) -> None:
    checks.coroutine_function("handler", value)


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    "value",
    [None, "plain", print, lambda: None, NotAwaited(), NotAwaited, Called, generates,
     functools.partial(print)],
)  # fmt: skip
def test_what_is_not_called_like_an_async_function_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"^handler must be written with async def") as refused:
        checks.coroutine_function("handler", value)
    assert (refused.value.option, refused.value.value) == ("handler", value)


# --- functions that are not ---


@pytest.mark.parametrize(
    "value", [print, len, lambda: None, NotAwaited(), NotAwaited, Called, functools.partial(print)]
)
def test_what_can_be_called_and_need_not_be_awaited_is_a_plain_function(value: object) -> None:
    checks.plain_function("handler", value)


@pytest.mark.contract("A4")
@pytest.mark.parametrize(
    "value", [None, "plain", plain, Called(), functools.partial(plain), functools.partial(Called())]
)
def test_what_must_be_awaited_or_can_not_be_called_is_no_plain_function(value: object) -> None:
    with pytest.raises(InvalidOption, match=r"^handler must be a function that is not") as refused:
        checks.plain_function("handler", value)
    assert (refused.value.option, refused.value.value) == ("handler", value)
