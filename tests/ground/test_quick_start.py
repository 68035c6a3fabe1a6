"""The quick start works as it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ground.documented import ROOT, Reader, blocks_of


@pytest.mark.slow
def test_every_command_of_the_quick_start_prints_what_the_page_shows(tmp_path: Path) -> None:
    Reader(tmp_path).read(ROOT / "docs" / "quick-start.md")


@pytest.mark.slow
def test_the_test_of_the_page_needs_no_plugin_in_a_copy_of_the_project(tmp_path: Path) -> None:
    """The reader installs pytest alone, and pytest finds the project's own configuration."""
    for block in blocks_of(ROOT / "docs" / "quick-start.md"):
        if block.language == "python":
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
    options = ("-c", str(ROOT / "pyproject.toml"), "-p", "coterie_testing.plugin")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_counting.py"],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
