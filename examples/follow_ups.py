"""Follow-ups: what the user types while the agent works joins the run at its next step.

A run in several steps looks, between two of them, whether something was said meanwhile. What it
takes is answered together with its own prompt, and ends with it. What nobody took gets a turn of
its own, in the order of typing; and a prompt that should wait for its own turn is never taken.
"""

import asyncio

from sessionsched import Run, Scheduler, WhenBusy


async def agent(run: Run[str]) -> str:
    said = [run.prompt]
    for _step in range(3):
        await asyncio.sleep(0.02)  # one call of the model, one round of tools
        said += [follow_up.prompt for follow_up in run.take_follow_ups()]
    return " + ".join(said)


async def main() -> None:
    async with Scheduler(agent) as scheduler:
        task = scheduler.submit("chat", "write a parser")
        hint = scheduler.submit("chat", "in Python", when_busy=WhenBusy.FOLD)
        later = scheduler.submit("chat", "then write its docs")  # QUEUE: its own turn

        print("answered:", await task)
        outcome = await hint.outcome()
        print("the hint", outcome.status, "as a part of", outcome.folded_into == task.run_id)
        print("answered:", await later)


if __name__ == "__main__":
    asyncio.run(main())
