"""Who had which partition, out of what all members say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from coterie_assignors.base import Claim

__all__ = ["CONTESTED", "NOBODY", "Ledger", "settle"]

#: Nobody says that it had the partition.
NOBODY: Final = -1
#: Several members say so, and none of them more recently than the others.
CONTESTED: Final = -2

#: The owner of each partition that somebody claims, as a place in the sequence of claims.
Ledger = dict[str, dict[int, int]]


def settle(claims: Sequence[Claim]) -> Ledger:
    """Settle conflicting claims: the newest generation's one counts.

    A member that was away while its partitions went to others comes back with an old claim.  Two
    claims of one generation can't both be true, and nothing tells which is.
    """
    ledger: Ledger = {}
    by_generation: dict[int, list[int]] = {}
    for place, claim in enumerate(claims):
        by_generation.setdefault(claim.generation, []).append(place)
    for _, places in sorted(by_generation.items()):
        for topic, owners in _of_one_generation(claims, places).items():
            ledger.setdefault(topic, {}).update(owners)
    return ledger


def _of_one_generation(claims: Sequence[Claim], places: Sequence[int]) -> Ledger:
    ledger: Ledger = defaultdict(dict)
    for place in places:
        for entry in claims[place].owned:
            owners = ledger[entry.topic]
            for number in entry.partitions:
                if owners.setdefault(number, place) != place:
                    owners[number] = CONTESTED
    return ledger
