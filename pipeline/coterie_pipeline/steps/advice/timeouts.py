"""Rules about limits that are too tight."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice.saying import advise, count_of, found, seconds

__all__ = ["joins", "sessions"]

#: Session timeouts that people choose.
_CHOICES_MS: Final = tuple(
    second * 1000 for second in (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
)
#: One that comes back later than this is taken for dead and started anew.
_ALIVE_MS: Final = 600_000
#: A limit that most of the silences would have kept within is worth proposing.
_MOST: Final = 0.8
_OFTEN: Final = 3
#: How many silences are given as evidence.
_SILENCES_SHOWN: Final = 100


def sessions(memberships: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Members that were given up and were there again: how long a limit would have kept them."""
    median_ms = "element_at(silences, int((size(silences) + 1) / 2))"
    return advise(
        _proposals(_silences(memberships), rebalances),
        "session_timeout",
        "costly",
        "%s was given up as silent %s and came back, typically %s over its limit of %s; the group "
        "had %s in all. With session.timeout.ms=%d it would have been given up %s, but a dead "
        "member would be missed that much later.",
        [
            "about",
            count_of("times", "time", "times"),
            seconds(f"greatest({median_ms} - limit_ms, 0)"),
            seconds("limit_ms"),
            count_of("ifnull(rebalances, 0)", "rebalance", "rebalances"),
            "proposal_ms",
            count_of("left", "time", "times"),
        ],
        {
            **{name: name for name in ("times", "left", "limit_ms", "proposal_ms")},
            "silences_ms": f"array_join(slice(silences, 1, {_SILENCES_SHOWN}), ', ')",
        },
    )


def _silences(memberships: DataFrame) -> DataFrame:
    """Who was given up, and for how long it had really been silent if it came back."""
    # Journals that were made of Kafka's logs may not know the timeout.
    given_up = memberships.where(
        "ended = 'session_expired' AND silent_ms IS NOT NULL AND session_timeout_ms > 0"
    )
    silence_ms = f"if(back_after_ms <= {_ALIVE_MS}, silent_ms + back_after_ms, NULL)"
    return found(
        given_up,
        ["group", "identity AS about"],
        times="count(*)",
        silences=f"array_sort(collect_list({silence_ms}))",
        limit_ms="max(session_timeout_ms)",
        from_ms="min(ended_ms)",
        to_ms="max(ended_ms)",
    ).where(f"size(silences) >= {_OFTEN}")


def _proposals(silences: DataFrame, rebalances: DataFrame) -> DataFrame:
    """What another limit would have changed."""
    by_silence = "root_cause = 'session_expired'"
    costs = found(
        rebalances,
        ["group"],
        rebalances="count(*)",
        stopped_ms=f"sum(if({by_silence}, stopped_partition_ms, NULL))",
        # Those that follow from one are part of what it cost.
        of_silence=f"count_if({by_silence} AND root = rebalance)",
    )
    # The shortest limit that most of those who came back would have kept within.
    typical_ms = f"element_at(silences, int(ceil(size(silences) * {_MOST})))"
    kept_within = "size(filter(silences, silence -> silence < proposal_ms))"
    return (
        silences.join(costs, "group", how="left")
        .selectExpr(
            "*",
            f"array_min(filter(array{_CHOICES_MS}, ms -> ms > limit_ms AND ms > {typical_ms}))"
            " AS proposal_ms",
        )
        .where("proposal_ms IS NOT NULL")
        .selectExpr("*", f"times - {kept_within} AS left")
        .selectExpr(
            "*",
            # One rebalance may be of several that were given up at once.
            "bigint(stopped_ms * least((times - left) / greatest(of_silence, 1), 1))"
            " AS saves_partition_ms",
        )
    )


def joins(memberships: DataFrame) -> DataFrame:
    """Members that lost their place because they did not join again in time."""
    slow = found(
        memberships.where("ended IN ('rebalance_expired', 'sync_expired')"),
        ["group"],
        times="count(*)",
        members="count(DISTINCT identity)",
        # Journals that were made of Kafka's logs may not know it.
        limit_ms="nullif(max(rebalance_timeout_ms), 0)",
        about="min_by(identity, struct(ended_ms, member))",
        from_ms="min(ended_ms)",
        to_ms="max(ended_ms)",
    )
    return advise(
        slow,
        "rebalance_timeout",
        "costly",
        "%s a member did not join again within %s and lost its place, such as %s: let it finish a "
        "piece of work sooner, or raise max.poll.interval.ms (the rebalance timeout).",
        [
            count_of("times", "time", "times"),
            f"if(limit_ms IS NULL, 'its limit', {seconds('limit_ms')})",
            "about",
        ],
        ["times", "members", "limit_ms"],
    )
