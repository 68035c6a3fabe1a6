"""The `coterie` command as far as it exists."""

import tomllib
from pathlib import Path

from typer.testing import CliRunner

from coterie_cli.main import app


def test_version_is_the_project_s(root: Path) -> None:
    """`coterie --version` prints the version that pyproject.toml states."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"coterie {project['version']}\n")


def test_unknown_command_is_refused() -> None:
    """A command that does not exist is an error on standard error, not silence."""
    result = CliRunner().invoke(app, ["no-such-command"])
    assert result.exit_code == 2
    assert "no-such-command" in result.stderr
