"""Times in which a partition had two owners, none, or a silent one, and what these cost."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from coterie_protocol.replay.clock_steps import NO_STEPS, ClockSteps
from coterie_protocol.replay.intervals import Interval
from coterie_protocol.replay.order import Placed

__all__ = ["Dismissals", "Ends", "faults", "partition_order"]

Row = dict[str, Any]

#: After these ends of an interval the partition is not meant to have an owner, or that is unknown.
_UNKNOWN: Final = ("open", "emptied", "deleted", "lost")

_NOWHERE: Final = -1


def partition_order(interval: Interval) -> tuple[str, int, int, int, str, str]:
    """The order in which intervals are compared."""
    return (
        interval["topic"], interval["partition"], interval["from_ms"], interval["from_pos"],
        interval["holder"], interval["member"],
    )  # fmt: skip


# -- two owners --------------------------------------------------------------------------------


class _Overlaps:
    """Every two intervals of one partition that belong to different holders and overlap in time."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._earlier: list[Interval] = []

    def note(self, interval: Interval) -> Iterator[Row]:
        """Take in the next interval; the overlaps with those before it."""
        since_ms = interval["from_ms"]
        self._earlier = [each for each in self._earlier if each["released_ms"] > since_ms]
        for each in self._earlier:
            until_ms = min(each["released_ms"], interval["to_ms"])
            if _are_two(each, interval) and until_ms > since_ms:
                yield _overlap(self._group, each, interval, until_ms)
        self._earlier.append(interval)


def _are_two(first: Interval, second: Interval) -> bool:
    """Whether intervals belong to two processes; one that was replaced may have worked on."""
    if first["holder"] != second["holder"]:
        return True
    return bool(first["ended"] == "replaced" and first["member"] != second["member"])


def _overlap(group: str, first: Interval, second: Interval, until_ms: int) -> Row:
    from_ms = second["from_ms"]
    return {
        "group": group,
        "topic": first["topic"],
        "partition": first["partition"],
        "fault": "overlap",
        "from_ms": from_ms,
        "to_ms": until_ms,
        "sure_ms": max(min(first["to_ms"], second["to_ms"]) - from_ms, 0),
        "most_ms": until_ms - from_ms,
        "cause": _why_two(first, second),
        "began": first["ended"],
        "rebalance": None,
        "is_open": False,
        "holder": first["holder"],
        "next_holder": second["holder"],
        "member": first["member"],
        "next_member": second["member"],
    }


def _why_two(first: Interval, second: Interval) -> str:
    """How a partition came to have two owners."""
    if second["began"] == "claimed":
        return "claimed_twice"
    if first["has_held_on"]:
        return "taken_while_held"
    if first["to_ms"] > second["from_ms"]:
        return "assigned_twice"
    return "taken_while_held" if first["ended"] == "taken" else str(first["ended"])


# -- none --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Dismissals:
    """Lines after which partitions without an owner are meant to have none."""

    positions: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    rebalances: array[int] = field(default_factory=lambda: array("q"))

    def note(self, line: Placed, rebalance: int) -> None:
        """Take in the next line; the number of the latest rebalance."""
        match line.kind:
            case "rebalance_completed":
                dismisses = not line["needs_rejoin"] or line["assigned"] is None
            case "rebalance_started":
                dismisses = line["from_state"] == "Empty"
            case "group_recovered":
                dismisses = not line.resumes
            case kind:
                dismisses = kind in ("group_emptied", "group_deleted")
        if dismisses:
            self.positions.append(line.pos)
            self.times.append(line.at)
            self.rebalances.append(rebalance)

    def after(self, pos: int) -> tuple[int, int, int] | None:
        """The position, the time and the rebalance of the first one after a position."""
        index = bisect_right(self.positions, pos)
        if index == len(self.positions):
            return None
        return self.positions[index], self.times[index], self.rebalances[index]


