"""Which files are opened, and which are refused."""

import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from coterie_server.storage import StoreError
from coterie_server.storage.damage import checksum
from coterie_server.storage.mark import Mark, Progress, mark_path
from coterie_server.storage.schema import APPLICATION_ID, SCHEMA_VERSION, open_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file is."""
    return tmp_path / "coterie.db"


def make(path: Path) -> None:
    """Make a file of the store with enough in it to be damaged."""
    with closing(open_database(path)) as connection:
        connection.executemany(
            "INSERT INTO records VALUES (0, ?, ?, ?)",
            [
                (key, value, checksum(0, key, value))
                for key, value in ((b"%04d" % number, b"x" * 500) for number in range(200))
            ],
        )


@contextmanager
def refused(path: Path, sentence: str) -> Iterator[None]:
    """Expect that the file as it is now is refused, and is not touched."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=sentence):
        yield
    assert path.read_bytes() == before


def test_new_file_is_marked(path: Path) -> None:
    with closing(open_database(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


def test_made_file_is_opened_again(path: Path) -> None:
    make(path)
    with closing(open_database(path)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (200,)


def test_several_that_begin_a_file_at_once_all_open_it(tmp_path: Path) -> None:
    """SQLite lets none of them wait for another that turns the write-ahead log on."""
    at_once = Barrier(3)

    def begin(number: int) -> None:
        at_once.wait()
        open_database(tmp_path / f"{number}.db").close()

    with ThreadPoolExecutor(at_once.parties) as threads:
        for number in range(20):
            list(threads.map(begin, [number] * at_once.parties))


def test_log_that_goes_as_it_is_looked_at_is_not_one_that_can_not_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of the processes that share a store deletes it when it closes the file."""
    make(path)
    log = path.with_name("coterie.db-wal")
    log.touch()
    access = os.access

    def late(each: Path, mode: int) -> bool:
        if each == log:
            log.unlink(missing_ok=True)
        return access(each, mode)

    monkeypatch.setattr(os, "access", late)
    open_database(path).close()


def test_empty_file_is_a_new_one(path: Path) -> None:
    """A process that was killed before it wrote anything leaves one."""
    path.touch()
    with closing(open_database(path)) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)


def test_file_of_a_later_version_is_refused(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with refused(
        path,
        r"was written by a later version of Coterie \(schema 3; this one reads 2\): "
        r"start that version, or name another file for the store$",
    ):
        open_database(path)


def test_file_that_a_later_version_takes_meanwhile_is_refused(path: Path) -> None:
    path.touch()

    class Late(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            if sql.startswith("BEGIN"):
                make(path)
                with closing(sqlite3.connect(path)) as other:
                    other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
            return super().execute(sql, *rest)

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(name, factory=Late, **options)

    with pytest.raises(StoreError, match="by a later version of Coterie"):
        open_database(path, connect)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION + 1,)


def test_file_that_could_not_be_finished_is_made_the_next_time(path: Path) -> None:
    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            return super().execute("no SQL" if "CREATE TABLE progress" in sql else sql, *rest)

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(name, factory=Failing, **options)

    with pytest.raises(StoreError, match="SQLite refused"):
        open_database(path, connect)
    make(path)


def test_database_of_another_program_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (what TEXT)")
    with refused(path, "is a database of another program, .*: name another file for the store$"):
        open_database(path)


def test_file_that_never_was_a_store_is_not_called_a_damaged_one(path: Path) -> None:
    """Its name was given by mistake; it has no log and no mark that could be kept or restored."""
    path.write_bytes(b"root:x:0:0:root:/root:/bin/bash\n" * 100)
    with refused(path, "is not a database, and Coterie leaves it alone: name another file"):
        open_database(path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("left", ["its mark", "its first bytes"])
def test_store_that_is_overwritten_is_called_damaged(path: Path, left: str) -> None:
    path.write_bytes(b"SQLite format 3\0" * (left != "its mark") + b"not a database" * 1000)
    if left == "its mark":
        with closing(Mark(mark_path(path))) as mark:
            mark.write(Progress("0" * 32, 7))
    with refused(path, r"is damaged \(file is not a database\): keep a copy .* restore a backup"):
        open_database(path)


def test_damaged_file_is_refused(path: Path) -> None:
    """Damage in the middle is found when the file is opened, and not when it is too late."""
    make(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = b"\x5a" * 4096
    path.write_bytes(content)
    with refused(path, r"is damaged \(.+\): keep a copy .* restore a backup"):
        open_database(path)


def test_file_that_was_cut_off_is_refused(path: Path) -> None:
    """As a copy that was interrupted is."""
    make(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with refused(path, r"is damaged \("):
        open_database(path)


def test_folders_are_made(path: Path) -> None:
    nested = path.parent / "new" / "data" / path.name
    open_database(nested).close()
    assert nested.exists()


def test_folder_that_cannot_be_made(path: Path) -> None:
    path.touch()
    with pytest.raises(StoreError, match=r"^cannot make the folder .*coterie\.db: File exists$"):
        open_database(path / "coterie.db")


def test_folder_in_place_of_the_file(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreError, match=r"coterie\.db is a folder"):
        open_database(path)


def test_file_system_without_write_ahead_log(path: Path) -> None:
    class Remote(sqlite3.Connection):
        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            asked_for_log = sql.startswith("PRAGMA journal_mode")
            return super().execute("SELECT 'delete'" if asked_for_log else sql, *rest)

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(name, factory=Remote, **options)

    with pytest.raises(StoreError, match=r"put the store on a local disk"):
        open_database(path, connect)


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
def test_file_that_may_not_be_written_is_named_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    (tmp_path / f"store.db{end}").touch()
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda found, _: found != tmp_path / f"store.db{end}")
    with pytest.raises(StoreError, match=f"store.db{end}: it cannot be written"):
        open_database(path)
    assert sorted(tmp_path.iterdir()) == before
