"""Parses the part of Mermaid's language that the documentation uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["END", "START", "Edge", "Graph", "MermaidError", "Message", "Note", "Sequence", "parse"]

#: The dots at which a state diagram begins and ends.
START: Final = "[*]"
END: Final = "[*] "

_NODE: Final = re.compile(r'(\w+)\["(.+)"\]')
_EDGE: Final = re.compile(r"(\S+) --> (\S+?)(?:: (.+))?")
_PARTICIPANT: Final = re.compile(r"participant (\w+)(?: as (.+))?")
_MESSAGE: Final = re.compile(r"(\w+?)(--?)>>(\w+): (.+)")
_NOTE: Final = re.compile(r"Note over (\w+): (.+)")
_TAG: Final = re.compile(r"<[^>]+>")


class MermaidError(ValueError):
    """Text that is not a diagram, or a kind of diagram that is not supported."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow from one node to another."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes, with the lines of their labels, and edges, in the order of the text."""

    nodes: dict[str, tuple[str, ...]]
    edges: tuple[Edge, ...]
    #: Whether nodes at the same distance from the first one are drawn side by side.
    ranked: bool


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one participant to another."""

    sender: str
    receiver: str
    text: str
    is_answer: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A note over a participant."""

    over: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    """Participants, and their messages and notes in order."""

    participants: dict[str, str]
    steps: tuple[Message | Note, ...]


def parse(text: str) -> Graph | Sequence:
    """Parse a diagram."""
    kind, *rest = (line.strip() for line in text.strip().splitlines())
    lines = [line for line in rest if line]
    if kind == "flowchart TD":
        return _graph(lines, ranked=True)
    if kind == "stateDiagram-v2":
        return _graph(lines, ranked=False)
    if kind == "sequenceDiagram":
        return _sequence(lines)
    raise MermaidError(f"diagrams of the kind {kind!r} are not supported")


def _graph(lines: list[str], *, ranked: bool) -> Graph:
    nodes: dict[str, tuple[str, ...]] = {}
    edges: list[Edge] = []
    for line in lines:
        if node := _NODE.fullmatch(line):
            nodes[node[1]] = tuple(_texts(node[2]))
        elif edge := _EDGE.fullmatch(line):
            target = END if edge[2] == START else edge[2]
            edges.append(Edge(edge[1], target, edge[3] or ""))
            for name in (edge[1], target):
                nodes.setdefault(name, (name,))
        else:
            raise MermaidError(f"neither a node nor an edge: {line!r}")
    return Graph(nodes, tuple(edges), ranked)


def _sequence(lines: list[str]) -> Sequence:
    participants: dict[str, str] = {}
    steps: list[Message | Note] = []
    for line in lines:
        if named := _PARTICIPANT.fullmatch(line):
            participants[named[1]] = named[2] or named[1]
        elif message := _MESSAGE.fullmatch(line):
            sender, dashes, receiver, text = message.groups()
            steps.append(Message(sender, receiver, text, is_answer=dashes == "--"))
        elif note := _NOTE.fullmatch(line):
            steps.append(Note(note[1], tuple(_texts(note[2]))))
        else:
            raise MermaidError(f"neither a participant, nor a message, nor a note: {line!r}")
    return Sequence(participants, tuple(steps))


def _texts(label: str) -> Iterator[str]:
    for part in label.split("<br>"):
        yield _TAG.sub("", part)
