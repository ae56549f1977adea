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
    """Everything that is in."""
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
        next(self.outbox.tally)
        self.outbox.counted = True

    def read_one(self, box: Mailbox[str]) -> list[Seen]:
        """What a reader does: it says when it has read everything that there was."""
        event = box.take()
        if event is None and box.behind:
            self.hub.hear(box, float(self.count))
            event = box.take()
        return [] if event is None else [event]

    def read_on(self, box: Mailbox[str]) -> list[Seen]:
        """Read until there is nothing."""
        seen: list[Seen] = []
        while one := self.read_one(box):
            seen += one
        return seen

    def put(self, *, end: bool = False) -> None:
        self.count += 1
        if end:
            self.hub.publish(RunEnded, self.run, float(self.count))
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
    hub.publish(RunEnded, ENDED, 1.0)
    one, same = (read(box)[0] for box in boxes)
    assert isinstance(one, RunEnded)
    assert one == same
    assert {one, same} == {one}
    assert (one.number, one.at, one.run, one.outcome) == (1, 1.0, ENDED, ENDED.ended)
    assert one not in (RunEnded(2, 1.0, ENDED), RunQueued(1, 1.0, ENDED))
    assert one != RunEnded(1, 1.0, other)


# --- a mailbox: T3 ---


class Reading:
    """A reader, and beside it one who never reads: nothing depends on being alone.

    It does these steps: put an end ("e") or another event ("o"); count one, as the machine does
    where all have fallen behind ("c"); read ("r").
    """

    def __init__(self, buffer: int, steps: Iterable[str]) -> None:
        self.buffer = buffer
        self.box, self.other = mailbox(buffer=buffer), mailbox(buffer=1)
        self.post = Post(self.box)
        self.post.hub.join(self.other, [])
        self.seen: list[Seen] = []
        #: The numbers of ends; and of events that came while the reader was late by fewer.
        self.ends: set[int] = set()
        self.due: set[int] = set()
        #: How many came since it had read everything, and found nothing more.
        self.late = 0
        for step in steps:
            self.take(step)
        self.seen += self.post.read_on(self.box)

    def take(self, step: str) -> None:
        if step == "r":
            self.seen += (one := self.post.read_one(self.box))
            self.late = self.late if one else 0
            return
        if step == "c" and self.post.hub.deaf:
            self.post.count_only()
        else:
            self.post.put(end=step == "e")
        if step == "e":
            self.ends.add(self.post.count)
        if self.late < self.buffer:
            self.due.add(self.post.count)
        self.late += 1


@pytest.mark.contract("T3", "T6")
@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_every_event_is_read_or_counted_where_it_would_have_been(buffer: int) -> None:
    for steps in itertools.product("ocer", repeat=6):
        it = Reading(buffer, steps)
        missing, expected = set(), 1
        for event in it.seen:
            if isinstance(event, Gap):
                assert event.missed == event.number - expected + 1, steps
                assert event.number <= event.at <= it.post.count, steps
                missing |= set(range(expected, event.number + 1))
            else:
                assert event.number == expected, steps
            expected = event.number + 1
        assert expected == it.post.count + 1, steps
        assert not missing & (it.ends | it.due), steps
        assert ["Gap"] * 2 not in map(kinds, itertools.pairwise(it.seen)), steps
        assert {end.number for end in read(it.other) if isinstance(end, RunEnded)} == it.ends


@pytest.mark.contract("T3")
@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_no_more_events_wait_for_a_reader_than_it_asked_for_ends_and_gaps_aside(
    buffer: int,
) -> None:
    for steps in itertools.product("oer", repeat=7):
        it = Reading(buffer, [])
        for step in steps:
            it.take(step)
            waiting = [event for event in it.box.unread if isinstance(event, RunProgress)]
            assert len(waiting) <= buffer, steps


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
    gap = post.read_on(box)[-1]
    assert isinstance(gap, Gap)
    assert (gap.session_id, gap.run_id, gap.seq, gap.missed, gap.number) == ("chat", "r", 0, 2, 3)


