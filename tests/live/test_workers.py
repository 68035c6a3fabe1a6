"""`coterie serve --workers`: real processes that are started, killed and asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from coterie_client import Admin, Group, Partition
from coterie_protocol.journal import Line, RebalanceStarted
from coterie_server.journal import read_journal
from tests.live.commands import CommandRunner
from tests.live.daemon import HOST, Daemon, coterie, environment, eventually
from tests.live.member import CONFLUENT_COOPERATIVE, KAFKA_PYTHON_COOPERATIVE
from tests.live.portable_group import PortableGroup
from tests.live.wire import brokers, run
from tests.live.workers import WorkersDaemon, group_in, is_alive
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.slow

SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0}
#: A group of each worker.
FIRST, SECOND = group_in(0, prefix="a"), group_in(1, prefix="b")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersDaemon]:
    """Two workers."""
    folder = tmp_path_factory.mktemp("workers")
    with WorkersDaemon(folder, settings=SETTINGS, topics={"t": 4}) as daemon:
        commit(daemon, FIRST, 1)
        commit(daemon, SECOND, 1)
        eventually(lambda: know_each_other(daemon), "the workers know each other")
        yield daemon


def know_each_other(daemon: WorkersDaemon) -> bool:
    """Whether each worker names all: one that began first hears of the others when it looks."""
    ports = {number: daemon.port + number for number in range(1, daemon.workers + 1)}
    return all(brokers(port) == ports for port in ports.values())


def commit(daemon: Daemon, group: str, offset: int) -> None:
    """Set an offset of a group, which is made by that."""

    async def work() -> None:
        async with Admin(daemon.address) as admin:
            await admin.offsets.set(group, {("t", 0): offset})

    run(work())


def committed(daemon: Daemon, group: str) -> int | None:
    """An offset of a group."""

    async def work() -> int | None:
        async with Admin(daemon.address) as admin:
            found = await admin.offsets.fetch(group)
            return next((each.offset for key, each in found.items() if key == ("t", 0)), None)

    return run(work())


def rebalances(daemon: Daemon, group: str) -> int:
    """How many rebalances of a group the journal knows."""
    lines = read_journal(daemon.data_dir / "journal")
    events = (line.event for line in lines if isinstance(line, Line))
    return sum(isinstance(each, RebalanceStarted) and each.group == group for each in events)


# -- who has what ----------------------------------------------------------------------------------


def test_each_worker_is_a_node_with_a_port_of_its_own(daemon: WorkersDaemon) -> None:
    assert brokers(daemon.port) == {1: daemon.port + 1, 2: daemon.port + 2}
    assert f"2 workers on {HOST}:{daemon.port + 1}, {HOST}:{daemon.port + 2}" in daemon.log()


def test_shards_are_shared_by_files(daemon: WorkersDaemon) -> None:
    first, second = daemon.nodes()
    assert (first["node"], second["node"]) == (1, 2)
    assert first["shards"] == list(range(0, 50, 2))
    assert second["shards"] == list(range(1, 50, 2))
    assert all(node["ready"] for node in (first, second))


def test_shared_port_gives_connections_to_all_workers(daemon: WorkersDaemon) -> None:
    before = [daemon.figure("coterie_connections_accepted_total", f'node="{n}"') for n in (1, 2)]
    for _ in range(60):
        brokers(daemon.port)
    after = [daemon.figure("coterie_connections_accepted_total", f'node="{n}"') for n in (1, 2)]
    gained = [now - then for then, now in zip(before, after, strict=True)]
    assert sum(gained) >= 60  # none was lost to a socket that is only there to keep the port
    assert min(gained) >= 10


def test_second_daemon_is_told_that_the_port_is_taken(
    daemon: WorkersDaemon, tmp_path: Path
) -> None:
    failed = serve("--workers", "2", "--listen", daemon.address, "--data-dir", str(tmp_path / "d"))
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"coterie: can't listen on {daemon.address}: Address already")


def test_second_daemon_is_kept_out_of_the_directory(daemon: WorkersDaemon) -> None:
    for workers in ("1", "2"):
        failed = serve(
            *("--workers", workers, "--listen", f"{HOST}:0", "--http", "off"),
            *("--data-dir", str(daemon.data_dir)),
        )
        assert failed.returncode == 1
        assert f"is in use by process {daemon.process.pid}" in failed.stderr


# -- HTTP and commands -----------------------------------------------------------------------------


@pytest.fixture
def command(daemon: WorkersDaemon) -> CommandRunner:
    """Commands that are told where clients are served, and nothing else."""
    return CommandRunner(daemon.address)


def test_every_worker_answers_for_all_groups(daemon: WorkersDaemon) -> None:
    for port in (daemon.http_port, *(int(n["http"].rpartition(":")[2]) for n in daemon.nodes())):
        asked = Asked(port)
        assert [row["group"] for row in asked.json("/v1/groups")["groups"]] == [FIRST, SECOND]
        assert asked.json(f"/v1/groups/{FIRST}")["node"] == 1
        assert asked.json(f"/v1/groups/{SECOND}")["node"] == 2
        lines = asked.body("/v1/groups?format=jsonl").splitlines()
        assert {json.loads(line)["group"] for line in lines} == {FIRST, SECOND}
        assert asked.status("/readyz") == 200
        assert asked.status("/v1/groups/none") == 404
        assert asked.status(f"/v1/groups/{FIRST}/rebalance", post=True) == 409
        assert asked.status(f"/v1/groups/{SECOND}/rebalance", post=True) == 409


def test_pages_of_all_groups_follow_each_other(daemon: WorkersDaemon) -> None:
    first = json.loads(daemon.get("/v1/groups?limit=1"))
    assert [row["group"] for row in first["groups"]] == [FIRST]
    second = json.loads(daemon.get(f"/v1/groups?limit=1&after={first['next']}"))
    assert [row["group"] for row in second["groups"]] == [SECOND]
    assert second["next"] is None


def test_metrics_are_of_all_workers(daemon: WorkersDaemon) -> None:
    for node in (1, 2):
        assert daemon.figure("coterie_groups", f'node="{node}"') == 1
        assert daemon.figure("process_open_fds", f'node="{node}"') > 0
    text = daemon.get("/metrics").decode()
    assert text.count("# TYPE coterie_members gauge") == 1


def test_commands_find_groups_of_all_workers(command: CommandRunner) -> None:
    for _ in range(4):  # whichever worker they come to
        listed = command.json("groups", "list")
        assert [row["group"] for row in listed] == [FIRST, SECOND]
        for group in (FIRST, SECOND):
            assert command.json("groups", "describe", group)["group"] == group
            assert command.json("offsets", "show", group)
            assert command.json("groups", "why", group) == []


def test_groups_are_deleted_wherever_they_are(
    daemon: WorkersDaemon, command: CommandRunner
) -> None:
    both = [group_in(file, prefix="gone") for file in (0, 1)]
    for group in both:
        commit(daemon, group, 3)
    for group in both:
        command.run("groups", "delete", group)
    assert [row["group"] for row in command.json("groups", "list")] == [FIRST, SECOND]


def test_stock_admin_clients_see_all_groups(daemon: WorkersDaemon) -> None:
    confluent = AdminClient({"bootstrap.servers": daemon.address})
    listed = confluent.list_consumer_groups().result()
    assert not listed.errors
    assert {each.group_id for each in listed.valid} == {FIRST, SECOND}
    for group, described in confluent.describe_consumer_groups([FIRST, SECOND]).items():
        assert described.result().group_id == group
    kafka_python = KafkaAdminClient(bootstrap_servers=daemon.address)
    try:
        found = json.dumps(kafka_python.list_groups(), default=str)
        assert f'"{FIRST}"' in found
        assert f'"{SECOND}"' in found
    finally:
        kafka_python.close()


class Asked:
    """A worker's own HTTP port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def body(self, path: str, *, post: bool = False) -> bytes:
        """What it answers."""
        url = f"http://{HOST}:{self._port}{path}"
        request = urllib.request.Request(url, method="POST" if post else "GET")  # http
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 # http
            found: bytes = answer.read()
        return found

    def json(self, path: str) -> Any:
        """What it answers, read."""
        return json.loads(self.body(path))

    def status(self, path: str, *, post: bool = False) -> int:
        """The status of its answer."""
        try:
            self.body(path, post=post)
        except urllib.error.HTTPError as error:
            return error.code
        return 200


