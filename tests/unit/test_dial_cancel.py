"""Whoever dials is canceled: at every await, and in the very moment in which a connection comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from phones import NEW, OLD, Connection, Phone, after, now, stubborn

from sessionsched.dial import Dialed, dial_with_lazy_validation

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from phones import Act

REFUSED = ConnectionRefusedError("nobody is there")


def cancel_after(turns: int) -> None:
    """Cancel the caller in this turn of the loop, or in a later one."""
    if turns:
        asyncio.get_running_loop().call_soon(cancel_after, turns - 1)
    else:
        (caller,) = [task for task in asyncio.all_tasks() if task.get_name() == "caller"]
        caller.cancel("enough")


def and_cancel(act: Act, turns: int) -> Act:
    async def both() -> object:
        result = await act()
        cancel_after(turns)
        return result

    return both


def canceling_first(act: Act) -> Act:
    """Cancel the caller in the last step of an act that may fail."""

    async def both() -> object:
        try:
            return await act()
        finally:
            cancel_after(0)

    return both


def calling(body: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(body, name="caller")


async def next_await(phone: Phone) -> Dialed[str, Any]:
    """Call, and then wait for something else, where a cancel that was put off strikes."""
    dialed = await phone.call()
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await asyncio.sleep(1)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 1
    return dialed


# --- nothing is ready: the cancel ---

WAITS: dict[str, tuple[float, Callable[[Callable[[float, object], Act]], Phone]]] = {
    "for the dial": (1, lambda act: Phone(act(3, Connection(OLD)))),
    "for an answer after a failure": (
        2, lambda act: Phone(act(1, REFUSED), validate=act(9, OLD)),
    ),
    "for an answer beside the dial": (
        6, lambda act: Phone(act(20, Connection(OLD)), validate=act(9, OLD)),
    ),
    "for an answer when the dial has failed": (
        7, lambda act: Phone(act(6, REFUSED), validate=act(9, OLD)),
    ),
    "for the dial that is current": (
        9, lambda act: Phone(act(20, Connection(OLD)), validate=act(1, OLD)),
    ),
    "for the second dial": (
        3, lambda act: Phone(act(1, REFUSED), act(20, Connection(NEW)), validate=act(1, NEW)),
    ),
    "for the new target": (
        9, lambda act: Phone(
            act(20, Connection(OLD)), act(20, Connection(NEW)), validate=act(1, NEW)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("where", WAITS)
async def test_a_cancel_ends_every_wait_at_once_and_stops_what_was_begun(where: str) -> None:
    seconds, make = WAITS[where]
    phone = make(after)
    caller = calling(phone.call())
    await asyncio.sleep(seconds)
    caller.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await caller
    await asyncio.sleep(0)
    assert (seconds, "over") in phone.log
    assert len(asyncio.all_tasks()) == 1
    assert phone.made == []


@pytest.mark.parametrize("where", WAITS)
async def test_a_cancel_waits_for_nobody_who_ignores_it(where: str) -> None:
    seconds, make = WAITS[where]
    phone = make(stubborn)
    caller = calling(phone.call())
    await asyncio.sleep(seconds)
    caller.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await caller
    assert (seconds, "over") in phone.log
    await asyncio.sleep(100)
    assert [connection.closed for connection in phone.made] == [1] * len(phone.made)


async def test_a_caller_who_is_canceled_before_anything_has_begun_dials_nobody() -> None:
    phone = Phone(after(1, Connection(OLD)))
    caller = calling(phone.call())
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert phone.made == []


# --- a connection is ready: it is returned, and the cancel strikes later ---


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_connection_that_comes_together_with_a_cancel_is_returned(turns: int) -> None:
    connection = Connection(OLD)
    phone = Phone(and_cancel(after(1, connection), turns))
    assert await calling(next_await(phone)) == Dialed(connection, OLD, switched=False)
    assert connection.closed == 0


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_slow_connection_that_comes_together_with_a_cancel_is_returned(turns: int) -> None:
    connection = Connection(OLD)
    phone = Phone(and_cancel(after(9, connection), turns), validate=after(1, OLD))
    assert await calling(next_await(phone)) == Dialed(connection, OLD, switched=False)
    assert connection.closed == 0


@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("first", [after(1, REFUSED), after(20, Connection(OLD))])
async def test_a_new_connection_that_comes_together_with_a_cancel_is_returned(
    first: Act, turns: int
) -> None:
    connection = Connection(NEW)
    phone = Phone(first, and_cancel(after(9, connection), turns), validate=after(1, NEW))
    assert await calling(next_await(phone)) == Dialed(connection, NEW, switched=True)
    assert connection.closed == 0


async def test_a_connection_that_waits_for_an_answer_is_returned_to_a_caller_who_can_not() -> None:
    connection = Connection(OLD)
    phone = Phone(after(6, connection), validate=after(20, NEW))
    caller = calling(next_await(phone))
    await asyncio.sleep(7)
    caller.cancel("enough")
    assert await caller == Dialed(connection, OLD, switched=False)
    assert phone.log[-1] == (7, "over")
    assert connection.closed == 0
    assert len(asyncio.all_tasks()) == 1, "nobody wants the answer any longer"


@pytest.mark.parametrize("answer", [OLD, LookupError(), asyncio.CancelledError()])
async def test_an_answer_that_proves_nothing_comes_together_with_a_cancel(answer: object) -> None:
    connection = Connection(OLD)
    phone = Phone(after(6, connection), validate=canceling_first(after(2, answer)))
    assert await calling(next_await(phone)) == Dialed(connection, OLD, switched=False)
    assert connection.closed == 0


@pytest.mark.parametrize("answer", [NEW, None])
async def test_a_connection_that_is_stale_by_the_time_of_the_cancel_is_closed(
    answer: object,
) -> None:
    stale = Connection(OLD)
    phone = Phone(after(6, stale), validate=canceling_first(after(2, answer)))
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await calling(phone.call())
    assert stale.closed == 1
    assert phone.log == [(0, "dial old"), (5, "validate old"), (7, "over")]


@pytest.mark.parametrize("answer", [REFUSED, asyncio.CancelledError()])
async def test_a_failure_that_comes_together_with_a_cancel_is_no_result(answer: object) -> None:
    phone = Phone(canceling_first(after(2, answer)))
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await calling(phone.call())


async def test_what_a_task_returns_in_the_step_of_the_cancel_is_not_thrown_away() -> None:
    connection = Connection(OLD)
    caller = calling(Phone(and_cancel(after(1, connection), 0)).call())
    assert (await caller).connection is connection
    assert not caller.cancelled()


async def test_a_cancel_that_was_put_off_meets_a_second_one_and_both_count_once() -> None:
    connection = Connection(OLD)

    async def body() -> int:
        phone = Phone(and_cancel(after(1, connection), 0))
        await phone.call()
        cancel_after(0)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(1)
        await asyncio.sleep(1)  # and there is none left
        return caller.cancelling()

    caller = calling(body())
    assert await caller == 2


async def test_a_timeout_that_takes_its_cancel_back_leaves_none_behind() -> None:
    connection = Connection(OLD)

    async def body() -> float:
        async with asyncio.timeout(None) as limit:

            async def dial(target: str) -> Connection:
                await asyncio.sleep(1)
                limit.reschedule(now())
                await asyncio.sleep(0)  # now it fires, together with our end
                return connection

            dialed = await dial_with_lazy_validation(OLD, dial, Phone().validate, 5)
        assert limit.expired()
        await asyncio.sleep(1)  # nothing strikes here
        assert dialed.connection.closed == 0
        return now()

    begun = now()
    assert await calling(body()) - begun == 2


async def test_a_timeout_still_bounds_what_comes_after_the_dial() -> None:
    connection = Connection(OLD)

    async def body() -> None:
        async with asyncio.timeout(None) as limit:

            async def dial(target: str) -> Connection:
                await asyncio.sleep(1)
                limit.reschedule(now())
                await asyncio.sleep(0)
                return connection

            await dial_with_lazy_validation(OLD, dial, Phone().validate, 5)
            await asyncio.sleep(1000)

    begun = now()
    with pytest.raises(TimeoutError):
        await calling(body())
    assert now() - begun == 1
