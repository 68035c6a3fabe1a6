"""Describing, listing and deleting groups."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import GroupDeleted
from coterie_protocol.messages import DescribeGroupsRequest, ListGroupsRequest
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World, assigned

NOBODY_ASKED = -(2**31)


def pair(world: World) -> tuple[Client, Client]:
    """A stable group of a dynamic leader and a static follower."""
    leader, follower = world.member("a"), world.member("b", static="i1", host="/10.0.0.2")
    world.form(leader, follower)
    return leader, follower


# -- describing --------------------------------------------------------------------------------


def test_a_stable_groups_protocol_and_members_are_told() -> None:
    world = World()
    leader, follower = pair(world)
    group = world.describe()
    assert (group.group_state, group.protocol_type) == ("Stable", "consumer")
    assert group.protocol_data == "range"
    first, second = group.members
    assert (first.member_id, first.group_instance_id) == (leader.id, None)
    assert (second.member_id, second.group_instance_id) == (follower.id, "i1")
    assert (second.client_id, second.client_host) == ("b", "/10.0.0.2")
    assert second.member_metadata == follower.subscription()
    assert second.member_assignment == assigned("t", 1, 3)


def test_assignments_are_told_while_a_stable_group_rebalances_the_protocol_is_not() -> None:
    world = World()
    leader, follower = pair(world)
    for step, state in ((leader, "PreparingRebalance"), (follower, "CompletingRebalance")):
        step.join()
        group = world.describe()
        assert (group.group_state, group.protocol_data) == (state, "")
        assert [m.member_metadata for m in group.members] == [b"", b""]
        assert [m.member_assignment for m in group.members] == [
            assigned("t", 0, 2),
            assigned("t", 1, 3),
        ]


def test_a_second_phase_that_is_broken_off_leaves_no_assignments() -> None:
    world = World()
    leader, follower = pair(world)
    leader.join()
    follower.join()
    world.member("c", version=3).join()
    group = world.describe()
    assert [m.member_assignment for m in group.members] == [b"", b"", b""]


@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_dead_and_since_version_6_an_error(version: int) -> None:
    group = World().describe("nowhere", version)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Dead", "", "")
    assert group.members == ()
    if version >= 6:
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert group.error_message == "Group nowhere not found."
    else:
        assert (group.error_code, group.error_message) == (0, None)


def test_a_missing_groups_long_name_is_cut_to_fit_the_answer() -> None:
    group = World().describe("n" * 32_767, 6)
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(group.group_id) == 32_767


def test_a_group_of_offsets_alone_is_empty_and_has_no_type() -> None:
    world = World()
    world.commit({("t", 0): 1})
    group = world.describe()
    assert (group.group_state, group.protocol_type) == ("Empty", "")


def test_all_operations_are_allowed_to_every_client() -> None:
    world = World()
    pair(world)
    for asked, told in ((True, 3400), (False, NOBODY_ASKED)):
        message = DescribeGroupsRequest(groups=("g",), include_authorized_operations=asked)
        (group,) = world.request(message, 5).reply.groups
        assert group.authorized_operations == told


@pytest.mark.parametrize(("version", "told"), [(3, 3400), (5, 3400), (6, NOBODY_ASKED)])
def test_allowed_operations_of_a_missing_group_are_told_until_that_is_an_error(
    version: int, told: int
) -> None:
    message = DescribeGroupsRequest(groups=("nowhere",), include_authorized_operations=True)
    (group,) = World().request(message, version).reply.groups
    assert group.authorized_operations == told


def test_each_group_is_answered_one_that_is_asked_for_twice_twice() -> None:
    world = World()
    pair(world)
    message = DescribeGroupsRequest(groups=("g", "nowhere", "g"))
    told = world.request(message, 5).reply.groups
    assert [(g.group_id, g.group_state) for g in told] == [
        ("g", "Stable"),
        ("nowhere", "Dead"),
        ("g", "Stable"),
    ]


# -- listing -----------------------------------------------------------------------------------


@pytest.fixture
def several() -> World:
    """Groups `stable`, `preparing`, `empty` and `offsets`."""
    world = World()
    gone = world.member("a", group="empty")
    world.form(gone)
    gone.leave()
    world.commit({("t", 0): 1}, group_id="offsets")
    world.form(world.member("b", group="stable"))
    world.member("c", group="preparing", protocol_type="connect").join()
    return world


def listed(world: World, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> set[str]:
    """The ids of the groups that are listed."""
    message = ListGroupsRequest(states_filter=states, types_filter=types)
    return {group.group_id for group in world.request(message, 5).reply.groups}


def test_every_group_is_listed_with_its_type_and_state(several: World) -> None:
    reply = several.request(ListGroupsRequest(), 5).reply
    told = {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in reply.groups}
    assert told == {
        "stable": ("consumer", "Stable", "classic"),
        "preparing": ("connect", "PreparingRebalance", "classic"),
        "empty": ("consumer", "Empty", "classic"),
        "offsets": ("", "Empty", "classic"),
    }


@pytest.mark.parametrize(
    ("states", "types", "ids"),
    [
        (("Stable",), (), {"stable"}),
        (("sTaBLE ", " empty"), (), {"stable", "empty", "offsets"}),
        (("PreparingRebalance",), (), {"preparing"}),
        (("no such state",), (), set()),
        ((), ("Classic",), {"stable", "preparing", "empty", "offsets"}),
        ((), ("consumer",), set()),
        (("Empty",), ("classic",), {"empty", "offsets"}),
        (("Empty",), ("consumer",), set()),
    ],
)
def test_groups_are_filtered_by_state_and_type_whatever_the_case(
    several: World, states: tuple[str, ...], types: tuple[str, ...], ids: set[str]
) -> None:
    assert listed(several, states, types) == ids


def test_a_group_is_listed_by_its_present_state() -> None:
    world = World()
    leader, _ = pair(world)
    assert listed(world, ("Stable",)) == {"g"}
    leader.join()
    assert listed(world, ("Stable",)) == set()
    assert listed(world, ("PreparingRebalance",)) == {"g"}


# -- deleting ----------------------------------------------------------------------------------


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    world = World()
    world.commit({("t", 0): 1, ("u", 1): 2})
    assert world.delete("g") == [ErrorCode.NONE]
    assert world.state() is GroupState.DEAD
    assert world.offsets() == {}
    assert len(world.store) == 1  # when the shard last forgot offsets


def test_the_journal_tells_of_a_deletion_and_the_last_generation() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    client.leave()
    world.delete("g")
    (deleted,) = world.seen(GroupDeleted)
    assert (deleted.group, deleted.generation, deleted.how) == ("g", 2, "requested")


def test_each_deletion_has_its_own_error_and_one_named_twice_is_answered_once() -> None:
    world = World()
    pair(world)
    world.commit({("t", 0): 1}, group_id="h")
    assert world.delete("h", "nowhere", "g", "h") == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NON_EMPTY_GROUP,
    ]


def test_a_group_without_a_name_can_be_used_shown_and_deleted() -> None:
    world = World()
    assert world.commit({("t", 0): 7}, group_id="").part_errors == [ErrorCode.NONE]
    assert world.offsets("") == {("t", 0): 7}
    assert world.describe("").group_state == "Empty"
    assert world.delete("") == [ErrorCode.NONE]
    assert world.describe("").group_state == "Dead"


def test_the_next_group_of_the_name_carries_on_counting() -> None:
    world = World()
    client = world.member("a")
    world.form(client)
    client.leave()
    world.delete("g")
    world.crash()
    again = world.member("b")
    world.form(again)
    assert again.generation == 3
