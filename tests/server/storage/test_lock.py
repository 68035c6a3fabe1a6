"""One process at a time uses a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coterie_server.storage.lock import (
    DirectoryInUseError,
    DirectoryUnusableError,
    FileLock,
    HeldError,
    hold_directory,
    locks_of_names,
    remove_stale,
)


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
        pytest.raises(DirectoryUnusableError, match="Choose another directory"),
        hold_directory(file / "data"),
    ):
        raise AssertionError("held")


def test_a_file_that_is_deleted_as_it_is_given_up_is_held_by_one(tmp_path: Path) -> None:
    """Who opened it before must not take it for the one that another process makes."""
    path = tmp_path / "a.lock"
    first = FileLock(path)
    opened = path.open("a+")
    first.release(delete=True)
    with pytest.MonkeyPatch.context() as patch:
        late = iter([opened])
        real = Path.open
        patch.setattr(Path, "open", lambda self, mode: next(late, None) or real(self, mode))
        second = FileLock(path)
    with pytest.raises(HeldError):
        FileLock(path)
    second.release()
    assert path.exists()


def test_stale_files_are_removed_and_held_ones_stay(tmp_path: Path) -> None:
    held, stale = tmp_path / "s.db-a.lock", tmp_path / "s.db-b.lock"
    lock = FileLock(held)
    FileLock(stale).release()
    assert locks_of_names(tmp_path / "s.db") == {"a": held, "b": stale}
    remove_stale([held, stale, tmp_path / "none"])
    assert locks_of_names(tmp_path / "s.db") == {"a": held}
    lock.release(delete=True)
    assert not list(tmp_path.iterdir())
