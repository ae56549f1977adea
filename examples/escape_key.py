"""Escape while a model streams: keep the half answer, and put dropped prompts back into the input.

A terminal chat types prompts faster than the model answers. Escape cancels the session: the answer
that is being streamed is cut off and kept, what waited in line goes back to where it was typed, and
what is typed after Escape runs as if nothing had happened.
"""

import asyncio
from collections.abc import AsyncIterator

from sessionsched import Run, RunProgress, Scheduler, Subscription

TRANSCRIPT: list[str] = []


async def model(prompt: str) -> AsyncIterator[str]:
    """Stream an answer, word by word."""
    for word in f"Well, about {prompt}, there is a lot to be said".split():
        await asyncio.sleep(0.01)
        yield word


async def agent(run: Run[str]) -> str:
    words: list[str] = []
    try:
        async for word in model(run.prompt):
            words.append(word)
            run.emit(word)  # whoever subscribed sees it at once
    finally:  # also when canceled: what was said is on record before the next run starts
        cut = " [interrupted]" if run.canceled else ""
        TRANSCRIPT.append(f"{run.prompt} -> {' '.join(words)}{cut}")
    return " ".join(words)


async def record_canceled_turn(run: Run[str]) -> None:
    """A prompt that no handler has seen: it is on record all the same."""
    TRANSCRIPT.append(f"{run.prompt} -> [canceled before it began: {run.cause}]")


async def user_reads(events: Subscription[str], words: int) -> None:
    """Read the stream until so many words have come."""
    async for event in events:
        if isinstance(event, RunProgress):
            words -= 1
            if words == 0:
                return


async def main() -> None:
    async with (
        Scheduler(agent, on_dropped=record_canceled_turn) as scheduler,
        scheduler.subscribe("chat") as events,
    ):
        scheduler.submit("chat", "tea")
        scheduler.submit("chat", "coffee")
        await user_reads(events, words=3)

        receipt = scheduler.cancel("chat")  # the Escape key
        input_line = " ".join(run.prompt for run in receipt.dropped)
        print("back in the input line:", input_line)

        last = scheduler.submit("chat", "water")
        await last
        print(*TRANSCRIPT, sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
