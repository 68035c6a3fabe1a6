"""What only the SQLite store promises: grouped commits, and what happens when the disk fails."""

import asyncio
import contextlib
import errno
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from coterie_server.storage import (
    FencedError,
    Lease,
    Record,
    SqliteStore,
    StoreError,
    busy,
    writer_thread,
)
from coterie_server.storage.lock import FileLock, locks_of_names
from coterie_server.storage.mark import Mark
from tests.server.storage.doubles import PATIENCE_S, Disk, Time, disk_error

pytestmark = pytest.mark.asyncio

TTL_MS = 10_000


@pytest.fixture
def disk() -> Disk:
    """Return a disk that works until told otherwise."""
    return Disk()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store's file is."""
    return tmp_path / "coterie.db"


@pytest_asyncio.fixture
async def store(path: Path, disk: Disk) -> AsyncIterator[SqliteStore]:
    """Return an open store whose disk can be made to fail."""
    async with SqliteStore(path, connect=disk.connect) as opened:
        yield opened


async def claimed(store: SqliteStore, shard: int = 0) -> Lease:
    """Claim a shard."""
    (lease,) = await store.claim([shard], "ann", TTL_MS)
    return lease


async def held_shards(store: SqliteStore) -> list[int]:
    """Return the shards that have a lease."""
    return [lease.shard for lease in (await store.survey()).leases]


async def begun(*calls: Any) -> list[asyncio.Task[Any]]:
    """Begin calls, in this order, and return them unfinished."""
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    return tasks


async def outcomes(tasks: Sequence[asyncio.Task[Any]]) -> list[Any]:
    """Return what came of calls, errors included."""
    return await asyncio.gather(*tasks, return_exceptions=True)


# Grouped commits


async def test_appends_that_wait_share_a_commit(store: SqliteStore, disk: Disk) -> None:
    lease = await claimed(store)
    before = disk.commits
    with disk.held():
        tasks = await begun(store.append(lease, [(b"first", b"1")]))
        await disk.stands_still()
        tasks += await begun(
            *(store.append(lease, [(b"%d" % number, b"1")]) for number in range(100))
        )
    assert await outcomes(tasks) == [None] * 101
    assert disk.commits - before == 2
    assert len(await store.load(0)) == 101


async def test_what_comes_while_others_are_written_joins_what_waits(
    store: SqliteStore, disk: Disk
) -> None:
    """Or a shard that has little to write at first would keep others waiting for another commit."""
    writing, waiting = await claimed(store, 0), await claimed(store, 1)
    records: list[Record] = [(b"first", b"1")]
    with disk.held():
        tasks = await begun(store.append(writing, [(b"other", b"1")]))
        await disk.stands_still()
        tasks += await begun(store.append(waiting, records))
        records.append((b"second", b"2"))
    assert await outcomes(tasks) == [None] * 2
    assert await store.load(1) == [(b"first", b"1"), (b"second", b"2")]


async def test_groups_are_bounded(
    store: SqliteStore, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_thread, "GROUP_JOBS_MAX", 10)
    lease = await claimed(store)
    before = disk.commits
    with disk.held():
        tasks = await begun(store.append(lease, [(b"first", b"1")]))
        await disk.stands_still()
        tasks += await begun(
            *(store.append(lease, [(b"%d" % number, b"1")]) for number in range(100))
        )
    assert await outcomes(tasks) == [None] * 101
    assert disk.commits - before == 11


