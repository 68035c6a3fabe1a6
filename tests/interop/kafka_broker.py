"""A real Apache Kafka broker for tests, run from the artefacts that Maven resolves.

    with KafkaBroker(tmp_path / "kafka", {"group.initial.rebalance.delay.ms": 3000}) as broker:
        ...                       # a client with bootstrap_servers=broker.bootstrap
        broker.kill()             # what kill -9 does
        broker.start()            # same data, same port
        kafka_tool(CONSUMER_GROUPS, "--bootstrap-server", broker.bootstrap, "--list")

What runs Java is in ``java_tools``; the names that tests need beside a broker are here as well.
"""

import base64
import os
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tests.interop.java_tools import (
    CONSUMER_GROUPS,
    JavaProgramError,
    java_classpath,
    java_command,
    java_source_command,
    kafka_tool,
    run_java_source,
    toolchain_problem,
)
from tests.support.ports import free_port

__all__ = [
    "CONSUMER_GROUPS",
    "BrokerStartError",
    "JavaProgramError",
    "KafkaBroker",
    "java_classpath",
    "java_command",
    "java_source_command",
    "kafka_tool",
    "run_java_source",
    "toolchain_problem",
]

_HOST: Final = "127.0.0.1"
_BROKER_OPTIONS: Final = (
    "-Xmx512m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
)

_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_POLL_INTERVAL_S: Final = 0.05
_LOG_TAIL_LINES: Final = 20
_LOG_PROBLEM_LINES: Final = 40

_API_METADATA: Final = 3
_API_VERSIONS: Final = 18

_BROKER_DEFAULTS: Final[Mapping[str, str | int | bool]] = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    # One node: every internal topic has one replica. One partition each makes the first use quick.
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    # After a kill the controller refuses the broker until its former session has run out: Kafka's
    # 9 s made that start take 11 s. Shorter still, and a busy machine would fence a healthy broker.
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 200,
    # 128 MB by default, a quarter of the heap.
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
}


class BrokerStartError(RuntimeError):
    """A broker did not come up; the message holds the problems and the tail of its log."""


