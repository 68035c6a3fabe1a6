"""When offsets, and groups with them, are forgotten by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.journal import GroupDeleted, OffsetsExpired
from coterie_server.group import END_OF_TIME_MS, BundleRow, GroupState
from tests.support.group_harness import Client, World

RETENTION = 100
T0, U0 = ("t", 0), ("u", 0)


def kept(**settings: int) -> World:
    """A world that keeps offsets for a tenth of a second and looks every millisecond."""
    usual: dict[str, Any] = {
        "offsets_retention_ms": RETENTION,
        "offsets_check_interval_ms": 1,
        "initial_rebalance_delay_ms": 0,
    }
    return World(**usual | settings)


def emptied(world: World, *clients: Client) -> None:
    """Let all members leave."""
    for client in clients:
        client.leave()
    assert world.state() is GroupState.EMPTY


# -- groups of offsets only --------------------------------------------------------------------


def test_without_members_each_offset_expires_by_its_own_commit() -> None:
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION - 1)
    world.commit({U0: 2})
    assert world.offsets() == {T0: 1, U0: 2}
    world.sleep(1)
    assert world.offsets() == {U0: 2}
    assert world.state() is GroupState.EMPTY


def test_an_empty_group_goes_with_its_last_offset() -> None:
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION)
    assert world.state() is GroupState.DEAD
    assert len(world.store) == 1  # when the shard last forgot offsets


def test_a_later_commit_begins_the_retention_anew() -> None:
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION - 1)
    world.commit({T0: 2})
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 2}
    world.sleep(1)
    assert world.offsets() == {}


def test_expired_offsets_and_groups_are_in_the_journal() -> None:
    world = kept()
    world.commit({T0: 1, U0: 2})
    world.sleep(RETENTION)
    (expired,) = world.seen(OffsetsExpired)
    assert expired.partitions == {"t": (0,), "u": (0,)}
    assert [event.how for event in world.seen(GroupDeleted)] == ["expired"]


# -- groups that had members -------------------------------------------------------------------


def test_all_offsets_of_an_emptied_group_go_together() -> None:
    world = kept()
    client = world.member("a")
    world.form(client)
    client.commit({T0: 1})
    world.sleep(50)
    emptied(world, client)
    world.commit({U0: 2})
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1, U0: 2}
    world.sleep(1)
    assert world.state() is GroupState.DEAD


def test_a_commit_does_not_prolong_an_emptied_groups_retention() -> None:
    world = kept()
    client = world.member("a")
    world.form(client)
    client.commit({T0: 1})
    emptied(world, client)
    world.sleep(RETENTION - 1)
    world.commit({T0: 2})
    world.sleep(1)
    assert world.offsets() == {}


def test_a_member_that_comes_back_stops_the_retention() -> None:
    world = kept()
    client, again = world.member("a"), world.member("b")
    world.form(client)
    client.commit({T0: 1})
    emptied(world, client)
    world.sleep(RETENTION - 1)
    world.form(again)
    world.sleep(3 * RETENTION)
    assert world.offsets() == {T0: 1}
    emptied(world, again)
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1}


def test_the_time_when_a_group_got_empty_survives_a_crash() -> None:
    world = kept()
    client = world.member("a")
    world.form(client)
    client.commit({T0: 1})
    emptied(world, client)
    world.sleep(RETENTION // 2)
    world.crash()
    world.sleep(RETENTION // 2 - 1)
    assert world.offsets() == {T0: 1}
    world.sleep(1)
    assert world.offsets() == {}


# -- groups at work ----------------------------------------------------------------------------


def test_a_group_at_work_loses_only_offsets_it_does_not_subscribe_to() -> None:
    world = kept()
    world.commit({T0: 1, U0: 2})
    client = world.member("a")
    world.form(client)
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1, U0: 2}
    world.sleep(1)
    assert world.offsets() == {T0: 1}


def test_offsets_of_a_topic_that_is_given_up_go() -> None:
    world = kept()
    client = world.member("a", topics=("t", "u"))
    world.form(client)
    client.commit({T0: 1, U0: 2})
    world.sleep(2 * RETENTION)
    assert world.offsets() == {T0: 1, U0: 2}
    client.topics = ("t",)
    world.rejoin(client)
    world.sleep(1)
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("attributes", [{"metadata": b"?"}, {"protocol_type": "connect"}])
def test_a_group_with_unreadable_subscriptions_keeps_everything(
    attributes: dict[str, object],
) -> None:
    world = kept()
    world.commit({T0: 1})
    client = world.member("a", **attributes)
    world.form(client)
    world.sleep(2 * RETENTION)
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_no_offset_expires_during_a_rebalance(state: GroupState) -> None:
    world = kept()
    client = world.member("a", session_ms=600_000, rebalance_ms=600_000)
    world.form(client)
    client.commit({U0: 1})
    world.sleep(RETENTION - 1)
    if state is GroupState.PREPARING:
        world.member("b", version=3).join()
    else:
        client.join()
    assert world.state() is state
    world.sleep(RETENTION)
    assert world.offsets() == {U0: 1}


# -- times that were asked for -----------------------------------------------------------------


@pytest.mark.parametrize("retention_ms", [0, 5, 2 * RETENTION])
def test_versions_2_to_4_may_ask_for_a_retention_time(retention_ms: int) -> None:
    world = kept()
    world.commit({T0: 1}, retention_time_ms=retention_ms, version=4)
    if retention_ms:
        world.sleep(retention_ms - 1)
        assert world.offsets() == {T0: 1}
    world.sleep(1)
    assert world.offsets() == {}


def test_the_longest_retention_ends_at_the_last_moment_that_can_be_stored() -> None:
    world = kept()
    world.commit({T0: 1}, retention_time_ms=2**63 - 1, version=4)
    world.crash()
    world.sleep(10 * RETENTION)
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("version", [2, 4])
def test_a_retention_of_minus_one_means_the_nodes(version: int) -> None:
    world = kept()
    world.commit({T0: 1}, retention_time_ms=-1, version=version)
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1}


def test_a_retention_time_does_not_count_while_the_topic_is_used() -> None:
    world = kept()
    world.commit({T0: 1}, retention_time_ms=5, version=4)
    client = world.member("a")
    world.form(client)
    world.sleep(20)
    assert world.offsets() == {T0: 1}
    emptied(world, client)
    world.sleep(1)
    assert world.offsets() == {}


# -- the sweep ---------------------------------------------------------------------------------


def test_sweeps_come_at_intervals_from_the_start() -> None:
    world = kept(offsets_check_interval_ms=60)
    world.commit({T0: 1}, retention_time_ms=10, version=4)
    world.sleep(59)
    assert world.offsets() == {T0: 1}
    world.sleep(1)
    assert world.offsets() == {}
    world.commit({T0: 1}, retention_time_ms=10, version=4)
    world.sleep(60)
    assert world.offsets() == {}


def test_a_sweep_takes_empty_groups_without_offsets() -> None:
    world = kept()
    client = world.member("a")
    world.form(client)
    emptied(world, client)
    world.sleep(1)
    assert world.state() is GroupState.DEAD
    assert [row.generation for row in world.table.tombstones.values()] == [2]


def test_a_sweep_leaves_groups_with_pending_ids() -> None:
    world = kept(offsets_check_interval_ms=10)
    client = world.member("a", session_ms=6_000)
    client.join_once()
    world.sleep(5_999)
    assert world.state() is GroupState.EMPTY
    world.sleep(11)
    assert world.state() is GroupState.DEAD


def test_a_sweep_looks_at_each_group_for_itself() -> None:
    world = kept()
    world.commit({T0: 1})
    world.sleep(1)
    world.commit({T0: 2}, group_id="h")
    world.sleep(RETENTION - 1)
    assert (world.offsets(), world.offsets("h")) == ({}, {T0: 2})


@pytest.mark.parametrize("has_members", [False, True], ids=["without members", "with members"])
def test_offsets_that_are_too_young_are_not_put_together(
    monkeypatch: pytest.MonkeyPatch, *, has_members: bool
) -> None:
    """There may be very many, and a sweep is one step."""
    world = kept()
    if has_members:
        client = world.member("a")
        world.form(client)
        client.commit({T0: 1, U0: 1})
    else:
        world.commit({T0: 1, U0: 1})
    with monkeypatch.context() as patch:
        patch.setattr(BundleRow, "offset_at", None)
        world.coordinator.fire(world.now_ms + 1)
    assert world.offsets() == {T0: 1, U0: 1}


def test_offsets_of_other_topics_are_not_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups of a shard are told of a topic in one step."""
    world = World()
    world.commit({T0: 1})
    with monkeypatch.context() as patch:
        patch.setattr(BundleRow, "offset_at", None)
        world.coordinator.topics_changed({"u": "deleted"}, END_OF_TIME_MS, world.now_ms)
    assert world.offsets() == {T0: 1}


def test_the_longest_retention_of_kafkas_setting_does_not_overflow() -> None:
    world = kept(offsets_retention_ms=(2**31 - 1) * 60_000, offsets_check_interval_ms=3_600_000)
    world.commit({T0: 1})
    world.sleep(1_000 * 3_600_000)
    assert world.offsets() == {T0: 1}
