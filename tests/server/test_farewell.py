"""A server that stops beside others stays until the members of its groups have heard of it.

Some clients give up their place in the group if they find their connection closed instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.live.wire import Wire, join_request

pytestmark = pytest.mark.asyncio

#: Much longer than a test may take.
FOR_EVER_MS: Final = 600_000
PATIENCE_S: Final = 60


def options(store: str | None, node_id: int = 1, linger_ms: int = FOR_EVER_MS) -> ServerOptions:
    """A server that would wait for ever."""
    overrides = (
        f"node.id={node_id}",
        f"shutdown.linger.ms={linger_ms}",
        f"shutdown.timeout.ms={FOR_EVER_MS}",
        "shard.poll.interval.ms=50",
        "group.initial.rebalance.delay.ms=0",
    )
    return ServerOptions(
        settings=Settings.load(overrides=overrides),
        listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
        store=store,
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return the URL of an empty store that several servers can use."""
    return f"sqlite:{tmp_path / 'shared.db'}"


@contextlib.asynccontextmanager
async def two_servers(
    store: str, linger_ms: int = FOR_EVER_MS
) -> AsyncIterator[tuple[Server, Server]]:
    """Two that share a store; the first has all groups, and stops when the test says so."""
    async with (
        asyncio.timeout(PATIENCE_S),
        Server(options(store, 1, linger_ms)) as first,
        Server(options(store, 2)) as second,
    ):
        yield first, second


@dataclass(slots=True)
class Member:
    """The only member of a group."""

    wire: Wire
    heartbeat: m.HeartbeatRequest

    @classmethod
    async def join(cls, server: Server, group: str) -> Self:
        wire = await Wire.open(server.address.port)
        joined: m.JoinGroupResponse = await wire.ask(join_request(group), 3)
        member, generation = joined.member_id, joined.generation_id
        sync = m.SyncGroupRequest(
            group_id=group, member_id=member, generation_id=generation, assignments=()
        )
        assert (await wire.ask(sync, 3)).error_code == ErrorCode.NONE
        beat = m.HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
        return cls(wire, beat)

    async def commit(self, topic: str) -> ErrorCode:
        """Commit an offset of its first partition."""
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=None
        )
        request = m.OffsetCommitRequest(
            group_id=self.heartbeat.group_id,
            member_id=self.heartbeat.member_id,
            generation_id_or_member_epoch=self.heartbeat.generation_id,
            topics=(m.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),
        )
        answer: m.OffsetCommitResponse = await self.wire.ask(request, 7)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def until_sent_elsewhere(self) -> None:
        """Go on as a member, for whom all is well until its coordinator is another one."""
        error = ErrorCode.NONE
        while error != ErrorCode.NOT_COORDINATOR:
            assert error == ErrorCode.NONE
            error = (await self.wire.ask(self.heartbeat, 3)).error_code


async def test_it_goes_when_all_members_have_heard_of_it(store: str) -> None:
    async with two_servers(store) as (leaving, _):
        members = [await Member.join(leaving, group) for group in ("billing", "audit")]
        stopping = asyncio.create_task(leaving.stop())
        await members[0].until_sent_elsewhere()
        assert not stopping.done()
        await members[1].until_sent_elsewhere()
        await stopping
        for member in members:
            await member.wire.until_closed()
            member.wire.close()


async def test_member_that_commits_has_heard_of_it_as_well(store: str) -> None:
    """It sends its next heartbeat to the other node already."""
    async with two_servers(store) as (leaving, _):
        await leaving.ensure_topic("t", 1)
        member = await Member.join(leaving, "billing")
        stopping = asyncio.create_task(leaving.stop())
        error = ErrorCode.NONE
        while error != ErrorCode.NOT_COORDINATOR:
            assert error == ErrorCode.NONE
            error = await member.commit("t")
        await stopping
        await member.wire.until_closed()
        member.wire.close()


async def test_it_does_not_wait_for_members_that_hang_up(store: str) -> None:
    async with two_servers(store) as (leaving, _):
        gone, going = [await Member.join(leaving, group) for group in ("billing", "audit")]
        gone.wire.close()
        stopping = asyncio.create_task(leaving.stop())
        asking = Member(await Wire.open(leaving.address.port), gone.heartbeat)
        await asking.until_sent_elsewhere()
        assert not stopping.done()
        going.wire.close()
        await stopping
        asking.wire.close()


async def test_it_does_not_wait_for_clients_that_wait_for_records(store: str) -> None:
    """They ask again as soon as they are answered, until their connection is closed."""
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = (m.FetchTopic(topic="t", partitions=(partition,)),)
    fetch = m.FetchRequest(max_wait_ms=FOR_EVER_MS, min_bytes=1, topics=topics)
    async with two_servers(store) as (leaving, _):
        await leaving.ensure_topic("t", 1)
        wire = await Wire.open(leaving.address.port)
        sent = wire.send(fetch, 11)
        while not leaving.node.parked_fetches:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)
        stopping = asyncio.create_task(leaving.stop())
        with contextlib.suppress(ConnectionError):
            while True:
                await wire.receive(fetch, 11, sent)
                sent = wire.send(fetch, 11)
        await stopping
        wire.close()


async def test_it_waits_for_silent_members_no_longer_than_it_may(store: str) -> None:
    async with two_servers(store, linger_ms=100) as (leaving, _):
        silent = await Member.join(leaving, "billing")
        await leaving.stop()
        await silent.wire.until_closed()
        silent.wire.close()


async def test_it_has_nothing_to_tell_if_no_other_takes_its_groups() -> None:
    async with asyncio.timeout(PATIENCE_S), Server(options(None)) as alone:
        member = await Member.join(alone, "billing")
        await alone.stop()
        await member.wire.until_closed()
        member.wire.close()


async def test_servers_that_all_stop_do_not_wait_for_members(store: str) -> None:
    async with two_servers(store) as (one, other):
        member = await Member.join(one, "billing")
        first = asyncio.create_task(one.stop())
        while other.node.coordinator("billing") is None:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)
        await asyncio.gather(first, other.stop())
        await member.wire.until_closed()
        member.wire.close()
