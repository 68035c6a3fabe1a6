"""The coordinator of one shard's groups: requests and time go in, what is to be done comes out.

It reads no clock, draws no random numbers and awaits nothing.  The shard that runs it hands in the
time, stores the records, sends the replies and calls `fire` when `next_deadline` has come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_server.group import (
    admin,
    heartbeat,
    join,
    leave,
    offsets,
    operations,
    rebalance,
    recovery,
    standing,
    standing_rules,
    sync,
)
from coterie_server.group import commit as offset_commit
from coterie_server.group.states import GroupState
from coterie_server.group.step import Step
from coterie_server.group.table import Config, GroupTable, IdSource
from coterie_server.group.topic_changes import rebalance_for_topics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_server.group.deadlines import Deadline
    from coterie_server.group.group import Group
    from coterie_server.group.records import Record, StoredRow
    from coterie_server.group.table import CommitOrder
    from coterie_server.step import Outcome, Request

__all__ = ["GroupCoordinator"]

_RULES: Final[dict[type[Any], Callable[[Step, Request], None]]] = {
    m.DeleteGroupsRequest: admin.delete_groups,
    m.DescribeGroupsRequest: admin.describe_groups,
    m.HeartbeatRequest: heartbeat.heartbeat,
    m.JoinGroupRequest: join.join,
    m.LeaveGroupRequest: leave.leave,
    m.ListGroupsRequest: admin.list_groups,
    m.OffsetCommitRequest: offset_commit.commit,
    m.OffsetDeleteRequest: offsets.delete_offsets,
    m.OffsetFetchRequest: offsets.fetch_offsets,
    m.SyncGroupRequest: sync.sync,
}

_DEADLINES: Final[dict[str, Callable[[Step, Group], None]]] = {
    "join": rebalance.expire_join,
    "sync": rebalance.expire_sync,
    "expansion": join.expire_expansion,
    "freeze": standing_rules.end_freeze,
}

_SWEEP: Final = ("sweep", "", "")


class GroupCoordinator:
    """The groups of one shard.

    `topics` says how many partitions each topic has; its owner keeps it up to date.
    `count_groups` says how many groups there are, those of other shards included; `count_owned`,
    how many of them a principal has made.
    `commit_order` comes from the coordinator that had the shard before in this process, if any.
    `now_ms` is running time everywhere, which stands still while the node does not run; `date_of`
    says what date a moment of it is.
    """

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
        self.table = GroupTable(
            config,
            ids,
            topics,
            count_groups,
            count_owned=count_owned,
            commit_order=commit_order,
            date_of=date_of,
        )
        #: The groups by name, to be shown and counted, not to be changed.
        self.groups: Mapping[str, Group] = self.table.groups

    def recover(
        self,
        rows: Iterable[StoredRow],
        now_ms: int,
        *,
        is_lossy: bool = False,
        lacks_topics: bool = False,
        timeline: int = 0,
    ) -> Outcome[Record]:
        """Take up where the stored rows leave off; members get a fresh session to come back in.

        With `is_lossy`, rows may be missing: all generations are over, and their numbers go on
        behind any that can have been used.  With `lacks_topics`, topics may be missing as well, so
        that one which is not there need not have been deleted.  `timeline` is that of the database;
        after it has changed, only the next generation of each group goes on so.
        """
        table = self.table
        table.deadlines.set(_SWEEP, now_ms + table.config.offsets_check_interval_ms)
        step = Step(table, now_ms)
        recovery.recover(
            step, rows, is_lossy=is_lossy, lacks_topics=lacks_topics, timeline=timeline
        )
        return step.finish()

    def generation_of(self, group_id: str) -> int:
        """The newest generation that a group has had, or may have had if it was deleted."""
        table = self.table
        if group_id in table.groups:
            return table.groups[group_id].generation
        tombstone = table.tombstones.get(group_id)
        return tombstone.generation if tombstone is not None else table.floor.generation

    # -- requests ------------------------------------------------------------------------------

    def handle(self, request: Request, now_ms: int) -> Outcome[Record]:
        """Take a request; its reply is in this outcome or in a later one."""
        step = Step(self.table, now_ms)
        _RULES[type(request.message)](step, request)
        return step.finish()

    def try_heartbeat(self, message: m.HeartbeatRequest, now_ms: int) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat that needs no step; None for those that `handle` takes."""
        return heartbeat.try_heartbeat(self.table, message, now_ms)

    # -- time ----------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """When `fire` is to be called next, if nothing happens before."""
        return self.table.deadlines.next()

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        kind = "join" if group.state is GroupState.PREPARING else "sync"
        return self.table.deadlines.at((kind, group.id, ""))

    def fire(self, now_ms: int) -> Outcome[Record]:
        """Do what is due."""
        step = Step(self.table, now_ms)
        while (deadline := self.table.deadlines.pop_due(now_ms)) is not None:
            if deadline == _SWEEP:
                self._sweep(step)
            else:
                _fire_one(step, deadline)
        return step.finish()

    def _sweep(self, step: Step) -> None:
        """Let old offsets expire, and whatever else is forgotten after a while."""
        table = self.table
        for group_id in list(table.groups):
            group = step.group(group_id)
            if group is not None:
                standing.forget_lost(step, group)
                offsets.expire(step, group)
        table.commit_order.forget_gone(table.is_member)
        interval_ms = max(table.config.offsets_check_interval_ms, 1)
        table.deadlines.set(_SWEEP, step.now_ms + interval_ms)

    # -- what others make happen ---------------------------------------------------------------

    def force_rebalance(self, group_id: str, now_ms: int) -> Outcome[Record]:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        return self.operate(partial(operations.force_rebalance, group_id=group_id), now_ms)

    def operate(self, operation: Callable[[Step], None], now_ms: int) -> Outcome[Record]:
        """Do what an operator asks for, one of `operations`, or raise `Refusal`."""
        step = Step(self.table, now_ms)
        operation(step)
        return step.finish()

    def topics_changed(
        self, changes: Mapping[str, str], until_ms: int, now_ms: int
    ) -> Outcome[Record]:
        """Tell the groups that subscribe to topics what became of these: created, grown, deleted.

        Of those that went away, the offsets are forgotten that were committed until `until_ms`;
        later ones belong to a topic that was made anew under its name.
        """
        step = Step(self.table, now_ms)
        is_cause = self.table.config.rebalance_on_topic_change
        deleted = {topic for topic, change in changes.items() if change == "deleted"}
        # There may be very many groups, and most have nothing to do with these topics.
        for group in list(self.table.groups.values()):
            if deleted and group.offsets:
                offsets.forget_topics(step, group, deleted, until_ms)
            topics = group.topics()
            if is_cause and topics and not topics.isdisjoint(changes):
                own = {topic: change for topic, change in changes.items() if topic in topics}
                rebalance_for_topics(step, group, own)
        return step.finish()


def _fire_one(step: Step, deadline: Deadline) -> None:
    kind, group_id, member_id = deadline
    group = step.group(group_id)
    if group is None:
        return
    if kind == "session":
        heartbeat.expire_session(step, group, member_id)
    else:
        _DEADLINES[kind](step, group)
