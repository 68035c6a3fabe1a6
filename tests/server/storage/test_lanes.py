"""What the lanes send together, in which order, and who hears of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from coterie_server.storage.abc import Fence, FencedError, Lease, Record, StoreError
from coterie_server.storage.lanes import Changes, Lanes, RejectedError

pytestmark = pytest.mark.asyncio


def lease(shard: int, epoch: int = 1) -> Lease:
    return Lease(shard, Fence(0, epoch), "ann", 1000)


@dataclass
class Sender:
    """Notes what is sent, and answers as it is told."""

    sent: list[dict[int, set[bytes]]] = field(default_factory=list)
    #: Keys that make a statement fail, with the error.
    failing: dict[bytes, Exception] = field(default_factory=dict)
    fenced: set[int] = field(default_factory=set)
    going: asyncio.Event = field(default_factory=asyncio.Event)
    kept: dict[bytes, bytes | None] = field(default_factory=dict)

    def size(self, key: bytes, value: bytes | None) -> int:
        """As the hexadecimal digits of statements have it."""
        return 2 * (len(key) + len(value or b""))

    async def write(self, lane: int, fences: Mapping[int, Fence], changes: Changes) -> bool:
        del lane
        self.sent.append({shard: set(values) for shard, values in changes.items()})
        await self.going.wait()
        if len(fences) > 1 and self.fenced & fences.keys():
            return False
        for values in changes.values():
            for key in values:
                if key in self.failing:
                    raise self.failing[key]
        if self.fenced & fences.keys():
            return False
        for values in changes.values():
            self.kept.update(values)
        return True

    async def holder(self, shard: int) -> str:
        return f"shard {shard} is bob's"


async def settled() -> None:
    """Let the tasks do all that they can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_waits_meanwhile_goes_together() -> None:
    sender = Sender()
    lanes = Lanes(sender, 1)
    futures = [lanes.append(lease(0), [(b"first", b"1")])]
    await settled()
    futures += [lanes.append(lease(shard), [(b"%d" % shard, b"1")]) for shard in (0, 1, 2)]
    sender.going.set()
    await asyncio.gather(*futures)
    assert sender.sent == [{0: {b"first"}}, {0: {b"0"}, 1: {b"1"}, 2: {b"2"}}]


async def test_what_comes_meanwhile_joins_what_waits() -> None:
    sender = Sender()
    lanes = Lanes(sender, 1)
    futures = [lanes.append(lease(0), [(b"first", b"1")])]
    await settled()
    records: list[Record] = [(b"second", b"1")]
    futures.append(lanes.append(lease(1), records))
    await settled()
    records.append((b"third", b"1"))
    sender.going.set()
    await asyncio.gather(*futures)
    assert sender.sent == [{0: {b"first"}}, {1: {b"second", b"third"}}]


async def test_append_that_did_not_fit_is_sent_as_it_was_measured() -> None:
    """Else what came meanwhile could make its statement too long as well."""
    sender = Sender()
    lanes = Lanes(sender, 1)
    large = b"x" * 600_000
    futures = [lanes.append(lease(0), [(b"0", large)])]
    records: list[Record] = [(b"1", large)]
    futures.append(lanes.append(lease(1), records))
    await settled()
    records.append((b"late", large))
    sender.going.set()
    await asyncio.gather(*futures)
    assert sender.sent == [{0: {b"0"}}, {1: {b"1"}}]


class Broken:
    """Records that can't be had, as where there is no memory for them."""

    def __iter__(self) -> Iterator[Record]:
        raise MemoryError


async def test_append_whose_records_can_not_be_had_harms_no_other_shard() -> None:
    """Once all that waited in its lane was forgotten, and who waited hung."""
    sender = Sender()
    lanes = Lanes(sender, 1)
    futures = [lanes.append(lease(0), [(b"first", b"1")])]
    await settled()
    futures += [
        lanes.append(lease(1), [(b"one", b"1")]),
        lanes.append(lease(2), Broken()),
        lanes.append(lease(2), [(b"behind", b"1")]),
        lanes.append(lease(3), [(b"three", b"1")]),
    ]
    sender.going.set()
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(each) for each in outcomes] == [
        type(None),
        type(None),
        StoreError,
        StoreError,
        type(None),
    ]
    assert set(sender.kept) == {b"first", b"one", b"three"}
    with pytest.raises(StoreError, match="MemoryError"):
        await lanes.append(lease(2), [(b"later", b"1")])
    async with asyncio.timeout(60):
        await lanes.settled(2)
        await lanes.finish()


async def test_lanes_do_not_wait_for_each_other() -> None:
    sender = Sender()
    lanes = Lanes(sender, 2)
    futures = [lanes.append(lease(shard), [(b"%d" % shard, b"1")]) for shard in (0, 1, 2, 3)]
    await settled()
    assert sender.sent == [{0: {b"0"}, 2: {b"2"}}, {1: {b"1"}, 3: {b"3"}}]
    sender.going.set()
    await asyncio.gather(*futures)


