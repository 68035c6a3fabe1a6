-- The commits of a partition within an hour, each compared with the one before.
WITH committed AS (
    SELECT grp, node, seq, ts, body ->> 'member' AS member,
        unnest(map_entries(CAST(body -> 'offsets' AS MAP(VARCHAR, MAP(VARCHAR, BIGINT))))) AS entry
    FROM lines WHERE kind = 'offsets_committed'
), offsets AS (
    SELECT grp, node, seq, ts, member, entry.key AS topic, unnest(map_entries(entry.value)) AS pair
    FROM committed
), told AS (
    -- From which number on a node has the group, and until when it is not known who has it.
    SELECT grp, node, first_seq AS since_seq, stint, since_ms,
        max(since_ms) OVER (PARTITION BY grp ORDER BY stint) AS begun_ms
    FROM stints WHERE first_gen IS NOT NULL
), holds AS (
    SELECT grp, node, since_seq, stint FROM told
    UNION ALL
    SELECT grp, node, max(o.seq) + 1, NULL
    FROM stints JOIN own AS o USING (grp, node, reading)
    WHERE is_deletion AND first_gen IS NOT NULL GROUP BY ALL
), held AS (
    SELECT o.*, h.stint
    FROM offsets AS o ASOF LEFT JOIN holds AS h
        ON h.grp = o.grp AND h.node = o.node AND h.since_seq <= o.seq
), placed AS (
    SELECT *, CASE
        WHEN (SELECT count(DISTINCT node) FROM lines) = 1 THEN 0
        -- Dates give the same order.
        WHEN (SELECT count(*) FROM told AS t WHERE t.grp = h.grp) < 2 THEN 0
        WHEN stint IS NOT NULL THEN 2 * stint
        ELSE 2 * coalesce((
            SELECT max(t.stint) FROM told AS t WHERE t.grp = h.grp AND t.begun_ms <= h.ts
        ), 0) + 1
    END AS place
    FROM held AS h
), timed AS (
    SELECT * EXCLUDE (ts),
        least(greatest(pair.value, -4611686018427387903), 4611686018427387903) AS near,
        row_number() OVER in_order AS number,
        max(ts) OVER in_order AS ts
    FROM placed
    WINDOW in_order AS (
        PARTITION BY grp
        ORDER BY place,
            CASE WHEN (SELECT count(DISTINCT node) FROM lines) = 1 THEN 0 ELSE ts END, node, seq
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
), steps AS (
    SELECT grp, topic, CAST(pair.key AS BIGINT) AS partition, number, ts, member,
        ts // 3600000 * 3600000 AS hour_ms,
        pair.value AS offset_,
        near - lag(near) OVER (
            PARTITION BY grp, topic, CAST(pair.key AS BIGINT) ORDER BY number
        ) AS step
    FROM timed
)
SELECT
    grp AS "group", topic, partition, hour_ms,
    count(*) AS commits,
    CASE WHEN max(ts) > min(ts) THEN (count(*) - 1) * 60000.0 / (max(ts) - min(ts)) END
        AS per_minute,
    min(ts) AS first_ms,
    max(ts) AS last_ms,
    arg_min(offset_, number) AS first_offset,
    arg_max(offset_, number) AS last_offset,
    coalesce(sum(step) FILTER (step > 0), 0) AS advanced,
    count(*) FILTER (step < 0) AS regressions,
    greatest(coalesce(max(-step), 0), 0) AS deepest_regression,
    count(DISTINCT member) FILTER (member <> '') AS members,
    count(*) FILTER (member = '') AS outside,
    CAST(NULL AS BIGINT) AS end_offset,
    CAST(NULL AS BIGINT) AS lag
FROM steps
GROUP BY grp, topic, partition, hour_ms
