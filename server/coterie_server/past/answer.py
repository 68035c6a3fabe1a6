"""What is answered about a group's past, as JSON of a bounded size."""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol.replay import replay_group
from coterie_server.history import (
    CountedNames,
    LateMember,
    RebalanceOutcome,
    RebalanceRecord,
    rebalance_json,
)
from coterie_server.history.record import DETAIL_CHARACTERS, LATE_MAX, NAME_CHARACTERS
from coterie_server.past.marks import Marks
from coterie_server.past.ownership import Latest, Period, Span, periods, spans

if TYPE_CHECKING:
    from coterie_server.past.collecting import Collected

__all__ = ["LIMITS", "Asked", "PastLimit", "Present", "past_json"]

#: How long an answer may be; what is older is left out.
ANSWER_BYTES: Final = 4_194_304
#: The shares of it of rebalances, of gaps and overlaps, and of memberships.
_PART_BYTES: Final = ANSWER_BYTES // 4

#: How many rebalances and memberships are held.
_REBALANCES_MAX: Final = 2_000
_MEMBERS_MAX: Final = 10_000
#: How many of the last times are named of which something is missing.
_MISSING_MAX: Final = 100

#: What a row tells of a rebalance as a record does.
_SAME: Final = (
    "generation", "follows", "started_ms", "joined_ms", "ended_ms", "prepare_ms", "total_ms",
    "stopped_partition_ms", "silent_partition_ms",
)  # fmt: skip
#: What a record names a few of.
_COUNTED: Final = ("came", "went", "dropped", "awaited")

Row = dict[str, Any]

_dumps: Final = partial(json.dumps, separators=(",", ":"))


class PastLimit(StrEnum):
    """Why nothing is told from before a moment."""

    ASKED = "asked"
    """That is as far back as was asked."""
    COMPLETE = "complete"
    """The group began then."""
    JOURNAL = "journal"
    """The journal goes back no further."""
    READ_BACK = "read_back"
    """The journal goes back further than it is read."""
    SIZE = "size"
    """The answer would be too large."""
    TAKEN_OVER = "taken_over"
    """Another node coordinated the group before."""
    UNREADABLE = "unreadable"
    """The journal can't be read."""
    NO_JOURNAL = "no_journal"
    """The node keeps no journal."""


