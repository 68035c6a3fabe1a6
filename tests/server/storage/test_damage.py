"""A store that is damaged, truncated, swapped or deleted is never taken for an older truth."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from coterie_server.storage import Lease, OwnerTakenError, SqliteStore, StoreError, busy, guard
from coterie_server.storage.mark import Mark, Progress, mark_path
from tests.server.storage.doubles import Disk

pytestmark = pytest.mark.asyncio

RECORDS: Final = 60

TTL_MS: Final = 10_000


async def filled(store: SqliteStore) -> Lease:
    """Write some records, each in a transaction of its own."""
    (lease,) = await store.claim([0], "node-1", TTL_MS)
    for number in range(RECORDS):
        await store.append(lease, [(b"%04d" % number, b"value-%04d-" % number * 20)])
    return lease


async def killed(tmp_path: Path, name: str = "killed") -> Path:
    """What `kill -9` leaves behind of a store that was being written to."""
    async with SqliteStore(tmp_path / "living" / "coterie.db") as store:
        await filled(store)
        shutil.copytree(tmp_path / "living", tmp_path / name)
    return tmp_path / name / "coterie.db"


def log_of(path: Path) -> Path:
    """The write-ahead log."""
    return path.with_name(f"{path.name}-wal")


def overwrite(path: Path, begin: float) -> None:
    """Overwrite a file from some part of it on; its length stays."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(start := int(size * begin))
        file.write(os.urandom(size - start))


def overwrite_half(path: Path) -> None:
    """Overwrite the second half of a file."""
    overwrite(path, 1 / 2)


def cut(path: Path) -> None:
    """Cut off the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)


def progress_of(path: Path) -> Progress:
    """How far a store has come."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return guard.read_progress(connection)


async def refusal(path: Path) -> str:
    """Why a store is not opened."""
    with pytest.raises(StoreError) as caught:
        await SqliteStore(path).open()
    return str(caught.value)


# At the start


async def test_what_a_kill_leaves_behind_is_whole(tmp_path: Path) -> None:
    async with SqliteStore(await killed(tmp_path)) as store:
        assert len(await store.load(0)) == RECORDS


@pytest.mark.parametrize("spoil", [overwrite_half, cut, Path.unlink])
async def test_a_log_that_lost_something_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """SQLite takes it for a log that ends there."""
    path = await killed(tmp_path)
    spoil(log_of(path))
    said = await refusal(path)
    assert "has lost what was acknowledged" in said
    assert f"there were {RECORDS + 1}" in said
    assert "start `coterie serve` once with --accept-data-loss" in said


async def test_a_refused_log_stays_as_it_is(tmp_path: Path) -> None:
    """It may be needed for a rescue."""
    path = await killed(tmp_path)
    overwrite_half(log_of(path))
    before = log_of(path).read_bytes()
    await refusal(path)
    assert log_of(path).read_bytes() == before
    assert "has lost" in await refusal(path)


async def test_an_older_copy_is_refused(tmp_path: Path) -> None:
    older = await killed(tmp_path, "older")
    path = tmp_path / "living" / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
    shutil.copy(older, path)
    shutil.copy(log_of(older), log_of(path))
    assert "older copy" in await refusal(path)


async def test_another_store_is_refused(tmp_path: Path) -> None:
    path = await killed(tmp_path)
    async with SqliteStore(tmp_path / "other" / "coterie.db") as other:
        await filled(other)
        await filled(other)
    log_of(path).unlink()
    shutil.copy(tmp_path / "other" / "coterie.db", path)
    assert "is not the store that was last used here" in await refusal(path)


@pytest.mark.parametrize("how", ["deleted", "emptied"])
async def test_a_store_that_is_gone_is_not_begun_anew(tmp_path: Path, how: str) -> None:
    """All groups would count from one again, and their fencing tokens with them."""
    path = await killed(tmp_path)
    log_of(path).unlink()
    path.unlink()
    if how == "emptied":
        path.touch()
    assert ("is gone" if how == "deleted" else "is empty") in await refusal(path)


