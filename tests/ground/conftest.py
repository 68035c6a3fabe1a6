"""Where the tests of the ground look."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the project's top folder."""
    return Path(__file__).resolve().parents[2]
