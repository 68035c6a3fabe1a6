"""What a leader is told of operations, and what it does about them."""

from __future__ import annotations

import pytest

from coterie_assignors import Operations
from coterie_client.membership.operations import read_operations
from coterie_protocol.consumer import Assignment, encode_assignment, encode_subscription
from coterie_protocol.consumer import group_by_topic as grouped
from coterie_protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie_protocol.operations import DRAIN, FREEZE, KEEP_FROM, PIN, Operation, topics_of
from tests.client.membership.test_leading import T, given, wants
from tests.support.scripted_membership import Script

HAD = encode_assignment(Assignment(assigned_partitions=grouped(T[:2])), 1)


def told(*operations: Operation, had: bytes | None = HAD) -> JoinGroupResponse:
    """An answer to the leader of a dynamic and a static member."""
    metadata = encode_subscription(wants("t"))
    return JoinGroupResponse(
        generation_id=1,
        protocol_name="cooperative-sticky",
        leader="m-1",
        member_id="m-1",
        members=(
            JoinGroupResponseMember(member_id="m-1", metadata=metadata, assigned_last=had),
            JoinGroupResponseMember(
                member_id="m-2", metadata=metadata, group_instance_id="i", assigned_last=b""
            ),
        ),
        operations=operations,
    )


def test_members_are_named_by_their_ids() -> None:
    some = topics_of(T[:1])
    answer = told(
        Operation(kind=DRAIN, instance_id="i", at_a_time=3),
        Operation(kind=PIN, member_id="m-1", topics=some),
        Operation(kind=KEEP_FROM, instance_id="i", topics=some),
        Operation(kind=FREEZE, newcomers=("i", "gone")),
    )
    assert read_operations(answer) == Operations(
        drained={"m-2": 3},
        pinned={T[0]: "m-1"},
        kept_from={T[0]: frozenset({"m-2"})},
        is_frozen=True,
        newcomers=frozenset({"m-2"}),
        had={"m-1": frozenset(T[:2]), "m-2": frozenset()},
    )


def test_where_nothing_is_ordered_there_is_nothing_to_read() -> None:
    assert read_operations(told()) is None


def test_what_is_ordered_of_members_that_are_gone_counts_for_nothing() -> None:
    answer = told(Operation(kind=DRAIN, member_id="gone"), Operation(kind="later", member_id="m-1"))
    nothing = Operations(had={"m-1": frozenset(T[:2]), "m-2": frozenset()})
    assert read_operations(answer) == nothing


@pytest.mark.parametrize("had", [None, b"", b"?"])
def test_what_can_not_be_read_was_nothing(had: bytes | None) -> None:
    found = read_operations(told(Operation(kind=FREEZE), had=had))
    assert found is not None
    assert found.had["m-1"] == frozenset()


def test_a_member_asks_for_operations_and_follows_them() -> None:
    script = Script("t").start()
    script.find()
    assert script.asks(JoinGroupRequest).wants_operations
    script.answer(JoinGroupRequest, told(Operation(kind=DRAIN, instance_id="i")))
    script.tell_topics()
    assert given(script) == {"m-1": set(T), "m-2": set()}
