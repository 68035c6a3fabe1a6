"""The page on finding owners works as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ground.documented import ROOT, Reader


@pytest.mark.slow
def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    Reader(tmp_path).read(ROOT / "docs" / "how-to" / "find-owners.md")
