"""From the lines of coordinators to the events of a journal.

One tracker follows all groups over all brokers: when a group moves to another broker, what is known
of it moves along.  It is fed in the order of time and returns events, each of which belongs to the
broker that wrote the line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from coterie_pipeline.kafka_logs import log_events
from coterie_pipeline.kafka_logs.dump import Dump, StoredChange
from coterie_pipeline.kafka_logs.log_files import Record
from coterie_pipeline.kafka_logs.membership import gone, joined, replaced
from coterie_pipeline.kafka_logs.reasons import client_reason, is_by_admin, parse_reason
from coterie_pipeline.kafka_logs.rebalances import assigned, emptied, preparing, stabilized
from coterie_pipeline.kafka_logs.state import Holdings, LogState, TimedEvent, by_topic
from coterie_protocol.journal import (
    GroupDeleted,
    IdUnclaimed,
    MemberFenced,
    NodeStarted,
    NodeStopped,
    OffsetsCommitted,
    OffsetsDeleted,
)

__all__ = ["Tracker"]

#: How the operations that Kafka names in a line are called as requests.
_REQUESTS: Final[Mapping[str, str]] = {
    "heartbeat": "Heartbeat",
    "join-group": "JoinGroup",
    "leave-group": "LeaveGroup",
    "offset-commit": "OffsetCommit",
    "offset-fetch": "OffsetFetch",
    "sync-group": "SyncGroup",
    "txn-offset-commit": "TxnOffsetCommit",
}


class Tracker:
    """Follows all groups; what brokers stored fills in what their logs leave out."""

    def __init__(self, dump: Dump, first_node: str) -> None:
        self._state = LogState(dump, first_node)
        #: By broker, a line that only its next line completes, and its time.
        self._held: dict[str, tuple[int, log_events.Started | log_events.Replaced]] = {}
        self._versions: dict[str, str] = {}

    def on_line(self, record: Record, line: log_events.LogEvent) -> list[TimedEvent]:
        """The events that a line gives rise to."""
        if isinstance(line, log_events.Version):
            self._versions[record.node] = f" {line.version}"
        self._release(record.node, line)
        self._at(record.ts_ms, record.node)
        if isinstance(line, log_events.Started) or (
            isinstance(line, log_events.Replaced) and line.member is None
        ):
            self._held[record.node] = (record.ts_ms, line)
        else:
            self._handle(line)
        return self._take_events()

    def on_stored(self, stored: StoredChange) -> list[TimedEvent]:
        """The events that something stored gives rise to, for the broker that has the group."""
        state = self._state
        group = state.groups.get(stored.group)
        # A group without members is in no line of a log; its commits have to go somewhere.
        self._at(stored.ts_ms, group.node if group else state.node)
        if stored.offsets is None:
            self._delete(stored.group, "expired")
        else:
            committed = OffsetsCommitted(
                group=stored.group, member="", generation=-1, offsets=stored.offsets
            )
            state.emit(committed)
        return self._take_events()

    def finish(self) -> list[TimedEvent]:
        """The events that were held back for a line that did not come."""
        for node in sorted(self._held):
            self._release(node, log_events.Stopped())
        return self._take_events()

    # -- one after the other -------------------------------------------------------------------

    def _at(self, ts_ms: int, node: str) -> None:
        self._state.now_ms, self._state.node = ts_ms, node

    def _take_events(self) -> list[TimedEvent]:
        events, self._state.events = self._state.events, []
        return events

    def _handle(self, line: log_events.LogEvent) -> None:
        handle = self._HANDLERS.get(type(line))
        if handle is not None:
            handle(self, line)

    def _release(self, node: str, following: log_events.LogEvent) -> None:
        held = self._held.get(node)
        if held is None or _is_waited_out(held[1], following):
            return
        del self._held[node]
        ts_ms, line = held
        self._at(ts_ms, node)
        if isinstance(line, log_events.Started):
            version = "Kafka" + self._versions.get(node, "")
            started = NodeStarted(version=version, groups=0, offsets=0, load_ms=0)
            self._state.emit(started)
        else:
            self._replace(line, _named_by(following, line.instance))

    # -- members -------------------------------------------------------------------------------

    def _id_given(self, line: log_events.IdGiven) -> None:
        group = self._state.group(line.group)
        group.note_state(line.state)
        group.pending[line.member] = self._state.now_ms

    def _unclaimed(self, line: log_events.Unclaimed) -> None:
        self._state.group(line.group).pending.pop(line.member, None)
        self._state.emit(IdUnclaimed(group=line.group, member=line.member))

    def _joined(self, line: log_events.Joined) -> None:
        group = self._state.group(line.group)
        group.note_state(line.state)
        # Its id is a new one, whatever was made up for who had its name before.
        group.made_up.pop(line.instance or "", None)
        joined(self._state, group, line.member, instance=line.instance)

    def _replaced(self, line: log_events.Replaced) -> None:
        self._replace(line, line.member)

    def _replace(self, line: log_events.Replaced, member: str | None) -> None:
        name = line.group or self._group_of(line.instance, line.former)
        if name is not None:
            group = self._state.group(name)
            replaced(self._state, group, line.instance, line.former, member)

    def _fenced(self, line: log_events.Fenced) -> None:
        name = self._group_of(line.instance, line.holder)
        if name is None:
            return
        group = self._state.group(name)
        holder = group.id_of(line.holder)
        known = group.members.get(holder)
        former = self._state.dump.member_info(name, line.member)
        self._state.emit(
            MemberFenced(
                group=name,
                instance=line.instance,
                member=line.member,
                host=former.host if former else "",
                holder=holder,
                holder_host=known.info.host if known else "",
                request=_REQUESTS.get(line.request, line.request),
            )
        )

    def _group_of(self, instance: str, member: str) -> str | None:
        """The group of a static member whose line does not name it."""
        for name in self._state.groups_by_instance.get(instance, ()):
            group = self._state.groups.get(name)
            if group is not None and group.id_of(member) in group.members:
                return name
        return None

    def _failed(self, line: log_events.Failed) -> None:
        gone(self._state, self._state.group(line.group), line.member, "session_expired")

    def _left(self, line: log_events.Left) -> None:
        group = self._state.group(line.group)
        known = group.members.get(group.id_of(line.member))
        if known is not None and line.info is not None and not known.info.host:
            known.info = line.info
        how = "removed" if is_by_admin(line.reason) else "left"
        gone(self._state, group, line.member, how, client_reason(line.reason))

    def _not_rejoined(self, line: log_events.NotRejoined) -> None:
        group = self._state.group(line.group)
        for member in line.members:
            gone(self._state, group, member, "rebalance_expired")
            if group.running is not None:
                group.running.dropped.append(group.id_of(member))

    # -- groups and brokers --------------------------------------------------------------------

    def _loaded_member(self, line: log_events.LoadedMember) -> None:
        group = self._state.group_unannounced(line.group)
        if group.loading_generation != line.generation:
            # All generations that are stored go by, and only the last one counts.
            group.loading.clear()
            group.loading_generation = line.generation
        group.loading[line.info.instance or line.info.member] = line.info

    def _loaded(self, line: log_events.Loaded) -> None:
        state = self._state
        is_known = line.group in state.groups
        group = state.group_unannounced(line.group)
        stored = state.dump.latest(line.group, state.now_ms)
        loading, in_generation = dict(group.loading), group.loading_generation
        group.loading.clear()
        group.loading_generation = None
        group.running = None
        if stored is not None and line.generation in (None, stored.number):
            group.take(stored)
        elif in_generation is not None and line.generation is not None:
            infos = loading.values() if in_generation == line.generation else ()
            is_same = line.generation == group.generation
            group.load(infos)
            group.generation = line.generation
            group.holdings = group.holdings if is_same else Holdings(None)
        elif line.count == 0 and is_known:
            group.empty(group.generation)
        elif not is_known or line.generation not in (None, group.generation):
            return
        state.emit_recovered(group)

    def _deleted(self, line: log_events.Deleted) -> None:
        for name in line.groups:
            if name not in self._state.groups:
                self._state.group(name)
            self._delete(name, line.how)

    def _delete(self, name: str, how: str) -> None:
        group = self._state.groups.pop(name, None)
        if group is not None:
            self._state.emit(GroupDeleted(group=name, generation=group.generation, how=how))

    def _offsets_gone(self, line: log_events.OffsetsGone) -> None:
        gone_ones = by_topic(line.partitions)
        self._state.emit(OffsetsDeleted(group=line.group, partitions=gone_ones, how="requested"))

    def _stopped(self, _line: log_events.Stopped) -> None:
        self._state.emit(NodeStopped(reason=""))

    _HANDLERS: ClassVar[Mapping[type[log_events.LogEvent], Callable[[Tracker, Any], None]]] = {
        log_events.Assigned: lambda self, line: assigned(self._state, line),
        log_events.Deleted: _deleted,
        log_events.Emptied: lambda self, line: emptied(self._state, line),
        log_events.Failed: _failed,
        log_events.Fenced: _fenced,
        log_events.IdGiven: _id_given,
        log_events.Joined: _joined,
        log_events.Left: _left,
        log_events.Loaded: _loaded,
        log_events.LoadedMember: _loaded_member,
        log_events.NotRejoined: _not_rejoined,
        log_events.OffsetsGone: _offsets_gone,
        log_events.Preparing: lambda self, line: preparing(self._state, line),
        log_events.Replaced: _replaced,
        log_events.Stabilized: lambda self, line: stabilized(self._state, line),
        log_events.Stopped: _stopped,
        log_events.Unclaimed: _unclaimed,
    }


def _is_waited_out(
    held: log_events.Started | log_events.Replaced, following: log_events.LogEvent
) -> bool:
    """Whether a later line may still complete the one that is held."""
    return isinstance(held, log_events.Started) and isinstance(following, log_events.Nothing)


def _named_by(line: log_events.LogEvent, instance: str) -> str | None:
    """The new id of a static member, if the rebalance that it caused names it."""
    if not isinstance(line, log_events.Preparing):
        return None
    reason = parse_reason(line.reason)
    is_same = reason.cause == "static_replaced" and reason.instance == instance
    return reason.members[0] if is_same and reason.members else None
