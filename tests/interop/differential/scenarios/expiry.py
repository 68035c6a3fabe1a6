"""Offsets and groups that are not needed any more, with frequent sweeps."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.interop.differential.differences import GENERATIONS, PENDING_KEPT
from tests.interop.differential.member import Member, cast, offsets, settle, subscribed, together
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Script

#: The last version in which an id is not handed out first: a sweep in between would take the group
#: with it, in Kafka.
_AT_ONCE = 3

#: Longer than several sweeps and than every retention asked for here.
_LONG_S = 2.0


async def _commit(a: Member, topic: str, index: int, retention_ms: int) -> None:
    """Commit in a version that can say how long the offset is to be kept."""
    topics = offsets({(topic, index): 1})
    await a.commit(version=2, topics=topics, retention_time_ms=retention_ms)


async def _stable(*members: Member) -> None:
    await together(*members, version=_AT_ONCE)
    await settle(*members)


@scenario(Setup.SWEPT)
async def an_empty_group_goes(s: Script) -> None:
    """A group without members and offsets is deleted."""
    (a,) = await cast(s, "a")
    await _stable(a)
    await a.leave()
    await s.until_state("Dead")
    await s.list_groups()
    await a.heartbeat()
    b = await Member.of(s, "b")
    reply = await b.join(version=_AT_ONCE)
    reply.differs(GENERATIONS, "generation_id", kafka=1, coterie=3)


@scenario(Setup.SWEPT)
async def an_unused_id_in_an_empty_group(s: Script) -> None:
    """Kafka sweeps the group away while a client is about to join it."""
    (a,) = await cast(s, "a")
    await a.get_id()
    await asyncio.sleep(_LONG_S)
    reply = await a.join()
    reply.differs(PENDING_KEPT, "error_code", kafka=25, coterie=0)
    member = {
        "member_id": "a-M1",
        "group_instance_id": None,
        "metadata": a.protocols["range"],
    }
    told: dict[str, Any] = {
        "generation_id": (-1, 1),
        "protocol_type": (None, "consumer"),
        "protocol_name": (None, "range"),
        "leader": ("", "a-M1"),
        "members": ([], [member]),
    }
    for path, (kafka, coterie) in told.items():
        reply.differs(PENDING_KEPT, path, kafka=kafka, coterie=coterie)


@scenario(Setup.SWEPT)
async def offsets_without_a_group_expire(s: Script) -> None:
    """Each goes at its own time, and the group with the last one."""
    (a,) = await cast(s, "a")
    await _commit(a, s.topic, 0, 300)
    await _commit(a, s.topic, 1, 60_000)
    await asyncio.sleep(_LONG_S)
    await s.fetch_offsets()
    await _commit(a, s.topic, 1, 300)
    await s.until_state("Dead")


@scenario(Setup.SWEPT)
async def offsets_of_an_empty_group_expire(s: Script) -> None:
    """In an emptied group, too, each may have its own time."""
    (a,) = await cast(s, "a")
    await _stable(a)
    await _commit(a, s.topic, 0, 300)
    await _commit(a, s.topic, 1, -1)
    await a.leave()
    await asyncio.sleep(_LONG_S)
    await s.fetch_offsets()
    await s.describe()


@scenario(Setup.SWEPT)
async def offsets_of_a_group_at_work(s: Script) -> None:
    """Those that its members subscribe to stay, however little time they were given."""
    other = await s.new_topic("other")
    a = await Member.of(s, "a", protocols={"range": subscribed(s.topic)})
    await _stable(a)
    await _commit(a, s.topic, 0, 300)
    await _commit(a, other, 0, 300)
    await asyncio.sleep(_LONG_S)
    await s.fetch_offsets()
    await a.leave()
    await s.until_state("Dead")


@scenario(Setup.SWEPT)
async def offsets_of_a_group_nobody_can_read(s: Script) -> None:
    """While a group of another type, or with unreadable bytes, is at work, nothing goes."""
    a = await Member.of(s, "a", kind="connect", protocols={"default": b"?"})
    b = await Member.of(s, "b", group=f"{s.group}+2", protocols={"range": b"?"})
    for member in (a, b):
        await _stable(member)
        await _commit(member, s.topic, 0, 300)
    await asyncio.sleep(_LONG_S)
    for group in (a.group, b.group):
        await s.fetch_offsets(group=group)


@scenario(Setup.SWEPT)
async def offsets_while_members_join(s: Script) -> None:
    """During a rebalance nothing expires."""
    other = await s.new_topic("other")
    a, b = await cast(s, "a", "b", protocols={"range": subscribed(s.topic)})
    await _stable(a, b)
    await _commit(a, other, 0, 3000)
    join = await a.join(version=_AT_ONCE).parked()
    await asyncio.sleep(3.0 + _LONG_S)
    await s.fetch_offsets()
    await b.join()
    await join
    await asyncio.sleep(_LONG_S)
    await s.fetch_offsets()
    await a.sync({a: b"", b: b""})
    await asyncio.sleep(_LONG_S)
    await s.fetch_offsets()