def test_a_gap_that_was_read_counts_no_further() -> None:
    box = mailbox(buffer=1)
    post = Post(box)
    for _ in range(2):
        post.put()
    first, gap = post.read_on(box)
    post.put()
    assert isinstance(gap, Gap)
    assert (first.number, gap.missed, gap.number) == (1, 1, 2)
    assert [event.number for event in read(box)] == [3]


@pytest.mark.contract("T3")
def test_who_has_fallen_behind_hears_nothing_but_ends_until_it_has_read_everything() -> None:
    box = mailbox(buffer=2)
    post = Post(box)
    for _ in range(3):
        post.put()
    assert [event.number for event in post.read_one(box) + post.read_one(box)] == [1, 2]
    post.put()  # its reader has read everything, and not asked for more
    post.put(end=True)
    post.put()
    assert kinds(post.read_on(box)) == ["Gap", "RunEnded", "Gap"]
    post.put()
    assert kinds(read(box)) == ["RunProgress"]


def test_the_first_state_is_read_first_and_takes_no_room() -> None:
    box = mailbox(buffer=1)
    post = Post(mailbox("other"))
    post.hub.join(box, [(RunQueued, a_run(), 0.0, ())] * 3)
    post.put()
    post.put(end=True)
    assert [event.number for event in post.read_on(box)] == [1, 2, 3, 4, 5]
    for _ in range(5):
        post.put()
    seen = post.read_on(box)
    assert kinds(seen) == ["RunProgress"] * 4 + ["Gap"], "as much room as it had for both"
    for _ in range(3):
        post.put()
    assert kinds(post.read_on(box)) == ["RunProgress", "Gap"]


@pytest.mark.parametrize("first", [True, False])
def test_a_mailbox_for_one_run_is_closed_by_its_end_and_by_nothing_else(*, first: bool) -> None:
    hub, box, everything = Hub[str](Outbox()), mailbox(run_id=ENDED.run_id), mailbox()
    end = (RunEnded, ENDED, 0.0, ())
    news: list[Any] = [(RunQueued, ENDED, 0.0, ()), end]
    for it in (box, everything):
        hub.join(it, news[: 1 + first])
    assert (box.closed, everything.closed) == (first, False)
    if not first:
        hub.publish(RunEnded, ENDED, 0.0)
    assert (box.closed, everything.closed) == (True, False)
    assert len(read(box)) == 2  # what is in may still be read


def test_who_leaves_may_read_what_was_in_and_what_others_miss_is_theirs() -> None:
    box, other = mailbox(buffer=1), mailbox(buffer=1)
    post = Post(box)
    post.hub.join(other, [])
    for _ in range(3):
        post.put()
    post.hub.leave(box)
    post.put()
    assert kinds(read(box)) == ["RunProgress"]
    assert [it.missed for it in post.read_on(other) if isinstance(it, Gap)] == [3]


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
    hub.publish(RunEnded, run, 8.0)
    first, gap, end = read(box)
    assert isinstance(gap, Gap)
    heard = 3 if session_id else 4
    assert (first.number, gap.missed, gap.number, gap.at) == (1, heard - 1, heard + 3, 8.0)
    assert end.number == 8


@pytest.mark.contract("T3", "T5")
def test_each_finds_its_own_gap_whoever_else_is_slow() -> None:
    hub, run = Hub[str](Outbox()), a_run()
    boxes = [mailbox(buffer=buffer) for buffer in (1, 2, 9)]
    for box in boxes:
        hub.join(box, [])
    for number in (1, 2, 3):
        hub.publish(RunProgress, run, float(number), "item")
    hub.publish(RunEnded, run, 4.0)
    seen = [[it.missed if isinstance(it, Gap) else -it.number for it in read(box)] for box in boxes]
    assert seen == [[-1, 2, -4], [-1, -2, 1, -4], [-1, -2, -3, -4]]


