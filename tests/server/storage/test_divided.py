"""Stores in several files: what is where, what is lost with which, and how one is divided."""

import asyncio
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest

from coterie_server.storage import (
    DividedStore,
    FencedError,
    Lease,
    SqliteStore,
    StoreError,
    division,
)
from coterie_server.storage.division import divide

TTL_MS = 10_000
SHARDS = range(-1, 7)


def shards_in(path: Path) -> Counter[int]:
    """How many records of which shards are in a file."""
    with closing(sqlite3.connect(path)) as connection:
        return Counter(shard for (shard,) in connection.execute("SELECT shard FROM records"))


async def fill(store: DividedStore | SqliteStore) -> list[Lease]:
    """Put two records into each shard."""
    async with store:
        await store.agree("shards", "7")
        leases = await store.claim(SHARDS, "ann", TTL_MS)
        for lease in leases:
            await store.append(lease, [(b"a", b"%d" % lease.shard), (b"b", b"b")])
    return leases


async def content(store: DividedStore) -> list[object]:
    """What is in each shard, and which leases there are."""
    async with store:
        survey = await store.survey()
        held = [(each.shard, each.fence, each.owner) for each in survey.leases]
        return [*[await store.load(shard) for shard in SHARDS], held]


def test_each_file_has_its_shards(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    assert set(shards_in(tmp_path / "c.db")) == {-1}
    assert set(shards_in(tmp_path / "c-1-of-2.db")) == {0, 2, 4, 6}
    assert set(shards_in(tmp_path / "c-2-of-2.db")) == {1, 3, 5}


def test_number_of_files_is_that_of_the_beginning(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    before = asyncio.run(content(DividedStore(tmp_path / "c.db", files=3)))
    assert before == asyncio.run(content(DividedStore(tmp_path / "c.db")))
    assert not (tmp_path / "c-1-of-3.db").exists()


def test_store_of_one_file_stays_one(tmp_path: Path) -> None:
    asyncio.run(fill(SqliteStore(tmp_path / "c.db")))
    asyncio.run(content(DividedStore(tmp_path / "c.db", files=2)))
    assert set(shards_in(tmp_path / "c.db")) == set(SHARDS)
    assert not list(tmp_path.glob("c-*.db"))


def test_writers_of_different_files_do_not_wait(tmp_path: Path) -> None:
    async def run() -> None:
        async with DividedStore(tmp_path / "c.db", files=2) as store:
            (lease,) = await store.claim([1], "ann", TTL_MS)
            with closing(sqlite3.connect(tmp_path / "c-1-of-2.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                async with asyncio.timeout(2):
                    await store.append(lease, [(b"a", b"1")])

    asyncio.run(run())


@pytest.mark.parametrize("lost", ["c.db", "c-1-of-2.db"])
def test_file_that_is_gone_is_missed(tmp_path: Path, lost: str) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    (tmp_path / lost).unlink()
    with pytest.raises(StoreError, match=f"{lost} is gone"):
        asyncio.run(content(DividedStore(tmp_path / "c.db")))


def test_part_that_is_gone_with_its_mark_is_missed(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    for path in tmp_path.glob("c-2-of-2.db*"):
        path.unlink()
    with pytest.raises(StoreError, match=r"c-2-of-2\.db is not the file that belongs to"):
        asyncio.run(content(DividedStore(tmp_path / "c.db")))


@pytest.mark.parametrize("left", ["nothing", "an empty file"])
@pytest.mark.parametrize("files", [1, 2])
def test_main_file_that_is_gone_with_its_mark_is_missed(
    tmp_path: Path, left: str, files: int
) -> None:
    """It would be begun anew without topics, and groups drop the offsets of those that are gone."""
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    for path in tmp_path.glob("c.db*"):
        path.unlink()
    if left == "an empty file":
        (tmp_path / "c.db").touch()
    divide(tmp_path / "c.db", files)  # which makes no store of it
    with pytest.raises(StoreError, match=r"c\.db is gone, .*c-1-of-2\.db is there"):
        asyncio.run(content(DividedStore(tmp_path / "c.db", files=files)))


@pytest.mark.parametrize("files", ["many", "0", "-1", "1.5"])
def test_number_of_files_that_is_none_is_called_damage(tmp_path: Path, files: str) -> None:
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path, files=2)))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE agreed SET value = ? WHERE name = 'files'", (files,))
    for use in (lambda: asyncio.run(content(DividedStore(path))), lambda: divide(path, 4)):
        with pytest.raises(StoreError, match=r"damaged \(it does not say of how many files"):
            use()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agreed SET value = '1' WHERE name = 'files'",
        "UPDATE agreed SET value = '2' WHERE name = 'files'",
        "DELETE FROM agreed WHERE name = 'files'",
    ],
)
def test_fewer_files_than_there_were_are_called_damage(tmp_path: Path, change: str) -> None:
    """What is in the others would pass for gone, and dividing would write over them."""
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path, files=3)))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(change)
    for use in (lambda: asyncio.run(content(DividedStore(path))), lambda: divide(path, 3)):
        with pytest.raises(StoreError, match=r"damaged \(it does not say of how many files"):
            use()