async def test_results_come_back_once_for_a_group(
    store: SqliteStore, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await claimed(store)
    loop = asyncio.get_running_loop()
    wake, woken = loop.call_soon_threadsafe, []

    def counted(callback: Any, *rest: Any, **options: Any) -> asyncio.Handle:
        woken.append(callback)
        return wake(callback, *rest, **options)

    with disk.held():
        tasks = await begun(store.append(lease, [(b"first", b"1")]))
        await disk.stands_still()
        tasks += await begun(*(store.append(lease, [(b"a", b"1")]) for _ in range(100)))
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    await outcomes(tasks)
    assert woken.count(writer_thread._deliver) == 2  # noqa: SLF001
    assert len(woken) == 4  # with the turn before each of them


async def test_appends_to_many_shards_take_as_few_statements_as_those_to_one(
    store: SqliteStore, disk: Disk
) -> None:
    leases = await store.claim(range(50), "ann", TTL_MS)
    with disk.held():
        tasks = await begun(store.append(leases[0], [(b"first", b"1")]))
        await disk.stands_still()
        tasks += await begun(*(store.append(lease, [(b"a", b"1")]) for lease in leases))
        before = len(disk.traced)
    await outcomes(tasks)
    written = [text for text in disk.traced[before:] if text.startswith("INSERT INTO records")]
    assert len(written) == 6  # 1; three times 16, 1 and 1


async def test_of_a_key_in_a_group_only_the_last_value_is_written(
    store: SqliteStore, disk: Disk
) -> None:
    """Appends of a group that overwrite each other cost one row, not many."""
    lease = await claimed(store)
    with disk.held():
        tasks = await begun(store.append(lease, [(b"first", b"1")]))
        await disk.stands_still()
        tasks += await begun(
            *(store.append(lease, [(b"a", b"%d" % number)]) for number in range(50))
        )
        disk.traced.clear()
    await outcomes(tasks)
    assert len([sql for sql in disk.traced if sql.startswith("INSERT INTO records")]) == 2
    assert (b"a", b"49") in await store.load(0)


@pytest.mark.filterwarnings("error")
async def test_records_are_dropped_where_warnings_are_errors(store: SqliteStore) -> None:
    """As in tests of those who embed a coordinator: Python 3.12.0 to 3.12.3 warn of numbers."""
    lease = await claimed(store)
    await store.append(lease, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    await store.append(lease, [(b"a", None), (b"c", None)])
    assert list(await store.load(0)) == [(b"b", b"2")]


async def test_fenced_append_does_not_spoil_its_group(store: SqliteStore, disk: Disk) -> None:
    old, new, elsewhere = await claimed(store), await claimed(store), await claimed(store, 1)
    before = disk.commits
    with disk.held():
        tasks = await begun(store.append(new, [(b"a", b"1")]))
        await disk.stands_still()
        tasks += await begun(
            store.append(new, [(b"b", b"1")]),
            store.append(old, [(b"b", b"2")]),
            store.append(elsewhere, [(b"c", b"1")]),
        )
    results = await outcomes(tasks)
    assert [type(result) for result in results] == [*[type(None)] * 2, FencedError, type(None)]
    assert disk.commits - before == 2
    assert await store.load(0) == [(b"a", b"1"), (b"b", b"1")]
    assert await store.load(1) == [(b"c", b"1")]


async def test_each_commit_reaches_the_disk(store: SqliteStore, disk: Disk) -> None:
    await store.survey()  # the writer has nothing to do, so its connection can be asked
    (connection,) = disk.connections
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)


# A failing disk


@pytest.mark.parametrize("statement", ["BEGIN", "UPDATE", "COMMIT"])
async def test_failed_append_says_why(store: SqliteStore, disk: Disk, statement: str) -> None:
    lease = await claimed(store)
    disk.fail(statement, error := disk_error())
    with pytest.raises(StoreError, match=r"coterie\.db: the disk reports an error") as caught:
        await store.append(lease, [(b"a", b"1")])
    assert caught.value.__cause__ is error
    disk.mend()
    assert await store.load(0) == []


async def test_no_append_leaps_over_a_failed_one(store: SqliteStore, disk: Disk) -> None:
    """Queued and later appends fail until the shard is claimed again."""
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    with disk.held():
        tasks = await begun(store.append(lease, [(b"a", b"1")]))
        await disk.stands_still()
        tasks += await begun(store.append(lease, [(b"b", b"1")]))
    assert [type(result) for result in await outcomes(tasks)] == [StoreError, StoreError]
    disk.mend()
    with pytest.raises(
        StoreError,
        match=r"^shard 0 takes no appends until it is claimed again, .*the disk reports an error",
    ):
        await store.append(lease, [(b"c", b"1")])
    assert await store.load(0) == []
    again = await claimed(store)
    await store.append(again, [(b"d", b"1")])
    assert await store.load(0) == [(b"d", b"1")]


async def test_append_that_waits_behind_a_new_claim_is_fenced(
    store: SqliteStore, disk: Disk
) -> None:
    """Whether or not one under the same lease failed before."""
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    with pytest.raises(StoreError):
        await store.append(lease, [(b"a", b"1")])
    disk.mend()
    tasks = await begun(
        store.append(lease, [(b"b", b"1")]),
        store.claim([0], "ann", TTL_MS),
        store.append(lease, [(b"c", b"1")]),
    )
    broken, (again,), fenced = await outcomes(tasks)
    assert isinstance(broken, StoreError)
    assert isinstance(fenced, FencedError)
    await store.append(again, [(b"d", b"1")])
    assert await store.load(0) == [(b"d", b"1")]


async def test_failed_claim_mends_nothing(store: SqliteStore, disk: Disk) -> None:
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    with pytest.raises(StoreError):
        await store.append(lease, [(b"a", b"1")])
    with pytest.raises(StoreError):
        await claimed(store)
    disk.mend()
    with pytest.raises(StoreError, match="takes no appends until"):
        await store.append(lease, [(b"b", b"1")])


async def test_renewed_lease_takes_no_appends_behind_a_failed_one(
    store: SqliteStore, disk: Disk
) -> None:
    """It is the same lease."""
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    with pytest.raises(StoreError):
        await store.append(lease, [(b"a", b"1")])
    disk.mend()
    (renewed,) = await store.renew("ann", b"", [lease], TTL_MS)
    with pytest.raises(StoreError, match="takes no appends until"):
        await store.append(renewed, [(b"b", b"1")])


async def test_failure_concerns_only_its_group(store: SqliteStore, disk: Disk) -> None:
    """A shard without an append in the failed group goes on as soon as the disk works again."""
    lease, elsewhere = await claimed(store), await claimed(store, 1)
    disk.fail("COMMIT", disk_error())
    with pytest.raises(StoreError):
        await store.append(lease, [(b"a", b"1")])
    disk.mend()
    await store.append(elsewhere, [(b"b", b"1")])
    assert await store.load(1) == [(b"b", b"1")]


async def test_failed_lease_breaks_no_shard(store: SqliteStore, disk: Disk) -> None:
    """It leaves no gap that an append could leap over."""
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    for call in (
        store.claim([1], "ann", TTL_MS),
        store.renew("ann", b"", [lease], TTL_MS),
        store.release([lease]),
        store.withdraw("ann"),
    ):
        with pytest.raises(StoreError):
            await call
    disk.mend()
    assert await held_shards(store) == [0]
    await store.append(lease, [(b"a", b"1")])


async def test_claim_that_was_rolled_back_does_not_fence(store: SqliteStore, disk: Disk) -> None:
    lease = await claimed(store)
    disk.fail("COMMIT", disk_error())
    with pytest.raises(StoreError):
        await claimed(store)
    disk.mend()
    await store.append(lease, [(b"a", b"1")])
    assert (await claimed(store)).fence.epoch == lease.fence.epoch + 1


@pytest.mark.parametrize("error", [disk_error(), MemoryError()], ids=["disk", "memory"])
async def test_rollback_that_fails_is_tried_again(
    store: SqliteStore, disk: Disk, error: Exception
) -> None:
    """Also if the database has no memory left, which Python has another error for."""
    lease = await claimed(store)
    disk.fail("COMMIT", error)
    disk.fail("ROLLBACK", error)
    with pytest.raises(StoreError):
        await store.append(lease, [(b"a", b"1")])
    disk.mend()
    assert (await claimed(store)).fence.epoch == lease.fence.epoch + 1
    assert await store.load(0) == []


async def test_a_file_that_can_not_be_closed_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_mark: Mark) -> None:
        raise OSError(errno.EIO, "input/output error")

    async with asyncio.timeout(PATIENCE_S), SqliteStore(path):
        monkeypatch.setattr(Mark, "close", fail)


