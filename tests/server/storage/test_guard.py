"""Whose writes the guard notices, and whose it takes for its own process's."""

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_server.storage import Lease, SqliteStore, StoreError, guard
from tests.server.storage.doubles import Disk

pytestmark = pytest.mark.asyncio

TTL_MS: Final = 10_000
FRAME: Final = 24 + 4096
BIG: Final = [(b"%04d" % number, b"x" * 1000) for number in range(200)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the store's file is."""
    return tmp_path / "coterie.db"


@pytest.fixture
def disk() -> Disk:
    """Return a disk that works until told otherwise."""
    return Disk()


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is filled with the files that the guard copies, to read them again."""
    copied: list[Any] = []
    copy = shutil.copyfileobj

    def counted(source: Any, to: Any) -> None:
        copied.append(source.name)
        copy(source, to)

    monkeypatch.setattr(shutil, "copyfileobj", counted)
    return copied


@contextlib.contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def log_of(path: Path) -> Path:
    """The write-ahead log."""
    return path.with_name(f"{path.name}-wal")


def rewrite(file: Path) -> None:
    """Write what a file has already, at a time of its own: clocks of file systems are coarse."""
    before = file.stat().st_mtime_ns
    with file.open("r+b") as opened:
        data = opened.read(100)
        opened.seek(0)
        opened.write(data)
    os.utime(file, ns=(1, before - 1_000_000_000))


async def filled(store: SqliteStore, shard: int = 0, node: str = "node-1") -> Lease:
    """Write some records, each in a transaction of its own."""
    (lease,) = await store.claim([shard], node, TTL_MS)
    for number in range(60):
        await store.append(lease, [(b"%04d" % number, b"value" * 40)])
    return lease


# What other programs write


async def test_each_write_of_another_program_is_noticed_however_soon_the_next_write_comes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SqliteStore(path) as store:
        lease = await filled(store)
        for number in range(10):
            rewrite(log_of(path))
            await store.append(lease, [(b"a", b"%d" % number)])
            await store.append(lease, [(b"b", b"%d" % number)])
    assert caplog.text.count("another program wrote to the store's log") == 10


async def test_frames_that_were_zeroed_are_noticed_at_the_very_next_write(path: Path) -> None:
    async with SqliteStore(path) as store:
        lease = await filled(store)
        with log_of(path).open("r+b") as log:
            log.seek(-20 * FRAME, os.SEEK_END)
            log.write(bytes(20 * FRAME))
        os.utime(log_of(path), ns=(1, 1))
        for _ in range(2):
            with pytest.raises(StoreError, match="its log breaks off at transaction"):
                await store.append(lease, [(b"a", b"1")])


async def test_a_write_before_one_that_is_refused_is_noticed(path: Path, disk: Disk) -> None:
    """What another program did is not taken for what a failed write has left."""
    async with SqliteStore(path, connect=disk.connect) as store:
        lease = await filled(store)
        os.truncate(log_of(path), log_of(path).stat().st_size - FRAME)
        disk.fail("BEGIN", sqlite3.OperationalError("disk I/O error"))
        with pytest.raises(StoreError, match="disk I/O error"):
            await store.append(lease, [(b"a", b"1")])
        disk.mend()
        with pytest.raises(StoreError, match="its log breaks off"):
            await store.claim([0], "node-1", TTL_MS)


async def test_a_copy_without_a_place_says_so_and_is_tried_again_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, copies: list[Any]
) -> None:
    def no_folder() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    async with SqliteStore(path) as store:
        lease = await filled(store)
        rewrite(log_of(path))
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", None)
            patch.setattr(tempfile, "_get_default_tempdir", no_folder)
            for _ in range(2):
                with pytest.raises(StoreError, match="checked: No usable temporary directory"):
                    await store.append(lease, [(b"a", b"1")])
        with pytest.raises(StoreError, match="No usable temporary directory"):
            await store.load(0)
        assert copies == []
        monkeypatch.setattr(guard, "_TRY_AGAIN_S", 0.0)
        (lease,) = await store.claim([0], "node-1", TTL_MS)
        await store.append(lease, [(b"a", b"1")])
    assert len(copies) == 2


# What a write of its own has left


async def test_what_a_failed_write_has_left_is_no_other_program_s(
    path: Path, copies: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk takes a part of what is written to the log."""
    async with SqliteStore(path) as store:
        await filled(store)
        leases = await store.claim(range(1, 4), "node-1", TTL_MS)
        size = log_of(path).stat().st_size
        with no_file_beyond(size + FRAME + 1000):
            for lease in leases:
                with pytest.raises(StoreError, match="the disk reports an error"):
                    await store.append(lease, BIG)
                assert log_of(path).stat().st_size == size + FRAME + 1000
                assert len(await store.load(0)) == 60
        (lease,) = await store.claim([1], "node-1", TTL_MS)
        await store.append(lease, BIG)
    assert copies == []
    assert "program" not in caplog.text


# What other processes write


async def test_another_process_s_commit_hides_no_later_write(
    path: Path, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """It came after a commit, before the files were looked at."""
    caplog.set_level("INFO")

    def join() -> None:
        with contextlib.closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE progress SET commits = commits + 1")

    async with SqliteStore(path, connect=disk.connect) as store:
        lease = await filled(store)
        disk.meanwhile("COMMIT", join)
        await store.append(lease, [(b"a", b"1")])
        await store.append(lease, [(b"b", b"1")])
        assert "did no damage" not in caplog.text
        rewrite(log_of(path))
        await store.append(lease, [(b"c", b"1")])
    assert caplog.text.count("did no damage") == 1


async def test_commit_that_another_process_did_not_end_is_no_other_program_s(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that is killed leaves a part of its last transaction in the log."""
    caplog.set_level("INFO")
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        lease = await filled(store)
        await filled(other, 1, "node-2")
        await store.append(lease, [(b"a", b"1")])
        with log_of(path).open("ab") as log:
            log.write(os.urandom(FRAME + 1000))
        await store.append(lease, [(b"b", b"1")])
    said = [record for record in caplog.records if "did no damage" in record.getMessage()]
    assert [record.levelname for record in said] == ["INFO"]


async def test_log_that_another_process_copies_after_its_commit_is_not_read_again(
    path: Path, copies: list[Any]
) -> None:
    """Where several write all the time, one or the other is always copying."""
    async with SqliteStore(path) as store, SqliteStore(path) as other:
        lease = await filled(store)
        elsewhere = await filled(other, 1, "node-2")
        with contextlib.closing(sqlite3.connect(path)) as copying:
            for _ in range(5):
                await other.append(elsewhere, [(b"a", b"1")])
                await store.append(lease, [(b"a", b"1")])
                copying.execute("PRAGMA wal_checkpoint")
                os.utime(path, ns=(1, time.time_ns()))
                await store.append(lease, [(b"b", b"1")])
    assert copies == []


async def test_store_that_is_closed_leaves_another_s_locks_in_its_process(path: Path) -> None:
    """Or the next program to close the database deleted the log, and nothing was served any more.

    Several nodes may run in a process, and each reads the files again that were written to.
    """
    async with SqliteStore(path) as store:
        (lease,) = await store.claim([0], "ann", TTL_MS)
        async with SqliteStore(path) as other:
            await run_python("file = open(path, 'r+b'); file.write(b'S')", path)
            await other.survey()
        await run_python(
            "import sqlite3; connection = sqlite3.connect(path);"
            " connection.execute('SELECT * FROM records').fetchall(); connection.close()",
            path,
        )
        await store.append(lease, [(b"a", b"1")])


async def run_python(code: str, path: Path) -> None:
    """Have another process do something to a file."""
    code = f"path = {str(path)!r}; {code}"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
