"""JoinGroup: who may come in, and under which conditions."""

from __future__ import annotations

import asyncio

from coterie_protocol import ApiKey
from tests.interop.differential.differences import CLIENTS_FAULT, PROTOCOL_TWICE, VOTE_TIES
from tests.interop.differential.member import Member, cast, settle, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


@scenario(each=ApiKey.JOIN_GROUP)
async def one_member_joins(s: Script, version: int) -> None:
    """A member joins an empty group, syncs, and is described; a second joins and waits."""
    a, b = await cast(s, "a", "b")
    await a.enter(version=version)
    await a.sync({a: b"all"})
    await s.describe()
    await b.begin(version=version)
    await a.until_told()
    await s.describe()
    await a.join(version=version)


@scenario(each=ApiKey.JOIN_GROUP)
async def three_members_join(s: Script, version: int) -> None:
    """Three members make one generation; only the leader is told of all members."""
    members = await cast(s, "a", "b", "c")
    await together(*members, version=version)
    await s.describe()
    await settle(*members)
    await s.describe()


@scenario(each=ApiKey.JOIN_GROUP)
async def joins_are_refused(s: Script, version: int) -> None:
    """Bad group ids, session timeouts, ids and protocols, in the shape of each version."""
    (a,) = await cast(s, "a")
    await a.join(version=version, group_id="")
    await a.join(version=version, group_id="", member_id="me")
    await a.join(version=version, session_timeout_ms=99)
    await a.join(version=version, session_timeout_ms=1_800_001, member_id="me")
    await a.join(version=version, member_id="stranger")
    await a.join(version=version, protocol_type="")
    await a.join(version=version, protocols={})
    await s.describe()


@scenario()
async def session_timeouts_at_their_bounds(s: Script) -> None:
    """The shortest and the longest session timeout are allowed."""
    a, b = await cast(s, "a", "b")
    await a.enter(version=3, session_timeout_ms=100)
    await b.join(group_id=f"{s.group}+2", version=3, session_timeout_ms=1_800_000)


@scenario()
async def a_stranger_joins(s: Script) -> None:
    """An id that the group does not know is refused in each state, and no member is disturbed."""
    a, stranger = await cast(s, "a", "stranger")
    stranger.id = "stranger"
    await stranger.join()
    await a.get_id()
    await stranger.join()
    await a.join()
    await stranger.join()
    await a.sync({a: b"all"})
    await stranger.join()
    await stranger.join(group_instance_id="nobody")
    await a.heartbeat()
    await s.describe()


@scenario()
async def protocols_that_do_not_fit(s: Script) -> None:
    """Another type, or no protocol in common, is refused before the id is looked at."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.join(protocols={"other": b""})
    await b.join(protocol_type="connect")
    await b.join(protocol_type="")
    await b.join(protocols={})
    await b.join(protocol_type="connect", member_id="stranger")
    await b.join(protocols={"other": b""}, group_instance_id="static")
    await a.heartbeat()
    await s.describe()


@scenario()
async def a_pending_id_comes_with_no_protocol(s: Script) -> None:
    """A handed-out id that comes back with a bad list is refused, and may try again."""
    (a,) = await cast(s, "a")
    await a.get_id()
    await a.join(protocols={})
    await a.join(protocol_type="")
    await a.join()


@scenario()
async def ids_name_the_client(s: Script) -> None:
    """A member id begins with the client id, with nothing, or with the instance id."""
    named = await Member.of(s, "named", client_id="some client")
    await named.join(group_id=f"{s.group}+1")
    empty = await Member.of(s, "empty", client_id="")
    await empty.join(group_id=f"{s.group}+2")
    null = await Member.of(s, "null", client_id=None)
    await null.join(group_id=f"{s.group}+3")
    static = await Member.of(s, "static", instance="instance", group=f"{s.group}+4")
    await static.join()
    old = await Member.of(s, "old", client_id="old", group=f"{s.group}+5")
    await old.join(version=0)
    await s.describe(f"{s.group}+4", f"{s.group}+5")


@scenario()
async def a_null_client_id_is_described(s: Script) -> None:
    """A member without a client id is shown with an empty one."""
    a = await Member.of(s, "a", client_id=None)
    await stable(a)
    await s.describe()


@scenario()
async def a_pending_id_expires(s: Script) -> None:
    """A handed-out id is forgotten after the session timeout of the request."""
    (a,) = await cast(s, "a")
    await a.join(session_timeout_ms=300)
    await asyncio.sleep(2.0)
    await a.join()
    await s.describe()


@scenario()
async def many_pending_ids(s: Script) -> None:
    """Each join without an id gets a new one; none of them shows in the group."""
    (a,) = await cast(s, "a")
    for _ in range(3):
        a.id = ""
        await a.get_id()
    await s.describe()
    await s.list_groups()


@scenario()
async def a_pending_id_holds_a_rebalance_up(s: Script) -> None:
    """A rebalance waits for a handed-out id until that id's session is over."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.join(session_timeout_ms=2500)
    join = await a.join().parked()
    await s.describe()
    await join


