"""Static members (KIP-345): those who come back to the place that they had."""

from __future__ import annotations

import asyncio

from coterie_protocol import ApiKey
from coterie_protocol.consumer import Subscription, encode_subscription
from coterie_protocol.messages import MemberIdentity
from tests.interop.differential.differences import (
    STATIC_CLIENT,
    STATIC_MOVES,
    STATIC_STAY,
    STATIC_TOPICS,
)
from tests.interop.differential.member import Member, settle, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


async def _static(s: Script, *names: str, **attributes: object) -> list[Member]:
    return [
        await Member.of(s, name, instance=f"i-{name}", client_id="app", **attributes)
        for name in names
    ]


@scenario(each=ApiKey.JOIN_GROUP, since=5)
async def a_static_follower_is_replaced(s: Script, version: int) -> None:
    """A static follower that comes back gets a new id and its assignment unnoticed."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="app")
    await new.join(version=version)
    await new.sync()
    await a.heartbeat()
    await new.heartbeat()
    await s.describe()


@scenario(each=ApiKey.JOIN_GROUP, since=5)
async def a_static_leader_is_replaced(s: Script, version: int) -> None:
    """A static leader that comes back is told to skip the assignment, or not that it leads."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await a.again(client_id="app")
    await new.join(version=version)
    await new.sync()
    await b.heartbeat()
    join = await new.join(version=version).parked()
    await b.until_told()
    await b.join()
    await join


@scenario()
async def static_members_join_at_once(s: Script) -> None:
    """A static member needs no second join for its id."""
    a, b = await _static(s, "a", "b")
    await a.join()
    join = await b.join().parked()
    await a.until_told()
    await a.join()
    await join
    await settle(a, b)
    await s.describe()
    await s.describe(version=3)


@scenario()
async def static_replacement_in_the_first_phase(s: Script) -> None:
    """A process that takes the place of a member whose join is parked fences it."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    parked = await b.join(protocols={"range": b"new"}).parked()
    new = await b.again(client_id="app")
    join = await new.join().parked()
    await parked
    await s.describe()
    await a.join()
    await join
    await b.join()


@scenario()
async def static_replacement_before_the_sync(s: Script) -> None:
    """Between join and sync a replacement starts the next round, and fences the parked sync."""
    a, b, c = await _static(s, "a", "b", "c")
    await together(a, b, c)
    fenced, sent_back = await b.sync().parked(), await c.sync().parked()
    new = await b.again(client_id="app")
    join = await new.join().parked()
    await fenced
    await sent_back
    await a.sync({a: b"", b: b""})
    await c.join().parked()
    await a.join()
    await join


@scenario()
async def a_lone_static_leader_is_replaced_before_the_sync(s: Script) -> None:
    """With no other member to wait for, the next round is over at once."""
    (a,) = await _static(s, "a")
    await a.join()
    new = await a.again(client_id="app")
    await new.join()
    await a.sync({a: b""})
    await new.sync({new: b"all"})


@scenario()
async def static_replacement_with_other_metadata(s: Script) -> None:
    """As long as the protocol stays, other bytes start no rebalance; they are shown."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="app", protocols={"range": b"new"})
    await new.join()
    await a.heartbeat()
    await s.describe()
    await new.sync()


@scenario()
async def static_replacement_with_other_topics(s: Script) -> None:
    """A static member that comes back for other topics is to get them."""
    protocols = {"range": encode_subscription(Subscription(topics=("one",)))}
    (a,) = await _static(s, "a", protocols=protocols)
    await stable(a)
    other = {"range": encode_subscription(Subscription(topics=("one", "two")))}
    new = await a.again(client_id="app", protocols=other)
    reply = await new.join()
    reply.differs(STATIC_TOPICS, "generation_id", kafka=1, coterie=2)
    reply.differs(STATIC_TOPICS, "skip_assignment", kafka=True, coterie=False)


