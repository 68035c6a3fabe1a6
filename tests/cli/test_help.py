"""`-h` and `--help`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from coterie_cli.lazy_group import LazyGroup
from coterie_cli.main import app
from coterie_testing.sim.faults import PROFILES, SWARMS


@pytest.mark.parametrize(
    "words",
    [(), ("serve",), ("groups",), ("groups", "why"), ("profile", "set"), ("pipeline", "run")],
    ids=" ".join,
)
def test_h_is_help(words: tuple[str, ...]) -> None:
    short = CliRunner().invoke(app, [*words, "-h"])
    assert (short.exit_code, short.stderr) == (0, "")
    assert short.stdout == CliRunner().invoke(app, [*words, "--help"]).stdout
    assert "Usage: " in short.stdout


def test_help_says_of_commands_what_their_own_help_begins_with() -> None:
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    context = Context(group)
    short = group.described().commands
    own = {name: group.get_command(context, name) for name in group.list_commands(context)}
    assert {name: each.help for name, each in short.items()} == {
        name: inspect.cleandoc(each.help).split("\n\n")[0].replace("\n", " ")
        for name, each in own.items()
    }


def _all_commands(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _all_commands(command.get_command(None, name), *words, name)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_leaves_nothing_out_however_narrow_the_terminal(columns: int) -> None:
    commands = [*_all_commands(get_command(app))]
    assert ("groups", "keep-from") in commands
    for words in commands:
        shown = CliRunner().invoke(app, [*words, "-h"], env={"COLUMNS": str(columns)}).stdout
        assert "Usage: " in shown
        assert "…" not in shown, f"{' '.join(words)}:\n{shown}"


def test_all_that_is_said_of_commands_fits_a_narrow_terminal() -> None:
    shown = CliRunner().invoke(app, ["-h"], env={"COLUMNS": "40"}).stdout
    group = get_command(app)
    assert isinstance(group, LazyGroup)
    for each in group.described().commands.values():
        assert " ".join((each.help or "").split()) in " ".join(shown.split())


def test_where_to_connect_is_a_list_of_its_own() -> None:
    shown = CliRunner().invoke(app, ["groups", "why", "-h"], env={"COLUMNS": "80"}).stdout
    own, _, where = shown.partition(" Where to connect ")
    assert "--last" in own
    assert "--bootstrap" not in own
    assert "--bootstrap" in where
    assert "--http-token-file" in where


def test_help_of_the_simulator_names_all_profiles() -> None:
    shown = CliRunner().invoke(app, ["simulate", "-h"], env={"COLUMNS": "80"}).stdout
    named = {word.strip(",.│") for word in shown.split()}
    assert {*PROFILES, *SWARMS} <= named


def test_paragraphs_of_help_are_filled() -> None:
    for command in ("demo", "simulate"):
        shown = CliRunner().invoke(app, [command, "-h"], env={"COLUMNS": "80"}).stdout
        text = shown.partition("╭─")[0]
        lines = [line.strip() for line in text.splitlines()]
        for line, following in pairwise(lines):
            if line and following and not line.startswith("Usage"):
                assert len(line) + 1 + len(following.split()[0]) > 78, text


def test_tab_offers_the_commands_with_their_help() -> None:
    words = {"_COTERIE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "coterie mem"}
    offered = CliRunner().invoke(app, [], prog_name="coterie", env=words)
    assert '"members":"List and remove members of a group."' in offered.stdout
    assert "groups" not in offered.stdout


@pytest.mark.parametrize("command", ["run", "follow"])
def test_help_shows_that_the_pipeline_takes_several_journals(command: str) -> None:
    shown = CliRunner().invoke(app, ["pipeline", command, "-h"]).stdout
    assert f"pipeline {command} [OPTIONS] {{JOURNAL...}}" in shown


def test_help_says_that_offsets_are_deleted_of_named_topics_only() -> None:
    shown = CliRunner().invoke(app, ["offsets", "delete", "-h"], env={"COLUMNS": "120"}).stdout
    assert "Of which topics, or of which of their partitions; to be given." in shown
    assert "if none" not in shown
