"""CI runs the tests in containers where it can have containers, and says why where it can't."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).resolve().parents[2] / ".ci" / "compose-test"
TOOLS: Final = ("bash", "dirname", "sed", "timeout")


class Machine:
    """Where the script runs: it has these programs, and no others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in TOOLS:
            found = shutil.which(name)
            if found is None:
                pytest.skip(f"there is no {name}")
            (folder / name).symlink_to(found)
        (folder / "python3").symlink_to(sys.executable)

    def install(self, name: str, *lines: str) -> None:
        """Add a program, which is a script of the shell."""
        path = self._folder / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="ascii")
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            [str(self._folder / "bash"), str(SCRIPT), "900"],
            env={"PATH": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine without containers and without a way to get them."""
    return Machine(tmp_path)


def test_without_containers_the_tests_are_skipped_with_the_reason(machine: Machine) -> None:
    ended = machine.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("compose-test: SKIPPED: Containers can't be built and run here")
    assert "Podman is not installed." in ended.stdout


def test_containers_that_do_not_start_are_a_reason_to_skip(machine: Machine) -> None:
    machine.install("docker", '[ "$1" != run ] || { echo not permitted >&2; exit 1; }')
    ended = machine.run()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "SKIPPED: there is no base image, or no container of it starts" in ended.stdout
    assert "not permitted" in ended.stdout


@pytest.mark.parametrize("code", [0, 2])
def test_with_containers_the_tests_decide(code: int, machine: Machine) -> None:
    machine.install("docker", "exit 0")
    machine.install("make", 'echo "make $*"', f"exit {code}")
    ended = machine.run()
    assert (ended.returncode, ended.stdout) == (code, "make compose-test\n")
