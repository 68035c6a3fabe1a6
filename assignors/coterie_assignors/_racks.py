"""Rack awareness of the range assignor, as KIP-881 and Kafka's assignor have it.

A first pass gives partitions to members in racks of their replicas, within each member's share; a
second one gives out what is left, in order.  Topics that have the same subscribers and equally many
partitions are matched together, so that equal numbers stay with one member.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from coterie_assignors.base import MemberInfo

__all__ = ["TopicCut", "match_racks"]


@dataclass(slots=True)
class TopicCut:
    """A topic on its way to being cut: what each of its subscribers has been given so far."""

    topic: str
    count: int
    takers: Sequence[MemberInfo]
    racks: Sequence[frozenset[str]]
    given: dict[int, list[int]] = field(default_factory=dict)
    #: Partitions not given yet, in order.
    left: dict[int, None] = field(init=False)
    size: int = field(init=False)
    #: How many members may still have one more than the others.
    longer: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(range(self.count))
        self.size, self.longer = divmod(self.count, len(self.takers))

    def matters(self) -> bool:
        """Whether it makes a difference here who gets what."""
        members = {member.rack for member in self.takers if member.rack is not None}
        everywhere = frozenset[str]().union(*self.racks)
        if members.isdisjoint(everywhere):
            return False
        return any(self.racks_of(number) != everywhere for number in range(self.count))

    def racks_of(self, number: int) -> frozenset[str]:
        """The racks of a partition's replicas; none where they are unknown."""
        return self.racks[number] if number < len(self.racks) else frozenset()

    def room(self, taker: int) -> int:
        """How many more a member may be given."""
        return max(0, self.size + (self.longer > 0) - len(self.given.get(taker, ())))

    def near(self, taker: int, number: int) -> bool:
        """Whether a replica is in the member's rack; a member without one is near to all."""
        rack = self.takers[taker].rack
        return rack is None or rack in self.racks_of(number)

    def give(self, taker: int, numbers: Sequence[int]) -> None:
        """Give partitions to a member that has room for them."""
        theirs = self.given.setdefault(taker, [])
        theirs += numbers
        if len(theirs) > self.size:
            self.longer -= 1
        for number in numbers:
            del self.left[number]

    def fill(self, *, near_only: bool) -> None:
        """Fill up the members in order, each with the first partitions that it may have."""
        lines: dict[str | None, Iterator[int]] = {}
        for taker, member in enumerate(self.takers):
            if not self.left:
                return
            room = self.room(taker)
            if room:
                rack = member.rack if near_only else None
                line = lines.get(rack) or lines.setdefault(rack, self._line(rack))
                numbers = list(islice(line, room))
                if numbers:
                    self.give(taker, numbers)

    def _line(self, rack: str | None) -> Iterator[int]:
        """What is left and near to a rack, in order, or all that is left.

        Members of one rack go on where the one before them stopped: what is not left stays so.
        """
        for number in range(self.count):
            if number in self.left and (rack is None or rack in self.racks_of(number)):
                yield number


def match_racks(topics: Iterable[TopicCut]) -> dict[str, dict[int, tuple[int, ...]]]:
    """Cut topics with an eye to racks; topics that the answer lacks are cut as if without."""
    cuts = list(topics)
    if not any(cut.matters() for cut in cuts if cut.racks):
        return {}
    for together in _companies(cuts):
        if len(together) > 1:
            _match_together(together)
        elif together[0].matters():
            together[0].fill(near_only=True)
    for cut in cuts:
        cut.fill(near_only=False)
    return {
        cut.topic: {taker: tuple(sorted(numbers)) for taker, numbers in cut.given.items()}
        for cut in cuts
    }


def _companies(cuts: Iterable[TopicCut]) -> list[list[TopicCut]]:
    """Topics with the same subscribers and equally many partitions, together."""
    companies: dict[tuple[object, ...], list[TopicCut]] = {}
    for cut in cuts:
        key = (cut.count, *(member.member_id for member in cut.takers))
        companies.setdefault(key, []).append(cut)
    return list(companies.values())


def _match_together(cuts: Sequence[TopicCut]) -> None:
    """Give equal numbers to the first member that is near to them in every topic."""
    takers = list(range(len(cuts[0].takers)))
    for number in range(cuts[0].count):
        taker = next((t for t in takers if _suits(cuts, t, number)), None)
        if taker is None:
            continue
        for cut in cuts:
            cut.give(taker, [number])
        if not any(cut.room(taker) for cut in cuts):
            takers.remove(taker)


def _suits(cuts: Sequence[TopicCut], taker: int, number: int) -> bool:
    return all(cut.room(taker) > 0 and cut.near(taker, number) for cut in cuts)
