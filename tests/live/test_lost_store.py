"""A daemon whose store is damaged, swapped or deleted says so, and never answers as if it were not.

The store's own tests try more kinds of damage; these see what an operator sees.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.live.daemon import Daemon, DaemonError, eventually
from tests.live.wire import LOOK_AGAIN, Wire, join_request, run

pytestmark = pytest.mark.slow

GROUPS = 40


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon of its own, which a test may leave in any state."""
    daemon = Daemon(tmp_path, topics={"t": 1}, settings={"shard.lease.ms": 3000})
    daemon.start()
    yield daemon
    daemon.kill()


async def _commit(port: int, group: str, offset: int) -> ErrorCode:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=None
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=(partition,))
    wire = await Wire.open(port)
    answer = await wire.ask(m.OffsetCommitRequest(group_id=group, topics=(topic,)), 7)
    wire.close()
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def commit(daemon: Daemon, group: str, offset: int) -> ErrorCode:
    """Commit as a client that is in no generation."""
    return run(_commit(daemon.port, group, offset))


def fill(daemon: Daemon) -> None:
    """Commit something in each of many groups."""
    for number in range(GROUPS):
        assert commit(daemon, f"g{number}", number) == ErrorCode.NONE


def refused(daemon: Daemon) -> str:
    """What it says as it does not start."""
    with pytest.raises(DaemonError, match="exited with 1") as caught:
        daemon.start()
    return str(caught.value)


def readiness(daemon: Daemon) -> str:
    """Why it is not ready; empty if it is."""
    try:
        daemon.get("/readyz")
    except urllib.error.HTTPError as error:
        said: str = json.loads(error.read())["message"]
        return said
    return ""


def store_of(daemon: Daemon, suffix: str = "") -> Path:
    """One of the store's files."""
    return daemon.data_dir / f"coterie.db{suffix}"


def journal_of(daemon: Daemon) -> list[str]:
    """What it has written down."""
    files = sorted((daemon.data_dir / "journal").iterdir())
    return [line for file in files for line in file.read_text("utf-8").splitlines()]


def test_damaged_log_stops_the_next_start(daemon: Daemon) -> None:
    fill(daemon)
    daemon.kill()
    log = store_of(daemon, "-wal")
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 2))
    said = refused(daemon)
    assert "has lost what was acknowledged" in said
    assert "--accept-data-loss" in said
    assert "has lost" in refused(daemon)  # the first refusal took nothing away


def test_older_store_is_refused_by_what_the_journal_knows(daemon: Daemon) -> None:
    assert commit(daemon, "g", 1) == ErrorCode.NONE
    daemon.stop()
    backup = daemon.data_dir / "backup"
    shutil.copy(store_of(daemon), backup)
    daemon.start()
    assert commit(daemon, "g", 2) == ErrorCode.NONE
    daemon.stop()
    shutil.copy(backup, store_of(daemon))
    store_of(daemon, "-mark").unlink()
    lines = journal_of(daemon)
    said = refused(daemon)
    assert "by the journal, the offset of group 'g' for t[0] is older than the last commit" in said
    assert journal_of(daemon) == lines  # which would tell of a past that never was


@pytest.mark.parametrize("what", ["group", "offset", "topic"])
def test_deleted_groups_are_not_missed_at_the_start(daemon: Daemon, what: str) -> None:
    assert commit(daemon, "g", 1) == ErrorCode.NONE
    daemon.stop()
    journal = daemon.data_dir / "journal"
    shutil.copytree(journal, daemon.data_dir / "earlier")
    daemon.start()
    run(_delete(daemon.port, what))
    daemon.kill()
    shutil.rmtree(journal)
    (daemon.data_dir / "earlier").rename(journal)
    daemon.start()
    assert readiness(daemon) == ""


async def _delete(port: int, what: str) -> None:
    """Delete the group, its offset, or the topic that it is of."""
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    topic = m.OffsetDeleteRequestTopic(name="t", partitions=(partition,))
    requests: dict[str, tuple[Any, int]] = {
        "group": (m.DeleteGroupsRequest(groups_names=("g",)), 2),
        "offset": (m.OffsetDeleteRequest(group_id="g", topics=(topic,)), 0),
        "topic": (m.DeleteTopicsRequest(topic_names=("t",), timeout_ms=30_000), 4),
    }
    wire = await Wire.open(port)
    answer = await wire.ask(*requests[what])
    wire.close()
    assert "error_code=0" in repr(answer)


