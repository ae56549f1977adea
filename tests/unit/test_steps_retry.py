"""The retry layer: how long it waits, and what a provider may ask for."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from scripted import DONE, Host, Script

from sessionsched import InvalidOption
from sessionsched.steps import Retry, Text, lost_connection, retry_after

NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)


def error(**about: Any) -> ConnectionError:
    """An error of a provider, with these attributes."""
    fault = ConnectionError("slow down")
    for name, value in about.items():
        setattr(fault, name, value)
    return fault


def response(**headers: str) -> Any:
    return SimpleNamespace(headers={name.replace("_", "-"): it for name, it in headers.items()})


async def pauses(retry: Retry, *errors: Exception) -> list[float]:
    """How long is waited after each of these errors, in seconds."""
    asked: list[float] = []
    model = Script(*[[fault] for fault in errors], [Text("a"), DONE])
    for number, line in enumerate(model.lines):
        model.lines[number] = (lambda: asked.append(asyncio.get_running_loop().time()), *line)
    await Host(model, retry=retry).take()
    return [after - before for before, after in itertools.pairwise(asked)]


async def test_each_pause_is_twice_as_long_as_the_one_before_up_to_the_cap() -> None:
    retry = Retry(attempts=10, pause=1.0, cap=10.0, jitter=0.0)
    assert await pauses(retry, *[error()] * 6) == [1, 2, 4, 8, 10, 10]


async def test_chance_adds_to_a_pause_but_never_beyond_the_cap() -> None:
    retry = Retry(attempts=10, pause=1.0, cap=3.0, jitter=0.5)
    first, second, third = await pauses(retry, *[error()] * 3)
    assert 1 <= first <= 1.5
    assert 2 <= second <= 2.5
    assert third == pytest.approx(3)


async def test_what_the_provider_asks_for_is_a_floor_even_above_the_cap() -> None:
    retry = Retry(attempts=10, pause=1.0, cap=10.0, jitter=0.0)
    faults = [
        error(retry_after=30),
        error(retry_after=0.5),
        error(response=response(retry_after="7")),
    ]
    assert await pauses(retry, *faults) == [30, 2, 7]


@pytest.mark.parametrize("asked", [float("nan"), float("inf"), -5, "soon", None, ""])
async def test_what_is_no_time_is_no_floor(asked: object) -> None:
    assert await pauses(Retry(jitter=0.0), error(retry_after=asked)) == [1]


async def test_the_caller_says_where_the_floor_stands_and_which_errors_are_worth_it() -> None:
    retry = Retry(on=lambda it: "busy" in str(it), jitter=0.0, floor=lambda it: len(str(it)))
    assert await pauses(retry, ValueError("busy, very"), ValueError("busy")) == [10, 4]
    with pytest.raises(ValueError, match="broken"):
        await pauses(retry, ValueError("broken"))


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (error(), None),
        (error(retry_after=3), 3),
        (error(retry_after="3.5"), 3.5),
        (error(response=response(retry_after="12")), 12),
        (error(response=response(Retry_After="13")), 13),
        (error(response=response(retry_after="Wed, 01 May 2024 12:01:40 GMT")), 100),
        (error(response=response(retry_after="Wed, 01 May 2024 12:01:40 -0000")), 100),
        (error(response=response(retry_after="whenever")), None),
        (error(response=response()), None),
        (error(response=SimpleNamespace(headers=None)), None),
        (error(response="none"), None),
    ],
)
def test_a_floor_is_read_from_the_error_or_from_the_headers_of_its_response(
    fault: Exception, seconds: float | None
) -> None:
    assert retry_after(fault, NOW) == seconds


def test_a_date_that_has_passed_asks_for_nothing() -> None:
    past = error(response=response(retry_after="Wed, 01 May 2024 12:01:40 GMT"))
    assert (retry_after(past) or 0) < 0


def test_by_default_lost_connections_are_worth_another_attempt() -> None:
    assert lost_connection(ConnectionResetError())
    assert lost_connection(TimeoutError())
    assert not lost_connection(ValueError())


@pytest.mark.parametrize("option", ["attempts", "pause", "cap", "jitter"])
def test_a_retry_that_makes_no_sense_is_refused(option: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Retry(**{option: -1})  # type: ignore[arg-type]
    assert refused.value.option == option
