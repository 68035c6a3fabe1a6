"""What brokers leave behind, written by hand: logs in Kafka's layouts, and segments of a topic.

log = OldLog()
log.say(0, "Stabilized group g generation 1 (__consumer_offsets-7) with 2 members")
lines = imported(tmp_path, log)
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from coterie_pipeline.kafka_logs import Imported, import_logs
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
    group_by_topic,
)
from coterie_protocol.journal import Event, Line, read_line

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


def ms(second: float) -> int:
    """The time so many seconds after the start."""
    return START_MS + round(second * 1000)


def member(name: str) -> str:
    """A member id as brokers make it."""
    return f"{name}-5f0c2f3e-9c1d-4b7a-8e21-{name.encode().hex():0>12}"


class _Log:
    def __init__(self, node: int = 1) -> None:
        self.node = node
        self.lines: list[str] = []

    def raw(self, second: float, text: str) -> None:
        """A line with nothing but its time."""
        stamp = (START + timedelta(seconds=second)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        self.lines.append(f"[{stamp}] {text}")

    def say(self, second: float, text: str) -> None:
        """What the coordinator says."""
        raise NotImplementedError

    def preparing(self, second: float, generation: int, reason: str, group: str = "g") -> None:
        """A rebalance begins."""
        raise NotImplementedError

    def stabilized(self, second: float, generation: int, count: int, group: str = "g") -> None:
        """The members have joined."""
        raise NotImplementedError

    def assigned(self, second: float, generation: int, leader: str, group: str = "g") -> None:
        """The leader's assignment came."""
        text = f"Assignment received from leader {leader} for group {group} for generation "
        self.say(second, f"{text}{generation}. The group has 1 members, 0 of which are static.")

    def write(self, path: Path) -> Path:
        """Write it into a file, a packed one if its name ends in .gz."""
        data = "".join(f"{line}\n" for line in self.lines).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


class OldLog(_Log):
    """A log of the coordinator in Scala, as of 3.9."""

    def say(self, second: float, text: str) -> None:
        """What the coordinator says."""
        logger = "(kafka.coordinator.group.GroupCoordinator)"
        self.raw(second, f"INFO [GroupCoordinator {self.node}]: {text} {logger}")

    def preparing(self, second: float, generation: int, reason: str, group: str = "g") -> None:
        """A rebalance begins."""
        text = f"Preparing to rebalance group {group} in state PreparingRebalance with old "
        text += f"generation {generation} (__consumer_offsets-7) (reason: {reason})"
        self.say(second, text)

    def stabilized(self, second: float, generation: int, count: int, group: str = "g") -> None:
        """The members have joined."""
        text = f"Stabilized group {group} generation {generation} (__consumer_offsets-7)"
        self.say(second, f"{text} with {count} members")

    def id_given(self, second: float, name: str, state: str, group: str = "g") -> None:
        """A client is told its member id."""
        text = f"Dynamic member with unknown member id joins group {group} in {state} state. "
        text += f"Created a new member id {name} and request the member to rejoin with this id."
        self.say(second, text)


class NewLog(_Log):
    """A log of the coordinator in Java, as of 4.3."""

    def say(self, second: float, text: str) -> None:
        """What the coordinator says."""
        logger = "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
        speaker = f"[GroupCoordinator id={self.node} topic=__consumer_offsets partition=7]"
        self.raw(second, f"INFO {speaker} {text} {logger}")

    def preparing(self, second: float, generation: int, reason: str, group: str = "g") -> None:
        """A rebalance begins."""
        text = f"Preparing to rebalance group {group} in state PreparingRebalance with old "
        self.say(second, f"{text}generation {generation} (reason: {reason}).")

    def stabilized(self, second: float, generation: int, count: int, group: str = "g") -> None:
        """The members have joined."""
        text = f"Stabilized group {group} generation {generation} with {count} members."
        self.say(second, text)


def first_generation(log: OldLog, *names: str, at: float = 0.0) -> None:
    """Dynamic members come into an empty group: generation 1 is in place a second later."""
    log.id_given(at, names[0], "Empty")
    log.preparing(at, 0, f"Adding new member {names[0]} with group instance id None")
    for name in names[1:]:
        log.id_given(at + 0.2, name, "PreparingRebalance")
    log.stabilized(at + 0.9, 1, len(names))
    log.assigned(at + 1, 1, names[0])


# -- segments of __consumer_offsets ------------------------------------------------------------


def stored_member(
    name: str,
    given: Iterable[tuple[str, int]] = (),
    *,
    owned: Iterable[tuple[str, int]] = (),
    topics: Iterable[str] = ("t",),
    instance: str | None = None,
    assignment: bytes | None = None,
) -> dict[str, Any]:
    """A member as a coordinator stores it."""
    subscription = Subscription(topics=tuple(topics), owned_partitions=group_by_topic(owned))
    parts = Assignment(assigned_partitions=group_by_topic(given))
    return {
        "name": name,
        "instance": instance,
        "subscription": encode_subscription(subscription, 1),
        "assignment": encode_assignment(parts, 1) if assignment is None else assignment,
    }


def _text(value: str | None, *, flexible: bool) -> bytes:
    data = (value or "").encode()
    if flexible:
        return _uvarint(0 if value is None else len(data) + 1) + data
    return struct.pack(">h", -1 if value is None else len(data)) + data


