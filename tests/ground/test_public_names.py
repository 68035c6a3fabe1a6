"""`import coterie`: the version and the public names."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import assert_type

import pytest

import coterie
import coterie_client
from coterie_protocol.version import VERSION


def test_version_is_the_project_s(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert coterie.__version__ == VERSION == project["version"]


def test_public_names_are_the_client_s() -> None:
    assert set(coterie.__all__) == {"__version__", *coterie_client.__all__}
    for name in coterie_client.__all__:
        assert getattr(coterie, name) is getattr(coterie_client, name)


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="module 'coterie' has no attribute 'Grup'"):
        coterie.Grup  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="module 'coterie_client' has no attribute 'Grup'"):
        coterie_client.Grup  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_know_the_names() -> None:
    """What matters is that mypy accepts this, and refuses the names above."""
    assert_type(coterie.__version__, str)
    assert_type(coterie.Group, type[coterie_client.Group])
