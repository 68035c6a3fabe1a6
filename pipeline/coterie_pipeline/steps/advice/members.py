"""Rules about members: timeouts that are too short, and members that cause trouble."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice.sentences import (
    advise,
    count_of,
    found,
    partition_name,
    seconds,
)

__all__ = [
    "flapping",
    "one_name_for_two",
    "rebalance_timeouts",
    "restarts",
    "session_timeouts",
    "slow",
    "went_back",
]

#: Session timeouts that people choose.
_CHOICES_MS: Final = tuple(
    second * 1000 for second in (6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
)
#: One that comes back later than this is taken for dead and started anew.
_ALIVE_MS: Final = 600_000
#: A limit that most of the silences would have kept within is worth proposing.
_MOST: Final = 0.8
#: So often is no accident.
_OFTEN: Final = 3
#: How many silences are given as evidence.
_SILENCES_SHOWN: Final = 100


def session_timeouts(memberships: DataFrame, rebalances: DataFrame) -> DataFrame:
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


def rebalance_timeouts(memberships: DataFrame) -> DataFrame:
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


# -- others ----------------------------------------------------------------------------------------


#: A process that is back so soon was restarted, not scaled down.
_RESTART_MS: Final = 300_000
_SLOW_MS: Final = 1_000
#: A member that is the last so often is no accident.
_MOSTLY: Final = 0.5


def restarts(sessions: DataFrame) -> DataFrame:
    """Members that said goodbye and came back: static ones would have kept their places."""
    restarted = found(
        sessions.where(f"kind = 'dynamic' AND ended = 'left' AND back_after_ms <= {_RESTART_MS}"),
        ["group"],
        times="count(*)",
        members="count(DISTINCT identity)",
        median_ms="bigint(percentile(back_after_ms, 0.5))",
        longest_ms="max(back_after_ms)",
        from_ms="min(ended_ms)",
        to_ms="max(ended_ms)",
    )
    return advise(
        restarted.where(f"times >= {_OFTEN}"),
        "restarts",
        "costly",
        "%s a member left and was back after %s, which made two rebalances each. With a "
        "group.instance.id for each member and a session timeout above %s, restarts would have "
        "moved nothing.",
        [count_of("times", "time", "times"), seconds("median_ms"), seconds("longest_ms")],
        ["times", "members", "median_ms", "longest_ms"],
    )


def flapping(sessions: DataFrame) -> DataFrame:
    """Members that come and go all the time."""
    restless = found(
        sessions.where("is_flapping"),
        ["group", "identity AS about"],
        times="count(*)",
        within_hour="max(returns)",
        how="max_by(ended, if(ended != 'open', struct(joined_ms, ended_ms), NULL))",
        from_ms="min(joined_ms)",
        to_ms="max(ifnull(ended_ms, joined_ms))",
    )
    return advise(
        restless,
        "flapping",
        "costly",
        "%s came back up to %s within an hour%s. See why its process ends.",
        [
            "about",
            count_of("within_hour", "time", "times"),
            "ifnull('; it was last gone as ' || replace(how, '_', ' '), '')",
        ],
        ["times", "within_hour", "how"],
    )


def slow(rebalances: DataFrame) -> DataFrame:
    """The one that everybody waits for."""
    waited = rebalances.where("prepare_ms IS NOT NULL").selectExpr("*", "get(late, 0) AS last")
    last = found(
        waited.where(f"last.after_ms >= {_SLOW_MS}"),
        ["group", "coalesce(last.instance, nullif(last.host, ''), last.member) AS about"],
        times="count(*)",
        waited_ms="sum(last.after_ms)",
        from_ms="min(started_ms)",
        to_ms="max(joined_ms)",
    ).selectExpr("*", "sum(waited_ms) OVER (PARTITION BY group) AS all_ms")
    return advise(
        last.where(f"times >= {_OFTEN} AND waited_ms >= {_MOSTLY} * all_ms"),
        "slow_member",
        "costly",
        "%s waited longest for %s, %s in all: see how long it takes to finish what it has in hand, "
        "and how often it sends heartbeats.",
        [count_of("times", "rebalance", "rebalances"), "about", seconds("waited_ms")],
        ["times", "waited_ms", "all_ms"],
    )


def one_name_for_two(refusals: DataFrame) -> DataFrame:
    """Instance ids that two processes use."""
    fenced = found(
        refusals,
        ["group", "instance AS about"],
        times="count(*)",
        hosts=f"array_join(array_sort(array_union({_known('host')}, {_known('holder_host')})),"
        " ' and ')",
        from_ms="min(at)",
        to_ms="max(at)",
    )
    return advise(
        fenced,
        "one_name_for_two",
        "wrong",
        "Two processes used the group.instance.id %s%s: %s refused. Give each process a name of "
        "its own.",
        [
            "about",
            "if(hosts != '', ', at ' || hosts, '')",
            count_of("times", "request was", "requests were"),
        ],
        ["times", "hosts"],
    )


def _known(host: str) -> str:
    return f"collect_set(nullif({host}, ''))"


def went_back(commits: DataFrame) -> DataFrame:
    """Offsets that went back."""
    repeated = found(
        commits.where("regressions > 0"),
        ["group"],
        times="sum(regressions)",
        partitions="count(DISTINCT topic, partition)",
        deepest="max(deepest_regression)",
        example=f"max_by({partition_name()},"
        " struct(deepest_regression, last_ms, topic, partition))",
        from_ms="min(first_ms)",
        to_ms="max(last_ms)",
    )
    return advise(
        repeated,
        "offset_went_back",
        "note",
        "Committed offsets went back %s, by up to %,d for %s: that work was, or will be, done "
        "twice, unless somebody reset the offsets.",
        [count_of("times", "time", "times"), "deepest", "example"],
        ["times", "partitions", "deepest"],
    )