def test_part_of_another_store_is_refused(tmp_path: Path) -> None:
    for name in ("x", "y"):
        asyncio.run(fill(DividedStore(tmp_path / name / "c.db", files=2)))
    for path in (tmp_path / "x").glob("c-2-of-2.db*"):
        shutil.copy(path, tmp_path / "y" / path.name)
    with pytest.raises(StoreError, match="is not the file that belongs to"):
        asyncio.run(content(DividedStore(tmp_path / "y" / "c.db")))


def test_accepted_loss_of_a_part_is_accepted_for_good(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    for path in tmp_path.glob("c-2-of-2.db*"):
        path.unlink()

    async def accept() -> None:
        async with DividedStore(tmp_path / "c.db", accept_loss=True) as store:
            await store.accept_loss()

    asyncio.run(accept())
    found = asyncio.run(content(DividedStore(tmp_path / "c.db")))
    assert [bool(shard) for shard in found[:-1]] == [
        shard % 2 == 0 or shard < 0 for shard in SHARDS
    ]


def test_parts_are_found_where_only_the_main_file_is_lost(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=2)))
    for path in tmp_path.glob("c.db*"):
        path.unlink()

    async def accept() -> None:
        async with DividedStore(tmp_path / "c.db", accept_loss=True) as store:
            await store.accept_loss()

    asyncio.run(accept())
    found = asyncio.run(content(DividedStore(tmp_path / "c.db")))
    assert all(found[1:-1])


@pytest.mark.parametrize(("before", "files"), [(1, 2), (2, 3), (1, 4)])
def test_divided_store_holds_the_same(tmp_path: Path, before: int, files: int) -> None:
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path, files=before)))
    held = asyncio.run(content(DividedStore(path)))
    divide(path, files)
    assert set(shards_in(path)) == {-1}
    assert asyncio.run(content(DividedStore(path))) == held
    assert len(list(tmp_path.glob("c-*.db"))) == files  # and none of those before


def test_store_is_divided_by_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `--data-dir` is, unless something else is said."""
    monkeypatch.chdir(tmp_path)
    path = Path("c.db")
    asyncio.run(fill(DividedStore(path)))
    held = asyncio.run(content(DividedStore(path)))
    divide(path, 2)
    assert asyncio.run(content(DividedStore(path))) == held
    divide(path, 2)


def test_fences_outlast_a_division(tmp_path: Path) -> None:
    leases = asyncio.run(fill(DividedStore(tmp_path / "c.db")))
    divide(tmp_path / "c.db", 2)

    async def write() -> None:
        async with DividedStore(tmp_path / "c.db") as store:
            (after,) = await store.claim([3], "ann", TTL_MS)
            before = next(lease for lease in leases if lease.shard == 3)
            assert after.fence > before.fence
            with pytest.raises(FencedError):
                await store.append(before, [(b"a", b"late")])

    asyncio.run(write())


def test_store_is_never_put_into_fewer_files(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db", files=3)))
    divide(tmp_path / "c.db", 2)
    assert (tmp_path / "c-1-of-3.db").exists()
    assert not (tmp_path / "c-1-of-2.db").exists()


def test_new_store_is_left_to_who_opens_it(tmp_path: Path) -> None:
    divide(tmp_path / "c.db", 2)
    assert not list(tmp_path.iterdir())


def test_damaged_store_is_not_divided(tmp_path: Path) -> None:
    asyncio.run(fill(DividedStore(tmp_path / "c.db")))
    with closing(sqlite3.connect(tmp_path / "c.db")) as connection:
        connection.execute("UPDATE records SET value = x'00' WHERE shard = 2")
        connection.commit()
    with pytest.raises(StoreError, match="is damaged"):
        divide(tmp_path / "c.db", 2)
    assert set(shards_in(tmp_path / "c.db")) == set(SHARDS)


def test_store_that_lacks_a_part_is_not_divided(tmp_path: Path) -> None:
    """The start would go on without the part's groups, as if there had been none."""
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path, files=2)))
    for each in tmp_path.glob("c-2-of-2.db*"):
        each.unlink()
    with pytest.raises(StoreError, match=r"c-2-of-2\.db is not the file that belongs to"):
        divide(path, 3)
    assert not list(tmp_path.glob("c-*-of-3.db"))
    assert not (tmp_path / "c-2-of-2.db").exists()  # the right one can be put there


def test_store_with_a_part_of_another_is_not_divided(tmp_path: Path) -> None:
    for name in ("x", "y"):
        asyncio.run(fill(DividedStore(tmp_path / name / "c.db", files=2)))
    for each in (tmp_path / "x").glob("c-2-of-2.db*"):
        shutil.copy(each, tmp_path / "y" / each.name)
    with pytest.raises(StoreError, match="is not the file that belongs to"):
        divide(tmp_path / "y" / "c.db", 3)


