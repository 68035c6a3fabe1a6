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
little after they are answered.  A static member that is away has given up nothing as far as the
coordinator knows.

A member that crashed had stopped before it was missed.  For how long is not known, but it sent
nothing since its last request: that *silence* is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie_protocol.journal import MemberPhase, Partitions
    from coterie_protocol.replay import ClockSteps

__all__ = ["Charge", "StoppedPartitions"]

_Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Charge:
    """What a rebalance cost, in milliseconds that are added up over the partitions."""

    stopped_ms: int
    #: How long the owners that died had been silent when they were given up.
    silent_ms: int


class StoppedPartitions:
    """Which partitions of a group have an owner at work, and since when the others have none."""

    __slots__ = ("_deleted_topics", "_is_whole", "_owned", "_silent_ms", "_since_ms", "_stopped")

    def __init__(
        self,
        owned: Mapping[str, Partitions] | None,
        since_ms: int = 0,
        *,
        is_whole: bool = True,
    ) -> None:
        #: By member; None if it is unknown.
        self._owned: dict[str, Partitions] | None = None if owned is None else dict(owned)
        #: Whether nothing is missing since the last assignment.
        self._is_whole = is_whole
        #: When the last assignment was in place, or the group was read back.
        self._since_ms = since_ms
        self._stopped: dict[_Partition, int] = {}
        self._silent_ms = 0
        #: Topics deleted since the last assignment of which members owned something.
        self._deleted_topics: set[str] = set()

    def member_gone(self, member: str, ts: int, silent_ms: int | None = None) -> int:
        """Stop what a member owned that has left the group.

        `silent_ms` is for how long it had not been heard of, if it was given up for that.  Returns
        how long that was, added up over its partitions.
        """
        if self._owned is None:
            return 0
        owned = self._owned.pop(member, {})
        silence_ms = 0 if silent_ms is None else self._silence_ms(owned, ts, silent_ms)
        self._stop(_each(owned), ts)
        self._silent_ms += silence_ms
        return silence_ms

    def member_replaced(self, former: str, member: str, ts: int, silent_ms: int) -> int:
        """Note that a static member came back under another id, with all that it owned.

        Returns how long its former process had been silent, added up over its partitions; no
        rebalance pays for that.
        """
        if self._owned is None or former not in self._owned:
            return 0
        owned = self._owned[member] = self._owned.pop(former)
        return self._silence_ms(owned, ts, silent_ms)

    def read_back(
        self, members: Iterable[str], assigned: Mapping[str, Partitions] | None, ts: int
    ) -> None:
        """Note that the group was read back just where it was left, with these members.

        `assigned` is what they were given last; None in a rebalance, where they have said more.
        When one went that is missing is not known, so what it had is not stopped.
        """
        owned = self._owned if assigned is None else assigned
        if owned is not None:
            self._owned = {name: owned[name] for name in members if name in owned}
        self._since_ms = ts

    def _silence_ms(self, owned: Partitions, ts: int, silent_ms: int) -> int:
        # Before the assignment, what it gave stood still.
        lasted_ms = max(min(silent_ms, ts - self._since_ms), 0)
        meant = {each for each in _each(owned) if each[0] not in self._deleted_topics}
        return lasted_ms * len(meant)

    def topic_deleted(self, topic: str) -> None:
        """Forget the partitions of a topic that was deleted."""
        if self._owned is not None and any(topic in owned for owned in self._owned.values()):
            self._deleted_topics.add(topic)  # or they would be stopped when they are let go
        for partition in [each for each in self._stopped if each[0] == topic]:
            del self._stopped[partition]

    def members_joined(
        self, phases: Iterable[MemberPhase], started_ms: int, clock: ClockSteps
    ) -> None:
        """Take in what each member said it still owns; its joins count from `started_ms`."""
        if self._owned is None:
            return
        joined = [phase for phase in phases if phase.joined_after_ms is not None]
        for phase in joined:
            if before := self._owned.get(phase.member):  # a thousand that are new have nothing
                self._stop(_each(before), clock.after(started_ms, phase.joined_after_ms or 0))
            self._owned[phase.member] = phase.owned or {}
        # What one of them has is at work, though another one that was given it has let it go.
        for phase in joined if self._stopped else ():
            for partition in _each(phase.owned or {}):
                self._stopped.pop(partition, None)

    def charge(self, ts: int, clock: ClockSteps) -> Charge | None:
        """What it cost since the last charge; None if that is unknown."""
        if self._owned is None or not self._is_whole:
            return None
        stopped_ms = sum(clock.lasted_ms(since_ms, ts) for since_ms in self._stopped.values())
        cost = Charge(stopped_ms, self._silent_ms)
        self._stopped, self._silent_ms = dict.fromkeys(self._stopped, ts), 0
        return cost

    def assigned(
        self, assigned: Mapping[str, Partitions] | None, *, needs_rejoin: bool, ts: int
    ) -> None:
        """Note that an assignment is in place; None if it can't be read."""
        owned, stopped = self._owned, self._stopped
        self._owned, self._stopped = None if assigned is None else dict(assigned), {}
        self._since_ms, self._silent_ms, self._is_whole = ts, 0, True
        if owned is None or assigned is None:
            self._deleted_topics.clear()
            return
        in_between = [p for partitions in owned.values() for p in _each(partitions)]
        if needs_rejoin:
            # Another assignment is to come.  Otherwise what is still unassigned stays so.
            in_between += stopped
        if in_between:
            at_work = {p for partitions in assigned.values() for p in _each(partitions)}
            let_go = [p for p in in_between if p not in at_work]
            self._stop(let_go, ts)
            if self._deleted_topics:
                # A member that has yet to learn of the assignment may come back with what it had.
                had, given = ({topic for topic, _ in each} for each in (let_go, at_work))
                self._deleted_topics &= had - given
                return
        self._deleted_topics.clear()

    def _stop(self, partitions: Iterable[_Partition], ts: int) -> None:
        for partition in partitions:
            if partition[0] not in self._deleted_topics:
                self._stopped.setdefault(partition, ts)


def _each(partitions: Partitions) -> Iterator[_Partition]:
    for topic, numbers in partitions.items():
        for number in numbers:
            yield topic, number
