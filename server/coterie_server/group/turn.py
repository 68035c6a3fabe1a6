"""One step of the coordinator: what it may look at, and what comes of it.

A handler gets a `Turn`.  It changes groups in memory, parks or answers requests, and notes what
is to be stored and what happened; the shell stores the records first, then lets the replies go,
then writes the events down.  So nobody outside ever learns of a change that a crash could undo.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from coterie_server.group.commit_order import CommitOrder
from coterie_server.group.deadlines import Deadlines
from coterie_server.group.group import Group
from coterie_server.group.member import Parked
from coterie_server.group.records import FloorRow, Gone, GroupRow, OffsetRow, Record, Row
from coterie_server.group.states import GroupState
from coterie_server.limit_hit import LimitHit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie_protocol.journal import Event
    from coterie_server.group.member import Member, Ticket

__all__ = ["Call", "Config", "IdSource", "Outcome", "Shard", "Turn", "shown"]

#: As much of a group's name is shown.
_SHOWN_MAX: Final = 1_000


class IdSource(Protocol):
    """Where member ids come from; random ones in production, counted ones in tests."""

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """A member id that nobody has had before."""
        ...


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that the core goes by; the names are Kafka's."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    max_pending_members: int = 10_000
    #: How many groups the node may hold, those of all shards together.
    max_groups: int = 100_000
    #: How many deleted groups the shard remembers by name.
    max_tombstones: int = 10_000
    #: A new member may not know its id and can't send heartbeats; its parked join is given up
    #: after this long, or clients that time out and ask again would fill the group with ghosts.
    new_member_join_timeout_ms: int = 300_000
    static_expansion_timeout_ms: int = 0
    ownership_guard: str = "report"
    rebalance_on_topic_change: bool = True
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_check_interval_ms: int = 600_000


@dataclass(slots=True)  # not frozen: it would take three times as long to make one
class Call:
    """A request, and what is known of the client that sent it; nobody changes it."""

    message: Any
    version: int
    client_id: str = ""
    host: str = ""


@dataclass(slots=True)
class Outcome:
    """What is to be done now, in this order: store the records, send the replies, journal."""

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    #: The limits that kept clients from getting what they asked for.
    hits: tuple[LimitHit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.records or self.replies or self.events or self.hits)


class Shard:
    """All that the coordinator of one shard remembers."""

    def __init__(
        self,
        config: Config,
        ids: IdSource,
        topics: Mapping[str, int],
        count_groups: Callable[[], int] | None = None,
        *,
        commit_order: CommitOrder | None = None,
        date_of: Callable[[int], int] | None = None,
        topic_changed_at: Callable[[str], int] | None = None,
    ) -> None:
        self.config = config
        self.ids = ids
        #: How many partitions each topic has, kept up to date by whoever owns the catalogue.
        self.topics = topics
        #: The date at which a topic was made or grew last.
        self.topic_changed_at = topic_changed_at or (lambda _topic: 0)
        self.groups: dict[str, Group] = {}
        #: How many groups the node holds, those of other shards included.
        self.count_groups = count_groups or self.groups.__len__
        #: The date of a moment; all times are running time, but what is kept or told has dates.
        self.date_of = date_of or (lambda now_ms: now_ms)
        #: Generations of deleted groups, so that their numbers are never used again; the oldest
        #: first.
        self.tombstones: dict[str, GroupRow] = {}
        #: The generation after which groups begin that are not remembered.
        self.floor = FloorRow()
        self.deadlines = Deadlines()
        self.commit_order = CommitOrder() if commit_order is None else commit_order

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether there is such a member."""
        group = self.groups.get(group_id)
        return group is not None and member_id in group.members

    def keep_alive(self, group: Group, member: Member, until_ms: int) -> None:
        """Let a member's session last until then.

        A heartbeat comes through here more often than anything else: as long as the member's
        deadline is armed, at whatever time, only a number changes.
        """
        member.alive_until_ms = until_ms
        key = ("session", group.id, member.id)
        armed = self.deadlines.at(key)
        if armed is None or armed > until_ms:
            self.deadlines.set(key, until_ms)


