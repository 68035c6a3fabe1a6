"""The ownership ledger and its guard: no member is given what another has not let go of."""

from __future__ import annotations

import pytest

from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    decode_assignment,
    encode_assignment,
    group_by_topic,
)
from coterie_protocol.journal import MemberGone, RebalanceCompleted
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

GUARDS = ("off", "report", "enforce")


# -- the guard ---------------------------------------------------------------------------------


def test_with_the_guard_off_conflicts_are_not_told() -> None:
    world, owner, newcomer = cooperative("off")
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    assert conflicts(world) == []
    assert given(newcomer) == (partitions(2, 3), 0)
    assert world.seen(RebalanceCompleted)[-1].assigned == {
        owner.id: {"t": (0, 1)},
        newcomer.id: {"t": (2, 3)},
    }


def test_a_reporting_guard_tells_of_conflicts_and_lets_them_through() -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    assert conflicts(world) == [
        (2, owner.id, newcomer.id, False),
        (3, owner.id, newcomer.id, False),
    ]
    assert given(newcomer) == (partitions(2, 3), 0)


def test_an_enforcing_guard_withholds_what_still_has_an_owner_and_asks_all_to_rejoin() -> None:
    world, owner, newcomer = cooperative("enforce")
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    assert conflicts(world) == [
        (2, owner.id, newcomer.id, True),
        (3, owner.id, newcomer.id, True),
    ]
    assert given(owner) == (partitions(0, 1), NEEDS_REJOIN)
    assert given(newcomer) == (frozenset(), NEEDS_REJOIN)
    assert world.seen(RebalanceCompleted)[-1].needs_rejoin is True


@pytest.mark.parametrize("guard", GUARDS)
def test_when_the_owner_has_let_go_the_newcomer_gets_the_rest(guard: str) -> None:
    world, owner, newcomer = cooperative(guard)
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    assert conflicts(world) == []
    assert given(newcomer) == (partitions(2, 3), 0)


@pytest.mark.parametrize(("guard", "second"), [("report", (1, 2)), ("enforce", (2,))])
def test_of_two_who_are_given_a_partition_the_first_member_keeps_it(
    guard: str, second: tuple[int, ...]
) -> None:
    world = World(ownership_guard=guard)
    leader, follower = world.member("a"), world.member("b")
    for client in (leader, follower):
        client.join()
    world.sleep(6_000)
    bring(leader, {leader: (0, 1), follower: (1, 2)})
    assert conflicts(world) == [(1, leader.id, follower.id, guard == "enforce")]
    assert given(leader)[0] == partitions(0, 1)
    assert given(follower)[0] == partitions(*second)


def test_the_guard_takes_only_partitions_out_of_an_assignment() -> None:
    _, owner, newcomer = cooperative("enforce")
    entries = group_by_topic(partitions(0))
    data = encode_assignment(Assignment(assigned_partitions=entries, user_data=b"plan"), 1)
    owner.sync({newcomer: data})
    newcomer.sync()
    assert newcomer.assignment is not None
    assert decode_assignment(newcomer.assignment).user_data == b"plan"


def test_assignments_without_conflict_keep_their_bytes() -> None:
    _, owner, newcomer = cooperative("enforce")
    odd = assigned("t") + b"trailing bytes"
    owner.sync({owner: assigned("t", 0, 1), newcomer: odd})
    newcomer.sync()
    assert newcomer.assignment == odd


# -- who holds what ----------------------------------------------------------------------------


def test_members_that_claim_nothing_hold_nothing() -> None:
    world = World(ownership_guard="enforce")
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    first.join()
    second.join()
    bring(first, {first: (1, 3), second: (0, 2)})
    assert conflicts(world) == []


def test_partitions_of_a_lost_member_are_free() -> None:
    world = World(ownership_guard="enforce")
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    second.leave()
    first.join()
    bring(first, {first: (0, 1, 2, 3)})
    assert conflicts(world) == []


