"""Groups of stock clients on a real broker, whose logs are imported in the end.

They go through the same phases at the same time: members join, leave, are killed and come back with
their instance ids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient

from coterie_pipeline.kafka_logs import Imported, import_logs
from coterie_protocol.journal import Event, Line, read_line
from tests.interop.clients.toolchains import java_command
from tests.interop.kafka_broker import KafkaBroker
from tests.live.member import CONFLUENT, CONFLUENT_COOPERATIVE, Client, MemberProcess
from tests.live.programs.lines import Options

__all__ = [
    "CLIENTS",
    "PARTITIONS",
    "PHASES",
    "SESSION_MS",
    "TOPIC",
    "BrokerGroup",
    "KafkaHistory",
    "journal_files",
    "live_and_import",
]

_JAVA: Final = Client("java", java_command, "cooperative-sticky", is_cooperative=True)

#: One group for each of these clients, called by its name.
CLIENTS: Final = (CONFLUENT, CONFLUENT_COOPERATIVE, _JAVA)

TOPIC: Final = "work"
PARTITIONS: Final = frozenset(range(4))

SESSION_MS: Final = 6_000
_SETTLE_S: Final = 60.0
_CALM_S: Final = 1.5


@dataclass(slots=True)
class BrokerGroup:
    """The members of one group."""

    client: Client
    broker: KafkaBroker
    folder: Path
    #: The running members.
    members: dict[str, MemberProcess] = field(default_factory=dict)
    #: All members that ever ran.
    all_members: dict[str, MemberProcess] = field(default_factory=dict)
    #: After each phase: the time in milliseconds, and what each member owned.
    seen: dict[str, tuple[int, Mapping[str, set[int]]]] = field(default_factory=dict)

    def start(self, name: str, instance: str | None = None) -> None:
        """Start one more member."""
        options: dict[str, Any] = {} if instance is None else {"instance": instance}
        self.members[name] = self.all_members[name] = MemberProcess(
            self.client,
            Options(
                client=name,
                bootstrap=self.broker.bootstrap,
                group=self.client.name,
                topic=TOPIC,
                assignor=self.client.assignor,
                session_ms=SESSION_MS,
                heartbeat_ms=200,
                **options,
            ),
            self.folder,
        )

    def settle(self, phase: str) -> None:
        """Wait until all partitions are shared and nothing moves; record who owns what."""
        deadline = time.monotonic() + _SETTLE_S
        before: dict[str, set[int]] = {}
        while True:
            now = {name: set(member.owned) for name, member in self.members.items()}
            shared = sorted(number for owned in now.values() for number in owned)
            if shared == sorted(PARTITIONS) and all(now.values()) and now == before:
                break
            assert time.monotonic() < deadline, f"{self.client}: {phase}: {now}"
            before = now
            time.sleep(_CALM_S)
        self.seen[phase] = (int(time.time() * 1000), now)

    def end(self) -> None:
        """Kill the remaining members."""
        for member in self.members.values():
            member.die()


def _first(group: BrokerGroup) -> None:
    group.start("anna")


def _second(group: BrokerGroup) -> None:
    group.start("bert")


def _third(group: BrokerGroup) -> None:
    group.start("carl", instance="carl")


def _commit(group: BrokerGroup) -> None:
    carl = group.members["carl"]
    carl.commit(dict.fromkeys(carl.owned, 7))


def _farewell(group: BrokerGroup) -> None:
    group.members.pop("bert").close()


def _death(group: BrokerGroup) -> None:
    group.members.pop("anna").die()


def _return(group: BrokerGroup) -> None:
    # Some clients take longer to start than a session lasts: the new one pushes the old one out.
    group.start("carla", instance="carl")
    carla = group.members["carla"]
    carla.wait_for(lambda: carla.owned, "it has what carl had")
    group.members.pop("carl").die()


PHASES: Final = {
    "first": _first,
    "second": _second,
    "third": _third,
    "commit": _commit,
    "farewell": _farewell,
    "death": _death,
    "return": _return,
}


@dataclass(frozen=True, slots=True)
class KafkaHistory:
    """What the members saw, and what was imported."""

    groups: Mapping[str, BrokerGroup]
    imported: Imported
    out: Path
    lines: tuple[Line, ...]
    #: What the members' clock lacks to the time since 1970.
    since_1970_s: float

    def ms(self, at_s: float) -> float:
        """A time of the members' clock, as the journal has it."""
        return (at_s + self.since_1970_s) * 1000

    def of(self, group: str, *kinds: type[Event]) -> list[Any]:
        """The events of some kinds in a group's journal."""
        return [
            line.event
            for line in self.lines
            if line.event.group == group and isinstance(line.event, kinds)
        ]


def live_and_import(folder: Path) -> KafkaHistory:
    """Run the groups, and import the logs of the broker."""
    with KafkaBroker(folder / "broker", {"group.initial.rebalance.delay.ms": 300}) as broker:
        groups = _live(broker, folder)
    imported, lines = _import(broker, folder / "out")
    return KafkaHistory(groups, imported, folder / "out", lines, time.time() - time.monotonic())


def _live(broker: KafkaBroker, folder: Path) -> dict[str, BrokerGroup]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({TOPIC: {"num_partitions": len(PARTITIONS)}}, wait_for_metadata=True)
    admin.close()
    groups = {}
    for client in CLIENTS:
        (folder / client.name).mkdir()
        groups[client.name] = BrokerGroup(client, broker, folder / client.name)
    try:
        for phase, happen in PHASES.items():
            for group in groups.values():
                happen(group)
            for group in groups.values():
                group.settle(phase)
    finally:
        for group in groups.values():
            group.end()
    return groups


def _import(broker: KafkaBroker, out: Path) -> tuple[Imported, tuple[Line, ...]]:
    local = datetime.now().astimezone().tzinfo
    assert local is not None
    imported = import_logs([broker.log_path], out, dump=broker.data_dir, zone=local)
    texts = [text for path in journal_files(out) for text in path.read_text().splitlines()]
    return imported, tuple(read_line(text) for text in texts)


def journal_files(out: Path) -> list[Path]:
    """The files of the journal that was written."""
    return sorted(out.glob("journal-*.jsonl"))
