"""The command: `python -m sessionsched.testing.contract -- ./my-scheduler --its --options`.

It gives 0 if every sentence held, 1 if one was broken, and 2 if the program could not be tried.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessionsched.testing.contract.every import every_story
from sessionsched.testing.contract.pipe import Peer, PeerFailed, PipeAdapter
from sessionsched.testing.contract.play import Play, replay
from sessionsched.testing.contract.story import story_of
from sessionsched.testing.contract.transcript import SAMPLE, calls_of, lines_of
from sessionsched.testing.explore.judge import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionsched.testing.contract.report import Report
    from sessionsched.testing.contract.story import Story

HELD, BROKEN, UNTRIED = 0, 1, 2


def main(argv: list[str] | None = None) -> int:
    """Try the program that the arguments name. Gives the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.sample:
        _print(lines_of(SAMPLE), end="")
        return HELD
    if not args.command:
        parser.error("which program? (-- ./my-scheduler)")
    try:
        peer = Peer(args.command, args.patience)
        try:
            return _replay(peer, args.replay) if args.replay else _check(peer, args)
        finally:
            peer.close()
    except (PeerFailed, OSError, ValueError) as error:
        _print("\n".join([str(error), *getattr(error, "__notes__", ())]))
        return UNTRIED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sessionsched.testing.contract", description=(
        "Try a scheduler that speaks JSON lines on stdin and stdout (docs/pipe-protocol.md), and "
        "judge what it does by the contract."
    ))  # fmt: skip
    parser.add_argument("--examples", type=int, default=1000, help="how many stories are tried")
    parser.add_argument("--calls", type=int, default=16, help="rules in each story, at most")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds for each answer")
    parser.add_argument("--every", type=int, metavar="N", help=(
        "no sampling: every story of up to N calls in one session (4 takes a while over a pipe)"
    ))  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--save", metavar="FILE", help=(
        "write the shortest story that goes wrong as a transcript: ./my-scheduler < FILE"
    ))  # fmt: skip
    parser.add_argument("--replay", metavar="FILE", help=(
        "send a transcript, show every line, and judge that story alone (- is stdin)"
    ))  # fmt: skip
    parser.add_argument("--sample", action="store_true", help="print a transcript to begin with")
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="the program")
    return parser


def _report(make: Callable[[], PipeAdapter], name: str, args: argparse.Namespace) -> Report:
    if args.every is not None:
        return every_story(make, calls=args.every, name=name)
    from sessionsched.testing.contract import check  # noqa: PLC0415 - needs Hypothesis

    return check(make, examples=args.examples, steps=args.calls, name=name)


def _check(peer: Peer, args: argparse.Namespace) -> int:
    report = _report(partial(PipeAdapter, peer), Path(args.command[0]).name, args)
    _print(json.dumps(_as_json(report)) if args.json else str(report))
    if report.story is None:
        return HELD
    if args.save:
        Path(args.save).write_text(_transcript(peer, report.story), encoding="utf-8")
    return BROKEN


def _transcript(peer: Peer, story: Story) -> str:
    adapter = PipeAdapter(peer)
    replay(adapter, story.script)
    return lines_of(adapter.sent)


def _as_json(report: Report) -> dict[str, Any]:
    story = report.story
    return {
        "name": report.name,
        "ok": report.ok,
        "examples": report.examples,
        "seconds": round(report.seconds, 3),
        "judged": report.judged,
        "skipped": report.skipped,
        "broken": None if story is None else {
            "sentence": story.sentence,
            "text": story.text,
            "story": [line.strip() for line in story.lines],
            "diagram": story.diagram,
        },
    }  # fmt: skip


class _Shown(PipeAdapter):
    """Shows every line that goes out and comes back."""

    def _ask(self, do: str, **more: Any) -> dict[str, Any]:
        _print(f"> {json.dumps({'do': do, **more})}")
        answer = super()._ask(do, **more)
        _print(f"< {json.dumps(answer)}")
        return answer


def _replay(peer: Peer, file: str) -> int:
    """Tell one story, as it is written, and judge it; what it leaves open is left open."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    calls = calls_of(text)
    play = Play(_Shown(peer))
    try:
        for call in calls:
            if not play.make(call):
                _print(f"  (not possible here, and not sent: {call.verb})")
    except Violation:
        _print(str(story_of(play)))
        return BROKEN
    _print("every sentence held, as far as the story goes")
    return HELD


def _print(text: str, end: str = "\n") -> None:
    sys.stdout.write(f"{text}{end}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
