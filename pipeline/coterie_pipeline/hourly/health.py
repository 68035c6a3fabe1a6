"""A group hour by hour, from the rows of its other tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["Health"]

_HOUR_MS: Final = 3_600_000
_MOST: Final = 2**63 - 1

Row = dict[str, Any]

#: What faults that last add up to, by their kind.
_LASTING: Final = {"gap": "stopped_partition_ms", "silence": "silent_partition_ms"}

#: What is added up within an hour, besides times.
_COUNTS: Final = (
    *("partitions", "rebalances", "moved", "kept", "keepable", "overlaps", "possible_overlaps"),
    *("session_timeouts", "commits", "regressions"),
)
_TIMES: Final = ("rebalancing_ms", "owned_partition_ms", *_LASTING.values())


class _Hours:
    """Sums by hour, where one entry may span many hours at the cost of two."""

    def __init__(self) -> None:
        self._sums: Counter[int] = Counter()
        #: By how much more each hour has than the one before, up to the next such hour.
        self._changes: Counter[int] = Counter()

    def add(self, hour_ms: int, value: int) -> None:
        """Add a value to one hour."""
        self._sums[hour_ms] += value

    def add_time(self, from_ms: int, to_ms: int) -> None:
        """Add the share of a time that each hour has."""
        first, last = _hour(from_ms), _hour(max(to_ms - 1, from_ms))
        if first == last:
            self._sums[first] += to_ms - from_ms
            return
        self._sums[first] += first + _HOUR_MS - from_ms
        self._sums[last] += to_ms - last
        self.add_each(first + _HOUR_MS, last - _HOUR_MS, _HOUR_MS)

    def add_each(self, first: int, last: int, value: int = 1) -> None:
        """Add a value to each hour from the first to the last one."""
        if first <= last:
            self._changes[first] += value
            self._changes[last + _HOUR_MS] -= value

    def values(self) -> Iterator[tuple[int, int]]:
        """Each hour that has anything, and its sum."""
        spread: dict[int, int] = {}
        changes = sorted(self._changes.items())
        level = 0
        for index, (begin, change) in enumerate(changes):
            level += change
            if level:
                spread.update(
                    (hour, level) for hour in range(begin, changes[index + 1][0], _HOUR_MS)
                )
        for hour in spread.keys() | self._sums.keys():
            yield hour, spread.get(hour, 0) + self._sums[hour]


class Health:
    """Takes in the rows of a group's tables, and gives those of its hours at the end."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._sums = {name: _Hours() for name in (*_COUNTS, *_TIMES)}
        self._causes: dict[int, Counter[str]] = {}
        self._members: dict[int, int] = {}
        #: The generation that is in force: its members, and since when.
        self._in_force: tuple[int, int] | None = None
        #: The partition whose intervals come, until when it had an owner, and the next hour in
        #: which it was not counted.
        self._owned: tuple[str, int] | None = None
        self._owned_to_ms = 0
        self._uncounted = 0
        self._horizon_ms = 0

    def note(self, name: str, row: Row) -> None:
        """Take in the next row of a table."""
        match name:
            case "rebalances":
                self._note_rebalance(row)
            case "ownership":
                self._note_interval(row)
            case "ownership_faults":
                self._note_fault(row)
            case "member_sessions" if row["ended"] == "session_expired":
                self._count("session_timeouts", row["ended_ms"])
            case "commits":
                self._count("commits", row["hour_ms"], row["commits"])
                self._count("regressions", row["hour_ms"], row["regressions"])

    def rows(self) -> Iterator[Row]:
        """A row for each hour; there are no more rows of others."""
        self._end_generation(self._horizon_ms)
        hours: dict[int, Row] = {}
        for name, sums in self._sums.items():
            for hour_ms, value in sums.values():
                hours.setdefault(hour_ms, {})[name] = min(value, _MOST)
        for hour_ms in hours.keys() | self._members.keys():
            yield self._row(hour_ms, hours.get(hour_ms, {}))

    def _row(self, hour_ms: int, sums: Row) -> Row:
        row = {name: sums.get(name, 0) for name in (*_COUNTS, *_TIMES)}
        owned, stopped = row["owned_partition_ms"], row["stopped_partition_ms"]
        # Of two owners at once, one may have been silent.
        heard = max(owned - row["silent_partition_ms"], 0)
        return {
            "group": self._group,
            "hour_ms": hour_ms,
            "members": self._members.get(hour_ms, 0),
            "by_cause": sorted(self._causes.get(hour_ms, {}).items()),
            **row,
            "availability": heard / (owned + stopped) if owned + stopped > 0 else None,
            "stickiness": row["kept"] / row["keepable"] if row["keepable"] > 0 else None,
        }

    def _count(self, name: str, ms: int, value: int | None = 1) -> None:
        self._sums[name].add(_hour(ms), value or 0)

    def _note_rebalance(self, row: Row) -> None:
        started_ms = row["started_ms"]
        self._horizon_ms = row["horizon_ms"]
        self._count("rebalances", started_ms)
        for name in ("moved", "kept", "keepable"):
            self._count(name, started_ms, row[name])
        if row["cause"] is not None:
            self._causes.setdefault(_hour(started_ms), Counter())[row["cause"]] += 1
        # One that goes on counts, so that a stuck group shows.
        ended_ms = row["horizon_ms"] if row["ended_ms"] is None else row["ended_ms"]
        self._sums["rebalancing_ms"].add_time(started_ms, ended_ms)
        is_empty = row["outcome"] == "emptied"
        since_ms = row["ended_ms"] if is_empty else row["joined_ms"]
        if since_ms is not None:
            self._end_generation(since_ms)
            self._in_force = 0 if is_empty else row["members"] or 0, since_ms

    def _end_generation(self, until_ms: int) -> None:
        """The number of members of the generation that is in force counts until then."""
        if self._in_force is None:
            return
        members, since_ms = self._in_force
        for hour_ms in range(_hour(since_ms), max(until_ms - 1, since_ms) + 1, _HOUR_MS):
            self._members[hour_ms] = max(self._members.get(hour_ms, 0), members)

    def _note_interval(self, row: Row) -> None:
        """Count the time with an owner; time with several owners at once counts once."""
        partition = row["topic"], row["partition"]
        from_ms, to_ms = row["from_ms"], row["to_ms"]
        own_from_ms = from_ms
        if partition != self._owned:
            self._owned, self._owned_to_ms, self._uncounted = partition, to_ms, 0
        else:
            own_from_ms = max(from_ms, self._owned_to_ms)
            self._owned_to_ms = max(self._owned_to_ms, to_ms)
        if own_from_ms < to_ms or from_ms == to_ms:
            own_from_ms = min(own_from_ms, to_ms)
            self._sums["owned_partition_ms"].add_time(own_from_ms, to_ms)
            last = _hour(max(to_ms - 1, own_from_ms))
            first = max(_hour(own_from_ms), self._uncounted)
            self._sums["partitions"].add_each(first, last)
            self._uncounted = max(self._uncounted, last + _HOUR_MS)

    def _note_fault(self, row: Row) -> None:
        if row["fault"] in _LASTING:
            self._sums[_LASTING[row["fault"]]].add_time(row["from_ms"], row["to_ms"])
        elif row["fault"] == "overlap":
            is_sure = row["sure_ms"] > 0
            self._count("overlaps" if is_sure else "possible_overlaps", row["from_ms"])


def _hour(ms: int) -> int:
    return ms - ms % _HOUR_MS
