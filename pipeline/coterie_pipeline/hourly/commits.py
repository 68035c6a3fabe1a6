"""A group's commits: progress, and offsets that went back, by partition and hour.

Commits come in the order of time, many at once: what they say of one partition is put together with
NumPy, and only what happened in an hour is handled step by step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["Commits"]

_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_MOST: Final = 2**63 - 1

#: Offsets are brought within this, so that their differences have 64 bits even if a member tried
#: any number.
_OFFSET_MOST: Final = 2**62 - 1

#: Steps up to this never add up to more than 64 bits.
_STEP_USUAL: Final = 2**40

Row = dict[str, Any]
_Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Hour:
    """What was committed for one partition within an hour, so far."""

    hour_ms: int
    first_ms: int
    last_ms: int
    first_offset: int
    last_offset: int
    commits: int = 0
    advanced: int = 0
    regressions: int = 0
    deepest: int = 0
    outside: int = 0
    members: set[str] = field(default_factory=set)


class _Codes(dict[str, int]):
    """The code of each partition of a topic, by the partition's number as JSON has it."""

    def __init__(self, topic: str, partitions: list[tuple[str, int]]) -> None:
        super().__init__()
        self._topic = topic
        self._partitions = partitions
        self._by_number: dict[int, int] = {}

    def __missing__(self, text: str) -> int:
        number = int(text)
        if number not in self._by_number:
            self._by_number[number] = len(self._partitions)
            self._partitions.append((self._topic, number))
        code = self[text] = self._by_number[number]
        return code


class Commits:
    """Follows a group's commits, and gives the row of each partition's hour when it is over."""

    def __init__(self, group: str) -> None:
        self._group = group
        #: The topic and number of each code.
        self._partitions: list[tuple[str, int]] = []
        self._codes: dict[str, _Codes] = {}
        #: The offset that was committed last, by code.
        self._latest: dict[int, int] = {}
        self._hours: dict[int, _Hour] = {}
        #: The time of the last commit.
        self.last_ms = 0

    def add(
        self, times_ms: _Numbers, members: Sequence[str], offsets: Sequence[str]
    ) -> Iterator[Row]:
        """Take in the next commits; the hours that are over by then."""
        self.last_ms = max(self.last_ms, int(times_ms[-1]))
        lines, codes, values = self._parsed(offsets)
        if not lines:
            return
        order = np.argsort(np.array(codes), kind="stable")
        line = np.array(lines)[order]
        ts = times_ms[line]
        code, offset = np.array(codes)[order], np.array(values, np.int64)[order]
        hour = ts - ts % _HOUR_MS
        step = self._steps(code, offset)
        is_first = np.concatenate(([True], (np.diff(code) != 0) | (np.diff(hour) != 0)))
        begins = np.flatnonzero(is_first)
        by = [members[index] for index in line.tolist()]
        sums = zip(
            code[begins].tolist(),
            hour[begins].tolist(),
            _added_up(np.maximum(step, 0), begins),
            np.add.reduceat((step < 0).astype(np.int64), begins).tolist(),
            np.maximum.reduceat(np.maximum(-step, 0), begins).tolist(),
            pairwise((*begins.tolist(), len(line))),
            strict=True,
        )
        for its_code, hour_ms, advanced, regressions, deepest, (begin, end) in sums:
            it = self._hours.get(its_code)
            if it is None or it.hour_ms != hour_ms:
                if it is not None:
                    yield self._row(its_code, it)
                first_ms, first_offset = int(ts[begin]), int(offset[begin])
                it = _Hour(hour_ms, first_ms, first_ms, first_offset, first_offset)
                self._hours[its_code] = it
            it.last_ms, it.last_offset = int(ts[end - 1]), int(offset[end - 1])
            it.commits += end - begin
            it.advanced = min(it.advanced + advanced, _MOST)
            it.regressions += regressions
            it.deepest = max(it.deepest, deepest)
            it.outside += by[begin:end].count("")
            it.members.update(by[begin:end])

    def finish(self) -> Iterator[Row]:
        """There are no more commits; the hours that are left."""
        for code, hour in self._hours.items():
            yield self._row(code, hour)

    def _parsed(self, offsets: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        """Each offset: the index of its line, the code of its partition, and itself."""
        lines: list[int] = []
        codes: list[int] = []
        values: list[int] = []
        for index, by_topic in enumerate(json.loads(f"[{','.join(offsets)}]")):
            for topic, of_topic in by_topic.items():
                known = self._codes.get(topic)
                if known is None:
                    known = self._codes[topic] = _Codes(topic, self._partitions)
                codes.extend(map(known.__getitem__, of_topic))
                values.extend(of_topic.values())
                lines.extend([index] * len(of_topic))
        return lines, codes, values

    def _steps(self, code: _Numbers, offset: _Numbers) -> _Numbers:
        """The step from each partition's offset before; 0 for the first of all."""
        near = np.clip(offset, -_OFFSET_MOST, _OFFSET_MOST)
        step = np.diff(near, prepend=near[0])
        ends = np.flatnonzero(np.concatenate((np.diff(code) != 0, [True])))
        begins = np.concatenate(([0], ends[:-1] + 1))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            its_code, first = int(code[begin]), int(near[begin])
            step[begin] = first - self._latest.get(its_code, first)
            self._latest[its_code] = int(near[end])
        return step

    def _row(self, code: int, it: _Hour) -> Row:
        topic, partition = self._partitions[code]
        span_ms = it.last_ms - it.first_ms
        return {
            "group": self._group,
            "topic": topic,
            "partition": partition,
            "hour_ms": it.hour_ms,
            "commits": it.commits,
            "per_minute": (it.commits - 1) * float(_MINUTE_MS) / span_ms if span_ms > 0 else None,
            "first_ms": it.first_ms,
            "last_ms": it.last_ms,
            "first_offset": it.first_offset,
            "last_offset": it.last_offset,
            "advanced": it.advanced,
            "regressions": it.regressions,
            "deepest_regression": it.deepest,
            "members": len(it.members - {""}),
            "outside": it.outside,
            "end_offset": None,
            "lag": None,
        }


def _added_up(steps: _Numbers, begins: npt.NDArray[np.intp]) -> list[int]:
    """The sums of steps; only offsets that no partition has add up to more than 64 bits."""
    exact = steps if steps.max() <= _STEP_USUAL else steps.astype(object)
    sums: list[int] = np.add.reduceat(exact, begins).tolist()
    return sums
