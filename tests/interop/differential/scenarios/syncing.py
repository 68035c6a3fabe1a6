"""SyncGroup: the second phase, and how it fails."""

from __future__ import annotations

from typing import Any

from coterie_protocol import ApiKey
from coterie_protocol.messages import SyncGroupRequestAssignment
from tests.interop.differential.differences import ANSWERED
from tests.interop.differential.member import cast, settle, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script

REFUSED: dict[str, Any] = {
    "throttle_time_ms": 0,
    "protocol_type": None,
    "protocol_name": None,
    "assignment": b"",
}


@scenario(each=ApiKey.SYNC_GROUP)
async def the_leader_syncs_last(s: Script, version: int) -> None:
    """Followers wait for the leader's assignment, and all get their part of it."""
    a, b, c = await cast(s, "a", "b", "c")
    await together(a, b, c)
    parked = [await member.sync(version=version).parked() for member in (b, c)]
    await a.sync({a: b"1", b: b"2", c: b"3"}, version=version)
    for sync in parked:
        await sync
    await b.sync(version=version)
    await s.describe()


@scenario(each=ApiKey.SYNC_GROUP)
async def syncs_are_refused(s: Script, version: int) -> None:
    """Strangers, other generations and a group without members, in the shape of each version."""
    a, b = await cast(s, "a", "b")
    await a.sync(version=version, protocol_name="range")
    await a.sync(version=version, protocol_name="range", group_id="")
    await a.get_id()
    await a.sync(version=version, protocol_name="range")
    await a.join()
    await b.sync(version=version, protocol_name="range", member_id="stranger", generation_id=1)
    await a.sync(version=version, generation_id=2)
    await a.sync(version=version, generation_id=0)
    await a.sync({a: b"1"}, version=version)
    await a.sync(version=version, generation_id=0)
    await a.leave()
    await a.sync(version=version)


@scenario()
async def syncs_that_name_another_protocol(s: Script) -> None:
    """A sync for another type or protocol is refused; a version that names them has to."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    await a.sync(protocol_name="other")
    await a.sync(protocol_type="connect")
    await a.sync(protocol_name=None)
    await a.sync(protocol_type=None)
    await b.sync(protocol_type=None, member_id="stranger")
    await b.sync(protocol_name="other", generation_id=9)
    await b.sync(protocol_name="other", member_id="stranger")
    await settle(a, b)
    await b.sync(protocol_name="other")


@scenario()
async def a_sync_while_members_join(s: Script) -> None:
    """A sync in the first phase is told to join again."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    await b.sync()
    await b.sync(generation_id=1)
    await b.join()
    await join


@scenario()
async def odd_assignments(s: Script) -> None:
    """Who is not mentioned gets nothing, who is no member is passed over, the last word counts."""
    a, b, c = await cast(s, "a", "b", "c")
    await together(a, b, c)
    given = [(b.id, b"first"), ("stranger", b"x"), (b.id, b"last"), (a.id, b"mine")]
    entries = tuple(SyncGroupRequestAssignment(member_id=i, assignment=d) for i, d in given)
    await a.sync(assignments=entries)
    await b.sync()
    await c.sync()
    await s.describe()


@scenario()
async def the_leader_brings_nothing(s: Script) -> None:
    """An empty assignment is one."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    sync = await b.sync().parked()
    await a.sync()
    await sync
    await s.describe()


@scenario()
async def assignments_come_too_late(s: Script) -> None:
    """In a stable group, what the leader or a follower brings is passed over."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await a.sync({a: b"new", b: b"new"})
    await b.sync({a: b"new", b: b"new"})
    await s.describe()


@scenario()
async def a_follower_brings_an_assignment(s: Script) -> None:
    """An assignment that does not come from the leader is none."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    sync = await b.sync({a: b"b's", b: b"b's"}).parked()
    await a.sync({a: b"a's", b: b"a's"})
    await sync


@scenario()
async def syncs_on_two_connections(s: Script) -> None:
    """Of two parked syncs of one member only the second counts."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    first = await b.sync().parked()
    twin = await b.elsewhere()
    second = await twin.sync().parked()
    reply = await first.or_silence(1.0)
    reply.differs(ANSWERED, kafka="silence", coterie={**REFUSED, "error_code": 27})
    await a.sync({a: b"1", b: b"2"})
    await second


@scenario()
async def a_member_with_a_parked_sync_leaves(s: Script) -> None:
    """A member that leaves while its sync is parked is told that it is no member."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    sync = await b.sync().parked()
    twin = await b.elsewhere()
    await twin.leave()
    reply = await sync.or_silence(1.0)
    reply.differs(ANSWERED, kafka="silence", coterie={**REFUSED, "error_code": 25})
    await a.heartbeat()
    await a.join()


@scenario()
async def nobody_syncs(s: Script) -> None:
    """Members that don't sync within the rebalance timeout are dropped, heartbeats or not."""
    a, b = await cast(s, "a", "b", rebalance_ms=2500)
    await together(a, b)
    await a.until_told()
    await b.heartbeat()
    await s.describe()


@scenario()
async def only_the_leader_syncs(s: Script) -> None:
    """A follower that does not sync is dropped, and the others are to join again."""
    a, b = await cast(s, "a", "b", rebalance_ms=2500)
    await together(a, b)
    await a.sync({a: b"1", b: b"2"})
    await a.until_told()
    await b.heartbeat()
    await s.describe()
    await a.join()


@scenario()
async def only_the_follower_syncs(s: Script) -> None:
    """A leader that does not sync is dropped; the follower's sync is sent back."""
    a, b = await cast(s, "a", "b", rebalance_ms=2500)
    await together(a, b)
    sync = await b.sync().parked()
    await sync
    await a.heartbeat()
    await b.heartbeat()
    await b.join()


@scenario()
async def all_sync_in_time(s: Script) -> None:
    """Once all have synced, the rebalance timeout means nothing any more."""
    a, b = await cast(s, "a", "b", rebalance_ms=2500)
    await stable(a, b)
    await a.beats(4.0)
    await b.heartbeat()
    await s.describe()


@scenario()
async def a_parked_sync_keeps_alive(s: Script) -> None:
    """A member whose sync is parked does not expire."""
    a, b = await cast(s, "a", "b")
    b.session_ms = 2500
    await together(a, b)
    sync = await b.sync().parked()
    await a.beats(4.0)
    await a.sync({a: b"1", b: b"2"})
    await sync
    await s.describe()


@scenario()
async def the_leader_is_lost_before_the_sync(s: Script) -> None:
    """If the leader's session ends, parked syncs are sent back and another leads."""
    a, b = await cast(s, "a", "b")
    a.session_ms = 2500
    await together(a, b)
    sync = await b.sync().parked()
    await sync
    await a.heartbeat()
    await s.describe()
    await b.join()


@scenario()
async def the_leader_leaves_before_the_sync(s: Script) -> None:
    """If the leader leaves, parked syncs are sent back and another leads."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    sync = await b.sync().parked()
    await a.leave()
    await sync
    await b.join()
