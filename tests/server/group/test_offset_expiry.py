"""When offsets, and groups with them, are forgotten by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.journal import GroupDeleted, OffsetsExpired
from coterie_server.group import GroupState
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
    """Let everybody leave."""
    for client in clients:
        client.leave()
    assert world.state() is GroupState.EMPTY


# -- groups of offsets only --------------------------------------------------------------------


def test_each_commit_counts_for_itself() -> None:
    """Without members an offset is kept for the retention time since it was committed."""
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION - 1)
    world.commit({U0: 2})
    assert world.offsets() == {T0: 1, U0: 2}
    world.sleep(1)
    assert world.offsets() == {U0: 2}
    assert world.state() is GroupState.EMPTY


def test_group_goes_with_its_last_offset() -> None:
    """Nothing is left of it, in memory or on disk, but when the shard last forgot offsets."""
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION)
    assert world.state() is GroupState.DEAD
    assert len(world.store) == 1  # when the shard last forgot offsets


def test_later_commit_counts_anew() -> None:
    """An offset is kept since its last commit."""
    world = kept()
    world.commit({T0: 1})
    world.sleep(RETENTION - 1)
    world.commit({T0: 2})
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 2}
    world.sleep(1)
    assert world.offsets() == {}


def test_expiry_is_written_down() -> None:
    """What went, and that the group went with it."""
    world = kept()
    world.commit({T0: 1, U0: 2})
    world.sleep(RETENTION)
    (expired,) = world.seen(OffsetsExpired)
    assert expired.partitions == {"t": (0,), "u": (0,)}
    assert [event.how for event in world.seen(GroupDeleted)] == ["expired"]


# -- groups that had members -------------------------------------------------------------------


def test_emptied_group_counts_from_when_it_got_empty() -> None:
    """All its offsets go together, however old they are."""
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


def test_commit_does_not_prolong_an_emptied_group() -> None:
    """Resetting offsets does not bring the group to life."""
    world = kept()
    client = world.member("a")
    world.form(client)
    client.commit({T0: 1})
    emptied(world, client)
    world.sleep(RETENTION - 1)
    world.commit({T0: 2})
    world.sleep(1)
    assert world.offsets() == {}


def test_member_that_comes_back_stops_the_clock() -> None:
    """While somebody is there nothing goes; when the group empties, time counts anew."""
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


def test_clock_survives_a_crash() -> None:
    """The time when the group got empty is stored."""
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


def test_group_at_work_keeps_what_it_subscribes_to() -> None:
    """However long ago it was committed; what nobody subscribes to goes."""
    world = kept()
    world.commit({T0: 1, U0: 2})
    client = world.member("a")
    world.form(client)
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1, U0: 2}
    world.sleep(1)
    assert world.offsets() == {T0: 1}


def test_topic_that_is_given_up() -> None:
    """Its offsets go; those of the other topics stay."""
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
def test_group_whose_subscriptions_nobody_can_read(attributes: dict[str, object]) -> None:
    """It keeps everything while it is at work."""
    world = kept()
    world.commit({T0: 1})
    client = world.member("a", **attributes)
    world.form(client)
    world.sleep(2 * RETENTION)
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_nothing_goes_during_a_rebalance(state: GroupState) -> None:
    """Who subscribes to what is not settled then."""
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
def test_time_asked_for(retention_ms: int) -> None:
    """Clients of versions 2 to 4 may say how long an offset is to be kept."""
    world = kept()
    world.commit({T0: 1}, retention_time_ms=retention_ms, version=4)
    if retention_ms:
        world.sleep(retention_ms - 1)
        assert world.offsets() == {T0: 1}
    world.sleep(1)
    assert world.offsets() == {}


def test_all_the_time_in_the_world() -> None:
    """The longest time that can be asked for lies beyond the last moment that can be stored."""
    world = kept()
    world.commit({T0: 1}, retention_time_ms=2**63 - 1, version=4)
    world.crash()
    world.sleep(10 * RETENTION)
    assert world.offsets() == {T0: 1}


@pytest.mark.parametrize("version", [2, 4])
def test_no_time_asked_for(version: int) -> None:
    """-1 means as long as the node keeps offsets."""
    world = kept()
    world.commit({T0: 1}, retention_time_ms=-1, version=version)
    world.sleep(RETENTION - 1)
    assert world.offsets() == {T0: 1}


def test_time_asked_for_does_not_count_while_the_topic_is_used() -> None:
    """A group at work keeps what it subscribes to; when it is empty the time counts."""
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


def test_sweep_comes_at_intervals() -> None:
    """The first one an interval after the start, then again and again."""
    world = kept(offsets_check_interval_ms=60)
    world.commit({T0: 1}, retention_time_ms=10, version=4)
    world.sleep(59)
    assert world.offsets() == {T0: 1}
    world.sleep(1)
    assert world.offsets() == {}
    world.commit({T0: 1}, retention_time_ms=10, version=4)
    world.sleep(60)
    assert world.offsets() == {}


def test_sweep_takes_empty_groups_without_offsets() -> None:
    """Whatever they were; their generation is remembered."""
    world = kept()
    client = world.member("a")
    world.form(client)
    emptied(world, client)
    world.sleep(1)
    assert world.state() is GroupState.DEAD
    assert [row.generation for row in world.table.tombstones.values()] == [2]


def test_sweep_leaves_groups_that_somebody_is_about_to_join() -> None:
    """An id was handed out, and its owner will be back."""
    world = kept(offsets_check_interval_ms=10)
    client = world.member("a", session_ms=6_000)
    client.join_once()
    world.sleep(5_999)
    assert world.state() is GroupState.EMPTY
    world.sleep(11)
    assert world.state() is GroupState.DEAD


def test_sweep_leaves_the_other_groups() -> None:
    """Each group is looked at for itself."""
    world = kept()
    world.commit({T0: 1})
    world.sleep(1)
    world.commit({T0: 2}, group_id="h")
    world.sleep(RETENTION - 1)
    assert (world.offsets(), world.offsets("h")) == ({}, {T0: 2})


def test_long_retention_does_not_overflow() -> None:
    """The largest number of minutes that Kafka's setting allows."""
    world = kept(offsets_retention_ms=(2**31 - 1) * 60_000, offsets_check_interval_ms=3_600_000)
    world.commit({T0: 1})
    world.sleep(1_000 * 3_600_000)
    assert world.offsets() == {T0: 1}