def test_an_absent_static_member_holds_what_it_was_given() -> None:
    world, leader, absent = away("enforce")
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert conflicts(world) == [(1, absent.id, leader.id, True), (3, absent.id, leader.id, True)]
    assert given(leader) == (partitions(0, 2), NEEDS_REJOIN)


def test_static_member_that_comes_in_the_second_phase_speaks_for_itself() -> None:
    """It has joined, and says that it holds nothing."""
    world, leader, absent = away("enforce")
    absent.join()
    leader.sync({leader: assigned("t", 0, 1, 2, 3)})
    assert conflicts(world) == []


def test_of_two_claims_the_one_of_the_later_generation_counts() -> None:
    world = World(ownership_guard="enforce")
    first, second, third = (world.member(name) for name in "abc")
    world.form(first, second, third)
    for client, generation in ((first, 1), (second, 0)):
        client.owned, client.owned_generation = partitions(0), generation
    world.rejoin(third)
    first.join()
    for client in (second, third):
        client.join()
    bring(first, {first: (), second: (0,), third: ()})
    assert conflicts(world) == [(0, first.id, second.id, True)]


def test_of_two_equal_claims_the_first_members_counts() -> None:
    world = World(ownership_guard="enforce")
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    for client in (second, first):
        claims(client, 0)
        client.join()
    bring(first, {first: (), second: (0,)})
    assert conflicts(world) == [(0, first.id, second.id, True)]


def test_share_of_an_absent_member_outweighs_an_old_claim() -> None:
    """It got the partition in the last generation; the claim is from one before."""
    world, leader, absent = away("enforce")
    leader.sync({leader: assigned("t", 0, 2), absent: assigned("t", 1, 3)})
    leader.owned, leader.owned_generation = partitions(1), 0
    leader.join()
    world.sleep(3_000)
    leader.sync({leader: assigned("t", 1)})
    assert conflicts(world) == [(1, absent.id, leader.id, True)]


def test_old_claims_do_not_win_after_a_restart() -> None:
    """The share of an absent member before a crash still counts as the last one."""
    world, leader, absent = away("enforce")
    leader.sync({leader: assigned("t", 0, 2), absent: assigned("t", 1, 3)})
    world.crash()
    leader.owned, leader.owned_generation = partitions(1), 0
    leader.join()
    world.sleep(3_000)
    leader.sync({leader: assigned("t", 1)})
    assert conflicts(world) == [(1, absent.id, leader.id, True)]


# -- unreadable --------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", ["report", "enforce"])
def test_an_unreadable_assignment_goes_through_and_is_unknown_in_the_journal(guard: str) -> None:
    world, owner, newcomer = cooperative(guard)
    owner.sync({owner: b"?", newcomer: assigned("t", 0)})
    newcomer.sync()
    assert (owner.assignment, newcomer.assignment) == (b"?", assigned("t", 0))
    assert conflicts(world) == []
    completed = world.seen(RebalanceCompleted)[-1]
    assert (completed.assigned, completed.needs_rejoin) == (None, False)
    assert world.group().ledger.holdings == {}


def test_an_unreadable_subscription_claims_nothing() -> None:
    world = World(ownership_guard="enforce")
    first, second = world.member("a", metadata=b"?"), world.member("b")
    world.form(first, second)
    claims(second, 1, 3)
    second.join()
    first.join()
    bring(first, {first: (0, 1), second: (2,)})
    assert conflicts(world) == [(1, second.id, first.id, True)]


def test_groups_of_another_type_have_no_ledger() -> None:
    world = World(ownership_guard="enforce")
    client = world.member("a", protocol_type="connect")
    client.join()
    world.sleep(3_000)
    client.sync({client: assigned("t", 0)})
    world.crash()
    assert world.group().ledger.holdings == {}
    client.leave()
    assert [gone.owned for gone in world.seen(MemberGone)] == [{}]
