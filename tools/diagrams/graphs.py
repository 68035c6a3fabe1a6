"""Draws graphs: nodes from top to bottom, edges between neighbours or at the sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tools.diagrams.mermaid import END, START, Edge, Graph
from tools.diagrams.svg import LINE, arrow_path, box, dot, drawing, text, width_of, wrapped

__all__ = ["draw_graph"]

_ROW: Final = 92.0
_COLUMN: Final = 190.0
_LABEL_CHARS: Final = 18
_LANE: Final = 132.0
_DOT: Final = 12.0


@dataclass(frozen=True, slots=True)
class _Place:
    """The position and size of a node."""

    x: float
    y: float
    width: float
    height: float
    row: int


@dataclass(frozen=True, slots=True)
class _Lane:
    """An edge at the side, and its distance from the nodes."""

    edge: Edge
    lane: int
    backwards: bool


def draw_graph(graph: Graph) -> str:
    """Return the drawing as SVG."""
    places = _places(graph)
    straight = [edge for edge in graph.edges if _is_straight(places, edge)]
    aside = list(_lanes(places, [edge for edge in graph.edges if edge not in straight]))
    half = max(abs(place.x) + place.width / 2 for place in places.values())
    labels = [width_of(wrapped(edge.label, _LABEL_CHARS)) for edge in straight]
    # The distance of the first lane from the middle, by side; labels are on the right.
    inner = {True: half, False: max(half, *labels)}
    pieces = [piece for edge in straight for piece in _straight(places, edge)]
    pieces += [piece for lane in aside for piece in _aside(places, aside, lane, inner)]
    pieces += [piece for name, place in places.items() for piece in _node(graph, name, place)]
    left = -half - _LANE * max((each.lane for each in aside if each.backwards), default=0)
    lanes = max((each.lane for each in aside if not each.backwards), default=0)
    right = inner[False] + _LANE * lanes
    bottom = max(place.y + place.height / 2 for place in places.values())
    top = min(place.y - place.height / 2 for place in places.values())
    label = "Diagram of " + ", ".join(lines[0] for lines in graph.nodes.values()).strip("[*], ")
    return drawing(pieces, left, top, right, bottom, label)


def _places(graph: Graph) -> dict[str, _Place]:
    rows = _rows(graph)
    places = {}
    for name, lines in graph.nodes.items():
        row = rows[name]
        beside = [other for other in graph.nodes if rows[other] == row]
        x = (beside.index(name) - (len(beside) - 1) / 2) * _COLUMN
        is_dot = name in (START, END)
        width = _DOT if is_dot else width_of(lines) + 28
        height = _DOT if is_dot else len(lines) * LINE + 16
        places[name] = _Place(x, row * _ROW, width, height, row)
    return places


def _rows(graph: Graph) -> dict[str, int]:
    """The row of each node: its own or, if ranked, the one below all its predecessors."""
    if not graph.ranked:
        return {name: row for row, name in enumerate(_in_order(graph))}
    rows = dict.fromkeys(graph.nodes, 0)
    for _ in graph.nodes:
        for edge in graph.edges:
            rows[edge.target] = max(rows[edge.target], rows[edge.source] + 1)
    return rows


def _in_order(graph: Graph) -> list[str]:
    """The nodes in the order of a depth-first walk along the first edge of each."""
    order: list[str] = []
    waiting = list(reversed(graph.nodes))
    while waiting:
        name = waiting.pop()
        if name not in order:
            order.append(name)
            waiting += [edge.target for edge in reversed(graph.edges) if edge.source == name]
    return order


def _is_straight(places: dict[str, _Place], edge: Edge) -> bool:
    return places[edge.target].row - places[edge.source].row == 1


def _straight(places: dict[str, _Place], edge: Edge) -> Iterator[str]:
    source, target = places[edge.source], places[edge.target]
    start = (source.x, source.y + source.height / 2)
    end = (target.x, target.y - target.height / 2)
    yield arrow_path([start, end])
    if edge.label:
        lines = wrapped(edge.label, _LABEL_CHARS)
        yield text((start[0] + end[0]) / 2 + 8, (start[1] + end[1]) / 2 - 2, lines, "start")


def _lanes(places: dict[str, _Place], edges: Iterable[Edge]) -> Iterator[_Lane]:
    """The edges at the sides, shorter ones further in; edges in one lane do not overlap."""
    taken: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    for edge in sorted(edges, key=lambda each: _span(places, each)):
        backwards = places[edge.target].row < places[edge.source].row
        first, last = sorted((places[edge.source].row, places[edge.target].row))
        lane = 1
        while any(a < last and first < b for a, b in taken.get((backwards, lane), ())):
            lane += 1
        taken.setdefault((backwards, lane), []).append((first, last))
        yield _Lane(edge, lane, backwards)


def _span(places: dict[str, _Place], edge: Edge) -> int:
    return abs(places[edge.target].row - places[edge.source].row)


def _aside(
    places: dict[str, _Place], lanes: list[_Lane], lane: _Lane, inner: dict[bool, float]
) -> Iterator[str]:
    side = -1 if lane.backwards else 1
    source, target = places[lane.edge.source], places[lane.edge.target]
    lines = wrapped(lane.edge.label, _LABEL_CHARS)
    x = side * (inner[lane.backwards] + (lane.lane - 1) * _LANE + 16)
    start = source.y + _port(places, lanes, lane, lane.edge.source)
    end = target.y + _port(places, lanes, lane, lane.edge.target)
    yield arrow_path(
        [
            (source.x + side * source.width / 2, start),
            (x, start),
            (x, end),
            (target.x + side * target.width / 2, end),
        ]
    )
    yield text(x + side * 6, (start + end) / 2, lines, "end" if side < 0 else "start")


def _port(places: dict[str, _Place], lanes: list[_Lane], lane: _Lane, name: str) -> float:
    """The offset from a node's middle at which an edge at its side leaves or enters it."""

    def order(each: _Lane) -> tuple[bool, int]:
        other = each.edge.target if each.edge.source == name else each.edge.source
        down = places[other].row > places[name].row
        # Edges upwards are above edges downwards.  To avoid crossings, outer lanes are lower among
        # edges upwards and higher among edges downwards.
        return down, -each.lane if down else each.lane

    here = [
        each
        for each in lanes
        if each.backwards == lane.backwards and name in (each.edge.source, each.edge.target)
    ]
    here.sort(key=order)
    return ((here.index(lane) + 1) / (len(here) + 1) - 0.5) * places[name].height


def _node(graph: Graph, name: str, place: _Place) -> Iterator[str]:
    if name in (START, END):
        yield dot(place.x, place.y)
        return
    yield box(place.x, place.y, place.width, place.height)
    yield text(place.x, place.y, graph.nodes[name])
