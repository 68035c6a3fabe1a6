"""Replaying a group's lines: who is in the group from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.pipeline.oracle.reading import Placed

__all__ = ["Membership", "hosts_and_names", "memberships"]


@dataclass(slots=True)
class Membership:
    """A time in which a member is in the group."""

    member: str
    instance: str | None
    host: str | None
    began: str
    began_pos: int
    known_ms: int
    joined_ms: int | None = None
    client_id: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    protocols: list[str] | None = None
    topics: list[str] | None = None
    join_reason: str | None = None
    ended: str = "open"
    ended_pos: int | None = None
    ended_ms: int | None = None
    silent_ms: int | None = None
    leave_reason: str | None = None


@dataclass(slots=True)
class _Roll:
    """Who is in the group."""

    people: Mapping[str, tuple[str | None, str | None]]
    all: list[Membership] = field(default_factory=list)
    present: dict[str, Membership] = field(default_factory=dict)

    def note(self, line: Placed) -> None:
        """Take the next line into account."""
        handle = getattr(self, f"_{line.kind}", None)
        if handle is not None:
            handle(line)

    def _member_joined(self, line: Placed) -> None:
        self._end(line["member"], "lost", line)
        begun = self._begin(line["member"], "joined", line)
        for name in ("client_id", "session_timeout_ms", "rebalance_timeout_ms"):
            setattr(begun, name, line[name])
        begun.protocols, begun.topics = line["protocols"], line["topics"]
        begun.join_reason = line["reason"]

    def _member_replaced(self, line: Placed) -> None:
        former = self._known(line["former_member"], line)
        former.silent_ms = line["silent_ms"]
        self._end(line["former_member"], "replaced", line)
        begun = self._begin(line["member"], "replaced", line)
        for name in ("client_id", "session_timeout_ms", "rebalance_timeout_ms"):
            setattr(begun, name, getattr(former, name))
        begun.protocols, begun.topics = former.protocols, former.topics

    def _member_gone(self, line: Placed) -> None:
        gone = self._known(line["member"], line)
        gone.silent_ms, gone.leave_reason = line["silent_ms"], line["reason"]
        gone.session_timeout_ms = line["session_timeout_ms"]
        self._end(line["member"], line["how"], line)

    def _phase_joined(self, line: Placed) -> None:
        for phase in line["members"]:
            self._known(phase["member"], line)

    def _group_recovered(self, line: Placed) -> None:
        for member in [each for each in self.present if each not in line["members"]]:
            self._end(member, "lost", line)
        for member in line["members"]:
            self._known(member, line)

    def _group_emptied(self, line: Placed) -> None:
        for member in list(self.present):
            self._end(member, "emptied", line)

    def _group_deleted(self, line: Placed) -> None:
        for member in list(self.present):
            self._end(member, "deleted", line)

    def _known(self, member: str, line: Placed) -> Membership:
        found = self.present.get(member)
        return self._begin(member, "known", line) if found is None else found

    def _begin(self, member: str, began: str, line: Placed) -> Membership:
        instance, host = self.people.get(member, (None, None))
        begun = Membership(member, instance, host, began, line.pos, line.at)
        begun.joined_ms = None if began == "known" else line.at
        self.all.append(begun)
        self.present[member] = begun
        return begun

    def _end(self, member: str, how: str, line: Placed) -> None:
        ended = self.present.pop(member, None)
        if ended is not None:
            ended.ended, ended.ended_ms, ended.ended_pos = how, line.at, line.pos


def memberships(
    lines: Iterable[Placed], people: Mapping[str, tuple[str | None, str | None]]
) -> list[Membership]:
    """All memberships of a group, in the order in which they began."""
    roll = _Roll(people)
    for line in lines:
        roll.note(line)
    return roll.all


def hosts_and_names(lines: Iterable[Placed]) -> dict[str, tuple[str | None, str | None]]:
    """By member id, the instance id and the address, from all lines that name both."""
    instances: dict[str, str | None] = {}
    hosts: dict[str, str] = {}
    for line in lines:
        for member, instance, host in _named(line):
            if instance is not None:
                instances[member] = instance
            hosts[member] = host
    names = instances | {member: None for member in hosts if member not in instances}
    return {member: (names[member], hosts.get(member)) for member in names}


def _named(line: Placed) -> Iterable[tuple[str, str | None, str]]:
    match line.kind:
        case "member_joined" | "member_gone":
            yield line["member"], line["instance"], line["host"]
        case "member_replaced":
            yield line["former_member"], line["instance"], line["former_host"]
            yield line["member"], line["instance"], line["host"]
        case "member_fenced":
            yield line["member"], line["instance"], line["host"]
            yield line["holder"], line["instance"], line["holder_host"]
        case "phase_joined":
            for phase in line["members"]:
                yield phase["member"], phase["instance"], phase["host"]
        case _:
            pass
