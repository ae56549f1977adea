"""Libraries of actors, one for each session: pykka, thespian, autogen-core."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from attrs import frozen

from benchmarks.bases import on_loop
from benchmarks.lines import PER_SESSION

if TYPE_CHECKING:
    from benchmarks.stopwatch import Stopwatch

__all__ = ["autogen_agents", "pykka_threads", "thespian_simple"]


def pykka_threads(watch: Stopwatch, n: int) -> None:
    """An actor is a thread; every answer is a future."""
    import pykka  # noqa: PLC0415 - a peer is there, or not

    class Session(pykka.ThreadingActor):
        def on_receive(self, _message: object) -> None:
            return

    with watch:
        actors = [Session.start() for _ in range(n // PER_SESSION)]
        answers = [actors[i % len(actors)].ask(i, block=False) for i in range(n)]
        for answer in answers:
            answer.get()
    pykka.ActorRegistry.stop_all()


def thespian_simple(watch: Stopwatch, n: int) -> None:
    """The system that runs in the caller's thread: one question after the other."""
    from thespian.actors import Actor, ActorSystem  # noqa: PLC0415 - see above

    class Session(Actor):
        def receiveMessage(self, _message: object, sender: object) -> None:  # noqa: N802 - theirs
            self.send(sender, True)

    logging.getLogger("Thespian").setLevel(logging.CRITICAL)
    system = ActorSystem("simpleSystemBase")
    with watch:
        actors = [system.createActor(Session) for _ in range(n // PER_SESSION)]
        for i in range(n):
            system.ask(actors[i % len(actors)], i)
    system.shutdown()


@frozen
class Prompt:
    """What autogen's agents are sent; they want a type."""

    number: int


@on_loop
async def autogen_agents(watch: Stopwatch, n: int) -> None:
    """An agent for each session, on the runtime of one thread."""
    from autogen_core import (  # noqa: PLC0415 - see above
        AgentId,
        BaseAgent,
        SingleThreadedAgentRuntime,
    )

    class Session(BaseAgent):
        async def on_message_impl(self, _message: Any, _ctx: Any) -> None:
            return

    logging.getLogger("autogen_core").setLevel(logging.CRITICAL)
    runtime = SingleThreadedAgentRuntime()
    await Session.register(runtime, "session", lambda: Session("a session"))
    runtime.start()
    with watch:
        ids = [AgentId("session", str(number)) for number in range(n // PER_SESSION)]
        sent = [
            asyncio.ensure_future(runtime.send_message(Prompt(i), ids[i % len(ids)]))
            for i in range(n)
        ]
        for answer in sent:
            await answer
    await runtime.stop()
