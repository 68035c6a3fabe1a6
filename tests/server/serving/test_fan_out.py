"""Requests that ask many shards: divided by group, and their answers put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest

from coterie_protocol import encode_request
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.net import Exchange
from coterie_server.serving.fan_out import BATCH, HandOut, ask_all, divide, in_turns
from coterie_server.turns import AT_ONCE, OneByOne
from tests.server.net.doubles import FakeListener
from tests.support.requests import Pending
from tests.support.turns import SlowLoop, finished

pytestmark = pytest.mark.asyncio


def shard_of(group_id: str) -> int:
    """Odd numbers to the one shard, even ones to the other."""
    return int(group_id[1:]) % 2


def parts_of(whole: Pending) -> dict[int, Any]:
    """What is handed to each shard of a request that names few groups."""
    parts: dict[int, Any] = {}
    divide(whole, shard_of, parts.__setitem__, SlowLoop().call_soon)
    return parts


def parts_of_list(whole: Pending, *counts: int) -> dict[int, Any]:
    """What is handed to each shard, which have so many groups, of a request about all groups."""
    parts: dict[int, Any] = {}
    ask_all(whole, dict(enumerate(counts)), parts.__setitem__, SlowLoop().call_soon)
    return parts


class Shards:
    """Two shards that answer at once, and count the groups that they are asked for."""

    def __init__(self) -> None:
        self.loop = SlowLoop()
        self.asked: list[int] = []

    def hand_out(self, shard: int, part: Any) -> None:
        """Delete the groups of a part."""
        names = part.message.groups_names
        assert {shard_of(name) for name in names} == {shard}
        self.asked.append(len(names))
        part.reply(deleted(*names))

    def delete(self, whole: Pending) -> None:
        """Hand out a request."""
        divide(whole, shard_of, self.hand_out, self.loop.call_soon)


def deleted(*group_ids: str) -> m.DeleteGroupsResponse:
    """What a shard answers."""
    results = tuple(m.DeletableGroupResult(group_id=g) for g in group_ids)
    return m.DeleteGroupsResponse(results=results)


async def test_each_shard_is_asked_for_its_own_groups_alone() -> None:
    request = m.DescribeGroupsRequest(groups=("g1", "g2", "g3"), include_authorized_operations=True)
    parts = parts_of(Pending(request, 5))
    assert parts[0].message.groups == ("g2",)
    assert parts[1].message.groups == ("g1", "g3")
    assert all(part.message.include_authorized_operations for part in parts.values())


async def test_offset_fetch_is_divided_by_its_groups() -> None:
    asked = [m.OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g1", "g2")]
    request = m.OffsetFetchRequest(groups=tuple(asked), require_stable=True)
    parts = parts_of(Pending(request, 8))
    assert parts[0].message.groups == (asked[1],)
    assert parts[1].message.groups == (asked[0],)


async def test_a_part_is_of_its_requests_client_and_version() -> None:
    whole = Pending(m.ListGroupsRequest(), 4, "me", "/10.0.0.7")
    for part in parts_of_list(whole, 1, 1).values():
        assert (part.version, part.client_id, part.host) == (4, "me", "/10.0.0.7")
        assert not part.abandoned
        whole.abandoned = True
        assert part.abandoned
        whole.abandoned = False


@pytest.mark.parametrize("groups", [(), ("g1",), ("g1", "g3")])
async def test_a_request_for_one_shard_is_handed_on_whole(groups: tuple[str, ...]) -> None:
    whole = Pending(m.DeleteGroupsRequest(groups_names=groups), 2)
    assert list(parts_of(whole).values()) == [whole]


async def test_the_answer_is_in_the_requests_order_whichever_shard_answers_first() -> None:
    whole = Pending(m.DeleteGroupsRequest(groups_names=("g1", "g2", "g3")), 2)
    parts = parts_of(whole)
    parts[0].reply(deleted("g2"))
    assert not whole.answer.done()
    parts[1].reply(deleted("g1", "g3"))
    assert [result.group_id for result in (await whole.answer).results] == ["g1", "g2", "g3"]


@pytest.mark.parametrize("times", [2, BATCH * 4])
async def test_a_group_that_is_named_again_is_answered_again_and_found_once(times: int) -> None:
    """Or a short request would make a long answer thousands of times."""
    asked = [m.OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g1", "g2")]
    whole = Pending(m.OffsetFetchRequest(groups=(*asked, *asked[:1] * times)), 8)
    parts = parts_of(whole)
    assert [parts[n].message.groups for n in (0, 1)] == [(asked[1],), (asked[0],)]
    found = {
        shard: m.OffsetFetchResponseGroup(group_id=part.message.groups[0].group_id, topics=())
        for shard, part in parts.items()
    }
    for shard, part in parts.items():
        part.reply(m.OffsetFetchResponse(groups=(found[shard],)))
    answer = finished(await whole.answer)
    assert answer.groups == (found[1], found[0], *[found[1]] * times)


async def test_lists_of_groups_are_joined() -> None:
    whole = Pending(m.ListGroupsRequest(), 4)
    for shard, part in parts_of_list(whole, 1, 1).items():
        listed = m.ListedGroup(group_id=f"g{shard}", protocol_type="consumer")
        part.reply(m.ListGroupsResponse(groups=(listed,)))
    assert [group.group_id for group in (await whole.answer).groups] == ["g0", "g1"]


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize(
    "trouble", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
async def test_a_shard_that_fails_fails_the_list(failing: int, trouble: ErrorCode) -> None:
    """A list that lacks groups without saying so would be worse than none.

    Kafka's client for administrators asks again only if the groups are being read.
    """
    whole = Pending(m.ListGroupsRequest(), 4)
    for shard, part in parts_of_list(whole, 1, 1).items():
        error = trouble if shard == failing else ErrorCode.NONE
        part.reply(m.ListGroupsResponse(error_code=error, groups=()))
    assert (await whole.answer).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_very_many_groups_are_handed_out_in_batches_with_turns_in_between() -> None:
    names = tuple(f"g{number}" for number in range(BATCH * 4))
    shards, whole = Shards(), Pending(m.DeleteGroupsRequest(groups_names=names), 2)
    shards.delete(whole)
    assert sum(shards.asked) <= BATCH
    while shards.loop.waiting:
        before = sum(shards.asked)
        shards.loop.turn()
        assert sum(shards.asked) - before <= BATCH
    answer = finished(await whole.answer)
    assert [result.group_id for result in answer.results] == list(names)


async def test_the_next_batch_waits_until_the_one_before_is_answered() -> None:
    """Or what thousands of groups have to store and to tell would all come at the same moment."""
    names = tuple(f"g{number}" for number in range(0, BATCH * 4, 2))
    loop, parts = SlowLoop(), list[Any]()
    whole = Pending(m.DeleteGroupsRequest(groups_names=names), 2)
    divide(whole, shard_of, lambda _shard, part: parts.append(part), loop.call_soon)
    loop.run()
    assert len(parts) == 1
    parts[0].reply(deleted(*parts[0].message.groups_names))
    loop.run()
    assert len(parts) == 2


async def test_no_more_is_asked_for_when_the_client_has_gone() -> None:
    names = tuple(f"g{number}" for number in range(0, BATCH * 4, 2))
    loop, asked = SlowLoop(), list[int]()

    def hand_out(_shard: int, part: Any) -> None:
        asked.append(len(part.message.groups))
        part.reply(m.DescribeGroupsResponse(groups=()))

    whole = Pending(m.DescribeGroupsRequest(groups=names), 5)
    divide(whole, shard_of, hand_out, loop.call_soon)
    loop.turn()
    whole.abandoned = True
    loop.run()
    assert asked == [BATCH]


async def test_what_is_begun_to_be_deleted_is_deleted_whoever_has_gone() -> None:
    names = tuple(f"g{number}" for number in range(BATCH * 4))
    shards, whole = Shards(), Pending(m.DeleteGroupsRequest(groups_names=names), 2)
    shards.delete(whole)
    shards.loop.turn()
    whole.abandoned = True
    shards.loop.run()
    assert sum(shards.asked) == len(names)


async def test_what_has_not_begun_to_be_deleted_is_not() -> None:
    names = tuple(f"g{number}" for number in range(BATCH * 4))
    shards, whole = Shards(), Pending(m.DeleteGroupsRequest(groups_names=names), 2)
    shards.delete(whole)
    whole.abandoned = True
    shards.loop.run()
    assert shards.asked == []


async def test_of_very_many_long_requests_one_is_finished_before_the_next_is_begun() -> None:
    """However many wait, a turn is as short, and few answers lie about half done."""
    loop, asked = SlowLoop(), list[tuple[int, int]]()
    one_by_one = OneByOne(loop.call_soon)

    def call_soon(action: Callable[[], None], /, **_: bool) -> None:
        one_by_one.call_soon(action)

    def ask(number: int) -> Pending:
        def hand_out(_shard: int, part: Any) -> None:
            names = part.message.groups_names
            asked.append((number, len(names)))
            part.reply(deleted(*names))

        names = tuple(f"g{index}" for index in range(BATCH + 1))
        whole = Pending(m.DeleteGroupsRequest(groups_names=names), 2)
        divide(whole, lambda _name: 0, hand_out, call_soon)
        return whole

    wholes = [ask(number) for number in range(100)]
    while loop.waiting:
        before = len(asked)
        loop.turn()
        assert len(asked) - before <= 1
    assert asked == [each for number in range(100) for each in ((number, BATCH), (number, 1))]
    assert all(whole.answer.done() for whole in wholes)


async def test_a_group_that_is_named_twice_among_many_is_deleted_once() -> None:
    names = tuple(f"g{number}" for number in range(BATCH + 1))
    shards, whole = Shards(), Pending(m.DeleteGroupsRequest(groups_names=names * 2), 2)
    shards.delete(whole)
    shards.loop.run()
    assert sum(shards.asked) == len(names)


async def test_a_long_list_is_asked_for_one_large_shard_at_a_time() -> None:
    loop, asked = SlowLoop(), list[int]()
    counts = [AT_ONCE, AT_ONCE, 1, 1, AT_ONCE]
    whole = Pending(m.ListGroupsRequest(), 4)
    ask_all(
        whole, dict(enumerate(counts)), lambda shard, _part: asked.append(shard), loop.call_soon
    )
    assert asked == []
    loop.turn()
    assert asked == [0]
    loop.turn()
    assert asked == [0, 1]
    loop.turn()
    assert asked == [0, 1, 2, 3, 4]


class Node:
    """Hands what it is asked to a shard that answers never, unless the test has another."""

    def __init__(self) -> None:
        self.hand_out: HandOut = lambda _shard, _part: None
        self.loop = SlowLoop()
        self.parts = OneByOne(self.loop.call_soon)
        self.taken = 0

    def handle(self, exchange: Exchange) -> None:
        """Hand out a request when its turn comes."""
        self.taken += 1
        turns = in_turns(exchange, self.parts)
        divide(exchange, shard_of, self.hand_out, turns)


DELETE_MANY: Final = encode_request(
    m.DeleteGroupsRequest(groups_names=tuple(f"g{number}" for number in range(BATCH + 1))), 2, 7
)


async def test_clients_that_ask_for_very_many_groups_and_go_leave_nothing_behind() -> None:
    """Or else a flood of them would fill the memory, behind one that still waits."""
    node = Node()
    listener = FakeListener(node)
    listener.connect().send(DELETE_MANY)
    for _ in range(100):
        client = listener.connect()
        client.send(DELETE_MANY)
        client.lose()
    assert (node.taken, len(node.parts)) == (101, 1)


async def test_of_a_client_that_goes_what_is_begun_is_deleted_to_the_end() -> None:
    """Its place in the line is kept from one batch to the next."""
    node, shards = Node(), Shards()
    node.hand_out = shards.hand_out
    client = FakeListener(node).connect()
    client.send(DELETE_MANY)
    node.loop.turn()
    client.lose()
    node.loop.run()
    assert sum(shards.asked) == BATCH + 1
    assert len(node.parts) == 0


async def test_of_a_client_that_goes_what_is_held_for_a_while_is_deleted_to_the_end() -> None:
    """As while the leases are in doubt, when parts wait with the shards."""
    node, shards, held = Node(), Shards(), list[tuple[int, Any]]()
    node.hand_out = lambda shard, part: held.append((shard, part))
    client = FakeListener(node).connect()
    client.send(DELETE_MANY)
    node.loop.turn()
    client.lose()
    while held:
        shard, part = held.pop()
        assert not part.abandoned
        part.resume(partial(shards.hand_out, shard, part))
        node.loop.run()
    assert sum(shards.asked) == BATCH + 1


async def test_of_one_client_a_single_request_for_very_many_groups_is_taken_at_a_time() -> None:
    """Or else it would have all others wait for as many as it can send at once."""
    node = Node()
    client = FakeListener(node).connect()
    client.send(DELETE_MANY, DELETE_MANY, DELETE_MANY)
    assert (node.taken, len(node.parts)) == (1, 1)
    assert not client.transport.reading


class Listing:
    """Lists the groups of two shards, each of so many that it has had enough for a turn."""

    def __init__(self, count: int, answer: m.ListGroupsResponse) -> None:
        self.loop = SlowLoop()
        self.parts = OneByOne(self.loop.call_soon)
        self.count = count
        self.answer = answer
        self.taken = 0

    def handle(self, exchange: Exchange) -> None:
        """Ask both shards, which answer at once."""
        self.taken += 1
        turns = in_turns(exchange, self.parts)
        ask_all(exchange, {0: 0, 1: self.count}, self._hand_out, turns)

    def _hand_out(self, _shard: int, part: Any) -> None:
        part.reply(self.answer)


LIST: Final = encode_request(m.ListGroupsRequest(states_filter=("Stable",)), 4, 7)


async def test_a_client_is_read_from_when_the_last_of_its_shards_fills_a_turn() -> None:
    """Its answer is there, as few of the groups are in the state that it asks for."""
    listing = Listing(AT_ONCE, m.ListGroupsResponse(groups=()))
    client = FakeListener(listing).connect()
    for _ in range(3):
        client.send(LIST)
    assert (len(client.payloads()), client.transport.reading) == (3, True)
    assert len(listing.parts) == 0


async def test_a_long_list_is_not_made_for_who_has_gone() -> None:
    """Whichever shard was the last: or a flood of such clients would fill the memory."""
    groups = tuple(m.ListedGroup(group_id=f"g{n}", protocol_type="") for n in range(AT_ONCE))
    listing = Listing(AT_ONCE + 1, m.ListGroupsResponse(groups=groups))
    listener = FakeListener(listing)
    client = listener.connect()
    client.send(LIST)
    listing.loop.run()
    assert len(listener.registry.turns) == 1
    client.lose()
    assert len(listener.registry.turns) == 0