@scenario()
async def static_replacement_with_other_timeouts(s: Script) -> None:
    """A replacement brings its own timeouts; the first session is still that of before."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="app", session_ms=1200)
    await new.join()
    await new.sync()
    await new.heartbeat()
    await a.until_told()
    await new.heartbeat()


@scenario()
async def static_replacement_that_changes_the_vote(s: Script) -> None:
    """If the chosen protocol would be another one, there is a rebalance."""
    a = await Member.of(s, "a", instance="i-a", protocols={"x": b"1", "y": b"2"})
    b = await Member.of(s, "b", instance="i-b", protocols={"x": b"1", "y": b"2"})
    await stable(a, b)
    new = await b.again(client_id="b", protocols={"y": b"2"})
    join = await new.join().parked()
    await a.until_told()
    await a.join()
    await join
    await s.describe()


@scenario()
async def static_replacement_with_a_foreign_protocol(s: Script) -> None:
    """A replacement without a common protocol is refused, and nothing is replaced."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="app", protocols={"other": b""})
    await new.join()
    await b.heartbeat()


@scenario()
async def who_was_replaced_is_fenced(s: Script) -> None:
    """The old id of a static member is refused everywhere, with or without its instance id."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="app")
    await new.join()
    await b.join()
    await b.join(group_instance_id=None)
    await b.sync()
    await b.sync(group_instance_id=None)
    await b.heartbeat()
    await b.heartbeat(group_instance_id=None)
    await b.commit()
    await b.commit(group_instance_id=None)
    await b.leave()
    await b.leave(b.identity(group_instance_id=None))
    await new.heartbeat()


@scenario()
async def instances_and_ids_that_do_not_fit(s: Script) -> None:
    """An id with another's instance id is fenced, with an unknown one it is unknown."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    for instance in ("i-a", "i-unknown"):
        await b.join(group_instance_id=instance)
        await b.sync(group_instance_id=instance)
        await b.heartbeat(group_instance_id=instance)
        await b.commit(group_instance_id=instance)
        await b.leave(b.identity(group_instance_id=instance))
    await a.heartbeat(member_id="stranger")
    await a.heartbeat(member_id="")
    await a.heartbeat(member_id="stranger", generation_id=99)
    await a.heartbeat(group_instance_id=None)
    await a.commit(group_instance_id=None)
    await a.sync(group_instance_id=None)


@scenario()
async def static_members_are_removed_by_name(s: Script) -> None:
    """An operator removes static members by instance id, or by both ids."""
    a, b, c, d = await _static(s, "a", "b", "c", "d")
    await stable(a, b, c, d)
    b_by_name = MemberIdentity(member_id="", group_instance_id="i-b")
    c_by_both = c.identity()
    unknown = MemberIdentity(member_id="", group_instance_id="i-unknown")
    fenced = MemberIdentity(member_id="stranger", group_instance_id="i-d")
    await a.leave(b_by_name, c_by_both, unknown, fenced, b_by_name, version=3)
    await a.until_told()
    await b.heartbeat()
    await d.heartbeat()
    join = await a.join().parked()
    await d.join()
    await join


@scenario()
async def static_members_leave_of_their_own(s: Script) -> None:
    """A static member that leaves is gone at once."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    await b.leave()
    await a.until_told()
    await a.join()
    await s.describe()


@scenario()
async def a_static_leader_joins_again(s: Script) -> None:
    """A static leader that is still itself starts a rebalance like any other."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    await b.until_told()
    await b.join()
    await join


@scenario()
async def a_static_follower_joins_again(s: Script) -> None:
    """A static follower that says nothing new is answered with the present generation."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    await b.join()
    await a.heartbeat()
    join = await b.join(protocols={"range": b"new"}).parked()
    await a.until_told()
    await a.join()
    await join


@scenario()
async def static_members_join_again_before_the_sync(s: Script) -> None:
    """Between join and sync, too, what says nothing new is answered at once."""
    a, b = await _static(s, "a", "b")
    await together(a, b)
    await a.join()
    await b.join()
    await settle(a, b)


@scenario()
async def static_replacement_of_who_is_awaited(s: Script) -> None:
    """A rebalance that waits for a static member is over when another takes its place."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    new = await b.again(client_id="app")
    await new.join()
    await join
    await b.heartbeat()
    await settle(a, new)


@scenario()
async def a_static_session_ends(s: Script) -> None:
    """A static member that is not heard of for its session timeout is gone."""
    a, b = await _static(s, "a", "b")
    b.session_ms = 2500
    await stable(a, b)
    await a.until_told()
    await b.heartbeat()
    await a.join()
    await s.describe()


