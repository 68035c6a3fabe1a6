"""Every cause that a rebalance can have, and how it comes about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import CAUSES, RebalanceStarted
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World, assigned


def group_of(world: World, count: int, **attributes: object) -> list[Client]:
    """A stable group."""
    clients = [world.member(f"c{n}", **attributes) for n in range(count)]
    world.form(*clients)
    return clients


def statics(world: World, count: int) -> list[Client]:
    """A stable group of static members."""
    clients = [world.member(f"c{n}", static=f"i{n}") for n in range(count)]
    world.form(*clients)
    return clients


def member_joined(world: World) -> None:
    """A member comes."""
    group_of(world, 1)
    world.member("new").join()


def member_left(world: World) -> None:
    """A member leaves."""
    group_of(world, 2)[1].leave()


def member_removed(world: World) -> None:
    """A member is removed."""
    statics(world, 2)[1].leave(member_id="")


def session_expired(world: World) -> None:
    """A member is silent."""
    world.live(10_000, group_of(world, 2)[0])


def registration_expired(world: World) -> None:
    """A static member is away for too long."""
    world.crash(static_registration_timeout_ms=30_000)
    world.live(30_000, statics(world, 2)[0])


def join_expired(world: World) -> None:
    """A newcomer that waits to be let in gives up, in a group that works on meanwhile."""
    world.crash(static_expansion_timeout_ms=60_000, new_member_join_timeout_ms=5_000)
    group_of(world, 1)
    world.member("new", static="i1").join()
    world.sleep(5_000)


def sync_expired(world: World) -> None:
    """A member joins and does not ask for its assignment."""
    leader, lazy = (world.member(n, rebalance_ms=8_000, session_ms=60_000) for n in "ab")
    leader.join()
    lazy.join()
    world.sleep(6_000)
    leader.sync({})
    world.sleep(8_000)


def subscription_changed(world: World) -> None:
    """A member changes its subscription."""
    client = group_of(world, 2)[1]
    client.topics = ("u",)
    client.join()


def revocation_follow_up(world: World) -> None:
    """A member had to let go of something first."""
    (owner,) = group_of(world, 1)
    owner.owned = [("t", n) for n in range(4)]
    newcomer = world.member("new")
    newcomer.join()
    owner.join()
    owner.sync({owner: assigned("t", 0, 1)})
    newcomer.sync()
    owner.owned = [("t", 0), ("t", 1)]
    owner.join()


def told(world: World, reason: str) -> None:
    """A member says itself why it joins again."""
    leader, _ = group_of(world, 2)
    leader.join(reason=reason)


def probing(world: World) -> None:
    """The leader looks whether copies have caught up."""
    told(world, "probing: the assignment is not the final one yet")


def warm(world: World) -> None:
    """A copy has caught up."""
    told(world, "warm: t[1] caught up")


def load(world: World) -> None:
    """Loads are out of balance."""
    told(world, "load: too much of it")


def leader_rejoined(world: World) -> None:
    """The leader sees something."""
    group_of(world, 2)[0].join()


def static_replaced(world: World) -> None:
    """An instance comes back while the leader works."""
    old = world.member("a", static="i1")
    old.join()
    world.sleep(3_000)
    old.restarted().join()


def static_expansion(world: World) -> None:
    """The time to collect newcomers is over."""
    world.crash(static_expansion_timeout_ms=5_000)
    group_of(world, 1)
    world.member("new", static="i1").join()
    world.sleep(5_000)


def topic_changed(world: World) -> None:
    """A topic grows."""
    group_of(world, 1)
    world.change_topic("t", "grown", 8)


def admin(world: World) -> None:
    """An administrator wants it."""
    statics(world, 1)
    world.force_rebalance()


def following(world: World) -> list[Client]:
    """A stable group of two that follows operations."""
    clients = [world.member(f"c{n}", follows=True) for n in range(2)]
    world.form(*clients)
    return clients


def drain(world: World) -> None:
    """A member is to give up what it has."""
    world.order("drain", following(world)[1])


def pin(world: World) -> None:
    """A partition is to be with a member."""
    world.order("pin", following(world)[1], numbers=[0])


def freeze(world: World) -> None:
    """A freeze is over."""
    clients = following(world)
    world.order("freeze", for_ms=5_000)
    world.live(6_000, *clients)


def over_capacity(world: World) -> None:
    """The node starts again with less room."""
    group_of(world, 2)
    world.crash(max_size=1)


SCENES: dict[str, Callable[[World], None]] = {
    scene.__name__: scene
    for scene in (
        member_joined,
        member_left,
        member_removed,
        session_expired,
        registration_expired,
        join_expired,
        sync_expired,
        subscription_changed,
        revocation_follow_up,
        probing,
        warm,
        load,
        leader_rejoined,
        static_replaced,
        static_expansion,
        topic_changed,
        admin,
        drain,
        pin,
        freeze,
        over_capacity,
    )
}


def test_the_documented_causes_are_those_that_happen() -> None:
    assert set(SCENES) == set(CAUSES)


@pytest.mark.parametrize("cause", SCENES)
def test_the_rebalance_has_this_cause_in_journal_and_store(cause: str) -> None:
    world = World()
    SCENES[cause](world)
    assert world.causes[-1] == cause
    assert world.group().row.cause == cause
    assert world.state() is not GroupState.STABLE


# -- fine distinctions -------------------------------------------------------------------------


def test_leader_whose_possessions_have_changed() -> None:
    """A cooperative leader tells what it owns by now; it wants what it wanted before."""
    world = World()
    leader, _ = group_of(world, 2)
    leader.owned, leader.owned_generation = [("t", 0)], 1
    leader.join()
    assert world.causes[-1] == "leader_rejoined"


@pytest.mark.parametrize(
    "change", [{"topics": ("t", "u")}, {"protocols": ("range", "x")}, {"metadata": b"?"}]
)
def test_a_leader_that_wants_other_topics_has_a_changed_subscription(
    change: dict[str, object],
) -> None:
    world = World()
    leader, _ = group_of(world, 2)
    for name, value in change.items():
        setattr(leader, name, value)
    leader.join()
    assert world.causes[-1] == "subscription_changed"


@pytest.mark.parametrize(
    ("metadata", "cause"), [(b"one", "leader_rejoined"), (b"two", "subscription_changed")]
)
def test_other_bytes_are_a_change_where_they_can_not_be_read(metadata: bytes, cause: str) -> None:
    world = World()
    leader, _ = group_of(world, 2, protocol_type="connect", metadata=b"one")
    leader.metadata = metadata
    leader.join()
    assert world.causes[-1] == cause


@pytest.mark.parametrize("reason", ["warmth", "probing", "admin: me", "", "leader_rejoined: x"])
def test_only_known_words_in_front_of_a_reason_are_causes(reason: str) -> None:
    world = World()
    leader, _ = group_of(world, 2)
    leader.join(reason=reason)
    expected = "probing" if reason == "probing" else "leader_rejoined"
    assert world.causes[-1] == expected


def test_other_topics_are_a_change_whatever_the_reason_says() -> None:
    world = World()
    leader, _ = group_of(world, 2)
    leader.topics = ("u",)
    leader.join(reason="warm: t[1] caught up")
    assert world.causes[-1] == "subscription_changed"


def test_what_happens_during_the_first_phase_does_not_change_the_cause() -> None:
    world = World()
    leader, follower = group_of(world, 2)
    leader.join()
    world.member("new").join()
    follower.leave()
    assert world.causes == ["member_joined", "leader_rejoined"]
    assert world.group().row.cause == "leader_rejoined"


def test_cause_survives_a_crash() -> None:
    world = World()
    leader, follower = group_of(world, 2)
    leader.join()
    world.crash()
    world.rejoin(leader, follower)
    assert world.group().row.cause == "leader_rejoined"


def test_the_journal_names_those_who_are_awaited_and_until_when() -> None:
    world = World()
    leader, follower = group_of(world, 2)
    assert leader.join(reason="topics").is_parked
    started = world.seen(RebalanceStarted)[-1]
    assert started.awaited == (follower.id,)
    assert started.deadline == world.now_ms + 60_000
    assert (started.generation, started.from_state) == (1, "Stable")
    assert started.detail == f"{leader.id}: topics"
    assert follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
