"""Nothing is said before it is durable."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from coterie_server.serving import DurableQueue
from coterie_server.storage import Fence, Lease, MemoryStore, SqliteStore, StoreError
from coterie_server.storage.abc import Record

pytestmark = pytest.mark.asyncio

LEASE = Lease(shard=3, fence=Fence(0, 1), owner="node-1", left_ms=10)


class SlowStore(MemoryStore):
    """A store whose appends wait until they are let go, or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[Record]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Wait for the gate."""
        assert lease == LEASE
        self.appends.append(list(records))
        await self.gate.wait()
        if self.error is not None:
            raise self.error


class FakeMetrics:
    """Counts like the metrics."""

    def __init__(self) -> None:
        self.appended: list[int] = []
        self.failures = 0

    def store_appended(self, records: int, seconds: float) -> None:
        """Count records."""
        assert seconds >= 0
        self.appended.append(records)

    def store_failed(self) -> None:
        """Count a failure."""
        self.failures += 1


class Harness:
    """A queue with a slow store, and what it did, in order."""

    def __init__(self, store: SlowStore | None = None) -> None:
        self.store = store or SlowStore()
        self.metrics = FakeMetrics()
        self.heard: list[object] = []
        self.queue = DurableQueue(self.store, LEASE, self.heard.append, self.metrics)

    def put(self, *keys: str) -> None:
        """Hand in a record for each key."""
        self.queue.put([(key.encode(), b"") for key in keys])

    def then(self, word: str) -> None:
        """Say a word when all that is durable."""
        self.queue.when_durable(lambda: self.heard.append(word))


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_with_nothing_to_wait_for_an_action_runs_at_once() -> None:
    """A heartbeat's answer is not even delayed to the loop's next turn."""
    harness = Harness()
    harness.then("now")
    assert harness.heard == ["now"]


async def test_an_action_waits_for_what_was_handed_in_before_it() -> None:
    harness = Harness()
    harness.put("a")
    harness.then("answer")
    await settle()
    assert harness.heard == []
    harness.store.gate.set()
    await settle()
    assert harness.heard == ["answer"]
    assert harness.queue.is_settled


async def test_actions_keep_their_order() -> None:
    harness = Harness()
    for word in ("one", "two", "three"):
        harness.put(word)
        harness.then(word)
    harness.store.gate.set()
    await harness.queue.settle()
    assert harness.heard == ["one", "two", "three"]


async def test_what_comes_while_the_disk_is_busy_shares_the_next_append() -> None:
    harness = Harness()
    harness.put("a")
    await settle()
    harness.put("b", "c")
    harness.put("d")
    harness.store.gate.set()
    await harness.queue.settle()
    assert [[key for key, _ in batch] for batch in harness.store.appends] == [
        [b"a"],
        [b"b", b"c", b"d"],
    ]
    assert harness.metrics.appended == [1, 3]


class LateStore(SlowStore):
    """A store that begins to write only when it is let go."""

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Wait, then write."""
        await self.gate.wait()
        await super().append(lease, records)


async def test_what_comes_until_the_store_begins_shares_the_append() -> None:
    """It may have what other shards append to write before."""
    harness = Harness(LateStore())
    harness.put("a")
    harness.then("a")
    await settle()
    harness.put("b", "c")
    harness.then("c")
    harness.store.gate.set()
    await harness.queue.settle()
    assert harness.store.appends == [[(b"a", b""), (b"b", b""), (b"c", b"")]]
    assert harness.metrics.appended == [3]
    assert harness.heard == ["a", "c"]


async def test_nothing_is_written_once_a_queue_has_ended() -> None:
    harness = Harness(LateStore())
    harness.put("a")
    await settle()
    harness.queue.end()
    harness.store.gate.set()
    await harness.queue.settle()
    assert harness.store.appends == [[]]
    assert harness.metrics.appended == []


