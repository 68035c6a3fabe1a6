"""examples/README.md says how each example is run."""

from __future__ import annotations

import pytest

from tests.examples.program import EXAMPLES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_has_its_command_in_one_line(example: str) -> None:
    command = "pytest" if example.startswith("test_") else "python"
    assert f"`{command} examples/{example}" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
