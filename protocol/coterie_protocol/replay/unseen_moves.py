"""Moves of partitions that a coordinator does not count, as it was restarted before them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie_protocol.replay.partitions import Partition, partitions_of

__all__ = ["UnseenMoves"]

#: Numbers by topic.
_Partitions = Mapping[str, Iterable[int]]
_Assigned = Mapping[str, _Partitions]


@dataclass(slots=True)
class UnseenMoves:
    """Follows who had the partitions of a group that are on their way to another member.

    Their former owner is gone, or was to give them up first.  That is not stored, so a coordinator
    that reads the group back takes those partitions for new ones, and does not say that they moved.
    """

    #: Who was given what last and is not gone; None if that is not known.
    _given: dict[str, _Partitions] | None = None
    #: What members have by their own word, who have joined since.
    _said: dict[str, _Partitions] = field(default_factory=dict)
    #: Who had what is on its way.
    _former: dict[Partition, str] = field(default_factory=dict)
    #: The part of it that the coordinator has forgotten.
    _forgotten: dict[Partition, str] = field(default_factory=dict)

    @classmethod
    def since(cls, assigned: _Assigned | None) -> UnseenMoves:
        """Begin where nothing is on its way."""
        return cls(None if assigned is None else dict(assigned))

    def gone(self, member: str) -> None:
        """Note that a member has left the group."""
        self._said.pop(member, None)
        if self._given is not None:
            owned = self._given.pop(member, {})
            self._former |= dict.fromkeys(partitions_of(owned), member)

    def replaced(self, former: str, member: str) -> None:
        """Note that a static member came back under another id."""
        for had in (self._given, self._said):
            if had is not None and former in had:
                had[member] = had.pop(former)
        for owners in (self._former, self._forgotten):
            for partition in [each for each, owner in owners.items() if owner == former]:
                owners[partition] = member

    def joined(self, owned: Mapping[str, _Partitions | None]) -> None:
        """Note what members said they have, as all had joined; the others have what they had."""
        self._said = {member: own or {} for member, own in owned.items()}

    def read_back(self) -> None:
        """Note that the group was read back just where it was left."""
        self._forgotten |= self._former
        self._former = {}

    def assigned(self, assigned: _Assigned | None, *, needs_rejoin: bool) -> int:
        """Note that an assignment is in place; how many moves were not seen."""
        unseen = 0
        if assigned is not None and self._forgotten:
            owners = {
                each: member for member, own in assigned.items() for each in partitions_of(own)
            }
            unseen = sum(
                owners.get(partition, former) != former
                for partition, former in self._forgotten.items()
            )
        self._leave_out(assigned or {})
        if self._former or self._forgotten:
            has_more = needs_rejoin or self._is_taken_from_any(assigned or {})
            if assigned is None or not has_more:  # what is left out for good is not on its way
                self._former, self._forgotten = {}, {}
        self._given = None if assigned is None else dict(assigned)
        self._said = {}
        return unseen

    def _is_taken_from_any(self, assigned: _Assigned) -> bool:
        """Whether a member has something that it is not given, and so gives up and joins again.

        Only Coterie's own leaders also ask for that.  If two say that they have a partition, it is
        taken for that of the one that gets it.
        """
        held, kept = set[Partition](), set[Partition]()
        for member, own in ((self._given or {}) | self._said).items():
            has = set(partitions_of(own))
            held |= has
            kept |= has.intersection(partitions_of(assigned.get(member, {})))
        return held != kept

    def _leave_out(self, assigned: _Assigned) -> None:
        """Keep who had what an assignment gives to no member yet."""
        given = (self._given or {}).items()
        last = {each: member for member, own in given for each in partitions_of(own)}
        if not (last or self._former or self._forgotten):
            return
        at_work = {each for own in assigned.values() for each in partitions_of(own)}
        self._former = {p: m for p, m in (self._former | last).items() if p not in at_work}
        # The coordinator has not learned who had that.
        self._forgotten = {p: m for p, m in self._forgotten.items() if p not in at_work}
