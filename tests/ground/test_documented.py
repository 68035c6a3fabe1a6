"""What README and quick start show is all executed, and how it is compared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from coterie_cli.options import BOOTSTRAP, HTTP
from tests.ground.documented import ROOT, Block, Command, blocks_of, commands_of, run_by_make, shows

PAGES: Final = [ROOT / "README.md", ROOT / "docs" / "quick-start.md"]
SESSION: Final = """$ one --word
first
...
$ two
^C
last
"""


def test_console_block_is_commands_and_their_output() -> None:
    assert Block("console", "", SESSION).commands == [
        Command("one --word", ("first", "...")),
        Command("two", ()),
        Command("^C", ("last",)),
    ]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["0 begins at 0"], ["3 begins at 57"]),
        (["2026-11-20 18:59:00  it took 0.1 s"], ["2027-01-02 03:04:05 it took 12 s"]),
        (
            ["a-7e8288bf-2d5a-47ac-bfc6-cd0dfdb1dde0 x"],
            ["a-26f7a707-0c1d-4c66-9c6c-f0771b76cfec x"],
        ),
        (["a", "...", "d"], ["a", "b", "c", "d"]),
        (["..."], []),
        (["a came (... first)."], ["a came (it was the first)."]),
    ],
)
def test_output_may_differ_in_numbers_times_ids_and_widths(
    shown: list[str], printed: list[str]
) -> None:
    assert shows(shown, printed, in_full=True)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["Stable"], ["Empty"]),
        (["a", "b"], ["b", "a"]),
        (["a"], ["a", "more"]),
        (["a came (...)."], ["b came (x)."]),
        (["a", "more"], ["a"]),
        (["...", "d"], ["a", "d", "more"]),
    ],
)
def test_other_differences_are_reported(shown: list[str], printed: list[str]) -> None:
    assert not shows(shown, printed, in_full=True)


def test_terminal_may_print_more() -> None:
    assert shows(["b", "d"], ["a", "b", "c", "d", "e"], in_full=False)
    assert not shows(["d", "b"], ["a", "b", "c", "d", "e"], in_full=False)


def test_make_run_becomes_coterie_serve() -> None:
    assert run_by_make('make run ARGS="--topic orders:6"') == "exec coterie serve --topic orders:6"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_sentences_are_in_a_block_as_well(page: Path) -> None:
    typed = [run_by_make(command) for each in PAGES for command in commands_of(each)]
    executed = {command.removeprefix("exec ") for command in typed}
    told = re.findall(r"`(coterie [^`]+)`", page.read_text(encoding="utf-8"))
    assert set(told) <= executed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_program_of_a_page_is_executed(page: Path) -> None:
    programs = {block.title for block in blocks_of(page) if block.language == "python"}
    commands = list(commands_of(page))
    assert programs
    assert all(any(name in command for command in commands) for name in programs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_addresses_are_replaced_by_those_of_the_test(page: Path) -> None:
    """The tests use other ports than the pages, which show the defaults."""
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"127\.0\.0\.1:\d+", text)) <= {BOOTSTRAP, HTTP}
