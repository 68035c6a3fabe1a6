"""JoinGroup of those who are members already, and how the first phase ends."""

from __future__ import annotations

from typing import Any

from tests.interop.differential.differences import ANSWERED
from tests.interop.differential.member import Member, cast, settle, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


@scenario()
async def a_lone_leader_joins_again(s: Script) -> None:
    """The only member's join makes a new generation at once."""
    (a,) = await cast(s, "a")
    await stable(a)
    await a.join()
    await s.describe()


@scenario()
async def the_leader_joins_again(s: Script) -> None:
    """The leader's join starts a rebalance though nothing has changed."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    await s.describe()
    await b.heartbeat()
    await b.join()
    await join
    await s.describe()


@scenario()
async def a_follower_joins_again(s: Script) -> None:
    """A follower's join that says nothing new is answered with the present generation."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    await b.join()
    await b.join(session_timeout_ms=20_000, rebalance_timeout_ms=20_000)
    await a.heartbeat()
    await b.sync()


@scenario()
async def a_follower_changes_its_metadata(s: Script) -> None:
    """A follower's join with other metadata starts a rebalance."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await b.join(protocols={"range": b"new"}).parked()
    await a.until_told()
    await a.join()
    await join


@scenario()
async def a_follower_changes_the_order_of_protocols(s: Script) -> None:
    """The order of the protocols is part of what a member says."""
    lists = {"x": b"1", "y": b"2"}
    a, b = await cast(s, "a", "b", protocols=lists)
    await stable(a, b)
    join = await b.join(protocols={"y": b"2", "x": b"1"}).parked()
    await a.until_told()
    await a.join()
    await join


@scenario()
async def members_join_again_before_the_sync(s: Script) -> None:
    """Between join and sync, a join that says nothing new is answered at once."""
    a, b = await cast(s, "a", "b")
    await together(a, b)
    await a.join()
    await b.join()
    await settle(a, b)


@scenario()
async def metadata_changes_before_the_sync(s: Script) -> None:
    """Between join and sync, other metadata start the next round; parked syncs are sent back."""
    a, b, c = await cast(s, "a", "b", "c")
    await together(a, b, c)
    sync = await b.sync().parked()
    join = await c.join(protocols={"range": b"new"}).parked()
    await sync
    await b.join().parked()
    await a.join()
    await join


@scenario()
async def a_newcomer_before_the_sync(s: Script) -> None:
    """A newcomer between join and sync starts the next round."""
    a, b, c = await cast(s, "a", "b", "c")
    await together(a, b)
    sync = await b.sync().parked()
    join = await c.begin()
    await sync
    await a.heartbeat()
    await a.sync({a: b"", b: b""})
    await b.join().parked()
    await a.join()
    await join


@scenario()
async def a_newcomer_joins_a_stable_group(s: Script) -> None:
    """A newcomer starts a rebalance; the former leader keeps leading."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    join = await b.begin()
    await a.heartbeat()
    await a.sync({a: b""})
    await a.join()
    await join
    await settle(a, b)
    await a.heartbeat()
    await b.heartbeat()


@scenario()
async def joins_on_two_connections(s: Script) -> None:
    """Of two joins of one member only the second counts."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    first = await b.join(protocols={"range": b"1"}).parked()
    twin = await b.elsewhere()
    second = await twin.join(protocols={"range": b"2"}).parked()
    reply = await first.or_silence(1.0)
    refused: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": 27,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": "b-M2",
        "members": [],
    }
    reply.differs(ANSWERED, kafka="silence", coterie=refused)
    await a.join()
    await second


@scenario()
async def who_does_not_join_is_dropped(s: Script) -> None:
    """A member that does not join within the rebalance timeout is no member any more."""
    a, b, c = await cast(s, "a", "b", "c", rebalance_ms=3000)
    await stable(a, b)
    join = await c.begin()
    await b.heartbeat()
    await a.join().parked()
    await join
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario()
async def the_leader_does_not_join(s: Script) -> None:
    """If the leader does not join in time, another leads."""
    a, b = await cast(s, "a", "b", rebalance_ms=2500)
    await stable(a, b)
    await b.join(protocols={"range": b"new"})
    await a.heartbeat()
    await s.describe()


@scenario()
async def the_longest_rebalance_timeout_counts(s: Script) -> None:
    """The first phase lasts as long as the most patient member allows."""
    a = await Member.of(s, "a", rebalance_ms=300)
    b = await Member.of(s, "b", rebalance_ms=20_000)
    await stable(a, b)
    join = await a.join().parked()
    await b.beats(1.0)
    await b.join()
    await join


@scenario()
async def the_rebalance_timeout_of_version_0(s: Script) -> None:
    """Before version 1 the session timeout is the rebalance timeout, too."""
    a, b = await cast(s, "a", "b", session_ms=2500)
    await together(a, b, version=0)
    await settle(a, b)
    join = await a.join(version=0).parked()
    await b.beats(1.0)
    await join


@scenario()
async def a_newcomer_expects_its_first_join(s: Script) -> None:
    """A newcomer's session does not end while its join is parked, however short it is."""
    a = await Member.of(s, "a")
    b = await Member.of(s, "b", session_ms=400)
    await stable(a)
    join = await b.begin(version=3)
    await a.beats(1.2)
    await s.describe()
    await a.join()
    await join


@scenario()
async def a_known_member_waits_long(s: Script) -> None:
    """A parked join keeps a member alive, whatever its session timeout."""
    a = await Member.of(s, "a")
    b = await Member.of(s, "b", session_ms=2500)
    await stable(a, b)
    join = await b.join(protocols={"range": b"new"}).parked()
    await a.beats(4.0)
    await s.describe()
    await a.join()
    await join


@scenario()
async def the_described_states(s: Script) -> None:
    """What is told of a group in each state, and what members still have of the last round."""
    a, b = await cast(s, "a", "b")
    await s.describe()
    await a.get_id()
    await s.describe()
    await stable(a, b)
    await s.describe()
    join = await a.join().parked()
    await s.describe()
    await b.join()
    await join
    await s.describe()
    again = await a.join(protocols={"range": b"new"}).parked()
    await s.describe()
    await b.join()
    await again
    await settle(a, b)
    await s.describe()
    await a.leave()
    await b.leave()
    await s.describe()