def _data(value: bytes, *, flexible: bool) -> bytes:
    return (_uvarint(len(value) + 1) if flexible else struct.pack(">i", len(value))) + value


def _uvarint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def group_value(
    generation: int,
    members: Iterable[dict[str, Any]],
    *,
    leader: str = "",
    protocol: str = "range",
    protocol_type: str = "consumer",
    version: int = 3,
) -> bytes:
    """A group's value in one of the versions in which brokers have stored it."""
    flexible = version >= 4
    members = list(members)
    parts = [struct.pack(">h", version), _text(protocol_type, flexible=flexible)]
    parts += [struct.pack(">i", generation), _text(protocol, flexible=flexible)]
    parts.append(_text(leader or None, flexible=flexible))
    if version >= 2:
        parts.append(struct.pack(">q", START_MS))
    parts.append(_uvarint(len(members) + 1) if flexible else struct.pack(">i", len(members)))
    for each in members:
        parts.append(_text(each["name"], flexible=flexible))
        if version >= 3:
            parts.append(_text(each["instance"], flexible=flexible))
        parts += [_text("app", flexible=flexible), _text("/10.0.0.5", flexible=flexible)]
        parts += [struct.pack(">i", 300_000)] if version >= 1 else []
        parts.append(struct.pack(">i", 10_000))
        parts += [_data(each[key], flexible=flexible) for key in ("subscription", "assignment")]
        parts += [b"\0"] if flexible else []
    return b"".join([*parts, b"\0" if flexible else b""])


def group_key(group: str, version: int = 2) -> bytes:
    """The key of what is stored of a group."""
    return struct.pack(">h", version) + _text(group, flexible=False)


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """The key of a commit."""
    head = struct.pack(">h", 1) + _text(group, flexible=False) + _text(topic, flexible=False)
    return head + struct.pack(">i", partition)


def commit_value(offset: int) -> bytes:
    """The value of a commit."""
    return struct.pack(">hqihq", 3, offset, -1, 0, START_MS)


def _varint(value: int) -> bytes:
    return _uvarint((value << 1) ^ (value >> 63))


def batch(
    second: float,
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    offset: int = 0,
    attributes: int = 0,
    producer: int = -1,
) -> bytes:
    """A batch of records as brokers store it, all of one time."""
    body = b""
    records = list(records)
    for number, (key, value) in enumerate(records):
        record = b"\0" + _varint(0) + _varint(number)
        for part in (key, value):
            record += _varint(-1 if part is None else len(part)) + (part or b"")
        record += _varint(0)
        body += _varint(len(record)) + record
    if attributes & 7 == 1:
        body = gzip.compress(body)
    time = ms(second)
    head = struct.pack(
        ">ibIhiqqqhii", 0, 2, 0, attributes, 0, time, time, producer, 0, 0, len(records)
    )
    return struct.pack(">qi", offset, len(head) + len(body)) + head + body


class Segment:
    """A segment of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.data = b""
        self._offset = 0

    def add(
        self,
        second: float,
        *records: tuple[bytes | None, bytes | None],
        attributes: int = 0,
        producer: int = -1,
    ) -> None:
        """Add a batch."""
        self.data += batch(
            second, records, offset=self._offset, attributes=attributes, producer=producer
        )
        self._offset += len(records)

    def generation(
        self,
        second: float,
        generation: int,
        *members: dict[str, Any],
        group: str = "g",
        **more: Any,
    ) -> None:
        """Add what is stored when an assignment comes; the first member leads."""
        leader = members[0]["name"] if members else ""
        value = group_value(generation, members, leader=leader, **more)
        self.add(second, (group_key(group), value))

    def commit(
        self, second: float, offsets: Mapping[tuple[str, int], int], group: str = "g"
    ) -> None:
        """Add what is stored of a commit."""
        self.add(
            second,
            *((commit_key(group, *part), commit_value(offset)) for part, offset in offsets.items()),
        )

    def write(self, folder: Path, partition: int = 7) -> Path:
        """Write it where brokers do; answer the folder that all partitions are in."""
        path = folder / f"__consumer_offsets-{partition}" / f"{0:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return folder


# -- importing ---------------------------------------------------------------------------------


def run(
    tmp_path: Path, *logs: _Log, stored: Segment | None = None, **options: Any
) -> tuple[Imported, list[Line]]:
    """Import logs; answer what is said of that, and the journal."""
    paths = [log.write(tmp_path / f"server-{number}.log") for number, log in enumerate(logs)]
    dump = None if stored is None else stored.write(tmp_path / "data")
    counts = import_logs(paths, tmp_path / "out", dump=dump, **options)
    return counts, journal(tmp_path / "out")


def journal(out: Path) -> list[Line]:
    """The lines of a journal, node by node."""
    texts = (path.read_text().splitlines() for path in sorted(out.glob("journal-*.jsonl")))
    return [read_line(text) for lines in texts for text in lines]


def imported(tmp_path: Path, *logs: _Log, stored: Segment | None = None) -> list[Line]:
    """The journal of an import."""
    return run(tmp_path, *logs, stored=stored)[1]


def events(lines: Iterable[Line], *kinds: type[Event]) -> list[Any]:
    """The events of some kinds."""
    return [line.event for line in lines if isinstance(line.event, kinds)]


def kinds(lines: Iterable[Line]) -> list[str]:
    """What happened, in order."""
    return [line.event.kind for line in lines]
