"""All that the lines of groups tell, group by group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from coterie_protocol.replay.clock_steps import ClockSteps
from coterie_protocol.replay.faults import Dismissals, Ends, faults, partition_order
from coterie_protocol.replay.holdings import Holdings
from coterie_protocol.replay.kept import Kept
from coterie_protocol.replay.members import Members
from coterie_protocol.replay.memberships import Memberships
from coterie_protocol.replay.order import GroupLines, Placed, moves_time
from coterie_protocol.replay.rebalances import Rebalances
from coterie_protocol.replay.spool import SortedSpool, Spool

__all__ = ["Row", "replay_group"]

Row = dict[str, Any]

#: About the size of a row of a rebalance.
_ROW_BYTES: Final = 1_000


def replay_group(
    group: str,
    lines: GroupLines,
    deleted_ms: Mapping[str, Sequence[int]],
    horizon_ms: int = 0,
    clocks: Mapping[str, ClockSteps] = MappingProxyType({}),
) -> Iterator[tuple[str, Row]]:
    """The rows of one group, each with the name of what it is a row of.

    What is open goes on at the horizon, which is the time of the last line if that is later.
    `clocks` says how the clocks of nodes were set.
    """
    return _Replay(group, lines, max(horizon_ms, lines.last_ms), clocks).rows(deleted_ms)


class _Replay:
    """Passes a group's lines to all that follow them, and then hands out what they found."""

    def __init__(
        self, group: str, lines: GroupLines, horizon_ms: int, clocks: Mapping[str, ClockSteps]
    ) -> None:
        self._group = group
        self._lines = lines
        self._horizon_ms = horizon_ms
        self._intervals = SortedSpool(key=partition_order)
        self._rebalance_rows = Spool()
        self._refusals = Spool()
        self._dismissals = Dismissals()
        self._ends = Ends(clocks)
        self._clocks = Clocks()
        self._members = Members.of(lines)
        keep = _keeper(self._ends, self._rebalance_rows, horizon_ms)
        self._rebalances = Rebalances(group, clocks, keep)
        self._holdings = Holdings(group, self._members, clocks, horizon_ms, self._intervals.add)
        self._memberships = Memberships(group, self._members)
        self._kept = Kept(self._members)

    def rows(self, deleted_ms: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Row]]:
        for line in self._lines:
            self._note(line)
        self._rebalances.finish()
        self._holdings.finish()
        yield from (("ownership", interval) for interval in self._intervals)
        found = faults(
            self._group, self._intervals, self._dismissals, self._ends, deleted_ms,
            self._horizon_ms,
        )  # fmt: skip
        yield from (("ownership_faults", row) for row in found)
        for row in self._rebalance_rows.slice(0, len(self._rebalance_rows)):
            yield "rebalances", {**row, **self._cost(row)}
        yield from (("member_sessions", row) for row in self._memberships.rows())
        yield from (("refusals", row) for row in self._refusals.slice(0, len(self._refusals)))
        yield from (("clocks", row) for row in self._clocks.rows())

    def _cost(self, row: Row) -> Row:
        number, is_paid = row["rebalance"], row["is_paid"]
        return {
            "stopped_partition_ms": self._ends.stopped_ms[number] if is_paid else None,
            "silent_partition_ms": self._ends.silent_ms[number] if is_paid else None,
        }

    def _note(self, line: Placed) -> None:
        self._rebalances.note(line)
        latest = self._rebalances.latest
        number, began_ms = (latest.number, latest.began_ms) if latest is not None else (0, 0)
        kept = self._kept.note(line)
        if latest is not None and line.kind == "rebalance_completed":
            latest.kept = kept
        self._holdings.note(line, number, began_ms)
        self._dismissals.note(line, number)
        self._memberships.note(line)
        self._clocks.note(line)
        if line.kind == "member_fenced":
            names = ("instance", "host", "holder_host")
            row = {"group": self._group, "at": line.at, **{name: line[name] for name in names}}
            self._refusals.append(row, _ROW_BYTES)


def _keeper(ends: Ends, rows: Spool, horizon_ms: int) -> Callable[[Row], None]:
    """What takes rebalances.

    It is no method of the replay: that would then refer to itself, and all its lines would stay in
    memory until cycles are looked for, which a daemon does seldom.
    """

    def keep(row: Row) -> None:
        ends.note(row)
        rows.append({**row, "horizon_ms": horizon_ms}, _ROW_BYTES)

    return keep


@dataclass(slots=True)
class Clocks:
    """How far each node's clock is behind those from which it took the group over."""

    _latest: tuple[int, str] | None = None
    _behind_ms: dict[str, int] = field(default_factory=dict)

    def note(self, line: Placed) -> None:
        """Take in the next line."""
        if not moves_time(line.kind):
            return
        if self._latest is not None and self._latest[1] != line.node:
            behind_ms = max(self._latest[0] - line.ts, 0)
            self._behind_ms[line.node] = max(self._behind_ms.get(line.node, 0), behind_ms)
        mine = line.ts, line.node
        self._latest = mine if self._latest is None else max(self._latest, mine)

    def rows(self) -> Iterator[Row]:
        """A row for each node that took the group over."""
        for node, behind_ms in self._behind_ms.items():
            yield {"node": node, "behind_ms": behind_ms}
