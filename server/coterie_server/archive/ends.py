"""What was the case in a group as its journal ends."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.journal import TopicChanged, event_of
from coterie_protocol.replay import in_time_of
from coterie_protocol.replay.clock_steps import NO_STEPS
from coterie_server.history import History, RebalanceRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coterie_protocol.replay import ClockSteps, Deletion, GroupLines
    from coterie_protocol.replay.order import Placed

__all__ = ["GroupEnd", "MemberEnd", "end_of"]

#: How many rebalances are shown, as a node does.
_REBALANCES: Final = 20
_DEAD: Final = "Dead"


@dataclass(slots=True)
class MemberEnd:
    """A member as the journal ends."""

    member: str
    instance: str | None = None
    client_id: str | None = None
    host: str = ""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    #: When it came; None if the lines do not tell.
    since_ms: int | None = None
    last_seen_ms: int | None = None
    away_since_ms: int | None = None
    away_until_ms: int | None = None
    #: None if that can't be read.
    owned: dict[str, list[int]] | None = field(default_factory=dict)


@dataclass(slots=True)
class GroupEnd:
    """A group as the journal ends."""

    group: str
    state: str = "Empty"
    generation: int = 0
    node: str = ""
    type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, MemberEnd] = field(default_factory=dict)
    #: Members that have not joined the rebalance that is going on.
    awaited: list[str] = field(default_factory=list)
    rebalance: RebalanceRecord | None = None
    rebalances: tuple[RebalanceRecord, ...] = ()
    #: Whether a line told who its members are.
    is_known: bool = False

    @property
    def partitions(self) -> int | None:
        """How many partitions have an owner; None if that is not known."""
        owned = [each.owned for each in self.members.values()]
        if any(each is None for each in owned):
            return None
        return sum(len(numbers) for each in owned for numbers in (each or {}).values())

    def owned_by(self, member: str | None, instance: str | None) -> int | None:
        """How many partitions a member has, by either name; None if that is not known."""
        for each in self.members.values():
            if each.member == member or (instance is not None and each.instance == instance):
                return None if each.owned is None else sum(map(len, each.owned.values()))
        return 0

    @property
    def latest(self) -> RebalanceRecord | None:
        """The rebalance that is going on, or the last one."""
        return self.rebalance or (self.rebalances[0] if self.rebalances else None)

    # -- lines ---------------------------------------------------------------------------------

    def note(self, line: Placed) -> None:
        """Take in the next line."""
        self.node = line.node
        if line["generation"] is not None:
            self.generation = line["generation"]
        handle = getattr(self, f"_{line.kind}", None)
        if handle is not None:
            handle(line)

    def _member_joined(self, line: Placed) -> None:
        told = {name: line[name] for name in ("instance", "client_id", *_TIMEOUTS)}
        host = line["host"].lstrip("/")
        self.members[line["member"]] = MemberEnd(
            line["member"], host=host, since_ms=line.at, last_seen_ms=line.at, **told
        )

    def _member_gone(self, line: Placed) -> None:
        self.members.pop(line["member"], None)

    def _member_replaced(self, line: Placed) -> None:
        former = self.members.pop(line["former_member"], None) or MemberEnd(line["member"])
        former.member, former.instance = line["member"], line["instance"]
        former.host, former.last_seen_ms = line["host"].lstrip("/"), line.at
        former.away_since_ms = former.away_until_ms = None
        self.members[former.member] = former

    def _member_away(self, line: Placed) -> None:
        if (member := self.members.get(line["member"])) is not None:
            member.away_since_ms, member.away_until_ms = line.at, line["until"]

    def _member_returned(self, line: Placed) -> None:
        if (member := self.members.get(line["member"])) is not None:
            member.away_since_ms = member.away_until_ms = None

    def _rebalance_started(self, line: Placed) -> None:
        self.state, self.awaited = "PreparingRebalance", list(line["awaited"] or ())

    def _phase_joined(self, line: Placed) -> None:
        self.state, self.awaited, self.is_known = "CompletingRebalance", [], True
        self.type, self.protocol, self.leader = (
            line["protocol_type"] or None, line["protocol"] or None, line["leader"] or None,
        )  # fmt: skip
        present: dict[str, MemberEnd] = {}
        for phase in line["members"]:
            name = phase["member"]
            member = present[name] = self.members.get(name) or MemberEnd(name)
            member.instance = phase.get("instance")
            member.host = phase["host"].lstrip("/")
            if phase.get("joined_after_ms") is not None:
                member.owned, member.last_seen_ms = phase.get("owned"), line.at
        self.members = present

    def _rebalance_completed(self, line: Placed) -> None:
        self.state = "Stable"
        self._assign(line["assigned"])

    def _assign(self, assigned: dict[str, Any] | None) -> None:
        for name, member in self.members.items():
            member.owned = None if assigned is None else assigned.get(name, {})

    def _group_recovered(self, line: Placed) -> None:
        self.state, self.is_known = line["state"], True
        self.members = {name: self.members.get(name) or MemberEnd(name) for name in line["members"]}
        self._assign(line["assigned"])

    def _group_emptied(self, _line: Placed) -> None:
        self.state, self.members, self.is_known = "Empty", {}, True

    def _group_deleted(self, _line: Placed) -> None:
        self.state, self.members, self.is_known = _DEAD, {}, True


_TIMEOUTS: Final = ("session_timeout_ms", "rebalance_timeout_ms")


def end_of(
    group: str,
    lines: GroupLines,
    deletions: Mapping[str, Sequence[Deletion]],
    clocks: Mapping[str, ClockSteps],
) -> GroupEnd:
    """What the last lines of a group tell, which are in order.

    Topics were deleted meanwhile, and clocks of nodes set.
    """
    found, history = GroupEnd(group), History(_REBALANCES)
    deleted_ms = in_time_of(lines, deletions)
    gone_topics = deque(sorted((ms, topic) for topic, dates in deleted_ms.items() for ms in dates))
    for line in lines:
        while gone_topics and gone_topics[0][0] <= line.at:
            ms, topic = gone_topics.popleft()
            gone = TopicChanged(topic=topic, change="deleted", partitions_before=0, partitions=0)
            history.observe(ms, gone)
        found.note(line)
        if type(event := event_of(line.values)) in History.KINDS:
            history.clock = clocks.get(line.node, NO_STEPS)
            history.observe(line.at, event)
    found.rebalance, found.rebalances = history.running(group), history.last(group)
    return found
