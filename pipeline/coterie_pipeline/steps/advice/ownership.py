"""Rules about who owned what."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice.sentences import (
    advise,
    count_of,
    found,
    partition_name,
    partition_seconds,
    seconds,
)

__all__ = ["eager", "idle", "overlaps", "possible_overlaps", "without_owner"]

#: Assignors that make everybody let go of everything first.
_EAGER: Final = ("range", "roundrobin", "sticky")
#: Less than this, or than this share of the time that stood still, is not worth a change.
_WORTHWHILE_MS: Final = 1_000
_WORTHWHILE: Final = 0.1
#: Until then a rebalance may just be going on.
_PATIENCE_MS: Final = 10_000


def overlaps(faults: DataFrame) -> DataFrame:
    """Two owners at once, for certain."""
    return _doubly(
        faults.where("sure_ms > 0"),
        "overlap",
        "wrong",
        "Two members owned one partition at once, %s and for up to %s: %s. Set "
        "group.ownership.guard=enforce to rule that out, and see which assignor the group's "
        "leader uses.",
    )


def possible_overlaps(faults: DataFrame) -> DataFrame:
    """Two owners at once, perhaps."""
    return _doubly(
        faults.where("sure_ms = 0"),
        "possible_overlap",
        "note",
        "A partition was given on while its former owner may have been at work, %s and for up to "
        "%s: %s. Make sure that what is written carries the fencing token.",
    )


def _doubly(faults: DataFrame, rule: str, severity: str, sentence: str) -> DataFrame:
    example = (
        f"format_string('%s had %s and %s (%s)', {partition_name()}, holder, next_holder,"
        " replace(cause, '_', ' '))"
    )
    order = "struct(most_ms, from_ms, topic, partition, holder, next_holder)"
    doubly = found(
        faults.where("fault = 'overlap'"),
        ["group"],
        times="count(*)",
        partitions="count(DISTINCT topic, partition)",
        longest_ms="max(most_ms)",
        causes="array_join(array_sort(collect_set(cause)), ', ')",
        example=f"max_by({example}, {order})",
        from_ms="min(from_ms)",
        to_ms="max(to_ms)",
    )
    return advise(
        doubly,
        rule,
        severity,
        sentence,
        [count_of("times", "time", "times"), seconds("longest_ms"), "example"],
        ["times", "partitions", "longest_ms", "causes"],
    )


def eager(rebalances: DataFrame, faults: DataFrame) -> DataFrame:
    """Partitions that stood still and went back to where they came from."""
    protocols = found(
        rebalances.where(f"protocol IN {_EAGER}"),
        ["group"],
        protocol="max_by(protocol, rebalance)",
    )
    came_back = "began = 'let_go' AND holder = next_holder"
    stopped = found(
        faults.where("fault = 'gap'"),
        ["group"],
        stopped_ms="sum(sure_ms)",
        saves_partition_ms=f"sum(if({came_back}, sure_ms, NULL))",
        times=f"count_if({came_back})",
        from_ms=f"min(if({came_back}, from_ms, NULL))",
        to_ms=f"max(if({came_back}, to_ms, NULL))",
    ).where(
        f"saves_partition_ms >= {_WORTHWHILE} * stopped_ms AND "
        f"saves_partition_ms >= {_WORTHWHILE_MS}"
    )
    return advise(
        stopped.join(protocols, "group", how="inner"),
        "eager",
        "costly",
        "Of %s that stood still, %s were of partitions that went back to the member that had let "
        "go of them: %s makes everybody stop. With cooperative-sticky they would have gone on.",
        [partition_seconds("stopped_ms"), partition_seconds("saves_partition_ms"), "protocol"],
        ["protocol", "stopped_ms", "times"],
    )


def without_owner(faults: DataFrame) -> DataFrame:
    """Partitions that nobody works on as the journal ends."""
    open_ = found(
        faults.where("fault = 'gap' AND is_open"),
        ["group"],
        partitions="count(*)",
        example=f"min_by({partition_name()}, struct(from_ms, topic, partition))",
        stopped_ms="sum(sure_ms)",
        from_ms="min(from_ms)",
        to_ms="max(to_ms)",
    )
    return advise(
        open_.where(f"to_ms - from_ms >= {_PATIENCE_MS}"),
        "without_owner",
        "wrong",
        "%s no owner as the journal ends, such as %s for %s: see whether a rebalance hangs, or "
        "nobody subscribes to the topic any more.",
        [
            count_of("partitions", "partition has", "partitions have"),
            "example",
            seconds("to_ms - from_ms"),
        ],
        ["partitions", "stopped_ms"],
    )


def idle(rebalances: DataFrame) -> DataFrame:
    """Members that have nothing to do."""
    latest = found(
        rebalances.where("outcome = 'completed' AND partitions IS NOT NULL"),
        ["group"],
        members="max_by(members, rebalance)",
        partitions="max_by(partitions, rebalance)",
        from_ms="max_by(ended_ms, rebalance)",
        to_ms="max_by(ended_ms, rebalance)",
    )
    return advise(
        latest.where("members > partitions AND partitions > 0"),
        "idle_members",
        "note",
        "%s %s: %s nothing to do. Fewer members, or more partitions, would do.",
        [
            count_of("members", "member shares", "members share"),
            count_of("partitions", "partition", "partitions"),
            count_of("members - partitions", "has", "have"),
        ],
        ["members", "partitions"],
    )
