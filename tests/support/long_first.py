"""The order of the tests: what takes long comes first."""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["needs_spark", "rank", "starts_processes"]

#: Where tests start processes.
_PROCESSES: Final = (
    "tests/live/",
    "tests/ha/",
    "tests/ground/",
    "tests/bench/",
    "tests/examples/",
    "tests/soak/",
    "tests/cli/",
    "tests/console/",
    "tests/docker/",
    "tests/interop/",
)
#: Where they take seconds: there, or where they play through much.
_LONG: Final = (*_PROCESSES, "tests/testing/", "tests/client/group/")


def starts_processes(nodeid: str) -> bool:
    """Whether a test is about processes."""
    return nodeid.startswith(_PROCESSES)


#: The tests of the pipeline that have nothing to do with Spark, or little.
_WITHOUT_SPARK: Final = tuple(
    f"tests/pipeline/{path}"
    for path in (
        "kafka_logs/",
        "replay/",
        "report/test_gantt",
        "report/test_page",
        "report/test_timeline",
        "streaming/test_files",
        "test_tables_oracle",
        "whatif/test_replays",
    )
)


def needs_spark(nodeid: str) -> bool:
    """Whether a test may share the one Spark of its process."""
    return nodeid.startswith("tests/pipeline/") and not nodeid.startswith(_WITHOUT_SPARK)


def rank(item: pytest.Item) -> tuple[int, str]:
    """Where a test stands among all, the lower, the earlier: in whatever order they are found."""
    is_long = item.nodeid.startswith(_LONG) or item.get_closest_marker("slow") is not None
    stages = (needs_spark(item.nodeid), is_long, True)
    return stages.index(True), str(item.path)
