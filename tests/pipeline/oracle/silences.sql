-- Times in which the owner of a partition was not heard of, before it was given up or replaced.
CREATE TABLE silences AS
WITH quiet AS (
    SELECT grp, pos, at_ms - CAST(body ->> 'silent_ms' AS BIGINT) AS since_ms,
        kind = 'member_gone' AS is_gone
    FROM control
    WHERE kind = 'member_replaced' OR kind = 'member_gone' AND (
        (body ->> 'how') IN ('session_expired', 'registration_expired')
        OR CAST(body ->> 'away_ms' AS BIGINT) > 0
    )
), found AS (
    SELECT i.*, q.is_gone,
        -- Before an assignment, what it gives stands still.
        greatest(q.since_ms, i.from_ms, coalesce((
            SELECT arg_max(a.at_ms, a.pos) FROM control AS a
            WHERE a.grp = i.grp AND a.pos < i.ended_pos
                AND a.kind IN ('rebalance_completed', 'group_recovered')
        ), 0)) AS since_ms
    FROM intervals AS i
    JOIN quiet AS q ON q.grp = i.grp AND q.pos = i.ended_pos
    WHERE (i.ended = 'replaced') <> q.is_gone AND NOT EXISTS (
        FROM deletions AS d WHERE d.grp = i.grp AND d.topic = i.topic AND d.ts > i.given_ms AND d.ts <= i.to_ms
    )
), fresh_starts AS (
    -- After these, no rebalance pays for what was before.
    SELECT grp, pos FROM control AS c
    WHERE kind IN ('group_emptied', 'group_deleted', 'group_recovered')
            AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos)
        OR kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty'
        OR kind = 'rebalance_completed'
            AND ((body ->> 'needs_rejoin') = 'false' OR (body ->> 'assigned') IS NULL)
)
SELECT f.grp, f.topic, f.partition, f.holder, f.member, f.since_ms AS from_ms, f.to_ms, f.ended,
    CASE WHEN f.is_gone THEN (
        SELECT min(m.rebalance) FROM moments AS m
        WHERE m.grp = f.grp AND coalesce(m.ended_pos, 9e15) > f.ended_pos AND NOT EXISTS (
            FROM fresh_starts AS s
            WHERE s.grp = f.grp AND s.pos > f.ended_pos AND s.pos < coalesce(m.ended_pos, 9e15)
        )
    ) END AS rebalance
FROM found AS f
WHERE f.since_ms < f.to_ms
