"""Profiles for Hypothesis, and how tests that are coroutines are run."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
from typing import TYPE_CHECKING, Any

import async_solipsism
import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

#: What is to end and does not would hang the tests; this ends them with an error.
PATIENCE_S = 60.0

#: A machine that is slow, or busy, is no reason to fail.
PATIENT: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, **PATIENT)
settings.register_profile("ci", max_examples=200, derandomize=True, print_blob=True, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_finish() -> None:
    """Take what is there by now from the collector, which every coroutine test calls."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    """Wait for threads that are on their way out: the next test may count those that it finds."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), f"{thread} is left behind"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests: on virtual time, or on a real loop where a test is marked so."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    real = pyfuncitem.get_closest_marker("real_loop") is not None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    main = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted})
    run_to_the_end(main, asyncio.new_event_loop() if real else async_solipsism.EventLoop())
    return True


def run_to_the_end(main: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Run a test; fail also for what asyncio would only log, and for what is left behind.

    On virtual time a wait that nothing will end is an error at once, and not a test that hangs.
    """
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    try:
        loop.run_until_complete(main)
        loop.run_until_complete(asyncio.sleep(0))  # let the last callbacks run
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        timers = [timer for timer in getattr(loop, "_scheduled", ()) if not timer.cancelled()]
    finally:
        loop.close()
    gc.collect()  # tasks complain when they are collected
    assert complaints == []
    assert left == [], "tasks are left behind (S7)"
    assert timers == [], "timers are left behind (S7)"
