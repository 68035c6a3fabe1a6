"""What a rebalance costs: the time that partitions stand still.

A partition stands still from the moment its owner lets go of it until an assignment that gives it
to somebody is in place.  The coordinator sees that in what it is told:

- A member that joins says what it still owns.  What it was given and does not name, it has let go
  of by then at the latest: with eager assignors everything, with cooperative ones nothing.
- A member that is gone has let go of everything.
- What an assignment takes from a member that still owned it, and gives to nobody yet, stands still
  from then on; the next rebalance gives it away and pays for that time.
- What was deleted with its topic does not stand still: there is nothing to work on.

So the figure is a lower bound.  Members stop their work a little before they join and start a
little after they are answered, and one that has crashed stopped before it was missed.  A static
member that is away has let go of nothing as far as anybody knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_protocol.journal import MemberPhase, Partitions

__all__ = ["Standstill"]

_Partition = tuple[str, int]


class Standstill:
    """Which partitions of a group have an owner at work, and since when the others have none."""

    __slots__ = ("_deleted", "_owned", "_stopped")

    def __init__(self, owned: Mapping[str, Partitions] | None) -> None:
        #: By member; None if nobody can tell.
        self._owned: dict[str, Partitions] | None = None if owned is None else dict(owned)
        self._stopped: dict[_Partition, int] = {}
        #: Topics that were deleted since the last assignment: their partitions can't stand still.
        self._deleted: set[str] = set()

    def gone(self, member: str, ts: int) -> None:
        """A member is out of the group."""
        if self._owned is not None:
            self._stop(_each(self._owned.pop(member, {})), ts)

    def replaced(self, former: str, member: str) -> None:
        """A static member came back under another id, with all it had."""
        if self._owned is not None and former in self._owned:
            self._owned[member] = self._owned.pop(former)

    def deleted(self, topic: str) -> None:
        """A topic is gone, and nobody can work on it."""
        self._deleted.add(topic)
        for partition in [each for each in self._stopped if each[0] == topic]:
            del self._stopped[partition]

    def joined(self, phases: Iterable[MemberPhase], started_ms: int) -> None:
        """The members have said what they still own."""
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
        """The partitions' milliseconds since they were last charged for; None if unknown."""
        if self._owned is None:
            return None
        cost_ms = sum(max(ts - since, 0) for since in self._stopped.values())
        self._stopped = dict.fromkeys(self._stopped, ts)
        return cost_ms

    def given(
        self, assigned: Mapping[str, Partitions] | None, *, needs_rejoin: bool, ts: int
    ) -> None:
        """An assignment is in place."""
        owned, stopped = self._owned, self._stopped
        self._owned, self._stopped = None if assigned is None else dict(assigned), {}
        if owned is None or assigned is None:
            self._deleted.clear()
            return
        in_between = [p for partitions in owned.values() for p in _each(partitions)]
        if needs_rejoin:
            # More is to come; otherwise what nobody was given is nobody's business any more.
            in_between += stopped
        if in_between:
            at_work = {p for partitions in assigned.values() for p in _each(partitions)}
            self._stop((p for p in in_between if p not in at_work), ts)
        self._deleted.clear()

    def _stop(self, partitions: Iterable[_Partition], ts: int) -> None:
        for partition in partitions:
            if partition[0] not in self._deleted:
                self._stopped.setdefault(partition, ts)


def _each(partitions: Partitions) -> Iterator[_Partition]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number
