"""Nobody waits for itself: such a wait is refused at once, and no other is."""

from __future__ import annotations

import contextlib
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any, cast

import pytest
from thread_tools import PATIENCE_S, come, ends, spawn, until

from sessionsched import Limits, Run, RunCanceled, RunState, ThreadScheduler, WouldDeadlock
from sessionsched.driver import TELL
from sessionsched.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionsched import ThreadRun
    from sessionsched.threads import ThreadHandle

COMPLETED = ("completed", None)


class Crowd:
    """Handlers that wait for other runs: each does what its prompt says."""

    def __init__(self, threads: int, limits: Limits | None = None) -> None:
        self.scheduler: ThreadScheduler[str, object] = ThreadScheduler(
            self.handle, threads=threads, limits=limits, grace=0.01
        )
        self.does: dict[str, Callable[[ThreadRun[str]], object]] = {}
        self.handles: dict[str, ThreadHandle[str, object]] = {}
        #: Prompts whose wait was refused, with the error.
        self.refused: dict[str, WouldDeadlock] = {}
        self.inside: dict[str, threading.Event] = {}
        self.go = threading.Event()

    def handle(self, run: ThreadRun[str]) -> object:
        self.inside[run.prompt].set()
        if run.prompt not in self.does:
            return f"{run.prompt} done"
        try:
            come(self.go)
            return self.does[run.prompt](run)
        except WouldDeadlock as error:
            self.refused[run.prompt] = error
            return "refused"

    def submit(self, session_id: str, prompt: str) -> ThreadHandle[str, object]:
        self.inside[prompt] = threading.Event()
        handle = self.handles[prompt] = self.scheduler.submit(session_id, prompt)
        return handle

    def waits_for(self, prompt: str) -> Callable[[ThreadRun[str]], object]:
        return lambda _: self.handles[prompt].result(PATIENCE_S)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    crowd = Crowd(4)
    with crowd.scheduler:
        yield crowd


@pytest.mark.parametrize("timeout", [None, PATIENCE_S])
def test_a_run_that_waits_for_itself_is_told(crowd: Crowd, timeout: float | None) -> None:
    crowd.does["a"] = lambda _: crowd.handles["a"].outcome(timeout)
    handle = crowd.submit("chat", "a")
    crowd.go.set()
    assert handle.result(PATIENCE_S) == "refused"
    error = crowd.refused["a"]
    assert (error.session_id, error.run_id) == ("chat", handle.run_id)


def test_a_run_that_waits_for_the_next_one_of_its_session_is_told(crowd: Crowd) -> None:
    crowd.does["a"] = crowd.waits_for("b")
    first, second = crowd.submit("chat", "a"), crowd.submit("chat", "b")
    crowd.go.set()
    assert first.result(PATIENCE_S) == "refused"
    assert second.result(PATIENCE_S) == "b done", "it is as it was"


@pytest.mark.parametrize("length", [2, 3, 4])
def test_runs_that_wait_for_each_other_in_a_circle_are_told(crowd: Crowd, length: int) -> None:
    names = "abcd"[:length]
    for name, other in zip(names, names[1:] + names[0], strict=True):
        crowd.does[name] = crowd.waits_for(other)
        crowd.submit(name, name)
    for name in names:
        come(crowd.inside[name])
    crowd.go.set()
    results = [crowd.handles[name].result(PATIENCE_S) for name in names]
    assert results == ["refused"] * length
    assert len(crowd.refused) == 1, "one of them: that helps the others"


def test_a_chain_that_is_no_circle_is_waited_for(crowd: Crowd) -> None:
    for name, other in zip("abc", "bcd", strict=True):
        crowd.does[name] = crowd.waits_for(other)
    for name in "abcd":
        crowd.submit(name, name)
    crowd.go.set()
    assert crowd.handles["a"].result(PATIENCE_S) == "d done"
    assert crowd.refused == {}


