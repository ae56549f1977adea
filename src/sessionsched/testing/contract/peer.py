"""The other end of the pipe: puts any adapter behind JSON lines on stdin and stdout.

    python -m sessionsched.testing.contract.peer

is the reference peer: our own table. It is also the quickest way to try a line by hand.

Rule 1. Every line in gets one line out, whatever is in it.
Rule 2. A line that can't be obeyed gets `error`, and changes nothing but what it says.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from sessionsched.model import How
from sessionsched.testing.contract.adapter import Adapter, Feature
from sessionsched.testing.contract.ours.table import TableAdapter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Served", "main", "serve"]


class Served:
    """One adapter after the other, asked in JSON."""

    def __init__(self, make: Callable[[], Adapter]) -> None:
        self.make = make
        #: Used until the next `begin`.
        self.adapter = make()
        #: How much of its history was told.
        self._told = 0

    def answer(self, line: str) -> str:
        """Give the line that answers one line."""
        try:
            request = json.loads(line)
            answer = self._obey(request.pop("do"), request)
        except Exception as error:  # noqa: BLE001 - whoever asks is to hear of it
            return json.dumps({"error": f"{type(error).__name__}: {error}"})
        news = [[part for part in it if part != ""] for it in self.adapter.history[self._told :]]
        self._told += len(news)
        return json.dumps({**answer, "news": news} if news else answer)

    def _obey(self, do: str, request: dict[str, Any]) -> dict[str, Any]:
        match do:
            case "hello":
                names = [str(it) for it in Feature if it in self.adapter.features]
                return {"features": names, "ordered": self.adapter.ordered}
            case "begin":
                self._begin()
            case "accept" | "follow_up":
                return {"seq": getattr(self.adapter, do)(request["session"])}
            case "fold":
                return {"took": [*self.adapter.fold(request["seq"])]}
            case "step":
                return {"more": self.adapter.step()}
            case _:
                self._obey_without_answer(do, request)
        return {}

    def _obey_without_answer(self, do: str, request: dict[str, Any]) -> None:
        match do, request:
            case "rest" | "close", _:
                getattr(self.adapter, do)()
            case "finish", {"seq": seq, "how": how}:
                self.adapter.finish(seq, How(how))
            case "settle", {"seq": seq, "failed": failed}:
                self.adapter.settle(seq, failed=failed)
            case "cancel_up_to", {"session": session, "seq": seq}:
                self.adapter.cancel_up_to(session, seq)
            case "ready" | "cancel_one", {"seq": seq}:
                getattr(self.adapter, do)(seq)
            case (
                "cancel" | "cancel_active" | "cancel_waiting" | "hold" | "resume",
                {"session": session},
            ):
                getattr(self.adapter, do)(session)
            case _:
                msg = f"can't obey {do!r} with {request}"
                raise ValueError(msg)

    def _begin(self) -> None:
        self.adapter.stop()
        self.adapter = self.make()
        self._told = 0


def serve(
    make: Callable[[], Adapter], lines: Iterable[str], write: Callable[[str], object]
) -> None:
    """Answer line by line, until there are no more."""
    served = Served(make)
    for line in lines:
        if line.strip():
            write(f"{served.answer(line)}\n")
    served.adapter.stop()


def main() -> None:
    """Be the reference peer."""

    def write(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    serve(TableAdapter, sys.stdin, write)


if __name__ == "__main__":
    main()
