-- One row for each membership, and how often the same process came back.
WITH known AS (
    SELECT m.*, coalesce(m.instance, i.identity, m.member) AS identity
    FROM memberships AS m LEFT JOIN identities AS i USING (grp, number)
), ended AS (
    -- Members that left by themselves; what becomes of the group brings none back.
    FROM known WHERE ended NOT IN ('open', 'emptied', 'deleted', 'lost')
), returned AS (
    SELECT e.grp, e.number, min(n.joined_ms - e.ended_ms) AS back_after_ms
    FROM ended AS e
    JOIN known AS n
        ON n.grp = e.grp AND n.identity = e.identity AND n.began <> 'known'
        AND n.number <> e.number AND n.began_pos >= e.ended_pos
    GROUP BY ALL
), before AS (
    SELECT k.grp, k.number, count(*) AS returns
    FROM known AS k
    JOIN ended AS e
        ON e.grp = k.grp AND e.identity = k.identity AND e.number <> k.number
        AND e.ended_ms BETWEEN k.joined_ms - 3600000 AND k.joined_ms
    GROUP BY ALL
)
SELECT
    grp AS "group", member, instance, client_id, host, identity,
    CASE WHEN instance IS NULL THEN 'dynamic' ELSE 'static' END AS kind,
    joined_ms, ended_ms, began, ended, silent_ms, session_timeout_ms, rebalance_timeout_ms,
    protocols, topics, join_reason, leave_reason,
    back_after_ms,
    coalesce(returns, 0) AS returns,
    coalesce(returns, 0) >= 3 AS is_flapping
FROM known
LEFT JOIN returned USING (grp, number)
LEFT JOIN before USING (grp, number)
