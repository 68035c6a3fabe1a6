"""A file that an earlier version wrote is brought up to date, or refused and left as it is."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from coterie_server.storage import SqliteStore, StoreError
from coterie_server.storage.damage import checksum
from coterie_server.storage.mark import Mark, Progress, mark_path
from coterie_server.storage.schema import APPLICATION_ID, SCHEMA_VERSION, open_database
from tests.server.storage.doubles import PATIENCE_S
from tests.support.processes import killed_on_error

STORE: Final = "0123456789abcdef0123456789abcdef"
COMMITS: Final = 40
RECORDS: Final = [(b"%04d" % number, b"value-%04d-" % number * 20) for number in range(200)]
TTL_MS: Final = 10_000
LONG_AGO_MS: Final = 1_700_000_000_000

#: What 0.1.0 made a file of.
VERSION_1: Final = (
    "PRAGMA journal_mode = WAL",
    "BEGIN IMMEDIATE",
    """
    CREATE TABLE records (
        shard INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (shard, key)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE leases (
        shard INTEGER NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL,
        owner TEXT NOT NULL, address TEXT NOT NULL, expires_ms INTEGER NOT NULL
    )
    """,
    "CREATE TABLE agreed (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE progress (store TEXT NOT NULL, commits INTEGER NOT NULL)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    "PRAGMA user_version = 1",
    "COMMIT",
)


def fill(connection: sqlite3.Connection) -> None:
    """Make a store as 0.1.0 did: shard 0 is held, and shard 1 was given up."""
    for statement in VERSION_1:
        connection.execute(statement)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO progress VALUES (?, ?)", (STORE, COMMITS))
    connection.execute("INSERT INTO agreed VALUES ('shards', '50')")
    connection.executemany(
        "INSERT INTO leases VALUES (?, ?, ?, ?, ?)",
        [(0, 7, "node-1", "here:9092", LONG_AGO_MS), (1, 5, "", "here:9092", LONG_AGO_MS)],
    )
    connection.executemany(
        "INSERT INTO records VALUES (0, ?, ?, ?)",
        [(key, value, checksum(0, key, value)) for key, value in RECORDS],
    )
    connection.execute("COMMIT")


def make(path: Path, *, killed: bool = False, marked: int = COMMITS) -> None:
    """Make a file as 0.1.0 left it behind, with everything in its log if it was killed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        fill(connection)
        if killed:
            shutil.copyfile(path, f"{path}-saved")
            shutil.copyfile(f"{path}-wal", f"{path}-wal-saved")
    if killed:
        Path(f"{path}-saved").replace(path)
        Path(f"{path}-wal-saved").replace(f"{path}-wal")
    mark = Mark(mark_path(path))
    mark.write(Progress(STORE, marked))
    mark.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file is."""
    return tmp_path / "coterie.db"


def version(path: Path) -> int:
    """Which version a file is of."""
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    assert isinstance(found, int)
    return found


async def assert_is_kept(path: Path) -> None:
    """Hold that a store has what was in the file of version 1, and can be used."""
    async with SqliteStore(path) as store:
        assert await store.load(0) == RECORDS
        assert await store.agree("shards", "7") == "50"
        survey = await store.survey()
        assert survey.nodes == ()
        assert [(each.shard, each.owner, each.fence.epoch) for each in survey.leases] == [
            (0, "node-1", 7)
        ]
        assert not any(each.is_valid for each in survey.leases)
        leases = await store.claim([0, 1, 2], "node-2", TTL_MS)
        assert [lease.fence.epoch for lease in leases] == [8, 6, 1]
        await store.append(leases[0], [(b"new", b"1")])
        assert [each.shard for each in await store.renew("node-2", b"", leases, TTL_MS)] == [
            0,
            1,
            2,
        ]


@pytest.mark.asyncio
@pytest.mark.parametrize("killed", [False, True])
async def test_version_1_is_brought_up_to_date(path: Path, *, killed: bool) -> None:
    make(path, killed=killed)
    await assert_is_kept(path)
    assert version(path) == SCHEMA_VERSION
    async with SqliteStore(path) as store:
        assert await store.load(0) == [*RECORDS, (b"new", b"1")]


def test_tables_are_those_of_a_new_file(path: Path) -> None:
    make(path)
    columns = []
    for file in (path, path.with_name("new.db")):
        with closing(open_database(file)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
            columns.append(
                {
                    name: connection.execute(f"PRAGMA table_info({name})").fetchall()
                    for (name,) in tables
                }
            )
    assert columns[0] == columns[1]


@pytest.mark.asyncio
async def test_interrupted_migration_begins_anew(path: Path) -> None:
    """It is one transaction."""
    make(path)

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            return super().execute("no SQL" if "CREATE TABLE nodes" in sql else sql, *rest)

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(name, factory=Failing, **options)

    with pytest.raises(StoreError, match="SQLite refused"):
        open_database(path, connect)
    assert version(path) == 1
    await assert_is_kept(path)


OPENER: Final = """
import sys
from pathlib import Path
from coterie_server.storage.schema import open_database

print("ready", flush=True)
for line in sys.stdin:
    open_database(Path(line.rstrip())).close()
    print("opened", flush=True)
"""


def test_two_processes_bring_a_file_up_to_date_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(20)]
    for path in paths:
        make(path)
    with ExitStack() as stack:
        openers = [
            stack.enter_context(
                killed_on_error(
                    subprocess.Popen(
                        [sys.executable, "-c", OPENER],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                        bufsize=1,
                    )
                )
            )
            for _ in range(2)
        ]
        for answer, file in [("ready", None), *[("opened", path) for path in paths]]:
            for opener in openers:
                assert opener.stdin is not None
                if file is not None:
                    opener.stdin.write(f"{file}\n")
            for opener in openers:
                assert opener.stdout is not None
                assert opener.stdout.readline() == f"{answer}\n"
        for opener in openers:
            opener.communicate(timeout=PATIENCE_S)
    for path in paths:
        assert version(path) == SCHEMA_VERSION
        with closing(open_database(path)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM records").fetchone()
            assert count == len(RECORDS)
            leases = connection.execute("SELECT shard, epoch, owner FROM leases").fetchall()
            assert leases == [(0, 7, "node-1"), (1, 5, "")]


# What is refused


def assert_is_refused(path: Path, sentence: str) -> None:
    """Hold that a file is refused and, with its log and mark, is left as it is."""
    files = [path, Path(f"{path}-wal"), mark_path(path)]
    before = [file.read_bytes() if file.exists() else b"" for file in files]
    with pytest.raises(StoreError, match=sentence):
        open_database(path)
    assert [file.read_bytes() if file.exists() else b"" for file in files] == before


def test_damaged_file_of_version_1_is_refused(path: Path) -> None:
    make(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\x5a" * 4096
    path.write_bytes(content)
    assert_is_refused(path, r"is damaged \(.+\): keep a copy .* restore a backup")


@pytest.mark.parametrize("killed", [False, True])
def test_file_of_version_1_that_is_behind_its_mark_is_refused(path: Path, *, killed: bool) -> None:
    make(path, killed=killed, marked=COMMITS + 1)
    assert_is_refused(path, rf"ends with transaction {COMMITS}, and there were {COMMITS + 1}")


def test_file_of_version_1_whose_log_is_gone_is_refused(path: Path) -> None:
    make(path, killed=True)
    Path(f"{path}-wal").unlink()
    assert_is_refused(path, "has lost what was acknowledged")
