"""`-h` and `--help`."""

from __future__ import annotations

import inspect

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

from coterie_cli.lazy_group import LazyGroup
from coterie_cli.main import app


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


def test_tab_offers_the_commands_with_their_help() -> None:
    words = {"_COTERIE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "coterie mem"}
    offered = CliRunner().invoke(app, [], prog_name="coterie", env=words)
    assert '"members":"List and remove members of a group."' in offered.stdout
    assert "groups" not in offered.stdout