class Turn:
    """A step that is being taken, at one moment, on one shard."""

    __slots__ = ("_has_forgotten", "_touched", "config", "now_ms", "outcome", "shard")

    def __init__(self, shard: Shard, now_ms: int) -> None:
        self.shard = shard
        self.config = shard.config
        self.now_ms = now_ms
        self.outcome = Outcome()
        self._touched: dict[str, tuple[Group, GroupRow]] = {}
        self._has_forgotten = False

    @property
    def date_ms(self) -> int:
        """The date, for what is kept or told; deadlines and durations go by `now_ms`."""
        return self.shard.date_of(self.now_ms)

    # -- groups --------------------------------------------------------------------------------

    def group(self, group_id: str) -> Group | None:
        """A group, if it exists; its row is stored at the end of the turn if it has changed."""
        group = self.shard.groups.get(group_id)
        if group is not None and group_id not in self._touched:
            self._touched[group_id] = (group, group.row)
        return group

    def create(self, group_id: str) -> Group | None:
        """Make a group, if there is room; it carries on counting generations used before."""
        if self.shard.count_groups() >= self.config.max_groups:
            self.note_hit("max.groups", self.config.max_groups, shown(group_id))
            return None
        tombstone = self.shard.tombstones.pop(group_id, None)
        generation = tombstone.generation if tombstone else self.shard.floor.generation
        group = Group(group_id, generation=generation, date_ms=self.date_ms)
        self.shard.groups[group_id] = group
        unsaved = GroupRow(group_id=group_id, state="", generation=-1)
        self._touched[group_id] = (group, unsaved)
        return group

    def delete(self, group: Group) -> None:
        """Delete an empty group with all that belongs to it, but for its generation."""
        row = group.enter(GroupState.DEAD, self.date_ms)
        for topic, partition in group.offsets:
            self.record(Gone(OffsetRow, group.id, topic, partition))
        for member_id in group.pending_joins:
            self.forget_session(group, member_id)
        del self.shard.groups[group.id]
        self._touched.pop(group.id, None)
        if group.generation > self.shard.floor.generation:
            tombstone = replace(row, protocol_type=None, protocol_name=None, cause="")
            self.shard.tombstones[group.id] = tombstone
            self.record(tombstone)
            self._forget_tombstones()
        else:
            self.record(Gone(GroupRow, group.id))

    def _forget_tombstones(self) -> None:
        """Let one floor stand for the oldest tombstones, so that they do not pile up."""
        shard = self.shard
        while len(shard.tombstones) > self.config.max_tombstones:
            oldest = shard.tombstones.pop(next(iter(shard.tombstones)))
            self.record(Gone(GroupRow, oldest.group_id))
            if oldest.generation > shard.floor.generation:
                shard.floor = replace(shard.floor, generation=oldest.generation)
                self.record(shard.floor)

    def enter(self, group: Group, state: GroupState) -> None:
        """Move a group to another state."""
        group.apply(group.enter(state, self.date_ms))

    # -- what comes of the turn ----------------------------------------------------------------

    def reply(self, ticket: Ticket, message: Any) -> None:  # noqa: ANN401  # any response
        """Answer a request once the records of this turn are stored."""
        self.outcome.replies.append((ticket, message))

    def record(self, record: Record) -> None:
        """Store a row, or that it is gone."""
        self.outcome.records.append(record)
        if type(record) is Gone and record.row is OffsetRow:
            self._has_forgotten = True

    def event(self, event: Event) -> None:
        """Write down that something happened."""
        self.outcome.events.append(event)

    def note_hit(self, setting: str, limit: int, wanted: str) -> None:
        """Note which limit kept a client from getting something."""
        self.outcome.hits += (LimitHit(setting, limit, wanted),)

    def save(self, group: Group, row: Row) -> None:
        """Take over a row and store it."""
        group.apply(row)
        self.record(row)

    def save_offsets(self, group: Group, rows: list[OffsetRow]) -> None:
        """Take over many offsets at once and store them."""
        group.apply_offsets(rows)
        self.outcome.records += rows

    def finish(self) -> Outcome:
        """Store the groups that have changed and hand over what came of the turn."""
        for group, before in self._touched.values():
            if group.row != before:
                self.record(group.row)
        if self._has_forgotten:
            floor = self.shard.floor
            at_ms = max(floor.forgot_at_ms, self.date_ms)
            self.shard.floor = replace(floor, forgot_at_ms=at_ms)
            self.record(self.shard.floor)
        return self.outcome

    # -- time ----------------------------------------------------------------------------------

    def arm(self, group: Group, kind: str, after_ms: int) -> None:
        """Set a deadline of a group."""
        self.shard.deadlines.set((kind, group.id, ""), self.now_ms + after_ms)

    def cancel(self, group: Group, kind: str) -> None:
        """Forget a deadline of a group."""
        self.shard.deadlines.cancel((kind, group.id, ""))

    def keep_alive(self, group: Group, member: Member, for_ms: int | None = None) -> None:
        """Give a member a new session."""
        timeout_ms = member.row.session_timeout_ms if for_ms is None else for_ms
        self.shard.keep_alive(group, member, self.now_ms + timeout_ms)

    def forget_session(self, group: Group, member_id: str) -> None:
        """Forget the deadline of a member that is gone."""
        self.shard.deadlines.cancel(("session", group.id, member_id))

    def park(self, call: Call, ticket: Ticket) -> Parked:
        """Put a request aside."""
        return Parked(ticket, call.version, self.now_ms)


def shown(group_id: str) -> str:
    """A group as it is named to people; its name can be as long as any text."""
    return f"group {group_id[:_SHOWN_MAX]}"
