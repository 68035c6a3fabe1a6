"""Rules about members that cause trouble."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice.saying import (
    advise,
    count_of,
    found,
    partition_name,
    seconds,
)

__all__ = ["flapping", "one_name_for_two", "restarts", "slow", "went_back"]

#: A process that is back so soon was restarted, not scaled down.
_RESTART_MS: Final = 300_000
_OFTEN: Final = 3
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


def one_name_for_two(control: DataFrame) -> DataFrame:
    """Instance ids that two processes use."""
    fenced = found(
        control.where("kind = 'member_fenced'"),
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