# -- death -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client", [KAFKA_PYTHON_COOPERATIVE, CONFLUENT_COOPERATIVE], ids=lambda c: c.name
)
def test_members_carry_on_when_their_worker_is_killed(tmp_path: Path, client: Any) -> None:
    with ExitStack() as stack:
        daemon = stack.enter_context(WorkersDaemon(tmp_path / "daemon", settings=SETTINGS))
        groups = []
        for file in (0, 1):
            name = group_in(file, prefix="work")
            group = PortableGroup(daemon.address, name, tmp_path / name, partitions=4)
            (tmp_path / name).mkdir()
            groups.append(stack.enter_context(group))
        for group in groups:
            group.settle(group.work("ours"))
            stock = group.start(client, "stock")
            ours = group.workers[0]
            group.calm(ours, stock)
        before = [(group.calm(*group.members), rebalances(daemon, group.group)) for group in groups]
        for node_id in (2, 1):  # also the one that has the topics
            daemon.kill_worker(node_id)
            killed_s = time.monotonic()
            for group in groups:
                acked = partial(group.acked_since, killed_s)
                group.wait_for(acked, "commits again")
        for group, (was, began) in zip(groups, before, strict=True):
            now = group.calm(*group.members)
            assert (now.generation, now.holders) == (was.generation, was.holders)
            assert rebalances(daemon, group.group) == began


