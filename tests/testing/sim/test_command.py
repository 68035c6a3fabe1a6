"""`coterie simulate`: what it prints, and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from coterie_cli.main import app
from coterie_client import Partition
from coterie_testing.sim.witness import WatchfulEye
from coterie_testing.sim.worker import Worker

_BUG = "planted: [jobs 0] is not what it was"


def _simulate(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; the exit code, and what it printed where."""
    result = CliRunner().invoke(app, ["simulate", "--jobs", "1", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every run fail in which work is done on a partition for the third time."""
    look = WatchfulEye.touched

    def touched(eye: WatchfulEye, worker: Worker, partition: Partition, offset: int) -> None:
        look(eye, worker, partition, offset)
        if offset >= 3:
            eye._blame(_BUG)  # noqa: SLF001  # as its own checks do

    monkeypatch.setattr(WatchfulEye, "touched", touched)


def test_runs_that_go_well() -> None:
    """It says how much was tried, and succeeds."""
    code, out, _ = _simulate("--runs", "2", "--profile", "brief")
    assert code == 0
    assert out.splitlines()[0].split() == ["runs", "2"]
    assert "steps per second" in out


def test_summary_for_programs() -> None:
    """`--json` prints one object with the same figures, and what was counted."""
    code, out, _ = _simulate("--runs", "2", "--profile", "brief", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["runs"] == 2
    assert summary["steps"] > 0
    assert summary["counts"]["commits"] > 0
    assert summary["failed_seed"] is None


def test_fresh_seeds_are_told() -> None:
    """Without a seed each call draws one, and says which, so that it can be run again."""
    first, again = (_simulate("--runs", "1", "--profile", "brief", "--json") for _ in range(2))
    seed = json.loads(first[1])["seed"]
    assert seed != json.loads(again[1])["seed"]
    assert f"--seed {seed} --profile brief" in first[2]


def test_as_many_runs_as_steps_need() -> None:
    """Without a number of runs it goes on until so many steps were taken."""
    code, out, _ = _simulate("--steps", "5000", "--profile", "brief", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["steps"] >= 5_000
    assert summary["runs"] >= 2


def test_unknown_profile() -> None:
    """A profile that there is not is refused with those that there are."""
    code, _, err = _simulate("--profile", "wild")
    assert code == 2
    assert "'wild'" in err
    assert "hostile" in err


def test_trace_tells_a_run() -> None:
    """`--trace` prints who did what, in the order of time."""
    code, out, _ = _simulate("--seed", "3", "--profile", "brief", "--trace")
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    times_s = [float(line[0]) for line in lines]
    assert code == 0
    assert times_s == sorted(times_s)
    assert {"coordinator", "w1"} <= {line[1] for line in lines}


@pytest.mark.usefixtures("bug")
def test_failure_says_how_to_see_it_again() -> None:
    """A failure is told whole, with its seed, the least that makes it happen, and the command."""
    code, _, err = _simulate("--seed", "5", "--runs", "3", "--profile", "rough")
    assert code == 1
    assert err.count(_BUG) == 2
    assert "Seed 5 fails" in err
    assert "1 workers" in err
    assert "nothing has to go wrong" in err
    assert "coterie simulate --seed 5 --runs 1 --profile rough --trace" in err.splitlines()[-1]


@pytest.mark.usefixtures("bug")
def test_failure_for_programs() -> None:
    """The summary names the seed that failed, and why."""
    code, out, _ = _simulate("--seed", "5", "--profile", "brief", "--json")
    summary = json.loads(out.splitlines()[0])
    assert code == 1
    assert summary["failed_seed"] == 5
    assert summary["failure"] == _BUG


@pytest.mark.usefixtures("bug")
def test_trace_of_a_failure_is_that_of_the_least_run() -> None:
    """The trace of a run that fails ends with why, and shows nothing that it fails without."""
    code, out, err = _simulate("--seed", "5", "--profile", "rough", "--trace")
    assert code == 1
    assert out.splitlines()[-1].endswith(f"FAILED: {_BUG}")
    assert " fate " not in out
    assert _BUG in err


@pytest.mark.parametrize("profile", ["brief", "hostile"])
def test_trace_is_the_same_in_every_process(profile: str) -> None:
    """Whatever Python hashes with, the same seed tells the same story."""
    traces = []
    for hash_seed in ("1", "4242"):
        command = (sys.executable, "-c", "from coterie_cli.main import main; main()", "simulate")
        shown = subprocess.run(
            [*command, "--seed", "8", "--profile", profile, "--trace"],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        traces.append(shown.stdout)
    assert len(traces[0].splitlines()) > 10
    assert traces[0] == traces[1]
