"""Where a journal gives a shard away: what becomes of its groups then is in no line of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coterie_protocol.shards import shard_of

__all__ = ["Giving", "given_away_ms"]


@dataclass(frozen=True, slots=True)
class Giving:
    """A line by which a node gives a shard away."""

    seq: int
    ts: int
    shard: int
    #: How many shards there are.
    shards: int


def given_away_ms(group: str, last_seq: int, givings: Iterable[Giving]) -> int | None:
    """When a node gave a group away, after its last line about that; None if it did not."""
    given = (
        each
        for each in givings
        if each.seq > last_seq and each.shards > 0 and shard_of(group, each.shards) == each.shard
    )
    first = min(given, key=lambda each: each.seq, default=None)
    return None if first is None else first.ts