@scenario()
async def static_and_dynamic_members(s: Script) -> None:
    """Both kinds live in one group; a dynamic member still causes rebalances."""
    (a,) = await _static(s, "a")
    b = await Member.of(s, "b")
    await stable(a, b)
    new = await a.again(client_id="app")
    await new.join()
    await b.heartbeat()
    await b.leave()
    await new.until_told()
    await new.join()
    await s.describe()


@scenario()
async def a_static_member_does_not_join(s: Script) -> None:
    """It keeps its place in the next generation, and the leader is told of it."""
    a, b = await _static(s, "a", "b", rebalance_ms=2500)
    await stable(a, b)
    await a.join()
    await b.heartbeat()
    await a.sync({a: b"a", b: b"b"})
    await s.describe()
    await b.join()
    await b.sync()
    await a.heartbeat()


@scenario()
async def a_static_leader_does_not_join(s: Script) -> None:
    """A member that did join leads, and is told of the one that is away."""
    a, b = await _static(s, "a", "b", rebalance_ms=2500)
    await stable(a, b)
    await b.join(protocols={"range": b"new"})
    await b.sync({a: b"a", b: b"b"})
    await a.join()
    await a.sync()


@scenario()
async def no_static_member_joins(s: Script) -> None:
    """With no member to lead, the first phase goes on until one comes."""
    a, b = await _static(s, "a", "b", rebalance_ms=3000)
    c = await Member.of(s, "c")
    await stable(a, b, c)
    await c.leave()
    await a.until_told()
    await asyncio.sleep(3.5)
    await s.describe()
    join = await a.join().parked()
    await b.join()
    await join


@scenario()
async def a_static_member_is_away_for_long(s: Script) -> None:
    """Kafka drops a static member that neither joined nor synced; Coterie awaits its session."""
    a, b = await _static(s, "a", "b", rebalance_ms=2500)
    await stable(a, b)
    await a.join()
    await a.sync({a: b"a", b: b"b"})
    reply = await a.beats(4.0)
    reply.differs(STATIC_STAY, kafka=["NONE", "REBALANCE_IN_PROGRESS"], coterie=["NONE"])


@scenario()
async def a_static_member_is_silent_over_rounds(s: Script) -> None:
    """Kafka gives an absent static member a new session with every round; Coterie does not."""
    a, b = await _static(s, "a", "b", rebalance_ms=3000)
    b.session_ms = 4000
    await stable(a, b)
    await a.join()
    await a.sync({a: b"a", b: b"b"})
    reply = await a.beats(2.0)
    reply.differs(STATIC_STAY, kafka=["NONE"], coterie=["NONE", "REBALANCE_IN_PROGRESS"])


@scenario()
async def a_replaced_member_had_not_synced(s: Script) -> None:
    """Kafka still awaits the sync of the id that was replaced, and rebalances in vain."""
    a, b = await _static(s, "a", "b", rebalance_ms=2500)
    await together(a, b)
    await a.sync({a: b"a", b: b"b"})
    new = await b.again(client_id="app")
    await new.join()
    await new.sync()
    reply = await a.beats(4.0)
    reply.differs(STATIC_MOVES, kafka=["NONE", "REBALANCE_IN_PROGRESS"], coterie=["NONE"])


@scenario()
async def a_replacement_from_elsewhere(s: Script) -> None:
    """Kafka goes on showing the client id of the process that is gone."""
    a, b = await _static(s, "a", "b")
    await stable(a, b)
    new = await b.again(client_id="new app")
    await new.join()
    reply = await s.describe()
    reply.differs(STATIC_CLIENT, "groups[0].members[1].client_id", kafka="app", coterie="new app")


@scenario()
async def every_return_gets_another_id(s: Script) -> None:
    """Each replacement fences the one before it."""
    (a,) = await _static(s, "a")
    await stable(a)
    second = await a.again(client_id="app")
    await second.join()
    third = await second.again(client_id="app")
    await third.join()
    await a.heartbeat()
    await second.heartbeat()
    await third.heartbeat()
