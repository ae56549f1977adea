"""One agent, two chats: prompts wait in line, Escape stops one chat and nothing else."""

import asyncio

from sessionsched import Run, Scheduler


async def agent(run: Run[str]) -> str:
    """Do the work of one run: this is where your model and your tools go."""
    await asyncio.sleep(0.1)
    return f"answer to {run.prompt!r}"


async def main() -> None:
    async with Scheduler(agent) as scheduler:
        first = scheduler.submit("chat-1", "refactor this")  # a plain call: returns at once
        second = scheduler.submit("chat-1", "and add tests")  # waits: one run at a time per session
        other = scheduler.submit("chat-2", "what is the time?")  # another session: runs beside it

        receipt = scheduler.cancel("chat-1")  # Escape: covers both prompts of chat-1
        third = scheduler.submit("chat-1", "start over")  # accepted after the cancel: not touched

        print("dropped, to be put back:", [run.prompt for run in receipt.dropped])
        for handle in (first, second, other, third):
            outcome = await handle.outcome()  # never raises for a cancel
            print(handle.session_id, outcome.status, outcome.result)


if __name__ == "__main__":
    asyncio.run(main())
