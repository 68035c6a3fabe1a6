"""A partition as its user sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie_client import PartitionLostError, Position
from coterie_client.partition import Partition
from tests.client.group.doubles import FakeKeeper

pytestmark = pytest.mark.asyncio

TOKEN = 7


@pytest.fixture
def keeper() -> FakeKeeper:
    """Give one that keeps offsets."""
    return FakeKeeper()


@pytest.fixture
def partition(keeper: FakeKeeper) -> Partition:
    """Give a partition that is owned."""
    return Partition(keeper, ("orders", 3), TOKEN, 5)


async def test_nothing_is_committed_at_first(partition: Partition) -> None:
    assert await partition.committed() is None


async def test_commit_is_found_again(partition: Partition) -> None:
    await partition.commit(42, "half way")
    assert await partition.committed() == Position(42, "half way")
    assert partition.position == Position(42, "half way")


async def test_lost_partition_refuses_commits(partition: Partition, keeper: FakeKeeper) -> None:
    """After a loss, commits fail by name and leave no trace."""
    keeper.lost.add(TOKEN)
    assert not partition.is_owned
    with pytest.raises(PartitionLostError):
        await partition.commit(1)
    assert (partition.position, keeper.stored) == (None, {})


async def test_lost_partition_tells_no_position(partition: Partition, keeper: FakeKeeper) -> None:
    keeper.lost.add(TOKEN)
    with pytest.raises(PartitionLostError, match=r"orders\[3\]"):
        await partition.committed()


async def test_position_is_not_told_when_the_partition_is_lost_as_the_answer_comes(
    partition: Partition, keeper: FakeKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another member may have gone on from there by now."""
    answer: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(keeper, "fetch", lambda *_: answer)
    asking = asyncio.ensure_future(partition.committed())
    await asyncio.sleep(0)
    answer.set_result(Position(7))
    keeper.lost.add(TOKEN)
    with pytest.raises(PartitionLostError, match=r"orders\[3\]"):
        await asking


@pytest.mark.parametrize("offset", [-1, 2**63])
async def test_offset_that_fits_no_request_is_refused(
    partition: Partition, keeper: FakeKeeper, offset: int
) -> None:
    with pytest.raises(ValueError, match="offset"):
        await partition.commit(offset)
    assert keeper.stored == {}


@pytest.mark.parametrize("metadata", ["x" * 32768, "ä" * 16384, "\ud800"])
async def test_metadata_that_fits_no_request_is_refused(
    partition: Partition, keeper: FakeKeeper, metadata: str
) -> None:
    with pytest.raises(ValueError, match=r"metadata|surrogates"):
        await partition.commit(1, metadata)
    assert keeper.stored == {}


@pytest.mark.parametrize("offset", [1.0, True, "1", None])
async def test_offset_must_be_an_integer(partition: Partition, offset: Any) -> None:
    """Neither a whole float nor True is one."""
    with pytest.raises(TypeError, match=f"offset must be a whole number, got {offset!r}"):
        await partition.commit(offset)


async def test_metadata_is_text(partition: Partition) -> None:
    with pytest.raises(TypeError, match="metadata must be a string or None, got 5"):
        await partition.commit(1, 5)  # type: ignore[arg-type]


async def test_partition_shows_what_it_is(partition: Partition, keeper: FakeKeeper) -> None:
    assert str(partition) == "orders[3]"
    assert repr(partition) == "<Partition orders[3] generation=5 token=7, owned>"
    keeper.lost.add(TOKEN)
    assert repr(partition).endswith("not owned any more>")


async def test_progress_needs_no_watchdog(partition: Partition) -> None:
    partition.progress()
    assert partition.is_owned


async def test_lag_is_told_while_the_partition_is_owned(
    partition: Partition, keeper: FakeKeeper
) -> None:
    partition.lag(7)
    keeper.lost.add(TOKEN)
    partition.lag(6)
    assert keeper.lags == [(("orders", 3), 7)]


async def test_lag_is_progress(partition: Partition) -> None:
    signs: list[str] = []
    partition.notify_progress(lambda: signs.append("progress"))
    partition.lag(7)
    assert signs == ["progress"]


@pytest.mark.parametrize("lag", [-1, 2**63])
async def test_lag_that_there_can_not_be_is_refused(partition: Partition, lag: int) -> None:
    with pytest.raises(ValueError, match="lag must be a number from 0"):
        partition.lag(lag)


async def test_load_is_told(partition: Partition, keeper: FakeKeeper) -> None:
    partition.load(3)
    assert keeper.loads == {("orders", 3): 3.0}


@pytest.mark.parametrize("load", [-1, float("nan"), float("inf"), 2e15, 10**400])
async def test_load_that_is_none_is_refused(
    partition: Partition, keeper: FakeKeeper, load: float
) -> None:
    with pytest.raises(ValueError, match=r"load must be a number from 0 to 1e\+15"):
        partition.load(load)
    assert keeper.loads == {}


@pytest.mark.parametrize("load", [True, "1", None])
async def test_load_must_be_a_number(partition: Partition, load: Any) -> None:
    with pytest.raises(TypeError, match=f"load must be a number, got {load!r}"):
        partition.load(load)