@scenario()
async def a_pending_id_completes_a_rebalance(s: Script) -> None:
    """A rebalance that waits for a handed-out id is over when that id joins."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.get_id()
    join = await a.join().parked()
    await b.join()
    await join


@scenario()
async def a_pending_id_in_a_stable_group(s: Script) -> None:
    """A handed-out id that is never used leaves a stable group alone."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.join(session_timeout_ms=300)
    await a.beats(1.0)
    await s.describe()


@scenario()
async def a_pending_id_is_no_member(s: Script) -> None:
    """A handed-out id can't heartbeat, sync or commit."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await b.get_id()
    await b.heartbeat(generation_id=1)
    await b.sync(generation_id=1, protocol_name="range")
    await b.commit(generation=1)


@scenario()
async def a_pending_id_with_an_instance(s: Script) -> None:
    """A handed-out id can't come back as a static member."""
    (a,) = await cast(s, "a")
    await a.get_id()
    reply = await a.join(group_instance_id="static")
    reply.differs(CLIENTS_FAULT, "error_code", kafka=-1, coterie=25)
    reply.differs(CLIENTS_FAULT, "member_id", kafka="", coterie="a-M1")


@scenario()
async def the_vote(s: Script) -> None:
    """Each votes for the first of its own list that all can follow; most votes win."""
    a = await Member.of(s, "a", protocols={"x": b"ax", "y": b"ay", "z": b"az"})
    b = await Member.of(s, "b", protocols={"w": b"bw", "z": b"bz", "y": b"by"})
    c = await Member.of(s, "c", protocols={"z": b"cz", "x": b"cx", "y": b"cy"})
    await together(a, b, c)
    await settle(a, b, c)
    await s.describe()


@scenario()
async def the_vote_changes_with_members(s: Script) -> None:
    """A newcomer that can't follow the chosen protocol makes all follow another one."""
    a = await Member.of(s, "a", protocols={"x": b"ax", "y": b"ay"})
    b = await Member.of(s, "b", protocols={"y": b"by"})
    await stable(a)
    join = await b.begin()
    await a.until_told()
    await a.join()
    await join
    await settle(a, b)
    await b.leave()
    await a.until_told()
    await a.join()


@scenario()
async def a_tie_in_the_vote(s: Script) -> None:
    """Kafka chooses by hash, Coterie by the leader's list."""
    a = await Member.of(s, "a", protocols={"roundrobin": b"", "range": b""})
    b = await Member.of(s, "b", protocols={"range": b"", "roundrobin": b""})
    await a.enter()
    join = await b.begin()
    for reply in (await a.join(), await join):
        reply.differs(VOTE_TIES, "protocol_name", kafka="range", coterie="roundrobin")


@scenario()
async def a_protocol_named_twice(s: Script) -> None:
    """Kafka can't choose a protocol that a member lists twice; Coterie takes the first."""
    (a,) = await cast(s, "a")
    await a.get_id()
    join = a.join(protocols=[("range", b"1"), ("range", b"2")])
    reply = await join.or_silence(2.0)
    joined = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "generation_id": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "a-M1",
        "skip_assignment": False,
        "member_id": "a-M1",
        "members": [{"member_id": "a-M1", "group_instance_id": None, "metadata": b"1"}],
    }
    reply.differs(PROTOCOL_TWICE, kafka="silence", coterie=joined)


@scenario()
async def the_list_of_protocols_shrinks(s: Script) -> None:
    """In a rebalance, members can't talk themselves into having nothing in common."""
    lists = {"x": b"", "y": b""}
    a = await Member.of(s, "a", protocols=lists)
    b = await Member.of(s, "b", protocols=lists)
    await stable(a, b)
    join = await a.join(protocols={"x": b""}).parked()
    await b.join(protocols={"y": b""})
    await b.join(protocols={"x": b"new", "y": b""})
    await join


@scenario()
async def a_group_changes_its_type(s: Script) -> None:
    """A group that has become empty can be refilled by members of another type."""
    a = await Member.of(s, "a")
    b = await Member.of(s, "b", kind="connect", protocols={"default": b"b"})
    await stable(a)
    await a.leave()
    await s.describe()
    await stable(b)
    await s.describe()


@scenario()
async def generations_count_on(s: Script) -> None:
    """Each round, and each emptying, adds one to the generation."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    await a.join()
    await a.join()
    await a.sync({a: b"1"})
    await a.leave()
    await stable(b)
    await b.heartbeat()
    await b.heartbeat(generation_id=5)


@scenario()
async def odd_rebalance_timeouts(s: Script) -> None:
    """A negative rebalance timeout is accepted and counts as none: there is no time to sync."""
    a = await Member.of(s, "a", rebalance_ms=-5)
    b = await Member.of(s, "b", rebalance_ms=0)
    await a.enter()
    await s.until_state("Empty")
    await b.enter()


@scenario()
async def a_reason_changes_nothing(s: Script) -> None:
    """A reason given for joining has no part in the answers."""
    (a,) = await cast(s, "a")
    await a.enter(reason="because")
    await a.join(reason="again, because")
    await a.join(reason="")
