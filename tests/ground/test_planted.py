"""The planted bugs can be planted: they name functions, and tests, that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.bugs import BUGS, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bugs_have_tests(bug: Bug) -> None:
    for test in bug.tests:
        assert Path(test.partition("::")[0]).exists()
