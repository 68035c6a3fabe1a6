"""What the observers of a server know of its node."""

from __future__ import annotations

import pytest

from coterie_protocol.journal import GroupRecovered
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.support.journal_events import completed, phase, phase_joined, started

pytestmark = pytest.mark.asyncio


async def test_history_hears_of_topics_that_another_node_deletes() -> None:
    listener = ListenerOptions(Address("127.0.0.1", 0))
    options = ServerOptions(listeners=(listener,), http=None, topics={"t": 1, "u": 1})
    async with Server(options) as server:
        history = server.history
        now_ms = server.clock.date_ms()
        owned = {"m": {"t": (0,), "u": (0,), "gone": (0,)}}
        read_back = GroupRecovered(
            group="g", state="Stable", generation=1, members=("m",), assigned=owned
        )
        history.observe(now_ms, read_back)
        server.node.topics.read({})  # as if another node had told of it
        history.observe(now_ms, started())
        history.observe(now_ms, phase_joined(phase("m", after_ms=0)))
        history.observe(now_ms + 1_000, completed(assigned={"m": {}}))
        (first,) = history.last("g")
        assert first.stopped_partition_ms == 0
