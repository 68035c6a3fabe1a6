"""What the tests of the command share: the user's own profiles stay out of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie_cli.options import Variable


@pytest.fixture(autouse=True)
def profiles_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the profiles are kept; there are none yet."""
    for variable in Variable:
        monkeypatch.delenv(variable, raising=False)
    path = tmp_path / "config" / "profiles.toml"
    monkeypatch.setenv(Variable.PROFILES, str(path))
    return path
