"""The contract over a pipe: programs that speak it, that hang, that die and that talk nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sessionsched.testing.contract import Call, Feature
from sessionsched.testing.contract.__main__ import main
from sessionsched.testing.contract.peer import Served, serve
from sessionsched.testing.contract.pipe import Peer, PeerFailed, PipeAdapter
from sessionsched.testing.contract.play import replay
from sessionsched.testing.contract.transcript import SAMPLE, calls_of, lines_of
from sessionsched.testing.zoo import Tiny
from sessionsched.testing.zoo.canceling import MarkTooHigh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: A program that is to answer may take its time to start.
PATIENT = ["--patience", "60"]
REFERENCE = [sys.executable, "-m", "sessionsched.testing.contract.peer"]
#: Puts an animal behind the pipe.
ANIMAL = [sys.executable, "-c", """
import sys
from sessionsched.testing.contract.peer import serve
from sessionsched.testing.zoo.canceling import MarkTooHigh
serve(MarkTooHigh, sys.stdin, lambda line: print(line, end="", flush=True))
"""]  # fmt: skip


def program(code: str) -> list[str]:
    """A program that answers each line with what `code` makes of it."""
    loop = f"""
import json, sys
for line in sys.stdin:
    do = json.loads(line)["do"]
    {code}
"""
    return [sys.executable, "-c", loop]


def failure(command: list[str], capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What the command says about a program that can't be tried."""
    assert main([*PATIENT, *options, "--", *command]) == 2
    return capsys.readouterr().out


# --- programs that can't be tried ---


def test_a_program_that_hangs_is_reported_and_not_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = failure(program("pass"), capsys, "--patience", "0.5")
    assert "no answer in 0.5 s\n  asked: {" in said


def test_a_program_that_hangs_in_the_middle_is_reported_with_its_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "do == 'cancel' or print(json.dumps({'seq': 1}), flush=True)"
    ask = Peer.ask

    def impatient(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
        peer.patience_s = 0.1 if request["do"] == "cancel" else 60.0
        return ask(peer, request)

    monkeypatch.setattr(Peer, "ask", impatient)
    said = failure(program(code), capsys)
    assert 'asked: {"do": "cancel"' in said
    assert "It was raised in this story:\n" in said
    assert said.rstrip().endswith("is canceled")


def test_a_program_that_dies_is_reported_with_its_last_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = failure(program("sys.exit('no more disk')"), capsys)
    assert "it is gone (exit code 1)" in said
    assert "its stderr: no more disk" in said


def test_a_program_that_closes_its_output_and_goes_on_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    leave = Peer._exit

    def impatient(peer: Peer) -> str:
        peer.patience_s = 0.1
        return leave(peer)

    monkeypatch.setattr(Peer, "_exit", impatient)
    code = "import os, time; os.close(1); time.sleep(600)"
    said = failure(program(code), capsys)
    assert "it closed its output, and goes on" in said


def test_a_program_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert "can't be started" in failure(["./no-such-program"], capsys)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("print('hello', flush=True)", "the answer is no JSON object: hello"),
        ("print('[1]', flush=True)", "the answer is no JSON object: [1]"),
        ("print(json.dumps({'error': 'busy'}), flush=True)", "it says: busy"),
        ("print('{}\\n{}', flush=True)", "it speaks without having been asked: {}"),
        ("print(json.dumps({'features': ['magic']}), flush=True)", "'magic' is not a valid"),
        ("print(json.dumps({'features': 3}), flush=True)", "not iterable"),
        ("print(json.dumps({'news': [['exploded', 1]]}), flush=True)", "nobody understands"),
        ("print(json.dumps({'seq': 'one'}), flush=True)", "seq is no number"),
    ],
)
def test_a_program_that_talks_nonsense_is_reported(
    code: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert text in failure(program(code), capsys)


def test_once_it_has_failed_it_is_not_asked_again() -> None:
    peer = Peer(program("sys.exit()"), patience=60)
    for _ in range(2):
        with pytest.raises(PeerFailed, match="it is gone"):
            peer.ask({"do": "hello"})
    peer.close()


def test_a_program_that_floods_its_output_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    said = failure(program("\n    while True: print('{}', flush=True)"), capsys)
    assert "it speaks without having been asked" in said


def test_a_program_that_does_not_end_by_itself_is_ended() -> None:
    peer = Peer([sys.executable, "-c", "import time; time.sleep(600)"], patience=0.1)
    peer.close()
    assert peer._process.poll() is not None


def test_somebody_must_be_tried(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "which program?" in capsys.readouterr().err


# --- programs that can ---


@pytest.fixture
def animal() -> Iterator[Peer]:
    peer = Peer(ANIMAL, patience=60)
    yield peer
    peer.close()


def test_the_reference_peer_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PATIENT, "--examples", "30", "--", *REFERENCE]) == 0
    said = capsys.readouterr().out
    assert "every sentence held" in said
    assert "skipped: X13 (needs stray)" in said


def test_every_short_story_is_told_to_the_reference_peer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*PATIENT, "--every", "2", "--", *REFERENCE]) == 0
    assert "every sentence held" in capsys.readouterr().out


def test_an_animal_behind_the_pipe_is_caught_for_machines_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*PATIENT, "--json", "--", *ANIMAL]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["broken"]["sentence"] == "X2"
    assert report["broken"]["diagram"].startswith("sequenceDiagram")
    assert report["skipped"]["X5"] == "fence"


