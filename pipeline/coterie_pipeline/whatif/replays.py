"""One replay of a group's history, and the sum of several; plain Python that runs on executors."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

from coterie_pipeline.whatif.table import AS_RECORDED, RUNS, WHAT_IF
from coterie_protocol.journal import JournalError, Line, event_of, read_values
from coterie_protocol.replay import GroupLines, Source
from coterie_protocol.replay.order import Placed
from coterie_testing.replay import (
    Changes,
    Cost,
    Recording,
    TooLongError,
    cost_of,
    read_recording,
    replay,
)

__all__ = ["Task", "in_order", "replay_task", "summarize"]


def in_order(lines: Iterable[str], node_lines: Iterable[str]) -> list[Line]:
    """Parse a group's lines and those about nodes, and put them in order.

    The order of the group's lines is that of the tables.  Nodes that never had the group are left
    out.  Time never runs backwards in the result.
    """
    sources = {(source.node, source.seq): source for source in _readable(lines)}
    about_nodes = _AboutNodes(_readable(node_lines))
    group_lines = GroupLines(sources[key] for key in sorted(sources))
    ordered: list[Source] = []
    for placed in group_lines:
        ordered += about_nodes.before(placed)
        ordered.append(sources[placed.node, placed.seq])
    ordered += about_nodes.rest()
    return list(_forwards(Line(it.ts, it.node, it.seq, event_of(it.values)) for it in ordered))


def _readable(texts: Iterable[str]) -> Iterator[Source]:
    for text in texts:
        try:
            values = read_values(text)
        except JournalError:
            continue
        yield Source(values["node"], values["seq"], values["ts"], values, len(text))


class _AboutNodes:
    """Lines about nodes, to be put between those of a group.

    What a node did before it had the group only matters if it is the first node.  What it did
    after that goes by its date, so that it does not move the time of what others wrote meanwhile.
    """

    def __init__(self, lines: Iterable[Source]) -> None:
        by_number = {(line.node, line.seq): line for line in lines}
        self._waiting: dict[str, deque[Source]] = {}
        for key in sorted(by_number):
            self._waiting.setdefault(key[0], deque()).append(by_number[key])
        #: The nodes that have had the group.
        self._owners: list[str] = []

    def before(self, line: Placed) -> Iterator[Source]:
        """Those that come before a line of the group, and after the one before it."""
        for node in self._owners:
            if node != line.node:
                yield from self._take(node, lambda each: each.ts <= line.at)
        is_known = not self._owners or line.node in self._owners
        own = list(self._take(line.node, lambda each: each.seq < line.seq))
        if is_known:
            yield from own
        if line.node not in self._owners:
            self._owners.append(line.node)

    def rest(self) -> Iterator[Source]:
        """Those that come after all lines of the group."""
        for node in self._owners:
            yield from self._take(node, lambda _: True)

    def _take(self, node: str, is_next: Callable[[Source], bool]) -> Iterator[Source]:
        waiting = self._waiting.get(node, deque())
        while waiting and is_next(waiting[0]):
            yield waiting.popleft()


def _forwards(lines: Iterable[Line]) -> Iterator[Line]:
    latest_ms = 0
    for line in lines:
        latest_ms = max(latest_ms, line.ts)
        yield line if line.ts == latest_ms else replace(line, ts=latest_ms)


# -- one replay ------------------------------------------------------------------------------------


#: With more processes, or partitions of a topic, a replay takes too long.
_PROCESSES_MAX: Final = 1_000
_PARTITIONS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A replay to be done."""

    group: str
    place: int
    setting: str
    overrides: Mapping[str, str]
    seed: int
    lines: Sequence[str]
    node_lines: Sequence[str]
    left_out: int
    steps_max: int


def replay_task(task: Task) -> dict[str, Any]:
    """Replay a history; return a row of `RUNS`, which says why if there is no result."""
    row: dict[str, Any] = dict.fromkeys(RUNS.names) | {
        "group": task.group,
        "place": task.place,
        "setting": task.setting,
        "seed": task.seed,
        "lines": len(task.lines),
        "left_out": task.left_out,
    }
    try:
        return row | _replayed(task)
    except (TooLongError, ValueError) as error:
        return row | {"why": str(error)}
    except Exception as error:  # noqa: BLE001  # one group must not make the others fail
        return row | {"why": f"the replay failed: {type(error).__name__}: {error}"}


