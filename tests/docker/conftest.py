"""Where these tests look, and what is left out where there is no coordinator in a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.docker.container import ADDRESS

#: The tests that a container runs against the coordinator in another one: `make compose-test`.
collect_ignore = [] if ADDRESS in os.environ else ["on_a_coordinator"]


@pytest.fixture(scope="session")
def folder() -> Path:
    """Return the folder with all that is about containers."""
    return Path(__file__).resolve().parents[2] / "docker"
