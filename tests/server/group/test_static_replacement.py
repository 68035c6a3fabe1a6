"""A static member comes back in a new process: it joins with its instance id and no member id."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberReplaced
from coterie_server.group import GroupState
from coterie_server.group.records import MemberRow
from tests.support.group_harness import Client, World, assigned

FENCED = ErrorCode.FENCED_INSTANCE_ID


def pair(world: World, **attributes: object) -> tuple[Client, Client]:
    """A stable group of a static leader and a static follower."""
    leader = world.member("a", static="i1", **attributes)
    follower = world.member("b", static="i2", **attributes)
    world.form(leader, follower)
    return leader, follower


def stored_members(world: World) -> dict[str, MemberRow]:
    """The members on disk."""
    return {row.member_id: row for row in world.rows if isinstance(row, MemberRow)}


# -- in a stable group -------------------------------------------------------------------------


def test_follower_comes_back() -> None:
    """No rebalance: it is told the present generation, and its sync gets what it had."""
    world = World()
    leader, old = pair(world)
    new = old.restarted()
    reply = new.join().reply
    assert (reply.error_code, reply.generation_id, reply.leader) == (0, 1, leader.id)
    assert (reply.members, reply.skip_assignment) == ((), False)
    assert new.sync().reply.assignment == assigned("t", 1, 3)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_leader_comes_back_since_version_9() -> None:
    """It is told that it leads and of everybody, and that nothing needs to be assigned."""
    world = World()
    old, follower = pair(world)
    new = old.restarted()
    reply = new.join().reply
    assert reply.leader == new.id
    assert {member.member_id for member in reply.members} == {new.id, follower.id}
    assert reply.skip_assignment is True
    assert world.group().row.leader == new.id


@pytest.mark.parametrize("version", [5, 7, 8])
def test_leader_comes_back_before_version_9(version: int) -> None:
    """It must not learn that it leads, or it would hand out an assignment nobody asked for."""
    world = World()
    old, _ = pair(world)
    new = old.restarted(version=version)
    reply = new.join().reply
    assert (reply.leader, reply.members, reply.skip_assignment) == (old.id, (), False)
    assert world.group().row.leader == new.id
    assert world.state() is GroupState.STABLE


def test_old_process_is_fenced() -> None:
    """With its instance id it is told that it was replaced; without, that it is unknown."""
    world = World()
    _, old = pair(world)
    old.restarted().join()
    join = old.join_once()
    assert (join.error, join.reply.member_id) == (FENCED, old.id)
    assert join.reply.protocol_name is None
    assert old.sync().error is FENCED
    assert old.heartbeat() is FENCED
    assert old.leave() is FENCED
    assert old.commit({("t", 0): 1}).part_errors == [FENCED]
    assert old.sync(group_instance_id=None).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_each_return_has_another_id() -> None:
    """Ids are never used again."""
    world = World()
    _, old = pair(world)
    ids = {old.id}
    for _ in range(3):
        old = old.restarted()
        old.join()
        ids.add(old.id)
    assert len(ids) == 4
    assert len(world.group().members) == 2


def test_replacement_is_stored() -> None:
    """The new id, where it comes from, its timeouts and its subscription outlive a crash."""
    world = World()
    _, old = pair(world)
    times = {"session_ms": 20_000, "rebalance_ms": 7_000}
    new = old.restarted(host="/10.0.0.8", owned=[("t", 1)], **times)
    new.join()
    row = stored_members(world)[new.id]
    assert old.id not in stored_members(world)
    assert (row.client_host, row.session_timeout_ms, row.rebalance_timeout_ms) == (
        "/10.0.0.8",
        20_000,
        7_000,
    )
    assert row.protocols[0].metadata == new.subscription()
    assert row.assignment == assigned("t", 1, 3)
    world.crash()
    assert new.heartbeat() is ErrorCode.NONE


def test_other_topics_are_shared_out() -> None:
    """Whoever comes back for other topics gets them, by one rebalance that says why."""
    world = World()
    leader, old = pair(world)
    new = old.restarted(topics=("u",))
    assert new.join().is_parked
    assert leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.causes[-1] == "subscription_changed"
    world.rejoin(leader)
    assert world.state() is GroupState.STABLE
    assert world.group().topics() == frozenset({"t", "u"})


def test_other_bytes_do_not_matter() -> None:
    """As long as the topics are the same, or can't be read, no rebalance is made."""
    world = World()
    leader, old = pair(world)
    new = old.restarted(metadata=b"?")
    assert new.join().error is ErrorCode.NONE
    described = {member.member_id: member for member in world.describe().members}
    assert described[new.id].member_metadata == b"?"
    assert leader.heartbeat() is ErrorCode.NONE


def test_protocols_that_change_the_vote() -> None:
    """A new round, and the leader keeps its role under its new id."""
    world = World()
    old, follower = pair(world, protocols=("x", "y"))
    new = old.restarted(protocols=("y",))
    assert new.join().is_parked
    assert world.causes[-1] == "static_replaced"
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    follower.join()
    assert new.leads
    assert new.protocol == "y"


def test_lone_member_that_changes_the_vote() -> None:
    """Nobody is waited for: it is answered once, in the next generation."""
    world = World()
    old = world.member("a", static="i1", protocols=("x", "y"))
    world.form(old)
    new = old.restarted(protocols=("y",))
    reply = new.join().reply
    assert (reply.generation_id, reply.protocol_name) == (2, "y")
    assert world.state() is GroupState.COMPLETING


