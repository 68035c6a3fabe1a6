"""Daemons that speak TLS, with stock clients and Coterie's own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiokafka
import confluent_kafka
import kafka
import pytest
from cryptography.x509.oid import NameOID

from coterie import Group, Partition, Security, Tls
from tests.live.daemon import HOST, Daemon, coterie, environment, eventually, room_for_workers
from tests.support.certificates import Authority, Files, name
from tests.support.kafka_python import poll_on
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow

TOPIC: Final = "orders"
PATIENCE_S: Final = 60.0
OFFSET: Final = 7


@dataclass(frozen=True)
class Secured:
    """A daemon with a listener that speaks TLS and asks for certificates."""

    daemon: Daemon
    port: int
    authority: Authority
    server: Files
    client: Files

    @property
    def address(self) -> str:
        """Where TLS is spoken."""
        return f"{HOST}:{self.port}"


@pytest.fixture(scope="module", params=[1, 2], ids=["alone", "two workers"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    client = authority.issue_to(name((NameOID.COMMON_NAME, "ann")))
    server = authority.issue()
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "listener.security.protocol.map": "SECURE:SSL",
        "listener.name.secure.ssl.keystore.location": str(server.both),
        "listener.name.secure.ssl.truststore.location": str(authority.file),
        "listener.name.secure.ssl.client.auth": "required",
        "worker.port.offset": 11,
        "workers": request.param,
    }
    port = free_ports(1 + room_for_workers(settings))
    arguments = ("--listen", f"SECURE://{HOST}:{port}")
    with Daemon(folder, settings=settings, topics={TOPIC: 1}, arguments=arguments) as daemon:
        yield Secured(daemon, port, authority, server, client)


def with_kafka_python(at: Secured, group: str) -> int:
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=at.address,
        group_id=group,
        security_protocol="SSL",
        ssl_cafile=str(at.authority.file),
        ssl_certfile=str(at.client.certificate),
        ssl_keyfile=str(at.client.key),
    )
    # Left open it would go on connecting, and its sockets would fail whichever test runs next.
    with contextlib.closing(consumer):
        eventually(lambda: poll_on(consumer, 100) == {} and consumer.assignment(), "no assignment")
        (partition,) = consumer.assignment()
        consumer.commit({partition: kafka.OffsetAndMetadata(OFFSET, "", -1)})
        # It takes the answer to a question from before the commit, if that is still under way.
        eventually(lambda: consumer.committed(partition) is not None, "it finds an offset")
        return int(consumer.committed(partition))


def with_confluent_kafka(at: Secured, group: str) -> int:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": at.address,
            "group.id": group,
            "security.protocol": "SSL",
            "ssl.ca.location": str(at.authority.file),
            "ssl.certificate.location": str(at.client.certificate),
            "ssl.key.location": str(at.client.key),
        }
    )
    with contextlib.closing(consumer):
        consumer.subscribe([TOPIC])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "no assignment")
        offset = confluent_kafka.TopicPartition(TOPIC, 0, OFFSET)
        consumer.commit(offsets=[offset], asynchronous=False)
        (found,) = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], PATIENCE_S)
        return int(found.offset)


def with_aiokafka(at: Secured, group: str) -> int:
    async def run() -> int:
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=at.address,
            group_id=group,
            security_protocol="SSL",
            ssl_context=at.authority.client_context(at.client),
        )
        await consumer.start()
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not consumer.assignment():
                    await consumer.getmany(timeout_ms=100)
            (partition,) = consumer.assignment()
            await consumer.commit({partition: OFFSET})
            return int(await consumer.committed(partition))
        finally:
            await consumer.stop()

    return asyncio.run(run())


def with_coterie(at: Secured, group: str) -> int:
    tls = Tls(cafile=at.authority.file, certfile=at.client.certificate, keyfile=at.client.key)

    async def run() -> int:
        found: list[int] = []
        async with Group(at.address, group, topics=[TOPIC], security=Security(tls=tls)) as joined:

            async def work(partition: Partition) -> None:
                await partition.commit(OFFSET)
                committed = await partition.committed()
                assert committed is not None
                found.append(committed.offset)
                joined.stop()

            async with asyncio.timeout(PATIENCE_S):
                await joined.run(work)
        return found[0]

    return asyncio.run(run())


Join = Callable[[Secured, str], int]


@pytest.mark.parametrize("join", [with_kafka_python, with_confluent_kafka, with_aiokafka])
def test_stock_client_with_a_certificate_joins_and_commits(join: Join, secured: Secured) -> None:
    assert join(secured, join.__name__) == OFFSET


def test_coteries_client_with_a_certificate_joins_and_commits(secured: Secured) -> None:
    assert with_coterie(secured, "with_coterie") == OFFSET


def served(at: Secured, port: int = 0) -> bytes:
    """The certificate that is served to a new connection."""
    context = at.authority.client_context(at.client)
    with (
        socket.create_connection((HOST, port or at.port), PATIENCE_S) as connected,
        context.wrap_socket(connected, server_hostname=HOST) as speaking,
    ):
        found = speaking.getpeercert(binary_form=True)
    assert found is not None
    return found


def test_new_certificate_is_served_after_a_hang_up(secured: Secured) -> None:
    before = served(secured)
    replace_unseen(secured.server.both, secured.authority)
    secured.daemon.process.send_signal(signal.SIGHUP)
    # With workers, any of them may answer at the port that they share.
    eventually(lambda: all(served(secured) != before for _ in range(8)), "the old certificate")


def replace_unseen(file: Path, authority: Authority) -> None:
    """Replace a certificate by what a daemon that looks at its files now and then takes for it."""
    status = file.stat()
    while len(issued := authority.issue().both.read_bytes()) > status.st_size:
        pass
    file.write_bytes(issued.ljust(status.st_size, b"\n"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_client_without_a_certificate_is_told_of_in_the_log(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=secured.authority.file)
    with (
        socket.create_connection((HOST, secured.port), PATIENCE_S) as connected,
        context.wrap_socket(connected, server_hostname=HOST) as speaking,
        contextlib.suppress(OSError),
    ):
        assert speaking.recv(1) == b""
    eventually(
        lambda: "the client has sent no certificate" in secured.daemon.log(), secured.daemon.log
    )


def test_no_private_key_is_in_what_the_daemon_wrote(secured: Secured) -> None:
    secret = secured.server.key.read_text().splitlines()[1]
    files = [each for each in secured.daemon.data_dir.rglob("*") if each.is_file()]
    assert files
    for each in files:
        assert secret.encode() not in each.read_bytes(), each
    assert secret not in secured.daemon.log()


# What it does not start with


def refusal(tmp_path: Path, *arguments: str, **environ: str) -> str:
    command = [coterie(), "serve", "--store=memory:", f"--data-dir={tmp_path / 'data'}", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment(**environ), check=False
    )
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def refusals(authority: Authority) -> Iterator[tuple[list[str], str]]:
    """Arguments, and what is said of them."""
    tls = ["--listen", f"SSL://{HOST}:0", "--http", "off"]
    good = ["--set", f"ssl.keystore.location={authority.issue().both}"]
    at = f"The listener SSL://{HOST}:0 speaks SSL: "
    yield tls, f"{at}there is no certificate for TLS. Set ssl.keystore.location to a PEM file"
    yield (
        [*tls, "--set", "ssl.keystore.location=/none"],
        f"{at}ssl.keystore.location = /none can't be read: No such file or directory.",
    )
    yield (
        [*tls, *good, "--set", "ssl.client.auth=required"],
        f"{at}ssl.client.auth is required, and no authority is trusted",
    )
    yield (
        [*tls, *good, "--set", "ssl.principal.mapping.rules=RULE:x"],
        "ssl.principal.mapping.rules: expected DEFAULT or RULE:PATTERN/REPLACEMENT/",
    )
    yield (
        ["--listen", f"A://{HOST}:0", "--set", "listener.security.protocol.map=B:SSL"],
        "listener.security.protocol.map has no protocol for the listener A: add A:SSL",
    )
    yield (
        ["--set", f"listeners=A://{HOST}:0,A://{HOST}:1"],
        "2 listeners have the name 'A'",
    )
    yield (
        [*tls, *good, "--set", "max.connections.per.ip.overrides=none.invalid:5"],
        "max.connections.per.ip.overrides: none.invalid has no address: ",
    )
    yield ["--set", "ssl.key.password=x"], "--set ssl.key.password: others can read it"


def test_what_cannot_be_served_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for arguments, sentence in refusals(Authority(tmp_path)):
        assert sentence in refusal(tmp_path, *arguments), arguments
