"""The stores that the contract is held against, and a watch on what they leave behind."""

import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from coterie_server.storage import DividedStore, MemoryStore, SqliteStore, Store, StoreError
from tests.server.storage.doubles import Another, Disk, Failing, Passes, Time, disk_error
from tests.support.brittle_store import BrittleStore

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


@pytest.fixture
def passes(clock: Time) -> Passes:
    """Return what lets time pass for the store."""
    return clock.passes


@pytest.fixture(params=["memory", "sqlite", "divided"])
def another(request: pytest.FixtureRequest, tmp_path: Path, clock: Time) -> Another:
    """Return what makes stores of one and the same content, for each kind of store."""
    if request.param == "memory":
        return MemoryStore(clock.now_ms).twin
    if request.param == "divided":
        return lambda: DividedStore(tmp_path / "coterie.db", files=2, now_ms=clock.now_ms)
    return lambda: SqliteStore(tmp_path / "coterie.db", now_ms=clock.now_ms)


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


@pytest_asyncio.fixture(params=["brittle", "sqlite"])
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
    else:
        disk = Disk()
        async with SqliteStore(tmp_path / "failing.db", connect=disk.connect) as store:
            yield Failing(store, lambda: disk.fail("COMMIT", disk_error()), disk.mend)