def test_protocols_that_do_not_change_the_vote() -> None:
    """Another list with the same outcome makes no round."""
    world = World()
    _, old = pair(world, protocols=("x", "y"))
    new = old.restarted(protocols=("x", "z"))
    assert new.join().error is ErrorCode.NONE
    assert world.state() is GroupState.STABLE


def test_protocols_that_do_not_fit() -> None:
    """A new process that has nothing in common with the others is refused, the old one stays."""
    world = World()
    _, old = pair(world)
    refused = old.restarted(protocols=("z",)).join()
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert old.heartbeat() is ErrorCode.NONE


def test_session_begins_anew() -> None:
    """The new process has its own session from the moment it came."""
    world = World()
    leader, old = pair(world)
    world.live(9_000, leader)
    new = old.restarted(session_ms=20_000)
    new.join()
    world.live(19_999, leader)
    assert new.id in world.group().members
    world.sleep(1)
    assert new.id not in world.group().members


def test_replacement_is_written_down() -> None:
    """The journal says who took over from whom, and how long that one had been silent."""
    world = World()
    leader, old = pair(world)
    world.live(5_000, leader)
    new = old.restarted(host="/10.0.0.8")
    new.join()
    (replaced,) = world.seen(MemberReplaced)
    assert (replaced.instance, replaced.member, replaced.host) == ("i2", new.id, "/10.0.0.8")
    assert (replaced.former_member, replaced.former_host) == (old.id, "/10.0.0.1")
    assert replaced.silent_ms == 5_000


# -- in the first phase ------------------------------------------------------------------------


def test_parked_join_of_the_old_process() -> None:
    """It is sent away at once, and the new process waits in its place."""
    world = World()
    leader, old = pair(world)
    world.force_rebalance()
    waiting = old.join()
    new = old.restarted()
    join = new.join()
    assert (waiting.error, waiting.reply.member_id) == (FENCED, old.id)
    assert (waiting.reply.generation_id, waiting.reply.leader) == (-1, "")
    assert join.is_parked
    leader.join()
    assert set(leader.roster) == {leader.id, new.id}


def test_old_process_after_the_new_one() -> None:
    """Whoever came last has the place."""
    world = World()
    leader, old = pair(world)
    world.force_rebalance()
    new = old.restarted()
    new.join()
    assert old.join_once().error is FENCED
    leader.join()
    assert set(leader.roster) == {leader.id, new.id}


def test_return_ends_the_first_phase() -> None:
    """If it was the last that was awaited, the round goes on."""
    world = World()
    leader, old = pair(world)
    join = leader.join()
    new = old.restarted()
    assert new.join().error is ErrorCode.NONE
    assert join.reply.generation_id == 2


def test_place_outlives_a_crash_in_the_first_phase() -> None:
    """A static member that came back while a round was going on is not lost with the node."""
    world = World()
    leader, old = pair(world)
    world.member("c", version=3).join()
    old.restarted(topics=("u",)).join()
    new_id = world.group().static["i2"]
    world.crash()
    assert set(stored_members(world)) == {leader.id, new_id}
    assert stored_members(world)[new_id].protocols[0].metadata == old.subscription()
    assert world.group().static["i2"] == new_id


def test_parked_join_of_a_new_static_member_that_was_replaced() -> None:
    """A process that joined as new and was restarted waits as patiently as its predecessor."""
    world = World()
    leader = world.member("a", session_ms=60_000, rebalance_ms=100_000)
    world.form(leader)
    first = world.member("b", static="i2", session_ms=6_000)
    first.join()
    again = first.restarted().join()
    world.live(50_000, leader)
    assert again.is_parked
    leader.join()
    world.sleep(10_000)
    assert again.error is ErrorCode.NONE


# -- in the second phase -----------------------------------------------------------------------


def completing(world: World) -> tuple[Client, Client]:
    """A static leader and a static follower that have joined and not synced."""
    leader, follower = world.member("a", static="i1"), world.member("b", static="i2")
    leader.join()
    follower.join()
    world.sleep(6_000)
    assert world.state() is GroupState.COMPLETING
    return leader, follower


def test_parked_sync_of_the_old_process() -> None:
    """It is sent away; the leader had the old id in its list, so there is another round."""
    world = World()
    leader, old = completing(world)
    sync = old.sync()
    new = old.restarted()
    assert new.join().is_parked
    assert sync.error is FENCED
    assert world.causes[-1] == "static_replaced"
    assert leader.sync({old: b"lost"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    leader.sync({new: b"yours"})
    assert new.sync().reply.assignment == b"yours"


def test_parked_sync_of_another_member() -> None:
    """Whoever waits for the leader hears that there is another round."""
    world = World()
    leader, follower = completing(world)
    sync = follower.sync()
    new = leader.restarted()
    new.join()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_lone_member_comes_back_in_the_second_phase() -> None:
    """Nobody is waited for: the next generation is there at once."""
    world = World()
    old = world.member("a", static="i1")
    old.join()
    world.sleep(3_000)
    new = old.restarted()
    assert new.join().reply.generation_id == 2
    assert new.leads
