"""Events, mailboxes and the hub, without any loop (T3 to T6)."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest
from driving import PATIENCE_S, Driver, OneByOne

from sessionsched import (
    Cause,
    Gap,
    Run,
    RunAccepted,
    RunCanceling,
    RunEnded,
    RunEvent,
    RunFolded,
    RunProgress,
    RunQueued,
    RunStarted,
    RunState,
    RunStuck,
    WhenBusy,
)
from sessionsched.hub import Hub, Mailbox
from sessionsched.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterable

Seen: TypeAlias = "RunEvent[str] | Gap"


def no_wake() -> None:
    """Nobody waits."""


def mailbox(session_id: str = "", run_id: str = "", buffer: int = 100) -> Mailbox[str]:
    return Mailbox(session_id, run_id, buffer, no_wake)


def read(box: Mailbox[str]) -> list[Seen]:
    """Everything that can be read now."""
    return list(iter(box.take, None))


def kinds(events: Iterable[Seen]) -> list[str]:
    return [type(event).__name__ for event in events]


def a_run(session_id: str = "chat", run_id: str = "r") -> Run[str]:
    return Run(session_id, "hello", run_id)


ENDED = Driver().bring(RunState.ENDED)


class Post:
    """A hub with one mailbox in it, and what happens at 1.0, 2.0 and so on."""

    def __init__(self, box: Mailbox[str], run: Run[str] = ENDED) -> None:
        self.outbox = Outbox()
        self.hub: Hub[str] = Hub(self.outbox)
        self.run = run
        self.hub.join(box, [])
        self.count = 0

    def count_only(self) -> None:
        """As the machine does where nobody has room."""
        self.count += 1
        self.outbox.missed_at = float(self.count)
        self.outbox.count()

    def put(self, *, end: bool = False) -> None:
        self.count += 1
        if end:
            self.hub.end(self.run, float(self.count))
        else:
            self.hub.publish(RunProgress, self.run, float(self.count), f"item {self.count}")


# --- what an event says ---


def test_an_event_says_which_run_it_is_about() -> None:
    run = Driver().submit("chat", "hello", run_id="mine")
    event = RunStarted(7, 1.5, run)
    assert (event.number, event.at, event.run) == (7, 1.5, run)
    assert (event.session_id, event.run_id, event.seq) == ("chat", "mine", run.seq)


def test_a_fold_says_which_run_took_it() -> None:
    driver = Driver()
    run = driver.bring(RunState.FOLDED)
    assert RunFolded(1, 0.0, run).into == run.folded_into == "run-1"


def test_two_objects_of_one_event_are_equal_and_no_others() -> None:
    run = a_run()
    one, same = RunQueued(1, 0.0, run), RunQueued(1, 0.0, run)
    assert one == same
    assert {one, same} == {one}
    assert one not in (RunQueued(2, 0.0, run), RunQueued(1, 0.0, a_run()), RunStarted(1, 0.0, run))


def test_a_run_has_one_end_however_many_read_of_it() -> None:
    hub, boxes, other = Hub[str](Outbox()), [mailbox(), mailbox()], a_run()
    for box in boxes:
        hub.join(box, [])
    hub.end(ENDED, 1.0)
    one, same = (read(box)[0] for box in boxes)
    assert isinstance(one, RunEnded)
    assert one == same
    assert {one, same} == {one}
    assert (one.number, one.at, one.run, one.outcome) == (1, 1.0, ENDED, ENDED.ended)
    assert one not in (RunEnded(2, 1.0, ENDED), RunQueued(1, 1.0, ENDED))
    assert one != RunEnded(1, 1.0, other)


# --- a mailbox: T3 ---


def puts(steps: Iterable[str]) -> list[str]:
    return [step for step in steps if step != "r"]


def lost_by(puts_and_reads: Iterable[str], buffer: int) -> tuple[list[Seen], set[int], int]:
    """Put events ("e": an end, "o": another) and read ("r"); then read what is left.

    What nobody has room for may also be counted where it was decided ("c"). Another reader, who
    never reads, sees to it that nothing depends on being alone.

    Gives what was read, the numbers that must be missing in it, and how many events there were.
    """
    box, other, seen, lost = mailbox(buffer=buffer), mailbox(buffer=1), [], set()
    post = Post(box)
    post.hub.join(other, [])
    unread: list[int] = []  # the numbers of what should be in the mailbox, ends aside
    for step in puts_and_reads:
        if step == "r":
            event = box.take()
            seen += [] if event is None else [event]
            if isinstance(event, RunProgress):
                unread.remove(event.number)
            continue
        if step == "c" and post.hub.deaf:
            post.count_only()
        else:
            post.put(end=step == "e")
        if step == "e":
            continue
        if len(unread) < buffer:
            unread.append(post.count)
        else:
            lost.add(post.count)
    ends = [number for number, step in enumerate(puts(puts_and_reads), 1) if step == "e"]
    assert [it.number for it in read(other) if isinstance(it, RunEnded)] == ends
    return seen + read(box), lost, post.count


@pytest.mark.contract("T3", "T6")
@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_every_event_is_read_or_counted_where_it_would_have_been(buffer: int) -> None:
    for steps in itertools.product("ocer", repeat=6):
        seen, lost, count = lost_by(steps, buffer)
        missing, expected = set(), 1
        for event in seen:
            if isinstance(event, Gap):
                assert event.missed == event.number - expected + 1, steps
                assert event.at == event.number, steps
                missing |= set(range(expected, event.number + 1))
            else:
                assert event.number == expected, steps
            expected = event.number + 1
        assert expected == count + 1, steps
        assert missing == lost, steps
        assert ["Gap"] * 2 not in map(kinds, itertools.pairwise(seen)), steps


@pytest.mark.contract("T3")
def test_race_31_an_end_comes_into_a_full_mailbox_however_many_there_are() -> None:
    box = mailbox(buffer=1)
    post = Post(box)
    for _ in range(10):
        post.put()
    for _ in range(10):
        post.put(end=True)
    assert kinds(read(box)) == ["RunProgress", "Gap"] + ["RunEnded"] * 10


@pytest.mark.contract("T3")
def test_a_gap_says_what_the_subscription_is_for() -> None:
    box = mailbox("chat", "r", buffer=1)
    post = Post(box, a_run("chat", "r"))
    for _ in range(3):
        post.put()
    gap = read(box)[-1]
    assert isinstance(gap, Gap)
    assert (gap.session_id, gap.run_id, gap.seq, gap.missed, gap.number) == ("chat", "r", 0, 2, 3)


def test_a_gap_that_was_read_counts_no_further() -> None:
    box = mailbox(buffer=1)
    post = Post(box)
    for _ in range(2):
        post.put()
    first, gap = read(box)
    post.put()
    assert isinstance(gap, Gap)
    assert (first.number, gap.missed, gap.number) == (1, 1, 2)
    assert [event.number for event in read(box)] == [3]


def test_the_first_state_is_read_first_and_takes_no_room() -> None:
    hub, box = Hub[str](Outbox()), mailbox(buffer=1)
    hub.join(box, [(RunQueued, a_run(), 0.0, ())] * 3)
    hub.publish(RunProgress, a_run(), 1.0, "fits in")
    hub.end(ENDED, 2.0)
    assert [event.number for event in read(box)] == [1, 2, 3, 4, 5]
    for item in ("fits in", "does not"):
        hub.publish(RunProgress, a_run(), 3.0, item)
    assert kinds(read(box)) == ["RunProgress", "Gap"], "reading the first state made no room"


@pytest.mark.parametrize("first", [True, False])
def test_a_mailbox_for_one_run_is_closed_by_its_end_and_by_nothing_else(*, first: bool) -> None:
    hub, box, everything = Hub[str](Outbox()), mailbox(run_id=ENDED.run_id), mailbox()
    end = (RunEnded, ENDED, 0.0, ())
    news: list[Any] = [(RunQueued, ENDED, 0.0, ()), end]
    for it in (box, everything):
        hub.join(it, news[: 1 + first])
    assert (box.closed, everything.closed) == (first, False)
    if not first:
        hub.end(ENDED, 0.0)
    assert (box.closed, everything.closed) == (True, False)
    assert len(read(box)) == 2  # what is in may still be read


def test_a_mailbox_says_whether_there_is_anything_to_take() -> None:
    box = mailbox(buffer=1)
    assert not box.unread
    post = Post(box)
    assert not box.unread
    for _ in range(2):
        post.put()
    assert box.unread
    assert isinstance(box.take(), RunProgress)
    assert box.unread, "there is a gap"
    assert isinstance(box.take(), Gap)
    assert not box.unread


def test_who_leaves_may_read_what_was_in_and_that_there_was_more() -> None:
    box, other = mailbox(buffer=1), mailbox(buffer=1)
    post = Post(box)
    post.hub.join(other, [])
    for _ in range(3):
        post.put()
    post.hub.leave(box)
    post.put()
    first, gap = read(box)
    assert isinstance(gap, Gap)
    assert (first.number, gap.missed, gap.number) == (1, 2, 3)
    assert [it.missed for it in read(other) if isinstance(it, Gap)] == [3]
    assert post.hub._everybody.open == (other,), "reading makes no room where nothing comes"


@pytest.mark.parametrize(("session_id", "run_id"), [("", ""), ("chat", ""), ("chat", "r")])
def test_a_gap_counts_what_it_was_to_hear_and_not_how_others_were_told_of_the_first_state(
    session_id: str, run_id: str
) -> None:
    hub, box, run = Hub[str](Outbox()), mailbox(session_id, run_id, buffer=1), a_run("chat", "r")
    hub.join(box, [])
    for number in (1, 2):
        hub.publish(RunProgress, run, float(number), "item")
    hub.join(mailbox("other"), [(RunQueued, a_run("other", "x"), 2.5, ())] * 3)
    hub.publish(RunProgress, run, 6.0, "item")
    hub.publish(RunProgress, a_run("other", "x"), 7.0, "item")
    hub.end(run, 8.0)
    first, gap, end = read(box)
    assert isinstance(gap, Gap)
    heard = 3 if session_id else 4
    assert (first.number, gap.missed, gap.number, gap.at) == (1, heard - 1, heard + 3, heard + 3)
    assert end.number == 8


@pytest.mark.contract("T3", "T5")
def test_each_finds_its_own_gap_whoever_else_is_slow() -> None:
    hub, run = Hub[str](Outbox()), a_run()
    boxes = [mailbox(buffer=buffer) for buffer in (1, 2, 9)]
    for box in boxes:
        hub.join(box, [])
    for number in (1, 2, 3):
        hub.publish(RunProgress, run, float(number), "item")
    hub.end(run, 4.0)
    seen = [[it.missed if isinstance(it, Gap) else -it.number for it in read(box)] for box in boxes]
    assert seen == [[-1, 2, -4], [-1, -2, 1, -4], [-1, -2, -3, -4]]


def test_room_that_comes_back_while_one_leaves_is_nobodys() -> None:
    """The hub lets the mailbox go just before its reader reports that it has read something."""
    box = mailbox(buffer=1)
    post = Post(box)
    post.put()
    hub = post.hub
    leave = partial(hub._remove, box)
    hub.lock = cast("threading.Lock", OneByOne(leave))
    assert kinds(read(box)) == ["RunProgress"]
    assert hub._everybody.open == hub._everybody.boxes == ()


def test_a_gap_that_the_hub_notices_first_is_read_once() -> None:
    """Its reader finds that something is missing, and has yet to get at the lock."""
    box = mailbox(buffer=1)
    post = Post(box)
    for _ in range(2):
        post.put()
    assert isinstance(box.take(), RunProgress)
    post.hub.lock = cast("threading.Lock", OneByOne(partial(post.hub._remove, box)))
    assert [it.missed for it in read(box) if isinstance(it, Gap)] == [1]


@pytest.mark.contract("T3", "T5")
def test_slow_readers_read_the_same_whenever_they_come() -> None:
    hub, boxes = Hub[str](Outbox()), [mailbox(buffer=1) for _ in range(3)]
    for box in boxes:
        hub.join(box, [])
    seen: list[list[Seen]] = [[], [], []]
    for number in range(1, 251):
        hub.publish(RunProgress, ENDED, float(number), "item")
        hub.end(ENDED, float(number))
        if number == 120:
            seen[1] += [cast("Seen", boxes[1].take()) for _ in range(10)]
    seen = [them + read(box) for them, box in zip(seen, boxes, strict=True)]
    ends = list(range(2, 501, 2))
    for them in seen:
        assert [it.number for it in them if isinstance(it, RunEnded)] == ends
        assert [it.number for it in them] == sorted({it.number for it in them})
        missed = sum(it.missed for it in them if isinstance(it, Gap))
        assert missed + sum(not isinstance(it, Gap) for it in them) == 500
    gaps = [[(it.number, it.missed) for it in them if isinstance(it, Gap)] for them in seen]
    assert gaps[0] == gaps[2] != gaps[1]


@pytest.mark.contract("T3")
def test_what_was_counted_while_nobody_had_room_is_in_the_gap_that_is_read_next() -> None:
    post = Post(box := mailbox(buffer=1))
    post.put()
    post.count_only()
    assert isinstance(box.take(), RunProgress)
    assert box.unread
    post.count_only()  # decided before there was room again
    gap = box.take()
    assert isinstance(gap, Gap)
    assert (gap.missed, gap.number, gap.at) == (1, 2, 2.0)
    post.put()
    gap, event = read(box)
    assert isinstance(gap, Gap)
    assert (gap.missed, gap.number, gap.at, event.number) == (1, 3, 3.0, 4)


@pytest.mark.parametrize("wanted", ["", "chat"])
def test_events_are_counted_only_while_everybody_is_there_and_has_no_room(wanted: str) -> None:
    post = Post(box := mailbox(buffer=1))
    hub, outbox, newcomer = post.hub, post.outbox, mailbox(wanted)
    hub.expect(box)
    assert not outbox.deaf
    post.put()
    assert outbox.deaf
    hub.expect(newcomer)
    assert not outbox.deaf, "it will have room"
    post.count_only()
    hub.join(newcomer, [])
    hub.leave(newcomer)
    assert outbox.deaf
    assert read(newcomer) == [], "what was counted before it came is not for it"
    assert isinstance(box.take(), RunProgress)
    assert not outbox.deaf


def test_an_end_finds_the_news_of_a_newcomer_no_part_of_the_gap_before_it() -> None:
    post = Post(box := mailbox(buffer=1))
    for end in (False, True):
        post.put(end=end)
    post.hub.join(mailbox(run_id="r"), [(RunEnded, a_run(), 0.0, ())])
    for end in (False, True):
        post.put(end=end)
    seen = read(box)
    assert kinds(seen) == ["RunProgress", "RunEnded", "Gap", "RunEnded"]
    assert [it.number for it in seen] == [1, 2, 4, 5]
    assert [it.missed for it in seen if isinstance(it, Gap)] == [1]


def test_who_leaves_while_ends_are_put_down_reads_those_until_then() -> None:
    post = Post(box := mailbox(buffer=1))
    post.put()
    post.put(end=True)
    post.hub.leave(box)
    post.put(end=True)
    assert kinds(read(box)) == ["RunProgress", "RunEnded"]
    assert post.hub._ends is None


# --- the hub: who gets what ---

FILTERS = [("", ""), ("chat", ""), ("", "r"), ("chat", "r")]


@pytest.mark.parametrize(("session_id", "run_id"), FILTERS)
@pytest.mark.parametrize("run", [a_run("chat", "r"), a_run("chat", "x"), a_run("other", "r")])
def test_a_subscriber_gets_the_events_that_it_asked_for(
    session_id: str, run_id: str, run: Run[str]
) -> None:
    hub: Hub[str] = Hub(Outbox())
    box = mailbox(session_id, run_id)
    hub.join(box, [])
    hub.publish(RunQueued, run, 1.0)
    wanted = session_id in ("", run.session_id) and run_id in ("", run.run_id)
    assert kinds(read(box)) == ["RunQueued"] * wanted


@pytest.mark.contract("T5")
def test_everybody_gets_the_same_event_and_only_who_stays() -> None:
    hub: Hub[str] = Hub(Outbox())
    boxes = [mailbox(*wanted) for wanted in FILTERS for _ in range(2)]
    for box in boxes:
        hub.join(box, [])
    for box in boxes[::2]:
        hub.leave(box)
        hub.leave(box)  # once more changes nothing
    hub.publish(RunQueued, a_run(), 1.0)
    assert [len(read(box)) for box in boxes] == [0, 1] * 4
    assert hub.listening
    for box in boxes:
        hub.leave(box)
    assert not hub.listening


@pytest.mark.contract("T5")
def test_nobody_is_kept_in_the_hub_after_leaving() -> None:
    hub: Hub[str] = Hub(Outbox())
    for number in range(100):
        box = mailbox(run_id=f"run-{number}")
        hub.join(box, [])
        hub.leave(box)
    assert hub._boxes == {}


def test_no_event_is_made_that_nobody_will_read() -> None:
    hub: Hub[str] = Hub(Outbox())
    made: list[int] = []

    def make(number: int, at: float, run: Run[str]) -> RunEvent[str]:
        made.append(number)
        return RunQueued(number, at, run)

    gone, ended, other = mailbox(), mailbox(run_id="r"), mailbox("other")
    for box in (gone, ended, other):
        hub.join(box, [])
    hub.leave(gone)
    hub.end(a_run(), 1.0)
    hub.publish(make, a_run(), 1.0)
    assert made == []
    hub.publish(make, a_run("other"), 1.0)
    assert [event.number for event in read(other)] == made == [2]


@pytest.mark.contract("T4", "T5")
def test_readers_are_woken_outside_of_the_lock_and_after_it_is_all_there() -> None:
    hub: Hub[str] = Hub(Outbox())
    found: list[tuple[bool, list[int]]] = []
    boxes: list[Mailbox[str]] = []

    def look() -> None:
        found.append((hub.lock.locked(), [len(read(box)) for box in boxes]))

    boxes += [Mailbox("", "", 9, look) for _ in range(2)]
    for box in boxes:
        hub.join(box, [])
    found.clear()
    hub.publish(RunQueued, a_run(), 1.0)
    hub.close()
    assert found == [(False, [1, 1])] + [(False, [0, 0])] * 3


# --- the hub: how things stand ---


def test_a_newcomer_is_told_the_news_first() -> None:
    hub, box, run = Hub[str](Outbox()), mailbox(buffer=1), a_run()
    hub.join(box, [(RunStarted, run, 1.0, ()), (RunCanceling, run, 99.0, (Cause.INTERRUPT,))])
    hub.publish(RunProgress, run, 100.0, "next")
    events = read(box)
    assert kinds(events) == ["RunStarted", "RunCanceling", "RunProgress"]
    assert [(event.number, event.at) for event in events] == [(1, 1.0), (2, 99.0), (3, 100.0)]


def test_who_comes_for_a_run_that_has_ended_is_told_so_and_no_more() -> None:
    driver, hub, box = Driver(), Hub[str](Outbox()), mailbox(run_id="mine")
    run = driver.bring(RunState.ENDED, run_id="mine")
    hub.join(box, [(RunEnded, run, 0.0, ())])
    hub.publish(RunQueued, run, 1.0)
    assert kinds(read(box)) == ["RunEnded"]
    assert box.closed


# --- the hub: the end, and threads ---


def test_an_event_that_nobody_has_room_for_costs_no_lock() -> None:
    post = Post(mailbox(buffer=2))
    locks = OneByOne()
    post.hub.lock = cast("threading.Lock", locks)
    for _ in range(9):
        post.put()
    assert locks.taken == 2


def test_who_reads_everything_while_an_event_is_being_missed_is_woken_for_the_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a thread of its own: it finds no gap yet, and waits."""
    seen: list[list[Seen]] = []
    box: Mailbox[str] = Mailbox("", "", 1, lambda: seen.append(read(box)))
    post = Post(box)
    box.waiting = False
    post.put()
    box.waiting = True
    seen.clear()
    count = post.hub._count

    def too_late() -> int:
        monkeypatch.undo()
        seen.append(read(box))
        return count()

    monkeypatch.setattr(post.hub, "_count", too_late)
    post.put()
    assert list(map(kinds, seen)) == [["RunProgress"], ["Gap"]]


