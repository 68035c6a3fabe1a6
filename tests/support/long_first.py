"""The order of the tests: what takes long comes first."""

from __future__ import annotations

from typing import Final

__all__ = ["needs_spark", "rank"]

#: Where tests start processes, or play through much, and so take seconds.
_LONG: Final = (
    "tests/live/",
    "tests/ha/",
    "tests/ground/",
    "tests/bench/",
    "tests/examples/",
    "tests/soak/",
    "tests/cli/",
    "tests/testing/",
    "tests/client/group/",
)


def needs_spark(nodeid: str) -> bool:
    """Whether a test may share the one Spark of its process."""
    return nodeid.startswith("tests/pipeline/") and "/kafka_logs/" not in nodeid


def rank(nodeid: str) -> int:
    """Where a test stands among all: the lower, the earlier."""
    if needs_spark(nodeid):
        return 0
    return 1 if nodeid.startswith(_LONG) else 2
