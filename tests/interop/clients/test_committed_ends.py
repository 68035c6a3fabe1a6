"""Clients that hold a committed offset against the end of its partition, on a live daemon.

sarama started over at 0 where the end was below the offset, and would then not go back; a Reader
of kafka-go complained that its offset is out of range, for ever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from coterie_client import Admin
from tests.interop.clients.toolchains import ToolMissingError, kafka_go_command, sarama_command
from tests.live.daemon import Daemon, eventually
from tests.live.group import ALL, TOPIC, LiveGroup
from tests.live.member import Client

pytestmark = pytest.mark.interop

SARAMA: Final = Client("sarama", sarama_command, "range")
KAFKA_GO: Final = Client("kafka-go", kafka_go_command, "range")
#: One Reader with a group, which tells nothing but errors.
READER: Final = Client("kafka-go-reader", kafka_go_command, "plain")

#: A Reader complains within a second, and again and again.
_QUIET_S: Final = 4.0


def needs(command: Callable[[], list[str]]) -> None:
    """Skip where a program can't be made."""
    try:
        command()
    except ToolMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def live_group(
    daemon: Daemon, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[LiveGroup]:
    """Give a group to the test that has offsets already."""
    group = request.node.name.replace("_", "-")
    _set_offsets(daemon, group, dict.fromkeys(ALL, 19))
    with LiveGroup(daemon, group, tmp_path) as live_group:
        yield live_group


def _set_offsets(daemon: Daemon, group: str, offsets: dict[int, int]) -> None:
    async def set_offsets() -> None:
        async with Admin(daemon.address) as admin:
            await admin.offsets.set(group, {(TOPIC, at): offset for at, offset in offsets.items()})

    asyncio.run(set_offsets())


def _offsets(daemon: Daemon, group: str) -> dict[int, int]:
    async def fetch() -> dict[int, int]:
        async with Admin(daemon.address) as admin:
            found = await admin.offsets.fetch(group)
        return {at: committed.offset for (_, at), committed in found.items()}

    return asyncio.run(fetch())


def test_sarama_resumes_at_the_committed_offset(live_group: LiveGroup) -> None:
    needs(sarama_command)
    member = live_group.start(SARAMA, "member")
    live_group.settle(member)
    assert member.offsets("positions") == dict.fromkeys(ALL, 19)
    for offset in (20, 21, 22):
        member.commit({0: offset})
    member.close()
    assert _offsets(live_group.daemon, live_group.group) == {**dict.fromkeys(ALL, 19), 0: 22}


def test_kafka_go_resumes_at_the_committed_offset(live_group: LiveGroup) -> None:
    needs(kafka_go_command)
    member = live_group.start(KAFKA_GO, "member")
    live_group.settle(member)
    assert member.offsets("positions") == dict.fromkeys(ALL, 19)
    time.sleep(_QUIET_S)
    assert [line for line in member.lines if line.startswith("error ")] == []


@pytest.mark.parametrize("behind", [0, 5])
def test_kafka_go_reader_waits_at_its_offset_below_another_groups(
    live_group: LiveGroup, behind: int
) -> None:
    needs(kafka_go_command)
    _set_offsets(live_group.daemon, f"{live_group.group}-ahead", dict.fromkeys(ALL, 19 + behind))
    member = live_group.start(READER, "member")
    eventually(lambda: live_group.look()["state"] == "Stable", "the reader is in its group")
    time.sleep(_QUIET_S)
    assert [line for line in member.lines if line.startswith("error ")] == []
    member.commit({0: 20})
    eventually(
        lambda: _offsets(live_group.daemon, live_group.group)[0] == 20, "its commit is stored"
    )
