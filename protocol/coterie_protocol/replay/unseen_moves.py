"""Moves of partitions that a coordinator does not count, as it was restarted before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["UnseenMoves"]

_Partition = tuple[str, int]
#: By member, numbers by topic.
_Assigned = Mapping[str, Mapping[str, Iterable[int]]]


@dataclass(slots=True)
class UnseenMoves:
    """Follows who had the partitions of a group that are on their way to another member.

    Their former owner is gone, or was to give them up first.  That is not stored, so a coordinator
    that reads the group back takes those partitions for new ones, and does not say that they moved.
    """

    #: Who was given what last and is not gone; None if that is not known.
    _given: dict[str, Mapping[str, Iterable[int]]] | None = None
    #: Who had what is on its way.
    _former: dict[_Partition, str] = field(default_factory=dict)
    #: The part of it that the coordinator has forgotten.
    _forgotten: dict[_Partition, str] = field(default_factory=dict)

    @classmethod
    def since(cls, assigned: _Assigned | None) -> UnseenMoves:
        """Begin where nothing is on its way."""
        return cls(None if assigned is None else dict(assigned))

    def gone(self, member: str) -> None:
        """Note that a member has left the group."""
        if self._given is not None:
            owned = self._given.pop(member, {})
            self._former |= dict.fromkeys(_each(owned), member)

    def replaced(self, former: str, member: str) -> None:
        """Note that a static member came back under another id."""
        if self._given is not None and former in self._given:
            self._given[member] = self._given.pop(former)
        for owners in (self._former, self._forgotten):
            for partition in [each for each, owner in owners.items() if owner == former]:
                owners[partition] = member

    def read_back(self) -> None:
        """Note that the group was read back just where it was left."""
        self._forgotten |= self._former
        self._former = {}

    def assigned(self, assigned: _Assigned | None, *, needs_rejoin: bool) -> int:
        """Note that an assignment is in place; how many moves were not seen."""
        unseen = 0
        if assigned is not None and self._forgotten:
            owners = {each: member for member, own in assigned.items() for each in _each(own)}
            unseen = sum(
                owners.get(partition, former) != former
                for partition, former in self._forgotten.items()
            )
        if needs_rejoin and assigned is not None:
            self._leave_out({each for own in assigned.values() for each in _each(own)})
        else:  # what is left out for good is not on its way
            self._former, self._forgotten = {}, {}
        self._given = None if assigned is None else dict(assigned)
        return unseen

    def _leave_out(self, at_work: set[_Partition]) -> None:
        """Keep who had what an assignment gives to no member yet."""
        given = (self._given or {}).items()
        last = {each: member for member, own in given for each in _each(own)}
        self._former = {p: m for p, m in (self._former | last).items() if p not in at_work}
        # The coordinator has not learned who had that.
        self._forgotten = {p: m for p, m in self._forgotten.items() if p not in at_work}


def _each(owned: Mapping[str, Iterable[int]]) -> Iterator[_Partition]:
    for topic, numbers in owned.items():
        for number in numbers:
            yield topic, number
