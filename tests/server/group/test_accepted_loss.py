"""An operator accepts that the store lacks what was acknowledged: no token comes twice."""

from __future__ import annotations

import pytest

from tests.support.group_harness import START_MS, Client, World

#: The end of November 2026.
DATE_MS = 1_795_910_400_000
HOUR_MS = 3_600_000


@pytest.fixture
def world() -> World:
    world = World()
    world.ahead_ms = DATE_MS - START_MS
    return world


def token_of(client: Client) -> int:
    token: int = client.sync(wants_token=True).reply.fencing_token
    return token


def last_token(world: World, group: str = "g", times: int = 3) -> int:
    """The token of a member of a group that has begun so many generations more."""
    client = world.member("a", group=group, static="i")
    for _ in range(times):
        world.form(client)
    return token_of(client)


def test_tokens_go_on_above_those_that_are_lost(world: World) -> None:
    last_token(world)
    copy = dict(world.store)
    lost = last_token(world)
    world.accept_loss(copy)
    assert last_token(world, times=1) > lost


def test_tokens_go_on_above_those_of_a_former_loss_when_the_same_copy_is_restored_again(
    world: World,
) -> None:
    last_token(world)
    copy = dict(world.store)
    world.accept_loss(copy)
    lost = last_token(world)
    world.ahead_ms += HOUR_MS
    world.accept_loss(copy)
    assert last_token(world, times=1) > lost


@pytest.mark.parametrize("group", ["g", "deleted"])
def test_tokens_go_on_above_those_of_a_former_loss_when_the_store_is_gone_again(
    world: World, group: str
) -> None:
    world.accept_loss({})
    lost = last_token(world, group)
    world.ahead_ms += HOUR_MS
    world.accept_loss({})
    assert last_token(world, group, times=1) > lost


def test_the_name_of_a_deleted_group_goes_on_above_a_former_loss(world: World) -> None:
    client = world.member("a", group="gone")
    world.form(client)
    client.leave()
    world.delete("gone")
    copy = dict(world.store)
    world.accept_loss(copy)
    lost = last_token(world, "gone")
    world.ahead_ms += HOUR_MS
    world.accept_loss(copy)
    assert last_token(world, "gone", times=1) > lost


@pytest.mark.parametrize(("years", "share"), [(0, 20), (10, 5), (80, 1.9)])
def test_generations_leave_room_for_further_losses_whatever_the_date(
    world: World, years: int, share: float
) -> None:
    world.ahead_ms += years * 365 * 24 * HOUR_MS
    world.accept_loss({})
    last_token(world)
    assert world.group().generation < 2**31 / share


def test_offsets_stay_though_their_topic_is_lost(world: World) -> None:
    """It need not have been deleted, and can be made anew."""
    world.commit({("t", 0): 7, ("t", 3): 8}, group_id="g")
    size = world.topics.pop("t")
    world.accept_loss(dict(world.store))
    assert committed(world) == {("t", 0): 7, ("t", 3): 8}
    world.topics["t"] = size
    world.crash()
    assert committed(world) == {("t", 0): 7, ("t", 3): 8}


def committed(world: World) -> dict[tuple[str, int], int]:
    """The offsets of the group."""
    rows = world.table.groups["g"].offsets.rows()
    return {(row.topic, row.partition): row.offset for row in rows}
