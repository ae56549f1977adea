"""The contract, as a test of any scheduler that can be wrapped in a few lines.

    from sessionsched.testing.contract import Adapter, contract_for

    class Mine(Adapter): ...

    TestMine = contract_for(Mine).TestCase

docs/testing-your-own.md shows it from the start; adapter.py says what an adapter does; and
docs/pipe-protocol.md is for schedulers in other languages. The adapter can be imported without
Hypothesis; `SchedulerContract`, `contract_for` and `check` need it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sessionsched.model import How, Status
from sessionsched.testing.contract.adapter import Adapter, Feature, News
from sessionsched.testing.contract.calls import Call
from sessionsched.testing.contract.every import every_story
from sessionsched.testing.contract.loops import LoopAdapter
from sessionsched.testing.contract.report import Report
from sessionsched.testing.contract.sentences import SENTENCES
from sessionsched.testing.contract.story import ContractBroken, Story

if TYPE_CHECKING:
    from sessionsched.testing.contract.checking import check
    from sessionsched.testing.contract.rules import SchedulerContract, contract_for

__all__ = [
    "SENTENCES",
    "Adapter",
    "Call",
    "ContractBroken",
    "Feature",
    "How",
    "LoopAdapter",
    "News",
    "Report",
    "SchedulerContract",
    "Status",
    "Story",
    "check",
    "contract_for",
    "every_story",
]

#: What needs Hypothesis is imported when somebody asks for it.
_LATER = {"check": "checking", "SchedulerContract": "rules", "contract_for": "rules"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        module = importlib.import_module(f"{__name__}.{_LATER[name]}")
    except ModuleNotFoundError as missing:
        msg = f"{name} needs Hypothesis: pip install 'sessionsched[testing]'"
        raise ModuleNotFoundError(msg, name=missing.name) from missing
    return getattr(module, name)