def test_a_run_may_wait_for_one_of_its_session_that_is_being_dropped() -> None:
    dropping, go = threading.Event(), threading.Event()

    def on_dropped(run: ThreadRun[str]) -> None:
        dropping.set()
        come(go)

    def handler(run: ThreadRun[str]) -> str:
        come(dropping)
        go.set()
        return other.outcome(PATIENCE_S).status.value

    with ThreadScheduler(handler, on_dropped=on_dropped) as scheduler:
        first, other = scheduler.submit("chat", "a"), scheduler.submit("chat", "b")
        other.cancel()
        assert first.result(PATIENCE_S) == "canceled"


# --- slots ---


@pytest.mark.parametrize("limits", [None, Limits(max_active=2)])
def test_runs_that_hold_all_slots_and_wait_for_more_are_told(limits: Limits | None) -> None:
    crowd = Crowd(2 if limits is None else 8, limits)
    crowd.does = {"a": crowd.waits_for("c"), "b": crowd.waits_for("d")}
    with crowd.scheduler:
        for name in "abcd":
            crowd.submit(name, name)
        come(crowd.inside["a"])
        come(crowd.inside["b"])
        crowd.go.set()
        results = [crowd.handles[name].result(PATIENCE_S) for name in "abcd"]
    assert len(crowd.refused) == 1
    refused = next(iter(crowd.refused))
    other = {"a": "c", "b": "d"}[refused]
    assert "all 2 slots" in str(crowd.refused[refused])
    assert crowd.refused[refused].run_id == crowd.handles[other].run_id
    assert set(results) == {"c done", "d done", "refused"}
    assert crowd.scheduler._driver.waits._runs == {}
    assert crowd.scheduler._driver.waits._carriers == {}


def test_a_run_may_wait_for_a_slot_that_a_canceled_one_holds() -> None:
    crowd = Crowd(2)
    leave = threading.Event()
    crowd.does = {
        "a": crowd.waits_for("c"),
        "b": lambda run: (come(leave), crowd.handles["d"].outcome(PATIENCE_S)),  # type: ignore[func-returns-value]
    }
    with crowd.scheduler as scheduler:
        for name in "abcd":
            crowd.submit(name, name)
        come(crowd.inside["a"])
        come(crowd.inside["b"])
        scheduler.cancel("a")
        crowd.go.set()
        until(lambda: len(scheduler._driver.waits._runs) == 1)  # a waits
        crowd.handles["c"].cancel()
        leave.set()
        assert ends(crowd.handles["b"]) == [COMPLETED]
    assert crowd.refused == {}


def test_who_holds_no_slot_may_wait_whatever_the_others_do() -> None:
    crowd = Crowd(1)
    crowd.does["a"] = lambda _: None
    with crowd.scheduler:
        crowd.submit("a", "a")
        other = crowd.submit("b", "b")
        come(crowd.inside["a"])
        waiting = spawn(other.result, PATIENCE_S)
        crowd.go.set()
        assert waiting.result(PATIENCE_S) == "b done"


def test_a_turn_inside_of_a_handler_that_holds_the_last_slot_is_refused() -> None:
    crowd = Crowd(1)

    def handler(_: ThreadRun[str]) -> None:
        with crowd.scheduler.turn("b", "b"):
            pytest.fail("there is no slot for it")

    crowd.does["a"] = handler
    with crowd.scheduler as scheduler:
        crowd.go.set()
        assert crowd.submit("a", "a").result(PATIENCE_S) == "refused"
        assert scheduler.session("b").in_flight == (), "it has left the line"


