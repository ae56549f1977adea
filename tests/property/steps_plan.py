"""What is made up about a turn: what the model streams, what tools do, who cancels when."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from attrs import frozen

from sessionsched.steps import FunctionTool, ToolOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched import Run
    from sessionsched.steps import Part

__all__ = ["FAULTS", "LINGER_S", "MANNERS", "TOOLS", "Deed", "Line", "Plan", "linger"]

#: How long those go on who ignore every cancel.
LINGER_S: Final = 8.0

#: How a stream ends, if not by its Finish.
FAULTS: Final[dict[str, Callable[[], BaseException | None]]] = {
    "lost": ConnectionError,
    "stray cancel": asyncio.CancelledError,
    "cut off": lambda: None,
    "refused": lambda: ValueError("bad request"),
}

#: What a stream makes of being canceled.
MANNERS: Final = ("stops", "ends", "fails", "speaks", "lingers")


@frozen
class Line:
    """One stream: seconds to pass, and parts; then a Finish, or a fault."""

    items: tuple[Part | float, ...]
    fault: str = ""
    manner: str = "stops"


@frozen
class Deed:
    """What somebody does, when."""

    at: float
    #: Turns of the loop to let pass, from then on.
    turns: int
    what: str


@frozen
class Plan:
    """Everything that is made up about one turn."""

    lines: tuple[Line, ...]
    deeds: tuple[Deed, ...] = ()
    persist_s: float = 0.0
    max_steps: int = 4


async def linger(seconds: float) -> None:
    """Ignore every cancel, for a while."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while clock() < until:
        try:
            await asyncio.sleep(until - clock())
        except asyncio.CancelledError:
            continue


# --- tools ---


async def quick(run: Run[str]) -> str:
    return "quick"


async def slow(run: Run[str]) -> str:
    await asyncio.sleep(3)
    return "slow"


async def broken(run: Run[str]) -> None:
    await asyncio.sleep(1)
    raise LookupError("broken")


async def stray(run: Run[str]) -> None:
    await asyncio.sleep(0)
    raise asyncio.CancelledError


async def tidy(run: Run[str]) -> str:
    try:
        await asyncio.sleep(4)
    except asyncio.CancelledError:
        await asyncio.sleep(0.5)
        return "tidied"
    return "tidy"


async def stubborn(run: Run[str]) -> str:
    await linger(LINGER_S)
    return "stubborn"


async def enough(run: Run[str]) -> ToolOutput:
    return ToolOutput("enough", stop=True)


async def alone(run: Run[str]) -> str:
    await asyncio.sleep(2)
    return "alone"


TOOLS: Final = (
    *(FunctionTool(it) for it in (quick, slow, broken, stray, tidy, stubborn, enough)),
    FunctionTool(alone, exclusive=True),
)
