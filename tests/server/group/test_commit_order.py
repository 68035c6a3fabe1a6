"""Commits that are numbered: one that a later one has overtaken is refused."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OffsetsCommitted
from coterie_server.group import CommitOrder
from tests.support.group_harness import Client, World

OK, LATE = ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
T0 = ("t", 0)


def member(world: World, name: str = "a", **attributes: object) -> Client:
    """The only member of a stable group."""
    client = world.member(name, **attributes)
    world.form(client)
    return client


def commit(client: Client, offset: int, sequence: int, **fields: int) -> ErrorCode:
    """Commit with a number; what comes of it."""
    return client.commit({T0: offset}, sequence=sequence, **fields).part_errors[0]


def test_commits_with_rising_numbers_pass_though_some_are_missing() -> None:
    client = member(world := World())
    assert [commit(client, offset, 2 * offset) for offset in range(5)] == [OK] * 5
    assert world.offsets() == {T0: 4}


@pytest.mark.parametrize("sequence", [0, 4, 5])
def test_a_commit_sent_before_one_that_was_taken_is_refused_whole(sequence: int) -> None:
    client = member(world := World())
    assert commit(client, 9, 5) is OK
    stored = dict(world.store)
    assert commit(client, 8, sequence) is LATE
    assert world.store == stored
    assert world.offsets() == {T0: 9}
    assert len(world.seen(OffsetsCommitted)) == 1


def test_late_commit_is_no_sign_of_life() -> None:
    """It was sent long ago."""
    client = member(world := World())
    commit(client, 9, 5)
    world.sleep(9_999)
    commit(client, 8, 4)
    world.sleep(1)
    assert client.id not in world.group().members


def test_stock_clients_commits_are_taken_in_the_order_of_arrival() -> None:
    """In versions without room for numbers, too."""
    client = member(world := World())
    commit(client, 9, 5)
    assert client.commit({T0: 3}).part_errors == [OK]
    assert commit(client, 2, 1, version=7) is OK
    assert world.offsets() == {T0: 2}


def test_refused_commit_takes_no_number() -> None:
    """It undoes nothing, so one that was sent before it may come after it."""
    client = member(world := World())
    assert commit(client, 9, 5, generation_id_or_member_epoch=0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(client, 8, 4) is OK
    assert world.offsets() == {T0: 8}


def test_each_member_counts_for_itself() -> None:
    """Their partitions are not the same."""
    world = World()
    one, other = world.member("a"), world.member("b")
    world.form(one, other)
    assert commit(one, 9, 5) is OK
    assert commit(other, 3, 1) is OK


def test_a_static_members_successor_counts_from_the_start() -> None:
    world = World()
    old = member(world, static="i")
    commit(old, 9, 5)
    new = old.restarted()
    new.join()
    assert commit(new, 10, 0) is OK
    assert commit(old, 11, 6) is ErrorCode.FENCED_INSTANCE_ID


def test_order_outlives_the_memory_of_the_shard() -> None:
    """A shard that is read again in the same process has the same connections."""
    client = member(world := World())
    commit(client, 9, 5)
    world.read_again()
    assert commit(client, 8, 4) is LATE
    assert world.offsets() == {T0: 9}


def test_order_ends_with_the_process() -> None:
    """All connections end with it, so no delayed commit can arrive."""
    client = member(world := World())
    commit(client, 9, 5)
    world.crash()
    assert commit(client, 10, 0) is OK


def test_former_members_are_forgotten_after_a_while() -> None:
    """Not in the step in which they go, as that may never be stored."""
    client = member(world := World(offsets_check_interval_ms=60_000))
    order = world.commit_order
    commit(client, 9, 5)
    client.leave()
    world.sleep(60_000)
    assert len(order) == 1
    world.sleep(60_000)
    assert len(order) == 0


def test_member_whose_removal_was_not_stored_is_not_forgotten() -> None:
    order = CommitOrder()
    order.note("g", "a", 5)
    order.forget_gone(lambda *_: False)
    order.forget_gone(lambda *_: True)
    order.forget_gone(lambda *_: False)
    assert not order.admits("g", "a", 5)
    order.forget_gone(lambda *_: False)
    assert order.admits("g", "a", 5)
