"""The coordinators of a soak and their database, and what is done to them."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, Self

from tests.live.daemon import Daemon
from tests.soak.faults import DATABASE, NextFault
from tests.soak.records import Fault
from tests.support.postgres_server import PostgresServer

__all__ = ["Cluster", "Database", "PostgresDatabase", "SqliteFile"]

_SETTINGS: Final[Mapping[str, str | int | bool]] = {"group.initial.rebalance.delay.ms": 300}


class Database(Protocol):
    """Where the nodes keep everything."""

    #: Whether it is a server, which can be restarted.
    is_server: bool

    @property
    def url(self) -> str:
        """What `--store` takes."""

    def restart(self, away_s: float) -> None:
        """Let it crash and start it again so much later."""


class SqliteFile:
    """A file that all nodes open."""

    is_server = False

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:{folder / 'store.db'}"

    def restart(self, away_s: float) -> None:
        """There is no server to restart."""
        raise NotImplementedError


class PostgresDatabase:
    """A PostgreSQL server that crashes when it is told to."""

    is_server = True

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self.url = server.url()

    def restart(self, away_s: float) -> None:
        """Let it crash and start it again so much later."""
        self._server.stop(signal.SIGQUIT)
        time.sleep(away_s)
        self._server.start()


class Cluster:
    """Several nodes on one store; as a context manager, none of them outlives the block."""

    def __init__(
        self, folder: Path, database: Database, nodes: int, lease_s: float, partitions: int
    ) -> None:
        self._database = database
        self._folder = folder
        self._settings = {**_SETTINGS, "shard.lease.ms": round(lease_s * 1000)}
        self._topics = {"soak": partitions}
        self.nodes = [self._daemon(number + 1) for number in range(nodes)]

    def _daemon(self, number: int) -> Daemon:
        return Daemon(
            self._folder / f"node-{number}",
            settings={**self._settings, "node.id": number},
            topics=self._topics,
            arguments=("--store", self._database.url),
        )

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The addresses of all nodes."""
        return tuple(node.address for node in self.nodes)

    @property
    def journals(self) -> list[Path]:
        """Where the nodes write their journals."""
        return [node.data_dir / "journal" for node in self.nodes]

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill all nodes that still run."""
        for node in self.nodes:
            node.kill()

    def stop(self) -> None:
        """Stop all nodes in good order."""
        for node in self.nodes:
            node.stop()

    def apply(self, fault: NextFault) -> Fault:
        """Do something to a node or the database, and wait until it is back."""
        node = self.nodes[fault.node]
        target = "the database" if fault.kind == DATABASE else f"node {fault.node + 1}"
        at_s = time.monotonic()
        match fault.kind:
            case "kill":
                node.kill()
                time.sleep(fault.away_s)
                node.start()
            case "short pause" | "long pause":
                node.suspend(fault.away_s)
            case "drain":
                node.stop(signal.SIGTERM)
                node.start()
            case _:
                self._database.restart(fault.away_s)
        over_s = time.monotonic()
        # Clients notice that a node was killed or has stopped, and need not wait until it is back.
        waits_for_it = fault.kind not in ("kill", "drain")
        return Fault(fault.kind, target, at_s, over_s, over_s - at_s if waits_for_it else 0.0)
