-- Where each rebalance begins and ends.
CREATE TABLE spans AS
WITH marks AS (
    SELECT grp, pos, kind, lag(kind, 1, '') OVER (PARTITION BY grp ORDER BY pos) AS before
    FROM control
    WHERE kind IN ('rebalance_started', 'phase_joined', 'rebalance_completed', 'group_emptied')
        -- A group that is read back in the midst of one goes on with it.
        OR kind = 'group_recovered'
        AND (body ->> 'state') NOT IN ('PreparingRebalance', 'CompletingRebalance')
), numbered AS (
    SELECT *, count(*) FILTER (
        kind = 'rebalance_started'
        OR kind = 'phase_joined' AND before <> 'rebalance_started'
        OR kind = 'rebalance_completed' AND before NOT IN ('rebalance_started', 'phase_joined')
    ) OVER (PARTITION BY grp ORDER BY pos) AS rebalance
    FROM marks
), ends AS (
    SELECT grp, rebalance, min(pos) AS end_pos, arg_min(kind, pos) AS end_kind
    FROM numbered
    WHERE kind IN ('rebalance_completed', 'group_emptied', 'group_recovered') GROUP BY ALL
), found AS (
    SELECT grp, rebalance,
        min(pos) AS began_pos,
        min(pos) FILTER (kind = 'rebalance_started') AS started_pos,
        min(pos) FILTER (kind = 'phase_joined') AS joined_pos,
        any_value(end_pos) AS end_pos,
        any_value(end_kind) AS end_kind
    FROM numbered LEFT JOIN ends USING (grp, rebalance)
    WHERE rebalance > 0 GROUP BY ALL
)
SELECT grp, rebalance, began_pos, started_pos, joined_pos,
    CASE WHEN end_kind = 'rebalance_completed' THEN end_pos END AS completed_pos,
    coalesce(end_pos, lead(began_pos) OVER by_number) AS ended_pos,
    CASE end_kind
        WHEN 'rebalance_completed' THEN 'completed'
        WHEN 'group_emptied' THEN 'emptied'
        WHEN 'group_recovered' THEN 'interrupted'
        ELSE CASE WHEN lead(began_pos) OVER by_number IS NULL THEN 'running' ELSE 'superseded' END
    END AS outcome
FROM found
WINDOW by_number AS (PARTITION BY grp ORDER BY rebalance)
