"""Warm scaling: partitions with state move only to members that are ready for them."""

from coterie_assignors.warm.probing import next_probing_ms

__all__ = ["next_probing_ms"]
