"""What rules say: rows of the table `advice`, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

__all__ = [
    "Row",
    "Take",
    "Times",
    "advise",
    "count_of",
    "partition_name",
    "partition_seconds",
    "seconds",
]

Row = dict[str, Any]

Take = Callable[[Row], None]
"""Takes in the next row of a table."""

_MOST: Final = 2**63 - 1


class Times:
    """When something was first and last seen."""

    __slots__ = ("first_ms", "last_ms")

    def __init__(self) -> None:
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def note(self, from_ms: int | None, to_ms: int | None) -> None:
        """It was seen from one time to another; what is not known does not count."""
        if from_ms is not None:
            self.first_ms = from_ms if self.first_ms is None else min(self.first_ms, from_ms)
        if to_ms is not None:
            self.last_ms = to_ms if self.last_ms is None else max(self.last_ms, to_ms)


def advise(
    group: str,
    rule: str,
    severity: str,
    sentence: str,
    evidence: Mapping[str, object],
    times: Times | None = None,
    *,
    about: str = "",
    saves_partition_ms: int | None = None,
) -> Row:
    """A row of the table; what is None in the evidence is not known."""
    return {
        "group": group,
        "rule": rule,
        "severity": severity,
        "about": about,
        "sentence": sentence,
        "saves_partition_ms": None
        if saves_partition_ms is None
        else min(saves_partition_ms, _MOST),
        "from_ms": None if times is None else times.first_ms,
        "to_ms": None if times is None else times.last_ms,
        "evidence": [
            (name, "unknown" if value is None else str(value)) for name, value in evidence.items()
        ],
    }


def seconds(ms: int) -> str:
    """A time as people read it: `0.025 s`, `3.1 s`, `180 s`."""
    if ms < 1_000:
        return f"{_rounded(ms, '0.001')} s"
    return f"{_rounded(ms, '0.1')} s" if ms < 100_000 else f"{_rounded(ms, '1')} s"


def partition_seconds(ms: int) -> str:
    """A time that is added up over partitions."""
    return f"{_rounded(ms, '0.1')} partition-seconds"


def _rounded(ms: int, unit: str) -> str:
    return f"{(Decimal(ms) / 1_000).quantize(Decimal(unit), ROUND_HALF_UP):,}"


def count_of(number: int, one: str, many: str) -> str:
    """A number with its noun: `1 member`, `2 members`."""
    return f"{number:,} {one if number == 1 else many}"


def partition_name(row: Row) -> str:
    """A partition as logs write it: `orders[3]`."""
    return f"{row['topic']}[{row['partition']}]"
