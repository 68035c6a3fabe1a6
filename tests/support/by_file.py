"""Which process of a test run gets which tests."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.support.long_first import needs_spark

__all__ = ["ByFile"]


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file go to one process, and so do all that share Spark.

    To start it takes longer than most of them.  Files are handed out in the order of the tests,
    not by the number of tests in them.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if needs_spark(nodeid) else super()._split_scope(nodeid)
