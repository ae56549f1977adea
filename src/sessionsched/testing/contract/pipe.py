"""A scheduler at the other end of a pipe: any program that speaks JSON lines.

Rule 1. One line out, one line back, never two at once: docs/pipe-protocol.md is the whole of it.
Rule 2. Nothing waits for ever: a program that says nothing for `patience` seconds, says something
        else than it should, or is gone, is reported with its last words.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections import deque
from typing import IO, TYPE_CHECKING, Any, NoReturn

from sessionsched.testing.contract.adapter import Adapter, Feature, News

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionsched.model import How

__all__ = ["PROTOCOL", "Peer", "PeerFailed", "PipeAdapter"]

PROTOCOL = 1
#: A line that is longer is not meant for us.
LONGEST = 1_000_000
#: A program that says so much without having been asked is not listened to any longer.
MOST_UNREAD = 100
#: How much of what the program wrote to stderr is shown.
LAST_WORDS = 10


class PeerFailed(Exception):
    """The program hangs, is gone, or doesn't speak the protocol."""


class Peer:
    """A program, started once and asked many times."""

    def __init__(self, command: Sequence[str], patience: float = 5.0) -> None:
        """Start it.

        Args:
            command: The program and its arguments.
            patience: Seconds that it has for each answer.

        Raises:
            PeerFailed: it can't be started.
        """
        self.command = list(command)
        self.patience_s = patience
        #: Set by the first failure; everything fails from there on.
        self.failure: PeerFailed | None = None
        #: The last line that was sent.
        self._asked = ""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own program
                self.command,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            msg = f"{self.command[0]} can't be started: {error}"
            raise PeerFailed(msg) from error
        #: False once nobody reads its lines any more.
        self._listening = True
        #: Lines that were not read yet; None: there will be no more.
        self._lines: queue.Queue[bytes | None] = queue.Queue(MOST_UNREAD)
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)
        self._threads = [
            self._thread(self._read_answers, self._process.stdout),
            self._thread(self._read_complaints, self._process.stderr),
        ]

    @staticmethod
    def _thread(target: Any, pipe: IO[bytes] | None) -> threading.Thread:
        thread = threading.Thread(target=target, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def _read_answers(self, pipe: IO[bytes]) -> None:
        while line := pipe.readline(LONGEST):
            if self._listening:
                self._lines.put(line)
        if self._listening:
            self._lines.put(None)

    def _read_complaints(self, pipe: IO[bytes]) -> None:
        while line := pipe.readline(LONGEST):
            self._last_words.append(line.decode(errors="replace").rstrip())

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send one line, and give what came back.

        Raises:
            PeerFailed: nothing came in time, or nothing that can be understood.
        """
        if self.failure is not None:
            raise self.failure
        question = self._asked = json.dumps(request)
        if self._lines.qsize() and self._lines.queue[0] is not None:
            shown = _shown(self._lines.queue[0])
            self._give_up(f"it speaks without having been asked: {shown}", question)
        self._send(question)
        try:
            line = self._lines.get(timeout=self.patience_s)
        except queue.Empty:
            self._give_up(f"no answer in {self.patience_s:g} s", question)
        if line is None:
            self._give_up(f"it is gone ({self._exit()})", question)
        return self._understood(line, question)

    def _send(self, question: str) -> None:
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(f"{question}\n".encode())
                self._process.stdin.flush()
        except OSError:
            self._give_up(f"it is gone ({self._exit()})", question)

    def _understood(self, line: bytes, question: str) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._give_up(f"the answer is no JSON object: {_shown(line)}", question)
        if "error" in answer:
            self._give_up(f"it says: {answer['error']}", question)
        return answer

    def _exit(self) -> str:
        try:
            return f"exit code {self._process.wait(self.patience_s)}"
        except subprocess.TimeoutExpired:
            return "it closed its output, and goes on"

    def _give_up(self, what: str, question: str) -> NoReturn:
        """End it, and say why.

        Raises:
            PeerFailed: always.
        """
        self._end()
        words = "".join(f"\n  its stderr: {line}" for line in self._last_words)
        self.failure = PeerFailed(f"{self.command[0]}: {what}\n  asked: {question}{words}")
        raise self.failure from None

    def doubt(self, what: str, answer: dict[str, Any]) -> NoReturn:
        """Give it up because of an answer that can't be right.

        Raises:
            PeerFailed: always.
        """
        self._give_up(f"{what}: {json.dumps(answer)}", self._asked)

    def close(self) -> None:
        """Let it end: its input is closed, and it is killed if that is not enough."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it is gone already
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.patience_s)
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listening = False
        with contextlib.suppress(queue.Empty):
            while True:
                self._lines.get_nowait()  # who reads may wait for room
        for thread in self._threads:
            thread.join(self.patience_s)  # a grandchild may keep the pipe open
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read is lost
                    pipe.close()