def test_accepted_loss_holds_for_all_groups_and_later_starts(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, topics={"t": 1})
    with daemon:
        fill(daemon)
    store_of(daemon).unlink()
    said = refused(daemon)
    assert "is gone" in said
    accepting = Daemon(tmp_path, topics={"t": 1}, arguments=("--accept-data-loss",))
    with accepting:
        run(_form(accepting.port))
        assert accepting.group("fresh")["generation"] > 1_000_000
        assert "start it without --accept-data-loss" in accepting.log()
    with daemon:
        assert readiness(daemon) == ""


async def _form(port: int) -> None:
    """Have a group with a member."""
    wire = await Wire.open(port)
    join = join_request("fresh", session_ms=10_000, rebalance_ms=10_000)
    assert (await wire.ask(join, 3)).error_code == ErrorCode.NONE
    wire.close()


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_deleted_store_is_noticed_at_the_next_write(daemon: Daemon, suffix: str) -> None:
    assert commit(daemon, "g", 1) == ErrorCode.NONE
    assert readiness(daemon) == ""
    store_of(daemon, suffix).unlink()
    assert commit(daemon, "g", 2) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "can't be served" in readiness(daemon)
    assert "is gone" in readiness(daemon)


def test_deleted_store_is_noticed_without_writes(daemon: Daemon) -> None:
    """The leases on its shards have to be renewed."""
    store_of(daemon).unlink()
    eventually(lambda: "is gone" in readiness(daemon), "the daemon takes itself for ready")


def test_store_takes_only_one_process_of_a_name(daemon: Daemon, tmp_path: Path) -> None:
    """Two data directories alone do not keep two processes from naming the same store."""
    store = f"sqlite:{store_of(daemon)}"
    other = Daemon(tmp_path / "other", arguments=("--store", store))
    with pytest.raises(DaemonError, match=r"in use as node-1 by process \d+"):
        other.start()
    assert commit(daemon, "g", 1) == ErrorCode.NONE


def test_daemon_that_lost_its_shards_answers_for_none_of_them(
    daemon: Daemon, tmp_path: Path
) -> None:
    """It was suspended for longer than its leases last, and another node took them."""
    assert commit(daemon, "g", 1) == ErrorCode.NONE
    os.kill(daemon.process.pid, signal.SIGSTOP)
    store = f"sqlite:{store_of(daemon)}"
    other = Daemon(tmp_path / "other", arguments=("--store", store), settings={"node.id": 2})
    try:
        other.start()
        eventually(lambda: commit(other, "g", 2) == ErrorCode.NONE, "the leases never end")
        os.kill(daemon.process.pid, signal.SIGCONT)
        # If it was suspended while it asked for its leases, it can't tell yet who has the group.
        assert run(_beat(daemon.port)) in LOOK_AGAIN
        code, offset = run(_fetch(daemon.port))
        assert code in LOOK_AGAIN
        assert offset == -1
        assert commit(daemon, "g", 3) in LOOK_AGAIN
        # Some are given back to it by and by, and then it is the one to ask.
        both = (daemon.port, other.port)
        eventually(
            lambda: (ErrorCode.NONE, 2) in [run(_fetch(port)) for port in both], "2 is known"
        )
        eventually(lambda: readiness(daemon) == "", "it stays unready")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
        other.kill()


async def _beat(port: int) -> ErrorCode:
    wire = await Wire.open(port)
    beat = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    answer = await wire.ask(beat, 4)
    wire.close()
    return ErrorCode(answer.error_code)


async def _fetch(port: int) -> tuple[ErrorCode, int]:
    wire = await Wire.open(port)
    asked = m.OffsetFetchRequestTopic(name="t", partition_indexes=(0,))
    answer = await wire.ask(m.OffsetFetchRequest(group_id="g", topics=(asked,)), 5)
    wire.close()
    offset = answer.topics[0].partitions[0].committed_offset if answer.topics else -1
    return ErrorCode(answer.error_code), offset
