"""One process at a time uses a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie_server.storage.lock import DirectoryInUseError, DirectoryUnusableError, hold_directory


def test_a_directory_is_made_and_held(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "data"
    with hold_directory(directory):
        with pytest.raises(DirectoryInUseError, match=str(os.getpid())), hold_directory(directory):
            raise AssertionError("held twice")
        assert directory.is_dir()


def test_a_directory_is_free_again(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_directory(tmp_path):
            pass


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with (
        pytest.raises(DirectoryUnusableError, match="Choose another --data-dir"),
        hold_directory(file / "data"),
    ):
        raise AssertionError("held")
