"""Ids that were handed out and whose owners have not come back yet."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import IdUnclaimed, RebalanceStarted
from coterie_protocol.messages import LeaveGroupRequest, MemberIdentity
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World


def going_on(world: World) -> tuple[Client, Client, Client]:
    """Two members, one of which has joined again, and one who was just told its id."""
    first, second, ghost = world.member("a"), world.member("b"), world.member("ghost")
    world.form(first, second)
    ghost.join_once()
    assert first.join().is_parked
    return first, second, ghost


def test_unused_id_is_forgotten() -> None:
    """After the session timeout that its owner asked for, the id is as unknown as any other."""
    world = World()
    client = world.member("a", session_ms=7_000)
    client.join_once()
    world.sleep(6_999)
    assert world.group().pending_joins == {client.id}
    world.sleep(1)
    assert world.group().pending_joins == set()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_pending_id_is_waited_for() -> None:
    """All members have joined again, but somebody is on its way."""
    world = World()
    _, second, _ = going_on(world)
    assert second.join().is_parked
    assert world.state() is GroupState.PREPARING


def test_pending_id_that_joins_completes_the_round() -> None:
    """When the awaited newcomer is here, everybody is."""
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    assert ghost.join_once().error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id, ghost.id}


def test_pending_id_that_expires_completes_the_round() -> None:
    """An id whose owner stays away is waited for no longer than its session timeout."""
    world = World()
    first, second, _ = going_on(world)
    join = second.join()
    world.sleep(9_999)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}


def test_pending_id_that_leaves_completes_the_round() -> None:
    """The owner of an id can give it back."""
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    assert ghost.leave() is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}


def test_pending_id_does_not_outlast_the_rebalance_timeout() -> None:
    """The first phase has an end, whoever is still on its way."""
    world = World()
    first, second, _ = going_on(world)
    slow = world.member("slow", session_ms=1_000_000)
    slow.join_once()
    join = second.join()
    world.sleep(60_000)
    assert join.error is ErrorCode.NONE
    assert set(first.roster) == {first.id, second.id}
    assert world.group().pending_joins == {slow.id}


def test_unused_id_does_not_disturb_a_stable_group() -> None:
    """Asking for an id and never coming back costs nobody a rebalance."""
    world = World()
    first = world.member("a")
    world.form(first)
    world.member("ghost").join_once()
    world.live(20_000, first)
    assert world.group().pending_joins == set()
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


def test_id_given_back_does_not_disturb_a_stable_group() -> None:
    """Nobody was lost, so nothing has to be shared anew."""
    world = World()
    first, ghost = world.member("a"), world.member("ghost")
    world.form(first)
    ghost.join_once()
    assert ghost.leave() is ErrorCode.NONE
    assert world.state() is GroupState.STABLE
    assert world.group().pending_joins == set()


@pytest.mark.parametrize("how", ["expires", "leaves"])
def test_unused_id_is_written_down(how: str) -> None:
    """A rebalance may have waited for it."""
    world = World()
    _, _, ghost = going_on(world)
    if how == "leaves":
        ghost.leave()
    else:
        world.sleep(10_000)
    assert [(e.group, e.member) for e in world.seen(IdUnclaimed)] == [("g", ghost.id)]


def test_pending_id_is_no_member() -> None:
    """Only joining makes a member: nothing else works with such an id."""
    world = World()
    client = world.member("a")
    client.join_once()
    assert client.heartbeat(generation_id=0) is ErrorCode.UNKNOWN_MEMBER_ID
    sync = client.sync(generation_id=0, protocol_name="range")
    assert sync.error is ErrorCode.UNKNOWN_MEMBER_ID
    commit = client.commit({("t", 0): 1}, generation_id_or_member_epoch=0)
    assert commit.part_errors == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_pending_ids_are_not_shown() -> None:
    """A group in which nobody has joined is empty."""
    world = World()
    world.member("a").join_once()
    described = world.describe()
    assert (described.group_state, described.protocol_type) == ("Empty", "")
    assert described.members == ()


def test_refused_join_keeps_the_id_pending() -> None:
    """A join that can't be taken may be put right and sent again."""
    world = World()
    client = world.member("a")
    client.join_once()
    refused = client.join_once(protocols=())
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.group().pending_joins == {client.id}
    assert client.join_once().is_parked
    assert world.group().pending_joins == set()


def test_id_is_used_up_by_joining() -> None:
    """The id's own deadline is no more when its owner has joined."""
    world = World(initial_rebalance_delay_ms=20_000)
    client = world.member("a", session_ms=6_000)
    join = client.join()
    world.sleep(19_999)
    assert join.is_parked
    world.sleep(1)
    assert join.error is ErrorCode.NONE


def test_batch_acts_once_after_all_have_gone() -> None:
    """A batch in which a pending id leaves before a member is one step, not two rounds."""
    world = World()
    first, second, ghost = going_on(world)
    second.join()
    members = tuple(MemberIdentity(member_id=client.id) for client in (ghost, second))
    answer = world.request(LeaveGroupRequest(group_id="g", members=members), 5)
    assert answer.part_errors == [ErrorCode.NONE, ErrorCode.NONE]
    assert world.group().generation == 2
    assert set(first.roster) == {first.id}
    assert len(world.seen(RebalanceStarted)) == 2


def test_deleted_group_forgets_its_pending_ids() -> None:
    """An id that was handed out for a group that is gone is unknown, in the next one as well."""
    world = World()
    client = world.member("a")
    client.join_once()
    world.delete("g")
    world.member("b").join()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_crash_forgets_pending_ids() -> None:
    """They are not stored: their owners ask for new ones."""
    world = World()
    client = world.member("a")
    client.join_once()
    world.crash()
    assert client.join_once().error is ErrorCode.UNKNOWN_MEMBER_ID
    client.id = ""
    assert client.join().is_parked
