"""The coordinator of one shard's groups: requests and time go in, what is to be done comes out.

It reads no clock, draws no random numbers and awaits nothing.  Whoever runs it hands in the time,
stores the records, lets the replies go and calls `fire` when `next_deadline` has come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from coterie_server.group import (
    administration,
    joining,
    membership,
    offsets,
    rebalancing,
    recovery,
    syncing,
)
from coterie_server.group.states import GroupState
from coterie_server.group.turn import Call, Config, IdSource, Outcome, Shard, Turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie_protocol.messages import HeartbeatResponse
    from coterie_server.group.commit_order import CommitOrder
    from coterie_server.group.deadlines import Deadline
    from coterie_server.group.group import Group
    from coterie_server.group.member import Ticket
    from coterie_server.group.records import StoredRow

__all__ = ["Coordinator"]

Handler = Callable[[Turn, "Ticket", Call], None]

_HANDLERS: Final[dict[type[Any], Handler]] = {
    DeleteGroupsRequest: administration.delete,
    DescribeGroupsRequest: administration.describe,
    HeartbeatRequest: membership.heartbeat,
    JoinGroupRequest: joining.join,
    LeaveGroupRequest: membership.leave,
    ListGroupsRequest: administration.list_groups,
    OffsetCommitRequest: offsets.commit,
    OffsetDeleteRequest: offsets.delete,
    OffsetFetchRequest: administration.fetch_offsets,
    SyncGroupRequest: syncing.sync,
}

_DEADLINES: Final[dict[str, Callable[[Turn, Group], None]]] = {
    "join": rebalancing.expire_join,
    "sync": rebalancing.expire_sync,
    "expansion": joining.expire_expansion,
}


_SWEEP: Final = ("sweep", "", "")


class Coordinator:
    """The groups of one shard.

    `topics` says how many partitions each topic has; its owner keeps it up to date.
    `count_groups` says how many groups there are where other shards have groups as well.
    `commit_order` comes from the coordinator that had the shard before, if there was one in this
    process.
    `now_ms` is running time everywhere, by which nobody is late while the node does not run;
    `date_of` says what date a moment of it is, `topic_changed_at` at which date a topic was made or
    grew last.
    """

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
        self._shard = Shard(
            config,
            ids,
            topics,
            count_groups,
            commit_order=commit_order,
            date_of=date_of,
            topic_changed_at=topic_changed_at,
        )

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups, for whoever shows or counts them; not to be changed."""
        return self._shard.groups

    @property
    def topics(self) -> Mapping[str, int]:
        """How many partitions each topic has."""
        return self._shard.topics

    def recover(
        self, rows: Iterable[StoredRow], now_ms: int, *, generations_lost: int = 0
    ) -> Outcome:
        """Take up where the stored rows leave off; members get a fresh session to come back in.

        If as many generations may be missing in the rows, all numbers go on behind those.
        """
        self._shard.deadlines.set(_SWEEP, now_ms + self._shard.config.offsets_check_interval_ms)
        turn = Turn(self._shard, now_ms)
        recovery.recover(turn, rows, generations_lost)
        return turn.finish()

    def generation_of(self, group_id: str) -> int:
        """The newest generation that a group has had, or may have had if it was deleted."""
        shard = self._shard
        if group_id in shard.groups:
            return shard.groups[group_id].generation
        tombstone = shard.tombstones.get(group_id)
        return tombstone.generation if tombstone is not None else shard.floor.generation

    @property
    def forgot_at_ms(self) -> int:
        """When an offset was last deleted, of any group; -1 if never."""
        return self._shard.floor.forgot_at_ms

    # -- requests and time ---------------------------------------------------------------------

    def handle(self, ticket: Ticket, call: Call, now_ms: int) -> Outcome:
        """Take a request; its reply is in this outcome or in a later one, under its ticket."""
        turn = Turn(self._shard, now_ms)
        _HANDLERS[type(call.message)](turn, ticket, call)
        return turn.finish()

    def hear(self, message: HeartbeatRequest, now_ms: int) -> HeartbeatResponse | None:
        """The answer to a heartbeat of which nothing comes; None for those that `handle` takes."""
        return membership.hear(self._shard, message, now_ms)

    def next_deadline(self) -> int | None:
        """When `fire` is to be called next, if nothing happens before."""
        return self._shard.deadlines.next()

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        kind = "join" if group.state is GroupState.PREPARING else "sync"
        return self._shard.deadlines.at((kind, group.id, ""))

    def fire(self, now_ms: int) -> Outcome:
        """Do what is due."""
        turn = Turn(self._shard, now_ms)
        while (deadline := self._shard.deadlines.pop_due(now_ms)) is not None:
            if deadline == _SWEEP:
                self._sweep(turn)
            else:
                self._fire_one(turn, deadline)
        return turn.finish()

    def _fire_one(self, turn: Turn, deadline: Deadline) -> None:
        kind, group_id, member_id = deadline
        group = turn.group(group_id)
        if group is None:
            return
        if kind == "session":
            membership.expire_session(turn, group, member_id)
        else:
            _DEADLINES[kind](turn, group)

    def _sweep(self, turn: Turn) -> None:
        for group_id in list(self._shard.groups):
            group = turn.group(group_id)
            if group is not None:
                offsets.expire(turn, group)
        self._shard.commit_order.forget_gone(self._shard.is_member)
        interval_ms = max(turn.config.offsets_check_interval_ms, 1)
        self._shard.deadlines.set(_SWEEP, turn.now_ms + interval_ms)

    # -- what others make happen ---------------------------------------------------------------

    def force_rebalance(self, group_id: str, now_ms: int) -> Outcome:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        turn = Turn(self._shard, now_ms)
        administration.force_rebalance(turn, group_id)
        return turn.finish()

    def topic_changed(self, topic: str, change: str, until_ms: int, now_ms: int) -> Outcome:
        """Let the groups that subscribe to a topic know that it appeared, grew or went away.

        Of one that went away, the offsets are forgotten that were committed until then; later ones
        are those of a topic that was made anew.
        """
        turn = Turn(self._shard, now_ms)
        for group_id in list(self._shard.groups):
            group = turn.group(group_id)
            if group is None:
                continue
            if change == "deleted":
                offsets.forget_topic(turn, group, topic, until_ms)
            has_members = group.is_in(GroupState.STABLE, GroupState.COMPLETING)
            if (
                has_members
                and topic in (group.topics() or ())
                and turn.config.rebalance_on_topic_change
            ):
                rebalancing.prepare(turn, group, "topic_changed", f"{topic} {change}")
        return turn.finish()
