"""The simulator finds planted bugs; `make sim-mutants` shows how soon it finds all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_testing.sim.runs import execute
from tests.support.profiles import by_profile
from tests.testing.sim.hunt import PROFILES, hunt, run_for
from tests.testing.sim.mutants import MUTANTS, Mutant

#: Found within a few runs, most within one or two, and different enough.
_QUICK = (
    "one member not awaited",
    "generation not stored",
    "journal skips a start",
    "fenced commits pass",
    "lets go before work ends",
    "lease ignored",
    "pending ids not awaited",
    "superseded sync unanswered",
    "leader taken for settled",
    "works before it is proven",
)


def _mutant(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


@pytest.mark.parametrize("name", _QUICK[:: by_profile(quick=6, long=1)])
def test_planted_bug_is_found(name: str) -> None:
    assert hunt(_mutant(name), range(20)).result is not None


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_runs_without_a_bug_pass(profile: str) -> None:
    assert execute(run_for(0, profile)).failure is None


def test_planted_bug_is_removed_after_the_hunt() -> None:
    mutant = _mutant("lets go before work ends")
    catch = hunt(mutant, range(10))
    assert catch.result is not None
    assert execute(catch.result.run).failure is None


def test_planted_bugs_are_named_and_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "simulator.md").read_text("utf-8")
    assert all(f"| {mutant.story} |" in page for mutant in MUTANTS)
    assert len(MUTANTS) >= 25
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.story for mutant in MUTANTS)
