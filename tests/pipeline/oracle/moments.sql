-- When each rebalance began, had its members, and was over.
CREATE TABLE moments AS
WITH found AS (
    SELECT
        s.*,
        b.node,
        st.body AS started,
        j.body AS joined,
        c.body AS completed,
        e.body AS last_body,
        CASE
            WHEN s.started_pos IS NOT NULL THEN st.at_ms
            WHEN s.joined_pos IS NOT NULL THEN after(b.node, j.at_ms, -CAST(j.body ->> 'took_ms' AS BIGINT))
            ELSE after(b.node, c.at_ms, -CAST(c.body ->> 'total_ms' AS BIGINT))
        END AS started_ms,
        CASE
            WHEN s.joined_pos IS NOT NULL THEN j.at_ms
            ELSE after(b.node, c.at_ms, -CAST(c.body ->> 'took_ms' AS BIGINT))
        END AS joined_ms,
        e.at_ms AS last_ms
    FROM spans AS s
    JOIN control AS b ON b.grp = s.grp AND b.pos = s.began_pos
    LEFT JOIN control AS st ON st.grp = s.grp AND st.pos = s.started_pos
    LEFT JOIN control AS j ON j.grp = s.grp AND j.pos = s.joined_pos
    LEFT JOIN control AS c ON c.grp = s.grp AND c.pos = s.completed_pos
    LEFT JOIN control AS e ON e.grp = s.grp AND e.pos = s.ended_pos
)
SELECT
    f.*,
    CASE WHEN f.outcome = 'superseded' THEN n.started_ms ELSE f.last_ms END AS ended_ms,
    -- Until where the first phase went.
    coalesce(f.joined_pos, f.ended_pos, 9e15) AS phase_end_pos,
    CASE WHEN f.outcome = 'emptied' THEN f.ended_pos ELSE f.joined_pos END AS generation_pos
FROM found AS f
LEFT JOIN found AS n ON n.grp = f.grp AND n.rebalance = f.rebalance + 1
