"""Fencing tokens: each owner of a partition has a higher one than all owners before it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie_protocol import encode
from coterie_protocol.messages import SyncGroupResponse
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World, assigned


def token_of(client: Client) -> int:
    """The token that a member is told when it asks for its share."""
    token: int = client.sync(wants_token=True).reply.fencing_token
    return token


def pair(world: World) -> tuple[Client, Client]:
    """A stable group of a static leader and a static follower."""
    leader, follower = world.member("a", static="i1"), world.member("b", static="i2")
    world.form(leader, follower)
    return leader, follower


# -- who is told -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 5])
def test_all_tokens_of_a_generation_are_its_first_however_often_asked(version: int) -> None:
    world = World()
    clients = pair(world)
    for client in clients * 2:
        answer = client.sync(version=version, wants_token=True)
        assert answer.reply.fencing_token == 1 << 32


def test_a_parked_sync_is_told_its_token_if_it_asks() -> None:
    world = World()
    leader, asks, does_not = (world.member(name) for name in "abc")
    for client in (leader, asks, does_not):
        client.join()
    world.sleep(6_000)
    parked = asks.sync(wants_token=True), does_not.sync()
    leader.sync({})
    assert [answer.reply.fencing_token for answer in parked] == [1 << 32, -1]


def test_a_stock_clients_answer_has_no_byte_more_for_tokens() -> None:
    world = World()
    leader, follower = pair(world)
    follower.restarted().join()
    answer = leader.sync().reply
    stock = SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=assigned("t", 0, 2)
    )
    assert encode(answer, 5) == encode(stock, 5)


@pytest.mark.parametrize("version", range(4))
def test_old_versions_have_no_room_for_a_token(version: int) -> None:
    world = World()
    leader = world.member("a")
    world.form(leader)
    answer = leader.sync(version=version, wants_token=True)
    assert answer.reply.fencing_token == -1


# -- who has a higher one ----------------------------------------------------------------------


def test_the_next_generation_has_higher_tokens_however_many_were_renewed() -> None:
    world = World()
    leader, follower = pair(world)
    for _ in range(3):
        follower = follower.restarted()
        follower.join()
    before = token_of(follower)
    leader.join()
    follower.join()
    leader.sync({})
    assert token_of(leader) == token_of(follower) == 2 << 32
    assert token_of(follower) > before


@pytest.mark.parametrize("who", [0, 1])
def test_a_static_members_successor_has_a_higher_token(who: int) -> None:
    world = World()
    client = pair(world)[who]
    tokens = [token_of(client)]
    for _ in range(3):
        client = client.restarted()
        client.join()
        tokens.append(token_of(client))
    assert tokens == [(1 << 32) + number for number in range(4)]
    assert world.group().generation == 1


def test_an_answer_still_on_its_way_has_the_older_token() -> None:
    world = World()
    _, old = pair(world)
    on_its_way = old.sync(wants_token=True).reply.fencing_token
    new = old.restarted()
    new.join()
    assert on_its_way < token_of(new)


def test_a_follower_that_joins_again_has_a_higher_token() -> None:
    world = World()
    leader, follower = pair(world)
    before = token_of(follower)
    follower.join()
    assert world.group().generation == 1
    assert token_of(follower) > before
    assert world.state() is GroupState.STABLE
    assert leader.heartbeat() == 0


def test_a_repeated_join_in_the_second_phase_costs_no_write() -> None:
    world = World()
    leader, follower = world.member("a"), world.member("b")
    for client in (leader, follower):
        client.join()
    world.sleep(6_000)
    stored = dict(world.store)
    follower.join()
    assert world.store == stored
    leader.sync({})
    assert token_of(follower) == 1 << 32


# -- what outlives what ------------------------------------------------------------------------


def test_the_count_of_renewals_survives_a_crash() -> None:
    world = World()
    _, client = pair(world)
    tokens = [token_of(client)]
    for _ in range(3):
        client = client.restarted()
        client.join()
        world.crash()
        tokens.append(token_of(client))
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("tombstones", [0, 10])
def test_a_group_made_anew_has_higher_tokens(tombstones: int) -> None:
    world = World(max_tombstones=tombstones)
    _, client = pair(world)
    for _ in range(3):
        client = client.restarted()
        client.join()
    before = token_of(client)
    for member in list(world.group().members.values()):
        world.member("admin", id=member.id, static=member.instance_id).leave()
    world.delete("g")
    world.crash()
    again = world.member("again")
    world.form(again)
    assert token_of(again) > before


_STEPS = st.sampled_from(
    ["leader returns", "follower returns", "joins again", "crash", "rebalance"]
)


@given(st.lists(_STEPS, max_size=8))
@example(["follower returns", "crash", "joins again"])
def test_two_that_begin_with_one_share_never_have_the_same_token(steps: list[str]) -> None:
    world = World()
    clients = dict(zip(("leader", "follower"), pair(world), strict=True))
    newest = {name: token_of(client) for name, client in clients.items()}
    for step in steps:
        begun = _take(step, world, clients)
        for name in begun:
            token = token_of(clients[name])
            assert token > newest[name], step
            newest[name] = token


def _take(step: str, world: World, clients: dict[str, Client]) -> list[str]:
    """Take a step; whose share is begun with after it."""
    match step.split():
        case [name, "returns"]:
            clients[name] = clients[name].restarted()
            clients[name].join()
            return [name]
        case ["joins", "again"]:
            clients["follower"].join()
            return ["follower"]
        case ["crash"]:
            world.crash()
            return []
    world.force_rebalance()
    for client in clients.values():
        client.join_once()
    leader = next(c for c in clients.values() if c.id == world.group().row.leader)
    leader.sync({client: assigned("t", 0) for client in clients.values()})
    return list(clients)
