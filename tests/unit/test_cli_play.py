from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from cli_tools import typing

from sessionsched.cli import main
from sessionsched.cli.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

ESCAPE = "\x1b"
CTRL_D = "\x04"
CTRL_U = "\x15"


class Script:
    """Plays a script from a file, and gives what was printed, without times."""

    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._path = path
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *lines: str, code: int = 0) -> list[str]:
        self._path.write_text("\n".join(lines), encoding="utf-8")
        with self._path.open() as file, self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            assert main(["play", "--fast"]) == code
        self.printed = self._capsys.readouterr().out
        notes, self.ends = self.printed.split("\n\n", 1) if "\n\n" in self.printed else (
            "", self.printed,
        )  # fmt: skip
        return [line[7:] for line in notes.splitlines()]


@pytest.fixture
def script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Script:
    return Script(tmp_path / "script", monkeypatch, capsys)


# --- from a file or a pipe ---


def test_a_prompt_is_accepted_and_answered(script: Script) -> None:
    assert script("chat-1: hello") == [
        "you  chat-1   #1 accepted: hello",
        "     chat-1   #1 is handed to the agent",
        "     chat-1   #1 ended: completed",
    ]
    assert "#1   chat-1   hello   completed\n" in script.ends
    assert script.ends.endswith("accepted 1 = ended 1: 1 completed\n")


def test_a_prompt_without_a_name_goes_to_the_session_that_was_named_last(script: Script) -> None:
    notes = script("first", "chat-7: second", "third", "/quit")
    assert [note[5:] for note in notes if "accepted" in note] == [
        "chat-1   #1 accepted: first",
        "chat-7   #2 accepted: second",
        "chat-7   #3 accepted: third",
    ]


def test_prompts_can_fold_and_interrupt(script: Script) -> None:
    notes = script("chat-1: one", "chat-1+ two", "/wait 0.8", "chat-1! three")
    assert "     chat-1   #2 joins #1 at its next step" in notes
    assert "     chat-1   #1 is covered (superseded)" in notes
    assert "#2   chat-1   two     canceled (superseded), as a part of #1" in script.ends


def test_cancel_covers_what_was_accepted_before_it(script: Script) -> None:
    notes = script("chat-1: one", "chat-1: two", "/cancel chat-1", "chat-1: three")
    assert "you  chat-1   Escape: the mark is 2, it covers #1 #2" in notes
    assert script.ends.endswith("accepted 3 = ended 3: 1 completed, 2 canceled\n")


def test_a_line_that_is_held_moves_when_it_is_resumed(script: Script) -> None:
    notes = script("one", "two", "/hold", "/wait", "/state", "/resume", "/wait", "/quit")
    state = notes.index("     chat-1   is accepted, and held: runs wait, none is active")
    why = "     chat-1   #2 two: it is next, and the line is held until somebody resumes it"
    assert notes[state + 1 : state + 4] == [
        why,
        "you  chat-1   the line moves again",
        "     chat-1   #2 is handed to the agent",
    ]


def test_a_line_that_is_still_held_at_the_end_is_suspended(script: Script) -> None:
    script("one", "two", "/hold")
    assert script.ends.endswith("accepted 2 = ended 2: 1 completed, 1 suspended\n")


@pytest.mark.parametrize("which", ["/promote #3", "/promote 3", "/promote"])
def test_promote_moves_a_run_to_the_front(script: Script, which: str) -> None:
    notes = script("one", "two", "three", which)
    assert "you  chat-1   #3 promoted: the line is #3 #2" in notes
    started = [note.split()[1] for note in notes if "is handed" in note]
    assert started == ["#1", "#3", "#2"]


def test_state_says_how_a_session_stands_and_why_its_runs_wait(script: Script) -> None:
    notes = script("one", "two", "/wait 0.3", "/cancel", "three", "/state chat-1", "/state chat-2")
    assert [note[5:] for note in notes if "is canceled" in note or ": it" in note[14:]] == [
        "chat-1   is canceled: a canceled run has not ended yet; the mark is 2",
        "chat-1   #1 one: its handler runs",
        "chat-1   #2 two: it was canceled while it waited, and that is being recorded",
        "chat-1   #3 three: it is next, and #1 was canceled but has not stopped yet",
    ]
    assert "     chat-2   is idle: nothing is in flight" in notes


def test_help_fits_on_the_board_of_a_small_terminal(script: Script) -> None:
    notes = script("/help")
    assert len(notes) == 7
    assert max(map(len, notes)) + 7 <= 80
    for command in ("cancel", "hold", "resume", "promote", "state", "wait", "quit"):
        assert f"/{command}" in "".join(notes)


