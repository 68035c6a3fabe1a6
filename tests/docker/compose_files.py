"""Compose files, as the tests read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it comes with mkdocs, without types

__all__ = ["published_ports", "read", "service", "with_variables"]


def read(folder: Path, name: str) -> Any:
    """Return what a YAML file says."""
    return yaml.safe_load((folder / name).read_text(encoding="utf-8"))


def service(folder: Path, file: str, name: str) -> dict[str, Any]:
    """Return a service of a compose file."""
    found: dict[str, Any] = read(folder, file)["services"][name]
    return found


def published_ports(
    folder: Path, file: str = "compose.yaml", **variables: str
) -> dict[str, list[str]]:
    """Return the ports that each service publishes, with these variables set."""
    return {
        name: [with_variables(port, variables) for port in each.get("ports", ())]
        for name, each in read(folder, file)["services"].items()
    }


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Put in what variables are set to, or their defaults."""
    return re.sub(r"\$\{(\w+):-([^}]+)\}", lambda found: variables.get(found[1], found[2]), text)
