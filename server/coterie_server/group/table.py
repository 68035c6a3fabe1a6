"""What the coordinator of one shard remembers, and the settings that it goes by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from coterie_server.group.deadlines import Deadlines
from coterie_server.group.records import FloorRow, GroupRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from coterie_server.group.group import Group

__all__ = ["CommitOrder", "Config", "GroupTable", "IdSource"]


class IdSource(Protocol):
    """Where member ids come from; random ones in production, counted ones in tests."""

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """A member id that was never used before."""
        ...


@dataclass(frozen=True, slots=True)
class Config:
    """The settings that the coordinator goes by; the names are Kafka's."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    #: The same for the groups that some principals have made, in its place.
    max_size_by_owner: Mapping[str, int] = field(default_factory=dict)
    max_pending_members: int = 10_000
    #: How many groups the node may hold, those of all shards together.
    max_groups: int = 100_000
    #: How many of them one principal may have made, and how many some principals may have.
    max_groups_per_owner: int = 2**31 - 1
    max_groups_by_owner: Mapping[str, int] = field(default_factory=dict)
    #: How many deleted groups the shard remembers by name.
    max_tombstones: int = 10_000
    #: A new member may not know its id and can't send heartbeats.  Its parked join is given up
    #: after this long, or clients that time out and ask again would fill the group with ghosts.
    new_member_join_timeout_ms: int = 300_000
    static_expansion_timeout_ms: int = 0
    #: How long a static member may be silent before its place is given up; its session at least.
    static_registration_timeout_ms: int = 0
    ownership_guard: str = "report"
    rebalance_on_topic_change: bool = True
    #: How long a group can be frozen at most.
    freeze_max_ms: int = 24 * 3_600_000
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_check_interval_ms: int = 600_000


class CommitOrder:
    """The highest number of a commit that was taken from each member who numbers its commits.

    A commit may be held up on a connection that its client has given up and replaced, and arrive
    after one that was sent later.  That can happen for as long as the process lives, so these
    numbers outlive a coordinator: when its shard is read again, the next coordinator is given the
    same object.  All connections end with the process, so nothing of it is stored.  While another
    node has the shard its numbers are not known here, so `GroupShard` takes no numbered commits
    from connections that were made before it came back.
    """

    def __init__(self) -> None:
        self._highest: dict[tuple[str, str], int] = {}
        #: Those of them that were no members when last looked at.
        self._gone: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._highest)

    def admits(self, group_id: str, member_id: str, sequence: int) -> bool:
        """Whether a commit comes in its order; one without a number always does."""
        return sequence < 0 or sequence > self._highest.get((group_id, member_id), -1)

    def note(self, group_id: str, member_id: str, sequence: int) -> None:
        """Remember that a commit was taken."""
        if sequence >= 0:
            self._highest[group_id, member_id] = sequence

    def forget_gone(self, is_member: Callable[[str, str], bool]) -> None:
        """Forget those who have not been members since this was last called.

        Not at once: that a member is gone may not be stored yet, and if it never is, the shard is
        read again with the member in it.
        """
        gone = {member for member in self._highest if not is_member(*member)}
        for member in gone & self._gone:
            del self._highest[member]
        self._gone = gone & self._highest.keys()


class GroupTable:
    """The groups of one shard, and all that concerns more than one of them."""

    def __init__(
        self,
        config: Config,
        ids: IdSource,
        topics: Mapping[str, int],
        count_groups: Callable[[], int] | None = None,
        *,
        count_owned: Callable[[str], int] | None = None,
        commit_order: CommitOrder | None = None,
        date_of: Callable[[int], int] | None = None,
    ) -> None:
        self.config = config
        self.ids = ids
        #: How many groups each principal has made here.
        self.owned: Counter[str] = Counter()
        #: How many groups of the node a principal has made, those of other shards included.
        self.count_owned = count_owned or self.owned.__getitem__
        #: How many partitions each topic has, kept up to date by the owner of the catalogue.
        self.topics = topics
        self.groups: dict[str, Group] = {}
        #: How many groups the node holds, those of other shards included.
        self.count_groups = count_groups or self.groups.__len__
        #: The date of a moment.  All times are running time; what is stored or told has dates.
        self.date_of = date_of or (lambda now_ms: now_ms)
        #: The generations of deleted groups, so that their numbers are never used again; the
        #: oldest first.
        self.tombstones: dict[str, GroupRow] = {}
        #: The generation after which groups begin that are not remembered.
        self.floor = FloorRow()
        #: The timeline of the database underneath: it begins another one when it may have lost
        #: its last writes.
        self.timeline = 0
        #: The numbers of bundles of offsets that were never given yet.
        self.bundle_numbers: Iterator[int] = count(1)
        self.deadlines = Deadlines()
        self.commit_order = CommitOrder() if commit_order is None else commit_order

    def disown(self, owner: str) -> None:
        """Take note that one of a principal's groups is gone."""
        self.owned[owner] -= 1
        if not self.owned[owner]:
            del self.owned[owner]

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether there is such a member."""
        group = self.groups.get(group_id)
        return group is not None and member_id in group.members