async def test_closing_that_is_cancelled_is_finished_by_the_next_one(
    path: Path, disk: Disk
) -> None:
    store = SqliteStore(path, connect=disk.connect)
    await store.open()
    lease = await claimed(store)
    with disk.held():
        (append,) = await begun(store.append(lease, [(b"a", b"1")]))
        await disk.stands_still()
        (closing,) = await begun(store.close())
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        (again,) = await begun(store.close())
        assert not again.done()
    await again
    assert append.done()


async def test_failed_reading_says_why_and_breaks_no_shard(store: SqliteStore, disk: Disk) -> None:
    lease = await claimed(store)
    disk.fail("SELECT", disk_error())
    for call in (store.load(0), store.survey()):
        with pytest.raises(StoreError, match="the disk reports an error"):
            await call
    disk.mend()
    await store.append(lease, [(b"a", b"1")])


async def test_full_disk(store: SqliteStore, disk: Disk) -> None:
    lease = await claimed(store)
    (connection,) = disk.connections
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = [(b"%d" % number, b"x" * 1000) for number in range(100)]
    with pytest.raises(StoreError, match="the disk is full; make room on it"):
        await store.append(lease, big)
    assert await store.load(0) == []
    lease = await claimed(store)
    await store.append(lease, big[:1])
    connection.execute("PRAGMA max_page_count = 100000")
    await store.append(lease, big)
    assert len(await store.load(0)) == 100


