"""Every outcome of a dial with lazy validation, as long as nobody cancels the caller."""

from __future__ import annotations

import asyncio
import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import async_solipsism
import pytest
from phones import DELAY, NEW, OLD, Connection, Phone, SlowToClose, after, stubborn

import sessionsched.dial
from sessionsched import InvalidOption, SessionSchedError
from sessionsched.dial import Dialed, NoTarget, StrayCancel, dial_with_lazy_validation

REFUSED = ConnectionRefusedError("nobody is there")
LOST = ConnectionResetError("nobody is there any longer")
NO_ANSWER = LookupError("nobody knows")


def listen() -> list[Any]:
    """Take what is told to the loop, and give the exceptions."""
    told: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    return told


# --- the dial succeeds before the delay ---


async def test_a_dial_that_succeeds_in_time_is_not_validated() -> None:
    connection = Connection(OLD)
    phone = Phone(after(4, connection))
    dialed = await phone.call()
    assert dialed == Dialed(connection, OLD, switched=False)
    assert phone.log == [(0, "dial old"), (4, "over")]
    assert connection.closed == 0


async def test_a_dial_that_succeeds_just_when_the_delay_is_over_is_used_all_the_same() -> None:
    connection = Connection(OLD)
    phone = Phone(after(DELAY, connection), validate=after(0, OLD))
    assert await phone.call() == Dialed(connection, OLD, switched=False)
    assert phone.log[-1] == (DELAY, "over")


async def test_what_was_dialed_can_not_be_changed_afterwards() -> None:
    dialed = await Phone(after(0, Connection(OLD))).call()
    with pytest.raises(AttributeError):
        dialed.switched = True  # type: ignore[misc]


# --- the dial fails before the delay ---


async def test_a_dial_that_fails_is_tried_once_more_if_its_target_is_current() -> None:
    connection = Connection(OLD)
    phone = Phone(after(1, REFUSED), after(20, connection), validate=after(2, OLD))
    assert await phone.call() == Dialed(connection, OLD, switched=False)
    assert phone.log == [(0, "dial old"), (1, "validate old"), (3, "dial old"), (23, "over")]


async def test_a_dial_that_fails_twice_has_failed() -> None:
    phone = Phone(after(1, REFUSED), after(1, LOST), validate=after(2, OLD))
    with pytest.raises(ConnectionResetError) as caught:
        await phone.call()
    assert caught.value is LOST
    assert caught.value.__context__ is REFUSED
    assert phone.log[-2:] == [(3, "dial old"), (4, "over")]


async def test_after_a_failure_the_target_that_is_current_is_dialed() -> None:
    connection = Connection(NEW)
    phone = Phone(after(1, REFUSED), after(1, connection), validate=after(2, NEW))
    assert await phone.call() == Dialed(connection, NEW, switched=True)
    assert phone.log == [(0, "dial old"), (1, "validate old"), (3, "dial new"), (4, "over")]
    assert connection.closed == 0


async def test_after_a_failure_no_target_is_an_error_that_names_the_old_one() -> None:
    phone = Phone(after(1, REFUSED), validate=after(2, None))
    with pytest.raises(NoTarget, match="'old' is not current any longer") as caught:
        await phone.call()
    assert caught.value.target == OLD
    assert caught.value.__context__ is REFUSED
    assert phone.log[-1] == (3, "over")


async def test_after_a_failure_an_error_of_the_validation_is_raised() -> None:
    phone = Phone(after(1, REFUSED), validate=after(2, NO_ANSWER))
    with pytest.raises(LookupError) as caught:
        await phone.call()
    assert caught.value is NO_ANSWER
    assert caught.value.__context__ is REFUSED


async def test_a_validation_after_a_failure_may_take_longer_than_the_delay() -> None:
    connection = Connection(NEW)
    phone = Phone(after(4, REFUSED), after(1, connection), validate=after(20, NEW))
    assert (await phone.call()).connection is connection
    assert phone.log[-1] == (25, "over")


async def test_functions_that_raise_before_there_is_anything_to_await_have_failed_too() -> None:
    def dial(target: str) -> Any:
        raise REFUSED

    def validate(target: str) -> Any:
        raise NO_ANSWER

    with pytest.raises(LookupError):
        await dial_with_lazy_validation(OLD, dial, validate, DELAY)


# --- the delay passes: validation beside the dial ---


async def test_a_slow_dial_to_the_current_target_is_waited_for() -> None:
    connection = Connection(OLD)
    phone = Phone(after(20, connection), validate=after(2, OLD))
    assert await phone.call() == Dialed(connection, OLD, switched=False)
    assert phone.log == [(0, "dial old"), (DELAY, "validate old"), (20, "over")]


