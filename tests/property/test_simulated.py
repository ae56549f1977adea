"""The asyncio scheduler in thousands of orders; and that a simulation would notice."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sim_mutants import MUTANTS

from sessionsched import Run, Scheduler
from sessionsched.testing.simulate import (
    Deviating,
    Drawn,
    Listed,
    Order,
    choose,
    simulate,
    simulated,
)
from sessionsched.testing.simulate.__main__ import main
from sessionsched.testing.simulate.scenario import Scenario, play
from sessionsched.testing.simulate.search import deviate, search

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seeds within which every mutant is found; most need less than 20.
FEW = 500


@pytest.mark.contract(
    "A4", "D1", "D2", "D4", "F3", "P1", "P2", "S1", "S4", "S7", "T1", "T2", "T3", "T5", "T6",
    "X1", "X2", "X6", "X7", "X8", "X11", "X12", "X13",
)  # fmt: skip
def test_in_thousands_of_small_scenarios_the_contract_holds() -> None:
    found = search(range(3_000))
    assert (found.seeds, found.failed, found.error) == (3_000, None, "")


@pytest.mark.parametrize("seed", [1, 2, 3, 64])
def test_in_all_orders_with_up_to_three_deviations_the_contract_holds(seed: int) -> None:
    found = deviate(seed, 3, limit=300)
    assert found.error is None
    assert found.complete or found.schedules == 300


# --- it would notice ---


def failure(seed: int, order: Order | None = None) -> str | None:
    try:
        play(seed, order)
    except Exception as error:  # noqa: BLE001
        return re.sub(r"0x[0-9a-f]+|Task-\d+", "...", f"{type(error).__name__}: {error}")
    return None


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_broken_scheduler_is_found_in_few_seeds_and_replays(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    found = search(range(FEW))
    assert found.failed is not None, f"not found in {FEW} seeds"
    assert failure(found.failed) == failure(found.failed) is not None
    monkeypatch.undo()
    assert failure(found.failed) is None, "the right one is not accused"


ONE_DEVIATION = (
    "the_coroutine_has_not_begun_when_its_task_is_canceled",
    "no_hand_over_after_a_failure",
    "what_is_returned_after_a_cancel_is_lost",
    "cancels_hit_whoever_is_active_when_they_are_delivered",
)


@pytest.mark.parametrize("name", ONE_DEVIATION)
def test_what_goes_well_in_asyncios_order_is_found_by_one_deviation_and_replays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[name](monkeypatch)
    go_well = (seed for seed in range(50) if failure(seed, Listed()) is None)
    tried = ((seed, deviate(seed, 1, 60)) for seed in go_well)
    seed, found = next(it for it in tried if it[1].error is not None)
    assert found.failed is not None
    assert failure(seed, Deviating(found.failed)) is not None


# --- the same again ---


def test_the_same_seed_gives_the_same_story_in_every_process() -> None:
    code = """if True:
        from sessionsched.testing.simulate.scenario import play
        for seed in range(40):
            print(play(seed).story())
    """
    stories = {
        subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    }  # fmt: skip
    assert stories == {"".join(f"{play(seed).story()}\n" for seed in range(40))}


def test_another_order_tells_another_story_of_the_same_scenario() -> None:
    stories = {play(5, Listed([choice])).story() for choice in range(2)}
    stories |= {play(5, Deviating([point])).story() for point in range(1, 20)}
    assert len(stories) > 2
    assert Scenario(5).calls == Scenario(5).calls


# --- Hypothesis ---


class Till:
    """Adds up, and forgets that others do so meanwhile."""

    def __init__(self) -> None:
        self.sum = 0

    async def add(self, run: Run[int]) -> None:
        before = self.sum
        if choose(False, True):  # only now and then somebody comes in between
            await asyncio.sleep(1)
        self.sum = before + run.prompt


async def three_pay(till: Till) -> None:
    async with Scheduler(till.add) as scheduler:
        handles = [scheduler.submit(name, 1) for name in "abc"]
        for handle in handles:
            await handle


def test_hypothesis_finds_an_order_and_gives_the_shortest() -> None:
    seen: list[list[int]] = []

    @settings(max_examples=100, database=None, phases=[Phase.generate, Phase.shrink])
    @given(st.data())
    def all_is_paid(data: Any) -> None:
        till, order = Till(), Drawn(data)
        with simulated(order) as simulation:
            simulation.run(three_pay(till))
            seen.append(order.made)
            assert till.sum == 3, "somebody's money is gone"

    with pytest.raises(AssertionError, match="money is gone") as failed:
        all_is_paid()
    assert len(seen[-1]) < 10
    assert f"simulated(Listed({seen[-1]}))" in str(failed.value.__notes__)
    with simulated(Listed(seen[-1])) as simulation:
        simulation.run(three_pay(till := Till()))
    assert till.sum != 3


def test_a_fault_of_ones_own_is_a_deviation_too() -> None:
    async def pay() -> None:
        await three_pay(till := Till())
        assert till.sum == 3

    simulate(deviations=0)(pay)()
    with pytest.raises(AssertionError):
        simulate(deviations=1)(pay)()


# --- the command line ---


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_seed_is_tried_once_in_however_many_processes(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessionsched.testing.simulate.search.BLOCK", 30)
    counts: list[int] = []
    found = search(range(1000), jobs, lambda it: counts.append(it.seeds))
    assert (found.seeds, found.failed) == (1000, None)
    assert (len(counts), counts[-1]) == (34, 1000)


def test_a_search_says_how_far_it_came(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "100", "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("100 seeds in ")
    assert said.endswith("all is well\n")


def test_a_seed_is_replayed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "RunAccepted   run-1" in said
    assert said.endswith("all is well\n")
    assert main(["--seed", "5", "--schedule", "3,7"]) == 0


def test_a_failure_says_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS["timers_outlive_their_runs"](monkeypatch)
    assert main(["--seeds", "100"]) == 1
    said = capsys.readouterr().out
    assert "what happened in scenario" in said
    seed = said.split()[-1]
    assert f"WRONG; to replay it: --seed {seed}" in said
    assert main(["--seed", seed]) == 1
    assert main(["--deviations", "1", "--seeds", "1", "--first", seed]) == 1
    assert f"WRONG; to replay it: --seed {seed} --schedule" in capsys.readouterr().out


def test_deviations_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--deviations", "1", "--seeds", "2"]) == 0
    assert capsys.readouterr().out.startswith("scenario 0: all ")