def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    with WorkersDaemon(tmp_path) as daemon:
        pids = daemon.pids()
        assert set(pids) == {1, 2}
        os.kill(pids[2], signal.SIGSTOP)  # then it can't notice by itself
        daemon.kill()
        eventually(lambda: not any(map(is_alive, pids.values())), "the workers have ended")
        daemon.start()  # nothing is held any more


def test_others_take_the_groups_of_a_worker_that_hangs_until_it_is_started_again(
    tmp_path: Path,
) -> None:
    with WorkersDaemon(tmp_path, settings=SETTINGS, topics={"t": 1}) as daemon:
        commit(daemon, SECOND, 7)
        # Each names itself first, and a worker that has just begun knows of no other.
        eventually(lambda: know_each_other(daemon), "the workers know each other")
        (of_other,) = [each["http"] for each in daemon.nodes() if each["node"] == 1]
        other = Asked(int(of_other.rpartition(":")[2]))
        hangs = daemon.pids()[2]
        os.kill(hangs, signal.SIGSTOP)
        eventually(lambda: other.status(f"/v1/groups/{SECOND}") == 200, "it is taken over")
        assert other.json(f"/v1/groups/{SECOND}")["node"] == 1
        eventually(lambda: not is_alive(hangs), "it is killed")
        eventually(lambda: len(shards_of(other, 2)) == 25, "it has its share again")
        assert committed(daemon, SECOND) == 7


def test_members_of_ours_leave_a_worker_that_hangs(tmp_path: Path) -> None:
    """No connection breaks, as when a machine has lost its power, and yet they find the other."""
    at_once = SETTINGS | {"shard.lease.ms": 1_000}
    with WorkersDaemon(tmp_path, settings=at_once, topics={"t": 1}) as daemon:
        eventually(lambda: know_each_other(daemon), "the workers know each other")
        hangs = daemon.pids()[2]

        async def work(partition: Partition) -> None:
            await partition.commit(1)
            os.kill(hangs, signal.SIGSTOP)
            await partition.commit(2)
            assert is_alive(hangs)  # a worker that hangs for ten seconds is killed
            group.stop()

        async def join() -> None:
            async with asyncio.timeout(60), group:
                await group.run(work)

        group = Group(daemon.address, SECOND, topics=["t"])
        run(join())
        eventually(lambda: not is_alive(hangs), "it is killed")
        assert committed(daemon, SECOND) == 2


