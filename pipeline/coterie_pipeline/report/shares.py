"""Dividing what a report shows among groups."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["shares"]


def shares(wanted: Mapping[str, int], most: int) -> Mapping[str, int]:
    """Divide `most` among names that want some of it, the most important first.

    The second gets half of what the first gets, the third a third, and so on; what one does not
    want is left to the others.  Each gets at least one.
    """
    weights = {name: 1 / place for place, name in enumerate(wanted, 1)}
    given: dict[str, int] = {}
    while len(given) < len(wanted):
        left = most - sum(given.values())
        whole = sum(weight for name, weight in weights.items() if name not in given)
        parts = {name: left * weights[name] / whole for name in wanted if name not in given}
        content = {name: wanted[name] for name in parts if wanted[name] <= parts[name]}
        given |= content or {name: int(part) for name, part in parts.items()}
    return {name: max(given[name], 1) for name in wanted}