LIMITS: Final[Mapping[PastLimit, str]] = {
    PastLimit.ASKED: "This is as far back as was asked.",
    PastLimit.COMPLETE: "Nothing happened to the group before.",
    PastLimit.JOURNAL: "The journal goes back no further.",
    PastLimit.READ_BACK: (
        "The journal goes back further than it is read for this page; `coterie pipeline report`"
        " makes a report of all of it."
    ),
    PastLimit.SIZE: "There is more than fits into one answer; ask for the time before.",
    PastLimit.TAKEN_OVER: "Another node coordinated the group before; its journal has the rest.",
    PastLimit.UNREADABLE: "The journal can't be read; the node's log says why.",
    PastLimit.NO_JOURNAL: "The node keeps no journal.",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The group and the time that are asked about."""

    group: str
    since_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Present:
    """What a coordinator knows of its group now, for a time in which nothing is journalled."""

    generation: int
    #: By member; None if that can't be read.
    owned: Mapping[str, Mapping[str, str]] | None
    #: What members are called, and where they are: as in the answer's `members`.
    members: tuple[Row, ...] = ()


def past_json(
    asked: Asked,
    collected: Collected,
    known: tuple[int, PastLimit],
    present: Present | None = None,
) -> bytes:
    """The answer; `known` says from when on all lines are there, and why not from before.

    May take seconds, and leaves others their turns meanwhile.
    """
    lines = collected.lines
    marks = Marks.of(lines)
    since_ms, limit = _beginning(asked, known, marks)
    found = _Found(Latest(min(since_ms, asked.until_ms), asked.until_ms), marks)
    rows = replay_group(asked.group, lines, collected.deleted_ms, asked.until_ms, collected.clocks)
    for name, row in rows:
        found.take(name, row)
        collected.breathe()
    owned = list[Period]()
    for period in periods(found.rows, marks.closings):
        owned.append(period)
        collected.breathe()
    if present is not None:
        found.complete_members(present)
        if not lines.last_ms:
            owned = [_unchanged(found.rows.since_ms, present)]
    answer = _Answer(found.rows.since_ms)
    parts = {
        "rebalances": answer.latest(reversed(found.rebalances), _PART_BYTES),
        "spans": answer.latest(map(_span, spans(found.rows)), _PART_BYTES)[::-1],
        "members": answer.latest(found.latest_members(), _PART_BYTES),
        "generations": answer.latest(map(_period, owned), ANSWER_BYTES - 3 * _PART_BYTES)[::-1],
    }
    if answer.since_ms > since_ms:
        limit = PastLimit.SIZE
    head = {
        "group": asked.group,
        "since_ms": answer.since_ms,
        "until_ms": asked.until_ms,
        "limit": limit,
        "message": LIMITS[limit],
        "nodes": [asdict(each) for each in marks.tenures],
        "missing": [
            asdict(each)
            for each in sorted((*collected.missing, *marks.missing), key=lambda it: it.from_ms)
            if _is_in(found.rows, each.from_ms, each.until_ms)
        ][-_MISSING_MAX:],
    }
    lists = ",".join(f'"{name}":[{",".join(texts)}]' for name, texts in parts.items())
    return f"{_dumps(head)[:-1]},{lists}}}".encode()


def _beginning(asked: Asked, known: tuple[int, PastLimit], marks: Marks) -> tuple[int, PastLimit]:
    if marks.is_whole and marks.tenures[0].from_ms >= asked.since_ms:
        return marks.tenures[0].from_ms, PastLimit.COMPLETE
    if not marks.is_whole and known[0] > asked.since_ms:
        return known
    return asked.since_ms, PastLimit.ASKED


def _is_in(rows: Latest, from_ms: int | None, until_ms: int | None) -> bool:
    """Whether a time has a part in the one that is asked about."""
    return (from_ms is None or from_ms < rows.until_ms) and (
        until_ms is None or until_ms >= rows.since_ms
    )


@dataclass(slots=True)
class _Found:
    """The rows of a time, of all kinds."""

    rows: Latest
    marks: Marks
    rebalances: deque[Row] = field(default_factory=deque)
    #: Memberships by their ends, the latest last.
    _members: list[tuple[float, int, Row]] = field(default_factory=list)
    _count: int = 0

    def take(self, name: str, row: Row) -> None:
        match name:
            case "ownership":
                self.rows.take_interval(row)
            case "ownership_faults":
                self.rows.take_fault(row)
            case "rebalances" if _is_in(self.rows, row["started_ms"], row["ended_ms"]):
                self._take_rebalance(row)
            case "member_sessions" if _is_in(self.rows, row["joined_ms"], row["ended_ms"]):
                self._take_membership(row)

    def _take_rebalance(self, row: Row) -> None:
        self.rebalances.append(_rebalance(row, self.marks.waiting.get(row["ended_pos"])))
        if len(self.rebalances) > _REBALANCES_MAX:
            self.rows.since_ms = self.rebalances.popleft()["ended_ms"]

    def _take_membership(self, row: Row) -> None:
        self._count += 1
        ended = float("inf") if row["ended_ms"] is None else float(row["ended_ms"])
        entry = ended, self._count, _membership(row)
        if len(self._members) < _MEMBERS_MAX:
            heapq.heappush(self._members, entry)
        else:
            dropped = heapq.heappushpop(self._members, entry)
            self.rows.since_ms = max(self.rows.since_ms, int(min(dropped[0], self.rows.until_ms)))

    def latest_members(self) -> list[Row]:
        """The memberships, those that ended last first."""
        return [row for _, _, row in sorted(self._members, key=lambda it: it[:2], reverse=True)]

    def complete_members(self, present: Present) -> None:
        """Add what the coordinator knows of members about which the lines say little."""
        known = {row["member"]: row for _, _, row in self._members if row["until_ms"] is None}
        for each in present.members:
            row = known.get(each["member"])
            if row is None:
                self._count += 1
                told = {"from_ms": None, "until_ms": None, "began": "known", "ended": "open"}
                self._members.append((float("inf"), self._count, {**each, **told}))
            elif row["client_id"] is None:
                row["client_id"] = each["client_id"]


@dataclass(slots=True)
class _Answer:
    """Takes the latest of each list, as many as there is room for."""

    #: From when on nothing is left out.
    since_ms: int

    def latest(self, values: Iterable[Row], room_bytes: int) -> list[str]:
        """JSON of values, the latest of which comes first."""
        texts: list[str] = []
        for value in values:
            texts.append(_dumps(value))
            room_bytes -= len(texts[-1]) + 1
            if room_bytes < 0:
                del texts[-1]
                ended_ms = value.get("until_ms", value.get("ended_ms"))
                self.since_ms = max(self.since_ms, ended_ms or 0)
                break
        return texts


def _unchanged(since_ms: int, present: Present) -> Period:
    owned = {name: dict(each) for name, each in (present.owned or {}).items()}
    return Period(since_ms, None, present.generation, present.owned is not None, owned)


# -- rows as JSON ------------------------------------------------------------------------------


def _rebalance(row: Row, waiting: CountedNames | None) -> Row:
    """A row of the table of rebalances, as other pages show a rebalance."""
    late = row["late"][:LATE_MAX]
    values: Row = {
        **{name: row[name] for name in _SAME},
        **{name: row[name] or "" for name in ("cause", "from_state")},
        **{name: (row[name] or "")[:NAME_CHARACTERS] for name in ("protocol", "leader")},
        **{name: row[name] or 0 for name in ("members", "moved", "revoked")},
        **{name: CountedNames.of(tuple(row[name] or ())) for name in _COUNTED},
    }
    record = RebalanceRecord(
        group=row["group"],
        outcome=RebalanceOutcome(row["outcome"]),
        detail=(row["detail"] or "")[:DETAIL_CHARACTERS],
        late=tuple(LateMember(**each) for each in late),
        needs_rejoin=bool(row["needs_rejoin"]),
        waiting_moves=waiting or CountedNames(),
        **values,
    )
    return rebalance_json(record)


def _membership(row: Row) -> Row:
    return {
        **{name: row[name] for name in ("member", "instance", "client_id")},
        "host": (row["host"] or "").lstrip("/"),
        "from_ms": row["joined_ms"],
        "until_ms": row["ended_ms"],
        "began": row["began"],
        "ended": row["ended"],
    }


def _span(span: Span) -> Row:
    values = asdict(span)
    values["members"] = values.pop("holders")
    return values


def _period(period: Period) -> Row:
    return {
        "generation": period.generation,
        "from_ms": period.from_ms,
        "until_ms": period.until_ms,
        "complete": period.is_whole,
        "members": [{"member": name, "owned": owned} for name, owned in period.owned.items()],
    }
