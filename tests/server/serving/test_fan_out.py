"""Requests for groups of several shards are split, and their answers put together."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving.fan_out import Gathering, split


class Whole:
    """Awaits the whole answer."""

    abandoned = False

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def reply(self, message: Any) -> None:
        """Take it."""
        self.answers.append(message)


def shard_of(group_id: str) -> int:
    """Odd and even names live apart."""
    return int(group_id[1:]) % 2


def deleted(*group_ids: str) -> m.DeleteGroupsResponse:
    """An answer for some groups."""
    results = (m.DeletableGroupResult(group_id=g, error_code=0) for g in group_ids)
    return m.DeleteGroupsResponse(results=tuple(results))


def test_each_shard_gets_its_groups() -> None:
    """Each part has the request's other fields and only that shard's groups."""
    request = m.DescribeGroupsRequest(groups=("g1", "g2", "g3"), include_authorized_operations=True)
    parts = split(request, shard_of)
    assert parts[0].groups == ("g2",)
    assert parts[1].groups == ("g1", "g3")
    assert all(part.include_authorized_operations for part in parts.values())


def test_offset_fetch_is_split_by_its_groups() -> None:
    """Since version 8 one request asks for the offsets of many groups."""
    asked = [m.OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g1", "g2")]
    parts = split(m.OffsetFetchRequest(groups=tuple(asked), require_stable=True), shard_of)
    assert parts[0].groups == (asked[1],)
    assert parts[1].groups == (asked[0],)


def test_the_answer_comes_when_all_parts_are_there() -> None:
    """In the order in which the request asks, whoever answered first."""
    whole = Whole()
    request = m.DeleteGroupsRequest(groups_names=("g1", "g2", "g3"))
    gathering = Gathering(request, whole, 2)
    gathering.part().reply(deleted("g2"))
    assert whole.answers == []
    gathering.part().reply(deleted("g1", "g3"))
    (answer,) = whole.answers
    assert [result.group_id for result in answer.results] == ["g1", "g2", "g3"]


def test_lists_of_groups_are_joined() -> None:
    """Every shard lists its own."""
    whole = Whole()
    gathering = Gathering(m.ListGroupsRequest(), whole, 2)
    for group_id in ("g1", "g2"):
        listed = m.ListedGroup(group_id=group_id, protocol_type="consumer")
        gathering.part().reply(m.ListGroupsResponse(groups=(listed,)))
    assert [group.group_id for group in whole.answers[0].groups] == ["g1", "g2"]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_shard_that_fails_fails_the_list(failing: int) -> None:
    """A list that lacks groups without saying so would be worse than none."""
    whole = Whole()
    gathering = Gathering(m.ListGroupsRequest(), whole, 2)
    for shard in range(2):
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard == failing else ErrorCode.NONE
        gathering.part().reply(m.ListGroupsResponse(error_code=error, groups=()))
    assert whole.answers[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
