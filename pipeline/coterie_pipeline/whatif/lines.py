"""The lines of a group and of its nodes, put in order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from coterie_protocol.journal import GroupRecovered, JournalError, Line, read_line

__all__ = ["in_order"]


@dataclass(slots=True)
class _Stint:
    """A run of one node's lines about the group, with what the node says of itself meanwhile."""

    lines: list[Line]

    @property
    def key(self) -> tuple[int, int, str, int]:
        """What puts stints in order: generations first, as clocks may disagree."""
        group = [line for line in self.lines if line.event.group]
        named = (getattr(line.event, "generation", None) for line in group)
        generation = next((number for number in named if number is not None), -1)
        return generation, group[0].ts, group[0].node, group[0].seq

    def with_group(self) -> Iterator[Line]:
        """The lines from the first one about the group on."""
        return itertools.dropwhile(lambda line: not line.event.group, self.lines)


def in_order(lines: Iterable[str], node_lines: Iterable[str]) -> list[Line]:
    """Read a group's lines, and those of nodes about themselves, and put them in order.

    The order is that of the tables, see `steps.lines.in_order`.  Nodes that never had the group are
    left out.  Time never runs backwards in the result.
    """
    by_node: dict[str, dict[int, Line]] = defaultdict(dict)
    for line in _readable(lines):
        by_node[line.node][line.seq] = line
    for line in _readable(node_lines):
        if line.node in by_node:
            by_node[line.node].setdefault(line.seq, line)
    stints = [
        stint
        for numbered in by_node.values()
        for stint in _stints([numbered[seq] for seq in sorted(numbered)])
    ]
    first, *others = sorted(stints, key=lambda each: each.key) or [_Stint([])]
    # What a node did before it had the group only matters if the group was nowhere before.
    ordered = [*first.lines, *(line for stint in others for line in stint.with_group())]
    return list(_forwards(ordered))


def _readable(texts: Iterable[str]) -> Iterator[Line]:
    for text in texts:
        try:
            yield read_line(text)
        except JournalError:
            continue


def _stints(lines: Sequence[Line]) -> Iterator[_Stint]:
    """Cut one node's lines where it reads the group back."""
    run: list[Line] = []
    for line in lines:
        if isinstance(line.event, GroupRecovered) and any(each.event.group for each in run):
            yield _Stint(run)
            run = []
        run.append(line)
    if run:
        yield _Stint(run)


def _forwards(lines: Iterable[Line]) -> Iterator[Line]:
    latest_ms = 0
    for line in lines:
        latest_ms = max(latest_ms, line.ts)
        yield line if line.ts == latest_ms else replace(line, ts=latest_ms)
