"""Who holds which partition of one group, as far as it is known.

The same reckoning as the coordinator's own: an assignment is compared with what was given last, a
partition whose holder is gone has no holder, and what members say that they own as they join is
held against what others are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coterie_pipeline.kafka_logs.stored import Generation, Partition
from coterie_protocol.consumer import group_by_topic
from coterie_protocol.journal import Partitions

__all__ = ["Conflict", "Holdings", "by_topic", "conflicts", "follow_up"]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A partition given to one member while another holds it."""

    partition: Partition
    holder: str
    given_to: str


class Holdings:
    """The holder of each partition; None if nobody can tell."""

    __slots__ = ("_former", "_holders")

    def __init__(self, given: Mapping[str, Iterable[Partition]] | None) -> None:
        self._holders = None if given is None else _by_partition(given)
        #: Who had a partition last that is on its way.
        self._former: dict[Partition, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether it is known that nobody holds anything."""
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
        """Take away all that a member holds, and answer what that was."""
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
        """How many partitions an assignment moves and revokes; none if that can't be known."""
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
