"""Spreads partitions over units, evenly as a whole and topic by topic, with few moves.

A unit is what counts as one: a process among the processes of a group, or a member among those of a
process.  The numbers come first: how many partitions of each topic each unit gets.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import Final

from coterie_assignors.sticky.quotas import water_level

__all__ = ["FREE", "Holding", "Spreading"]

#: Instead of a unit: none has the partition.
FREE: Final = -1


@dataclass(frozen=True, slots=True)
class Holding:
    """Which unit has each of a topic's partitions now, or `FREE`."""

    units: Sequence[int]
    #: The member that has each, if a unit is several.
    members: Sequence[int] | None = None
    #: The ones that units were only just given, as places in these lists.
    late: Sequence[int] = ()

    def counts(self) -> dict[int, int]:
        """How many each unit has."""
        late = frozenset(self.late)
        counts = Counter(
            [unit for place, unit in enumerate(self.units) if place not in late]
            if late
            else self.units
        )
        counts.update([self.units[place] for place in self.late])
        del counts[FREE]
        return dict(counts)

    def turn_of_free(self) -> int:
        """In which turn the first free one comes; only what was given came before it."""
        if self.members is None or not self.late:
            return 0
        late = frozenset(self.late)
        free = (place for place, member in enumerate(self.members) if member == FREE)
        return next((turn for turn, place in enumerate(free) if place not in late), 0)

    def in_turns(self) -> Sequence[int]:
        """The first partition that each member has, then all second ones, and so on.

        What a unit has too many of, it gives up from the end: so its members give up equally many,
        and first what it was only just given.
        """
        if self.members is None:
            return range(len(self.units))
        seen: defaultdict[int, Iterator[int]] = defaultdict(count)
        turns = [next(seen[member]) for member in self.members]
        late = frozenset(self.late)
        order = sorted(range(len(turns)), key=turns.__getitem__)
        return [place for place in order if place not in late] + list(self.late)


