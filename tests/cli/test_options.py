"""The variables that commands read: all are known, and none is mistaken for a setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from coterie_cli.main import app
from coterie_cli.options import Variable
from coterie_server.config.settings import SETTINGS, Settings, SettingsError

REFERENCE: Final = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def read_by_options() -> dict[str, str]:
    """Return the variables that stand in for options, each with the option."""
    return {each.envvar: each.opts[0] for each in _options(typer.main.get_command(app))}


def _options(command: Any) -> Iterator[Any]:
    yield from (each for each in command.params if each.envvar is not None)
    for below in getattr(command, "commands", {}).values():
        yield from _options(below)


def test_each_variable_of_an_option_is_known() -> None:
    """A command that reads one more would keep the daemon from starting where it is set."""
    assert {*read_by_options(), Variable.PASSWORD} == set(Variable)


def test_no_variable_is_a_setting() -> None:
    """What the daemon leaves to the commands, it could not take for a setting."""
    assert {setting.variable for setting in SETTINGS}.isdisjoint(Variable)


@pytest.mark.parametrize("variable", Variable)
def test_variable_is_left_to_the_commands(variable: Variable) -> None:
    """It would be refused as an unknown setting, were it not named."""
    environ = {str(variable): "nonsense"}
    with pytest.raises(SettingsError, match=variable):
        Settings.load(environ=environ)
    assert Settings.load(environ=environ, foreign_variables=frozenset(Variable)) == Settings()


def test_reference_lists_every_variable() -> None:
    """docs/settings.md names each of them, with the option that it stands in for."""
    text = REFERENCE.read_text(encoding="utf-8")
    for variable, option in read_by_options().items():
        assert f"`{variable}` | `{option}` |" in text
    assert f"`{Variable.PASSWORD}`" in text
