"""Spreads partitions over units, evenly as a whole and topic by topic, with few moves.

A unit is what counts as one: a process among the processes of a group, or a member among those of a
process.  The numbers come first: how many partitions of each topic each unit gets.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from coterie_assignors.copies import Pair

__all__ = ["FREE", "Spreading"]

#: Instead of a unit: none has the partition.
FREE: Final = -1


class Spreading:
    """One distribution, from what units have to what they are to have.

    `takers` are the units that may have each topic's partitions, ascending; `holder` is the unit
    that has each partition now, or `FREE`; `copied` are the topics of which a unit has copies of
    what another one holds, by holder and unit; `factor` is how many more than another one a unit
    may have, as a whole and of each topic.
    """

    def __init__(
        self,
        takers: Mapping[str, Sequence[int]],
        holder: Mapping[Pair, int],
        units: int,
        copied: Mapping[tuple[int, int], frozenset[str] | set[str]],
        factor: int,
    ) -> None:
        self._takers = takers
        self._holder = holder
        self._copied = copied
        self._factor = factor
        self._loads = [0] * units
        #: How many partitions of each topic each unit has; none is no entry.
        self._counts: dict[str, dict[int, int]] = {topic: {} for topic in takers}
        #: The topics of which each unit has any.
        self._topics: list[set[str]] = [set() for _ in range(units)]
        #: How many topics each unit may have.
        self._choice = Counter(unit for units in takers.values() for unit in units)
        self._sizes = Counter(topic for topic, _ in holder)
        #: The topics with the same takers: among these, loads can be evened out.
        self._pools: dict[tuple[int, ...], set[str]] = {}
        for topic, theirs in takers.items():
            self._pools.setdefault(tuple(theirs), set()).add(topic)

    def spread(self) -> dict[Pair, int]:
        """Return the unit of each partition."""
        free: Counter[str] = Counter()
        for (topic, _), unit in self._holder.items():
            if unit == FREE:
                free[topic] += 1
            else:
                self._add(topic, unit)
        for topic, count in free.items():
            self._deal(topic, count)
        has_changed = True
        while has_changed:
            has_changed = False
            for units, topics in self._pools.items():
                has_changed |= self._even_out(units, topics)
        for topic in self._takers:
            self._even_out_topic(topic)
        return self._chosen()

    def _add(self, topic: str, unit: int) -> None:
        counts = self._counts[topic]
        counts[unit] = counts.get(unit, 0) + 1
        self._loads[unit] += 1
        self._topics[unit].add(topic)

    def _move(self, topic: str, giver: int, taker: int) -> None:
        counts = self._counts[topic]
        counts[giver] -= 1
        self._loads[giver] -= 1
        if not counts[giver]:
            del counts[giver]
            self._topics[giver].remove(topic)
        self._add(topic, taker)

    def _deal(self, topic: str, count: int) -> None:
        """Deal out free partitions, each to a unit with the lowest load, and the fewest of them.

        Of these loads, those come first that have the fewest topics to choose from: what they don't
        get now, they would get from another one the next time.
        """
        counts, choice = self._counts[topic], self._choice
        heap = [
            (self._loads[unit], choice[unit], counts.get(unit, 0), unit)
            for unit in self._takers[topic]
        ]
        heapq.heapify(heap)
        for _ in range(count):
            unit = heap[0][-1]
            self._add(topic, unit)
            heapq.heapreplace(heap, (self._loads[unit], choice[unit], counts[unit], unit))

    def _even_out(self, units: Sequence[int], topics: set[str]) -> bool:
        """Hand partitions of some topics over, from the highest loads to the lowest."""
        loads, changed = self._loads, False
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
            for unit in (giver, taker):
                heapq.heappush(low, (loads[unit], unit))
                heapq.heappush(high, (-loads[unit], self._evenness(unit), unit))
        return changed

    def _evenness(self, unit: int) -> float:
        """How far below an even share a unit is of the topic that it has most of."""
        return min(
            (self._share(topic) - self._counts[topic][unit] for topic in self._topics[unit]),
            default=0.0,
        )

    def _share(self, topic: str) -> float:
        return self._sizes[topic] / len(self._takers[topic])

    def _topic_to_move(self, topics: set[str], giver: int, taker: int) -> str | None:
        """A topic of which the giver has more than the taker; if possible, one with copies."""
        copied = self._copied.get((giver, taker), frozenset())

        def key(topic: str) -> tuple[bool, int, float, str]:
            counts = self._counts[topic]
            more = counts[giver] - counts.get(taker, 0)
            evenness = self._share(topic) - counts[giver]
            return more <= 0 or topic not in copied, -more, evenness, topic

        return min(self._topics[giver] & topics, key=key, default=None)

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

    def _chosen(self) -> dict[Pair, int]:
        """Choose the partitions: units keep the first of those that they have in `holder`."""
        left = {topic: Counter(counts) for topic, counts in self._counts.items()}
        chosen: dict[Pair, int] = {}
        moving: list[Pair] = []
        for pair, unit in self._holder.items():
            if left[pair[0]][unit] > 0:
                left[pair[0]][unit] -= 1
                chosen[pair] = unit
            else:
                moving.append(pair)
        takers = {topic: counts.elements() for topic, counts in left.items()}
        for pair in moving:
            chosen[pair] = next(takers[pair[0]])
        return chosen