def test_who_reads_in_the_moment_when_its_mailbox_becomes_full_has_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a thread of its own, which has counted what it read, and waits for the lock."""
    post = Post(box := mailbox(buffer=1))
    kind: Any = Mailbox
    room = kind.room.fget

    def read_meanwhile(it: Any) -> int:
        monkeypatch.undo()
        it._read += 1
        return cast("int", room(it))

    monkeypatch.setattr(Mailbox, "room", property(read_meanwhile))
    post.put()
    assert not box.full
    assert not post.hub.deaf


def test_a_reader_that_does_not_wait_is_not_woken() -> None:
    hub: Hub[str] = Hub(Outbox())
    woken: list[int] = []
    box: Mailbox[str] = Mailbox("", "", 2, lambda: woken.append(box.told))
    hub.join(box, [])
    box.waiting = False
    hub.publish(RunQueued, a_run(), 1.0)
    box.waiting = True
    hub.publish(RunQueued, a_run(), 1.0)
    hub.publish(RunQueued, a_run(), 1.0)  # it has enough to read as it is
    assert woken == [0, 2]


def test_who_left_before_its_turn_came_is_not_let_in() -> None:
    outbox, box = Outbox(), mailbox()
    hub: Hub[str] = Hub(outbox)
    hub.expect(box)
    hub.leave(box)
    hub.join(box, [])
    assert (hub.listening, hub._boxes, outbox.loud) == (False, {}, False)


def test_closing_wakes_every_reader_and_leaves_what_is_unread() -> None:
    hub: Hub[str] = Hub(Outbox())
    woken: list[tuple[str, str]] = []
    boxes = [Mailbox[str](*it, 9, partial(woken.append, it)) for it in FILTERS]
    for box in boxes:
        hub.join(box, [])
    hub.publish(RunQueued, a_run(), 1.0)
    hub.close()
    assert sorted(woken) == sorted(FILTERS * 3), "once to begin with, by the event, by the end"
    hub.publish(RunQueued, a_run(), 2.0)
    assert [(box.closed, kinds(read(box))) for box in boxes] == [(True, ["RunQueued"])] * 4
    assert not hub.listening


def test_who_comes_after_the_close_finds_how_things_stood_and_the_end() -> None:
    driver, hub, box = Driver(), Hub[str](Outbox()), mailbox()
    run = driver.bring(RunState.ENDED)
    hub.close()
    hub.join(box, [(RunAccepted, run, 0.0, ())])
    assert box.closed
    assert kinds(read(box)) == ["RunAccepted"]


@pytest.mark.contract("T6", "R4")
def test_numbers_rise_for_everybody_whoever_publishes() -> None:
    hub: Hub[str] = Hub(Outbox())
    boxes = [mailbox(buffer=9999) for _ in range(2)]
    for box in boxes:
        hub.join(box, [])
    together = threading.Barrier(4)

    def publish(name: str) -> None:
        together.wait(PATIENCE_S)
        for item in range(200):
            hub.publish(RunProgress, a_run(name), 0.0, item)

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    seen, same = map(read, boxes)
    assert [event.number for event in seen] == list(range(1, 801))
    assert seen == same
    for name in "abcd":
        items = [it.item for it in seen if isinstance(it, RunProgress) and it.session_id == name]
        assert items == list(range(200))


def test_the_kinds_of_events_say_what_they_carry() -> None:
    run: Run[Any] = a_run()
    assert RunProgress(1, 0.0, run, "item").item == "item"
    assert RunCanceling(1, 0.0, run, Cause.DEADLINE).cause is Cause.DEADLINE
    assert RunStuck(1, 0.0, run, 3).told == 3
    assert RunAccepted(1, 0.0, run).run.when_busy is WhenBusy.QUEUE
