"""The arguments of every command, and what each one calls. Imports nothing that it may not need."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - it has no other name

__all__ = ["parser"]

#: Some bugs can't exist with fewer prompts.
FEWEST: Final = 3

EPILOG: Final = """\
exit codes:
  0    all is well
  1    something is wrong with a scheduler
  2    a mistake in the arguments, or something is not installed or can't be written
  130  Ctrl-C
"""


def parser() -> argparse.ArgumentParser:
    """Make the parser; the parsed `run` takes the arguments and gives the exit code."""
    top = argparse.ArgumentParser(
        prog="sessionsched",
        description="A session scheduler for agent hosts: see it, try it, and check it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _demo(commands)
    _play(commands)
    _explore(commands)
    _zoo(commands)
    _diagram(commands)
    return top


def _demo(commands: Commands) -> None:
    sub = _command(commands, "demo", "a show of half a minute: five scenes on a real scheduler", (
        "Live in a terminal: any key goes to the next scene, q to the end, Ctrl-C out. Elsewhere "
        "as text, without waiting. The same seed shows the same."
    ))  # fmt: skip
    _agent(sub)
    sub.add_argument("--plain", action="store_true", help="as text, also in a terminal")
    sub.set_defaults(run=_run_demo)


def _play(commands: Commands) -> None:
    sub = _command(commands, "play", "the same agent, and you type", (
        "Type `chat-1: hello`, and /help for the rest. Escape cancels the session in focus, Tab "
        "goes to the next. Reads commands from a pipe too, one in a line."
    ))  # fmt: skip
    _agent(sub)
    sub.set_defaults(run=_run_play)


def _explore(commands: Commands) -> None:
    sub = _command(commands, "explore", "every interleaving of prompts and cancels", (
        "Walk every interleaving on the real table, no sampling, and judge each step by the "
        "contract. A broken sentence is told as the shortest story that leads there."
    ))  # fmt: skip
    sub.add_argument("--prompts", type=_prompts, default=4, metavar="N", help="in all (4)")
    sub.add_argument("--cancels", type=_count, default=2, metavar="N", help="of every kind (2)")
    sub.add_argument("--holds", type=_count, default=1, metavar="N", help="in all (1)")
    sub.add_argument("--promotes", type=_count, default=1, metavar="N", help="in all (1)")
    sub.add_argument("--in-flight", type=_prompts, metavar="N", help=(
        "histories of any length, with at most N runs in flight (overrides the four above)"
    ))  # fmt: skip
    sub.add_argument("--sessions", type=int, choices=(1, 2), default=1, help="1 or 2 (1)")
    sub.add_argument(
        "--slots", type=_slots, metavar="N", help="runs active at once, in all sessions"
    )
    sub.add_argument("--lag", action="store_true", help="effects are carried out late, in order")
    sub.add_argument("--everything", action="store_true", help=(
        "also supersede, deadline, expiry, withdrawal, failed preparation and shutdown"
    ))  # fmt: skip
    sub.add_argument("--plan", choices=("quick", "thorough"), help=(
        "several worlds at once, as `make test` and `make verify` do (overrides all of the above)"
    ))  # fmt: skip
    _json(sub)
    sub.set_defaults(run=_run_explore)


def _zoo(commands: Commands) -> None:
    sub = _command(commands, "zoo", "schedulers with one historical bug each, all caught", (
        "Run the kit over small schedulers, each with one bug that an agent host has shipped, and "
        "over one that has none. Needs the extra `testing`."
    ))  # fmt: skip
    sub.add_argument("--examples", type=_count, default=500, metavar="N", help=(
        "how many stories the scheduler without a bug is told (500)"
    ))  # fmt: skip
    how = sub.add_mutually_exclusive_group()
    how.add_argument("--stories", action="store_true", help="also how each was caught")
    _json(how)
    sub.set_defaults(run=_run_zoo)


def _diagram(commands: Commands) -> None:
    sub = _command(commands, "diagram", "the states of a session, printed from the code", (
        "Print docs/state-diagram.md: Mermaid pictures, and every row of the table with its reason."
    ))  # fmt: skip
    choice = sub.add_mutually_exclusive_group()
    choice.add_argument("--write", type=Path, metavar="PATH", help="write the page to this file")
    choice.add_argument("--table", action="store_true", help="states and rows as plain text")
    _json(choice)
    sub.set_defaults(run=_run_diagram)


def _command(commands: Commands, name: str, short: str, long: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=short, description=f"{short.capitalize()}. {long}")


def _agent(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--seed", type=int, default=1, metavar="N", help=(
        "decides what the agent says, and how fast (1)"
    ))  # fmt: skip
    pace = sub.add_mutually_exclusive_group()
    pace.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="X times as fast (1)")
    pace.add_argument("--fast", action="store_const", const=0.0, dest="speed", help="don't wait")


def _json(sub: argparse._ActionsContainer) -> None:
    sub.add_argument("--json", action="store_true", help="one JSON document, for machines")


# --- values ---


def _count(text: str) -> int:
    if not text.isdecimal():
        msg = f"a whole number of zero or more, not {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _slots(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("at least one, or nothing ever runs")
    return int(text)


def _prompts(text: str) -> int:
    if _count(text) < FEWEST:
        msg = f"at least {FEWEST}: some bugs can't exist with fewer"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        msg = f"a number above zero, not {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return speed


# --- what each command calls ---


def _run_demo(args: argparse.Namespace) -> int:
    from sessionsched.cli.demo import demo  # noqa: PLC0415 - it needs rich

    return demo(seed=args.seed, speed=args.speed, as_text=args.plain)


def _run_play(args: argparse.Namespace) -> int:
    from sessionsched.cli.play import play  # noqa: PLC0415 - it needs rich

    return play(seed=args.seed, speed=args.speed)


def _run_explore(args: argparse.Namespace) -> int:
    from sessionsched.cli.explore import explore  # noqa: PLC0415 - it loads the testing kit

    return explore(args)


def _run_zoo(args: argparse.Namespace) -> int:
    from sessionsched.cli.zoo import zoo  # noqa: PLC0415 - as above

    return zoo(args)


def _run_diagram(args: argparse.Namespace) -> int:
    from sessionsched.cli.diagram import diagram  # noqa: PLC0415 - as above

    return diagram(args)
