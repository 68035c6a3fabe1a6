"""What an administrator, a time limit or a change of topics makes a group do."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import RebalanceStarted
from coterie_server.group import GroupState, Refusal
from tests.support.group_harness import Client, World, assigned

REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


def statics(world: World, count: int, **attributes: object) -> list[Client]:
    """A stable group of static members."""
    values = {"session_ms": 60_000, "rebalance_ms": 5_000} | attributes
    clients = [world.member(f"c{n}", static=f"i{n}", **values) for n in range(count)]
    world.form(*clients)
    return clients


# -- asked for ---------------------------------------------------------------------------------


def test_a_forced_rebalance_asks_all_members_to_join_again_once() -> None:
    world = World()
    clients = statics(world, 2)
    world.force_rebalance()
    assert [client.heartbeat() for client in clients] == [REBALANCING] * 2
    world.rejoin(*clients)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 2)
    assert world.causes[-1] == "admin"


def test_a_forced_rebalance_removes_no_member() -> None:
    world = World()
    present, away = statics(world, 2)
    world.force_rebalance()
    join = present.join()
    world.sleep(5_000)
    assert join.error is ErrorCode.NONE
    assert set(present.roster) == {present.id, away.id}


def refused(world: World) -> str:
    """The name of the refusal."""
    with pytest.raises(Refusal, match=r"Group 'g'|group 'g'") as refusal:
        world.force_rebalance()
    return refusal.value.name


def test_a_missing_group_is_refused_by_name() -> None:
    assert refused(World()) == "group_not_found"


def test_an_empty_group_is_refused() -> None:
    world = World()
    world.commit({("t", 0): 1})
    assert refused(world) == "group_empty"


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_a_group_that_rebalances_already_is_refused(state: GroupState) -> None:
    world = World()
    first, second = statics(world, 2)
    first.join()
    if state is GroupState.COMPLETING:
        second.join()
    assert world.state() is state
    assert refused(world) == "rebalance_in_progress"


def test_group_with_a_dynamic_member() -> None:
    """Dynamic members that do not join in time would be dropped."""
    world = World()
    static, dynamic = world.member("a", static="i1"), world.member("b")
    world.form(static, dynamic)
    with pytest.raises(Refusal, match=dynamic.id) as refusal:
        world.force_rebalance()
    assert refusal.value.name == "dynamic_members"
    assert world.state() is GroupState.STABLE


# -- group.static.expansion.timeout.ms ---------------------------------------------------------


def expanding(world: World) -> list[Client]:
    """Static members that are on their way to a stable group of two."""
    statics(world, 2)
    limits = {"session_ms": 60_000, "rebalance_ms": 5_000}
    return [world.member(f"n{n}", static=f"n{n}", **limits) for n in range(3)]


def test_static_newcomers_within_the_time_are_in_one_rebalance() -> None:
    world = World(static_expansion_timeout_ms=10_000)
    newcomers = expanding(world)
    joins = []
    for newcomer in newcomers:
        joins.append(newcomer.join())
        world.sleep(3_000)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)
    world.sleep(1_000)
    assert world.state() is GroupState.PREPARING
    assert world.causes[1:] == ["static_expansion"]
    started = world.seen(RebalanceStarted)[-1]
    assert all(f"n{n}" in started.detail for n in range(3))
    assert all(join.is_parked for join in joins)


def test_an_expansion_ends_with_all_members_in_one_generation() -> None:
    world = World(static_expansion_timeout_ms=1_000)
    old = statics(world, 2)
    newcomer = world.member("n", static="n1")
    join = newcomer.join()
    world.sleep(1_000)
    for client in old:
        client.join()
    assert join.reply.generation_id == 2
    assert len(old[0].roster) == 3


def test_the_group_works_on_while_newcomers_are_collected() -> None:
    world = World(static_expansion_timeout_ms=10_000)
    old = statics(world, 2)
    world.member("n", static="n1", protocols=("range", "x")).join()
    assert [client.heartbeat() for client in old] == [ErrorCode.NONE] * 2
    assert old[1].join().error is ErrorCode.NONE
    assert old[0].commit({("t", 0): 1}).part_errors == [ErrorCode.NONE]
    assert world.describe().group_state == "Stable"


def test_by_default_a_static_newcomer_starts_a_rebalance_at_once() -> None:
    world = World()
    expanding(world)[0].join()
    assert world.state() is GroupState.PREPARING
    assert world.causes[-1] == "member_joined"


def test_a_dynamic_newcomer_starts_a_rebalance_at_once_for_all_that_wait() -> None:
    world = World(static_expansion_timeout_ms=10_000)
    newcomers = expanding(world)
    waiting = newcomers[0].join()
    dynamic = world.member("d", rebalance_ms=5_000)
    dynamic.join()
    assert world.causes[1:] == ["member_joined"]
    world.sleep(5_000)
    assert waiting.error is ErrorCode.NONE
    assert len(world.causes) == 2


def test_after_a_rebalance_the_next_newcomer_opens_a_new_collection() -> None:
    world = World(static_expansion_timeout_ms=4_000)
    old = statics(world, 2, session_ms=600_000)
    first, second = world.member("n", static="n1"), world.member("m", static="m1")
    first.join()
    world.sleep(4_000)
    for client in old:
        client.join()
    world.share(*old, first)
    second.join()
    world.sleep(3_999)
    assert world.state() is GroupState.STABLE
    world.sleep(1)
    assert world.state() is GroupState.PREPARING


def test_a_newcomer_that_restarts_while_it_waits_keeps_its_place() -> None:
    world = World(static_expansion_timeout_ms=20_000)
    statics(world, 2, session_ms=600_000)
    first = world.member("n", static="n1", session_ms=6_000)
    lost = first.join()
    again = first.restarted().join()
    assert lost.error is ErrorCode.FENCED_INSTANCE_ID
    world.sleep(19_999)
    assert (again.is_parked, world.state()) == (True, GroupState.STABLE)
    world.sleep(1)
    assert world.state() is GroupState.PREPARING


def test_newcomers_that_wait_are_not_stored() -> None:
    world = World(static_expansion_timeout_ms=10_000)
    expanding(world)[0].join()
    world.crash()
    assert len(world.group().members) == 2
    world.sleep(20_000)
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 1)


# -- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "change", "partitions"),
    [("t", "grown", 8), ("t", "deleted", 0), ("later", "created", 3)],
)
def test_members_join_again_at_once_when_a_subscribed_topic_changes(
    topic: str, change: str, partitions: int
) -> None:
    world = World()
    client = world.member("a", topics=("t", "later"))
    other = world.member("b", topics=("t",))
    world.form(client, other)
    world.change_topic(topic, change, partitions)
    assert client.heartbeat() is REBALANCING
    started = world.seen(RebalanceStarted)[-1]
    assert (started.cause, started.detail) == ("topic_changed", f"{topic} {change}")


def in_the_second_phase() -> tuple[World, Client]:
    """A group of one, whose leader works out what it is to have."""
    world = World()
    leader = world.member("a")
    leader.join()
    world.sleep(3_000)
    return world, leader


def test_a_topic_that_grows_in_the_second_phase_starts_another_rebalance() -> None:
    """As soon as it shows that the leader had not heard of it."""
    world, leader = in_the_second_phase()
    world.change_topic("t", "grown", 8)
    assert leader.sync({leader: assigned("t", 0, 1, 2, 3)}).error is ErrorCode.NONE
    assert leader.heartbeat() is REBALANCING
    started = world.seen(RebalanceStarted)[-1]
    assert (started.cause, started.detail) == ("topic_changed", "t grown")


def test_a_topic_that_goes_in_the_second_phase_starts_another_rebalance() -> None:
    world, leader = in_the_second_phase()
    world.change_topic("t", "deleted")
    assert leader.sync({}).error is REBALANCING


def test_growth_that_the_leader_knew_first_starts_nothing() -> None:
    """It may ask a node that hears of topics before its coordinator does."""
    world, leader = in_the_second_phase()
    world.change_topic("t", "grown", 8)
    assert leader.sync({leader: assigned("t", *range(8))}).error is ErrorCode.NONE
    assert leader.heartbeat() is ErrorCode.NONE
    world, leader = in_the_second_phase()
    assert leader.sync({leader: assigned("t", *range(8))}).error is ErrorCode.NONE
    world.change_topic("t", "grown", 8)
    assert leader.heartbeat() is ErrorCode.NONE
    assert world.causes == ["member_joined"]


def test_growth_that_the_leader_knew_only_in_part_starts_a_rebalance() -> None:
    world, leader = in_the_second_phase()
    assert leader.sync({leader: assigned("t", *range(8))}).error is ErrorCode.NONE
    world.change_topic("t", "grown", 9)
    assert leader.heartbeat() is REBALANCING


def test_growth_that_one_rebalance_has_taken_in_starts_no_second_one() -> None:
    world, leader = in_the_second_phase()
    world.change_topic("t", "grown", 8)
    other = world.member("b")
    other.join()
    leader.join()
    world.share(leader, other)
    assert world.causes == ["member_joined", "member_joined"]


def test_a_topic_that_changes_in_the_first_phase_starts_nothing() -> None:
    world = World()
    world.member("a").join()
    world.change_topic("t", "grown", 8)
    assert world.causes == ["member_joined"]


@pytest.mark.parametrize(
    "attributes", [{"topics": ("u",)}, {"metadata": b"?"}, {"protocol_type": "connect"}]
)
def test_groups_that_do_not_subscribe_to_the_topic_are_left_alone(
    attributes: dict[str, object],
) -> None:
    world = World()
    world.form(world.member("a", **attributes))
    world.change_topic("t", "grown", 8)
    assert world.state() is GroupState.STABLE


def test_empty_group_is_left_alone() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    client.leave()
    world.change_topic("t", "grown", 8)
    assert world.state() is GroupState.EMPTY


def test_with_the_option_off_clients_find_out_by_themselves_but_offsets_go() -> None:
    world = World(rebalance_on_topic_change=False)
    client = world.member("a")
    world.form(client)
    client.commit({("t", 0): 1})
    world.change_topic("t", "deleted")
    assert world.state() is GroupState.STABLE
    assert world.offsets() == {}


def test_a_topic_change_is_told_to_each_subscribed_group() -> None:
    world = World()
    world.form(world.member("a"))
    world.form(world.member("b", group="h", session_ms=60_000))
    world.form(world.member("c", group="i", topics=("u",)))
    world.change_topic("t", "grown", 8)
    assert [world.state(name) for name in "ghi"] == [
        GroupState.PREPARING,
        GroupState.PREPARING,
        GroupState.STABLE,
    ]
