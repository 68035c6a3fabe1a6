"""The `coterie` command as far as it exists."""

import tomllib
from pathlib import Path

from typer.testing import CliRunner

from coterie_cli.main import app


def test_version_is_that_of_the_project(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"coterie {project['version']}\n")


def test_unknown_command_is_refused() -> None:
    result = CliRunner().invoke(app, ["no-such-command"])
    assert result.exit_code == 2
    assert "no-such-command" in result.stderr
