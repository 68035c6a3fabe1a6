"""What all events of a journal are, and the types that many of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Event", "Lags", "Partitions"]

#: Partitions by topic.
Partitions = Mapping[str, tuple[int, ...]]

#: By topic and partition number (a string, because JSON's keys are), how far behind a copy of its
#: state is; None if that is unknown.
Lags = Mapping[str, Mapping[str, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a group or, if `group` is empty, to the node."""

    kind: ClassVar[str]

    group: str = ""
