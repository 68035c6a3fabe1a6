"""The stores that the contract is held against, and a watch on what they leave behind."""

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from coterie_server.storage import DividedStore, MemoryStore, SqliteStore, Store, StoreError
from coterie_server.storage.postgres import PostgresStore
from tests.server.storage.doubles import (
    Another,
    Database,
    Disk,
    Failing,
    Passes,
    Time,
    disk_error,
)
from tests.support.brittle_store import BrittleStore
from tests.support.postgres_server import PostgresServer
from tests.support.tcp_proxy import TcpProxy

OPEN_FILES = Path("/proc/self/fd")  # Linux only; elsewhere only the threads are watched


def store_files(folder: Path) -> list[Path]:
    """Return the files under a folder that this process has open."""
    if not OPEN_FILES.exists():
        return []
    targets = []
    for link in OPEN_FILES.iterdir():
        try:
            targets.append(link.readlink())
        except FileNotFoundError:  # the listing's own descriptor
            continue
    return [target for target in targets if target.is_relative_to(folder)]


@pytest.fixture(autouse=True)
def nothing_leaks(tmp_path: Path) -> Iterator[None]:
    """Fail a test that leaves a thread or an open file behind."""
    before = set(threading.enumerate())
    yield
    assert [thread for thread in threading.enumerate() if thread not in before] == []
    assert store_files(tmp_path) == []


@pytest.fixture
def clock() -> Time:
    """Return the clock of the stores that look at one of this machine."""
    return Time()


@pytest.fixture(params=["memory", "sqlite", "divided", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return which kind of store it is."""
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture
def schema() -> str:
    """Return the schema of a store in PostgreSQL."""
    return f"test_{uuid4().hex[:12]}"


@pytest.fixture
def passes(kind: str, clock: Time, schema: str, request: pytest.FixtureRequest) -> Passes:
    """Return what lets time pass for the store."""
    if kind == "postgres":
        return Database(request.getfixturevalue("postgres").url(), schema).passes
    return clock.passes


@pytest.fixture
def another(
    kind: str, tmp_path: Path, clock: Time, schema: str, request: pytest.FixtureRequest
) -> Another:
    """Return what makes stores of one and the same content, for each kind of store."""
    if kind == "memory":
        return MemoryStore(clock.now_ms).twin
    if kind == "divided":
        return lambda: DividedStore(tmp_path / "coterie.db", files=2, now_ms=clock.now_ms)
    if kind == "sqlite":
        return lambda: SqliteStore(tmp_path / "coterie.db", now_ms=clock.now_ms)
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda: PostgresStore(server.url(schema=schema))


@pytest_asyncio.fixture
async def store(another: Another) -> AsyncIterator[Store]:
    """Return an open, empty store."""
    async with another() as opened:
        yield opened


@pytest_asyncio.fixture
async def other(another: Another) -> AsyncIterator[Store]:
    """Return a second open store of the same content."""
    async with another() as opened:
        yield opened


@pytest_asyncio.fixture(params=["brittle", "sqlite", "postgres"])
async def failing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Failing]:
    """Return an open store whose appends can be made to fail, of each kind that can."""
    if request.param == "brittle":
        brittle = BrittleStore()
        async with brittle:
            yield Failing(
                brittle,
                lambda: setattr(brittle, "error", StoreError("the disk failed")),
                lambda: setattr(brittle, "error", None),
            )
    elif request.param == "sqlite":
        disk = Disk()
        async with SqliteStore(tmp_path / "failing.db", connect=disk.connect) as store:
            yield Failing(store, lambda: disk.fail("COMMIT", disk_error()), disk.mend)
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        schema = request.getfixturevalue("schema")
        async with (
            TcpProxy(server.port) as proxy,
            PostgresStore(server.url(proxy.port, schema=schema, connect_timeout="1")) as distant,
        ):
            yield Failing(distant, proxy.break_down, proxy.mend)
