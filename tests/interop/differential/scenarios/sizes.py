"""What happens where a group may have two members (`group.max.size`)."""

from __future__ import annotations

from typing import Any

from tests.interop.differential.differences import STATIC_ROOM, TURNED_AWAY
from tests.interop.differential.member import cast, settle, stable, together
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Script
from tests.interop.differential.transcript import ANY


@scenario(Setup.NARROW)
async def a_third_member_in_a_stable_group(s: Script) -> None:
    """There is no room for it, with or without an id, and the two notice nothing."""
    a, b, c = await cast(s, "a", "b", "c")
    await stable(a, b)
    await c.join()
    await c.join(version=3)
    await c.join(group_instance_id="static")
    await c.join(member_id="stranger")
    await b.join()
    await a.heartbeat()
    await s.describe()


@scenario(Setup.NARROW)
async def a_third_member_in_the_initial_delay(s: Script) -> None:
    """In the first phase those who have joined are counted, not the ids handed out."""
    a, b, c, d = await cast(s, "a", "b", "c", "d")
    for member in (a, b, c):
        await member.get_id()
    joins = [await a.join().parked(), await b.join().parked()]
    await c.join()
    await d.join()
    await d.join(version=3)
    for join in joins:
        await join


@scenario(Setup.NARROW)
async def a_third_member_before_the_sync(s: Script) -> None:
    """Between join and sync the two may ask again, a third may not come."""
    a, b, c = await cast(s, "a", "b", "c")
    await together(a, b)
    await c.join()
    await b.join()
    await a.join()
    await settle(a, b)
    await b.leave()
    await a.until_told()
    await a.join()
    await a.sync({a: b""})
    await c.get_id()


@scenario(Setup.NARROW)
async def a_member_that_joins_again_too_late(s: Script) -> None:
    """If others took all the places meanwhile, it is turned away, member or not."""
    a, b, c, d = await cast(s, "a", "b", "c", "d")
    await stable(a, b)
    await a.leave()
    joins = [await c.begin(), await d.begin()]
    await b.join()
    for join in joins:
        reply = await join.or_silence(1.0)
        reply.differs(TURNED_AWAY, kafka="silence", coterie=ANY)
    await b.heartbeat()


@scenario(Setup.NARROW)
async def a_static_member_comes_back_to_a_full_group(s: Script) -> None:
    """Kafka has no room for it, Coterie has the room that it had."""
    a, b = await cast(s, "a", "b")
    a.instance, b.instance = "i-a", "i-b"
    await stable(a, b)
    new = await b.again(client_id="b")
    reply = await new.join()
    told: dict[str, Any] = {
        "error_code": (81, 0),
        "generation_id": (-1, 2),
        "protocol_type": (None, "consumer"),
        "protocol_name": (None, "range"),
        "leader": ("", "i-a-M1"),
        "member_id": ("", "i-b-M3"),
    }
    for path, (kafka, coterie) in told.items():
        reply.differs(STATIC_ROOM, path, kafka=kafka, coterie=coterie)