async def test_file_that_cannot_be_written(path: Path) -> None:
    async with SqliteStore(path) as store:
        lease = await claimed(store)
        await store.append(lease, [(b"a", b"1")])

    def read_only(_name: str, **options: Any) -> sqlite3.Connection:
        given = options | {"uri": True}
        opened: sqlite3.Connection = sqlite3.connect(f"file:{path}?mode=ro", **given)
        return opened

    async with SqliteStore(path) as writer, SqliteStore(path, connect=read_only) as store:
        assert await store.load(0) == await writer.load(0) == [(b"a", b"1")]
        with pytest.raises(StoreError, match="it cannot be written; check the rights"):
            await store.append(lease, [(b"b", b"1")])


async def test_file_that_is_kept_locked(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy, "BUSY_TIMEOUT_S", 0.0)
    lease = await claimed(store)
    rude = sqlite3.connect(path, isolation_level=None)
    rude.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program has kept it locked"):
        await store.append(lease, [(b"a", b"1")])
    rude.close()
    assert await store.load(0) == []
    await store.append(await claimed(store), [(b"a", b"1")])


async def test_writer_that_waits_is_not_starved(store: SqliteStore, path: Path) -> None:
    """A busy process leaves the file unlocked for moments only."""
    lease = await claimed(store)
    has_begun, is_over = threading.Event(), threading.Event()
    turns: list[int] = []

    def hog() -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as rude:
            while not is_over.is_set():
                rude.execute("BEGIN IMMEDIATE")
                turns.append(1)
                has_begun.set()
                is_over.wait(0.01)
                rude.execute("ROLLBACK")
                time.sleep(0.0001)

    hogging = asyncio.create_task(asyncio.to_thread(hog))
    await asyncio.to_thread(has_begun.wait, PATIENCE_S)
    try:
        for number in range(10):
            await store.append(lease, [(b"%d" % number, b"1")])
    finally:
        is_over.set()
        await hogging
    assert len(turns) < 300


