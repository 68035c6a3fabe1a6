"""Journals for tests: what simulated coordinators wrote down, as files like a node's."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from coterie_protocol.journal import (
    Event,
    GroupRecovered,
    Line,
    NodeStarted,
    write_line,
)
from coterie_protocol.journal_text import segment_name
from coterie_testing.sim.runs import run_from_seed
from coterie_testing.sim.simulation import Simulation

__all__ = ["handed_over", "simulated", "write_journal"]


def write_journal(
    lines: Iterable[Line], folder: Path, *, lines_each: int = 300, packed_each: int = 3
) -> list[Path]:
    """Write lines as each of their nodes would: rotated, and every third file packed.

    Lines of a node go by their numbers, in whatever order they are given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    by_node: dict[str, list[Line]] = {}
    for line in lines:
        by_node.setdefault(line.node, []).append(line)
    paths: list[Path] = []
    for node, own in sorted(by_node.items()):
        own.sort(key=lambda line: line.seq)
        for begin in range(0, len(own), lines_each):
            text = "".join(f"{write_line(line)}\n" for line in own[begin : begin + lines_each])
            path = folder / segment_name(node, own[begin].seq)
            if len(paths) % packed_each == packed_each - 1:
                path = path.with_name(f"{path.name}.gz")
                path.write_bytes(gzip.compress(text.encode(), mtime=0))
            else:
                path.write_text(text, encoding="utf-8")
            paths.append(path)
    return paths


@cache
def simulated(seed: int, profile: str = "swarm") -> tuple[Line, ...]:
    """What the coordinator of a simulated run writes down.

    Its node, group and topics bear the seed in their names, so that the lines of many runs make
    one journal.
    """
    run = run_from_seed(seed, profile)
    topics = {f"{name}{seed}": count for name, count in run.options.topics.items()}
    simulation = Simulation(seed, replace(run.options, topics=topics), run.faults)
    try:
        simulation.run()
    finally:
        simulation.close()
    events = ((line.ts, _named(line.event, seed)) for line in simulation.system.coordinator.journal)
    return tuple(_numbered(f"n{seed}", events))


def handed_over(
    lines: Iterable[Line], nodes: tuple[str, ...], behind_ms: Mapping[str, int]
) -> list[Line]:
    """What several nodes had written if each new life of the coordinator were another one's.

    `behind_ms` says by how much the clock of a node is behind.
    """
    numbers = {node: itertools.count(1) for node in nodes}
    takers = itertools.cycle(nodes)
    node, was_recovered, fence = next(takers), False, 1
    written = []
    for line in lines:
        event = line.event
        is_recovered = isinstance(event, GroupRecovered)
        if is_recovered and not was_recovered:
            node, fence = next(takers), fence + 1
        if isinstance(event, GroupRecovered):
            event = replace(event, fence=fence)
        was_recovered = is_recovered
        ts = line.ts - behind_ms.get(node, 0)
        written.append(Line(ts, node, next(numbers[node]), event))
    return written


def _named(event: Event, seed: int) -> Event:
    return replace(event, group=f"{event.group}{seed}") if event.group else event


def _numbered(node: str, events: Iterable[tuple[int, Event]]) -> Iterator[Line]:
    """Lines of a node, with a start wherever it has read groups back."""
    seq = itertools.count(1)
    was_recovered = False
    for ts, event in events:
        is_recovered = isinstance(event, GroupRecovered)
        if was_recovered and not is_recovered:
            started = NodeStarted(version="0", groups=1, offsets=0, load_ms=1)
            yield Line(ts, node, next(seq), started)
        was_recovered = is_recovered
        yield Line(ts, node, next(seq), event)
