"""Ownership, and requests to join once more, survive a crash at any moment.

Every test runs with the crash and without it: what comes after must be the same.  (So must what
is remembered, which `World.crash` compares wherever a test of the coordinator crashes it.)
"""

from __future__ import annotations

import pytest

from coterie_protocol.consumer import NEEDS_REJOIN, Assignment, encode_assignment
from coterie_protocol.journal import RebalanceStarted
from coterie_server.group import GroupState
from tests.server.group.ownership import (
    away,
    bring,
    claims,
    conflicts,
    cooperative,
    given,
    partitions,
)
from tests.support.group_harness import World, assigned

crashes = pytest.mark.parametrize("crash", [False, True], ids=["no crash", "crash"])


def perhaps(world: World, *, crash: bool) -> None:
    """Lose the node, if this is the run in which it is lost."""
    if crash:
        world.crash()


# -- members that are away ---------------------------------------------------------------------


@crashes
def test_absent_member_in_the_second_phase(*, crash: bool) -> None:
    """It was not told to let go of anything, so no other member gets its partitions."""
    world, leader, absent = away("enforce")
    perhaps(world, crash=crash)
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert conflicts(world) == [(1, absent.id, leader.id, True), (3, absent.id, leader.id, True)]
    assert given(leader) == (partitions(0, 2), NEEDS_REJOIN)


@crashes
def test_absent_member_owes_no_sync(*, crash: bool) -> None:
    """It was not told of the generation, and loses nothing if it does not sync."""
    world, leader, absent = away("report")
    perhaps(world, crash=crash)
    assert world.group().pending_syncs == {leader.id}
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert world.coordinator.phase_deadline(world.group()) is None
    assert absent.id in world.group().members


@crashes
def test_member_that_came_in_the_second_phase(*, crash: bool) -> None:
    """It has joined, and says that it holds nothing."""
    world, leader, absent = away("enforce")
    absent.join()
    perhaps(world, crash=crash)
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert conflicts(world) == []


@crashes
def test_absent_member_through_two_generations(*, crash: bool) -> None:
    """An incomplete second phase took nothing from it, though no member is shown its part."""
    world, leader, absent = away("enforce")
    leader.topics = ("t", "u")
    leader.join()
    world.sleep(3_000)
    assert world.group().generation == 3
    perhaps(world, crash=crash)
    assert {member.member_assignment for member in world.describe().members} == {b""}
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert conflicts(world) == [(1, absent.id, leader.id, True), (3, absent.id, leader.id, True)]


@crashes
def test_a_claim_of_a_later_generation_than_the_last_assignment_is_believed(*, crash: bool) -> None:
    world, leader, _ = away("enforce")
    claims(leader, 1)
    leader.topics = ("t", "u")
    leader.join()
    world.sleep(3_000)
    perhaps(world, crash=crash)
    leader.sync({leader: assigned("t", 1)})
    assert conflicts(world) == []


# -- members that were asked to join once more -------------------------------------------------


@crashes
def test_a_follow_up_of_a_revocation_is_known_after_a_crash(*, crash: bool) -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    perhaps(world, crash=crash)
    claims(owner, 0, 1)
    owner.join()
    assert world.causes[-1] == "revocation_follow_up"
    assert world.seen(RebalanceStarted)[-1].follows == 2


@crashes
def test_follow_ups_of_a_leader_that_asks_all_to_rejoin_are_known_after_a_crash(
    *, crash: bool
) -> None:
    world, owner, newcomer = cooperative("report")
    asking = encode_assignment(Assignment(assigned_partitions=(), error_code=NEEDS_REJOIN), 1)
    owner.sync({owner: asking, newcomer: asking})
    newcomer.sync()
    perhaps(world, crash=crash)
    claims(newcomer, 0)
    newcomer.join()
    assert world.causes[-1] == "revocation_follow_up"


@crashes
def test_follow_up_of_a_former_generation_is_forgotten(*, crash: bool) -> None:
    """It was done; a member that joins now has another reason."""
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    perhaps(world, crash=crash)
    owner.join()
    assert world.causes[-1] == "leader_rejoined"


@crashes
def test_a_replaced_static_members_follow_up_is_known_after_a_crash(*, crash: bool) -> None:
    world = World(initial_rebalance_delay_ms=0)
    owner, newcomer = world.member("a", static="i1"), world.member("b")
    world.form(owner)
    claims(owner, 0, 1, 2, 3)
    newcomer.join()
    owner.join()
    bring(owner, {owner: (0, 1), newcomer: ()})
    again = owner.restarted()
    again.join()
    perhaps(world, crash=crash)
    claims(again, 0, 1)
    again.join()
    assert world.causes[-1] == "revocation_follow_up"


# -- what was given ----------------------------------------------------------------------------


@crashes
def test_if_one_stored_assignment_is_unreadable_nothing_is_known(*, crash: bool) -> None:
    world, owner, newcomer = cooperative("report")
    owner.sync({owner: b"?", newcomer: assigned("t", 0)})
    newcomer.sync()
    perhaps(world, crash=crash)
    assert world.group().ledger.holdings == {}


@crashes
def test_of_two_who_were_given_a_partition_the_same_one_is_its_holder(*, crash: bool) -> None:
    world = World()
    later, earlier = world.member("z"), world.member("y")
    world.form(later, earlier)
    later.join()
    earlier.join()
    bring(later, {later: (0,), earlier: (0,)})
    perhaps(world, crash=crash)
    assert world.group().ledger.holdings["t", 0].member_id == later.id


@crashes
def test_when_one_of_two_holders_goes_the_other_still_has_the_partition(*, crash: bool) -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    first.join()
    second.join()
    bring(first, {first: (0, 1), second: (0, 1)})
    second.leave()
    perhaps(world, crash=crash)
    assert world.group().ledger.owned_by(first.id) == partitions(0, 1)


@crashes
def test_the_holder_of_two_does_not_depend_on_a_new_member_id(*, crash: bool) -> None:
    world = World()
    static, dynamic = world.member("a", static="i1"), world.member("z")
    other = world.member("b", static="i2")
    world.form(other, static, dynamic)
    for client in (other, static, dynamic):
        client.join()
    bring(other, {other: (0, 2), static: (0, 1), dynamic: (1,)})
    again = static.restarted()
    again.join()
    perhaps(world, crash=crash)
    assert world.group().ledger.owned_by(again.id) == partitions(1)
    assert world.group().ledger.owned_by(other.id) == partitions(0, 2)
    other.leave()
    perhaps(world, crash=crash)
    assert world.group().ledger.owned_by(again.id) == partitions(0, 1)


def test_a_crash_in_the_second_phase_leaves_the_state_as_it_is() -> None:
    world, _, absent = away("enforce")
    world.crash()
    assert world.state() is GroupState.COMPLETING
    assert world.group().members[absent.id].row.has_not_joined
