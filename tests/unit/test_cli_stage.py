from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sessionsched import Gap, SessionState, Status
from sessionsched.cli.loop import put_on
from sessionsched.cli.scenes import SCENES, SESSIONS, words
from sessionsched.cli.stage import CELL_S, Stage, open_stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sessionsched.cli.loop import ShowLoop


def on_stage(act: Callable[[Stage], Awaitable[object]], seed: int = 1) -> Stage:
    """Do something on a stage, and give it when it has closed."""

    async def show(_loop: ShowLoop) -> Stage:
        async with open_stage(seed) as stage:
            stage.begin(SESSIONS)
            await act(stage)
        return stage

    return put_on(show, 0.0)


def texts(stage: Stage) -> list[str]:
    return [note.text for note in stage.notes]


def statuses(stage: Stage) -> list[tuple[str, Status, bool]]:
    """How each prompt ended, and whether it ran, in accept order."""
    ends = {end.seq: end for end in stage.ends}
    return [
        (handle.run.prompt, ends[seq].outcome.status, ends[seq].outcome.started)
        for seq, handle in stage.handles.items()
    ]


# --- the scenes show what they say, whatever the seed ---

EXPECTED = [
    [
        ("summarise the log", Status.COMPLETED, True),
        ("refactor the parser", Status.CANCELED, False),
        ("send and regret at once", Status.CANCELED, False),
        ("just fix the typo", Status.COMPLETED, True),
    ],
    [
        ("write the docs", Status.CANCELED, True),
        ("and translate them", Status.CANCELED, False),
        ("only the summary, please", Status.COMPLETED, True),
    ],
    [
        ("write a parser", Status.COMPLETED, True),
        ("then a changelog", Status.COMPLETED, True),
        ("in Python", Status.COMPLETED, True),
        ("with tests", Status.COMPLETED, True),
    ],
    [
        ("run the benchmarks", Status.COMPLETED, True),
        ("plan the release", Status.CANCELED, True),
        ("draft the notes", Status.CANCELED, False),
        ("no: hotfix first", Status.COMPLETED, True),
    ],
    [
        ("a quick question", Status.COMPLETED, True),
        ("a long migration", Status.SUSPENDED, True),
        ("then clean up", Status.SUSPENDED, False),
        ("a mistake", Status.CANCELED, True),
    ],
]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("place", range(len(SCENES)))
def test_a_scene_shows_what_it_says_whatever_the_seed(place: int, seed: int) -> None:
    stage = on_stage(SCENES[place].play, seed)
    assert statuses(stage) == EXPECTED[place]
    assert stage.balanced


def test_what_was_typed_meanwhile_is_folded_and_the_rest_is_not() -> None:
    stage = on_stage(SCENES[2].play)
    into = [handle.run.folded_into for handle in stage.handles.values()]
    assert into == [None, None, "run-1", "run-1"]


def test_every_scene_fits_into_the_timeline_of_a_small_terminal() -> None:
    for scene in SCENES:
        stage = on_stage(scene.play)
        assert max(len(row.cells) for row in stage.rows.values()) < 56
        assert len(scene.shows) < 80


def test_a_ticket_that_is_ready_too_late_knows_it() -> None:
    assert "#2 is ready now: too late, and it knows" in texts(on_stage(SCENES[0].play))


def test_the_shutdown_names_what_is_to_be_resumed() -> None:
    assert texts(on_stage(SCENES[4].play))[-1] == "suspended, to be resumed: #2 #3"


# --- the stage ---


def test_the_same_seed_says_the_same_and_another_does_not() -> None:
    def answer(seed: int) -> object:
        stage = on_stage(lambda stage: stage.send("chat-1", "hello").outcome(), seed)
        outcome = stage.ends[0].outcome
        return outcome.result, outcome.ended_at

    assert answer(1) == answer(1)
    assert len({answer(seed) for seed in range(5)}) == 5


def test_a_timeline_has_a_cell_for_every_tenth_of_a_second() -> None:
    async def act(stage: Stage) -> None:
        stage.send("chat-1", "a long story")
        await asyncio.sleep(5 * CELL_S)
        stage.escape("chat-1")
        await asyncio.sleep(3 * CELL_S)
        stage.rolling = False
        await asyncio.sleep(9 * CELL_S)

    cells = on_stage(act).rows["chat-1"].cells
    assert [cell.state for cell in cells] == [SessionState.ACTIVE] * 5 + [SessionState.CANCELED] * 3
    assert (cells[0].did, cells[0].started) == ("1", "1")
    assert [cell.did for cell in cells][1:] == ["", "", "", "", "Esc", "", ""]


def test_escape_where_nothing_is_in_flight_says_so() -> None:
    async def act(stage: Stage) -> None:
        assert not stage.escape("chat-2")
        await stage.send("chat-2", "after it").outcome()

    stage = on_stage(act)
    assert texts(stage)[0] == "Escape: nothing is in flight"
    assert statuses(stage) == [("after it", Status.COMPLETED, True)]


def test_quiet_does_not_wait_for_a_line_that_is_held() -> None:
    async def act(stage: Stage) -> None:
        stage.send("chat-1", "first")
        stage.send("chat-1", "held back")
        stage.scheduler.pause("chat-1")
        await stage.quiet()
        assert [run.prompt for run in stage.scheduler.waiting("chat-1")] == ["held back"]

    assert statuses(on_stage(act))[1] == ("held back", Status.SUSPENDED, False)


def test_an_end_that_is_missing_or_comes_twice_unbalances_the_accounts() -> None:
    async def act(stage: Stage) -> None:
        stage.send("chat-1", "one")
        await stage.send("chat-1", "two").outcome()

    stage = on_stage(act)
    assert (stage.accounts(), stage.balanced) == ((2, 2), True)
    first, second = stage.ends
    stage.ends = [first]
    assert (stage.accounts(), stage.balanced) == ((2, 1), False)
    stage.ends = [first, first]
    assert (stage.accounts(), stage.balanced) == ((2, 0), False)
    stage.ends, stage.handles = [first, second], {1: stage.handles[1]}
    assert (stage.accounts(), stage.balanced) == ((1, 1), False)


def test_a_gap_in_the_events_is_no_event() -> None:
    async def act(stage: Stage) -> None:
        stage.see(Gap(7, 0.0, 3))

    assert texts(on_stage(act)) == []


def test_waiting_for_more_words_than_there_are_ends_with_the_run() -> None:
    async def act(stage: Stage) -> None:
        handle = stage.send("chat-1", "hello")
        await words(stage, handle, 1000)
        assert handle.run.ended is not None

    assert on_stage(act).balanced


def test_the_stage_closes_when_the_show_fails() -> None:
    closed: list[Stage] = []

    async def show(_loop: ShowLoop) -> None:
        async with open_stage(1, closed.append) as stage:
            stage.send("chat-1", "a long story")
            await asyncio.sleep(0.5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put_on(show, 0.0)
    assert statuses(closed[0]) == [("a long story", Status.SUSPENDED, True)]
