-- Which lines give which holder which partition, of lines that tell the whole assignment.  Where a
-- group is read back within a rebalance that the lines before tell of, they tell more.
CREATE TABLE assignments AS
SELECT c.grp, c.pos, c.at_ms, c.kind, CAST(c.body ->> 'generation' AS BIGINT) AS generation,
    unnest(map_entries(
        CAST(c.body -> 'assigned' AS MAP(VARCHAR, MAP(VARCHAR, BIGINT[])))
    )) AS entry
FROM control AS c
WHERE c.kind IN ('rebalance_completed', 'group_recovered') AND (c.body ->> 'assigned') IS NOT NULL
    AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos AND r.is_within);

CREATE TABLE given AS
WITH topics AS (
    SELECT a.grp, a.pos, coalesce(p.instance, a.entry.key) AS holder,
        unnest(map_entries(a.entry.value)) AS topic
    FROM assignments AS a
    LEFT JOIN people AS p ON p.grp = a.grp AND p.member = a.entry.key
)
SELECT DISTINCT grp, pos, holder, topic.key AS topic, unnest(topic.value) AS partition FROM topics
