"""What the coordinator tells of members' state: it reads along, and nothing depends on it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.consumer import Assignment, encode_assignment, group_by_topic
from coterie_protocol.journal import PhaseJoined, RebalanceCompleted
from coterie_protocol.streams import join_user_data
from coterie_protocol.streams.reading import BLOCK_BYTES_MAX, read_lags, read_orders
from coterie_server.group import GroupState
from coterie_server.group.warmth import BYTES_AT_ONCE
from tests.support.group_harness import World, assigned
from tests.support.warm_groups import ordered, report, reported, warm_pair


def lags(world: World) -> dict[str, object]:
    """What the members said as the last generation formed."""
    return {each.member: each.lags for each in world.seen(PhaseJoined)[-1].members}


def test_the_journal_has_what_members_report() -> None:
    world = World()
    owner, heir = warm_pair(world)
    assert lags(world) == {owner.id: {}, heir.id: {"t": {"0": 7, "3": 1_234}}}


def test_the_journal_has_what_the_leader_ordered() -> None:
    world = World()
    owner, heir = warm_pair(world)
    completed = world.seen(RebalanceCompleted)[-1]
    assert completed.standbys == {heir.id: {"t": (0,)}}
    assert completed.warming == {heir.id: {"t": (3,)}}
    assert completed.targets == {heir.id: {"t": (3,)}}
    assert completed.next_probing == 99_000
    assert completed.assigned == {owner.id: {"t": (0, 1, 2, 3)}, heir.id: {}}


def test_a_group_without_state_has_none_in_the_journal() -> None:
    world = World()
    world.form(world.member("a"), world.member("b"))
    completed = world.seen(RebalanceCompleted)[-1]
    found = (completed.standbys, completed.warming, completed.targets, completed.next_probing)
    assert found == (None,) * 4
    assert set(lags(world).values()) == {None}


@pytest.mark.parametrize("version", [1, 6, 7, 9, 10, 11])
def test_reports_of_all_versions_are_read(version: int) -> None:
    """Those before 7 know no lags, and those before 10 no names of topics."""
    world = World()
    member = world.member("a", metadata=reported(report({1: 5, 2: -2}, version=version)))
    member.join()
    world.sleep(3_000)
    assert lags(world) == {member.id: {"t": {"1": 5 if version >= 7 else None}}}


def test_a_copy_of_which_the_lag_is_unknown() -> None:
    assert read_lags(report({1: -3, 2: -77}), ["t"]) == {("t", 1): None, ("t", 2): None}


BAD = [
    None,
    b"",
    b"own data of an assignor",
    join_user_data(b"own", b""),
    join_user_data(b"own", b"\0\0\0\x0b"),
    join_user_data(b"own", b"\xff" * 300),
    join_user_data(b"own", b"\0\0\0\x63\0\0\0\x63"),  # a version to come
    b"\xff\xff\xff\xffwARM",
    b"wARM",
]


@pytest.mark.parametrize("user_data", BAD)
def test_what_can_not_be_read_is_unknown_and_disturbs_nothing(user_data: bytes | None) -> None:
    world = World()
    leader = world.member("a", metadata=reported(user_data))
    follower = world.member("b", metadata=reported(report({0: 3})))
    for client in (leader, follower):
        client.join()
    world.sleep(6_000)
    odd = encode_assignment(
        Assignment(assigned_partitions=group_by_topic([("t", 0)]), user_data=user_data), 1
    )
    leader.sync({leader: odd, follower: ordered((1,), warming=(0,))})
    follower.sync()
    assert world.state() is GroupState.STABLE
    assert leader.assignment == odd
    assert lags(world) == {leader.id: None, follower.id: {"t": {"0": 3}}}
    assert world.seen(RebalanceCompleted)[-1].warming == {follower.id: {"t": (0,)}}


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_are_too_strange(block: bytes, wrapped: bool) -> None:  # noqa: FBT001
    user_data = join_user_data(None, block) if wrapped else block
    read_lags(user_data, ["t"])
    read_orders(user_data, ["t"])


def test_very_long_reports_are_not_read() -> None:
    long = report(dict.fromkeys(range(BLOCK_BYTES_MAX // 16), 1))
    assert len(long) > BLOCK_BYTES_MAX
    assert read_lags(long, ["t"]) is None


def test_of_many_long_reports_some_are_read_and_time_is_bounded() -> None:
    world = World(initial_rebalance_delay_ms=1)
    data = reported(report(dict.fromkeys(range(1_500), 1)))
    members = [world.member(f"m{n}", metadata=data, version=3) for n in range(100)]
    for member in members:
        member.join()
    began_s = time.process_time()
    while world.state() is GroupState.PREPARING:
        world.sleep_until_due()
    took_s = time.process_time() - began_s
    read = [each for each in lags(world).values() if each is not None]
    assert len(read) == BYTES_AT_ONCE // len(report(dict.fromkeys(range(1_500), 1)))
    assert took_s < 5  # a hundred times what it takes; all of them would take far longer


def test_targets_that_are_no_members_are_left_out() -> None:
    world = World()
    member = world.member("a", metadata=reported(report({})))
    member.join()
    world.sleep(3_000)
    member.sync({member: ordered((0, 1), targets={0: "x" * 9_000, 1: member.id})})
    assert world.seen(RebalanceCompleted)[-1].targets == {member.id: {"t": (1,)}}


def test_a_group_of_another_type_is_not_read() -> None:
    world = World()
    member = world.member("a", protocol_type="connect", metadata=report({0: 1}))
    member.join()
    world.sleep(3_000)
    member.sync({member: assigned("t", 0)})
    assert lags(world) == {member.id: None}
    assert world.seen(RebalanceCompleted)[-1].standbys is None
