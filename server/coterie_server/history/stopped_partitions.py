"""What a rebalance costs: the time for which partitions are stopped.

A partition is stopped from the moment its owner gives it up until an assignment that gives it to
a member is in place.  The coordinator learns of it from what members tell it:

- A member that joins lists what it still owns.  By then, at the latest, it has given up whatever
  it was assigned and does not list: everything with an eager assignor, nothing with a cooperative
  one.
- A member that has left the group has given up everything.
- A partition that an assignment takes from a member which still owned it, and gives to no other
  yet, is stopped from then on; the next rebalance, which gives it away, is charged for that time.
- Partitions of a deleted topic are not stopped: there is nothing to work on.

So the figure is a lower bound.  Members stop their work a little before they join and start a
little after they are answered, and a member that crashed had stopped before it was missed.  A
static member that is away has given up nothing as far as the coordinator knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_protocol.journal import MemberPhase, Partitions

__all__ = ["StoppedPartitions"]

_Partition = tuple[str, int]


class StoppedPartitions:
    """Which partitions of a group have an owner at work, and since when the others have none."""

    __slots__ = ("_deleted_topics", "_owned", "_stopped")

    def __init__(self, owned: Mapping[str, Partitions] | None) -> None:
        #: By member; None if it is unknown.
        self._owned: dict[str, Partitions] | None = None if owned is None else dict(owned)
        self._stopped: dict[_Partition, int] = {}
        #: Topics deleted since the last assignment.
        self._deleted_topics: set[str] = set()

    def member_gone(self, member: str, ts: int) -> None:
        """Stop what a member owned that has left the group."""
        if self._owned is not None:
            self._stop(_each(self._owned.pop(member, {})), ts)

    def member_replaced(self, former: str, member: str) -> None:
        """Note that a static member came back under another id, with all that it owned."""
        if self._owned is not None and former in self._owned:
            self._owned[member] = self._owned.pop(former)

    def topic_deleted(self, topic: str) -> None:
        """Forget the partitions of a topic that was deleted."""
        self._deleted_topics.add(topic)
        for partition in [each for each in self._stopped if each[0] == topic]:
            del self._stopped[partition]

    def members_joined(self, phases: Iterable[MemberPhase], started_ms: int) -> None:
        """Take in what each member said it still owns; its joins count from `started_ms`."""
        if self._owned is None:
            return
        for phase in phases:
            if phase.joined_after_ms is None:
                continue
            before = self._owned.get(phase.member, {})
            self._stop(_each(before), started_ms + phase.joined_after_ms)
            keeps = self._owned[phase.member] = phase.owned or {}
            for partition in _each(keeps):
                self._stopped.pop(partition, None)

    def charge(self, ts: int) -> int | None:
        """The stopped time since the last charge, added up over the partitions; None if unknown."""
        if self._owned is None:
            return None
        cost_ms = sum(max(ts - since, 0) for since in self._stopped.values())
        self._stopped = dict.fromkeys(self._stopped, ts)
        return cost_ms

    def assigned(
        self, assigned: Mapping[str, Partitions] | None, *, needs_rejoin: bool, ts: int
    ) -> None:
        """Note that an assignment is in place; None if it can't be read."""
        owned, stopped = self._owned, self._stopped
        self._owned, self._stopped = None if assigned is None else dict(assigned), {}
        if owned is None or assigned is None:
            self._deleted_topics.clear()
            return
        in_between = [p for partitions in owned.values() for p in _each(partitions)]
        if needs_rejoin:
            # Another assignment is to come.  Otherwise what is still unassigned stays so.
            in_between += stopped
        if in_between:
            at_work = {p for partitions in assigned.values() for p in _each(partitions)}
            self._stop((p for p in in_between if p not in at_work), ts)
        self._deleted_topics.clear()

    def _stop(self, partitions: Iterable[_Partition], ts: int) -> None:
        for partition in partitions:
            if partition[0] not in self._deleted_topics:
                self._stopped.setdefault(partition, ts)


def _each(partitions: Partitions) -> Iterator[_Partition]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number