@pytest.mark.parametrize("answer", [NO_ANSWER, asyncio.CancelledError()])
async def test_a_slow_dial_is_waited_for_if_validation_fails(answer: BaseException) -> None:
    connection = Connection(OLD)
    phone = Phone(after(20, connection), validate=after(2, answer))
    assert await phone.call() == Dialed(connection, OLD, switched=False)
    assert phone.log[-1] == (20, "over")


async def test_a_slow_dial_to_another_target_is_given_up_and_the_new_one_dialed_at_once() -> None:
    connection = Connection(NEW)
    phone = Phone(after(20, Connection(OLD)), after(1, connection), validate=after(2, NEW))
    assert await phone.call() == Dialed(connection, NEW, switched=True)
    assert phone.log[1:] == [
        (5, "validate old"), (7, "dial old canceled"), (7, "dial new"), (8, "over"),
    ]  # fmt: skip


async def test_a_slow_dial_is_given_up_at_once_if_no_target_is_current() -> None:
    phone = Phone(after(20, Connection(OLD)), validate=after(2, None))
    with pytest.raises(NoTarget) as caught:
        await phone.call()
    await asyncio.sleep(0)
    assert caught.value.target == OLD
    assert sorted(phone.log[-2:]) == [(7, "dial old canceled"), (7, "over")]


async def test_a_delay_of_zero_asks_at_once() -> None:
    connection = Connection(OLD)
    phone = Phone(after(3, connection), validate=after(1, OLD))
    assert (await phone.call(0)).connection is connection
    assert phone.log == [(0, "dial old"), (0, "validate old"), (3, "over")]


@pytest.mark.parametrize("answer", [OLD, NO_ANSWER])
async def test_a_dial_that_succeeds_while_validation_is_under_way_waits_for_the_answer(
    answer: object,
) -> None:
    connection = Connection(OLD)
    phone = Phone(after(6, connection), validate=after(4, answer))
    assert await phone.call() == Dialed(connection, OLD, switched=False)
    assert phone.log[-1] == (9, "over")
    assert connection.closed == 0


@pytest.mark.parametrize("answered", [3.0, 1.0], ids=["before the answer", "together with it"])
async def test_a_stale_dial_that_succeeds_is_closed_and_not_used(answered: float) -> None:
    stale, connection = Connection(OLD), Connection(NEW)
    phone = Phone(after(6, stale), after(1, connection), validate=after(answered, NEW))
    assert await phone.call() == Dialed(connection, NEW, switched=True)
    assert (stale.closed, connection.closed) == (1, 0)


async def test_a_dial_that_succeeds_before_validation_finds_no_target_is_closed() -> None:
    stale = Connection(OLD)
    phone = Phone(after(6, stale), validate=after(4, None))
    with pytest.raises(NoTarget):
        await phone.call()
    assert stale.closed == 1


@pytest.mark.parametrize("answer", [OLD, NO_ANSWER])
async def test_a_dial_that_fails_after_the_delay_is_not_tried_again(answer: object) -> None:
    phone = Phone(after(6, REFUSED), validate=after(4, answer))
    with pytest.raises(ConnectionRefusedError):
        await phone.call()
    assert phone.log == [(0, "dial old"), (5, "validate old"), (9, "over")]


async def test_a_dial_that_fails_after_it_was_found_to_be_current_has_failed() -> None:
    phone = Phone(after(20, REFUSED), validate=after(1, OLD))
    with pytest.raises(ConnectionRefusedError):
        await phone.call()
    assert phone.log[-1] == (20, "over")


async def test_a_stale_dial_that_fails_does_not_matter() -> None:
    connection = Connection(NEW)
    phone = Phone(after(6, REFUSED), after(1, connection), validate=after(4, NEW))
    assert await phone.call() == Dialed(connection, NEW, switched=True)
    assert phone.log[-1] == (10, "over")


async def test_the_error_of_the_new_target_is_raised() -> None:
    phone = Phone(after(20, Connection(OLD)), after(1, LOST), validate=after(1, NEW))
    with pytest.raises(ConnectionResetError):
        await phone.call()
    assert phone.log[-1] == (7, "over")


# --- what comes late ---


async def test_the_late_connection_of_a_dial_that_was_given_up_is_closed_once() -> None:
    late, connection = Connection(OLD), Connection(NEW)
    phone = Phone(stubborn(50, late), after(1, connection), validate=after(1, NEW))
    assert (await phone.call()).connection is connection
    assert phone.log[-1] == (7, "over")  # nobody has waited for it
    await asyncio.sleep(100)
    assert (late.closed, connection.closed) == (1, 0)


async def test_the_late_failure_of_a_dial_that_was_given_up_is_nobody_s_business() -> None:
    error = ConnectionRefusedError()  # asyncio complains when it is collected, so keep it nowhere
    phone = Phone(stubborn(50, error), after(1, Connection(NEW)), validate=after(1, NEW))
    del error
    await phone.call()
    await asyncio.sleep(100)


