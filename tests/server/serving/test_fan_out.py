"""Requests that ask many shards: divided by group, and their answers put together."""

from __future__ import annotations

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.serving.fan_out import ask_all, divide
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio


def shard_of(group_id: str) -> int:
    """Odd numbers to the one shard, even ones to the other."""
    return int(group_id[1:]) % 2


def deleted(*group_ids: str) -> m.DeleteGroupsResponse:
    """What a shard answers."""
    results = tuple(m.DeletableGroupResult(group_id=g) for g in group_ids)
    return m.DeleteGroupsResponse(results=results)


async def test_each_shard_is_asked_for_its_own_groups_alone() -> None:
    request = m.DescribeGroupsRequest(groups=("g1", "g2", "g3"), include_authorized_operations=True)
    parts = divide(Pending(request, 5), shard_of)
    assert parts[0].message.groups == ("g2",)
    assert parts[1].message.groups == ("g1", "g3")
    assert all(part.message.include_authorized_operations for part in parts.values())


async def test_offset_fetch_is_divided_by_its_groups() -> None:
    asked = [m.OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g1", "g2")]
    request = m.OffsetFetchRequest(groups=tuple(asked), require_stable=True)
    parts = divide(Pending(request, 8), shard_of)
    assert parts[0].message.groups == (asked[1],)
    assert parts[1].message.groups == (asked[0],)


async def test_a_part_is_of_its_requests_client_and_version() -> None:
    whole = Pending(m.ListGroupsRequest(), 4, "me", "/10.0.0.7")
    for part in ask_all(whole, (0, 1)).values():
        assert (part.version, part.client_id, part.host) == (4, "me", "/10.0.0.7")
        assert not part.abandoned
        whole.abandoned = True
        assert part.abandoned
        whole.abandoned = False


@pytest.mark.parametrize("groups", [(), ("g1",), ("g1", "g3")])
async def test_a_request_for_one_shard_is_handed_on_whole(groups: tuple[str, ...]) -> None:
    whole = Pending(m.DeleteGroupsRequest(groups_names=groups), 2)
    assert list(divide(whole, shard_of).values()) == [whole]
    assert ask_all(whole, (0,)) == {0: whole}


async def test_the_answer_is_in_the_requests_order_whichever_shard_answers_first() -> None:
    whole = Pending(m.DeleteGroupsRequest(groups_names=("g1", "g2", "g3")), 2)
    parts = divide(whole, shard_of)
    parts[0].reply(deleted("g2"))
    assert not whole.answer.done()
    parts[1].reply(deleted("g1", "g3"))
    assert [result.group_id for result in (await whole.answer).results] == ["g1", "g2", "g3"]


async def test_lists_of_groups_are_joined() -> None:
    whole = Pending(m.ListGroupsRequest(), 4)
    for shard, part in ask_all(whole, (0, 1)).items():
        listed = m.ListedGroup(group_id=f"g{shard}", protocol_type="consumer")
        part.reply(m.ListGroupsResponse(groups=(listed,)))
    assert [group.group_id for group in (await whole.answer).groups] == ["g0", "g1"]


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_shard_that_fails_fails_the_list(failing: int) -> None:
    """A list that lacks groups without saying so would be worse than none."""
    whole = Pending(m.ListGroupsRequest(), 4)
    for shard, part in ask_all(whole, (0, 1)).items():
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard == failing else ErrorCode.NONE
        part.reply(m.ListGroupsResponse(error_code=error, groups=()))
    assert (await whole.answer).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
