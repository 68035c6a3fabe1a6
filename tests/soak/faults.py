"""Which fault comes when."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["DATABASE", "KINDS", "NextFault", "fault_plan"]

#: On nodes: killed, suspended for less than a lease or for longer, and stopped in good order.
KINDS: Final = ("kill", "kill", "short pause", "long pause", "drain")
DATABASE: Final = "database restart"


@dataclass(frozen=True, slots=True)
class NextFault:
    """What is to be done next, to which node, and for how long it is to be away."""

    kind: str
    node: int
    away_s: float


def fault_plan(
    chance: random.Random, nodes: int, lease_s: float, *, has_database: bool
) -> Iterator[NextFault]:
    """Faults without end: of each kind as many as of the others, in an order that is drawn."""
    kinds: Sequence[str] = (*KINDS, DATABASE) if has_database else KINDS
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            yield NextFault(kind, chance.randrange(nodes), _away_s(kind, chance, lease_s))


def _away_s(kind: str, chance: random.Random, lease_s: float) -> float:
    match kind:
        case "kill":  # back before the others have noticed, or after
            return chance.uniform(0.0, 2.0) * lease_s
        case "short pause":
            return chance.uniform(0.2, 0.8) * lease_s
        case "long pause":
            return chance.uniform(1.2, 2.5) * lease_s
        case "database restart":
            return chance.uniform(0.0, 1.0) * lease_s
        case _:
            return 0.0
