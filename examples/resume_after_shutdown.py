"""A deploy in the middle of work: what was suspended is saved, and goes on in the next process.

A shutdown is not a cancel. Closing refuses new prompts, lets active runs finish for a while,
interrupts the rest, and reports what was suspended. The next process submits it again under the
same run ids. What a person canceled stays canceled, and is not resumed.
"""

import asyncio
import json
import tempfile
from pathlib import Path

from sessionsched import Cause, Run, Scheduler


async def agent(run: Run[str]) -> str:
    try:
        await asyncio.sleep(0.02 if "quick" in run.prompt else 0.2)
    except asyncio.CancelledError:
        if run.cause is Cause.SHUTDOWN:
            print(f"{run.prompt}: saving how far I am")
        raise
    return f"{run.prompt}: done"


async def first_process() -> str:
    async with Scheduler(agent) as scheduler:
        scheduler.submit("a", "quick work", run_id="r-1")
        scheduler.submit("b", "long work", run_id="r-2")
        scheduler.submit("b", "work in line", run_id="r-3")
        canceled = scheduler.submit("b", "a mistake", run_id="r-4")
        await asyncio.sleep(0)
        canceled.cancel()
        report = await scheduler.close(drain=0.1)
    print("suspended:", [run.run_id for run in report.suspended])
    return json.dumps(
        [
            {"session_id": run.session_id, "prompt": run.prompt, "run_id": run.run_id}
            for run in report.suspended  # in accept order
        ]
    )


async def second_process(saved: str) -> None:
    async with Scheduler(agent) as scheduler:
        handles = [scheduler.submit(**each) for each in json.loads(saved)]
        for handle in handles:
            print("resumed:", await handle)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "suspended.json")
        file.write_text(asyncio.run(first_process()), encoding="utf-8")
        asyncio.run(second_process(file.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