def test_a_story_is_the_same_through_the_pipe_as_without(animal: Peer) -> None:
    script = (Call("accept", "a", 1, steps=0), Call("cancel", "a"), Call("accept", "a", 2),
              Call("ready", prompt=2))  # fmt: skip
    here, there = replay(MarkTooHigh(), script), replay(PipeAdapter(animal), script)
    assert [line.words for line in here.lines] == [line.words for line in there.lines]
    assert str(here.broken) == str(there.broken)


def test_a_saved_story_is_what_a_shell_feeds_and_goes_wrong_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "story.jsonl"
    assert main([*PATIENT, "--save", str(file), "--", *ANIMAL]) == 1
    with file.open(encoding="utf-8") as lines:
        done = subprocess.run(  # noqa: S603 - our own peer
            ANIMAL, stdin=lines, capture_output=True, text=True, check=True, timeout=60
        )
    assert '["ended", 2, "canceled"]' in done.stdout.splitlines()[-1]
    capsys.readouterr()
    assert main([*PATIENT, "--replay", str(file), "--", *ANIMAL]) == 1
    said = capsys.readouterr().out
    assert '> {"do": "cancel", "session": "a"}\n< {' in said
    assert "=> prompt 2 was accepted after the cancel and was canceled: X2" in said


def test_a_transcript_holds_for_a_program_that_does_it_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "story.jsonl"
    assert main(["--sample"]) == 0
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main([*PATIENT, "--replay", str(file), "--", *REFERENCE]) == 0
    said = capsys.readouterr().out
    assert "every sentence held, as far as the story goes" in said
    assert "not possible here" not in said


def test_what_is_not_possible_is_said_and_not_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "story.jsonl"
    file.write_text('{"do": "finish", "seq": 1}\n', encoding="utf-8")
    assert main([*PATIENT, "--replay", str(file), "--", *REFERENCE]) == 0
    assert "(not possible here, and not sent: finish)" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["hello", '{"do": "dance"}', "[1]", '{"seq": 1}',
                                  '{"do": "finish", "seq": 1, "how": "well"}'])  # fmt: skip
def test_a_line_that_says_nothing_is_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "story.jsonl"
    file.write_text(f'\n{{"do": "begin"}}\n{line}\n', encoding="utf-8")
    assert "line 3 says nothing" in failure(REFERENCE, capsys, "--replay", str(file))


def test_steps_and_rests_belong_to_the_call_before_them() -> None:
    text = lines_of([{"do": "rest"}, {"do": "accept", "session": "a"}, {"do": "step"},
                     {"do": "step"}, {"do": "accept", "session": "a", "expect": 9},
                     {"do": "cancel_one", "seq": 9}, {"do": "rest"}, {"do": "step"}])  # fmt: skip
    calls = calls_of(text)
    assert [call.steps for call in calls] == [2, 0, None]
    assert [call.prompt for call in calls] == [1, 9, 9]


def test_a_transcript_tells_the_same_story(animal: Peer) -> None:
    script = (
        Call("accept", "a", 1, steps=1), Call("ready", prompt=1), Call("cancel", "a", steps=0),
        Call("follow_up", "a", 2), Call("ready", prompt=2),
    )  # fmt: skip
    adapter = PipeAdapter(animal)
    first = replay(adapter, script)
    again = replay(PipeAdapter(animal), calls_of(lines_of(adapter.sent)))
    assert [line.words for line in first.lines] == [line.words for line in again.lines]


def test_a_program_that_has_no_steps_is_never_asked_for_one() -> None:
    peer = Peer(REFERENCE, patience=60)
    adapter = PipeAdapter(peer)
    play = replay(adapter, (Call("accept", "a", 1, steps=2), Call("ready", prompt=1, steps=0)))
    assert play.broken is None
    assert {"do": "step"} not in adapter.sent
    assert [call.steps for call in play.script[:2]] == [None, None]
    peer.close()


# --- the other end ---


def answers(make: Callable[[], Tiny], *requests: dict[str, Any]) -> list[dict[str, Any]]:
    said: list[str] = []
    serve(make, [*(json.dumps(request) for request in requests), "", " \n"], said.append)
    return [json.loads(line) for line in said]


def test_every_line_gets_one_answer() -> None:
    assert len(answers(Tiny, *SAMPLE)) == len(SAMPLE)


def test_what_cannot_be_obeyed_is_an_error_and_the_next_line_is_heard() -> None:
    bad, unknown, missing, good = answers(
        Tiny, {"do": "hold", "session": "a"}, {"do": "dance"}, {"do": "ready"},
        {"do": "accept", "session": "a"},
    )  # fmt: skip
    assert "NotImplementedError" in bad["error"]
    assert "can't obey 'dance'" in unknown["error"]
    assert "can't obey 'ready'" in missing["error"]
    assert good == {"seq": 1}


def test_a_line_that_is_no_json_is_an_error() -> None:
    assert "error" in json.loads(Served(Tiny).answer("hello"))


def test_begin_forgets_everything() -> None:
    first, _, second = answers(
        Tiny, {"do": "accept", "session": "a"}, {"do": "begin"}, {"do": "accept", "session": "a"}
    )
    assert first == second == {"seq": 1}


def test_the_features_of_an_adapter_arrive_at_the_other_end(animal: Peer) -> None:
    adapter = PipeAdapter(animal)
    assert adapter.features == set(Tiny.features)
    assert adapter.ordered
    assert Feature.HOLD not in adapter.features


def test_an_answer_to_fold_that_is_no_list_is_nonsense() -> None:
    peer = Peer(program("print(json.dumps({'took': 2}), flush=True)"), patience=60)
    adapter = PipeAdapter(peer)
    with pytest.raises(PeerFailed, match="took is no list"):
        adapter.fold(1)
    peer.close()