@dataclass(slots=True)
class Ends:
    """When each rebalance ended, and what it cost by then, by its number."""

    #: How the clock of each node was set.
    clocks: Mapping[str, ClockSteps] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=lambda: [""])
    ended_ms: array[int] = field(default_factory=lambda: array("q", [_NOWHERE]))
    ended_pos: array[int] = field(default_factory=lambda: array("q", [_NOWHERE]))
    stopped_ms: list[int] = field(default_factory=lambda: [0])
    silent_ms: list[int] = field(default_factory=lambda: [0])
    causes: list[str | None] = field(default_factory=lambda: [None])
    #: Whether the latest one goes on as the journal ends.
    is_running: bool = False

    def note(self, row: Row) -> None:
        """Take in the row of the next rebalance."""
        self.nodes.append(row["node"])
        self.ended_ms.append(_NOWHERE if row["ended_ms"] is None else row["ended_ms"])
        self.ended_pos.append(_NOWHERE if row["ended_pos"] is None else row["ended_pos"])
        self.stopped_ms.append(0)
        self.silent_ms.append(0)
        self.causes.append(row["cause"])
        self.is_running = row["outcome"] == "running"

    @property
    def last(self) -> int:
        """The number of the latest rebalance."""
        return len(self.causes) - 1

    def after(self, interval: Interval, dismissal: tuple[int, int, int] | None) -> int | None:
        """The rebalance that pays for what was before an interval's end; None if none does.

        It is the next one to end, unless a dismissal comes before that.
        """
        number, end_pos = int(interval["to_rebalance"]), interval["to_pos"]
        if number == 0 or _NOWHERE < self.ended_pos[number] < end_pos:
            number += 1
        if number > self.last:
            return None
        ended_pos = self.ended_pos[number]
        is_before = dismissal is not None and not _NOWHERE < ended_pos <= dismissal[0]
        return None if is_before else number

    def charge(self, gap: _Gap) -> None:
        """Count a gap for the rebalances that end while it lasts, from the end of the one before.

        A gap that ended with its topic ended before the rebalance that the deletion caused.
        """
        low, high = sorted((gap.first_rebalance, gap.last_rebalance))
        for number in range(max(low, 1), high + 1):
            if self._lasts(gap, number):
                since_ms = max(gap.from_ms, self.ended_ms[number - 1])
                clock = self.clocks.get(self.nodes[number], NO_STEPS)
                self.stopped_ms[number] += clock.lasted_ms(since_ms, self.ended_ms[number])

    def _lasts(self, gap: _Gap, number: int) -> bool:
        ended_ms, ended_pos = self.ended_ms[number], self.ended_pos[number]
        if ended_ms == _NOWHERE:
            return False
        if gap.is_open:
            return True
        if gap.end_pos is not None and ended_pos != _NOWHERE:
            return ended_pos <= gap.end_pos
        return ended_ms < gap.to_ms


@dataclass(slots=True)
class _Gap:
    """A time in which a partition has no owner though there are members."""

    last: Interval
    next_: Interval | None
    from_ms: int
    to_ms: int
    first_rebalance: int
    last_rebalance: int
    #: The position of the line that ended it, if one of the group's did.
    end_pos: int | None
    is_open: bool
    is_dismissed: bool
    #: Whether it ended with the topic.
    is_gone: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """What the gaps of a group depend on."""

    name: str
    dismissals: Dismissals
    ends: Ends
    #: When each topic was deleted, the earliest first.
    deleted_ms: Mapping[str, Sequence[int]]
    horizon_ms: int

    def is_deleted(self, interval: Interval) -> bool:
        """Whether a partition's topic was deleted after it was given last, and before the end."""
        times = self.deleted_ms.get(interval["topic"], ())
        index = bisect_right(times, interval["given_ms"])
        return index < len(times) and times[index] <= interval["to_ms"]


