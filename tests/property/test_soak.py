# ruff: noqa: E501 - a table of stories reads better with each in one line
"""The soak, for a little while; and that it would notice."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from sessionsched import (
    CancelReceipt,
    Cause,
    Run,
    RunAccepted,
    RunCanceling,
    RunEnded,
    RunStarted,
    Status,
    WhenBusy,
)
from sessionsched.hub import Hub
from sessionsched.testing.crowd import Prompt
from sessionsched.testing.judge import judge
from sessionsched.testing.ledger import Ledger, Visit
from sessionsched.testing.soak import TOLERANCE, WARM, Report, main

if TYPE_CHECKING:
    from collections.abc import Callable

LITTLE: Final = ["--rounds", "3", "--sessions", "300", "--calls", "3000", "--seed", "1"]
ENDS: Final = {
    "": (Status.COMPLETED, None), "f": (Status.FAILED, None), "u": (Status.FAILED, Cause.UNPREPARED),
    "i": (Status.CANCELED, Cause.INTERRUPT), "p": (Status.CANCELED, Cause.SUPERSEDED), "d": (Status.CANCELED, Cause.DEADLINE),
    "x": (Status.CANCELED, Cause.EXPIRED), "e": (Status.SUSPENDED, Cause.EXTERNAL), "z": (Status.SUSPENDED, Cause.SHUTDOWN),
}  # fmt: skip


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False)  # noqa: S603


@pytest.mark.contract("R4", "S5", "S7", "T1", "T3", "X1", "X2", "D1", "D2", "R1")
def test_a_little_soak_loses_no_run_and_keeps_nothing() -> None:
    done = python("-W", "error", "-m", "sessionsched.testing.soak", *LITTLE)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    rounds = re.findall(r"round \d: ([\d,]+) accepted, ([\d,]+) ended", done.stdout)
    assert len(rounds) == 3
    assert all(accepted == ended != "0" for accepted, ended in rounds)
    assert done.stdout.endswith("all is well\n")


def test_an_end_that_nobody_is_told_of_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right, count = Hub.publish, itertools.count(1)

    def publish(hub: Hub[Any], kind: type[Any], *about: Any) -> None:
        if kind is not RunEnded or next(count) % 500:
            right(hub, kind, *about)

    monkeypatch.setattr(Hub, "publish", publish)
    assert main(LITTLE) == 1
    assert re.search(r"WRONG: round 1: T1: it ended 0 times: prompt \d+", capsys.readouterr().out)


#: In a process of its own: what is stuck stays so.
LOSES_REPORTS: Final = """
import itertools, sys
from sessionsched.table import Table
from sessionsched.testing.soak import main
right, count = Table.finish, itertools.count(1)
Table.finish = lambda *about, **how: next(count) % 500 and right(*about, **how)
sys.exit(main(sys.argv[1:]))
"""


def test_a_run_that_never_ends_fails_the_command_and_does_not_hang_it() -> None:
    done = python("-c", LOSES_REPORTS, *LITTLE, "--patience", "2")
    assert done.returncode == 1
    assert "S1: the close does not come to an end" in done.stdout


def test_memory_that_is_kept_is_noticed() -> None:
    report = Report()
    for _ in range(WARM):
        report.add(Counter(), (1000, 1000), [])
    report.add(Counter(), (1000 + TOLERANCE, 500), [])
    assert report.ok
    report.add(Counter(), (1000, 1001 + TOLERANCE), [])
    assert not report.ok
    assert "2,001 more objects or blocks are kept" in str(report)


# --- what the ledger is judged by ---


class Story:
    """A history in words: `+1` asked and accepted, `s1` started, `(1` and `)1` its handler, `r1` an
    error leaves it, `o1` on_dropped, `c1` covered, `x1` a cancel of its session that names it, `x0` one
    that names nobody, `f3` it joins run 1, `z0` the close begins, `e1i` its end as INTERRUPT (see ENDS).
    Odd numbers are of one session.
    """

    def __init__(self, script: str, *, one_thread: bool = True) -> None:
        self.ledger = Ledger(one_thread=one_thread)
        self.runs: dict[int, Run[Prompt]] = {}
        self.numbers = itertools.count(1)
        for word in script.split():
            self.tell(word[0], int(word[1]), word[2:])

    def tell(self, what: str, number: int, how: str) -> None:
        if what == "+":
            self.runs[number] = Run(
                f"session {number % 2}", Prompt(number), f"run {number}", WhenBusy(how or "queue")
            )
            self.runs[number].seq = number
            self.ledger.accepted(
                self.ledger.asked(
                    f"session {number % 2}", number, {"when_busy": WhenBusy(how or "queue")}
                )
            )
            self.event(RunAccepted, number)
        elif what in "(o":
            visits = (
                self.ledger.lives[number].handled
                if what == "("
                else self.ledger.lives[number].dropped
            )
            visits.append(Visit(self.ledger.tick(), self.ledger.tick() if what == "o" else 0))
        elif what in ")r":
            visit = self.ledger.lives[number].handled[-1]
            visit.ended, visit.error = (
                self.ledger.tick(),
                ValueError(number) if what == "r" else None,
            )
        elif what == "x":
            covered = (self.runs[number],) if number else ()
            self.ledger.canceled(
                self.ledger.tick(), [CancelReceipt("session 1", dropped=covered)], None, "session 1"
            )
        elif what == "f":
            self.ledger.lives[number].takers.append(self.ledger.lives[1])
        elif what == "z":
            self.ledger.closing = self.ledger.tick()
        elif what == "e":
            self.end(number, *ENDS[how])
        else:
            self.event(
                {"s": RunStarted, "c": RunCanceling}[what],
                number,
                *([Cause.INTERRUPT] * (what == "c")),
            )

    def end(self, number: int, status: Status, cause: Cause | None) -> None:
        run, handled = self.runs[number], self.ledger.lives[number].whole.handled
        error = handled[-1].error if handled else None
        run.accepted_at, run.started_at = 0.0, 0.0 if handled else None
        run.conclude((status, cause), None, error, 0.0)
        self.event(RunEnded, number)

    def event(self, kind: Any, number: int, *more: object) -> None:
        self.ledger.told(kind(next(self.numbers), 0.0, self.runs[number], *more))


GOOD: Final = [
    "+1 s1 (1 )1 e1",
    "+1 s1 (1 r1 e1f",
    "+1 +3 s1 (1 x3 c3 o3 e3i )1 e1i x1",
    "+1 s1 (1 x1 c1 +3 )1 e1i s3 (3 )3 e3",
    "+1 s1 (1 c1 +3interrupt )1 e1p s3 (3 )3 e3",
    "+1 +2 s1 (1 s2 (2 )1 )2 e2 e1",
    "+1 s1 (1 +3fold f3 )1 e1 e3",
    "+1 z0 c1 o1 e1z",
]
BAD: Final = [
    ("T1: it ended 0 times", "+1 s1 (1 )1"),
    ("T1: it ended 0 times", "+1 +3 s1 (1 )1 e1"),
    ("T1: it ended 2 times", "+1 s1 (1 )1 e1 e1"),
    ("T1: its outcome says started=False", "+1 s1 e1i (1 )1"),
    ("T6: RunStarted after its end", "+1 (1 )1 e1 s1"),
    ("A3: accepted or started more than once", "+1 s1 s1 (1 )1 e1"),
    ("P1: seen by (0, 0, 0)", "+1 x1 c1 e1i"),
    ("P1: seen by (1, 0, 1)", "+1 s1 (1 )1 o1 e1"),
    ("P1: seen by (2, 0, 0)", "+1 s1 (1 )1 (1 )1 e1"),
    ("P1: its end was told before its drop", "+1 x1 c1 e1i o1"),
    ("X1: in flight when it was canceled, and completed", "+1 s1 (1 x0 )1 e1"),
    ("X1: in flight when it was canceled, and failed", "+1 s1 (1 x0 r1 e1f"),
    ("X7: canceled, and then its handler was called", "+1 s1 x1 c1 (1 )1 e1i"),
    ("X7: <Run run 1", "+1 c1 s1 (1 x1 )1 e1i"),
    ("X8: it ended while its handler was going on", "+1 s1 (1 e1"),
    ("X11: (<Status.CANCELED: 'canceled'>, <Cause.INTERRUPT: 'interrupt'>), and 0 receipts", "+1 s1 (1 c1 )1 e1i"),
    ("X12: nobody can have given the cause superseded", "+1 s1 (1 c1 )1 e1p"),
    ("X12: nobody can have given the cause deadline", "+1 s1 (1 c1 )1 e1d"),
    ("X12: nobody can have given the cause expired", "+1 c1 o1 e1x"),
    ("X12: nobody can have given the cause unprepared", "+1 c1 o1 e1u"),
    ("X12: nobody can have given the cause shutdown", "+1 c1 o1 e1z"),
    ("X13: completed, and its handler left with ValueError(1)", "+1 s1 (1 r1 e1"),
    ("X13: failed, and its handler left with None", "+1 s1 (1 )1 e1f"),
    ("X13: external, and its handler left with ValueError(1)", "+1 s1 (1 r1 e1e"),
    ("D1: the handler for prompt 3 of 'session 1' was called while", "+1 s1 (1 +3 (3 )1 e1 s3 )3 e3"),
    ("D2: <Run run 1", "+1 +3 s3 (3 )3 e3 s1 (1 )1 e1"),
    ("T2: <Run run 3", "+1 +3 s1 (1 )1 s3 e1 (3 )3 e3"),
    ("S1: accepted after the close", "z0 +1 s1 (1 )1 e1"),
    ("S3: suspended, and its handler returned", "+1 s1 (1 z0 c1 )1 e1z"),
    ("F3: ", "+1 s1 (1 +3fold f3 )1 e1 e3i"),
    ("T2: <Run run 3", "+1 +3 x1 c1 o1 s3 (3 e1i )3 e3"),
]  # fmt: skip


@pytest.mark.parametrize("script", GOOD)
def test_what_is_right_is_not_complained_of(script: str) -> None:
    assert judge(Story(script).ledger) == []


@pytest.mark.parametrize(("complaint", "script"), BAD)
def test_a_wrong_history_is_complained_of(complaint: str, script: str) -> None:
    assert [it for it in judge(Story(script).ledger) if it.startswith(complaint)] != []


TAMPERED: Final[list[tuple[str, str, Callable[[Ledger], object]]]] = [
    ("A4: neither accepted nor refused, or both", "+1 s1 (1 )1 e1", lambda it: setattr(it.lives[1], "refused", True)),
    ("A4: neither accepted nor refused, or both", "+1 s1 (1 )1 e1", lambda it: it.asked("session 1", 3, {})),
    ("X2: covered by a cancel that came before it", "+1 x1 c1 o1 e1i", lambda it: setattr(it.lives[1], "began", 99)),
    ("X6: its handler returned 'this'", "+1 s1 (1 )1 e1", lambda it: setattr(it.lives[1].handled[0], "result", "this")),
    ("X6: its handler raised ValueError", "+1 s1 (1 r1 e1f", lambda it: setattr(it.lives[1].handled[0], "error", ValueError("other"))),
    ("P2: recording its drop raised OSError", "+1 x1 c1 o1 e1i", lambda it: setattr(it.lives[1].dropped[0], "error", OSError("full"))),
    ("D3: preparing it raised OSError", "+1 s1 (1 )1 e1", lambda it: it.lives[1].prepared.append(Visit(1, 2, error=OSError("no")))),
    ("T6: event 2 came after 3", "+1 s1 (1 )1 e1", lambda it: it.events.reverse()),
    ("told at once", "+1 s1 (1 )1 e1", lambda it: it.complaints.append("told at once")),
]  # fmt: skip


@pytest.mark.parametrize(("complaint", "script", "tamper"), TAMPERED)
def test_a_ledger_that_was_tampered_with_is_complained_of(
    complaint: str, script: str, tamper: Callable[[Ledger], object]
) -> None:
    ledger = Story(script).ledger
    tamper(ledger)
    assert [it for it in judge(ledger) if it.startswith(complaint)] != []


def test_what_threads_leave_open_is_not_complained_of() -> None:
    returned_before_the_cancel = "+1 s1 (1 )1 x0 e1"
    assert judge(Story(returned_before_the_cancel, one_thread=False).ledger) == []
    assert judge(Story(returned_before_the_cancel, one_thread=True).ledger) != []
