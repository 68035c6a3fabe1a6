-- One row for each hour in which there is something to say about a group.
WITH spans_of_time AS (
    -- Rebalances, generations in force and owners, from when to when.
    SELECT "group" AS grp, 'rebalance' AS what, started_ms AS from_ms,
        coalesce(ended_ms, horizon_ms) AS to_ms, NULL AS part, NULL AS members
    FROM rebalances JOIN horizons ON grp = "group"
    UNION ALL
    SELECT g.grp, 'generation', g.from_ms, coalesce((
        SELECT min_by(n.from_ms, n.rebalance) FROM generations AS n
        WHERE n.grp = g.grp AND n.rebalance > g.rebalance
    ), h.horizon_ms), NULL, g.members
    FROM generations AS g JOIN horizons AS h ON h.grp = g.grp
    UNION ALL
    SELECT grp, 'owner', from_ms, to_ms, (topic, partition), NULL FROM intervals
    UNION ALL
    SELECT grp, 'owned', from_ms, to_ms, (topic, partition), NULL FROM owned
    UNION ALL
    SELECT grp, 'gap', from_ms, to_ms, (topic, partition), NULL FROM gaps
    UNION ALL
    SELECT grp, 'silence', from_ms, to_ms, (topic, partition), NULL FROM silences
), pieces AS (
    SELECT grp, what, part, members, hour_ms,
        least(to_ms, hour_ms + 3600000) - greatest(from_ms, hour_ms) AS share_ms
    FROM (
        SELECT *, unnest(range(
            from_ms // 3600000 * 3600000, greatest(to_ms, from_ms + 1), 3600000
        )) AS hour_ms
        FROM spans_of_time
    )
), lasting AS (
    SELECT grp, hour_ms,
        max(members) AS members,
        count(DISTINCT part) FILTER (what = 'owner') AS partitions,
        sum(share_ms) FILTER (what = 'rebalance') AS rebalancing_ms,
        sum(share_ms) FILTER (what = 'owned') AS owned_ms,
        sum(share_ms) FILTER (what = 'gap') AS stopped_ms,
        sum(share_ms) FILTER (what = 'silence') AS silent_ms
    FROM pieces GROUP BY ALL
), causes AS (
    SELECT "group" AS grp, started_ms // 3600000 * 3600000 AS hour_ms, cause, count(*) AS times
    FROM rebalances GROUP BY ALL
), caused AS (
    SELECT grp, hour_ms, sum(times) AS rebalances,
        map_from_entries(list((cause, times) ORDER BY cause)) AS by_cause
    FROM causes GROUP BY ALL
), sums AS (
    SELECT "group" AS grp, started_ms // 3600000 * 3600000 AS hour_ms,
        sum(moved) AS moved, sum(kept) AS kept, sum(keepable) AS keepable
    FROM rebalances GROUP BY ALL
), doubled AS (
    SELECT "group" AS grp, from_ms // 3600000 * 3600000 AS hour_ms,
        count(*) FILTER (sure_ms > 0) AS certain, count(*) FILTER (sure_ms = 0) AS possible
    FROM ownership_faults WHERE fault = 'overlap' GROUP BY ALL
), given_up AS (
    SELECT grp, at_ms // 3600000 * 3600000 AS hour_ms, count(*) AS times
    FROM control WHERE kind = 'member_gone' AND (body ->> 'how') = 'session_expired' GROUP BY ALL
), committed AS (
    SELECT "group" AS grp, hour_ms, sum(commits) AS commits, sum(regressions) AS regressions
    FROM commits GROUP BY ALL
), hours AS (
    SELECT grp, hour_ms FROM lasting
    UNION SELECT grp, hour_ms FROM caused
    UNION SELECT grp, hour_ms FROM doubled
    UNION SELECT grp, hour_ms FROM given_up
    UNION SELECT grp, hour_ms FROM committed
)
SELECT
    grp AS "group",
    hour_ms,
    coalesce(members, 0) AS members,
    coalesce(partitions, 0) AS partitions,
    coalesce(rebalances, 0) AS rebalances,
    coalesce(by_cause, MAP {}) AS by_cause,
    coalesce(rebalancing_ms, 0) AS rebalancing_ms,
    coalesce(owned_ms, 0) AS owned_partition_ms,
    coalesce(stopped_ms, 0) AS stopped_partition_ms,
    coalesce(silent_ms, 0) AS silent_partition_ms,
    CASE WHEN coalesce(owned_ms, 0) + coalesce(stopped_ms, 0) > 0
        THEN greatest(coalesce(owned_ms, 0) - coalesce(silent_ms, 0), 0)
            / (coalesce(owned_ms, 0) + coalesce(stopped_ms, 0))
    END AS availability,
    coalesce(moved, 0) AS moved,
    coalesce(kept, 0) AS kept,
    coalesce(keepable, 0) AS keepable,
    CASE WHEN keepable > 0 THEN coalesce(kept, 0) / keepable END AS stickiness,
    coalesce(certain, 0) AS "overlaps",
    coalesce(possible, 0) AS possible_overlaps,
    coalesce(given_up.times, 0) AS session_timeouts,
    coalesce(commits, 0) AS commits,
    coalesce(regressions, 0) AS regressions
FROM hours
LEFT JOIN lasting USING (grp, hour_ms)
LEFT JOIN caused USING (grp, hour_ms)
LEFT JOIN sums USING (grp, hour_ms)
LEFT JOIN doubled USING (grp, hour_ms)
LEFT JOIN given_up USING (grp, hour_ms)
LEFT JOIN committed USING (grp, hour_ms)
