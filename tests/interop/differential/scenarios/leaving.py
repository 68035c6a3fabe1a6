"""Heartbeat and LeaveGroup: how members stay, and how they go."""

from __future__ import annotations

from coterie_protocol import ApiKey
from coterie_protocol.messages import MemberIdentity
from tests.interop.differential.differences import PENDING
from tests.interop.differential.member import Member, cast, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


@scenario(each=ApiKey.HEARTBEAT)
async def heartbeats_in_each_state(s: Script, version: int) -> None:
    """What a heartbeat is told in each state, by members and by others."""
    a, b = await cast(s, "a", "b")
    await a.heartbeat(version=version, group_id="")
    await a.heartbeat(version=version)
    await together(a, b)
    await a.heartbeat(version=version)
    await stable(a, b)
    await a.heartbeat(version=version)
    await a.heartbeat(version=version, generation_id=1)
    await a.heartbeat(version=version, generation_id=99)
    await a.heartbeat(version=version, generation_id=-1)
    await a.heartbeat(version=version, member_id="stranger")
    await a.heartbeat(version=version, member_id="")
    join = await a.join().parked()
    await b.heartbeat(version=version)
    await b.heartbeat(version=version, generation_id=1)
    await b.join()
    await join
    await a.leave()
    await b.leave()
    await a.heartbeat(version=version)


@scenario()
async def heartbeats_keep_alive(s: Script) -> None:
    """A member that is heard of keeps its place; one that is not loses it."""
    a, b = await cast(s, "a", "b", session_ms=2500)
    await stable(a, b)
    await a.until_told()
    await b.heartbeat()
    await s.describe()
    await a.join()


@scenario()
async def a_session_ends_while_members_join(s: Script) -> None:
    """In the first phase, the end of the last awaited member's session ends the phase."""
    a, b = await cast(s, "a", "b")
    b.session_ms = 2500
    await stable(a, b)
    join = await a.join().parked()
    await join
    await b.heartbeat()
    await b.join()


@scenario()
async def all_sessions_end(s: Script) -> None:
    """A group whose members are all lost is empty, one generation later."""
    a, b = await cast(s, "a", "b", session_ms=2500, rebalance_ms=2500)
    await stable(a, b)
    await s.until_state("Empty")
    await a.heartbeat()
    await a.join()
    c = await Member.of(s, "c")
    await c.enter()


@scenario(each=ApiKey.LEAVE_GROUP)
async def members_leave(s: Script, version: int) -> None:
    """A follower leaves, then the last member, then no member at all."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await b.leave(version=version)
    await a.until_told()
    await b.heartbeat()
    await a.join()
    await a.sync({a: b"all"})
    await a.leave(version=version)
    await s.describe()
    await a.leave(version=version)


@scenario(each=ApiKey.LEAVE_GROUP)
async def leaves_are_refused(s: Script, version: int) -> None:
    """Unknown groups and members, in the shape of each version."""
    a, b = await cast(s, "a", "b")
    b.id = "stranger"
    await b.leave(version=version)
    await b.leave(version=version, group_id="")
    await a.get_id()
    await b.leave(version=version)
    await a.join()
    await b.leave(version=version)
    b.id = ""
    await b.leave(version=version)
    await a.heartbeat()


@scenario()
async def the_leader_leaves(s: Script) -> None:
    """If the leader leaves, one of those who stay leads."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await a.leave()
    await b.until_told()
    await s.describe()
    await b.join()


@scenario()
async def somebody_leaves_while_members_join(s: Script) -> None:
    """In the first phase, the leave of the last awaited member ends the phase."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    await b.leave()
    await join


@scenario()
async def a_member_with_a_parked_join_leaves(s: Script) -> None:
    """A parked join whose member leaves is told that it is no member."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await b.join(protocols={"range": b"new"}).parked()
    twin = await b.elsewhere()
    await twin.leave()
    await join
    await a.join()


@scenario()
async def many_leave_in_one_request(s: Script) -> None:
    """Each is answered for itself, in order; no member leaves twice."""
    a, b, c, d = await cast(s, "a", "b", "c", "d")
    await together(a, b, c)
    await d.get_id()
    stranger = MemberIdentity(member_id="stranger")
    nobody = MemberIdentity(member_id="", group_instance_id=None)
    unnamed = MemberIdentity(member_id="", group_instance_id="unknown")
    everybody = (b, stranger, d, b, nobody, unnamed, c)
    await a.leave(*(m.identity() if isinstance(m, Member) else m for m in everybody), version=3)
    await a.until_told()
    await d.join()
    await a.join()
    await s.describe()


@scenario()
async def nobody_leaves(s: Script) -> None:
    """A request without members changes nothing."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await a.leave(version=5, members=())
    await a.heartbeat()


@scenario()
async def all_leave_in_one_request(s: Script) -> None:
    """A group that all have left is empty, one generation later."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await a.leave(a.identity(reason="done"), b.identity(reason=""))
    await s.describe()
    c = await Member.of(s, "c")
    await c.enter()


@scenario()
async def a_pending_id_leaves_an_empty_group(s: Script) -> None:
    """A handed-out id can be given back."""
    (a,) = await cast(s, "a")
    await a.get_id()
    await a.leave()
    await a.join()
    await s.describe()


@scenario()
async def a_pending_id_leaves_a_stable_group(s: Script) -> None:
    """In Kafka a stable group rebalances because an unused id was given back."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.get_id()
    await b.leave()
    reply = await a.heartbeat()
    reply.differs(PENDING, "error_code", kafka=27, coterie=0)


@scenario()
async def a_pending_id_leaves_while_members_join(s: Script) -> None:
    """A rebalance that waits for a handed-out id is over when that id is given back."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.get_id()
    join = await a.join().parked()
    await b.leave()
    await join