@pytest.mark.contract("T3", "T5")
def test_slow_readers_read_of_all_ends_and_how_much_else_there_was_whenever_they_come() -> None:
    post = Post(mailbox(buffer=1), ENDED)
    boxes = [mailbox(buffer=1) for _ in range(3)]
    for box in boxes:
        post.hub.join(box, [])
    seen: list[list[Seen]] = [[], [], []]
    for number in range(1, 251):
        post.put()
        post.put(end=True)
        if number == 120:
            seen[1] += [it for _ in range(10) for it in post.read_one(boxes[1])]
    seen = [them + post.read_on(box) for them, box in zip(seen, boxes, strict=True)]
    ends = list(range(2, 501, 2))
    for them in seen:
        assert [it.number for it in them if isinstance(it, RunEnded)] == ends
        assert [it.number for it in them] == sorted({it.number for it in them})
        missed = sum(it.missed for it in them if isinstance(it, Gap))
        assert missed + sum(not isinstance(it, Gap) for it in them) == 500


@pytest.mark.contract("T3")
def test_what_was_counted_while_all_were_behind_is_in_the_gap_that_is_read_next() -> None:
    post = Post(box := mailbox(buffer=1))
    post.put()
    post.put()
    post.count_only()
    assert isinstance(box.take(), RunProgress)
    post.count_only()  # decided before its reader has caught up
    [gap] = post.read_on(box)
    assert isinstance(gap, Gap)
    assert (gap.missed, gap.number, gap.at) == (3, 4, 4.0)
    post.put()
    assert [event.number for event in read(box)] == [5]


@pytest.mark.contract("T3")
def test_what_is_counted_when_a_reader_has_just_caught_up_is_noticed_with_the_next_event() -> None:
    """On another thread, which had looked before."""
    woken: list[bool] = []
    box: Mailbox[str] = Mailbox("", "", 1, lambda: woken.append(True))
    post = Post(box)
    for _ in range(2):
        post.put()
    assert kinds(post.read_on(box)) == ["RunProgress", "Gap"]
    woken.clear()
    post.count_only()
    post.put()
    assert woken == [True]
    [gap] = post.read_on(box)
    assert isinstance(gap, Gap)
    assert (gap.missed, gap.number, gap.at) == (2, 4, 4.0)
    post.put()
    assert [event.number for event in read(box)] == [5]


@pytest.mark.parametrize("wanted", ["", "chat"])
def test_events_are_counted_only_while_everybody_is_there_and_behind(wanted: str) -> None:
    post = Post(box := mailbox(buffer=1))
    hub, outbox, newcomer = post.hub, post.outbox, mailbox(wanted)
    hub.expect(box)
    post.put()
    assert not outbox.deaf, "there may be room"
    post.put()
    assert outbox.deaf
    hub.expect(newcomer)
    assert not outbox.deaf, "it will have room"
    post.count_only()
    hub.join(newcomer, [])
    hub.leave(newcomer)
    assert outbox.deaf
    assert read(newcomer) == [], "what was counted before it came is not for it"
    assert kinds(post.read_on(box)) == ["RunProgress", "Gap"]
    assert not outbox.deaf


def test_an_end_finds_the_news_of_a_newcomer_no_part_of_the_gap_before_it() -> None:
    post = Post(box := mailbox(buffer=1))
    for end in (False, False, True):
        post.put(end=end)
    post.hub.join(mailbox(run_id="r"), [(RunEnded, a_run(), 0.0, ())])
    for end in (False, True):
        post.put(end=end)
    seen = read(box)
    assert kinds(seen) == ["RunProgress", "Gap", "RunEnded", "Gap", "RunEnded"]
    assert [it.number for it in seen] == [1, 2, 3, 5, 6]
    assert [it.missed for it in seen if isinstance(it, Gap)] == [1, 1]


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
    hub.publish(RunEnded, a_run(), 1.0)
    hub.publish(make, a_run(), 1.0)
    assert made == []
    hub.publish(make, a_run("other"), 1.0)
    assert [event.number for event in read(other)] == made == [2]


@pytest.mark.contract("T4", "T5")
def test_readers_are_woken_outside_of_the_lock_and_after_it_is_in() -> None:
    hub: Hub[str] = Hub(Outbox())
    found: list[tuple[bool, int]] = []
    box: Mailbox[str] = Mailbox(
        "", "", 9, lambda: found.append((hub._lock.locked(), len(read(box))))
    )
    hub.join(box, [(RunQueued, a_run(), 1.0, ())])
    hub.publish(RunQueued, a_run(), 1.0)
    hub.publish(RunEnded, ENDED, 1.0)
    hub.close(99.0)
    assert found == [(False, 1)] * 3 + [(False, 0)]


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


