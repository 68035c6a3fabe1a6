"""Heartbeats that only prolong a session take a short way, and no client can tell."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import Event, MemberFenced, MemberGone
from coterie_server.config.assembly import RandomIds
from coterie_server.group import Config, GroupCoordinator
from coterie_server.net import Exchange
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from coterie_server.serving import GroupShard, NodeContext
from coterie_server.serving.clock import Alarm, Clock
from coterie_server.storage import Lease, MemoryStore
from coterie_server.storage.abc import Record
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio

SESSION_MS = 10_000


class GatedStore(MemoryStore):
    """A store whose appends wait until the gate is open, as it is at first."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Wait for the gate."""
        await self.gate.wait()
        await super().append(lease, records)


class SetClock(Clock):
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        super().__init__()
        self.ms = 1_000_000

    def now_ms(self) -> int:
        """The present moment."""
        return self.ms


class Shard:
    """A shard with a group of one static member."""

    def __init__(self, store: GatedStore, shard: GroupShard, clock: SetClock) -> None:
        self.store = store
        self.shard = shard
        self.clock = clock
        self.member_id = ""

    def ask(self, message: Any, version: int) -> asyncio.Future[Any]:
        """Hand in a request."""
        request = Pending(message, version)
        self.shard.handle(request)
        return request.answer

    async def form(self) -> None:
        """Let the member join and sync."""
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"")
        join = m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            group_instance_id="i1",
            protocol_type="consumer",
            protocols=(protocol,),
        )
        joined = self.ask(join, 5)
        self.shard.fire_due(self.clock.ms)
        self.member_id = (await joined).member_id
        sync = m.SyncGroupRequest(
            group_id="g", generation_id=1, member_id=self.member_id, assignments=()
        )
        await self.ask(sync, 3)

    def heartbeat(self, **changes: Any) -> m.HeartbeatRequest:
        """The member's heartbeat, or one that differs from it."""
        values = {"group_id": "g", "generation_id": 1, "member_id": self.member_id, **changes}
        return m.HeartbeatRequest(**values)

    def commit(self) -> asyncio.Future[Any]:
        """Commit an offset in the member's name."""
        partition = m.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=None
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
        message = m.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=1,
            member_id=self.member_id,
            topics=(topic,),
        )
        return self.ask(message, 7)


@pytest_asyncio.fixture
async def events() -> list[Event]:
    """What the shard told."""
    return []


@pytest_asyncio.fixture
async def shard(events: list[Event]) -> AsyncIterator[Shard]:
    """A shard whose group is stable."""
    clock = SetClock()
    async with GatedStore() as store:
        (lease,) = await store.claim([0], "node-1", 10_000)
        served = GroupShard(
            lease.shard,
            NodeContext(store, clock, observe=lambda _ts, event: events.append(event)),
            lambda: GroupCoordinator(Config(initial_rebalance_delay_ms=0), RandomIds(), {"t": 1}),
        )
        served.own(lease)
        await served.load()
        shard = Shard(store, served, clock)
        await shard.form()
        yield shard
        store.gate.set()
        await served.close()


async def test_a_member_of_the_present_generation_is_answered_at_once(shard: Shard) -> None:
    assert shard.shard.try_heartbeat(shard.heartbeat()) == m.HeartbeatResponse()
    assert (
        shard.shard.try_heartbeat(shard.heartbeat(group_instance_id="i1")) == m.HeartbeatResponse()
    )


async def test_a_heartbeat_answered_at_once_begins_the_session_anew(
    shard: Shard, events: list[Event]
) -> None:
    shard.clock.ms += SESSION_MS - 1
    assert shard.shard.try_heartbeat(shard.heartbeat()) is not None
    shard.clock.ms += SESSION_MS - 1
    shard.shard.fire_due(shard.clock.ms)
    assert not any(isinstance(event, MemberGone) for event in events)
    shard.clock.ms += 1
    shard.shard.fire_due(shard.clock.ms)
    await asyncio.sleep(0.01)
    (gone,) = (event for event in events if isinstance(event, MemberGone))
    assert gone.silent_ms == SESSION_MS


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "h"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_instance_id": "i2"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_refused_heartbeats_take_a_step(
    shard: Shard, changes: dict[str, Any], error: ErrorCode
) -> None:
    heartbeat = shard.heartbeat(**changes)
    assert shard.shard.try_heartbeat(heartbeat) is None
    assert (await shard.ask(heartbeat, 4)).error_code == error


async def test_a_session_that_would_get_shorter_takes_a_step(shard: Shard) -> None:
    assert shard.shard.try_heartbeat(shard.heartbeat()) is not None
    shard.clock.ms -= 1
    assert shard.shard.try_heartbeat(shard.heartbeat()) is None
    assert (await shard.ask(shard.heartbeat(), 4)).error_code == ErrorCode.NONE
    assert shard.shard.try_heartbeat(shard.heartbeat()) is not None


async def test_a_fenced_heartbeat_is_in_the_journal(shard: Shard, events: list[Event]) -> None:
    heartbeat = shard.heartbeat(member_id="the former one", group_instance_id="i1")
    assert shard.shard.try_heartbeat(heartbeat) is None
    assert (await shard.ask(heartbeat, 4)).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert any(isinstance(event, MemberFenced) for event in events)


async def test_a_heartbeat_waits_for_what_is_being_written(shard: Shard) -> None:
    shard.store.gate.clear()
    commit = shard.commit()
    assert shard.shard.try_heartbeat(shard.heartbeat()) is None
    heartbeat = shard.ask(shard.heartbeat(), 4)
    await asyncio.sleep(0.01)
    assert not heartbeat.done()
    shard.store.gate.set()
    await commit
    assert (await heartbeat).error_code == ErrorCode.NONE
    assert shard.shard.try_heartbeat(shard.heartbeat()) is not None


async def test_a_shard_that_is_not_served_answers_no_heartbeat_at_once(shard: Shard) -> None:
    await shard.shard.close()
    assert shard.shard.try_heartbeat(shard.heartbeat()) is None


async def test_nobody_expires_before_heartbeats_that_were_held_are_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listener = ListenerOptions(Address("127.0.0.1", 0))
    async with Server(ServerOptions(listeners=(listener,))) as server:
        node, waited = server.node, list[bool]()
        monkeypatch.setattr(Alarm, "go_on", lambda _, have_waited: waited.append(have_waited))
        node.confirmed()
        node.trust.until_s = 0.0
        monkeypatch.setattr(node.trust, "doubt", lambda: None)
        message = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        held = Pending(message, 3)
        node.handle(cast(Exchange, held))
        node.trust.until_s = math.inf
        node.confirmed()
        assert waited == [False, True]
        assert (await held.answer).error_code == ErrorCode.UNKNOWN_MEMBER_ID
