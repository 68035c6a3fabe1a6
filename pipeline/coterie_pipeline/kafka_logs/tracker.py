"""From what coordinators say, line after line, to what a journal tells.

One tracker follows all groups over all brokers: when a group moves to another broker, what is known
of it moves along.  It is fed in the order of time and answers with events, of which each belongs to
the broker that spoke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from coterie_pipeline.kafka_logs import said
from coterie_pipeline.kafka_logs.dump import Dump, Stored
from coterie_pipeline.kafka_logs.holdings import Holdings, by_topic
from coterie_pipeline.kafka_logs.layout import Record
from coterie_pipeline.kafka_logs.membership import gone, joined, replaced
from coterie_pipeline.kafka_logs.reasons import is_by_admin, said_by, why
from coterie_pipeline.kafka_logs.rebalances import assigned, emptied, preparing, stabilized
from coterie_pipeline.kafka_logs.scene import Happening, Scene
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
    """Follows groups; what is stored fills in what logs leave out."""

    def __init__(self, dump: Dump, first_node: str) -> None:
        self._scene = Scene(dump, first_node)
        #: What only the next line of the same broker completes, and when it was said.
        self._held: dict[str, tuple[int, said.Started | said.Replaced]] = {}
        self._versions: dict[str, str] = {}

    def hear(self, record: Record, line: said.Said) -> list[Happening]:
        """Take note of a line."""
        if isinstance(line, said.Version):
            self._versions[record.node] = f" {line.version}"
        self._release(record.node, line)
        self._at(record.ts_ms, record.node)
        if isinstance(line, said.Started) or (
            isinstance(line, said.Replaced) and line.member is None
        ):
            self._held[record.node] = (record.ts_ms, line)
        else:
            self._handle(line)
        return self._told()

    def find(self, stored: Stored) -> list[Happening]:
        """Take note of something stored, which belongs to the broker that has the group."""
        scene = self._scene
        group = scene.groups.get(stored.group)
        # A group without members is in no line of a log; its commits have to go somewhere.
        self._at(stored.ts_ms, group.node if group else scene.node)
        if stored.offsets is None:
            self._delete(stored.group, "expired")
        else:
            committed = OffsetsCommitted(
                group=stored.group, member="", generation=-1, offsets=stored.offsets
            )
            scene.tell(committed)
        return self._told()

    def finish(self) -> list[Happening]:
        """Tell what was held back for a line that did not come."""
        for node in sorted(self._held):
            self._release(node, said.Stopped())
        return self._told()

    # -- one after the other -------------------------------------------------------------------

    def _at(self, ts_ms: int, node: str) -> None:
        self._scene.now_ms, self._scene.node = ts_ms, node

    def _told(self) -> list[Happening]:
        told, self._scene.happenings = self._scene.happenings, []
        return told

    def _handle(self, line: said.Said) -> None:
        handle = self._HANDLERS.get(type(line))
        if handle is not None:
            handle(self, line)

    def _release(self, node: str, following: said.Said) -> None:
        held = self._held.get(node)
        if held is None or _is_waited_out(held[1], following):
            return
        del self._held[node]
        ts_ms, line = held
        self._at(ts_ms, node)
        if isinstance(line, said.Started):
            version = "Kafka" + self._versions.get(node, "")
            started = NodeStarted(version=version, groups=0, offsets=0, load_ms=0)
            self._scene.tell(started)
        else:
            self._replace(line, _named_by(following, line.instance))

    # -- members -------------------------------------------------------------------------------

    def _id_given(self, line: said.IdGiven) -> None:
        group = self._scene.group(line.group)
        group.hear_state(line.state)
        group.pending[line.member] = self._scene.now_ms

    def _unclaimed(self, line: said.Unclaimed) -> None:
        self._scene.group(line.group).pending.pop(line.member, None)
        self._scene.tell(IdUnclaimed(group=line.group, member=line.member))

    def _joined(self, line: said.Joined) -> None:
        group = self._scene.group(line.group)
        group.hear_state(line.state)
        # Its id is a new one, whatever was made up for who had its name before.
        group.made_up.pop(line.instance or "", None)
        joined(self._scene, group, line.member, instance=line.instance)

    def _replaced(self, line: said.Replaced) -> None:
        self._replace(line, line.member)

    def _replace(self, line: said.Replaced, member: str | None) -> None:
        name = line.group or self._group_of(line.instance, line.former)
        if name is not None:
            group = self._scene.group(name)
            replaced(self._scene, group, line.instance, line.former, member)

    def _fenced(self, line: said.Fenced) -> None:
        name = self._group_of(line.instance, line.holder)
        if name is None:
            return
        group = self._scene.group(name)
        holder = group.id_of(line.holder)
        known = group.members.get(holder)
        former = self._scene.dump.card(name, line.member)
        self._scene.tell(
            MemberFenced(
                group=name,
                instance=line.instance,
                member=line.member,
                host=former.host if former else "",
                holder=holder,
                holder_host=known.card.host if known else "",
                request=_REQUESTS.get(line.request, line.request),
            )
        )

    def _group_of(self, instance: str, member: str) -> str | None:
        """The group of a static member whose line does not name it."""
        for name in self._scene.homes.get(instance, ()):
            group = self._scene.groups.get(name)
            if group is not None and group.id_of(member) in group.members:
                return name
        return None

    def _failed(self, line: said.Failed) -> None:
        gone(self._scene, self._scene.group(line.group), line.member, "session_expired")

    def _left(self, line: said.Left) -> None:
        group = self._scene.group(line.group)
        known = group.members.get(group.id_of(line.member))
        if known is not None and line.card is not None and not known.card.host:
            known.card = line.card
        how = "removed" if is_by_admin(line.reason) else "left"
        gone(self._scene, group, line.member, how, said_by(line.reason))

    def _not_rejoined(self, line: said.NotRejoined) -> None:
        group = self._scene.group(line.group)
        for member in line.members:
            gone(self._scene, group, member, "rebalance_expired")
            if group.running is not None:
                group.running.dropped.append(group.id_of(member))

    # -- groups and brokers --------------------------------------------------------------------

    def _loaded_member(self, line: said.LoadedMember) -> None:
        group = self._scene.quietly(line.group)
        if group.loading_generation != line.generation:
            # All generations that are stored go by, and only the last one counts.
            group.loading.clear()
            group.loading_generation = line.generation
        group.loading[line.card.instance or line.card.member] = line.card

    def _loaded(self, line: said.Loaded) -> None:
        scene = self._scene
        is_known = line.group in scene.groups
        group = scene.quietly(line.group)
        stored = scene.dump.latest(line.group, scene.now_ms)
        loading, in_generation = dict(group.loading), group.loading_generation
        group.loading.clear()
        group.loading_generation = None
        group.running = None
        if stored is not None and line.generation in (None, stored.number):
            group.take(stored)
        elif in_generation is not None and line.generation is not None:
            cards = loading.values() if in_generation == line.generation else ()
            is_same = line.generation == group.generation
            group.load(cards)
            group.generation = line.generation
            group.holdings = group.holdings if is_same else Holdings(None)
        elif line.count == 0 and is_known:
            group.empty(group.generation)
        elif not is_known or line.generation not in (None, group.generation):
            return
        scene.recovered(group)

    def _deleted(self, line: said.Deleted) -> None:
        for name in line.groups:
            if name not in self._scene.groups:
                self._scene.group(name)
            self._delete(name, line.how)

    def _delete(self, name: str, how: str) -> None:
        group = self._scene.groups.pop(name, None)
        if group is not None:
            self._scene.tell(GroupDeleted(group=name, generation=group.generation, how=how))

    def _offsets_gone(self, line: said.OffsetsGone) -> None:
        gone_ones = by_topic(line.partitions)
        self._scene.tell(OffsetsDeleted(group=line.group, partitions=gone_ones, how="requested"))

    def _stopped(self, _line: said.Stopped) -> None:
        self._scene.tell(NodeStopped(reason=""))

    _HANDLERS: ClassVar[Mapping[type[said.Said], Callable[[Tracker, Any], None]]] = {
        said.Assigned: lambda self, line: assigned(self._scene, line),
        said.Deleted: _deleted,
        said.Emptied: lambda self, line: emptied(self._scene, line),
        said.Failed: _failed,
        said.Fenced: _fenced,
        said.IdGiven: _id_given,
        said.Joined: _joined,
        said.Left: _left,
        said.Loaded: _loaded,
        said.LoadedMember: _loaded_member,
        said.NotRejoined: _not_rejoined,
        said.OffsetsGone: _offsets_gone,
        said.Preparing: lambda self, line: preparing(self._scene, line),
        said.Replaced: _replaced,
        said.Stabilized: lambda self, line: stabilized(self._scene, line),
        said.Stopped: _stopped,
        said.Unclaimed: _unclaimed,
    }


def _is_waited_out(held: said.Started | said.Replaced, following: said.Said) -> bool:
    """Whether what is held may be completed by a line behind this one."""
    return isinstance(held, said.Started) and isinstance(following, said.Nothing)


def _named_by(line: said.Said, instance: str) -> str | None:
    """The new id of a static member, if the rebalance that its coming started names it."""
    if not isinstance(line, said.Preparing):
        return None
    reason = why(line.reason)
    is_same = reason.cause == "static_replaced" and reason.instance == instance
    return reason.members[0] if is_same and reason.members else None
