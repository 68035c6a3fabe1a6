"""The cheapest way to send a given amount through a network of limited, priced links.

Successive shortest paths: whatever is cheapest goes first, and all that costs the same goes at
once, in Dinic's way.  What was sent can be sent back, at the price it came for.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

__all__ = ["Network"]

_FAR: Final = 1 << 62


class Network:
    """Nodes are numbers, links are numbers; link n and n ^ 1 are the two directions of one."""

    def __init__(self) -> None:
        self._links: list[list[int]] = []
        self._end: list[int] = []
        self._room: list[int] = []
        self._price: list[int] = []
        #: What it costs to come to each node, by the cheapest way when it was last looked for.
        self._cost: list[int] = []

    def node(self) -> int:
        """Add a node."""
        self._links.append([])
        return len(self._links) - 1

    def link(self, start: int, end: int, room: int, price: int = 0) -> int:
        """Add a link that takes up to `room`, at a price that is not negative."""
        number = len(self._end)
        self._links[start].append(number)
        self._links[end].append(number + 1)
        self._end += (end, start)
        self._room += (room, 0)
        self._price += (price, -price)
        return number

    def sent(self, link: int) -> int:
        """How much goes this way."""
        return self._room[link ^ 1]

    def fill(self, source: int, sink: int, looks_max: int) -> bool:
        """Send as much as can be sent, as cheaply as it can be.

        After so many looks at links the rest is sent at any price, and the answer is False.
        """
        self._cost = [0] * len(self._links)
        looks = 0
        while self._price_nodes(source, sink):
            looks += len(self._end)
            while ranks := self._rank(source, sink):
                looks += len(self._end)
                self._send(source, sink, ranks)
            if looks > looks_max:
                return self._fill_at_any_price(source, sink)
        return True

    def _fill_at_any_price(self, source: int, sink: int) -> bool:
        self._cost, self._price = [0] * len(self._links), [0] * len(self._end)
        is_full = True
        while ranks := self._rank(source, sink):
            self._send(source, sink, ranks)
            is_full = False
        return is_full

    def _price_nodes(self, source: int, sink: int) -> bool:
        """Find the cheapest way to every node no dearer than the sink; tell if that is reached."""
        end, room, price, cost = self._end, self._room, self._price, self._cost
        more = [_FAR] * len(cost)
        more[source] = 0
        line = [(0, source)]
        while line:
            here, node = heappop(line)
            if here > more[node]:
                continue
            if node == sink:
                break
            base = here + cost[node]
            for link in self._links[node]:
                if room[link]:
                    other = end[link]
                    there = base + price[link] - cost[other]
                    if there < more[other]:
                        more[other] = there
                        heappush(line, (there, other))
        far = more[sink]
        if far == _FAR:
            return False
        self._cost = [known + min(far, step) for known, step in zip(cost, more, strict=True)]
        return True

    def _rank(self, source: int, sink: int) -> list[int]:
        """How many cheapest links away from the source nodes are; nothing if the sink is not."""
        end, room, price, cost = self._end, self._room, self._price, self._cost
        ranks = [-1] * len(cost)
        ranks[source] = 0
        line = [source]
        for node in line:
            base = cost[node]
            for link in self._links[node]:
                other = end[link]
                if ranks[other] < 0 and room[link] and base + price[link] == cost[other]:
                    ranks[other] = ranks[node] + 1
                    if other == sink:
                        return ranks
                    line.append(other)
        return []

    def _send(self, source: int, sink: int, ranks: list[int]) -> None:
        """Send along the shortest of the cheapest ways until each of them is blocked."""
        end, room = self._end, self._room
        tried = [0] * len(ranks)
        way: list[int] = []
        node = source
        while True:
            link = self._next(node, tried, ranks)
            if link >= 0:
                way.append(link)
                node = end[link]
            elif way:
                # A dead end: its predecessor goes on with its next link.
                node = end[way.pop() ^ 1]
                tried[node] += 1
            else:
                return
            if node == sink:
                amount = min([room[each] for each in way])
                for each in way:
                    room[each] -= amount
                    room[each ^ 1] += amount
                full = next(place for place, each in enumerate(way) if not room[each])
                node = end[way[full] ^ 1]
                del way[full:]

    def _next(self, node: int, tried: list[int], ranks: list[int]) -> int:
        """The next of a node's links that is one of the cheapest and leads on; -1 if none is."""
        links, rank = self._links[node], ranks[node] + 1
        base = self._cost[node]
        for place in range(tried[node], len(links)):
            link = links[place]
            other = self._end[link]
            if (
                ranks[other] == rank
                and self._room[link]
                and base + self._price[link] == self._cost[other]
            ):
                tried[node] = place
                return link
        tried[node] = len(links)
        return -1
