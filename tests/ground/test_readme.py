"""The README works as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ground.documented import ROOT, Reader


@pytest.mark.slow
def test_readme_works(tmp_path: Path) -> None:
    """Every command, in the order of the page, prints what is shown."""
    Reader(tmp_path).read(ROOT / "README.md")
