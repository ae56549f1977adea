from __future__ import annotations

import importlib
import io
import json
import os
import runpy
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

import sessionsched.cli.explore as front
from sessionsched import diagram
from sessionsched.cli import main
from sessionsched.cli.arguments import parser
from sessionsched.cli.progress import progress
from sessionsched.rows import ROWS
from sessionsched.testing.explore import Config, Report
from sessionsched.testing.explore.plans import PLANS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = ["explore", "--prompts", "3", "--cancels", "0", "--holds", "0", "--promotes", "0"]


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The last line that is said about a mistake in the arguments."""
    with pytest.raises(SystemExit) as left:
        main(args)
    assert left.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


# --- arguments ---


@pytest.mark.parametrize("command", ["", "demo", "play", "explore", "zoo", "diagram"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*command.split(), "--help"])
    assert left.value.code == 0
    assert f"usage: sessionsched {command}".rstrip() in capsys.readouterr().out


MISTAKES = {
    (): "the following arguments are required: COMMAND",
    ("dance",): "invalid choice: 'dance'",
    ("demo", "--speed", "0"): "a number above zero, not '0'",
    ("demo", "--speed", "fast"): "a number above zero, not 'fast'",
    ("demo", "--speed", "nan"): "a number above zero, not 'nan'",
    ("demo", "--speed", "2", "--fast"): "not allowed with argument",
    ("demo", "--seed", "x"): "invalid int value: 'x'",
    ("explore", "--prompts", "2"): "at least 3: some bugs can't exist with fewer",
    ("explore", "--cancels", "-1"): "a whole number of zero or more, not '-1'",
    ("explore", "--slots", "0"): "at least one, or nothing ever runs",
    ("diagram", "--json", "--table"): "not allowed with argument",
}


@pytest.mark.parametrize("args", MISTAKES)
def test_a_mistake_in_the_arguments_is_told_in_words(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert MISTAKES[args] in refused(capsys, *args)


def test_the_plans_are_those_of_the_explorer() -> None:
    for plan in PLANS:
        assert parser().parse_args(["explore", "--plan", plan]).plan == plan


def test_it_can_be_run_as_a_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sessionsched", "diagram", "--table"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("sessionsched", run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out == diagram.plain_text()


def test_importing_the_module_that_is_run_runs_nothing() -> None:
    assert importlib.import_module("sessionsched.__main__").main is main


# --- what can go wrong around it ---


@pytest.mark.parametrize("command", ["demo", "play"])
def test_without_rich_one_line_says_what_to_install(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("sessionsched.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("rich.console", "rich.live"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main([command]) == 2
    said = "sessionsched: rich is not installed; pip install 'sessionsched[cli]'\n"
    assert capsys.readouterr() == ("", said)


def test_without_rich_what_draws_nothing_still_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert main(SMALL) == 0
    assert main(["diagram"]) == 0


def test_a_module_of_ours_that_is_missing_is_a_bug_and_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sessionsched.cli.diagram", None)
    with pytest.raises(ModuleNotFoundError):
        main(["diagram"])


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (BrokenPipeError, 141)])
def test_leaving_early_is_no_traceback(
    error: type[BaseException],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def interrupted(*_args: object) -> None:
        raise error

    stdout = os.fdopen(os.dup(1), "w")
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr("sessionsched.cli.diagram.page", interrupted)
    assert main(["diagram"]) == code
    stdout.close()
    assert capfd.readouterr() == ("", "")


def test_letters_that_the_output_has_not_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr("sessionsched.cli.diagram.page", lambda: "wörld")
    assert main(["diagram"]) == 0
    assert written.getvalue() == b"w?rld"


# --- diagram ---


@pytest.mark.parametrize(
    ("args", "prints"), [([], diagram.page), (["--table"], diagram.plain_text)]
)
def test_diagram_prints_what_the_module_does(
    args: list[str], prints: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagram", *args]) == 0
    assert capsys.readouterr().out == prints()


def test_diagram_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.md"
    assert main(["diagram", "--write", str(path)]) == 0
    assert path.read_text(encoding="utf-8") == diagram.page()
    assert capsys.readouterr().out == f"{path}: 5 states, {len(ROWS)} rows\n"


def test_diagram_says_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no such folder" / "page.md"
    assert main(["diagram", "--write", str(path)]) == 2
    assert capsys.readouterr().err.startswith("sessionsched: ")


def test_diagram_has_every_row_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagram", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert list(read["states"]) == ["idle", "accepted", "active", "queued", "canceled"]
    assert len(read["events"]) == 6
    assert [(row["from"], row["event"], row["when"], row["to"]) for row in read["rows"]] == [
        (row.source, row.event, diagram.when(row) or None, row.target) for row in ROWS
    ]


# --- explore ---


def test_explore_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SMALL) == 0
    assert capsys.readouterr().out.endswith(" s: every sentence held\n")


def test_explore_is_also_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["world"], report["ok"], report["sentence"]) == (None, True, None)
    assert report["config"]["prompts"] == 3
    assert report["config"]["in_flight"] is None
    assert report["states"] > 50


ARGUMENTS: dict[str, Config] = {
    "": Config(4, 2),
    "--prompts 5 --cancels 0 --holds 3 --promotes 0": Config(5, 0, 3, 0),
    "--sessions 2 --slots 1 --lag --everything": Config(
        4, 2, sessions=2, slots=1, lag=True, everything=True
    ),
    "--in-flight 3 --lag": Config.endless(3, lag=True),
}


@pytest.mark.parametrize("args", ARGUMENTS)
def test_explore_explores_what_was_asked_for(args: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []

    def note(config: Config, _on_progress: object) -> Report:
        asked.append(config)
        return Report(config)

    monkeypatch.setattr(front, "explore_world", note)
    assert main(["explore", *args.split()]) == 0
    assert asked == [ARGUMENTS[args]]


def test_a_broken_sentence_is_exit_code_1_with_its_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(config: Config, _on_progress: object) -> Report:
        return Report(config, sentence="X1", story=["  1. prompt 1 is accepted"])

    monkeypatch.setattr(front, "explore_world", broken)
    assert main(["explore"]) == 1
    assert capsys.readouterr().out.endswith("X1 is broken\n  1. prompt 1 is accepted\n")


def test_a_plan_explores_its_worlds_beside_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = Config(3, 0, 0, 0)
    monkeypatch.setitem(PLANS, "quick", {"a world": small, "another": small})
    assert main(["explore", "--plan", "quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["a world", "another"]


def test_whoever_looks_sees_a_bar_that_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow(config: Config, on_progress: Any) -> Report:
        on_progress(Report(config, states=12_345))
        return Report(config)

    monkeypatch.setattr(front, "explore_world", slow)
    monkeypatch.setenv("TERM", "xterm")
    looks = Tty()
    monkeypatch.setattr(sys, "stderr", looks)
    assert main(["explore"]) == 0
    assert "12,345 states" in looks.getvalue()
    assert looks.getvalue().rstrip().endswith("\x1b[2K")
    with progress() as show:
        show("1 of 2 worlds", 0.5)
    assert "1 of 2 worlds" in looks.getvalue()


def test_ctrl_c_is_left_to_the_first_process(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(signal, "signal", lambda *args: calls.append(args))
    front._leave_ctrl_c_to_us()
    assert calls == [(signal.SIGINT, signal.SIG_IGN)]