class Spreading:
    """One distribution, from what units have to what they are to have.

    `takers` are the units that may have each topic's partitions, ascending; `holder` is which of
    them has each partition now; `copied` returns the topics of which a unit has copies of what
    another one holds, by holder and unit; `factor` is how many more than another one a unit may
    have, as a whole and of each topic.
    """

    def __init__(
        self,
        takers: Mapping[str, Sequence[int]],
        holder: Mapping[str, Holding],
        units: int,
        copied: Callable[[int, int], AbstractSet[str]],
        factor: int,
    ) -> None:
        self._takers = takers
        self._holder = holder
        self._copied = copied
        self._factor = factor
        self._loads = [0] * units
        #: How many partitions of each topic each unit has; none is no entry.
        self._counts = {topic: holder[topic].counts() for topic in takers}
        #: The topics of which each unit has any.
        self._topics: list[set[str]] = [set() for _ in range(units)]
        for topic, counts in self._counts.items():
            for unit, number in counts.items():
                self._loads[unit] += number
                self._topics[unit].add(topic)
        #: How many topics each unit may have.
        self._choice = Counter(unit for units in takers.values() for unit in units)
        #: An even share of each topic.
        self._share = {topic: len(holder[topic].units) / len(takers[topic]) for topic in takers}
        #: The topics with the same takers: among these, loads can be evened out.
        self._pools: dict[tuple[int, ...], set[str]] = {}
        for topic, theirs in takers.items():
            self._pools.setdefault(tuple(theirs), set()).add(topic)

    def spread(self) -> dict[str, list[int]]:
        """Return the unit of each partition."""
        had = {topic: dict(counts) for topic, counts in self._counts.items()}
        free = [topic for topic in self._takers if FREE in self._holder[topic].units]
        for topic in sorted(free, key=lambda topic: self._holder[topic].turn_of_free()):
            self._deal(topic, self._holder[topic].units.count(FREE))
        has_changed = True
        while has_changed:
            has_changed = False
            for units, topics in self._pools.items():
                has_changed |= self._even_out(units, topics)
        for topic in self._takers:
            self._even_out_topic(topic)
        return {topic: self._chosen(topic, had[topic]) for topic in self._takers}

    def _add(self, topic: str, unit: int, more: int = 1) -> None:
        counts = self._counts[topic]
        counts[unit] = counts.get(unit, 0) + more
        self._loads[unit] += more
        self._topics[unit].add(topic)

    def _move(self, topic: str, giver: int, taker: int) -> None:
        counts = self._counts[topic]
        counts[giver] -= 1
        self._loads[giver] -= 1
        if not counts[giver]:
            del counts[giver]
            self._topics[giver].remove(topic)
        self._add(topic, taker)

    def _deal(self, topic: str, number: int) -> None:
        """Deal out free partitions, each to a unit with the lowest load, and the fewest of them.

        Of these loads, those come first that have the fewest topics to choose from: what they don't
        get now, they would get from another one the next time.
        """
        counts, loads, takers = self._counts[topic], self._loads, self._takers[topic]
        level, rest = water_level(sorted([loads[unit] for unit in takers]), number)

        def rank(unit: int) -> tuple[int, int, int, int]:
            return loads[unit], self._choice[unit], counts.get(unit, 0), unit

        for unit in sorted([unit for unit in takers if loads[unit] < level], key=rank):
            self._add(topic, unit, level - loads[unit])
        full = sorted([unit for unit in takers if loads[unit] == level], key=rank)
        for unit in full[:rest]:
            self._add(topic, unit)

    def _even_out(self, units: Sequence[int], topics: set[str]) -> bool:
        """Hand partitions of some topics over, from the highest loads to the lowest."""
        loads, changed = self._loads, False
        if max(loads[unit] for unit in units) - min(loads[unit] for unit in units) <= self._factor:
            return False
        low = [(loads[unit], unit) for unit in units]
        high = [(-load, self._evenness(unit), unit) for load, unit in low]
        heapq.heapify(low)
        heapq.heapify(high)
        while high:
            load, _, giver = high[0]
            if -load != loads[giver]:
                heapq.heappop(high)
                continue
            while low[0][0] != loads[low[0][1]]:
                heapq.heappop(low)
            taker = low[0][1]
            if loads[giver] - loads[taker] <= self._factor:
                break
            topic = self._topic_to_move(topics, giver, taker)
            if topic is None:
                heapq.heappop(high)
                continue
            self._move(topic, giver, taker)
            changed = True
            # A giver still has at least as many as the taker, so it never is one of the lowest that
            # others give to, and a taker never is one of the highest.
            heapq.heapreplace(low, (loads[taker], taker))
            heapq.heapreplace(high, (-loads[giver], self._evenness(giver), giver))
        return changed

    def _evenness(self, unit: int) -> float:
        """How far below an even share a unit is of the topic that it has most of."""
        share, counts = self._share, self._counts
        return min(
            [share[topic] - counts[topic][unit] for topic in self._topics[unit]], default=0.0
        )

    def _topic_to_move(self, topics: set[str], giver: int, taker: int) -> str | None:
        """A topic of which the giver has more than the taker; if possible, one with copies."""
        able = self._topics[giver] & topics
        if len(able) <= 1:
            return next(iter(able), None)
        copied = self._copied(giver, taker)

        def key(topic: str) -> tuple[bool, int, float, str]:
            counts = self._counts[topic]
            more = counts[giver] - counts.get(taker, 0)
            evenness = self._share[topic] - counts[giver]
            return more <= 0 or topic not in copied, -more, evenness, topic

        return min(able, key=key)

    def _even_out_topic(self, topic: str) -> None:
        """Spread a topic, in exchange for others if the loads leave no choice.

        If the giver has no more than the taker as a whole, it has less of another topic, if all
        units may have all topics.  If they may not, what can't be exchanged stays.
        """
        counts, takers, loads = self._counts[topic], self._takers[topic], self._loads
        while counts:
            most = max(counts.values())
            least = min(counts.values()) if len(counts) == len(takers) else 0
            if most - least <= self._factor:
                return
            _, giver = max((loads[unit], -unit) for unit in counts if counts[unit] == most)
            giver = -giver
            _, taker = min((loads[unit], unit) for unit in takers if counts.get(unit, 0) == least)
            if len(self._pools) > 1 or loads[giver] <= loads[taker]:
                other = self._topic_in_exchange(topic, giver, taker)
                if other is None:
                    return
                self._move(other, taker, giver)
            self._move(topic, giver, taker)

    def _topic_in_exchange(self, topic: str, giver: int, taker: int) -> str | None:
        """A topic with the same takers, of which the taker has more than the giver."""
        alike = self._topics[taker] & self._pools[tuple(self._takers[topic])]
        more = [
            (self._counts[other].get(giver, 0) - self._counts[other][taker], other)
            for other in alike
        ]
        less, other = min(more, default=(0, ""))
        return other if less < 0 else None

    def _chosen(self, topic: str, had: Mapping[int, int]) -> list[int]:
        """Choose the partitions of a topic: units keep the first ones of what they have."""
        holding, left = self._holder[topic], self._counts[topic]
        chosen = list(holding.units)
        if all(left.get(unit, 0) >= number for unit, number in had.items()):
            moving = [place for place, unit in enumerate(chosen) if unit == FREE]
            for unit, number in had.items():
                left[unit] -= number
        else:
            moving = []
            for place in holding.in_turns():
                unit = chosen[place]
                if left.get(unit, 0) > 0:
                    left[unit] -= 1
                else:
                    moving.append(place)
        takers = chain.from_iterable(repeat(unit, number) for unit, number in left.items())
        for place, unit in zip(moving, takers, strict=True):
            chosen[place] = unit
        return chosen
