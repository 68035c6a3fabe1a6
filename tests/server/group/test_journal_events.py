"""What the journal is told of whole rebalances, event by event."""

from __future__ import annotations

import pytest

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupEmptied,
    MemberGone,
    MemberJoined,
    MemberPhase,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from tests.support.group_harness import START_MS, World, assigned


def since(world: World, count: int) -> list[Event]:
    """The events after the first so many."""
    return world.events[count:]


def test_the_journal_of_a_first_rebalance_from_first_join_to_last_sync() -> None:
    world = World()
    first, second = world.member("a"), world.member("b", topics=("u",), static="i1")
    first.join()
    world.sleep(1_000)
    second.join()
    world.sleep(5_000)
    world.sleep(250)
    first.sync({first: assigned("t", 0, 1), second: assigned("u", 0)})
    assert [type(event) for event in world.events] == [
        MemberJoined,
        RebalanceStarted,
        MemberJoined,
        PhaseJoined,
        RebalanceCompleted,
    ]
    assert world.events[1] == RebalanceStarted(
        group="g",
        generation=0,
        from_state="Empty",
        cause="member_joined",
        detail="a-1",
        awaited=(),
        deadline=START_MS + 3_000,
    )
    a, b = (
        MemberPhase(
            member=client.id,
            instance=client.static,
            host="/10.0.0.1",
            joined_after_ms=joined_after_ms,
            topics=tuple(client.topics),
            owned={},
        )
        for client, joined_after_ms in ((first, 0), (second, 1_000))
    )
    assert world.events[3] == PhaseJoined(
        group="g",
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader=first.id,
        members=(a, b),
        dropped=(),
        last=second.id,
        cause="member_joined",
        took_ms=6_000,
    )
    assert world.events[4] == RebalanceCompleted(
        group="g",
        generation=1,
        cause="member_joined",
        assigned={first.id: {"t": (0, 1)}, second.id: {"u": (0,)}},
        moved=0,
        revoked=0,
        needs_rejoin=False,
        took_ms=250,
        total_ms=6_250,
    )


def test_the_journal_of_a_rebalance_in_which_a_member_is_dropped() -> None:
    world = World()
    stays, late = (world.member(name, rebalance_ms=9_000, session_ms=60_000) for name in "ab")
    world.form(stays, late)
    before = len(world.events)
    world.sleep(1_000)
    stays.join()
    world.sleep(9_000)
    stays.sync({stays: assigned("t", 0, 1, 2, 3)})
    started, gone, phase, completed = since(world, before)
    assert isinstance(started, RebalanceStarted)
    assert (started.cause, started.awaited) == ("leader_rejoined", (late.id,))
    assert gone == MemberGone(
        group="g",
        member=late.id,
        instance=None,
        host="/10.0.0.1",
        how="rebalance_expired",
        silent_ms=10_000,
        session_timeout_ms=60_000,
        owned={"t": (1, 3)},
    )
    assert isinstance(phase, PhaseJoined)
    assert (phase.dropped, phase.took_ms, phase.last) == ((late.id,), 9_000, stays.id)
    assert isinstance(completed, RebalanceCompleted)
    assert completed.assigned == {stays.id: {"t": (0, 1, 2, 3)}}
    assert (completed.moved, completed.revoked) == (2, 0)


def test_cooperative_members_owned_partitions_are_in_the_journal() -> None:
    world = World()
    first = world.member("a")
    world.form(first)
    newcomer = world.member("b")
    newcomer.join()
    first.owned, first.owned_generation = [("t", 0), ("t", 2), ("u", 1)], 1
    first.join()
    phase = world.seen(PhaseJoined)[-1]
    owned = {member.member: member.owned for member in phase.members}
    assert owned == {first.id: {"t": (0, 2), "u": (1,)}, newcomer.id: {}}


@pytest.mark.parametrize("attributes", [{"metadata": b"?"}, {"protocol_type": "connect"}])
def test_what_can_not_be_read_is_unknown_in_the_journal_and_not_empty(
    attributes: dict[str, object],
) -> None:
    world = World()
    client = world.member("a", **attributes)
    client.join()
    world.sleep(3_000)
    client.sync({client: b"?"})
    (phase,), (completed,) = world.seen(PhaseJoined), world.seen(RebalanceCompleted)
    assert [(member.topics, member.owned) for member in phase.members] == [(None, None)]
    assert completed.assigned is None


def test_emptied_and_deleted_groups_are_in_the_journal_with_their_generations() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    before = len(world.events)
    client.leave()
    world.delete("g")
    kinds = [(type(event), getattr(event, "generation", None)) for event in since(world, before)]
    assert kinds == [
        (MemberGone, None),
        (RebalanceStarted, 1),
        (GroupEmptied, 2),
        (GroupDeleted, 2),
    ]


def test_a_second_phase_that_is_broken_off_has_no_completion_in_the_journal() -> None:
    world = World()
    client = world.member("a")
    client.join()
    world.sleep(3_000)
    world.member("b").join()
    client.join()
    client.sync({})
    kinds = [
        (type(event).__name__, getattr(event, "generation", None))
        for event in world.events
        if not isinstance(event, MemberJoined)
    ]
    assert kinds == [
        ("RebalanceStarted", 0),
        ("PhaseJoined", 1),
        ("RebalanceStarted", 1),
        ("PhaseJoined", 2),
        ("RebalanceCompleted", 2),
    ]


def test_heartbeats_are_not_in_the_journal() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    before = len(world.events)
    world.live(60_000, client)
    world.describe()
    assert since(world, before) == []