async def test_what_is_told_is_stored_whatever_comes_while_a_thread_takes_it(
    tmp_path: Path,
) -> None:
    """The loop hands in, and the store's thread takes, both at any moment."""
    path = tmp_path / "coterie.db"
    told: list[int] = []
    missing: list[int] = []
    async with SqliteStore(path) as store:
        (lease,) = await store.claim([3], "node-1", 60_000)
        queue = DurableQueue(store, lease, lambda error: pytest.fail(str(error)))
        with closing(sqlite3.connect(path)) as reader:

            def tell(number: int) -> None:
                told.append(number)
                row = reader.execute("SELECT 1 FROM records WHERE key = ?", (b"%d" % number,))
                if row.fetchone() is None:
                    missing.append(number)

            for number in range(3_000):
                queue.put([(b"%d" % number, b"")])
                queue.when_durable(tell, number)
                if number % 7 == 0:
                    await asyncio.sleep(0)
            await queue.settle()
    assert told == list(range(3_000))
    assert missing == []


async def test_after_a_failure_no_waiting_action_runs() -> None:
    """The failure is reported once."""
    harness = Harness()
    harness.put("a")
    harness.then("never")
    harness.store.error = StoreError("the disk is full")
    harness.store.gate.set()
    await harness.queue.settle()
    harness.put("b")
    harness.then("neither")
    await settle()
    assert harness.heard == [harness.store.error]
    assert harness.metrics.failures == 1
    assert len(harness.store.appends) == 1


async def test_the_next_append_begins_before_what_waited_for_the_last_runs() -> None:
    """Or the disk would wait while hundreds of requests are answered."""
    harness = Harness()
    harness.put("a")
    harness.queue.when_durable(lambda: harness.heard.append(len(harness.store.appends)))
    await settle()
    harness.put("b")
    harness.then("b")
    harness.store.gate.set()
    await harness.queue.settle()
    assert harness.heard == [2, "b"]


async def test_what_comes_while_actions_are_yet_to_run_keeps_its_place() -> None:
    harness = Harness()
    harness.put("a")
    harness.then("a")
    await settle()
    harness.put("b")
    harness.store.gate.set()
    while harness.metrics.appended != [1, 1]:
        await asyncio.sleep(0)
        harness.then("later")
    await harness.queue.settle()
    assert harness.heard[0] == "a"
    assert set(harness.heard[1:]) == {"later"}
    assert harness.queue.is_settled


async def test_what_is_durable_is_told_though_the_next_append_fails_at_once() -> None:
    harness = Harness()
    harness.put("a")
    harness.then("a")
    await settle()
    harness.put("b")
    harness.then("never")
    error = StoreError("the disk is full")

    async def fail(*_append: object) -> None:
        raise error

    setattr(harness.store, "append", fail)  # noqa: B010  # mypy takes it for a method
    harness.store.gate.set()
    await harness.queue.settle()
    assert harness.heard == ["a", error]


async def test_settling_without_work_returns_at_once() -> None:
    await Harness().queue.settle()


async def test_question_waits_for_what_was_handed_in_before_and_no_longer() -> None:
    """The writer of a queue that is busy may never come to an end."""
    harness = Harness()
    harness.put("a")
    await settle()
    waiting = asyncio.create_task(harness.queue.until_durable())
    await settle()
    harness.put("b")
    assert not waiting.done()
    gate, harness.store.gate = harness.store.gate, asyncio.Event()
    gate.set()
    await settle()
    assert waiting.done()
    assert len(harness.store.appends) == 2
    assert not harness.queue.is_settled
    harness.store.gate.set()
    await harness.queue.settle()


@pytest.mark.parametrize("how", ["fails", "ends"])
async def test_question_ends_when_nothing_will_be_durable_any_more(how: str) -> None:
    harness = Harness()
    harness.put("a")
    waiting = asyncio.create_task(harness.queue.until_durable())
    await settle()
    if how == "fails":
        harness.store.error = StoreError("the disk is full")
    else:
        harness.queue.end()
    harness.store.gate.set()
    await settle()
    assert waiting.done()
    await asyncio.wait_for(harness.queue.until_durable(), 1)
    await harness.queue.settle()
