"""What has to be known of journals as a whole before tables are made: small, and in Python.

A node that begins anew with an empty data directory counts its lines from 1 again, and so do two
nodes of one name.  Their lines must not be mixed one by one.  So from the first number of a file on
that has other lines than an earlier file, nothing counts that the node wrote in files from before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from coterie_pipeline.steps.parsing import UNREAD

__all__ = ["Segment", "survey"]


@dataclass(frozen=True, slots=True)
class Segment:
    """The lines of a node in a file that can be taken into account."""

    node: str
    segment: str
    #: Their numbers, from `low` to `high`.
    low: int
    high: int
    lines: int
    first_ms: int
    last_ms: int
    #: Whether some of its numbers may be there twice, within it or in another file, or some
    #: between its first and last one are missing, or some do not count.  Nearly no file is.
    is_entangled: bool
    #: From which number on its lines do not count, as the node has begun anew since.
    void_from: int | None = None


def survey(bronze: DataFrame) -> list[Segment]:
    """Each file of each node."""
    rows = (
        bronze.where(F.col("part") != UNREAD)
        .groupBy("node", "segment")
        .agg(
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
            F.count("seq").alias("lines"),
            F.try_sum("seq").alias("sum"),
            F.min("ts").alias("first_ms"),
            F.max("ts").alias("last_ms"),
        )
        .collect()
    )
    found: list[Segment] = []
    for _, of_node in groupby(sorted(rows, key=_by_node), key=lambda row: row.node):
        found += _segments(list(of_node))
    return _without_former_lives(bronze, found)


def _by_node(row: Row) -> tuple[str, int, int, str]:
    return row.node, row.low, row.high, row.segment


def _segments(rows: Sequence[Row]) -> Iterable[Segment]:
    """The files of one node, from the lowest numbers on."""
    highest = -1
    for index, row in enumerate(rows):
        next_low = rows[index + 1].low if index + 1 < len(rows) else row.high + 1
        overlaps = row.low <= highest or next_low <= row.high
        highest = max(highest, row.high)
        yield Segment(
            row.node, row.segment, row.low, row.high, row.lines, row.first_ms, row.last_ms,
            overlaps or not _is_regular(row),
        )  # fmt: skip


def _is_regular(row: Row) -> bool:
    """Whether the count and the sum are those of all numbers from the lowest to the highest."""
    count = row.high - row.low + 1
    return bool(row.lines == count and row.sum == (row.low + row.high) * count // 2)


# -- former lives ------------------------------------------------------------------------------

#: The digests of lines, by file and number.
_Digests = Mapping[tuple[str, int], set[int]]


def _without_former_lives(bronze: DataFrame, segments: list[Segment]) -> list[Segment]:
    """The files, of which those of former lives do not count from where a later one began."""
    pairs = list(_doubtful_pairs(segments))
    if not pairs:
        return segments
    digests = _digests(bronze, {(each.node, each.low) for pair in pairs for each in pair})
    renewals: dict[str, list[Segment]] = {}
    for former, later in pairs:
        number = max(former.low, later.low)
        texts = (digests.get((each.segment, number), set()) for each in (former, later))
        if _are_others(*texts):
            renewals.setdefault(later.node, []).append(later)
    return [
        voided
        for node, own in groupby(segments, key=lambda each: each.node)
        for voided in _voided(list(own), renewals.get(node, ()))
    ]


def _doubtful_pairs(segments: Iterable[Segment]) -> Iterator[tuple[Segment, Segment]]:
    """Files of one node with common numbers, the one that was begun first before the other one.

    Those that were begun at the same time are copies.
    """
    for _, own in groupby(segments, key=lambda each: each.node):
        open_: list[Segment] = []
        for segment in own:
            open_ = [each for each in open_ if each.high >= segment.low]
            for each in open_:
                if each.first_ms != segment.first_ms:
                    first, second = sorted((each, segment), key=lambda it: it.first_ms)
                    yield first, second
            open_.append(segment)


def _digests(bronze: DataFrame, numbers: Iterable[tuple[str, int]]) -> _Digests:
    asked = bronze.sparkSession.createDataFrame(sorted(numbers), "node STRING, seq BIGINT")
    rows = (
        bronze.where(F.col("part") != UNREAD)
        .join(F.broadcast(asked), ["node", "seq"])
        .select("segment", "seq", "digest")
        .collect()
    )
    found: dict[tuple[str, int], set[int]] = {}
    for row in rows:
        found.setdefault((row.segment, row.seq), set()).add(row.digest)
    return found


def _are_others(texts: set[int], others: set[int]) -> bool:
    """Whether both files have lines of a number, and not the same."""
    return bool(texts and others and not texts & others)


def _voided(own: Sequence[Segment], renewals: Iterable[Segment]) -> Iterator[Segment]:
    """A node's files, of which some began anew what was in those from before."""
    by_date = sorted(renewals, key=lambda each: each.first_ms)
    dates = [each.first_ms for each in by_date]
    lows = [*accumulate((each.low for each in reversed(by_date)), min)][::-1]
    for segment in own:
        index = bisect_right(dates, segment.first_ms)
        if index < len(lows) and lows[index] <= segment.high:
            yield replace(segment, void_from=lows[index], is_entangled=True)
        else:
            yield segment
