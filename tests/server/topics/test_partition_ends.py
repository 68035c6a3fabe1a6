"""Where partitions end, as a client is told that commits, restarts and deletes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from coterie_client import Admin
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions

pytestmark = pytest.mark.asyncio


def server(folder: Path) -> Server:
    """A server that keeps things in a folder."""
    listen = Address.parse("127.0.0.1:0")
    return Server(ServerOptions(listeners=(ListenerOptions(listen),), http=None, data_dir=folder))


async def ends_after(
    admin: Admin, offsets: Mapping[str, int] | None = None, topic: str = "t"
) -> list[int]:
    """The ends of two partitions, after groups have set their offsets of the first."""
    for group, offset in (offsets or {}).items():
        await admin.offsets.set(group, {(topic, 0): offset})
    found = await admin.offsets.latest([(topic, 0), (topic, 1)])
    return [found[topic, at] for at in range(2)]


async def test_the_end_is_the_highest_offset_of_any_group(tmp_path: Path) -> None:
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        await admin.topics.create("t", partitions=2)
        assert await ends_after(admin) == [0, 0]
        assert await ends_after(admin, {"a": 7, "b": 19, "c": 3}) == [19, 0]
        assert await admin.offsets.earliest([("t", 0)]) == {("t", 0): 0}


async def test_ends_do_not_go_back_with_the_group_that_went_farthest(tmp_path: Path) -> None:
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        await admin.topics.create("t", partitions=2)
        await ends_after(admin, {"a": 7, "b": 19})
        assert await ends_after(admin, {"b": 2}) == [19, 0]
        await admin.offsets.delete("b", [("t", 0)])
        await admin.groups.delete("b")
        assert await ends_after(admin) == [19, 0]


async def test_ends_are_read_back_from_the_groups_that_are_left(tmp_path: Path) -> None:
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        await admin.topics.create("t", partitions=2)
        await ends_after(admin, {"a": 7, "b": 19, "c": 23})
        await admin.groups.delete("c")
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        assert await ends_after(admin) == [19, 0]


async def test_a_recreated_topic_ends_at_0(tmp_path: Path) -> None:
    """It shares only its name with the one that was deleted."""
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        for topic in ("t", "u"):
            await admin.topics.create(topic, partitions=2)
            await ends_after(admin, {"a": 19}, topic)
        await admin.topics.delete("t")
        await admin.topics.create("t", partitions=2)
        assert await ends_after(admin) == [0, 0]
        assert await ends_after(admin, {"a": 2}) == [2, 0]
        assert await ends_after(admin, topic="u") == [19, 0]
    async with server(tmp_path) as it, Admin(str(it.address)) as admin:
        assert await ends_after(admin) == [2, 0]