class KafkaBroker:
    """One Kafka node, broker and controller in one process, on loopback ports.

    As a context manager it is started on entry and stopped on exit. In between it can be stopped,
    killed and started again: data directory and port stay. A new ``KafkaBroker`` on the same
    ``data_dir`` takes over the data, which is how to come back with other properties; give it the
    old ``port`` when clients shall find it.

    ``properties`` are Kafka's broker settings; they win over every default of this class. The
    defaults suit tests: no initial rebalance delay, short sessions allowed, internal topics with
    one partition and one replica, topics only created when asked for.
    """

    def __init__(
        self,
        data_dir: Path,
        properties: Mapping[str, str | int | bool] | None = None,
        port: int | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        start_timeout_s: float = _START_TIMEOUT_S,
    ) -> None:
        """Choose ports; nothing is written or started yet.

        ``listeners`` are more listeners by name, each with its security protocol; what that needs,
        such as certificates, is up to ``properties``.
        """
        self.data_dir = data_dir
        self.port = free_port() if port is None else port
        self.log_path = data_dir / "broker.log"
        self._controller_port = free_port()
        self._listeners = dict(listeners or {})
        self._listener_ports = {name: free_port() for name in self._listeners}
        self._properties = dict(properties or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        # Where the current run begins in the log, which all runs share.
        self._log_start = 0

    @property
    def bootstrap(self) -> str:
        """Return the address for clients, ``host:port``."""
        return f"{_HOST}:{self.port}"

    def address_of(self, listener: str) -> str:
        """Return the address of one of the additional listeners, ``host:port``."""
        return f"{_HOST}:{self._listener_ports[listener]}"

    @property
    def running(self) -> bool:
        """Tell whether the broker's process is alive."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        """Start the broker."""
        self.start()
        return self

    def __exit__(self, *_exc_info: object) -> None:
        """Stop the broker."""
        self.stop()

    def start(self) -> None:
        """Start the broker and return when clients can use it.

        Formats the data directory first when it is new; what Kafka refuses there, such as a bad
        property, is a ``JavaProgramError``. Raises ``BrokerStartError`` when the broker ends or the
        time is over; nothing is left running then.
        """
        if self.running:
            raise RuntimeError(f"the broker on port {self.port} is running already")
        self._prepare_data_dir()
        command = java_command("kafka.Kafka", str(self._properties_path), options=_BROKER_OPTIONS)
        with self.log_path.open("ab") as log:
            self._log_start = log.seek(0, os.SEEK_END)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            # An interrupt during the wait must not leave a broker behind either.
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the broker with SIGTERM, and with SIGKILL if that takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL and wait until it is gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop the broker and start it again on the same data and port."""
        self.stop()
        self.start()

    def log_lines(self) -> list[str]:
        """Return what the broker has logged since its last start."""
        if not self.log_path.exists():
            return []
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()

    @property
    def _properties_path(self) -> Path:
        return self.data_dir / "server.properties"

    @property
    def _log_dir(self) -> Path:
        return self.data_dir / "kafka"

    def _prepare_data_dir(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        settings = {**self._wiring(), **_BROKER_DEFAULTS, **self._properties}
        lines = [f"{key}={_property_text(value)}\n" for key, value in settings.items()]
        # Java reads property files as Latin-1; other characters are an error here, not a riddle.
        self._properties_path.write_text("".join(lines), encoding="latin-1")
        if not (self._log_dir / "meta.properties").exists():
            format_args = ("--cluster-id", _cluster_id(), "--config", str(self._properties_path))
            kafka_tool("kafka.tools.StorageTool", "format", *format_args)

    def _wiring(self) -> dict[str, str]:
        controller = f"{_HOST}:{self._controller_port}"
        clients = [f"PLAINTEXT://{self.bootstrap}"]
        clients += [f"{name}://{self.address_of(name)}" for name in self._listeners]
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self._listeners}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*clients, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(clients),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "log.dirs": str(self._log_dir),
        }

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not _serves_clients(self.port):
            if process.poll() is not None:
                reason = f"exited with {process.returncode}"
            elif time.monotonic() > deadline:
                reason = f"did not answer on {self.bootstrap} within {self._start_timeout_s:g} s"
            else:
                time.sleep(_POLL_INTERVAL_S)
                continue
            raise BrokerStartError(f"Kafka {reason}; {self._log_excerpt()}")

    def _log_excerpt(self) -> str:
        """Return the problems in the log and its end.

        A broker that fails still shuts down in good order, with so many lines that the end alone
        would not show the cause.
        """
        lines = self.log_lines()
        # Stack traces have no level, so they stay with the problem they belong to.
        problems = [line for line in lines if "] INFO " not in line]
        parts = [f"problems in {self.log_path}:", *problems[-_LOG_PROBLEM_LINES:]]
        return "\n".join([*parts, "its last lines:", *lines[-_LOG_TAIL_LINES:]])


def _property_text(value: str | int | bool) -> str:  # noqa: FBT001 - a setting's value
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("\\", "\\\\")


def _cluster_id() -> str:
    # 16 bytes in URL-safe base64. A leading dash would read as an option on the command line.
    return "C" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii")[1:22]


def _serves_clients(port: int) -> bool:
    """Tell whether a broker answers ApiVersions and lists itself in Metadata.

    The socket opens before the controller lets the broker take part; until then its Metadata names
    no broker and clients would only find that out by retrying.
    """
    try:
        with socket.create_connection((_HOST, port), timeout=1.0) as connection:
            (error,) = struct.unpack_from(">h", _ask(connection, _API_VERSIONS, b""))
            # Version 0 with no topic named: the brokers come first, as a counted list.
            (brokers,) = struct.unpack_from(">i", _ask(connection, _API_METADATA, bytes(4)))
    except OSError:
        return False
    return bool(error == 0 and brokers == 1)


def _ask(connection: socket.socket, api_key: int, body: bytes) -> bytes:
    """Send one request in version 0 and return the answer's body."""
    request = struct.pack(">hhih", api_key, 0, 1, -1) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    with connection.makefile("rb") as stream:
        (length,) = struct.unpack(">i", _read_exactly(stream.read(4), 4))
        return _read_exactly(stream.read(length), length)[4:]


def _read_exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ConnectionResetError("the broker closed the connection in the middle of an answer")
    return data