def test_quit_leaves_the_rest_unread(script: Script) -> None:
    notes = script("a long story", "/quit", "never read")
    assert "never read" not in "".join(notes)
    assert script.ends.endswith("accepted 1 = ended 1: 1 suspended\n")


MISTAKES = {
    "/foo": "there is no /foo; /help lists what there is",
    "/": "there is no /; /help lists what there is",
    "/cancel nobody": "nobody knows nobody; there are chat-1, chat-2, chat-3",
    "/promote": "nothing waits in chat-1",
    "/promote x": "#x doesn't wait; /state says what does",
    "/promote 99": "#99 doesn't wait; /state says what does",
    "/hold": "chat-1 is idle, or held already",
    "/resume": "chat-1 isn't held",
    "/wait soon": "/wait takes a number of seconds, not soon",
    "chat-9:": "say something to chat-9: `chat-9: hello`",
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_answered_in_one_line(script: Script, typed: str) -> None:
    assert script(typed) == [f"no            {MISTAKES[typed]}"]


def test_a_run_that_has_started_is_not_promoted(script: Script) -> None:
    assert "no            #1 doesn't wait; /state says what does" in script("one", "/promote 1")


def test_a_line_that_is_full_is_refused_with_the_reason(script: Script) -> None:
    notes = script(*["more"] * 102, "/quit")
    (refused,) = [note for note in notes if note.startswith("no ")]
    assert refused == "no            session 'chat-1' has 100 runs waiting; try again later"


def test_blank_lines_say_nothing(script: Script) -> None:
    assert script("", "   ") == []
    assert script.ends.endswith("accepted 0 = ended 0\n")


def test_a_prompt_that_is_lost_is_shouted_about(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "accounts", lambda _stage: (1, 0))
    script("hello", code=1)
    assert "accepted 1 IS NOT ended 0" in script.ends


def test_a_program_that_was_started_without_stdin_has_nothing_to_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["play"]) == 0
    assert capsys.readouterr().out.endswith("accepted 0 = ended 0\n")


# --- in a terminal ---


FAST = ["play", "--speed", "20"]


def test_escape_cancels_the_session_in_focus(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(
        monkeypatch,
        ("chat-1>", "a long story\r"),
        ("handed to the agent", ESCAPE),
        ("Escape: the mark is 1", "after it\r"),
        ("#2 ended: completed", "/quit\r"),
    ) as screen:
        assert main(FAST) == 0
    assert screen.all_pressed
    assert "accepted 2 = ended 2: 1 completed, 1 canceled" in screen.getvalue()


def test_tab_moves_the_focus_from_session_to_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(
        monkeypatch,
        ("chat-1>", "\t"),
        ("chat-2>", "\t"),
        ("chat-3>", "\t"),
        ("chat-1>", CTRL_D),
    ) as screen:
        assert main(["play", "--fast"]) == 0
    assert screen.all_pressed


def test_a_line_can_be_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = f"rubbish{CTRL_U}hellp\x7f\x7flo w\x01\x1b[Dörld\n"
    with typing(monkeypatch, ("chat-1>", typed), ("#1 accepted: hello wörld", CTRL_D)) as screen:
        assert main(FAST) == 0
    assert screen.all_pressed


def test_leaving_does_not_wait_for_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with typing(monkeypatch, ("chat-1>", "/wait 9999\r"), ("chat-1>", CTRL_D)) as screen:
        assert main(FAST) == 0
    assert "accepted 0 = ended 0" in screen.getvalue()


def test_a_bug_in_a_command_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Stage, "send", fails)
    with typing(monkeypatch, ("chat-1>", "hello\r")), pytest.raises(ZeroDivisionError):
        main(FAST)


def test_ctrl_c_closes_and_shows_how_every_run_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal in here is not the one that signals come from: the signal is sent instead."""
    with typing(
        monkeypatch, ("chat-1>", "a long story\r"), ("handed to the agent", "\x02")
    ) as screen:
        seen = screen.write

        def write(text: str) -> int:
            written = seen(text)
            if screen.all_pressed and not interrupted:
                interrupted.append("once")
                os.kill(os.getpid(), signal.SIGINT)
            return written

        interrupted: list[str] = []
        monkeypatch.setattr(screen, "write", write)
        assert main(FAST) == 130
    assert "accepted 1 = ended 1: 1 suspended" in screen.getvalue()
