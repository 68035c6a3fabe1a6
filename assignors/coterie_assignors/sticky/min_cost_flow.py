"""A maximum flow of minimum cost through a network.

Successive shortest paths with potentials: Dijkstra's algorithm finds the cost of the cheapest
paths, and Dinic's blocking flows send all that costs the same at once.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

__all__ = ["Network"]

_INFINITE: Final = 1 << 62


class Network:
    """A network of nodes and edges, both numbered; edges e and e ^ 1 are each other's reverse."""

    def __init__(self) -> None:
        #: The edges out of each node, reverse ones included.
        self._edges: list[list[int]] = []
        self._head: list[int] = []
        #: What each edge can still take.
        self._residual: list[int] = []
        self._cost: list[int] = []
        #: The cost of the cheapest path from the source to each node, when last computed.
        self._potential: list[int] = []

    def add_node(self) -> int:
        """Return the number of a new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, tail: int, head: int, capacity: int, cost: int = 0) -> int:
        """Return the number of a new edge; its cost must not be negative."""
        edge = len(self._head)
        self._edges[tail].append(edge)
        self._edges[head].append(edge + 1)
        self._head += (head, tail)
        self._residual += (capacity, 0)
        self._cost += (cost, -cost)
        return edge

    def flow(self, edge: int) -> int:
        """The flow through an edge."""
        return self._residual[edge ^ 1]

    def maximize(self, source: int, sink: int, visits_max: int) -> bool:
        """Send a maximum flow; tell whether its cost is the minimum.

        After that many visits of edges, the rest is sent regardless of its cost.
        """
        self._potential = [0] * len(self._edges)
        visits = 0
        while self._update_potentials(source, sink):
            visits += len(self._head)
            while levels := self._levels(source, sink):
                visits += len(self._head)
                self._send_blocking_flow(source, sink, levels)
            if visits > visits_max:
                return self._maximize_at_any_cost(source, sink)
        return True

    def _maximize_at_any_cost(self, source: int, sink: int) -> bool:
        self._potential, self._cost = [0] * len(self._edges), [0] * len(self._head)
        was_maximal = True
        while levels := self._levels(source, sink):
            self._send_blocking_flow(source, sink, levels)
            was_maximal = False
        return was_maximal

    def _update_potentials(self, source: int, sink: int) -> bool:
        """Find the cheapest path to every node that costs no more than the sink (Dijkstra).

        Tell whether the sink can be reached.
        """
        head, residual, cost, potential = self._head, self._residual, self._cost, self._potential
        distance = [_INFINITE] * len(potential)
        distance[source] = 0
        queue = [(0, source)]
        while queue:
            here, node = heappop(queue)
            if here > distance[node]:
                continue
            if node == sink:
                break
            base = here + potential[node]
            for edge in self._edges[node]:
                if residual[edge]:
                    other = head[edge]
                    there = base + cost[edge] - potential[other]
                    if there < distance[other]:
                        distance[other] = there
                        heappush(queue, (there, other))
        limit = distance[sink]
        if limit == _INFINITE:
            return False
        self._potential = [
            known + min(limit, step) for known, step in zip(potential, distance, strict=True)
        ]
        return True

    def _levels(self, source: int, sink: int) -> list[int]:
        """Each node's distance from the source in cheapest edges; empty if the sink has none."""
        head, residual, cost, potential = self._head, self._residual, self._cost, self._potential
        levels = [-1] * len(potential)
        levels[source] = 0
        queue = [source]
        for node in queue:
            base = potential[node]
            for edge in self._edges[node]:
                other = head[edge]
                if levels[other] < 0 and residual[edge] and base + cost[edge] == potential[other]:
                    levels[other] = levels[node] + 1
                    if other == sink:
                        return levels
                    queue.append(other)
        return []

    def _send_blocking_flow(self, source: int, sink: int, levels: list[int]) -> None:
        """Send along the shortest of the cheapest paths until each of them is blocked."""
        head, residual = self._head, self._residual
        #: How many of each node's edges have been tried.
        tried = [0] * len(levels)
        path: list[int] = []
        node = source
        while True:
            edge = self._next_edge(node, tried, levels)
            if edge >= 0:
                path.append(edge)
                node = head[edge]
            elif path:
                # A dead end: go back, and on with the next edge.
                node = head[path.pop() ^ 1]
                tried[node] += 1
            else:
                return
            if node == sink:
                amount = min([residual[each] for each in path])
                for each in path:
                    residual[each] -= amount
                    residual[each ^ 1] += amount
                full = next(place for place, each in enumerate(path) if not residual[each])
                node = head[path[full] ^ 1]
                del path[full:]

    def _next_edge(self, node: int, tried: list[int], levels: list[int]) -> int:
        """The node's next edge that is cheapest and leads one level on; -1 if there is none."""
        edges, level = self._edges[node], levels[node] + 1
        base = self._potential[node]
        for place in range(tried[node], len(edges)):
            edge = edges[place]
            other = self._head[edge]
            if (
                levels[other] == level
                and self._residual[edge]
                and base + self._cost[edge] == self._potential[other]
            ):
                tried[node] = place
                return edge
        tried[node] = len(edges)
        return -1
