"""Cases that other coordinators got wrong, each under the name by which it is known."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import GroupState
from tests.support.group_harness import World


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_kop_380_last_awaited_member_goes(how: str) -> None:
    """Issue 380 of kop: the first phase is over when the last awaited member goes."""
    world = World()
    leader, follower, slow = (world.member(name) for name in "abc")
    world.form(leader, follower, slow)
    joins = [client.join() for client in (leader, follower)]
    if how == "leaves":
        slow.leave()
    else:
        world.sleep(10_000)
    assert [join.error for join in joins] == [ErrorCode.NONE] * 2
    assert world.state() is GroupState.COMPLETING


@pytest.mark.parametrize("version", [0, 1, 2, 4, 5, 9])
def test_kop_303_expiry_of_minus_one(version: int) -> None:
    """Issue 303 of kop: -1 is no time of expiry, but says that none was asked for."""
    world = World(offsets_check_interval_ms=1_000)
    world.commit({("t", 0): 1}, version=version)
    assert world.group().offsets["t", 0].expires_at_ms == -1
    world.sleep(60_000)
    assert world.offsets() == {("t", 0): 1}


def test_redpanda_4900_deleted_group_returns() -> None:
    """Issue 4900 of redpanda: a group that was deleted does not come back with a restart."""
    world = World()
    client = world.member("a")
    world.form(client)
    client.commit({("t", 0): 1})
    client.leave()
    world.delete("g")
    world.crash()
    assert world.state() is GroupState.DEAD
    assert world.offsets() == {}
    assert world.describe("g", 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_moosestack_4006_join_after_the_assignment() -> None:
    """Pull request 4006 of moosestack: a join that finds a stable group is answered, not lost."""
    world = World()
    leader, follower = world.member("a"), world.member("b")
    leader.join()
    follower.join()
    world.sleep(6_000)
    leader.sync({follower: b"yours"})
    assert world.state() is GroupState.STABLE
    again = follower.join()
    assert (again.error, again.reply.generation_id) == (ErrorCode.NONE, 1)
    assert follower.sync().reply.assignment == b"yours"


def test_kafka_9801_static_member_comes_back_in_the_second_phase() -> None:
    """KAFKA-9801: the leader has the old id in its list, so the new one would get nothing."""
    world = World()
    leader, old = world.member("a", static="i1"), world.member("b", static="i2")
    leader.join()
    old.join()
    world.sleep(6_000)
    new = old.restarted()
    new.join()
    assert leader.sync({old: b"lost"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    leader.sync({new: b"yours"})
    assert new.sync().reply.assignment == b"yours"


def test_kafka_8653_oldest_clients_have_no_rebalance_timeout() -> None:
    """KAFKA-8653: version 0 knows one timeout; taken as none, no rebalance would ever succeed."""
    world = World()
    old = world.member("a", version=0, session_ms=8_000)
    world.form(old)
    assert world.group().members[old.id].row.rebalance_timeout_ms == 8_000
    join = world.member("b", version=0, session_ms=8_000).join()
    world.live(7_000, old)
    assert join.is_parked
    assert old.join().error is ErrorCode.NONE


def test_kafka_8653_oldest_client_joins_again() -> None:
    """The same timeout counts when it joins again."""
    world = World()
    old, other = (world.member(name, version=0, session_ms=8_000) for name in "ab")
    world.form(old, other)
    old.session_ms = 9_000
    old.join()
    assert world.group().members[old.id].row.rebalance_timeout_ms == 9_000


def test_xtdb_5904_generation_after_an_empty_group_expired() -> None:
    """Issue 5904 of xtdb: a user of generations as fencing tokens must never see one twice."""
    world = World(offsets_check_interval_ms=60_000)
    first = world.member("a")
    world.form(first)
    assert first.generation == 1
    world.sleep(120_000)
    assert world.state() is GroupState.DEAD
    world.crash()
    second = world.member("a")
    world.form(second)
    assert second.generation == 3


def test_generations_of_a_group_that_comes_and_goes_only_grow() -> None:
    world = World(offsets_check_interval_ms=60_000)
    seen = []
    for number in range(6):
        client = world.member(f"c{number}")
        world.form(client)
        seen.append(client.generation)
        if number % 2:
            world.crash()
        client.leave()
        if number % 3:
            world.delete("g")
        else:
            world.sleep(60_000)
    assert seen == [1, 3, 5, 7, 9, 11]


def test_group_without_a_generation_leaves_nothing() -> None:
    """So names that were only tried take no room."""
    world = World(offsets_check_interval_ms=60_000)
    world.member("a", session_ms=6_000).join_once()
    world.sleep(120_000)
    assert (world.store, world.table.tombstones) == ({}, {})


def test_member_that_never_syncs_holds_up_the_group_only_for_a_while() -> None:
    world = World()
    good, bad = (world.member(name, rebalance_ms=7_000, session_ms=60_000) for name in "ab")
    bad.join()
    good.join()
    world.sleep(6_000)
    assert bad.leads
    sync = good.sync()
    for _ in range(7):
        world.sleep(1_000)
        bad.join()
    assert sync.error is ErrorCode.REBALANCE_IN_PROGRESS
    world.rejoin(good)
    assert world.state() is GroupState.STABLE
