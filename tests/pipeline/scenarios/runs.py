"""Journals of simulated runs, and what may befall a journal.

Each seed is a group of its own with a node of its own, so that many of them make one journal.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Final

from coterie_protocol.journal import Line
from tests.support.journals import handed_over, simulated
from tests.support.profiles import by_profile

__all__ = ["PROFILES", "simulated_lines"]

PROFILES: Final = ("brief", "swarm", "rough", "hostile")

#: How many runs are looked at: few each time, and as many as asked for.
_SEEDS: Final = range(int(os.environ.get("PIPELINE_SEEDS", by_profile(quick=6, long=40))))

#: By how much the clock of every other node is behind, in turn.
_BEHIND_MS: Final = (0, 700, 20_000)

#: How many lines are lost, where lines are lost.
_LOST: Final = 0.04


def simulated_lines() -> Iterator[Line]:
    """Lines of a run for each seed.

    Of every third one, nodes take the group over from each other whose clocks disagree; of some,
    lines are lost here and there, or the beginning or the end is missing.
    """
    for seed in _SEEDS:
        lines = list(simulated(seed, PROFILES[seed % 4]))
        if seed % 3 == 2:
            nodes = (f"n{seed}a", f"n{seed}b")
            lines = handed_over(lines, nodes, {nodes[1]: _BEHIND_MS[seed // 3 % 3]})
        if seed % 5 == 1:
            chance = random.Random(seed)
            lines = [line for line in lines if chance.random() > _LOST]
        if seed % 5 == 4:
            lines = lines[len(lines) * (seed % 7) // 14 :]
        if seed % 7 == 6:
            lines = lines[: len(lines) * (seed % 5 + 1) // 6]
        yield from lines