async def test_statements_are_not_too_long() -> None:
    sender = Sender()
    sender.going.set()
    lanes = Lanes(sender, 1)
    large = b"x" * 300_000
    await asyncio.gather(
        *(lanes.append(lease(shard), [(b"%d" % shard, large)]) for shard in range(4)),
        lanes.append(lease(0), [(b"last", large)]),
    )
    assert [sorted(each) for each in sender.sent] == [[0], [0], [1], [2], [3]]


async def test_fences_of_one_shard_are_not_mixed() -> None:
    sender = Sender()
    sender.going.set()
    lanes = Lanes(sender, 1)
    old, new = lease(0, 1), lease(0, 2)
    await asyncio.gather(
        lanes.append(old, [(b"a", b"1")]),
        lanes.append(new, [(b"a", b"2")]),
        lanes.append(old, [(b"b", b"1")]),
    )
    assert sender.sent == [{0: {b"a"}}, {0: {b"a"}}, {0: {b"b"}}]
    assert sender.kept[b"a"] == b"2"


async def test_shard_whose_fence_has_passed_harms_no_other() -> None:
    sender = Sender(fenced={1})
    sender.going.set()
    lanes = Lanes(sender, 1)
    results = await asyncio.gather(
        *(lanes.append(lease(shard), [(b"%d" % shard, b"1")]) for shard in (0, 1, 2)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), FencedError, type(None)]
    assert "shard 1 is bob's" in str(results[1])
    assert sender.kept.keys() == {b"0", b"2"}


async def test_append_that_the_server_rejects_harms_no_other_shard() -> None:
    sender = Sender(failing={b"1": RejectedError("too large")})
    sender.going.set()
    lanes = Lanes(sender, 1)
    results = await asyncio.gather(
        *(lanes.append(lease(shard), [(b"%d" % shard, b"1")]) for shard in (0, 1, 2)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None)]
    assert sender.kept.keys() == {b"0", b"2"}


@pytest.mark.parametrize("error", [StoreError("lost"), KeyError("bug")])
async def test_lost_connection_is_awaited_once_by_those_that_are_sent_by_themselves(
    error: Exception,
) -> None:
    """Each of them would wait for as long as an answer may take, one after the other."""
    sender = Sender(fenced={0}, failing={b"1": error})
    lanes = Lanes(sender, 1)
    futures = [lanes.append(lease(shard), [(b"%d" % shard, b"1")]) for shard in range(4)]
    await settled()
    futures.append(lanes.append(lease(5), [(b"5", b"1")]))
    sender.going.set()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [FencedError] + 4 * [StoreError]
    assert sender.sent[1:] == [{0: {b"0"}}, {1: {b"1"}}]
    assert not sender.kept


@pytest.mark.parametrize("error", [RejectedError("too large"), StoreError("lost"), KeyError("bug")])
async def test_nothing_overtakes_an_append_that_failed(error: Exception) -> None:
    sender = Sender(failing={b"bad": error})
    lanes = Lanes(sender, 1)
    bad = lanes.append(lease(0), [(b"bad", b"1")])
    await settled()
    behind = lanes.append(lease(0), [(b"behind", b"1")])
    sender.going.set()
    results = await asyncio.gather(bad, behind, return_exceptions=True)
    assert [type(result) for result in results] == [StoreError, StoreError]
    with pytest.raises(StoreError, match="until it is claimed again"):
        lanes.append(lease(0), [(b"later", b"1")])
    await lanes.append(lease(0, 2), [(b"anew", b"1")])
    assert sender.kept.keys() == {b"anew"}


async def test_stray_append_under_an_older_fence_mends_nothing() -> None:
    sender = Sender(failing={b"bad": StoreError("lost")})
    sender.going.set()
    lanes = Lanes(sender, 1)
    with pytest.raises(StoreError):
        await lanes.append(lease(0, 2), [(b"bad", b"1")])
    await lanes.append(lease(0, 1), [(b"stray", b"1")])
    with pytest.raises(StoreError, match="until it is claimed again"):
        lanes.append(lease(0, 2), [(b"later", b"1")])


async def test_appends_that_waited_under_another_fence_are_broken_as_well() -> None:
    sender = Sender(failing={b"bad": StoreError("lost")})
    lanes = Lanes(sender, 1)
    futures = [lanes.append(lease(1), [(b"bad", b"1")])]
    await settled()
    futures += [lanes.append(lease(0, epoch), [(b"%d" % epoch, b"1")]) for epoch in (1, 2)]
    sender.going.set()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [StoreError] * 3
    with pytest.raises(StoreError):
        lanes.append(lease(0, 2), [(b"later", b"1")])
    assert sender.kept == {}


async def test_reading_waits_for_earlier_appends_to_that_shard() -> None:
    sender = Sender()
    lanes = Lanes(sender, 1)
    earlier = lanes.append(lease(0), [(b"earlier", b"1")])
    await lanes.settled(1)
    settling = asyncio.create_task(lanes.settled(0))
    await settled()
    assert not settling.done()
    sender.going.set()
    await settling
    assert earlier.done()
