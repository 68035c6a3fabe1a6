-- The commits of a partition within an hour, each compared with the one before.
WITH committed AS (
    SELECT grp, node, seq, ts, body ->> 'member' AS member,
        unnest(map_entries(CAST(body -> 'offsets' AS MAP(VARCHAR, MAP(VARCHAR, BIGINT))))) AS entry
    FROM lines WHERE kind = 'offsets_committed'
), offsets AS (
    SELECT grp, node, seq, ts, member, entry.key AS topic, unnest(map_entries(entry.value)) AS pair
    FROM committed
), steps AS (
    SELECT grp, topic, CAST(pair.key AS BIGINT) AS partition, node, seq, ts, member,
        ts // 3600000 * 3600000 AS hour_ms,
        pair.value AS offset_,
        near - lag(near) OVER (
            PARTITION BY grp, topic, CAST(pair.key AS BIGINT) ORDER BY ts, node, seq
        ) AS step
    FROM (
        SELECT *, least(greatest(pair.value, -4611686018427387903), 4611686018427387903) AS near
        FROM offsets
    )
)
SELECT
    grp AS "group", topic, partition, hour_ms,
    count(*) AS commits,
    CASE WHEN max(ts) > min(ts) THEN (count(*) - 1) * 60000.0 / (max(ts) - min(ts)) END
        AS per_minute,
    min(ts) AS first_ms,
    max(ts) AS last_ms,
    arg_min(offset_, (ts, node, seq)) AS first_offset,
    arg_max(offset_, (ts, node, seq)) AS last_offset,
    coalesce(sum(step) FILTER (step > 0), 0) AS advanced,
    count(*) FILTER (step < 0) AS regressions,
    greatest(coalesce(max(-step), 0), 0) AS deepest_regression,
    count(DISTINCT member) FILTER (member <> '') AS members,
    count(*) FILTER (member = '') AS outside,
    CAST(NULL AS BIGINT) AS end_offset,
    CAST(NULL AS BIGINT) AS lag
FROM steps
GROUP BY grp, topic, partition, hour_ms
