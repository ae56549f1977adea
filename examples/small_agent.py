"""A small agent: a model that streams, two tools, and Ctrl-C at any moment.

    python examples/small_agent.py        # as fast as the tests like it
    python examples/small_agent.py 0.3    # with time to press Ctrl-C

The model is scripted, so it runs offline; a real one is a function like it, that puts what a
provider streams into parts. Press Ctrl-C while it speaks or while a tool runs: what was said is on
record, with every call answered, before the run ends. The next prompt could go on from there.
"""

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator

from sessionsched import Run, RunProgress, Scheduler, Subscription
from sessionsched.steps import (
    CallDone,
    Finish,
    FunctionTool,
    Part,
    Request,
    Said,
    Step,
    StepsResult,
    Text,
    ToolResult,
    run_steps,
)

PACE_S = float(sys.argv[1]) if len(sys.argv) > 1 else 0.01
FILES = {"todo.txt": "buy milk, water the plants"}
RECORD: list[Step] = []  # your database

# --- the tools ---


async def read_file(_run: Run[str], path: str) -> str:
    """Read a file."""
    await asyncio.sleep(PACE_S * 5)
    return FILES[path]  # an exception is an error that the model reads


async def write_file(run: Run[str], path: str, text: str) -> str:
    """Write a file."""
    run.emit(f"  writing {path}")  # every tool gets the run: to show something, or to look at it
    await asyncio.sleep(PACE_S * 5)
    FILES[path] = text
    return f"{len(text)} characters written"


TOOLS = [FunctionTool(read_file), FunctionTool(write_file, exclusive=True)]

# --- the model ---

SCRIPT = [
    ("Let me look at your list.", CallDone("1", "read_file", '{"path": "todo.txt"}')),
    ("I misspell the next one.", CallDone("2", "read_file", '{"path": "tood.txt"}')),
    (
        "No matter: two things to do. I put them into an order.",
        CallDone("3", "write_file", '{"path": "todo.txt", "text": "1. plants 2. milk"}'),
    ),
    ("Done: plants first, then milk.", None),
]


async def model(request: Request) -> AsyncIterator[Part]:
    """Stream one step, word by word: here is where your provider goes."""
    text, call = SCRIPT[request.step - 1]
    for word in re.findall(r" ?\S+", text):
        await asyncio.sleep(PACE_S)
        yield Text(word)
    if call is not None:
        yield call
    yield Finish()


# --- the host ---


async def persist_step(step: Step) -> None:
    """Store one step: awaited once for each, also for one that was cut short."""
    RECORD.append(step)


async def agent(run: Run[str]) -> StepsResult:
    return await run_steps(
        run, model=model, history=[Said(run.prompt)], tools=TOOLS, persist_step=persist_step
    )


async def show(events: Subscription[str]) -> None:
    """Print what streams in, as a terminal would."""
    async for event in events:
        match event:
            case RunProgress(item=Text(text)):
                print(text, end="", flush=True)
            case RunProgress(item=str(line)):
                print(line, flush=True)
            case RunProgress(item=CallDone() as call):
                print(f"\n  {call.name}({call.input})", flush=True)
            case RunProgress(item=ToolResult() as result):
                print(f"  -> {'error: ' if result.error else ''}{result.content}", flush=True)


async def main() -> None:
    async with Scheduler(agent) as scheduler, scheduler.subscribe(run_id="turn") as events:
        with contextlib.suppress(NotImplementedError):  # there are systems without it
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, scheduler.cancel, "chat")
        handle = scheduler.submit("chat", "sort my todo list", run_id="turn")
        await show(events)
        outcome = await handle.outcome()
    print(f"\n{outcome.status}; on record:")
    for step in RECORD:
        cut = f" [{step.cause}]" if step.cause else ""
        print(f"{step.number}. {step.text}{cut}", *(f"({it.content})" for it in step.results))


if __name__ == "__main__":
    asyncio.run(main())
