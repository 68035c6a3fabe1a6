"""What a node writes down about itself."""

import asyncio
from pathlib import Path

from coterie_protocol.journal import Line, NodeStarted, NodeStopped
from coterie_server.config.settings import Settings
from coterie_server.journal import read_journal
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions


def test_node_says_which_settings_it_runs_with(tmp_path: Path) -> None:
    settings = Settings.load(overrides=["group.max.size=7", "group.ownership.guard=enforce"])
    options = ServerOptions(
        settings=settings,
        listeners=(ListenerOptions(Address.parse("127.0.0.1:0")),),
        http=None,
        data_dir=tmp_path,
    )

    async def live() -> None:
        async with Server(options):
            pass

    asyncio.run(live())
    lines = [entry for entry in read_journal(tmp_path / "journal") if isinstance(entry, Line)]
    started, stopped = (line.event for line in lines)
    assert isinstance(started, NodeStarted)
    assert isinstance(stopped, NodeStopped)
    assert started.settings["group.max.size"] == 7
    assert started.settings["group.ownership.guard"] == "enforce"
    assert started.settings["group.initial.rebalance.delay.ms"] == 3_000
