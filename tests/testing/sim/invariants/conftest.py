"""The checker that the tests of its rules share."""

from __future__ import annotations

import pytest

from tests.testing.sim.invariants.checked import Checked


@pytest.fixture
def checked() -> Checked:
    """A checker and two workers."""
    return Checked()
