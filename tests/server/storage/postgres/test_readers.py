"""What is read together, and who hears of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie_server.storage.abc import StoreError
from coterie_server.storage.postgres.readers import Readers, Start

pytestmark = pytest.mark.asyncio


@dataclass
class Source:
    """Has as many rows of each shard as its number says, and notes what is read."""

    read_by: list[int] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)
    most: int = 0
    #: Shards that can't be read, with the error.
    failing: dict[int, Exception] = field(default_factory=dict)
    going: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, reader: int, starts: Sequence[Start], limit: int) -> Sequence[list[Any]]:
        self.read_by.append(reader)
        self.asked.append([start.shard for start in starts])
        await self.going.wait()
        for start in starts:
            if start.shard in self.failing:
                raise self.failing[start.shard]
        found = [
            [bytes([place]) for place in range(start.place[0], start.shard)][:limit]
            for start in starts
        ]
        self.most = max(self.most, sum(map(len, found)))
        return found


async def whole(readers: Readers, shard: int, limit: int = 10) -> list[bytes]:
    """Read all that there is of a shard."""
    found: list[bytes] = []
    is_last = False
    while not is_last:
        rows, is_last = await readers.read(Start(shard, bytes([len(found)])), limit)
        found += rows
    return found


async def settled() -> None:
    """Let the tasks do all that they can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_is_asked_for_at_once_is_read_together() -> None:
    source = Source()
    source.going.set()
    readers = Readers(source, 1)
    rows = await asyncio.gather(*(whole(readers, shard) for shard in (1, 2, 1)))
    assert [len(each) for each in rows] == [1, 2, 1]
    assert source.asked == [[1, 2, 1]]


async def test_what_is_asked_for_at_once_is_shared_out_among_those_who_are_free() -> None:
    source = Source()
    readers = Readers(source, 3)
    reading = [asyncio.create_task(whole(readers, 9))]
    await settled()
    reading += [asyncio.create_task(whole(readers, shard)) for shard in (1, 2, 3, 4, 5)]
    await settled()
    assert source.asked == [[9], [1, 2, 3], [4, 5]]
    source.going.set()
    await asyncio.gather(*reading)


async def test_what_is_read_together_is_no_more_than_what_is_read_alone() -> None:
    source = Source()
    source.going.set()
    readers = Readers(source, 2)
    shards = (0, 30, 2, 200, 7)
    rows = await asyncio.gather(*(whole(readers, shard) for shard in shards))
    assert [[row[0] for row in each] for each in rows] == [[*range(shard)] for shard in shards]
    assert source.most <= 10


async def test_each_shard_goes_on_though_more_are_read_than_rows_may_be() -> None:
    source = Source()
    source.going.set()
    readers = Readers(source, 1)
    rows = await asyncio.gather(*(whole(readers, 2, limit=3) for _ in range(50)))
    assert {len(each) for each in rows} == {2}


async def test_what_comes_meanwhile_is_read_by_the_next_that_is_free() -> None:
    source = Source()
    readers = Readers(source, 2)
    reading = []
    for shard in (1, 2, 3, 4):
        reading.append(asyncio.create_task(whole(readers, shard)))
        await settled()
    assert (source.asked, source.read_by) == ([[1], [2]], [0, 1])
    source.going.set()
    await asyncio.gather(*reading)
    assert source.asked == [[1], [2], [3, 4]]
    await whole(readers, 5)
    assert source.read_by[-1] == 0


async def test_failure_is_told_to_all_who_wait_for_that_reading_and_to_no_other() -> None:
    source = Source(failing={2: StoreError("the connection was lost")})
    readers = Readers(source, 1)
    first = [asyncio.create_task(whole(readers, shard)) for shard in (1, 2)]
    await settled()
    later = asyncio.create_task(whole(readers, 3))
    await settled()
    source.going.set()
    told = await asyncio.gather(*first, return_exceptions=True)
    assert [str(each) for each in told] == ["the connection was lost"] * 2
    assert [type(each) for each in told] == [StoreError] * 2
    assert told[0] is not told[1]
    assert len(await later) == 3


async def test_bug_fails_those_who_wait() -> None:
    source = Source(failing={1: ZeroDivisionError("by zero")})
    source.going.set()
    with pytest.raises(StoreError, match="by zero"):
        await whole(Readers(source, 1), 1)


async def test_who_has_gone_keeps_nobody_waiting() -> None:
    source = Source()
    readers = Readers(source, 1)
    reading = [asyncio.create_task(whole(readers, shard)) for shard in (1, 2)]
    await settled()
    reading[0].cancel()
    gone = asyncio.create_task(whole(readers, 3))
    await settled()
    gone.cancel()
    await settled()
    source.going.set()
    assert len(await reading[1]) == 2
    await settled()
    assert source.asked == [[1, 2]]


async def test_closing_ends_what_nobody_waits_for() -> None:
    readers = Readers(Source(), 1)
    reading = asyncio.create_task(whole(readers, 1))
    await settled()
    reading.cancel()
    async with asyncio.timeout(5):
        await readers.close()
