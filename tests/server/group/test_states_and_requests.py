"""Every request in every state: what is answered, and which state the group is in afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from coterie_protocol.error_codes import ErrorCode as E
from coterie_protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from coterie_server.group import GroupState
from coterie_server.group.coordinator import _RULES
from tests.support.cases import for_each
from tests.support.group_harness import Answer, Client, World

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState
#: Stands for "no answer yet" where an error is expected otherwise.
PARKED = "parked"
Outcome = tuple[E | str, GroupState]


@dataclass
class Scene:
    """A group in some state, and all clients that may send it requests."""

    world: World
    leader: Client
    follower: Client
    static: Client
    #: A process whose instance id another process has taken over.
    fenced: Client
    #: Has been told its id and not come back yet.
    pending: Client
    newcomer: Client


def scene(state: GroupState, protocol_type: str = "consumer") -> Scene:
    """A group of a leader, a follower and a static member that gets into a state."""
    world = World()
    leader = world.member("leader", protocol_type=protocol_type)
    follower = world.member("follower", protocol_type=protocol_type)
    fenced = world.member("static", static="i1", protocol_type=protocol_type)
    static = fenced.restarted(protocol_type=protocol_type)
    pending = world.member("pending", protocol_type=protocol_type)
    newcomer = world.member("newcomer", protocol_type=protocol_type, version=3)
    world.form(leader, follower, fenced)
    assert static.join().error is E.NONE
    leader.join()
    follower.join()
    static.join()
    _get_into(state, world, [leader, follower, static])
    if state is not DEAD:
        assert pending.join_once().error is E.MEMBER_ID_REQUIRED
    return Scene(world, leader, follower, static, fenced, pending, newcomer)


def _get_into(state: GroupState, world: World, members: list[Client]) -> None:
    if state is PREPARING:
        world.share(*members)
        world.member("other", version=3, protocol_type=members[0].protocol_type).join()
    elif state is STABLE:
        world.share(*members)
    elif state in {EMPTY, DEAD}:
        for member in members:
            member.leave()
    if state is DEAD:
        world.delete("g")
    assert world.state() is state


def offset_delete(scene: Scene, topic: str) -> Answer:
    """Delete the offset of a partition."""
    partitions = (OffsetDeleteRequestPartition(partition_index=0),)
    topics = (OffsetDeleteRequestTopic(name=topic, partitions=partitions),)
    return scene.world.request(OffsetDeleteRequest(group_id="g", topics=topics), 0)


def remove(scene: Scene, **identity: str) -> Answer:
    """Make a member leave."""
    members = (MemberIdentity(**{"member_id": ""} | identity),)
    return scene.world.request(LeaveGroupRequest(group_id="g", members=members), 5)


def fetch(scene: Scene) -> Answer:
    """Fetch an offset."""
    topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    return scene.world.request(OffsetFetchRequest(group_id="g", topics=topics), 7)


def describe(scene: Scene, version: int) -> E:
    """Describe the group, and compare the state that is told with the real one."""
    answer = scene.world.request(DescribeGroupsRequest(groups=("g",)), version)
    (group,) = answer.reply.groups
    assert group.group_state == scene.world.state().value
    return E(group.error_code)


def list_groups(scene: Scene) -> E:
    """List the groups; a group is listed unless it does not exist."""
    answer = scene.world.request(ListGroupsRequest(), 5)
    listed = {group.group_id: group.group_state for group in answer.reply.groups}
    state = scene.world.state()
    assert listed == ({} if state is DEAD else {"g": state.value})
    return answer.error


def unchanged(*errors: E | str) -> dict[GroupState, Outcome]:
    """Outcomes that leave the group in its state."""
    return {state: (error, state) for state, error in zip(GroupState, errors, strict=True)}


NEW: dict[GroupState, Outcome] = dict.fromkeys(GroupState, (PARKED, PREPARING))
UNKNOWN = E.UNKNOWN_MEMBER_ID
GOING_ON = E.REBALANCE_IN_PROGRESS
NO_MEMBERS: dict[GroupState, Outcome] = {state: (UNKNOWN, state) for state in (EMPTY, DEAD)}
CHANGED = NEW | NO_MEMBERS
LEAVING = dict.fromkeys(GroupState, (E.NONE, PREPARING)) | NO_MEMBERS

Request = Callable[[Scene], "Answer | E"]
ROWS: dict[str, tuple[Request, dict[GroupState, Outcome]]] = {
    "join, new, dynamic, v4+": (
        lambda s: s.newcomer.join_once(version=4),
        unchanged(*[E.MEMBER_ID_REQUIRED] * 4, "") | {DEAD: (E.MEMBER_ID_REQUIRED, EMPTY)},
    ),
    "join, new, dynamic, v0": (lambda s: s.newcomer.join_once(version=0), NEW),
    "join, new, dynamic, v3": (lambda s: s.newcomer.join_once(version=3), NEW),
    "join, new, static": (
        lambda s: s.newcomer.join_once(version=5, group_instance_id="i2"),
        NEW,
    ),
    "join, static, in a new process": (
        lambda s: s.static.join_once(member_id=""),
        NEW | {STABLE: (E.NONE, STABLE)},
    ),
    "join, with a pending id": (
        lambda s: s.pending.join_once(member_id=s.pending.id or "pending-99"),
        NEW | {DEAD: (UNKNOWN, DEAD)},
    ),
    "join, follower, nothing new": (
        lambda s: s.follower.join_once(),
        unchanged(UNKNOWN, PARKED, E.NONE, E.NONE, UNKNOWN),
    ),
    "join, leader, nothing new": (
        lambda s: s.leader.join_once(),
        unchanged(UNKNOWN, PARKED, E.NONE, "", UNKNOWN) | {STABLE: (PARKED, PREPARING)},
    ),
    "join, follower, other topics": (
        lambda s: s.world.member(
            "x", id=s.follower.id, topics=("u",), protocol_type=s.follower.protocol_type
        ).join_once(),
        CHANGED,
    ),
    "join, unknown id": (
        lambda s: s.newcomer.join_once(member_id="nobody"),
        unchanged(*[UNKNOWN] * 5),
    ),
    "join, fenced": (
        lambda s: s.fenced.join_once(),
        unchanged(UNKNOWN, *[E.FENCED_INSTANCE_ID] * 3, UNKNOWN),
    ),
    "join, no protocols": (
        lambda s: s.newcomer.join_once(protocols=()),
        unchanged(*[E.INCONSISTENT_GROUP_PROTOCOL] * 4, "")
        | {DEAD: (E.INCONSISTENT_GROUP_PROTOCOL, EMPTY)},
    ),
    "sync, follower": (
        lambda s: s.follower.sync(),
        unchanged(UNKNOWN, GOING_ON, PARKED, E.NONE, UNKNOWN),
    ),
    "sync, leader": (
        lambda s: s.leader.sync({}),
        unchanged(UNKNOWN, GOING_ON, "", E.NONE, UNKNOWN) | {COMPLETING: (E.NONE, STABLE)},
    ),
    "sync, fenced": (
        lambda s: s.fenced.sync(),
        unchanged(UNKNOWN, *[E.FENCED_INSTANCE_ID] * 3, UNKNOWN),
    ),
    "sync, other generation": (
        lambda s: s.follower.sync(generation_id=1),
        unchanged(UNKNOWN, *[E.ILLEGAL_GENERATION] * 3, UNKNOWN),
    ),
    "heartbeat": (
        lambda s: s.follower.heartbeat(),
        unchanged(UNKNOWN, GOING_ON, E.NONE, E.NONE, UNKNOWN),
    ),
    "heartbeat, fenced": (
        lambda s: s.fenced.heartbeat(),
        unchanged(UNKNOWN, *[E.FENCED_INSTANCE_ID] * 3, UNKNOWN),
    ),
    "heartbeat, other generation": (
        lambda s: s.follower.heartbeat(generation_id=1),
        unchanged(UNKNOWN, *[E.ILLEGAL_GENERATION] * 3, UNKNOWN),
    ),
    "leave": (lambda s: E(s.follower.leave()), LEAVING),
    "leave, v2": (
        lambda s: s.world.request(LeaveGroupRequest(group_id="g", member_id=s.follower.id), 2),
        LEAVING,
    ),
    "leave, by instance id": (
        lambda s: remove(s, group_instance_id="i1").part_errors[0],
        LEAVING,
    ),
    "leave, pending id": (
        lambda s: remove(s, member_id=s.pending.id or "pending-99").part_errors[0],
        unchanged(*[E.NONE] * 4, UNKNOWN),
    ),
    "leave, fenced": (
        lambda s: s.fenced.leave(),
        unchanged(UNKNOWN, *[E.FENCED_INSTANCE_ID] * 3, UNKNOWN),
    ),
    "commit, member, v9": (
        lambda s: s.follower.commit({("t", 0): 1}).part_errors[0],
        unchanged(UNKNOWN, E.NONE, GOING_ON, E.NONE, E.GROUP_ID_NOT_FOUND),
    ),
    "commit, member, v8": (
        lambda s: s.follower.commit({("t", 0): 1}, version=8).part_errors[0],
        unchanged(UNKNOWN, E.NONE, GOING_ON, E.NONE, E.ILLEGAL_GENERATION),
    ),
    "commit, fenced": (
        lambda s: s.fenced.commit({("t", 0): 1}).part_errors[0],
        unchanged(UNKNOWN, *[E.FENCED_INSTANCE_ID] * 3, E.GROUP_ID_NOT_FOUND),
    ),
    "commit, other generation": (
        lambda s: s.follower.commit({("t", 0): 1}, generation_id_or_member_epoch=1).part_errors[0],
        unchanged(UNKNOWN, *[E.ILLEGAL_GENERATION] * 3, E.GROUP_ID_NOT_FOUND),
    ),
    "commit, no member": (
        lambda s: s.world.commit({("t", 0): 1}).part_errors[0],
        unchanged(E.NONE, *[UNKNOWN] * 3, "") | {DEAD: (E.NONE, EMPTY)},
    ),
    "fetch": (lambda s: fetch(s).part_errors[0], unchanged(*[E.NONE] * 5)),
    "offset delete, subscribed topic": (
        lambda s: offset_delete(s, "t"),
        unchanged(*[E.NONE] * 4, E.GROUP_ID_NOT_FOUND),
    ),
    "offset delete, other topic": (
        lambda s: offset_delete(s, "u"),
        unchanged(*[E.NONE] * 4, E.GROUP_ID_NOT_FOUND),
    ),
    "delete group": (
        lambda s: s.world.request(DeleteGroupsRequest(groups_names=("g",)), 2).part_errors[0],
        unchanged("", *[E.NON_EMPTY_GROUP] * 3, E.GROUP_ID_NOT_FOUND) | {EMPTY: (E.NONE, DEAD)},
    ),
    "describe, v5": (lambda s: describe(s, 5), unchanged(*[E.NONE] * 5)),
    "describe, v6": (
        lambda s: describe(s, 6),
        unchanged(*[E.NONE] * 4, E.GROUP_ID_NOT_FOUND),
    ),
    "list": (list_groups, unchanged(*[E.NONE] * 5)),
}


def outcome_of(answer: Answer | E) -> E | str:
    """An error, or that nothing is answered yet."""
    if isinstance(answer, E):
        return answer
    return PARKED if answer.is_parked else answer.error


@pytest.mark.parametrize("row", ROWS)
@for_each("state", GroupState)
def test_request_in_state(row: str, state: GroupState) -> None:
    request, outcomes = ROWS[row]
    made = scene(state)
    error = outcome_of(request(made))
    assert (error, made.world.state()) == outcomes[state]


def test_table_has_every_state() -> None:
    assert [row for row, (_, outcomes) in ROWS.items() if set(outcomes) != set(GroupState)] == []


def test_table_has_every_request() -> None:
    made = scene(STABLE)
    before = len(made.world.answers)
    for request, _ in ROWS.values():
        request(made)
    asked = {type(answer.asked.message) for answer in made.world.answers.values()}
    assert len(made.world.answers) > before
    assert asked == set(_RULES)


@pytest.mark.parametrize(
    ("state", "of_subscribed"),
    [
        (EMPTY, E.NONE),
        (PREPARING, E.GROUP_SUBSCRIBED_TO_TOPIC),
        (COMPLETING, E.GROUP_SUBSCRIBED_TO_TOPIC),
        (STABLE, E.GROUP_SUBSCRIBED_TO_TOPIC),
    ],
)
def test_offsets_of_subscribed_topics_are_out_of_reach(state: GroupState, of_subscribed: E) -> None:
    made = scene(state)
    assert offset_delete(made, "t").part_errors == [of_subscribed]
    assert offset_delete(made, "u").part_errors == [E.NONE]


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (EMPTY, E.NONE),
        (PREPARING, E.NON_EMPTY_GROUP),
        (COMPLETING, E.NON_EMPTY_GROUP),
        (STABLE, E.NON_EMPTY_GROUP),
        (DEAD, E.GROUP_ID_NOT_FOUND),
    ],
)
def test_in_a_group_of_another_type_no_offset_is_deleted(state: GroupState, error: E) -> None:
    answer = offset_delete(scene(state, "connect"), "t")
    assert answer.error is error
    assert not answer.reply.topics or error is E.NONE


@pytest.mark.parametrize("version", range(10))
def test_an_unknown_member_disturbs_no_group_in_any_version(version: int) -> None:
    made = scene(STABLE)
    answer = made.newcomer.join_once(member_id="nobody", version=version)
    assert answer.error is UNKNOWN
    assert answer.reply.member_id == "nobody"
    assert made.world.state() is STABLE
