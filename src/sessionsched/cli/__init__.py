"""The command line: `sessionsched demo`, `play`, `explore`, `zoo`, `diagram`.

Rule 1. Nothing of this is imported by `import sessionsched`, and `rich` only by what draws: without
        the extra, `--help` and all that needs no picture still work.
Rule 2. A mistake of the user is one line on stderr and exit code 2, never a traceback.

Exit codes: 0, all is well; 1, something is wrong with a scheduler; 2, a mistake in the arguments,
or something is not installed or can't be written; 130, Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final

from sessionsched.cli.arguments import parser

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

#: What may be missing, and the extra that brings it.
EXTRAS: Final = {"rich": "cli", "hypothesis": "testing"}

MISTAKE: Final = 2
INTERRUPTED: Final = 130
#: What a shell says of a program that wrote into a closed pipe.
NOBODY_READS: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Gives the exit code."""
    args = parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a prompt may have letters that it hasn't
        sys.stdout.reconfigure(errors="replace")
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return NOBODY_READS
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in EXTRAS:
            raise  # not a mistake of the user's
        return _mistake(
            f"{missing} is not installed; pip install 'sessionsched[{EXTRAS[missing]}]'"
        )
    except OSError as error:
        return _mistake(str(error))
    return code


def _mistake(text: str) -> int:
    sys.stderr.write(f"sessionsched: {text}\n")
    return MISTAKE


def _stop_writing() -> None:
    """Let Python's own last flush go nowhere, or it would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
