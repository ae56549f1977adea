"""langgraph: a graph of one node, called ten times by each session."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypedDict

from benchmarks.bases import on_loop
from benchmarks.lines import PER_SESSION

if TYPE_CHECKING:
    from benchmarks.stopwatch import Stopwatch

__all__ = ["langgraph_one_node"]


class Turn(TypedDict):
    """The state of the graph."""

    number: int


async def node(state: Turn) -> Turn:
    """Do nothing; a node gives back a state."""
    return state


@on_loop
async def langgraph_one_node(watch: Stopwatch, n: int) -> None:
    """One task for each session, that calls the graph once for each run; nothing is stored."""
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415 - a peer is there, or not

    builder: Any = StateGraph(Turn)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    graph = builder.compile()

    async def session() -> None:
        for number in range(PER_SESSION):
            await graph.ainvoke({"number": number})

    with watch:
        for task in [asyncio.create_task(session()) for _ in range(n // PER_SESSION)]:
            await task
