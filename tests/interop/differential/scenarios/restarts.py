"""What a restart of the broker leaves of groups, members and offsets.

After the restart groups may have two members at most.
"""

from __future__ import annotations

from coterie_protocol import messages as m
from tests.interop.differential.differences import (
    GENERATIONS,
    LEADER_EPOCHS,
    PROTOCOLS_KEPT,
    REBALANCES_KEPT,
)
from tests.interop.differential.member import Member, cast, stable, together
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Script
from tests.interop.differential.transcript import ANY


async def _restart(s: Script, *members: Member) -> None:
    await s.restarted()
    for member in members:
        await member.reconnect()


@scenario(Setup.RESTART)
async def a_stable_group_survives(s: Script) -> None:
    """Members go on in the same generation, with the same assignment."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await a.commit({(s.topic, 0): 42}, metadata="before")
    await _restart(s, a, b)
    await b.heartbeat()
    await a.heartbeat()
    await s.describe()
    await s.list_groups()
    await b.sync()
    await b.join()
    await a.commit({(s.topic, 1): 43})
    await s.fetch_offsets()
    await a.heartbeat(generation_id=1)
    join = await a.join().parked()
    await b.join()
    await join


@scenario(Setup.RESTART)
async def sessions_begin_anew(s: Script) -> None:
    """A member that does not come back within its session timeout is removed."""
    a, b = await cast(s, "a", "b")
    b.session_ms = 10_000
    await stable(a, b)
    await _restart(s, a, b)
    await s.describe()
    await a.until_told()
    await b.heartbeat()


@scenario(Setup.RESTART)
async def a_first_generation_without_a_sync(s: Script) -> None:
    """Kafka forgets it and gives its number out again; Coterie goes on with it."""
    (a,) = await cast(s, "a")
    await together(a)
    await _restart(s, a)
    reply = await a.heartbeat()
    reply.differs(REBALANCES_KEPT, "error_code", kafka=25, coterie=0)
    reply = await a.leave()
    reply.differs(REBALANCES_KEPT, "members[0].error_code", kafka=25, coterie=0)
    b = await Member.of(s, "b")
    await b.get_id()
    reply = await b.join()
    reply.differs(GENERATIONS, "generation_id", kafka=1, coterie=3)


@scenario(Setup.RESTART)
async def a_rebalance_in_its_first_phase(s: Script) -> None:
    """Kafka forgets that there was one; in Coterie members still have to join."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await b.join(protocols={"range": b"new"}).parked()
    await _restart(s, a, b)
    reply = await a.heartbeat()
    reply.differs(REBALANCES_KEPT, "error_code", kafka=0, coterie=27)
    reply = await s.describe()
    path = "groups[0]"
    reply.differs(
        REBALANCES_KEPT, f"{path}.group_state", kafka="Stable", coterie="PreparingRebalance"
    )
    reply.differs(REBALANCES_KEPT, f"{path}.protocol_data", kafka="range", coterie="")
    for number in (0, 1):
        metadata = f"{path}.members[{number}].member_metadata"
        reply.differs(REBALANCES_KEPT, metadata, kafka=ANY, coterie=b"")
    join = await a.join().parked()
    await b.join(protocols={"range": b"new"})
    await join


@scenario(Setup.RESTART)
async def pending_ids_are_forgotten(s: Script) -> None:
    """An id that was handed out and not used yet is unknown afterwards."""
    (a,) = await cast(s, "a")
    await a.get_id()
    await _restart(s, a)
    await a.join()
    await s.describe()


@scenario(Setup.RESTART)
async def newcomers_and_their_protocols(s: Script) -> None:
    """Kafka knows only the chosen protocol afterwards, Coterie all of them."""
    a = await Member.of(s, "a", protocols={"x": b"1", "y": b"2"})
    await stable(a)
    await _restart(s, a)
    b = await Member.of(s, "b", protocols={"y": b"3"})
    reply = await b.join()
    reply.differs(PROTOCOLS_KEPT, "error_code", kafka=23, coterie=79)
    reply.differs(PROTOCOLS_KEPT, "member_id", kafka="", coterie="b-M2")


@scenario(Setup.RESTART)
async def members_with_many_protocols(s: Script) -> None:
    """In Kafka a follower that says nothing new causes a rebalance afterwards."""
    a, b = await cast(s, "a", "b", protocols={"x": b"1", "y": b"2"})
    await stable(a, b)
    await _restart(s, a, b)
    reply = await b.join().or_silence(1.0)
    reply.differs(PROTOCOLS_KEPT, kafka="silence", coterie=ANY)


@scenario(Setup.RESTART)
async def an_empty_group_counts_on(s: Script) -> None:
    """An emptied group keeps its type and its generation."""
    (a,) = await cast(s, "a")
    await stable(a)
    await a.leave()
    await _restart(s)
    await s.describe()
    b = await Member.of(s, "b")
    await b.enter()


@scenario(Setup.RESTART)
async def a_deleted_group_stays_deleted(s: Script) -> None:
    """Nothing of it is left but, in Coterie, the number of its generation."""
    (a,) = await cast(s, "a")
    await stable(a)
    await a.commit()
    await a.leave()
    await s.delete_groups()
    await _restart(s)
    await s.describe()
    await s.fetch_offsets()
    b = await Member.of(s, "b")
    await b.get_id()
    reply = await b.join()
    reply.differs(GENERATIONS, "generation_id", kafka=1, coterie=3)


@scenario(Setup.RESTART)
async def offsets_and_topics_survive(s: Script) -> None:
    """Offsets with all that belongs to them, and topics with their ids."""
    topic = await s.new_topic("t", 2)
    asked = m.MetadataRequest(topics=(m.MetadataRequestTopic(name=topic),))
    await s.ask(asked, 12)
    (a,) = await cast(s, "a")
    await a.commit({(topic, 1): 2**40}, generation=-1, metadata="é")
    await a.commit({(s.topic, 0): 1}, generation=-1)
    await s.delete_offsets({s.topic: [0]})
    await _restart(s)
    await s.fetch_offsets()
    await s.describe()
    reply = await s.ask(asked, 12)
    for index in (0, 1):
        epoch = f"topics[0].partitions[{index}].leader_epoch"
        reply.differs(LEADER_EPOCHS, epoch, kafka=ANY, coterie=0)


@scenario(Setup.RESTART)
async def static_members_stay_fenced(s: Script) -> None:
    """Who was replaced before is fenced afterwards; who is there can be replaced again."""
    a, b = await cast(s, "a", "b")
    a.instance, b.instance = "i-a", "i-b"
    await stable(a, b)
    new = await b.again(client_id="b")
    await new.join()
    await _restart(s, a, b, new)
    await b.heartbeat()
    await new.heartbeat()
    await new.sync()
    await a.heartbeat()


@scenario(Setup.RESTART)
async def a_group_is_too_large_afterwards(s: Script) -> None:
    """All have to join again, and the first to come stay."""
    members = await cast(s, "a", "b", "c", rebalance_ms=8000)
    a, b, c = members
    await stable(a, b, c)
    await _restart(s, a, b, c)
    joins = [await a.join().parked(), await b.join().parked()]
    await c.join()
    await c.heartbeat()
    for join in joins:
        await join
    await s.describe()
