"""What the ledger remembers, what the journal says of it, and who has to join once more."""

from __future__ import annotations

from typing import Any

from coterie_protocol.consumer import NEEDS_REJOIN, Assignment, encode_assignment, group_by_topic
from coterie_protocol.journal import GroupRecovered, RebalanceCompleted, RebalanceStarted
from coterie_server.group.ledger import Holding, Ledger, Partition
from tests.server.group.ownership import bring, claims, cooperative, partitions
from tests.support.group_harness import World

# -- what the journal says ---------------------------------------------------------------------


def test_moved_and_revoked_are_counted_against_what_was_given_last() -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    first.join()
    second.join()
    bring(first, {first: (0, 1), second: ()})
    done = world.seen(RebalanceCompleted)
    assert [(d.moved, d.revoked) for d in done] == [(0, 0), (1, 3)]


def test_partitions_of_a_member_that_went_have_moved() -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    second.leave()
    first.join()
    bring(first, {first: (0, 1, 2, 3)})
    done = world.seen(RebalanceCompleted)[-1]
    assert (done.moved, done.revoked) == (2, 0)


def test_partitions_handed_over_in_two_rounds_move_in_the_second() -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    done = world.seen(RebalanceCompleted)[1:]
    assert [(d.moved, d.revoked) for d in done] == [(0, 2), (2, 0)]


def test_partitions_that_come_back_to_their_owner_have_not_moved() -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1, 2, 3), newcomer: ()})
    assert world.seen(RebalanceCompleted)[-1].moved == 0


def test_partitions_without_an_owner_in_between_have_not_moved() -> None:
    """An assignment that leaves them out for good is not the first half of a move."""
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    for plan in ((0,), (2,)), ((0, 1), (2, 3)):
        first.join()
        second.join()
        bring(first, dict(zip((first, second), plan, strict=True)))
    assert world.seen(RebalanceCompleted)[-1].moved == 0


def test_a_partition_that_stays_keeps_its_generation_and_time() -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    since_ms = world.now_ms
    world.sleep(500)
    first.join()
    second.join()
    bring(first, {first: (0, 1), second: (3,)})
    assert world.group().ledger.holdings == {
        ("t", 0): Holding(first.id, 1, since_ms),
        ("t", 1): Holding(first.id, 2, world.now_ms),
        ("t", 3): Holding(second.id, 1, since_ms),
    }


def test_holdings_pass_to_a_static_members_new_process() -> None:
    world = World()
    old = world.member("a", static="i1")
    world.form(old)
    new = old.restarted()
    new.join()
    assert world.group().ledger.owned_by(new.id) == partitions(0, 1, 2, 3)
    assert world.group().ledger.owned_by(old.id) == frozenset()


def test_holdings_are_read_from_stored_assignments_after_a_crash() -> None:
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    world.crash()
    assert world.group().ledger.owned_by(second.id) == partitions(1, 3)


def test_the_journal_tells_after_a_restart_who_owned_what() -> None:
    world = World(ownership_guard="off")
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    world.crash()
    assert world.seen(GroupRecovered)[-1].assigned == {
        first.id: {"t": (0, 2)},
        second.id: {"t": (1, 3)},
    }


def test_partitions_are_not_looked_through_for_each_member_that_goes() -> None:
    class Counted(dict[Partition, Holding]):
        looks = 0

        def items(self) -> Any:
            self.looks += 1
            return super().items()

    ledger = Ledger()
    ledger.holdings = held = Counted({("t", n): Holding(f"m{n}", 1, 0) for n in range(50)})
    assert [ledger.forget(f"m{n}") for n in range(50)] == [partitions(n) for n in range(50)]
    assert (held, held.looks) == ({}, 1)


# -- members that have to join once more -------------------------------------------------------


def test_a_join_that_follows_a_revocation_names_the_round_that_asked_for_it() -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    assert world.causes[-1] == "revocation_follow_up"
    assert world.seen(RebalanceStarted)[-1].follows == 2


def test_a_leader_that_asks_all_to_rejoin_makes_follow_ups_of_all_joins() -> None:
    world, owner, newcomer = cooperative("report")
    entries = group_by_topic(partitions(0, 1, 2, 3))
    plan = Assignment(assigned_partitions=entries, error_code=NEEDS_REJOIN)
    owner.sync({owner: encode_assignment(plan, 1)})
    newcomer.sync()
    assert world.seen(RebalanceCompleted)[-1].needs_rejoin is True
    newcomer.owned_generation = 2
    newcomer.join()
    assert world.causes[-1] == "revocation_follow_up"


def test_once_the_next_round_has_begun_changes_have_causes_of_their_own() -> None:
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    owner.topics = ("t", "u")
    owner.join()
    assert world.causes[-2:] == ["revocation_follow_up", "subscription_changed"]


def test_a_replaced_members_follow_up_is_known_under_its_new_id() -> None:
    world = World(initial_rebalance_delay_ms=0)
    owner, newcomer = world.member("a", static="i1"), world.member("b")
    world.form(owner)
    claims(owner, 0, 1, 2, 3)
    newcomer.join()
    owner.join()
    bring(owner, {owner: (0, 1), newcomer: ()})
    again = owner.restarted()
    again.join()
    claims(again, 0, 1)
    again.join()
    assert world.causes[-1] == "revocation_follow_up"
