"""One replay, whatever comes of it: plain Python, as it runs on an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from coterie_pipeline.whatif.lines import in_order
from coterie_pipeline.whatif.table import AS_TOLD, RUNS
from coterie_protocol.journal import Line
from coterie_testing.replay import (
    Changes,
    Cost,
    Recording,
    TooLongError,
    cost_of,
    read_recording,
    replay,
)

__all__ = ["Task", "played"]

#: More processes than a virtual world has room for in reasonable time.
_LIVES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be replayed, and how."""

    group: str
    place: int
    setting: str
    wishes: Mapping[str, str]
    seed: int
    lines: Sequence[str]
    node_lines: Sequence[str]
    left_out: int
    steps_max: int


def played(task: Task) -> dict[str, Any]:
    """Replay a history; a row of `RUNS`, which says why if nothing can come of it."""
    row: dict[str, Any] = dict.fromkeys(RUNS.names) | {
        "group": task.group,
        "place": task.place,
        "setting": task.setting,
        "seed": task.seed,
        "lines": len(task.lines),
        "left_out": task.left_out,
    }
    try:
        return row | _outcome(task)
    except (TooLongError, ValueError) as error:
        return row | {"why": str(error)}
    except Exception as error:  # noqa: BLE001  # a group that can't be played is no other's fault
        return row | {"why": f"the replay failed: {type(error).__name__}: {error}"}


def _outcome(task: Task) -> dict[str, Any]:
    lines = in_order(task.lines, task.node_lines)
    about = [line for line in lines if line.event.group]
    if not about:
        raise ValueError("no line in this time is about the group")
    span = {"from_ms": about[0].ts, "to_ms": about[-1].ts, "lines": len(about)}
    if task.place == AS_TOLD:
        return span | _told(lines, task.group)
    recording, changes = read_recording(lines, task.group), Changes.parse(task.wishes)
    if len(recording.members) > _LIVES_MAX:
        raise ValueError(
            f"{len(recording.members):,} processes took part and a replay takes {_LIVES_MAX:,} "
            "at most: choose a shorter time"
        )
    # The same seeds for all settings: what differs between them is not what chance does.
    seed = crc32(f"{task.group}/{task.seed}".encode())
    cost = replay(recording, changes, seed=seed, steps_max=task.steps_max)
    return span | _row(cost) | _background(recording, changes)


def _told(lines: Sequence[Line], group: str) -> dict[str, Any]:
    """What the journal itself tells, which needs no replay."""
    row = _row(cost_of(lines, group))
    try:
        return row | _background(read_recording(lines, group), Changes())
    except ValueError:
        return row  # nobody was ever there


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
