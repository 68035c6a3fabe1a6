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
from coterie_testing.sim.invariants.checker import InvariantChecker
from coterie_testing.sim.worker import Worker

_BUG = "planted: [jobs 0] is not what it was"


def _simulate(*arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; the exit code, and what it printed where."""
    result = CliRunner().invoke(app, ["simulate", "--jobs", "1", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every run fail in which work is done on a partition for the third time."""
    look = InvariantChecker.acted

    def acted(checker: InvariantChecker, worker: Worker, partition: Partition, offset: int) -> None:
        look(checker, worker, partition, offset)
        if offset >= 3:
            checker.fail(_BUG)

    monkeypatch.setattr(InvariantChecker, "acted", acted)


def test_successful_runs_print_a_summary() -> None:
    code, out, _ = _simulate("--runs", "2", "--profile", "brief")
    assert code == 0
    assert out.splitlines()[0].split() == ["runs", "2"]
    assert "steps per second" in out


def test_json_summary() -> None:
    code, out, _ = _simulate("--runs", "2", "--profile", "brief", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["runs"] == 2
    assert summary["steps"] > 0
    assert summary["counts"]["commits"] > 0
    assert summary["failed_seed"] is None


def test_fresh_seed_is_drawn_and_printed() -> None:
    first, again = (_simulate("--runs", "1", "--profile", "brief", "--json") for _ in range(2))
    seed = json.loads(first[1])["seed"]
    assert seed != json.loads(again[1])["seed"]
    assert f"--seed {seed} --profile brief" in first[2]


def test_runs_until_enough_steps_are_taken() -> None:
    code, out, _ = _simulate("--steps", "5000", "--profile", "brief", "--json")
    summary = json.loads(out)
    assert code == 0
    assert summary["steps"] >= 5_000
    assert summary["runs"] >= 2


def test_unknown_profile_is_refused_with_the_known_ones() -> None:
    code, _, err = _simulate("--profile", "wild")
    assert code == 2
    assert "'wild'" in err
    assert "hostile" in err


def test_trace_is_in_order_of_time() -> None:
    code, out, _ = _simulate("--seed", "3", "--profile", "brief", "--trace")
    lines = [line.split(maxsplit=2) for line in out.splitlines()]
    times_s = [float(line[0]) for line in lines]
    assert code == 0
    assert times_s == sorted(times_s)
    assert {"coordinator", "w1"} <= {line[1] for line in lines}


@pytest.mark.slow
@pytest.mark.usefixtures("bug")
def test_failure_prints_the_shrunk_run_and_the_command() -> None:
    code, _, err = _simulate("--seed", "5", "--runs", "3", "--profile", "rough")
    assert code == 1
    assert err.count(_BUG) == 2
    assert "Seed 5 fails" in err
    assert "1 worker (" in err
    assert "it fails without any" in err
    assert "coterie simulate --seed 5 --runs 1 --profile rough --trace" in err.splitlines()[-1]


@pytest.mark.usefixtures("bug")
def test_json_summary_of_a_failure() -> None:
    code, out, _ = _simulate("--seed", "5", "--profile", "brief", "--json")
    summary = json.loads(out.splitlines()[0])
    assert code == 1
    assert summary["failed_seed"] == 5
    assert summary["failure"] == _BUG


@pytest.mark.usefixtures("bug")
def test_trace_of_a_failure_is_that_of_the_shrunk_run() -> None:
    code, out, err = _simulate("--seed", "5", "--profile", "brief", "--trace")
    assert code == 1
    assert out.splitlines()[-1].endswith(f"FAILED: {_BUG}")
    assert " injector " not in out
    assert _BUG in err


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["brief", "hostile"])
def test_trace_does_not_depend_on_hashes(profile: str) -> None:
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
