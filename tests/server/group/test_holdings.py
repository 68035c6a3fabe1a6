"""What the ledger remembers, what the journal says of it, and who has to join once more."""

from __future__ import annotations

from coterie_protocol.consumer import NEEDS_REJOIN, Assignment, encode_assignment, group_by_topic
from coterie_protocol.journal import GroupRecovered, RebalanceCompleted, RebalanceStarted
from coterie_server.group.ledger import Holding
from tests.server.group.ownership import bring, claims, cooperative, partitions
from tests.support.group_harness import World

# -- what the journal says ---------------------------------------------------------------------


def test_moved_and_revoked() -> None:
    """Compared with what was given last: changed hands, and were taken away at all."""
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    first.join()
    second.join()
    bring(first, {first: (0, 1), second: ()})
    done = world.seen(RebalanceCompleted)
    assert [(d.moved, d.revoked) for d in done] == [(0, 0), (1, 3)]


def test_partitions_of_a_member_that_went_have_moved() -> None:
    """Whoever gets them is another owner than the one before."""
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    second.leave()
    first.join()
    bring(first, {first: (0, 1, 2, 3)})
    done = world.seen(RebalanceCompleted)[-1]
    assert (done.moved, done.revoked) == (2, 0)


def test_partitions_that_are_handed_over_in_two_rounds_move_in_the_second() -> None:
    """In the first one they are taken from their owner."""
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1), newcomer: (2, 3)})
    done = world.seen(RebalanceCompleted)[1:]
    assert [(d.moved, d.revoked) for d in done] == [(0, 2), (2, 0)]


def test_partitions_that_come_back_to_their_owner_have_not_moved() -> None:
    """The leader thought better of it in the second round."""
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    bring(owner, {owner: (0, 1, 2, 3), newcomer: ()})
    assert world.seen(RebalanceCompleted)[-1].moved == 0


def test_partitions_that_nobody_had_for_a_while_have_not_moved() -> None:
    """An assignment that leaves them out for good is not the first half of a move."""
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    for plan in ((0,), (2,)), ((0, 1), (2, 3)):
        first.join()
        second.join()
        bring(first, dict(zip((first, second), plan, strict=True)))
    assert world.seen(RebalanceCompleted)[-1].moved == 0


def test_holdings_know_since_when() -> None:
    """A partition that stays where it is keeps its generation and time."""
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


def test_holdings_pass_to_the_new_process() -> None:
    """A static member that comes back holds what it held."""
    world = World()
    old = world.member("a", static="i1")
    world.form(old)
    new = old.restarted()
    new.join()
    assert world.group().ledger.owned_by(new.id) == partitions(0, 1, 2, 3)
    assert world.group().ledger.owned_by(old.id) == frozenset()


def test_holdings_survive_a_crash() -> None:
    """They are read from the stored assignments."""
    world = World()
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    world.crash()
    assert world.group().ledger.owned_by(second.id) == partitions(1, 3)


def test_a_restart_tells_who_owned_what() -> None:
    """The journal goes on where the restart left it, whatever the guard."""
    world = World(ownership_guard="off")
    first, second = world.member("a"), world.member("b")
    world.form(first, second)
    world.crash()
    assert world.seen(GroupRecovered)[-1].assigned == {
        first.id: {"t": (0, 2)},
        second.id: {"t": (1, 3)},
    }


# -- members that have to join once more -------------------------------------------------------


def test_follow_up_of_a_revocation() -> None:
    """The owner lost something, so it joins again; the journal knows which round asked for it."""
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    assert world.causes[-1] == "revocation_follow_up"
    assert world.seen(RebalanceStarted)[-1].follows == 2


def test_follow_up_of_needs_rejoin() -> None:
    """A leader that asks everybody to rejoin makes follow-ups of all their joins."""
    world, owner, newcomer = cooperative("report")
    entries = group_by_topic(partitions(0, 1, 2, 3))
    plan = Assignment(assigned_partitions=entries, error_code=NEEDS_REJOIN)
    owner.sync({owner: encode_assignment(plan, 1)})
    newcomer.sync()
    assert world.seen(RebalanceCompleted)[-1].needs_rejoin is True
    newcomer.owned_generation = 2
    newcomer.join()
    assert world.causes[-1] == "revocation_follow_up"


def test_follow_up_is_asked_for_once() -> None:
    """When the next round has begun, later changes have causes of their own."""
    world, owner, newcomer = cooperative("report")
    bring(owner, {owner: (0, 1), newcomer: ()})
    claims(owner, 0, 1)
    owner.join()
    newcomer.join()
    owner.topics = ("t", "u")
    owner.join()
    assert world.causes[-2:] == ["revocation_follow_up", "subscription_changed"]


def test_follow_up_of_a_member_that_was_replaced() -> None:
    """Its place is known under its new id."""
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