async def test_nobody_waits_for_the_close_of_a_stale_connection() -> None:
    stale, connection = SlowToClose(), Connection(NEW)
    phone = Phone(after(6, stale), after(1, connection), validate=after(4, NEW))
    assert (await phone.call()).connection is connection
    assert phone.log[-1] == (10, "over")
    assert stale.closed == ["begun"]
    await asyncio.sleep(2000)
    assert stale.closed == ["begun", "done"]


@pytest.mark.parametrize("dial", [after, stubborn], ids=["at once", "late"])
@pytest.mark.parametrize("awaited", [False, True])
async def test_a_close_that_fails_is_told_to_the_loop_and_to_nobody_else(
    dial: Any, *, awaited: bool
) -> None:
    class Broken:
        def close(self) -> Any:
            if not awaited:
                raise LOST
            return after(1, LOST)()

    told = listen()
    connection = Connection(NEW)
    seconds = 6 if dial is after else 50
    phone = Phone(dial(seconds, Broken()), after(1, connection), validate=after(4, NEW))
    assert (await phone.call()).connection is connection
    await asyncio.sleep(100)
    assert told == [LOST]


async def test_the_loop_is_told_what_a_close_that_fails_is_about() -> None:
    class Broken:
        def close(self) -> None:
            raise LOST

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    await Phone(after(6, Broken()), after(1, Connection(NEW)), validate=after(4, NEW)).call()
    message = "closing a connection that nobody wanted any longer has failed"
    assert told == [{"message": message, "exception": LOST}]


async def test_what_goes_on_behind_is_kept_by_nobody_else_and_only_until_it_is_over() -> None:
    late = Connection(OLD)
    waiting: list[weakref.ref[asyncio.Future[None]]] = []

    async def dial_old() -> Connection:
        answer = asyncio.get_running_loop().create_future()
        waiting.append(weakref.ref(answer))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.shield(answer)
        await answer
        return late

    await Phone(dial_old, after(1, Connection(NEW)), validate=after(1, NEW)).call()
    gc.collect()
    answer = waiting[0]()
    assert answer is not None, "asyncio alone would have let it go"
    answer.set_result(None)
    await asyncio.sleep(1)
    assert late.closed == 1
    assert not sessionsched.dial._GOING


def test_a_loop_that_is_torn_down_waits_for_the_close_of_a_late_connection() -> None:
    late = SlowToClose()

    async def main() -> None:
        await Phone(stubborn(50, late), after(1, Connection(NEW)), validate=after(1, NEW)).call()

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
        runner.run(main())
        assert late.closed == []
    assert late.closed == ["begun", "done"]


# --- a cancel that nobody asked for ---


async def test_a_dial_that_cancels_itself_has_failed_and_is_tried_again() -> None:
    connection = Connection(OLD)
    phone = Phone(after(1, asyncio.CancelledError()), after(1, connection), validate=after(1, OLD))
    assert (await phone.call()).connection is connection


async def test_a_dial_that_cancels_itself_to_the_end_is_an_error_and_no_cancel() -> None:
    stray = asyncio.CancelledError()
    phone = Phone(after(1, stray), after(1, stray), validate=after(1, OLD))
    with pytest.raises(StrayCancel, match=r"^dial was canceled") as caught:
        await phone.call()
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def test_a_validation_that_cancels_itself_after_a_failure_is_an_error_and_no_cancel() -> None:
    phone = Phone(after(1, REFUSED), validate=after(1, asyncio.CancelledError()))
    with pytest.raises(StrayCancel, match=r"^validate was canceled"):
        await phone.call()


# --- the module itself ---


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), None, True])
async def test_a_delay_that_is_no_number_of_seconds_is_refused_before_anything_is_dialed(
    delay: Any,
) -> None:
    phone = Phone()
    with pytest.raises(InvalidOption) as caught:
        await phone.call(delay)
    assert caught.value.option == "delay"
    assert phone.log == [(0, "over")]


def test_the_errors_belong_to_the_package_and_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(NoTarget("it was so", OLD)))  # noqa: S301 - our own
    assert isinstance(error, NoTarget)
    assert (str(error), error.target) == ("it was so", OLD)
    assert issubclass(NoTarget, SessionSchedError)
    assert issubclass(StrayCancel, SessionSchedError)


def test_the_package_does_not_import_it() -> None:
    code = "import sys, sessionsched; sys.exit('sessionsched.dial' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no eager tasks")
async def test_a_loop_with_eager_tasks_makes_no_difference() -> None:
    factory = getattr(asyncio, "eager_task_factory", None)
    asyncio.get_running_loop().set_task_factory(factory)
    late, connection = Connection(OLD), Connection(NEW)
    phone = Phone(stubborn(50, late), after(0, connection), validate=after(0, NEW))
    assert await phone.call() == Dialed(connection, NEW, switched=True)
    await asyncio.sleep(100)
    assert (late.closed, connection.closed) == (1, 0)