async def test_a_value_that_changed_is_refused(tmp_path: Path) -> None:
    """SQLite has no checksums of its own."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
    data = path.read_bytes()
    assert data.count(b"value-0007-") == 20
    path.write_bytes(data.replace(b"value-0007-", b"value-0008-", 1))
    assert "damaged (a record of shard 0 is not what was" in await refusal(path)


async def test_a_record_that_no_shard_finds_is_missed(tmp_path: Path) -> None:
    """A bit of its shard's number has changed, and nobody ever reads the shard that it names."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        (lease,) = await store.claim([47], "node-1", TTL_MS)
        await store.append(lease, [(b"key", b"value")])
    data = path.read_bytes()
    assert data.count(b"\x2fkeyvalue") == 1
    path.write_bytes(data.replace(b"\x2fkeyvalue", b"\x6fkeyvalue"))
    assert "damaged (a record of shard 111 is not what was" in await refusal(path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET value = 'text' WHERE key = x'30303037'",
        "UPDATE records SET shard = 0.5 WHERE key = x'30303037'",
        "UPDATE records SET checksum = 'text' WHERE key = x'30303037'",
        "UPDATE progress SET commits = 'many'",
        "UPDATE progress SET commits = -1",
        "UPDATE progress SET commits = 9223372036854775807",
        "UPDATE progress SET store = 5.5, commits = 0.5",
        "DELETE FROM progress",
    ],
)
async def test_values_that_were_never_written_are_called_damage(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(change)
    said = await refusal(path)
    assert "is damaged (" in said
    assert "is not what was written" in said or "does not say how far it has come" in said


async def test_a_value_that_changes_while_the_store_is_open_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE records SET value = x'00' WHERE key = ?", (b"0007",))
        with pytest.raises(StoreError, match=r"damaged \(a record of shard 0 is not what was"):
            await store.load(0)


async def test_a_loss_can_be_accepted(tmp_path: Path) -> None:
    path = await killed(tmp_path)
    overwrite_half(log_of(path))
    async with SqliteStore(path, accept_loss=True) as store:
        left = len(await store.load(0))
        await store.claim([0], "node-1", TTL_MS)
    assert 0 < left < RECORDS
    # The store was not told so.
    assert "accepting its loss was interrupted" in await refusal(path)
    async with SqliteStore(path, accept_loss=True) as store:
        await store.accept_loss()
    async with SqliteStore(path) as store:
        assert len(await store.load(0)) == left


async def test_a_loss_is_not_accepted_by_counting_past_the_mark(tmp_path: Path) -> None:
    """A start that accepts a loss may be interrupted after it wrote more than is missing."""
    path = await killed(tmp_path)
    log = log_of(path)
    os.truncate(log, log.stat().st_size - 1)  # Its last transaction is gone.
    async with SqliteStore(path, accept_loss=True) as store:
        for _ in range(10):
            await store.claim([0], "node-1", TTL_MS)
    assert "accepting its loss was interrupted" in await refusal(path)


async def test_files_from_before_an_accepted_loss_are_refused(tmp_path: Path) -> None:
    """They have more transactions, but not those that were acknowledged since."""
    older = await killed(tmp_path, "older")
    path = tmp_path / "living" / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
    shutil.copy(path, tmp_path / "newer")
    shutil.copy(older, path)
    shutil.copy(log_of(older), log_of(path))
    async with SqliteStore(path, accept_loss=True) as store:
        await store.accept_loss()
        await store.claim([0], "node-1", TTL_MS)
    shutil.copy(tmp_path / "newer", path)
    assert "is not the store that was last used here" in await refusal(path)


async def test_a_store_without_a_mark_is_taken_at_its_word(tmp_path: Path) -> None:
    """It may have been restored from a backup."""
    path = await killed(tmp_path)
    mark_path(path).unlink()
    async with SqliteStore(path) as store:
        assert len(await store.load(0)) == RECORDS


async def test_mark_of_a_process_that_is_late_is_not_the_last(tmp_path: Path) -> None:
    """Two processes commit in one order, and may get to the mark in another."""
    path = tmp_path / "mark"
    with contextlib.closing(Mark(path)) as prompt, contextlib.closing(Mark(path)) as late:
        for commits in (1, 2, 4, 5, 3):
            (late if commits == 3 else prompt).write(Progress("0" * 32, commits))
    assert Mark(path).read() == Progress("0" * 32, 5)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_mark_that_is_taken_away_while_the_store_is_open_is_begun_anew(
    tmp_path: Path, how: str
) -> None:
    """Nothing else tells at the next start that the log has lost something."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
        if how == "replaced":
            (tmp_path / "other").touch()
            (tmp_path / "other").replace(mark_path(path))
        else:
            mark_path(path).unlink()
        await filled(store)
        marked = Mark(mark_path(path)).read()
        assert marked == progress_of(path)


async def test_torn_mark_is_enough(tmp_path: Path) -> None:
    """A power failure may tear the place that is being written."""
    path = await killed(tmp_path)
    data = bytearray(mark_path(path).read_bytes())
    last = max(range(0, len(data), 4096), key=lambda place: data[place + 40 : place + 48])
    data[last + 20] ^= 0xFF
    mark_path(path).write_bytes(data)
    log_of(path).unlink()
    assert "has lost" in await refusal(path)


# While it is open


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
async def test_a_file_that_is_deleted_is_noticed_at_the_next_write(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        path.with_name(f"{path.name}{suffix}").unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match="is gone while this node uses it"):
                await store.append(lease, [(b"a", b"1")])
        with pytest.raises(StoreError, match="is gone"):
            await store.load(0)
        with pytest.raises(StoreError, match="is gone"):
            await store.renew("node-1", b"", [lease], TTL_MS)


async def test_a_file_that_is_deleted_during_a_write_is_noticed_behind_it(tmp_path: Path) -> None:
    path, disk = tmp_path / "coterie.db", Disk()
    async with SqliteStore(path, connect=disk.connect) as store:
        lease = await filled(store)
        disk.meanwhile("COMMIT", path.unlink)
        with pytest.raises(StoreError, match="is gone while this node uses it"):
            await store.append(lease, [(b"a", b"1")])


async def test_a_file_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    """Even by an identical one."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        shutil.copy(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        with pytest.raises(StoreError, match="was replaced"):
            await store.append(lease, [(b"a", b"1")])


@pytest.mark.parametrize("spoil", [overwrite_half, cut])
async def test_a_log_that_is_damaged_is_noticed(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """SQLite itself does not look at it again before the next start."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        spoil(log_of(path))
        os.utime(log_of(path), ns=(1, 1))  # Clocks of file systems are coarse.
        with pytest.raises(StoreError, match=r"damaged \(its log breaks off"):
            await store.append(lease, [(b"a", b"1")])


async def test_a_database_that_is_damaged_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
    async with SqliteStore(path) as store:
        (lease,) = await store.claim([0], "node-1", TTL_MS)
        path.write_bytes(path.read_bytes().replace(b"value-0007-", b"value-0008-", 1))
        os.utime(path, ns=(1, 1))
        with pytest.raises(StoreError, match="damaged"):
            await store.append(lease, [(b"a", b"1")])


async def test_a_file_that_was_only_touched_is_no_harm(tmp_path: Path) -> None:
    """Backup programs do that."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        os.utime(log_of(path), ns=(1, 1))
        await store.append(lease, [(b"a", b"1")])
        assert len(await store.load(0)) == RECORDS + 1


async def test_a_touched_file_that_is_locked_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can't be compared while another process writes."""
    monkeypatch.setattr(busy, "BUSY_TIMEOUT_S", 0.0)
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            os.utime(path, ns=(1, 1))
            with pytest.raises(StoreError, match="has kept it locked"):
                await store.load(0)
        assert len(await store.load(0)) == RECORDS


async def test_a_touched_file_that_cannot_be_copied_is_not_taken_for_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        await filled(store)
        os.utime(path, ns=(1, 1))
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "copyfileobj", full)
            with pytest.raises(StoreError, match=r"can't be checked in .*: No space left"):
                await store.load(0)
        monkeypatch.setattr(guard, "_TRY_AGAIN_S", 0.0)
        assert len(await store.load(0)) == RECORDS


async def test_a_log_that_another_process_copies_into_the_file_is_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite does it from time to time, and writes nothing else then."""
    caplog.set_level("INFO")
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint")
        await store.append(lease, [(b"a", b"1")])
        assert len(await store.load(0)) == RECORDS + 1
    said = [record for record in caplog.records if "did no damage" in record.getMessage()]
    assert [record.levelname for record in said] == ["INFO"]


async def test_a_log_that_lost_what_another_process_wrote_is_noticed(tmp_path: Path) -> None:
    """Though nothing of this process is missing."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        lease = await filled(store)
        (elsewhere,) = await other.claim([1], "node-2", TTL_MS)
        for number in range(RECORDS):
            await other.append(elsewhere, [(b"%04d" % number, b"value" * 40)])
        assert len(await store.load(0)) == RECORDS
        overwrite(log_of(path), 3 / 4)
        with pytest.raises(StoreError, match="damaged"):
            await store.append(lease, [(b"a", b"1")])


async def test_accepting_a_loss_is_no_damage_to_another_process(tmp_path: Path) -> None:
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        async with SqliteStore(path, accept_loss=True) as other:
            await other.accept_loss()
            assert len(await store.load(0)) == RECORDS
            os.utime(path, ns=(1, 1))
            assert len(await store.load(0)) == RECORDS
            await store.append(lease, [(b"a", b"1")])
            assert Mark(mark_path(path)).read() == progress_of(path)


async def test_another_program_may_come_and_go_between_two_checks(tmp_path: Path) -> None:
    """The last one to close a database deletes its log; only locks say which one is the last."""
    path = tmp_path / "coterie.db"
    async with SqliteStore(path) as store:
        lease = await filled(store)
        os.utime(path, ns=(1, 1))
        await store.append(lease, [(b"a", b"1")])  # The files are looked at.
        visit = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version')"
        visitor = await asyncio.create_subprocess_exec(sys.executable, "-c", visit, str(path))
        assert await visitor.wait() == 0
        await store.append(lease, [(b"b", b"1")])
        assert len(await store.load(0)) == RECORDS + 2


async def test_unacknowledged_write_is_not_missed(tmp_path: Path) -> None:
    """A write that went to a deleted log was refused, so the next start does not miss it."""
    path, disk = tmp_path / "coterie.db", Disk()
    async with SqliteStore(path, connect=disk.connect) as store:
        lease = await filled(store)
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint")
        shutil.copy(path, tmp_path / "saved.db")
        shutil.copy(mark_path(path), mark_path(tmp_path / "saved.db"))
        disk.meanwhile("COMMIT", log_of(path).unlink)
        with pytest.raises(StoreError, match="is gone"):
            await store.append(lease, [(b"a", b"1")])
        shutil.copy(mark_path(path), mark_path(tmp_path / "saved.db"))
    async with SqliteStore(tmp_path / "saved.db") as store:
        assert len(await store.load(0)) == RECORDS


async def test_a_store_behind_a_link_is_watched(tmp_path: Path) -> None:
    path, file = tmp_path / "coterie.db", tmp_path / "disk" / "store.db"
    file.parent.mkdir()
    path.symlink_to(file)
    async with SqliteStore(path) as store:
        lease = await filled(store)
        os.utime(file, ns=(1, 1))
        await store.append(lease, [(b"a", b"1")])
        log_of(file).unlink()
        with pytest.raises(StoreError, match=r"store\.db-wal is gone"):
            await store.append(lease, [(b"b", b"1")])


async def test_a_name_is_taken_whichever_link_leads_to_the_store(tmp_path: Path) -> None:
    """Two processes under one name would take each other's shards."""
    path, link = tmp_path / "coterie.db", tmp_path / "link.db"
    link.symlink_to(path)
    async with SqliteStore(path) as store, SqliteStore(link) as other:
        await store.reserve("node-1", TTL_MS)
        with pytest.raises(OwnerTakenError):
            await other.reserve("node-1", TTL_MS)
