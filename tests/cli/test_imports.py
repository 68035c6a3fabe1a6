"""What is imported by whoever needs little: modules are counted, as times depend on the machine.

A limit that is passed is no reason to raise it.  `python -X importtime` says who imports what.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from coterie_testing.kit import LoopbackCoordinator

#: From Python 3.14 on, the debugger imports asyncio, and construct imports the debugger.
IS_ASYNCIO_THERE: Final = sys.version_info >= (3, 14)

#: Packages that take long to import, or are not there in every installation.
HEAVY: Final = {
    "aiohttp",
    *(() if IS_ASYNCIO_THERE else ("asyncio",)),
    "prometheus_client",
    "pydantic",
    "pyspark",
    "rich",
    "structlog",
    "typer",
    "uvloop",
}

#: Prints at its end what was imported beyond what Python itself imports at its start.
LISTING: Final = f"""
import atexit, sys{", pdb" if IS_ASYNCIO_THERE else ""}

at_start = set(sys.modules)
atexit.register(lambda: print("imported", *(set(sys.modules) - at_start)))
"""

COMMAND: Final = "from coterie_cli.__main__ import main; main()"


def imported_by(program: str, *arguments: str) -> set[str]:
    """Run a program, and return the modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING + program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "imported"
    return set(last[1:])


@pytest.mark.parametrize(
    ("program", "limit", "expected"),
    [
        ("import coterie", 50, set()),
        ("import coterie; coterie.__version__", 140, set()),
        ("import coterie_client", 50, set()),
        ("import coterie_protocol", 140, set()),
        ("from coterie import Admin", 250, {"asyncio"}),
        ("from coterie import Group", 320, {"asyncio"}),
    ],
)
def test_library_imports_little(program: str, limit: int, expected: set[str]) -> None:
    modules = imported_by(program)
    assert modules & HEAVY == expected & HEAVY
    assert len(modules) <= limit


def test_pytest_plugin_imports_nothing_heavy() -> None:
    """Each run of pytest imports it wherever Coterie is installed."""
    assert not imported_by("import coterie_testing.plugin") & HEAVY


def test_group_does_not_import_what_only_members_with_state_need() -> None:
    modules = imported_by("from coterie import Group")
    assert not {"coterie_protocol.streams._data", "coterie_client.membership.warm_blocks"} & modules


def test_admin_does_not_import_what_members_need() -> None:
    modules = imported_by("from coterie_client import Admin")
    assert not {"coterie_assignors", "coterie_client.group", "coterie_client.membership"} & modules


def test_version_is_told_by_importing_typer_alone() -> None:
    modules = imported_by(COMMAND, "--version")
    assert modules & HEAVY == {"typer"}
    assert not {"coterie_client", "coterie_protocol"} & modules


def test_a_command_imports_none_of_the_others() -> None:
    modules = imported_by(COMMAND, "groups", "list", "--help")
    commands = {name for name in modules if name.startswith("coterie_cli.commands.")}
    assert commands == {"coterie_cli.commands.groups"}


@pytest.mark.parametrize("words", [["--help"], []], ids=" ".join)
def test_help_imports_no_command(words: list[str]) -> None:
    modules = imported_by(
        f"import contextlib\nwith contextlib.suppress(SystemExit):\n    {COMMAND}", *words
    )
    assert not {name for name in modules if name.startswith("coterie_cli.commands")}
    assert not {"asyncio", "coterie_client", "coterie_protocol"} & modules


def test_listing_groups_imports_the_client_and_typer_alone(tmp_path: Path) -> None:
    with LoopbackCoordinator(folder=tmp_path) as coordinator:
        modules = imported_by(COMMAND, "groups", "list", "--bootstrap", coordinator.bootstrap)
    assert modules & HEAVY == {"asyncio", "typer"} & HEAVY
    assert len(modules) <= 350
