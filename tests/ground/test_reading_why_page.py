"""The page on reading `why` shows the two halves of a hand-over as they are."""

from __future__ import annotations

import asyncio
import re

from coterie_client import Group
from coterie_protocol.journal import RebalanceCompleted
from coterie_testing.kit import Cluster
from tests.ground.documented import ROOT

PAGE = ROOT / "docs" / "how-to" / "reading-why.md"


async def work(bootstrap: str) -> None:
    async with Group(bootstrap, "billing", topics=["orders"]) as group:
        await group.run(lambda _: asyncio.sleep(1_000))


def test_partitions_are_taken_in_the_first_half_and_have_moved_with_the_second() -> None:
    with Cluster({"orders": 6}) as cluster:
        for name in "ab":
            cluster.start(name, work(cluster.bootstrap))
            cluster.run(30)
        over = [each for each in cluster.events if isinstance(each, RebalanceCompleted)]
    shown = re.findall(r"(\d+) partitions moved, (\d+) taken", PAGE.read_text(encoding="utf-8"))
    happened = [(str(each.moved), str(each.revoked)) for each in over]
    assert happened[1:] == shown[::-1]