def test_a_turn_whose_moment_has_come_is_not_taken_for_a_wait() -> None:
    """Its thread, which carries another run too, is on its way in, and will go on."""
    crowd = Crowd(3)
    crowd.does["a"] = crowd.waits_for("c")
    entering, go = threading.Event(), threading.Event()

    class Slow(list[threading.Lock]):
        def pop(self, *_: Any) -> threading.Lock:
            entering.set()
            come(go)
            return super().pop()

    with crowd.scheduler as scheduler:
        crowd.submit("a", "a")
        come(crowd.inside["a"])
        before, turn = scheduler.accept("t", "before"), scheduler.turn("t", "t")
        turn._run.moment = Slow()

        def take_both() -> None:
            with scheduler.turn("outer", "outer"), turn:
                pass

        host = spawn(take_both)
        until(lambda: turn._run.moment)
        spawn(before.close)
        come(entering)
        other = crowd.submit("c", "c")
        crowd.go.set()  # now a waits for c, which needs the slot of the turn
        until(lambda: crowd.refused or len(scheduler._driver.waits._runs) > 1)
        go.set()
        host.result(PATIENCE_S)
        assert ends(other) == [COMPLETED]
    assert crowd.refused == {}


def test_a_run_that_is_over_and_not_announced_yet_is_not_taken_for_one_that_waits() -> None:
    """Its thread may have gone on to another run by then, and wait in that."""
    crowd = Crowd(2)
    crowd.does["next"] = crowd.waits_for("last")
    over, announced, free = (threading.Event() for _ in range(3))
    crowd.does["first"] = lambda _: None
    crowd.does["second"] = lambda _: come(over)
    with crowd.scheduler as scheduler:
        driver = scheduler._driver
        for prompt in ("first", "second", "next", "last"):
            crowd.submit(f"session of {prompt}", prompt)
        finish = driver.finish

        def slow(run: Run[str], *args: Any) -> None:
            finish(run, *args)
            if run.prompt == "first":  # its thread starts "next", but does not come to take it
                performing.append(spawn(perform_for_long))
                until(lambda: not driver.orders)
                over.set()
                come(free)

        def perform_for_long() -> None:
            driver.table.outbox.append((TELL, None, 0.0))
            driver.perform_all()

        performing: list[futures.Future[None]] = []
        driver.do[TELL] = lambda *_: come(announced)
        driver.finish = slow  # type: ignore[method-assign,assignment]
        crowd.go.set()
        come(crowd.inside["next"])  # in the thread of "second", whose end is not announced
        until(lambda: driver.waits._runs or crowd.refused)
        announced.set()
        free.set()
        assert ends(crowd.handles["next"], crowd.handles["last"]) == [COMPLETED] * 2
        assert performing[0].result(PATIENCE_S) is None
    assert crowd.refused == {}


class Carried(Run[str]):
    """A run that something happens to just when somebody looks at it."""

    def __init__(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__(name, name)
        self.state = RunState.ACTIVE
        self.meanwhile = meanwhile

    @property
    def canceled(self) -> bool:
        self.meanwhile()
        return False


@pytest.mark.parametrize("what", ["over", "carries"])
def test_what_others_do_meanwhile_does_not_disturb_who_looks_for_a_free_slot(what: str) -> None:
    waits = Waits(2)
    other: Any = Carried("other")
    args = (other,) if what == "over" else (Carried("new"), "new")

    def meanwhile() -> None:
        """Let another thread do it, if it can: it may have to wait for us."""
        futures.wait([spawn(getattr(waits, what), *args)], 0.05)

    waits.carries(cast("Any", Carried("mine", meanwhile)), "me")
    waits.carries(other, "it")
    waits._runs["it"] = other
    with contextlib.suppress(WouldDeadlock), waits.wait("me", cast("Any", Carried("next"))):
        pass


def test_a_wait_in_a_canceled_run_is_refused_like_any_other(crowd: Crowd) -> None:
    def handler(run: ThreadRun[str]) -> object:
        assert run.wait_canceled(PATIENCE_S)
        with pytest.raises(WouldDeadlock):
            crowd.handles["a"].outcome(PATIENCE_S)
        return run.raise_if_canceled()  # type: ignore[func-returns-value]

    crowd.does["a"] = handler
    handle = crowd.submit("chat", "a")
    crowd.go.set()
    come(crowd.inside["a"])
    handle.cancel()
    with pytest.raises(RunCanceled):
        handle.result(PATIENCE_S)
