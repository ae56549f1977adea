"""sessionsched.steps: the turn inside a run, for handlers that ask a model and run its tools.

`await run_steps(run, model=..., history=..., tools=..., persist_step=...)` streams steps, answers
calls, stores each step once, and keeps what was streamed when the run is canceled. It is not
imported by the core, and needs the extra `sessionsched[steps]`.
"""

try:
    import tenacity  # noqa: F401 - only to say what is missing
except ImportError as missing:
    msg = "sessionsched.steps needs tenacity: pip install 'sessionsched[steps]'"
    raise ImportError(msg, name="tenacity") from missing

from sessionsched.steps.faults import (
    ProviderCanceled,
    StreamBroken,
    StreamCut,
    StreamFault,
    StreamSilent,
)
from sessionsched.steps.history import Entry, Said, Step, ToolCall, ToolResult
from sessionsched.steps.loop import Compaction, StepsResult, WhyOver, run_steps
from sessionsched.steps.parts import (
    CallDelta,
    CallDone,
    CallStart,
    Extra,
    Finish,
    Part,
    Reasoning,
    Text,
    Usage,
)
from sessionsched.steps.request import Model, Request
from sessionsched.steps.retry import Discarded, Retry, lost_connection, retry_after
from sessionsched.steps.tools import FunctionTool, Tool, ToolOutput

__all__ = [
    "CallDelta",
    "CallDone",
    "CallStart",
    "Compaction",
    "Discarded",
    "Entry",
    "Extra",
    "Finish",
    "FunctionTool",
    "Model",
    "Part",
    "ProviderCanceled",
    "Reasoning",
    "Request",
    "Retry",
    "Said",
    "Step",
    "StepsResult",
    "StreamBroken",
    "StreamCut",
    "StreamFault",
    "StreamSilent",
    "Text",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolResult",
    "Usage",
    "WhyOver",
    "lost_connection",
    "retry_after",
    "run_steps",
]
