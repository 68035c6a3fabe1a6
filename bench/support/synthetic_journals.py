"""Synthetic journals of any length: groups that commit all the time and rebalance now and then.

The text is put together by hand, because the journal's own writer would take most of the time.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from coterie_protocol.journal_text import segment_name

__all__ = ["make_journals"]

_NODES: Final = 3
_GROUPS: Final = 120
_MEMBERS: Final = 6
_PARTITIONS: Final = 24
_SEGMENT_LINES: Final = 100_000
_START_MS: Final = 1_790_000_000_000
#: The approximate share of lines that belong to rebalances.
_CONTROL_SHARE: Final = 0.03
#: The lines of one episode: a member goes, another one joins, each with its rebalance.
_EPISODE_LINES: Final = 14
_COMMITTED_AT_ONCE: Final = 4


@dataclass(slots=True)
class _Group:
    name: str
    #: The index of its node.
    home: int
    members: list[str] = field(default_factory=list)
    generation: int = 1
    born: int = 0
    offsets: list[int] = field(default_factory=lambda: [0] * _PARTITIONS)

    def assigned(self) -> dict[str, list[int]]:
        """The assignment: round robin."""
        count = len(self.members)
        return {
            member: list(range(index, _PARTITIONS, count))
            for index, member in enumerate(self.members)
        }


class _Node:
    """Writes the lines of one node to its files."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._seq = 0
        self._lines: list[str] = []

    def write(self, ts: int, group: str, kind: str, rest: str) -> None:
        """Write a line; `rest` is the JSON of its kind's fields."""
        self._seq += 1
        self._lines.append(
            f'{{"v":1,"ts":{ts},"node":"{self._name}","seq":{self._seq},"group":"{group}",'
            f'"kind":"{kind}",{rest}}}\n'
        )
        if len(self._lines) >= _SEGMENT_LINES:
            self.end()

    def end(self) -> None:
        """End the current file."""
        if self._lines:
            first = self._seq - len(self._lines) + 1
            path = self._folder / segment_name(self._name, first)
            path.write_text("".join(self._lines), encoding="utf-8")
            self._lines.clear()


def make_journals(folder: Path, events: int, seed: int = 1) -> int:
    """Write the given number of lines, of three nodes and 120 groups; return their size."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    nodes = [_Node(folder, f"n{number}") for number in range(1, _NODES + 1)]
    groups = [_Group(f"g{number}", number % _NODES) for number in range(_GROUPS)]
    episodes = max(int(events * _CONTROL_SHARE / _EPISODE_LINES), 1)
    commits_each = max((events - episodes * _EPISODE_LINES) // (episodes + _GROUPS), 1)
    ts = _START_MS
    written = 0
    for number in range(-_GROUPS, episodes):
        group = groups[number % _GROUPS]
        node = nodes[group.home]
        for at, kind, rest in _episode(group, ts, chance):
            node.write(at, group.name, kind, json.dumps(rest, separators=(",", ":"))[1:-1])
            written += 1
        left = events - written if number == episodes - 1 else commits_each
        born = [each for each in groups if each.members]
        ts = _commits(nodes, born, ts + 5_000, left, chance)
        written += max(left, 0)
    for node in nodes:
        node.end()
    return sum(path.stat().st_size for path in folder.iterdir())


def _commits(
    nodes: list[_Node], groups: list[_Group], ts: int, count: int, chance: random.Random
) -> int:
    for _ in range(count):
        ts += 3
        group = chance.choice(groups)
        place = chance.randrange(len(group.members))
        mine = range(place, _PARTITIONS, len(group.members))[:_COMMITTED_AT_ONCE]
        offsets = []
        for partition in mine:
            group.offsets[partition] += chance.randrange(1, 50)
            offsets.append(f'"{partition}":{group.offsets[partition]}')
        nodes[group.home].write(
            ts,
            group.name,
            "offsets_committed",
            f'"member":"{group.members[place]}","generation":{group.generation},'
            f'"offsets":{{"work":{{{",".join(offsets)}}}}}',
        )
    return ts


_Event = tuple[int, str, dict[str, object]]


def _episode(group: _Group, ts: int, chance: random.Random) -> Iterator[_Event]:
    """One member dies and another one joins; each starts a rebalance."""
    if group.members:
        gone = group.members.pop(chance.randrange(len(group.members)))
        yield ts, "member_gone", _gone(gone)
        yield from _rebalance(group, ts, "session_expired", gone)
    while len(group.members) < _MEMBERS:
        group.born += 1
        fresh = f"{group.name}-m{group.born}"
        group.members.append(fresh)
        yield ts + 2_000, "member_joined", _joined(fresh)
    yield from _rebalance(group, ts + 2_000, "member_joined", group.members[-1])


def _rebalance(group: _Group, ts: int, cause: str, detail: str) -> Iterator[_Event]:
    before = group.generation
    group.generation += 1
    yield ts, "rebalance_started", {
        "generation": before, "from_state": "Stable", "cause": cause, "detail": detail,
        "awaited": group.members, "deadline": ts + 60_000, "follows": None,
    }  # fmt: skip
    yield ts + 400, "phase_joined", {
        "generation": group.generation, "protocol_type": "consumer", "protocol": "range",
        "leader": group.members[0], "members": [_phase(member) for member in group.members],
        "dropped": [], "last": group.members[-1], "cause": cause, "took_ms": 400,
    }  # fmt: skip
    yield ts + 420, "rebalance_completed", {
        "generation": group.generation, "cause": cause,
        "assigned": {member: {"work": mine} for member, mine in group.assigned().items()},
        "moved": 4, "revoked": 4, "needs_rejoin": False, "took_ms": 20, "total_ms": 420,
    }  # fmt: skip


def _phase(member: str) -> dict[str, object]:
    after_ms = sum(member.encode()) % 400
    return {
        "member": member, "instance": None, "host": "/10.0.0.7", "joined_after_ms": after_ms,
        "topics": ["work"], "owned": {},
    }  # fmt: skip


def _joined(member: str) -> dict[str, object]:
    return {
        "member": member, "instance": None, "client_id": member, "host": "/10.0.0.7",
        "session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "protocols": ["range"],
        "topics": ["work"], "reason": "",
    }  # fmt: skip


def _gone(member: str) -> dict[str, object]:
    return {
        "member": member, "instance": None, "host": "/10.0.0.7", "how": "session_expired",
        "silent_ms": 10_100, "session_timeout_ms": 10_000, "reason": "", "owned": None,
    }  # fmt: skip
