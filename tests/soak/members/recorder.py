"""What the programs that host members of a soak share: their orders, and what they record.

A program hosts several members.  Its only argument is a JSON file, and it runs until its standard
input ends.  It appends lines of JSON to a file, each with the time of the monotonic clock, which is
the same for all processes of a machine:

    {"at": 1.1, "member": "g07-2", "life": 1, "what": "assigned", "partitions": [0, 3]}
    {"at": 1.2, ..., "what": "read", "asked": 1.1, "offsets": {"0": 7, "3": 0}}
    {"at": 1.2, ..., "what": "sent", "asked": 1.2, "offsets": {"0": 8, "3": 1}}
    {"at": 1.3, ..., "what": "acked", "asked": 1.2, "offsets": {"0": 8, "3": 1}}
    {"at": 1.4, ..., "what": "failed", "asked": 1.2, "offsets": {"0": 9}, "error": "..."}
    {"at": 1.5, ..., "what": "revoked", "partitions": [3]}            or "lost"
    {"at": 1.6, ..., "what": "generation", "number": 4}
    {"at": 1.7, ..., "what": "error", "error": "..."}                 anything else that failed
    {"at": 1.8, ..., "what": "left"}                                  it owns nothing from now on

A member counts its lives: each time that it joins anew it begins another.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

__all__ = ["MemberOrders", "MemberRecorder", "Orders", "stop_with_input"]

#: How long a restless member stays away.
AWAY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class MemberOrders:
    """One member that a program hosts."""

    name: str
    group: str
    assignor: str
    #: After how long it leaves and joins again; 0 if it stays.
    stay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What a program that hosts members is told."""

    bootstrap: tuple[str, ...]
    topic: str
    records: Path
    members: tuple[MemberOrders, ...]
    #: Between two commits of a member.
    commit_s: float = 0.5
    session_ms: int = 45_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 60_000

    def to_json(self) -> str:
        """Write them down."""
        members = [
            {"name": m.name, "group": m.group, "assignor": m.assignor, "stay_s": m.stay_s}
            for m in self.members
        ]
        return json.dumps(
            {
                "bootstrap": self.bootstrap,
                "topic": self.topic,
                "records": str(self.records),
                "members": members,
                "commit_s": self.commit_s,
                "session_ms": self.session_ms,
                "heartbeat_ms": self.heartbeat_ms,
                "rebalance_ms": self.rebalance_ms,
            }
        )

    @classmethod
    def read(cls) -> Orders:
        """Take them from the file that the command line names."""
        given: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        given["bootstrap"] = tuple(given["bootstrap"])
        given["records"] = Path(given["records"])
        given["members"] = tuple(MemberOrders(**member) for member in given["members"])
        return cls(**given)


class _Lines:
    """Appends lines to a file, from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def write(self, values: Mapping[str, object]) -> None:
        line = json.dumps(values, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")


_LINES: dict[Path, _Lines] = {}


class MemberRecorder:
    """Records what happens to one member."""

    def __init__(self, orders: Orders, member: MemberOrders) -> None:
        self._lines = _LINES.setdefault(orders.records, _Lines(orders.records))
        self._member = member.name
        self._life = 0
        self._generation = -1

    def begin(self) -> None:
        """A new life."""
        self._life += 1
        self._generation = -1

    def tell(self, what: str, **details: object) -> None:
        """Record something with the present time."""
        head = {"at": time.monotonic(), "member": self._member, "life": self._life}
        self._lines.write({**head, "what": what, **details})

    def partitions(self, what: str, partitions: object, **details: object) -> None:
        """Record which partitions came or went."""
        assert isinstance(partitions, list | set | tuple)
        self.tell(what, partitions=sorted(partitions), **details)

    def offsets(
        self, what: str, asked_s: float, offsets: Mapping[int, int], **more: object
    ) -> None:
        """Record what was asked about offsets, or answered."""
        self.tell(what, asked=asked_s, offsets=dict(offsets), **more)

    def generation(self, number: int) -> None:
        """Record the generation, if it is another one."""
        if number not in (self._generation, -1):
            self._generation = number
            self.tell("generation", number=number)


def stop_with_input() -> threading.Event:
    """An event that the end of standard input sets."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended
