"""Members by their ids: their instances, where they come from, and who was refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from coterie_protocol.replay.order import Placed

__all__ = ["Members"]


@dataclass(slots=True)
class Members:
    """What all lines of a group tell of its members; a line may tell of one that came earlier."""

    instances: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    #: When a request was last refused, by the instance and the member id that it came from.
    refused_ms: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Placed]) -> Members:
        """Those that are named in some lines, which are in order."""
        found = cls()
        for line in lines:
            for member, instance, host in _named(line):
                if instance is not None:
                    found.instances[member] = max(instance, found.instances.get(member, instance))
                found.hosts[member] = host
            if line.kind == "member_fenced":
                found.refused_ms[line["instance"], line["member"]] = line.at
        return found

    def holder(self, member: str) -> str:
        """What stays the same of a member: its instance, or the id of a dynamic member."""
        return self.instances.get(member, member)


def _named(line: Placed) -> Iterator[tuple[str, str | None, str]]:
    match line.kind:
        case "member_joined" | "member_gone" | "member_fenced":
            yield line["member"], line["instance"], line["host"]
        case "member_replaced":
            yield line["former_member"], line["instance"], line["former_host"]
            yield line["member"], line["instance"], line["host"]
        case "phase_joined":
            for phase in line["members"]:
                yield phase["member"], phase.get("instance"), phase["host"]
