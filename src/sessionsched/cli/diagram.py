"""`sessionsched diagram`: a thin front for sessionsched.diagram."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from sessionsched.diagram import meanings, page, plain_text, when
from sessionsched.model import Event, SessionState
from sessionsched.rows import ROWS, SENTENCES

if TYPE_CHECKING:
    import argparse

__all__ = ["diagram"]


def diagram(args: argparse.Namespace) -> int:
    """Print the page, the tables or JSON, or write the page.

    Raises:
        OSError: the file can't be written.
    """
    if args.write is not None:
        args.write.write_text(page(), encoding="utf-8", newline="\n")
        print(f"{args.write}: {len(SessionState)} states, {len(ROWS)} rows")
    elif args.json:
        print(json.dumps(_document(), indent=2))
    else:
        sys.stdout.write(plain_text() if args.table else page())
    return 0


def _document() -> dict[str, object]:
    return {
        "states": {state: sentence for state, (sentence, _) in SENTENCES.items()},
        "events": meanings(Event),
        "rows": [
            {
                "from": row.source,
                "event": row.event,
                "when": when(row) or None,
                "to": row.target,
                "because": row.because,
            }
            for row in ROWS
        ],
    }
