"""What is known of groups at one moment of the logs: members, the running rebalance, holdings.

Holdings are reckoned as Coterie's coordinator does it: an assignment is compared with the one
before, a partition whose holder is gone has no holder, and what members claim as they join is
compared with what others are given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from coterie_pipeline.kafka_logs.dump import Dump
from coterie_pipeline.kafka_logs.log_events import MemberInfo
from coterie_pipeline.kafka_logs.offsets_topic import Generation, Partition
from coterie_protocol.consumer import group_by_topic
from coterie_protocol.journal import Event, GroupRecovered, Partitions

__all__ = [
    "Conflict",
    "Group",
    "Holdings",
    "LogState",
    "Member",
    "Running",
    "TimedEvent",
    "by_topic",
    "conflicts",
    "follow_up",
    "name_before_id",
]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A partition given to one member while another holds it."""

    partition: Partition
    holder: str
    given_to: str


class Holdings:
    """The holder of each partition, as far as that is known."""

    __slots__ = ("_former", "_holders")

    def __init__(self, given: Mapping[str, Iterable[Partition]] | None) -> None:
        self._holders = None if given is None else _by_partition(given)
        #: The last holder of each partition that has none now.
        self._former: dict[Partition, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether it is known that no partition has a holder."""
        return self._holders is not None and not self._holders

    def by_member(self, members: Iterable[str]) -> Mapping[str, Partitions] | None:
        """What each of these members holds."""
        if self._holders is None:
            return None
        owned: dict[str, list[Partition]] = {member: [] for member in members}
        for partition, holder in self._holders.items():
            if holder in owned:
                owned[holder].append(partition)
        return {member: by_topic(partitions) for member, partitions in owned.items()}

    def forget(self, member: str) -> Partitions | None:
        """Take away all that a member holds, and return it."""
        if self._holders is None:
            return None
        owned = [partition for partition, holder in self._holders.items() if holder == member]
        for partition in owned:
            self._former[partition] = self._holders.pop(partition)
        return by_topic(owned)

    def rename(self, former: str, member: str) -> None:
        """Hand the holdings of a static member on to its new member id."""
        for holders in (self._holders or {}, self._former):
            for partition, holder in holders.items():
                if holder == former:
                    holders[partition] = member

    def changes(self, given: Mapping[str, Iterable[Partition]] | None) -> tuple[int, int]:
        """How many partitions an assignment moves and revokes; 0 if that can't be known."""
        if self._holders is None or given is None:
            return 0, 0
        owner = _by_partition(given)
        last = self._former | self._holders
        moved = sum(last.get(partition, name) != name for partition, name in owner.items())
        return moved, sum(owner.get(p) != holder for p, holder in self._holders.items())

    def followed_by(
        self, given: Mapping[str, Iterable[Partition]] | None, *, is_whole: bool
    ) -> Holdings:
        """What an assignment makes of them; if it is not whole, the next one has the rest."""
        fresh = Holdings(given)
        if not is_whole and self._holders is not None and fresh._holders is not None:
            last = self._former | self._holders
            fresh._former = {p: name for p, name in last.items() if p not in fresh._holders}
        return fresh


def by_topic(partitions: Iterable[Partition]) -> Partitions:
    """Partitions in the shape in which the journal has them."""
    return {entry.topic: entry.partitions for entry in group_by_topic(partitions)}


def conflicts(generation: Generation) -> list[Conflict]:
    """Partitions that were given to a member while another one says that it holds them."""
    claims: dict[Partition, tuple[int, str]] = {}
    for name, member in generation.members.items():
        for partition in member.owned or ():
            # Of two who claim it, the one that had it in the later generation is right.
            if partition not in claims or claims[partition][0] < member.owned_in:
                claims[partition] = (member.owned_in, name)
    held = {partition: name for partition, (_, name) in claims.items()}
    found = []
    for name, partitions in (generation.given or {}).items():
        for partition in sorted(partitions):
            holder = held.setdefault(partition, name)
            if holder != name:
                found.append(Conflict(partition, holder, name))
    return found


def follow_up(generation: Generation) -> frozenset[str]:
    """Members that own something they are not given: they revoke it and join again."""
    given = generation.given or {}
    return frozenset(
        name
        for name, member in generation.members.items()
        if name in given and (member.owned or frozenset()) - given[name]
    )


def _by_partition(given: Mapping[str, Iterable[Partition]]) -> dict[Partition, str]:
    return {partition: name for name, parts in given.items() for partition in sorted(parts)}


# -- a group ---------------------------------------------------------------------------------------


EMPTY: Final = "Empty"
PREPARING: Final = "PreparingRebalance"
COMPLETING: Final = "CompletingRebalance"
STABLE: Final = "Stable"

#: What Kafka's consumers ask for (`max.poll.interval.ms`) if nothing else is set.
_LIMIT_MS: Final = 300_000

#: Brokers make member ids of the client's id, or of a static member's name, and a random id.
_RANDOM_ID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def name_before_id(member: str) -> str:
    """What a member id was made of."""
    return _RANDOM_ID.sub("", member)


@dataclass(slots=True)
class Member:
    """One member; `joined_ms` is when it joined in the phase that runs, if that is known."""

    info: MemberInfo
    joined_ms: int | None = None


@dataclass(slots=True)
class Running:
    """A rebalance that goes on."""

    started_ms: int
    cause: str
    awaited: tuple[str, ...]
    #: How many had gone when it began.
    gone_before: int
    joined_ms: int | None = None
    dropped: list[str] = field(default_factory=list)
    #: The generation as it was stored, if it was.
    stored: Generation | None = None


@dataclass(slots=True)
class Group:
    """One group."""

    name: str
    node: str
    generation: int = 0
    state: str = STABLE
    members: dict[str, Member] = field(default_factory=dict)
    #: Clients that were given member ids, and when.
    pending: dict[str, int] = field(default_factory=dict)
    #: The members that went since the last generation began, and how.
    departed: dict[str, str] = field(default_factory=dict)
    #: Ids that had to be made up, by the names of their static members.
    made_up: dict[str, str] = field(default_factory=dict)
    leader: str = ""
    protocol_type: str = ""
    protocol: str = ""
    holdings: Holdings = field(default_factory=lambda: Holdings(None))
    #: The members that the last assignment asks to give something up and to join again.
    follow_up: frozenset[str] = frozenset()
    running: Running | None = None
    #: The members that a coordinator is reading back, and in which generation.
    loading: dict[str, MemberInfo] = field(default_factory=dict)
    loading_generation: int | None = None

    def id_of(self, member: str) -> str:
        """The id under which a member is known: the one made up for it, if one was."""
        if member in self.members:
            return member
        return self.made_up.get(name_before_id(member), member)

    def note_state(self, state: str) -> None:
        """Take over the state that a line gives; what matters is whether the group is empty."""
        if state == EMPTY and not self.members:
            self.state, self.holdings = EMPTY, Holdings({})

    def take(self, generation: Generation) -> None:
        """Take over a stored generation."""
        self.generation = generation.number
        self.members = {self.id_of(m): Member(s.info) for m, s in generation.members.items()}
        self.leader = self.id_of(generation.leader)
        self.protocol_type, self.protocol = generation.protocol_type, generation.protocol
        self.state = STABLE if generation.members else EMPTY
        given = generation.given
        self.holdings = Holdings(
            None if given is None else {self.id_of(m): parts for m, parts in given.items()}
        )

    def load(self, infos: Iterable[MemberInfo]) -> None:
        """Replace all members."""
        self.members = {self.id_of(info.member): Member(info) for info in infos}
        for name, member in self.members.items():
            member.info = replace(member.info, member=name)
        self.state = STABLE if self.members else EMPTY
        self.running = None
        self.pending.clear()
        self.departed.clear()

    def empty(self, generation: int) -> None:
        """Remove all members."""
        self.generation, self.state = generation, EMPTY
        self.members.clear()
        self.departed.clear()
        self.made_up.clear()
        self.leader, self.follow_up, self.running = "", frozenset(), None
        self.holdings = Holdings({})

    def last_to_join(self, *, is_whole: bool) -> str | None:
        """The member whose join has ended the first phase, where there is no doubt about that.

        Either all joins are known, or only one member was awaited, and none came or went
        meanwhile.  `is_whole` tells whether all members are known.
        """
        running, joined_ms = self.running, self._joins()
        if running is None or not is_whole:
            return None
        if len(joined_ms) == len(self.members) > 0:
            return max(joined_ms, key=lambda name: (joined_ms[name], name))
        unknown = self.members.keys() - joined_ms.keys()
        is_calm = not self.pending and len(self.departed) == running.gone_before
        is_calm = is_calm and all(each == running.started_ms for each in joined_ms.values())
        is_alone = len(unknown) == 1 and unknown == set(running.awaited)
        return running.awaited[0] if is_calm and is_alone else None

    def _joins(self) -> dict[str, int]:
        joins = ((name, member.joined_ms) for name, member in self.members.items())
        return {name: joined_ms for name, joined_ms in joins if joined_ms is not None}

    def phase_limit_ms(self) -> int:
        """How long the first phase may take until those who did not come are left out."""
        return max((m.info.rebalance_ms for m in self.members.values()), default=0) or _LIMIT_MS

    def confirm(self, count: int | None) -> list[str]:
        """The clients that were given ids and must have joined, the earliest first.

        `count` is how many members the group has; without it, all of them are taken to have joined.
        """
        room = len(self.pending) if count is None else max(count - len(self.members), 0)
        return list(self.pending)[:room]


# -- all groups ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event, its time, and the broker whose journal it belongs into."""

    ts_ms: int
    node: str
    event: Event


@dataclass(slots=True)
class LogState:
    """All groups, and the line that is being handled: its time and its broker."""

    dump: Dump
    node: str
    groups: dict[str, Group] = field(default_factory=dict)
    #: The groups in which each `group.instance.id` was seen: some lines do not name the group.
    groups_by_instance: dict[str, list[str]] = field(default_factory=dict)
    now_ms: int = 0
    events: list[TimedEvent] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Add an event at the present time."""
        self.events.append(TimedEvent(self.now_ms, self.node, event))

    def group(self, name: str, generation: int | None = None) -> Group:
        """A group; when it is first mentioned, what is stored of it is taken over and emitted.

        `generation` is the one that the line gives, if it does.
        """
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name, self.node)
            self._introduce(group, generation)
        group.node = self.node
        return group

    def group_unannounced(self, name: str) -> Group:
        """A group, without emitting anything about it."""
        group = self.groups.setdefault(name, Group(name, self.node))
        group.node = self.node
        return group

    def record_instance(self, group: Group, instance: str | None) -> None:
        """Record that a static member of this name belongs to a group."""
        if instance is not None:
            groups = self.groups_by_instance.setdefault(instance, [])
            if group.name not in groups:
                groups.append(group.name)

    def emit_recovered(self, group: Group) -> None:
        """Emit the present state of a group."""
        assigned = group.holdings.by_member(group.members)
        self.emit(
            GroupRecovered(
                group=group.name,
                state=group.state,
                generation=group.generation,
                members=tuple(group.members),
                assigned=assigned,
            )
        )

    def _introduce(self, group: Group, generation: int | None) -> None:
        """Take over what was stored before the log begins."""
        stored = self.dump.latest(group.name, self.now_ms)
        if stored is not None and generation in (None, stored.number):
            group.take(stored)
            if group.members:
                self.emit_recovered(group)
        elif not generation:
            group.state = EMPTY if generation == 0 else group.state
            group.holdings = Holdings({} if generation == 0 else None)
