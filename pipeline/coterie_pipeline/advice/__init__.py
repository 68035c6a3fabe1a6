"""What to look into: rules that find something in the tables, and say it in a sentence.

The rules about a group take in the rows of its tables one by one, and speak at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Protocol

from coterie_pipeline.advice import members, ownership, timeouts
from coterie_pipeline.advice.sentences import Row, Take

__all__ = ["GroupAdvice"]


class _Rule(Protocol):
    def takes(self) -> Mapping[str, Take]: ...

    def rows(self, group: str) -> Iterator[Row]: ...


class GroupAdvice:
    """All that is to be said about one group."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._rules: tuple[_Rule, ...] = (
            ownership.Overlaps(),
            ownership.Eager(),
            ownership.WithoutOwner(),
            ownership.Idle(),
            timeouts.SessionTimeouts(),
            timeouts.RebalanceTimeouts(),
            members.Restarts(),
            members.Flapping(),
            members.Slow(),
            members.OneNameForTwo(),
            members.WentBack(),
        )
        self._takes = defaultdict[str, list[Take]](list)
        for rule in self._rules:
            for table, take in rule.takes().items():
                self._takes[table].append(take)

    def note(self, name: str, row: Row) -> None:
        """Take in the next row of a table of the group, or of `refusals`."""
        for take in self._takes.get(name, ()):
            take(row)

    def rows(self) -> Iterator[Row]:
        """The rows of `advice`; there are no more rows of others."""
        for rule in self._rules:
            yield from rule.rows(self._group)
