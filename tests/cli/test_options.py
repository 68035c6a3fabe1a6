"""The environment variables that commands read: all are listed, and none looks like a setting."""

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

#: Variables that no option does the same as.
WITHOUT_OPTION: Final = (
    Variable.HTTP_TOKEN,
    Variable.KEY_PASSWORD,
    Variable.PASSWORD,
    Variable.PROFILES,
    Variable.TOKEN,
)


def variables_of_options() -> dict[str, str]:
    """Each variable that stands in for an option, with the option."""
    return {each.envvar: each.opts[0] for each in _options(typer.main.get_command(app))}


def _options(command: Any) -> Iterator[Any]:
    yield from (each for each in command.params if each.envvar is not None)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _options(command.get_command(None, name))


def test_every_variable_of_an_option_is_listed() -> None:
    # One that is not would keep the daemon from starting wherever it is set.
    assert {*variables_of_options(), *WITHOUT_OPTION} == set(Variable)


def test_no_listed_variable_is_a_setting() -> None:
    assert {setting.variable for setting in SETTINGS}.isdisjoint(Variable)


@pytest.mark.parametrize("variable", Variable)
def test_listed_variable_is_no_unknown_setting(variable: Variable) -> None:
    environ = {str(variable): "nonsense"}
    with pytest.raises(SettingsError, match=variable):
        Settings.load(environ=environ)
    assert Settings.load(environ=environ, foreign_variables=frozenset(Variable)) == Settings()


def test_reference_lists_every_variable() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    for variable, option in variables_of_options().items():
        assert f"`{variable}` | `{option}` |" in text
    for variable in WITHOUT_OPTION:
        assert f"`{variable}`" in text
