"""A database that fails over to a replica without its last rows: no token comes twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol.error_codes import ErrorCode
from coterie_server.group import GroupState
from tests.support.group_harness import Client, World


def token_of(client: Client) -> int:
    token: int = client.sync(wants_token=True).reply.fencing_token
    return token


def formed(world: World, times: int, *, static: bool = True) -> Client:
    """A member of a group that has begun so many generations."""
    client = world.member("a", static="i" if static else None)
    for _ in range(times):
        world.form(client)
    return client


def test_a_group_goes_on_in_its_generation_after_a_fail_over() -> None:
    """With a synchronous replica nothing is missing, so members notice nothing."""
    world = World(timeline=1)
    client = formed(world, 2)
    world.fail_over(world.store)
    assert client.heartbeat() is ErrorCode.NONE
    assert (world.state(), world.group().generation) == (GroupState.STABLE, 2)


@given(lost=st.integers(0, 5), restarts=st.integers(0, 3))
def test_generations_that_are_lost_do_not_come_again(lost: int, restarts: int) -> None:
    world = World(timeline=1)
    client = formed(world, 2)
    replica = dict(world.store)
    for _ in range(lost):
        world.form(client)
    last = token_of(client)
    world.fail_over(replica)
    for _ in range(restarts):  # the next node does not know that another one has noticed
        world.crash()
    again = world.member("a", static="i")
    world.form(again)
    assert token_of(again) > last


@given(lost=st.integers(0, 5), renewed=st.integers(1, 3))
def test_renewals_that_are_lost_do_not_come_again(lost: int, renewed: int) -> None:
    world = World(timeline=1)
    client = formed(world, 2)
    replica = dict(world.store)
    for _ in range(lost):
        client = client.restarted()
        client.join()
    last = token_of(client)
    world.fail_over(replica)
    for _ in range(renewed):
        client = world.member("a", static="i")
        client.join()
        assert token_of(client) > last
        last = token_of(client)
    world.form(client)
    assert token_of(client) > last


def test_a_group_that_is_lost_with_its_name_does_not_begin_anew() -> None:
    world = World(timeline=1)
    replica = dict(world.store)
    last = token_of(formed(world, 3))
    world.fail_over(replica)
    assert token_of(formed(world, 1)) > last


def test_a_group_that_was_deleted_before_a_fail_over_does_not_begin_anew() -> None:
    world = World(timeline=1, max_tombstones=1)
    client = formed(world, 1, static=False)
    client.leave()
    world.delete("g")
    replica = dict(world.store)
    last = token_of(formed(world, 3, static=False))
    world.fail_over(replica)
    other = world.member("b", group="h")
    world.form(other)
    other.leave()
    world.delete("h")  # so that "g" is remembered by the floor alone
    assert token_of(formed(world, 1)) > last


def test_tokens_do_not_come_again_when_one_copy_is_gone_back_to_twice() -> None:
    world = World(timeline=1)
    formed(world, 2)
    copy = dict(world.store)
    last: tuple[int, int] = 0, 0
    for _ in range(3):
        world.fail_over(copy)
        new = world.member("b", group="new")
        world.form(new)
        told = token_of(formed(world, 2)), token_of(new)
        assert told[0] > last[0]
        assert told[1] > last[1]
        last = told


def test_generations_leave_room_when_the_tables_are_brought_to_an_old_server() -> None:
    world = World(timeline=1)
    client = formed(world, 1)
    world.timeline = 100_000  # of a server of which many replicas have taken over
    world.fail_over(world.store)
    world.form(client)
    assert 1_000_000 < world.group().generation < 2**31 / 20


def test_numbers_are_skipped_once_for_each_fail_over() -> None:
    world = World(timeline=1)
    client = formed(world, 1)
    world.fail_over(world.store)
    numbers = []
    for _ in range(3):
        world.form(client)
        numbers.append(world.group().generation)
    assert numbers[0] > 1_000_000
    assert numbers == list(range(numbers[0], numbers[0] + 3))


def test_nothing_is_skipped_without_timelines() -> None:
    world = World()
    client = formed(world, 1)
    world.crash()
    world.form(client)
    assert world.group().generation == 2
