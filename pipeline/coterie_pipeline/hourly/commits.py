"""A group's commits: progress, and offsets that went back, by partition and hour.

Commits come in their order, many at once: what they say of one partition is put together with
NumPy, and only what happened in an hour is handled step by step.  Where a clock would make time run
backwards, it stands still.
"""

from __future__ import annotations

import json
import re
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
#: The line, the partition's code and the offset of each committed offset.
_Offsets = tuple[_Numbers, _Numbers, _Numbers]
_NONE: Final = np.array([], np.int64)
#: How a commit begins whose topic has an ordinary name.
_PLAIN_BEGINNING: Final = re.compile(r'\{"[^"\\{}]*":\{')


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


class _Codes:
    """The codes of all partitions, by topic and number, in the order in which they come."""

    def __init__(self) -> None:
        #: The topic and number of each code.
        self.partitions: list[tuple[str, int]] = []
        self._by_topic: dict[str, dict[int, int]] = {}

    def of(self, topic: str, numbers: _Numbers) -> _Numbers:
        """The codes of some partitions of a topic."""
        known = self._by_topic.setdefault(topic, {})
        distinct, firsts, places = np.unique(numbers, return_index=True, return_inverse=True)
        for number in distinct[np.argsort(firsts)].tolist():
            if number not in known:
                known[number] = len(self.partitions)
                self.partitions.append((topic, number))
        return np.array([known[number] for number in distinct.tolist()], np.int64)[places]


class Commits:
    """Follows a group's commits, and gives the row of each partition's hour when it is over."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._codes = _Codes()
        #: The offset that was committed last, by code.
        self._latest: dict[int, int] = {}
        self._hours: dict[int, _Hour] = {}
        #: The time of the last commit.
        self.last_ms = 0

    def add(
        self, times_ms: _Numbers, members: Sequence[str], offsets: Sequence[str]
    ) -> Iterator[Row]:
        """Take in the next commits; the hours that are over by then."""
        times_ms = np.maximum(np.maximum.accumulate(times_ms), self.last_ms)
        self.last_ms = int(times_ms[-1])
        line, code, offset = _of_one_topic(self._codes, offsets) or _parsed(self._codes, offsets)
        if not len(line):
            return
        order = np.argsort(code, kind="stable")
        line, code, offset = line[order], code[order], offset[order]
        # Of a number that is in a line twice, the last one counts, as in all of JSON.
        counts = np.concatenate(((np.diff(code) != 0) | (np.diff(line) != 0), [True]))
        line, code, offset = line[counts], code[counts], offset[counts]
        ts = times_ms[line]
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
        topic, partition = self._codes.partitions[code]
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


def _of_one_topic(codes: _Codes, texts: Sequence[str]) -> _Offsets | None:
    """What `_parsed` returns, many times as fast; None if it is not about one topic in each line.

    The text of nearly every commit is `{"topic":{"0":17,"1":4}}`.
    """
    beginning = texts[0][: texts[0].find('":{') + 3]
    joined = ",".join(texts)
    if not _PLAIN_BEGINNING.fullmatch(beginning):
        return None
    if not joined.count(beginning) == len(texts) == joined.count("}}") == joined.count("}") / 2:
        return None
    colons = beginning.count(":")
    counts = [text.count(":") - colons for text in texts]
    plain = joined.replace(beginning, "").replace("}}", "").replace('":', ",").replace('"', "")
    numbers = np.fromstring(plain, np.int64, sep=",") if min(counts) > 0 else _NONE
    if len(numbers) != 2 * sum(counts):
        return None
    lines = np.repeat(np.arange(len(texts)), counts)
    return lines, codes.of(json.loads(beginning[1:-2]), numbers[::2]), numbers[1::2]


def _parsed(codes: _Codes, texts: Sequence[str]) -> _Offsets:
    """Each offset: the index of its line, the code of its partition, and itself."""
    found = [(_NONE, _NONE, _NONE)]
    for index, by_topic in enumerate(json.loads(f"[{','.join(texts)}]")):
        for topic, offsets in by_topic.items():
            numbers = np.array(list(map(int, offsets)), np.int64)
            line = np.full(len(numbers), index)
            values = np.array(list(offsets.values()), np.int64)
            found.append((line, codes.of(topic, numbers), values))
    lines, of_lines, values = (np.concatenate(each) for each in zip(*found, strict=True))
    return lines, of_lines, values


def _added_up(steps: _Numbers, begins: npt.NDArray[np.intp]) -> list[int]:
    """The sums of steps; only offsets that no partition has add up to more than 64 bits."""
    exact = steps if steps.max() <= _STEP_USUAL else steps.astype(object)
    sums: list[int] = np.add.reduceat(exact, begins).tolist()
    return sums
