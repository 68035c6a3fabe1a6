"""`max.groups`: how many groups there may be, and what is kept of those that are gone."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import GroupState
from coterie_server.group.records import FloorRow, GroupRow
from coterie_server.step import LimitHit
from tests.support.group_harness import Client, World

OK = ErrorCode.NONE
REFUSED = ErrorCode.POLICY_VIOLATION
HERE = {("t", 0): 1}


def client_in(world: World, group: str, **attributes: object) -> Client:
    """A client of a group of its own."""
    return world.member(f"client-of-{group}", group=group, **attributes)


# -- one too many ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "static"),
    [*((version, None) for version in range(10)), *((version, "i1") for version in range(5, 10))],
)
def test_a_join_beyond_max_groups_is_refused_for_good_and_makes_nothing(
    version: int, static: str | None
) -> None:
    world = World(max_groups=1)
    world.form(client_in(world, "g"))
    stored = dict(world.store)
    answer = client_in(world, "h", version=version, static=static).join()
    assert (answer.error, answer.reply.member_id) == (REFUSED, "")
    assert world.state("h") is GroupState.DEAD
    assert world.store == stored


@pytest.mark.parametrize("version", range(10))
def test_a_commit_beyond_max_groups_is_refused_where_the_partition_exists(version: int) -> None:
    world = World(max_groups=1)
    world.commit(HERE)
    answer = world.commit({**HERE, ("nowhere", 0): 1}, group_id="h", version=version)
    assert answer.part_errors == [REFUSED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.state("h") is GroupState.DEAD


def test_groups_that_exist_go_on_at_the_limit() -> None:
    world = World(max_groups=1)
    first, second = client_in(world, "g"), world.member("other", version=3)
    world.form(first)
    assert second.join().is_parked
    first.join()
    world.share(first, second)
    assert first.commit(HERE).part_errors == [OK]
    world.crash(max_groups=0)
    assert [first.heartbeat(), second.heartbeat()] == [OK, OK]


def test_what_makes_no_group_is_answered_as_if_there_were_room() -> None:
    world = World(max_groups=0)
    assert client_in(world, "h", id="made-up").join().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert client_in(world, "h", session_ms=1).join().error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.commit({("nowhere", 0): 1}).part_errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    member = world.commit(HERE, generation_id_or_member_epoch=1, member_id="m", version=8)
    assert member.part_errors == [ErrorCode.ILLEGAL_GENERATION]
    assert world.offsets() == {}


def test_deleted_and_expired_groups_make_room() -> None:
    world = World(max_groups=1, offsets_check_interval_ms=60_000)
    world.commit(HERE)
    world.delete("g")
    client_in(world, "h").join_once()
    assert client_in(world, "i").join_once().error is REFUSED
    world.sleep(120_000)
    assert client_in(world, "i").join_once().error is ErrorCode.MEMBER_ID_REQUIRED


def test_groups_of_other_shards_count_towards_the_limit() -> None:
    elsewhere = 2
    world = World(max_groups=3)
    world.table.count_groups = lambda: elsewhere + len(world.table.groups)
    assert world.commit(HERE).part_errors == [OK]
    assert world.commit(HERE, group_id="h").part_errors == [REFUSED]


def test_the_limit_that_was_hit_is_noted() -> None:
    world = World(max_groups=1)
    world.commit(HERE)
    assert world.limit_hits == []
    world.commit(HERE, group_id="h")
    client_in(world, "x" * 2_000).join()
    assert world.limit_hits == [
        LimitHit("max.groups", 1, "group h"),
        LimitHit("max.groups", 1, "group " + "x" * 1_000),
    ]


def test_ids_that_are_not_handed_out_are_noted() -> None:
    world = World(max_pending_members=1)
    world.member("a").join_once()
    assert world.member("b").join_once().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.limit_hits == [LimitHit("max.pending.members.per.group", 1, "an id in group g")]


# -- generations of groups that are gone -------------------------------------------------------


def used(world: World, group: str, generations: int) -> None:
    """Make a group, let it come to so many generations, and delete it."""
    client = client_in(world, group)
    world.form(client)
    while world.group(group).generation < generations - 1:
        client.join()
        client.sync()
    client.leave()
    assert world.group(group).generation == generations
    world.delete(group)


def generation_of(world: World, group: str) -> int:
    """The first generation of a group that is made now."""
    client = client_in(world, group)
    world.form(client)
    return client.generation


def test_the_group_that_went_first_is_the_first_to_be_forgotten_by_name() -> None:
    world = World(max_tombstones=2)
    for group, generations in (("a", 5), ("b", 3), ("c", 9)):
        used(world, group, generations)
        world.sleep(1)
    assert list(world.table.tombstones) == ["b", "c"]
    assert generation_of(world, "c") == 10


def test_forgotten_groups_begin_above_all_forgotten_generations() -> None:
    world = World(max_tombstones=1)
    used(world, "a", 5)
    used(world, "b", 3)
    assert generation_of(world, "a") == 6
    assert generation_of(world, "new") == 6
    assert generation_of(world, "b") == 4


def test_long_names_are_forgotten_at_once() -> None:
    """There may be very many of 32 kilobytes, and each would be kept."""
    world = World(max_tombstones=2)
    long = "a" * 32_000
    used(world, long, 5)
    assert (list(world.table.tombstones), [row for row in world.rows if long in repr(row)]) == (
        [],
        [],
    )
    world.crash()
    assert generation_of(world, long) == 6
    assert generation_of(world, "new") == 6


def test_the_lowest_generation_and_the_order_of_forgetting_survive_a_crash() -> None:
    world = World(max_tombstones=2)
    for group in "zyx":
        used(world, group, 4)
        world.sleep(1)
    floors = [row for row in world.rows if isinstance(row, FloorRow)]
    assert [floor.generation for floor in floors] == [4]
    world.crash()
    used(world, "a", 7)
    assert list(world.table.tombstones) == ["x", "a"]
    assert generation_of(world, "z") == 5


def test_a_group_that_had_no_generation_leaves_nothing() -> None:
    world = World(max_tombstones=1)
    used(world, "a", 5)
    used(world, "b", 3)
    world.commit(HERE, group_id="c")
    world.delete("c")
    assert list(world.table.tombstones) == ["b"]
    assert [row.group_id for row in world.rows if isinstance(row, GroupRow)] == ["b"]