class _Gaps:
    """The times between the intervals of one partition."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        #: The interval that ended last.
        self._last: Interval | None = None

    def note(self, interval: Interval) -> Iterator[Row]:
        """Take in the next interval; the gap before it, if there is one."""
        last = self._last
        if last is not None and interval["from_ms"] > last["to_ms"]:
            yield from self._before(interval)
        if last is None or _end_order(interval) > _end_order(last):
            self._last = interval

    def finish(self) -> Iterator[Row]:
        """There are no more intervals; the gap after the last one, if there is one."""
        yield from self._before(None)

    def _before(self, next_: Interval | None) -> Iterator[Row]:
        last = self._last
        if last is None or last["ended"] in _UNKNOWN:
            return
        gap = _gap_between(self._group, last, next_)
        if gap.to_ms > gap.from_ms:
            self._group.ends.charge(gap)
            yield _row(self._group, gap)


def _end_order(interval: Interval) -> tuple[int, int, str, str, int]:
    pos = interval["to_pos"]
    return (
        interval["to_ms"], _NOWHERE if pos is None else pos, interval["ended"], interval["holder"],
        interval["given_ms"],
    )  # fmt: skip


def _gap_between(group: _Group, last: Interval, next_: Interval | None) -> _Gap:
    """When a gap ended, and in which rebalance."""
    dismissal = group.dismissals.after(last["to_pos"])
    is_dismissed = dismissal is not None and (next_ is None or dismissal[0] < next_["from_pos"])
    end_pos: int | None = None
    if dismissal is not None and is_dismissed:
        end_pos, end_ms, rebalance = dismissal
    elif next_ is not None:
        end_pos, end_ms, rebalance = next_["from_pos"], next_["from_ms"], next_["from_rebalance"]
    else:
        end_ms, rebalance = group.horizon_ms, group.ends.last
    # Deletions after it was given end a gap: a deleted topic needs no owner.
    times = group.deleted_ms.get(last["topic"], ())
    index = bisect_right(times, last["given_ms"])
    gone_ms = times[index] if index < len(times) and times[index] < end_ms else None
    is_gone = gone_ms is not None
    return _Gap(
        last, next_, last["to_ms"], end_ms if gone_ms is None else gone_ms,
        last["to_rebalance"], rebalance, None if is_gone else end_pos,
        next_ is None and not is_dismissed and not is_gone, is_dismissed, is_gone,
    )  # fmt: skip


def _row(group: _Group, gap: _Gap) -> Row:
    rebalance = gap.first_rebalance if gap.is_gone else gap.last_rebalance
    goes_on = not gap.is_open or (group.ends.is_running and rebalance == group.ends.last)
    has_next = gap.next_ is not None and not gap.is_dismissed and not gap.is_gone
    length_ms = gap.to_ms - gap.from_ms
    return {
        "group": group.name,
        "topic": gap.last["topic"],
        "partition": gap.last["partition"],
        "fault": "gap",
        "from_ms": gap.from_ms,
        "to_ms": gap.to_ms,
        "sure_ms": length_ms,
        "most_ms": length_ms,
        "cause": (group.ends.causes[rebalance] if goes_on else None) or "none",
        "began": gap.last["ended"],
        "rebalance": rebalance if goes_on else None,
        "is_open": gap.is_open,
        "holder": gap.last["holder"],
        "next_holder": gap.next_["holder"] if has_next and gap.next_ else None,
        "member": gap.last["member"],
        "next_member": gap.next_["member"] if has_next and gap.next_ else None,
    }


# -- a silent one ------------------------------------------------------------------------------


def _silence(group: _Group, interval: Interval) -> Iterator[Row]:
    """The time in which an owner was not heard of, if it was given up or replaced after that."""
    since_ms, to_ms = interval["quiet_since_ms"], interval["to_ms"]
    if since_ms is None or group.is_deleted(interval):
        return
    since_ms = max(since_ms, interval["from_ms"])
    if since_ms >= to_ms:
        return
    rebalance = None
    if interval["ended"] != "replaced":
        rebalance = group.ends.after(interval, group.dismissals.after(interval["to_pos"]))
    if rebalance is not None:
        group.ends.silent_ms[rebalance] += to_ms - since_ms
    yield {
        "group": group.name,
        "topic": interval["topic"],
        "partition": interval["partition"],
        "fault": "silence",
        "from_ms": since_ms,
        "to_ms": to_ms,
        "sure_ms": to_ms - since_ms,
        "most_ms": to_ms - since_ms,
        "cause": interval["ended"],
        "began": interval["ended"],
        "rebalance": rebalance,
        "is_open": False,
        "holder": interval["holder"],
        "next_holder": None,
        "member": interval["member"],
        "next_member": None,
    }


# -- all ---------------------------------------------------------------------------------------


def faults(
    name: str,
    intervals: Iterable[Interval],
    dismissals: Dismissals,
    ends: Ends,
    deleted_ms: Mapping[str, Sequence[int]],
    horizon_ms: int,
) -> Iterator[Row]:
    """All faults of a group, whose intervals are in order; what they cost is charged to `ends`."""
    group = _Group(name, dismissals, ends, deleted_ms, horizon_ms)
    for _, of_partition in groupby(intervals, key=lambda each: (each["topic"], each["partition"])):
        gaps, overlaps = _Gaps(group), _Overlaps(name)
        for interval in of_partition:
            yield from _silence(group, interval)
            yield from gaps.note(interval)
            yield from overlaps.note(interval)
        yield from gaps.finish()
