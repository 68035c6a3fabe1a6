"""The iterator of changes, with nothing behind it."""

from __future__ import annotations

import asyncio

import pytest

from coterie_client import Assigned, Changes, GroupMisuseError, Lost, Partition, Revoked
from coterie_client.home import Home
from tests.client.group.doubles import FakeKeeper
from tests.support.virtual_time import settle

pytestmark = pytest.mark.asyncio


class Source:
    """Changes, and what was released."""

    def __init__(self, reason: Exception | None = None) -> None:
        self.released: list[str] = []
        self.reason = reason
        self.changes = Changes(
            lambda partitions: self.released.extend(map(str, partitions)),
            self._raise_reason,
            Home("A group"),
        )

    def _raise_reason(self) -> None:
        if self.reason is not None:
            raise self.reason


def partitions(*numbers: int) -> tuple[Partition, ...]:
    """Make partitions."""
    return tuple(Partition(FakeKeeper(), ("orders", number), number, 1) for number in numbers)


async def test_changes_come_in_their_order() -> None:
    source, (first, second) = Source(), partitions(1, 2)
    source.changes.assigned([first, second])
    assert await anext(source.changes) == Assigned((first, second))
    source.changes.revoked([first])
    source.changes.lost([second], "fenced")
    assert await anext(source.changes) == Revoked((first,))
    assert await anext(source.changes) == Lost((second,), "fenced")


async def test_waiting_reader_is_woken() -> None:
    source, (first,) = Source(), partitions(1)
    waiting = asyncio.create_task(anext(source.changes))
    await settle()
    assert not waiting.done()
    source.changes.assigned([first])
    assert await waiting == Assigned((first,))


async def test_revoked_partitions_are_released_with_the_next_question() -> None:
    source, (first, second) = Source(), partitions(1, 2)
    source.changes.assigned([first, second])
    await anext(source.changes)
    source.changes.revoked([first, second])
    await anext(source.changes)
    await settle()
    assert source.released == []
    asking = asyncio.create_task(anext(source.changes))
    await settle()
    assert source.released == ["orders[1]", "orders[2]"]
    asking.cancel()


async def test_what_came_and_was_revoked_unread_is_left_out() -> None:
    source, (first, second) = Source(), partitions(1, 2)
    source.changes.assigned([first, second])
    source.changes.revoked([first])
    assert source.released == ["orders[1]"]
    source.changes.assigned(partitions(3))
    assert await anext(source.changes) == Assigned((second,))


async def test_what_came_and_was_lost_unread_is_left_out() -> None:
    source, (first, second) = Source(), partitions(1, 2)
    source.changes.assigned([first])
    source.changes.lost([first], "fenced")
    source.changes.assigned([second])
    assert await anext(source.changes) == Assigned((second,))


async def test_loss_takes_the_place_of_a_revocation() -> None:
    source, (first,) = Source(), partitions(1)
    source.changes.assigned([first])
    await anext(source.changes)
    source.changes.revoked([first])
    source.changes.lost([first], "fenced")
    assert await anext(source.changes) == Lost((first,), "fenced")
    assert source.released == []


async def test_what_is_lost_while_it_is_finished_is_not_released() -> None:
    source, (first, second) = Source(), partitions(1, 2)
    source.changes.assigned([first, second])
    await anext(source.changes)
    source.changes.revoked([first, second])
    await anext(source.changes)
    source.changes.abandoned([first])
    assert await anext(source.changes) == Lost((first,), "not let go of in time")
    assert source.released == ["orders[2]"]


async def test_changes_end_with_the_group() -> None:
    source, (first,) = Source(), partitions(1)
    source.changes.assigned([first])
    source.changes.ended()
    assert [change async for change in source.changes] == [Assigned((first,))]


async def test_waiting_reader_hears_of_the_end() -> None:
    source = Source()
    waiting = asyncio.create_task(anext(source.changes, None))
    await settle()
    source.changes.ended()
    assert await waiting is None


async def test_failure_of_the_group_is_raised() -> None:
    source = Source(ValueError("fenced"))
    source.changes.ended()
    with pytest.raises(ValueError, match="fenced"):
        await anext(source.changes)


async def test_cancelled_reader_misses_nothing() -> None:
    source, (first,) = Source(), partitions(1)
    waiting = asyncio.create_task(anext(source.changes))
    await settle()
    source.changes.assigned([first])
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await anext(source.changes) == Assigned((first,))


async def test_second_reader_is_refused() -> None:
    """Two loops over the same changes would each see half of them."""
    source = Source()
    waiting = asyncio.create_task(anext(source.changes))
    await settle()
    with pytest.raises(GroupMisuseError, match="read them in one task"):
        await anext(source.changes)
    waiting.cancel()
