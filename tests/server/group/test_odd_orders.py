"""Requests that come in odd orders, as lost answers, slow processes and restarts make them."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import MemberGone
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World, assigned

OK = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
FENCED = ErrorCode.FENCED_INSTANCE_ID
OLD = ErrorCode.ILLEGAL_GENERATION
HERE = {("t", 0): 1}


def pair(world: World, **attributes: object) -> tuple[Client, Client]:
    """A stable group of two."""
    leader, follower = world.member("a", **attributes), world.member("b", **attributes)
    world.form(leader, follower)
    return leader, follower


# -- ids ---------------------------------------------------------------------------------------


def test_an_id_of_another_group_is_unknown_and_makes_no_group() -> None:
    world = World()
    client = world.member("a")
    client.join_once()
    assert client.join(group_id="h").error is UNKNOWN
    assert world.state("h") is GroupState.DEAD
    assert client.join().is_parked


def test_two_processes_fight_for_a_name_in_the_initial_delay() -> None:
    """Each join fences the process before; in the end there is one member, and no more delay."""
    world = World()
    first = world.member("a", static="i1")
    joins = [first.join()]
    for _ in range(4):
        world.sleep(500)
        joins.append(first.restarted().join())
    assert [join.error for join in joins[:-1]] == [FENCED] * 4
    world.sleep(1_000)
    last = joins[-1].reply
    assert (last.error_code, last.generation_id, last.leader) == (OK, 1, last.member_id)
    assert list(world.group().members) == [last.member_id]


def test_fenced_process_comes_back_without_an_id() -> None:
    """The last process to ask has the name: the two take it from each other, in one generation."""
    world = World()
    one = world.member("a", static="i1")
    world.form(one)
    other = one.restarted()
    assert other.join().error is OK
    one.id = ""
    assert one.join().error is OK
    assert (one.heartbeat(), other.heartbeat()) == (OK, FENCED)
    assert world.group().generation == 1


# -- joins and syncs ---------------------------------------------------------------------------


def test_join_that_is_answered_at_once_does_not_stand_for_the_sync() -> None:
    """A follower that only ever joins never gets its assignment, and is removed in due time."""
    world = World()
    leader, follower = pair(world, rebalance_ms=20_000)
    leader.join()
    follower.join()
    leader.sync({leader: assigned("t", 0)})
    for _ in range(4):
        assert follower.join().error is OK
        world.live(5_000, leader, follower)
    (gone,) = world.seen(MemberGone)
    assert (gone.member, gone.how) == (follower.id, "sync_expired")


def test_absent_member_asks_for_the_part_it_had() -> None:
    """Its generation is over, though it is still a member: it has to join first."""
    world = World()
    leader = world.member("a", rebalance_ms=5_000)
    absent = world.member("b", static="i1", rebalance_ms=5_000, session_ms=60_000)
    world.form(leader, absent)
    leader.join()
    world.live(5_000, leader)
    assert absent.sync().error is OLD
    leader.sync({leader: assigned("t", 0), absent: assigned("t", 1)})
    assert absent.sync().error is OLD
    assert absent.join().error is OK
    assert absent.sync().reply.assignment == assigned("t", 1)


@pytest.mark.parametrize("version", [8, 9])
def test_unasked_assignment_of_a_leader_that_came_back_changes_nothing(version: int) -> None:
    """It is told its own part like any member."""
    world = World()
    leader = world.member("a", static="i1", version=version)
    follower = world.member("b", static="i2")
    world.form(leader, follower)
    again = leader.restarted()
    again.join()
    assert again.sync({again: b"mine", follower: b"yours"}).reply.assignment == leader.assignment
    assert follower.sync().reply.assignment == assigned("t", 1, 3)


def test_the_sync_of_a_dropped_leader_does_not_disturb_the_rebalance() -> None:
    world = World()
    leader, follower = pair(world, rebalance_ms=5_000)
    follower.topics = ("u",)
    follower.join()
    world.live(5_000, leader, follower)
    assert follower.leads
    assert leader.sync({leader: b"all"}).error is UNKNOWN
    assert world.state() is GroupState.COMPLETING
    assert follower.sync({follower: b"mine"}).reply.assignment == b"mine"


# -- commits -----------------------------------------------------------------------------------


def test_a_commit_in_the_first_phase_keeps_a_member_awaited() -> None:
    world = World()
    leader, follower = pair(world)
    follower.topics = ("u",)
    follower.join()
    for _ in range(3):
        world.sleep(9_000)
        assert leader.commit(HERE).part_errors == [OK]
    assert world.state() is GroupState.PREPARING
    assert leader.join().error is OK
    assert set(leader.roster) == {leader.id, follower.id}


def test_commit_of_which_nothing_is_stored_keeps_a_member() -> None:
    """The member is alive although its metadata were too long to store."""
    world = World(offset_metadata_max=1)
    client = world.member("a")
    world.form(client)
    for _ in range(3):
        world.sleep(9_000)
        answer = client.commit(HERE, metadata="too long")
        assert answer.part_errors == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert client.heartbeat() is OK


def test_commit_for_unknown_partitions_prolongs_no_session() -> None:
    """The group is not looked at."""
    world = World()
    client = world.member("a")
    world.form(client)
    world.sleep(9_000)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.commit({("nowhere", 0): 1}).part_errors == [unknown]
    world.sleep(1_000)
    assert client.heartbeat() is UNKNOWN
    assert client.commit({("nowhere", 0): 1}).part_errors == [unknown]


def test_refused_commit_prolongs_no_session() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    world.sleep(9_000)
    assert client.commit(HERE, generation_id_or_member_epoch=7).part_errors == [OLD]
    world.sleep(1_000)
    assert client.heartbeat() is UNKNOWN


# -- leaving -----------------------------------------------------------------------------------


def test_when_the_leader_leaves_in_the_second_phase_one_that_waits_leads_next() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    parked = follower.sync()
    assert leader.leave() is OK
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.join().reply.generation_id == 2
    assert follower.leads


def test_a_member_that_left_is_unknown_whatever_it_asks() -> None:
    world = World()
    leader, follower = pair(world)
    follower.leave()
    world.rejoin(leader)
    assert follower.heartbeat() is UNKNOWN
    assert follower.sync().error is UNKNOWN
    assert follower.join().error is UNKNOWN
    assert follower.commit(HERE).part_errors == [UNKNOWN]
    assert follower.leave() is UNKNOWN
    assert world.state() is GroupState.STABLE