def test_events_take_no_lock_but_where_a_reader_falls_behind() -> None:
    post = Post(mailbox(buffer=3))
    locks = OneByOne()
    post.hub._lock = cast("threading.Lock", locks)
    for end in (False, True, False):
        post.put(end=end)
    assert locks.taken == 0
    for _ in range(9):
        post.put()
    assert locks.taken == 1


def test_what_a_reader_misses_who_is_behind_takes_no_lock_while_others_keep_up() -> None:
    post = Post(mailbox(buffer=1))
    post.hub.join(mailbox(buffer=99), [])
    for _ in range(2):
        post.put()
    locks = OneByOne()
    post.hub._lock = cast("threading.Lock", locks)
    post.put()
    assert locks.taken == 0


def test_what_was_counted_is_looked_at_once() -> None:
    post = Post(mailbox())
    post.count_only()
    assert post.outbox.counted
    post.put()
    assert not post.outbox.counted
    assert next(post.outbox.tally) == 3, "who joined, what was counted, and who published"


def test_who_hears_again_is_woken_only_where_it_waits() -> None:
    woken: list[bool] = []
    box: Mailbox[str] = Mailbox("", "", 1, lambda: woken.append(box.waiting))
    post = Post(box)
    for waiting in (False, True):
        for _ in range(2):
            post.put()
        read(box)
        woken.clear()
        box.waiting = waiting
        post.hub.hear(box, 0.0)
        assert woken == [True] * waiting
        read(box)
    post.hub.hear(box, 0.0)
    assert woken == [True], "there was nothing to read"


def test_a_gap_that_the_close_tells_of_was_noticed_then() -> None:
    post = Post(box := mailbox(buffer=1))
    for _ in range(3):
        post.put()
    post.hub.close(99.0)
    assert [(it.number, it.at) for it in read(box)] == [(1, 1.0), (3, 99.0)]


def test_nobody_is_there_to_begin_with() -> None:
    outbox = Outbox()
    hub: Hub[str] = Hub(outbox)
    assert not any((hub.listening, hub.deaf, outbox.loud, outbox.deaf))


def test_a_reader_that_does_not_wait_is_not_woken() -> None:
    hub: Hub[str] = Hub(Outbox())
    woken: list[int] = []
    box: Mailbox[str] = Mailbox("", "", 9, lambda: woken.append(len(box.unread)))
    hub.join(box, [])
    for waiting in (False, True):
        box.waiting = waiting
        hub.publish(RunQueued, a_run(), 1.0)
        hub.publish(RunEnded, ENDED, 1.0)
    assert woken == [0, 3, 4]


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
    hub.close(99.0)
    assert sorted(woken) == sorted(FILTERS * 3), "once to begin with, by the event, by the end"
    hub.publish(RunQueued, a_run(), 2.0)
    assert [(box.closed, kinds(read(box))) for box in boxes] == [(True, ["RunQueued"])] * 4
    assert not hub.listening


def test_who_comes_after_the_close_finds_how_things_stood_and_the_end() -> None:
    driver, hub, box = Driver(), Hub[str](Outbox()), mailbox()
    run = driver.bring(RunState.ENDED)
    hub.close(99.0)
    hub.join(box, [(RunAccepted, run, 0.0, ())])
    assert box.closed
    assert kinds(read(box)) == ["RunAccepted"]


@pytest.mark.contract("T6", "R4")
def test_numbers_rise_for_everybody_whoever_performs() -> None:
    outbox = Outbox()
    hub: Hub[str] = Hub(outbox)
    boxes = [mailbox(buffer=9999) for _ in range(2)]
    for box in boxes:
        hub.join(box, [])
    together = threading.Barrier(4)
    tell = {"tell": lambda about, at: hub.publish(RunProgress, about[0], at, about[1])}

    def publish(name: str) -> None:
        together.wait(PATIENCE_S)
        for item in range(200):
            outbox.append(("tell", (a_run(name), item), 0.0))
            outbox.drain(tell)

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