def _replayed(task: Task) -> dict[str, Any]:
    lines = in_order(task.lines, task.node_lines)
    about = [line for line in lines if line.event.group]
    if not about:
        raise ValueError("no line in this time is about the group")
    span = {"from_ms": about[0].ts, "to_ms": about[-1].ts, "lines": len(about)}
    if task.place == AS_RECORDED:
        return span | _recorded(lines, task.group)
    recording, changes = read_recording(lines, task.group), Changes.parse(task.overrides)
    _require_bearable(recording)
    # The same seeds for all settings, so that differences between settings are not chance.
    seed = crc32(f"{task.group}/{task.seed}".encode())
    cost = replay(recording, changes, seed=seed, steps_max=task.steps_max)
    return span | _row(cost) | _background(recording, changes)


def _require_bearable(recording: Recording) -> None:
    """Raise `ValueError` if there is too much to be replayed."""
    if len(recording.members) > _PROCESSES_MAX:
        raise ValueError(
            f"{len(recording.members):,} processes took part and a replay takes "
            f"{_PROCESSES_MAX:,} at most: choose a shorter time"
        )
    wanted = {topic for member in recording.members for topic in member.topics}
    grown = ((topic, count) for _, topic, count in recording.topic_changes)
    for topic, count in (*recording.topics.items(), *grown):
        if topic in wanted and count > _PARTITIONS_MAX:
            raise ValueError(
                f"{topic} has {count:,} partitions and a replay takes topics of "
                f"{_PARTITIONS_MAX:,} at most"
            )


def _recorded(lines: Sequence[Line], group: str) -> dict[str, Any]:
    """The cost that the journal itself records."""
    row = _row(cost_of(lines, group))
    try:
        return row | _background(read_recording(lines, group), Changes())
    except ValueError:
        return row  # the group never had members


def _row(cost: Cost) -> dict[str, Any]:
    return {
        "by_cause": dict(cost.rebalances),
        "stopped_s": cost.stopped_s,
        "moved": cost.moved,
        "takeover_s": cost.takeover_s,
        "slowest_takeover_s": cost.slowest_takeover_s,
        "overlap_s": cost.overlap_s,
        "steps": cost.steps,
    }


def _background(recording: Recording, changes: Changes) -> dict[str, Any]:
    sessions_ms = (changes.session_timeout_ms or member.session_ms for member in recording.members)
    return {"assumed": list(recording.assumptions), "session_timeout_ms": max(sessions_ms)}


# -- the replays of one setting --------------------------------------------------------------------


#: The fields that are the same in all replays of a group with a setting.
_COMMON: Final = ("group", "place", "setting", "lines", "left_out")
#: The fields that only a readable history has.
_READ: Final = ("from_ms", "to_ms", "assumed", "session_timeout_ms")


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sum up the replays of one group with one setting as a row of `WHAT_IF`."""
    runs = sorted(runs, key=lambda run: run["seed"])
    good = [run for run in runs if run["why"] is None]
    first = (good or runs)[0]
    is_told = first["place"] == AS_RECORDED
    row = dict.fromkeys(WHAT_IF.names) | {name: first[name] for name in (*_COMMON, *_READ)}
    row |= {
        "replays": 0 if is_told else len(runs),
        "failed": len(runs) - len(good),
        "why": next((run["why"] for run in runs if run["why"] is not None), None),
        "steps": sum(run["steps"] or 0 for run in runs),
    }
    if not good:
        return row
    counts = [dict(run["by_cause"]) for run in good]
    causes = sorted({cause for each in counts for cause in each})
    row["by_cause"] = {
        cause: float(statistics.median(each.get(cause, 0) for each in counts)) for cause in causes
    }
    row["overlap_s"] = max((s for run in good if (s := run["overlap_s"]) is not None), default=None)
    row["takeover_s"] = _median([run["takeover_s"] for run in good])
    return (
        row
        | _spread("rebalances", [sum(each.values()) for each in counts])
        | _spread("stopped", [run["stopped_s"] for run in good], "_s")
        | _spread("moved", [run["moved"] for run in good])
        | _spread("slowest_takeover", [run["slowest_takeover_s"] for run in good], "_s")
    )


def _spread(name: str, values: Sequence[float | None], unit: str = "") -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        f"{name}{unit}": _median(values),
        f"{name}_least{unit}": min(known, default=None),
        f"{name}_most{unit}": max(known, default=None),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(statistics.median(known)) if known else None
