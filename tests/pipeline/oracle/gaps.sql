-- Times in which a partition that had an owner has none.
CREATE TABLE gaps AS
WITH ends AS (
    SELECT * FROM intervals AS i
    WHERE i.ended NOT IN ('open', 'emptied', 'deleted', 'lost') AND NOT EXISTS (
        FROM intervals AS o
        WHERE o.grp = i.grp AND o.topic = i.topic AND o.partition = i.partition
            AND o.from_ms <= i.to_ms AND o.to_ms > i.to_ms
    )
    QUALIFY row_number() OVER (
        PARTITION BY grp, topic, partition, to_ms ORDER BY ended_pos DESC, from_ms DESC, holder DESC
    ) = 1
), begun AS (
    -- What was deleted since it was given stands still no more, even if it was made anew:
    -- then it is new, and had no owner yet.
    SELECT * FROM ends AS e
    WHERE NOT EXISTS (
        FROM deletions AS d WHERE d.grp = e.grp AND d.topic = e.topic AND d.ts > e.given_ms AND d.ts <= e.to_ms
    )
), stops AS (
    -- What may end them; the last column breaks ties.
    SELECT b.grp, b.topic, b.partition, b.to_ms AS since_ms, n.from_ms AS ms, n.began_pos AS pos,
        n.holder AS next_holder, n.member AS next_member, 1 AS rank
    FROM begun AS b
    JOIN intervals AS n
        ON n.grp = b.grp AND n.topic = b.topic AND n.partition = b.partition
        AND n.from_ms > b.to_ms
    UNION ALL
    -- The group starts afresh, or its owners are unknown.
    SELECT b.grp, b.topic, b.partition, b.to_ms, greatest(c.at_ms, b.to_ms), c.pos, NULL, NULL, 2
    FROM begun AS b
    JOIN control AS c
        ON c.grp = b.grp AND c.pos >= b.ended_pos AND (
            c.kind IN ('group_emptied', 'group_deleted', 'group_recovered')
                AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos)
            OR c.kind = 'rebalance_completed' AND (c.body ->> 'assigned') IS NULL
            OR c.kind = 'rebalance_started' AND (c.body ->> 'from_state') = 'Empty'
        )
    UNION ALL
    -- It is not to have an owner.
    SELECT b.grp, b.topic, b.partition, b.to_ms, c.at_ms, c.pos, NULL, NULL, 3
    FROM begun AS b
    JOIN control AS c
        ON c.grp = b.grp AND c.pos > b.ended_pos
        AND c.kind = 'rebalance_completed' AND (c.body ->> 'needs_rejoin') = 'false'
        AND NOT EXISTS (
            FROM given AS g
            WHERE g.grp = b.grp AND g.pos = c.pos AND g.topic = b.topic
                AND g.partition = b.partition
        )
    UNION ALL
    -- There is no such partition any more.
    SELECT b.grp, b.topic, b.partition, b.to_ms, t.ts, NULL, NULL, NULL, 4
    FROM begun AS b
    JOIN deletions AS t ON t.grp = b.grp AND t.topic = b.topic AND t.ts > b.to_ms
), first_stops AS (
    SELECT * FROM stops
    QUALIFY row_number() OVER (
        PARTITION BY grp, topic, partition, since_ms
        ORDER BY ms, pos NULLS LAST, next_holder NULLS LAST, rank
    ) = 1
)
SELECT
    b.grp, b.topic, b.partition,
    b.to_ms AS from_ms, b.ended_pos AS from_pos,
    coalesce(s.ms, h.horizon_ms) AS to_ms, s.pos AS to_pos,
    s.ms IS NULL AS is_open,
    b.ended AS began, b.holder, s.next_holder, b.member, s.next_member
FROM begun AS b
JOIN horizons AS h ON h.grp = b.grp
LEFT JOIN first_stops AS s
    ON s.grp = b.grp AND s.topic = b.topic AND s.partition = b.partition
    AND s.since_ms = b.to_ms
WHERE coalesce(s.ms, h.horizon_ms) > b.to_ms