def shards_of(asked: Asked, node_id: int) -> list[int]:
    """The shards that a node has."""
    nodes = asked.json("/v1/nodes")["nodes"]
    return next((node["shards"] for node in nodes if node["node"] == node_id), [])


def test_worker_that_is_asked_to_end_is_started_again(tmp_path: Path) -> None:
    with WorkersDaemon(tmp_path) as daemon:
        before = daemon.pids()[1]
        os.kill(before, signal.SIGTERM)
        eventually(lambda: daemon.pids().get(1, before) != before, "it runs again")
        eventually(lambda: set(brokers(daemon.port)) == {1, 2}, "both serve")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_end_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    # It would wait for far longer than what it takes on a busy machine.
    patient = {"shutdown.timeout.ms": 600_000}
    with WorkersDaemon(tmp_path, topics={"t": 1}, settings=patient) as daemon:
        commit(daemon, FIRST, 5)
        pids = daemon.pids()
        daemon.stop(number)  # exit code 0, in time
        assert not any(map(is_alive, pids.values()))
        daemon.start()
        assert committed(daemon, FIRST) == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_to_all_processes_while_they_start_ends_them_in_good_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As a terminal sends SIGINT, and systemd SIGTERM."""
    daemon = WorkersDaemon(tmp_path, prefix=("setsid",))
    daemon.launch()
    try:
        eventually(lambda: set(daemon.pids()) == {1, 2}, "the workers' processes run")
        os.killpg(daemon.process.pid, number)
        assert daemon.process.wait(60.0) == 0
        assert "Traceback" not in daemon.log()
    finally:
        daemon.kill()


def test_ready_line_is_written_when_all_are_ready(tmp_path: Path) -> None:
    """Also into a file, which Python would fill in larger pieces."""
    with WorkersDaemon(tmp_path, environ={"PYTHONUNBUFFERED": ""}) as daemon:
        assert "2 workers on" in daemon.log()


def test_worker_is_started_again_though_its_topic_has_grown(tmp_path: Path) -> None:
    """To begin with it as it was told at first would be to shrink it."""
    with WorkersDaemon(tmp_path, topics={"t": 1}) as daemon:

        async def grow() -> None:
            async with Admin(daemon.address) as admin:
                await admin.topics.grow("t", 3)

        run(grow())
        before = daemon.pids()[2]
        daemon.kill_worker(2)
        eventually(lambda: set(brokers(daemon.port)) == {1, 2}, "both serve")
        eventually(lambda: len(daemon.nodes()) == 2, "both are there")
        assert daemon.pids()[2] != before
        assert daemon.log().count("is started again") == 1


def test_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    with WorkersDaemon(tmp_path, settings={"shutdown.timeout.ms": 600_000}) as daemon:
        pids = daemon.pids()
        os.kill(pids[2], signal.SIGSTOP)  # it will not end by itself
        daemon.process.send_signal(signal.SIGINT)
        # Two signals that a process has not come to see yet are one.
        eventually(lambda: not is_alive(pids[1]), "the other ends")
        assert daemon.process.poll() is None
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(60.0) == 130
        assert not any(map(is_alive, pids.values()))
        daemon.kill()  # which is over


def test_systemd_is_told_when_all_are_ready(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(60)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with WorkersDaemon(tmp_path, environ=environ):
            assert told.recv(100) == b"READY=1"
        assert told.recv(100) == b"STOPPING=1"
        told.settimeout(0.2)
        with pytest.raises(TimeoutError):
            told.recv(100)


# -- stores ----------------------------------------------------------------------------------------


def test_store_of_one_process_is_divided(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings=SETTINGS, topics={"t": 1}) as daemon:
        commit(daemon, FIRST, 11)
        commit(daemon, SECOND, 12)
    assert not (tmp_path / "data" / "coterie-1-of-2.db").exists()
    for workers in (2, 3, 2):
        with WorkersDaemon(tmp_path, workers) as daemon:
            assert committed(daemon, FIRST) == 11
            assert committed(daemon, SECOND) == 12
    assert (tmp_path / "data" / "coterie-3-of-3.db").exists()
    assert not (tmp_path / "data" / "coterie-1-of-2.db").exists()
    with Daemon(tmp_path) as daemon:
        assert committed(daemon, FIRST) == 11


def test_store_that_is_named_is_shared(tmp_path: Path) -> None:
    """Two daemons of their own, which know each other from the store."""
    store = ("--store", f"sqlite:{tmp_path}/groups.db")
    one = Daemon(tmp_path / "1", arguments=store, topics={"t": 1})
    two = Daemon(tmp_path / "2", arguments=store, settings={"node.id": 2})
    with one, two:
        eventually(
            lambda: len(json.loads(two.get("/v1/nodes"))["nodes"][1]["shards"]) == 25, "shares"
        )
        commit(one, FIRST, 4)
        for asked in (one, two):
            assert committed(asked, FIRST) == 4
            assert [g["group"] for g in json.loads(asked.get("/v1/groups"))["groups"]] == [FIRST]
            assert asked.group(FIRST)["group"] == FIRST
            assert asked.figure("coterie_topics") == 1  # its own metrics, without a label


def test_workers_share_a_database(tmp_path: Path, postgres: PostgresServer) -> None:
    """Two supervisors, as on two machines; each answers HTTP for the groups of both."""
    store = ("--store", postgres.url(schema="workers_share"))
    one = WorkersDaemon(tmp_path / "1", arguments=store, settings=SETTINGS, topics={"t": 1})
    two = WorkersDaemon(tmp_path / "2", arguments=store, settings=SETTINGS | {"node.id": 11})
    with one, two:
        ids = [1, 2, 11, 12]
        eventually(
            lambda: all(len(node["shards"]) in (12, 13) for node in one.nodes()),
            lambda: f"equal shares: {one.nodes()}",
        )
        names = [f"g{number}" for number in range(12)]
        for name in names:
            commit(one, name, 3)
        for daemon in (one, two):
            assert [node["node"] for node in daemon.nodes()] == ids
            listed = json.loads(daemon.get("/v1/groups"))["groups"]
            assert [row["group"] for row in listed] == sorted(names)
            assert {daemon.group(name)["node"] for name in names} <= set(ids)
        one.kill_worker(2)
        eventually(lambda: all(committed(two, name) == 3 for name in names), "all are served")
        assert 'node="11"' not in one.get("/metrics").decode()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--store", "memory:"), "2 workers can't share a store in memory"),
        (("--accept-data-loss",), "a loss is accepted by one process"),
        (("--listen", f"{HOST}:65534"), "there is no port 65536"),
        (("--set", "node.id=2147483647"), "node ids"),
    ],
)
def test_what_workers_can_not_have(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    failed = serve("--workers", "2", "--data-dir", str(tmp_path), "--http", "off", *arguments)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"coterie: {sentence}")
    assert failed.stderr.count("\n") == 1


def test_worker_that_can_not_start_ends_all(tmp_path: Path) -> None:
    (tmp_path / "coterie.db").write_bytes(b"x" * 5000)
    failed = serve(
        *("--workers", "2", "--data-dir", str(tmp_path), "--http", "off"),
        *("--listen", f"{HOST}:0", "--store", f"sqlite:{tmp_path}/coterie.db"),
    )
    assert failed.returncode == 1
    assert "coterie.db is damaged" in failed.stderr or "not a database" in failed.stderr


def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a daemon that is expected to fail."""
    return subprocess.run(
        [coterie(), "serve", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
