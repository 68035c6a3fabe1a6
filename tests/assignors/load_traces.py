"""Loads of partitions over time: generators of plausible ones, and those that were recorded."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["GENERATED", "RECORDED", "Trace", "diurnal", "recorded", "spikes", "wandering", "zipf"]

_RECORDINGS: Final = Path(__file__).with_name("recorded_loads")


@dataclass(frozen=True, slots=True)
class Trace:
    """The load of each partition of one topic, at each step."""

    name: str
    step_s: float
    loads: Sequence[Sequence[float]]

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.loads[0])

    def at(self, step: int) -> Mapping[tuple[str, int], float]:
        """The loads at a step."""
        return {("t", number): load for number, load in enumerate(self.loads[step])}


def zipf(seed: int, partitions: int = 60, steps: int = 240, exponent: float = 0.8) -> Trace:
    """A few large tenants and many small ones, whose loads jitter by a tenth."""
    chance = random.Random(f"zipf {seed}")
    sizes = [100 / (rank + 3) ** exponent for rank in range(partitions)]
    chance.shuffle(sizes)
    loads = [[size * chance.uniform(0.9, 1.1) for size in sizes] for _ in range(steps)]
    return Trace("zipf", 60.0, loads)


def diurnal(seed: int, partitions: int = 60, steps: int = 1440) -> Trace:
    """Days of regions whose noons are apart; a partition belongs to one of three."""
    chance = random.Random(f"diurnal {seed}")
    sizes = [chance.lognormvariate(0, 0.6) for _ in range(partitions)]
    noons = [chance.choice((0.2, 0.5, 0.8)) for _ in range(partitions)]
    loads = [
        [
            size * (1.2 + math.cos(2 * math.pi * (step / 1440 - noon))) * chance.uniform(0.9, 1.1)
            for size, noon in zip(sizes, noons, strict=True)
        ]
        for step in range(steps)
    ]
    return Trace("diurnal", 60.0, loads)


def spikes(seed: int, partitions: int = 60, steps: int = 360) -> Trace:
    """Even loads, on which every few minutes a partition is ten times as busy for a while."""
    chance = random.Random(f"spikes {seed}")
    loads = [[chance.uniform(0.8, 1.2) for _ in range(partitions)] for _ in range(steps)]
    for start in range(0, steps, 7):
        number, length = chance.randrange(partitions), chance.choice((1, 2, 5, 60))
        for step in range(start, min(steps, start + length)):
            loads[step][number] *= 10
    return Trace("spikes", 60.0, loads)


def wandering(seed: int, partitions: int = 60, steps: int = 480) -> Trace:
    """Loads that drift apart: each is some per cent more or less than a minute ago."""
    chance = random.Random(f"wandering {seed}")
    now = [1.0] * partitions
    loads = []
    for _ in range(steps):
        now = [min(50.0, max(0.02, load * chance.lognormvariate(0, 0.06))) for load in now]
        loads.append(now)
    return Trace("wandering", 60.0, loads)


GENERATED: Final[Sequence[Callable[[int], Trace]]] = (zipf, diurnal, spikes, wandering)


def recorded(name: str) -> Trace:
    """What `tools/record_loads.py` measured, of workers of a real daemon."""
    data = json.loads((_RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return Trace(name, data["step_s"], data["loads"])


RECORDED: Final = tuple(sorted(path.stem for path in _RECORDINGS.glob("*.json")))