def _shown(line: bytes) -> str:
    return line[:200].decode(errors="replace").rstrip()


class PipeAdapter(Adapter):
    """One story told to a peer."""

    def __init__(self, peer: Peer) -> None:
        """Begin a story.

        Raises:
            PeerFailed: the peer does not know how.
        """
        super().__init__()
        self.peer = peer
        #: Every line that was sent: the transcript.
        self.sent: list[dict[str, Any]] = []
        hello = self._ask("hello", protocol=PROTOCOL)
        self.features = self._known(hello)
        self.ordered = bool(hello.get("ordered", True))
        self._ask("begin")

    def _known(self, hello: dict[str, Any]) -> frozenset[Feature]:
        try:
            return frozenset(Feature(name) for name in hello.get("features", []))
        except (TypeError, ValueError) as error:
            self.peer.doubt(str(error), hello)

    def _ask(self, do: str, **more: Any) -> dict[str, Any]:
        request = {"do": do, **more}
        self.sent.append(request)
        answer = self.peer.ask(request)
        for item in answer.get("news", ()):
            self.history.append(self._news(item, answer))
        return answer

    def _news(self, item: Any, answer: dict[str, Any]) -> News:
        match item:
            case ["started" | "told" | "dropped" as what, int(seq)]:
                return News(what, seq)
            case ["ended", int(seq), str(status)]:
                return News("ended", seq, status)
        self.peer.doubt(f"news that nobody understands: {item}", answer)
        return None

    def _take_in(self, do: str, session: str) -> int | None:
        answer = self._ask(do, session=session)
        seq = answer.get("seq")
        if seq is not None and not isinstance(seq, int):
            self.peer.doubt("seq is no number", answer)
        self.sent[-1]["expect"] = seq
        return seq

    def accept(self, session: str) -> int | None:
        return self._take_in("accept", session)

    def follow_up(self, session: str) -> int | None:
        return self._take_in("follow_up", session)

    def ready(self, seq: int) -> None:
        self._ask("ready", seq=seq)

    def cancel(self, session: str) -> None:
        self._ask("cancel", session=session)

    def cancel_one(self, seq: int) -> None:
        self._ask("cancel_one", seq=seq)

    def cancel_up_to(self, session: str, seq: int) -> None:
        self._ask("cancel_up_to", session=session, seq=seq)

    def cancel_active(self, session: str) -> None:
        self._ask("cancel_active", session=session)

    def cancel_waiting(self, session: str) -> None:
        self._ask("cancel_waiting", session=session)

    def finish(self, seq: int, how: How) -> None:
        self._ask("finish", seq=seq, how=how)

    def fold(self, seq: int) -> Sequence[int]:
        answer = self._ask("fold", seq=seq)
        match answer.get("took", []):
            case [*took] if all(isinstance(it, int) for it in took):
                return took
        self.peer.doubt("took is no list of seqs", answer)
        return None

    def hold(self, session: str) -> None:
        self._ask("hold", session=session)

    def resume(self, session: str) -> None:
        self._ask("resume", session=session)

    def settle(self, seq: int, *, failed: bool) -> None:
        self._ask("settle", seq=seq, failed=failed)

    def close(self) -> None:
        self._ask("close")

    def step(self) -> bool:
        return bool(self._ask("step").get("more", False))

    def rest(self) -> None:
        self._ask("rest")
