"""Spark's notes of how far journals are read, which must not be damaged or gone.

Spark ends with pages of Java's classes if they are, and would begin anew if they were gone.
"""

from __future__ import annotations

import json
import re
from typing import Final

from coterie_pipeline.files import Files

__all__ = ["CHECKPOINT", "newest_commit", "unusable_part"]

CHECKPOINT: Final = "checkpoint"
_COMMITS: Final = f"{CHECKPOINT}/commits"
_OFFSETS: Final = f"{CHECKPOINT}/offsets"
_VERSION: Final = re.compile(r"v\d+")
#: Of a source that has none yet.
_NO_OFFSET: Final = "-"
#: Spark begins at one of the last two.
_READ: Final = 2


def newest_commit(files: Files) -> int:
    """The number of the last micro-batch that was finished; -1 if there is none."""
    return _newest(_numbers(files, _COMMITS))


def unusable_part(files: Files) -> str | None:
    """A part of the checkpoint without which Spark can't go on, and that it can't read."""
    name = f"{CHECKPOINT}/metadata"
    try:
        notes = files.read_json(name)
        logs = {folder: _numbers(files, folder) for folder in (_OFFSETS, _COMMITS)}
        if notes is None and not any(logs.values()):
            return None  # nothing was read yet
        if not isinstance(notes, dict):
            return name
        if _newest(logs[_COMMITS]) > _newest(logs[_OFFSETS]):
            return _OFFSETS
        for folder, numbers in logs.items():
            for number in numbers[-_READ:]:
                name = f"{folder}/{number}"
                _check(files.read_text(name))
    except (OSError, ValueError):
        return name
    return None


def _check(log: str) -> None:
    """See that it is a version, and a line or more of JSON; `ValueError` if not."""
    version, *lines = log.splitlines()
    if not _VERSION.fullmatch(version) or not lines:
        raise ValueError(log)
    for line in lines:
        if line != _NO_OFFSET:
            json.loads(line)


def _numbers(files: Files, folder: str) -> list[int]:
    return sorted(int(name) for name in files.names(folder) if name.isdecimal())


def _newest(numbers: list[int]) -> int:
    return numbers[-1] if numbers else -1
