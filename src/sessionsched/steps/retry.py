"""The one retry layer: which attempts are made again, and when.

Rule 1. Faults of transport (see faults.py) are tried again; of the provider's own errors, those
        that the caller names.
Rule 2. The pause grows up to a cap. What the provider asks for (`Retry-After`) is a floor: it is
        waited for even if it is more than the cap.
Rule 3. A cancel ends a pause at once, and no attempt follows.
Rule 4. A failed attempt leaves nothing behind, and observers are told (Discarded).

It is tenacity that counts and waits: there a pause is a function of the attempt, so that the floor
is one `max`, and no wall clock takes part, so that it runs on virtual time as well. (stamina, which
is built on it, takes a provider's pause as it is and would drop the backoff.)
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from sessionsched import checks
from sessionsched.steps.faults import StreamBroken, StreamFault
from sessionsched.steps.stream import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.steps.draft import Draft
    from sessionsched.steps.reach import Reach
    from sessionsched.steps.request import Model, Request

__all__ = ["Discarded", "Retry", "lost_connection", "retry_after", "stream_step"]


def lost_connection(error: Exception) -> bool:
    """Say whether it is worth another attempt: the connection failed, or took too long."""
    return isinstance(error, ConnectionError | TimeoutError)


def retry_after(error: Exception, now: datetime | None = None) -> float | None:
    """Read how many seconds the provider asks to wait, if it does.

    It may stand at the error itself (`retry_after`), or in the headers of its `response`, as a
    number or as a date.
    """
    asked = getattr(error, "retry_after", None)
    if asked is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            asked = headers.get("retry-after", headers.get("Retry-After"))
    try:
        return float(cast("str", asked))
    except (TypeError, ValueError):
        return _until(asked, now or datetime.now(UTC))


def _until(date: object, now: datetime) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(cast("str", date))
    except (TypeError, ValueError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - now).total_seconds()


@frozen
class Retry:
    """How often a step is tried, and how long is waited in between. Times are in seconds."""

    #: Which errors of the provider are worth another attempt.
    on: Callable[[Exception], bool] = lost_connection
    #: The first one included.
    attempts: int = 5
    #: The first pause; each is twice as long as the one before, and at most `cap`.
    pause: float = 1.0
    cap: float = 60.0
    #: Up to so much is added to each pause by chance, so that not all come back at once.
    jitter: float = 1.0
    #: Reads the least pause out of an error; None: it asks for none.
    floor: Callable[[Exception], float | None] = retry_after

    def __attrs_post_init__(self) -> None:
        checks.at_least(1, "attempts", self.attempts)
        checks.seconds("pause", self.pause)
        checks.seconds("cap", self.cap)
        checks.seconds("jitter", self.jitter)

    def wants(self, error: BaseException) -> bool:
        """Whether another attempt is worth while after this error."""
        if isinstance(error, StreamFault) and not isinstance(error, StreamBroken):
            return True
        return isinstance(error, Exception) and self.on(error)

    def wait_s(self, state: RetryCallState) -> float:
        """How long to wait before the next attempt."""
        backoff = wait_exponential(multiplier=self.pause, max=self.cap)
        jittered = backoff(state) + wait_random(0, self.jitter)(state)
        return max(min(self.cap, jittered), self._floor_s(state))

    def _floor_s(self, state: RetryCallState) -> float:
        floor = self.floor(cast("Any", state.outcome).exception())
        # What is no time at all (NaN, or for ever) can't be waited for.
        return floor if floor is not None and 0 < floor < math.inf else 0.0


@frozen
class Discarded:
    """For observers: forget what this attempt has streamed. Another one begins, or none."""

    step: int
    #: 1 for the first attempt of the step.
    attempt: int
    error: BaseException


async def stream_step(
    reach: Reach, model: Model, request: Request, retry: Retry, silence_s: float
) -> Draft:
    """Give what the model streamed for one step: whole, or cut off by a cancel.

    Raises:
        BaseException: what the last attempt failed with.
    """
    number = 0

    async def attempt() -> Draft:
        nonlocal number
        number += 1
        this = Attempt(reach, model, request, silence_s)
        if reach.canceled:
            return this.draft
        try:
            return await this.read()
        except BaseException as error:
            request.run.emit(Discarded(request.step, number, error))
            raise

    retrying = AsyncRetrying(
        sleep=reach.sleep,
        stop=stop_after_attempt(retry.attempts),
        wait=retry.wait_s,
        retry=retry_if_exception(retry.wants),
        reraise=True,
    )
    draft: Draft = await retrying(attempt)
    return draft
