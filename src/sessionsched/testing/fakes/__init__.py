"""Fakes for tests of whatever embeds a scheduler: a scripted handler, a recorder, a manual clock.

    agent = ScriptedHandler({"long": [swallows(), hangs()], "short": [returns("done")]})
    async with Scheduler(agent) as scheduler, recording(scheduler) as seen:
        handle = scheduler.submit("chat-1", "long")
        await seen.until("chat-1", "started")
        scheduler.cancel("chat-1")
        await handle.outcome()
    seen.saw("chat-1", "accepted", "started", "stuck", "ended:canceled")

Rule 1. A fake does what the test has said, and nothing else; nothing in it is left to chance.
Rule 2. An assertion that fails says what there was instead.
Rule 3. Nothing here needs a simulated loop, but on one a test that waits for what never comes fails
        at once.
"""

from sessionsched.testing.fakes.clock import ManualClock, ManualTimer
from sessionsched.testing.fakes.recorder import Recorder, recording
from sessionsched.testing.fakes.script import (
    Returned,
    ScriptedHandler,
    calls,
    emits,
    folds,
    hangs,
    raises,
    returns,
    sleeps,
    swallows,
    waits,
)

__all__ = [
    "ManualClock",
    "ManualTimer",
    "Recorder",
    "Returned",
    "ScriptedHandler",
    "calls",
    "emits",
    "folds",
    "hangs",
    "raises",
    "recording",
    "returns",
    "sleeps",
    "swallows",
    "waits",
]
