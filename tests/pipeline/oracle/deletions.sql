-- When topics were deleted, in the time of each group: as it heard of it, if another node did it.
CREATE TABLE deletions AS
WITH gone AS (
    SELECT body ->> 'topic' AS topic, ts AS gone_ms, node AS gone_node FROM lines
    WHERE kind = 'topic_changed' AND (body ->> 'change') = 'deleted'
), heard AS (
    SELECT DISTINCT grp, topic, heard_ms, heard_node FROM (
        SELECT grp, regexp_extract(body ->> 'detail', '^(.*) deleted$', 1) AS topic,
            at_ms AS heard_ms, node AS heard_node
        FROM control
        WHERE kind = 'rebalance_started' AND (body ->> 'cause') = 'topic_changed'
            AND (body ->> 'detail') LIKE '% deleted'
        UNION ALL
        SELECT grp, unnest(json_keys(body -> 'partitions')), ts, node
        FROM lines
        WHERE kind = 'offsets_deleted' AND (body ->> 'how') = 'topic_deleted'
    )
), pairs AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY grp, topic, gone_ms, gone_node
            ORDER BY abs(heard_ms - gone_ms), heard_ms, heard_node
        ) AS rank_of_heard,
        row_number() OVER (
            PARTITION BY grp, topic, heard_ms, heard_node
            ORDER BY abs(heard_ms - gone_ms), gone_ms, gone_node
        ) AS rank_of_gone
    FROM gone JOIN heard USING (topic)
), groups AS (
    SELECT DISTINCT grp FROM lines WHERE grp <> ''
)
SELECT g.grp, n.topic, coalesce(p.heard_ms, n.gone_ms) AS ts
FROM groups AS g CROSS JOIN gone AS n
LEFT JOIN pairs AS p
    ON p.grp = g.grp AND p.topic = n.topic AND p.gone_ms = n.gone_ms
    AND p.gone_node = n.gone_node AND p.rank_of_heard = 1 AND p.rank_of_gone = 1
    AND p.heard_node <> n.gone_node