async def test_bug_fails_its_callers(store: SqliteStore) -> None:
    lease = await claimed(store)
    wrong: Any = [(b"a", object())]
    with pytest.raises(StoreError):
        await store.append(lease, wrong)
    not_pairs: Any = [(b"a",)]
    lease = await claimed(store)
    with pytest.raises(StoreError, match="the store failed: ValueError"):
        await store.append(lease, not_pairs)


# Opening


async def test_refused_store_can_be_opened_later(path: Path, disk: Disk) -> None:
    store = SqliteStore(path, connect=disk.connect)
    disk.fail("PRAGMA journal_mode", disk_error())
    with pytest.raises(StoreError, match="the disk reports an error"):
        await store.open()
    with pytest.raises(StoreError, match="is not open"):
        await store.survey()
    disk.mend()
    async with store:
        assert await held_shards(store) == []


async def test_bug_while_opening_is_told(path: Path, disk: Disk) -> None:
    disk.fail("PRAGMA", ZeroDivisionError("a bug"))
    with pytest.raises(StoreError, match=r"the store failed: ZeroDivisionError\('a bug'\)"):
        await SqliteStore(path, connect=disk.connect).open()


async def test_opening_that_is_cancelled_leaves_nothing(path: Path, disk: Disk) -> None:
    with disk.held():
        (opening,) = await begun(SqliteStore(path, connect=disk.connect).open())
        await disk.stands_still()
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "coterie-store"]
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    await asyncio.to_thread(thread.join, PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        disk.connections[0].execute("SELECT 1")


async def test_opening_a_new_file_at_the_same_time(path: Path) -> None:
    async with SqliteStore(path) as one, SqliteStore(path) as another:
        await claimed(one)
        assert await held_shards(another) == [0]


async def test_threads_do_not_meet(path: Path) -> None:
    async def used(shard: int) -> int:
        async with SqliteStore(path) as store:
            lease = await claimed(store, shard)
            for number in range(5):
                await store.append(lease, [(b"%d" % number, b"1")])
            return len(await store.load(shard))

    assert await asyncio.gather(*(used(shard) for shard in range(8))) == [5] * 8


async def test_a_name_leaves_no_file_behind(tmp_path: Path) -> None:
    """Nodes within programs have another name each time."""
    async with SqliteStore(tmp_path / "s.db") as store:
        await store.reserve("node-1", TTL_MS)
        assert list(locks_of_names(tmp_path / "s.db")) == ["node-1"]
    assert not locks_of_names(tmp_path / "s.db")


async def test_files_that_keep_names_of_killed_processes_are_removed(tmp_path: Path) -> None:
    FileLock(tmp_path / "s.db-node-7.lock").release()
    async with SqliteStore(tmp_path / "s.db") as store, SqliteStore(tmp_path / "s.db") as other:
        await other.reserve("node-8", TTL_MS)
        await store.reserve("node-9", TTL_MS)
        assert set(locks_of_names(tmp_path / "s.db")) == {"node-8", "node-9"}


async def test_a_name_that_is_held_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """By a process that removes what others have left, for one."""
    held = FileLock(tmp_path / "s.db-node-1.lock")
    async with SqliteStore(tmp_path / "s.db") as store:
        asyncio.get_running_loop().call_soon(held.release)
        await store.reserve("node-1", TTL_MS)


async def test_nodes_that_were_killed_are_forgotten_after_a_day(tmp_path: Path) -> None:
    clock = Time()
    async with SqliteStore(tmp_path / "s.db", now_ms=clock.now_ms) as store:
        await store.renew("node-1", b"", (), TTL_MS)
        clock.ms += 23 * 3_600_000
        await store.renew("node-2", b"", (), TTL_MS)
        assert [each.owner for each in (await store.survey()).nodes] == ["node-1", "node-2"]
        clock.ms += 2 * 3_600_000
        await store.renew("node-3", b"", (), TTL_MS)
        assert [each.owner for each in (await store.survey()).nodes] == ["node-2", "node-3"]
