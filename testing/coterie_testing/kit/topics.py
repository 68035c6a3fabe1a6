"""The topics that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["checked_topics"]


def checked_topics(topics: Mapping[Any, Any] | None) -> dict[str, int]:
    """The topics and their partitions, or a `TypeError` where these are no names and numbers.

    What names and numbers may be is up to the coordinator, which takes it that they are such.
    """
    if topics is not None and not isinstance(topics, Mapping):
        raise _mistake(repr(topics))
    for name, partitions in (topics or {}).items():
        is_number = isinstance(partitions, int) and not isinstance(partitions, bool)
        if not isinstance(name, str) or not is_number:
            raise _mistake(f"{name!r}: {partitions!r}")
    return dict(topics or {})


def _mistake(got: str) -> TypeError:
    return TypeError(
        f"topics must be names with their numbers of partitions, such as {{'orders': 4}}; got {got}"
    )