def test_store_whose_parts_were_not_all_begun_is_divided(tmp_path: Path) -> None:
    """As a process leaves it that is killed amid its first start."""
    path = tmp_path / "c.db"

    async def begin() -> None:
        async with SqliteStore(path) as store:
            assert await store.agree_on_files(2) == 2

    asyncio.run(begin())
    divide(path, 3)
    asyncio.run(fill(DividedStore(path)))
    assert set(shards_in(tmp_path / "c-1-of-3.db")) == {0, 3, 6}


@pytest.mark.parametrize("files", [1, 2])
def test_store_in_use_is_not_divided(tmp_path: Path, files: int) -> None:
    """A node that uses the store by its name has the groups in the files that there were."""
    path = tmp_path / "c.db"
    held = asyncio.run(fill(DividedStore(path, files=files)))

    async def use() -> None:
        async with DividedStore(path) as store:
            await store.reserve("node-9", TTL_MS)
            with pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
                divide(path, 3)
            lease = next(each for each in held if each.shard == SHARDS[3])
            await store.append(lease, [(b"a", b"after")])

    asyncio.run(use())
    divide(path, 3)
    assert (b"a", b"after") in asyncio.run(content(DividedStore(path)))[3]  # type: ignore[operator]


def test_store_that_a_node_comes_to_meanwhile_is_not_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may even have gone again: what it wrote is where the division looked before."""
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path)))

    async def come_and_go() -> None:
        async with DividedStore(path) as store:
            await store.reserve("node-9", TTL_MS)
            (lease,) = await store.claim([3], "ann", TTL_MS)
            await store.append(lease, [(b"a", b"after")])

    sync = division._sync_folder  # noqa: SLF001  # as what is done before it counts

    def meanwhile(folder: Path) -> None:
        sync(folder)
        asyncio.run(come_and_go())

    monkeypatch.setattr(division, "_sync_folder", meanwhile)
    with pytest.raises(StoreError, match="in use by another process"):
        divide(path, 2)
    monkeypatch.undo()
    divide(path, 2)
    assert (b"a", b"after") in asyncio.run(content(DividedStore(path)))[4]  # type: ignore[operator]


@pytest.mark.parametrize("files", [1, 2])
def test_node_that_opened_a_store_before_it_was_divided_does_not_use_it(
    tmp_path: Path, files: int
) -> None:
    """It would write where no other node reads."""
    path = tmp_path / "c.db"
    asyncio.run(fill(DividedStore(path, files=files)))

    async def run() -> None:
        async with DividedStore(path) as store:
            divide(path, 3)
            with pytest.raises(StoreError, match="was divided into 3 files"):
                await store.reserve("node-9", TTL_MS)
        async with DividedStore(path) as store:
            await store.reserve("node-9", TTL_MS)

    asyncio.run(run())


def test_store_of_nodes_that_were_killed_is_divided(tmp_path: Path) -> None:
    """Their leases are not over yet, but no process has their names."""
    path = tmp_path / "c.db"

    async def run() -> None:
        async with DividedStore(path) as store:
            await store.agree("shards", "7")
            await store.reserve("node-1", TTL_MS)
            await store.renew("node-1", b"", await store.claim(SHARDS, "node-1", TTL_MS), TTL_MS)

    asyncio.run(run())
    (tmp_path / "c.db-node-1.lock").write_text("12345")
    divide(path, 2)
    assert (tmp_path / "c-2-of-2.db").exists()


@pytest.mark.parametrize("step", ["_fill", "_sync_folder", "_write_mark", "_delete"])
def test_division_that_breaks_off_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At whichever call of a step it is; the next start goes on with what is there."""
    for number in range(4):
        path = tmp_path / str(number) / "c.db"
        asyncio.run(fill(DividedStore(path)))
        held = asyncio.run(content(DividedStore(path)))
        real, left = getattr(division, step), iter(range(number))

        def broken(*arguments: object, real: object = real, left: object = left) -> object:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise OSError(os.strerror(5))
            return real(*arguments)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(division, step, broken)
            with suppress(StoreError):
                divide(path, 2)
        assert asyncio.run(content(DividedStore(path))) == held
        divide(path, 2)
        assert asyncio.run(content(DividedStore(path))) == held


def test_store_that_must_exist_is_not_begun(tmp_path: Path) -> None:
    store = DividedStore(tmp_path / "deep" / "c.db", files=2, must_exist=True)
    with pytest.raises(StoreError, match=r"c\.db is gone, and another store can't be begun"):
        asyncio.run(content(store))
    assert not list(tmp_path.iterdir())
    asyncio.run(fill(DividedStore(tmp_path / "deep" / "c.db", files=2)))
    assert asyncio.run(content(store))[0]
