"""`-h` and `--help`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

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
