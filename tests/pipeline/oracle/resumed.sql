-- Where a node reads a group back just as the lines before leave it.
CREATE TABLE resumed AS
WITH states AS (
    SELECT grp, pos, kind, CAST(body ->> 'generation' AS BIGINT) AS generation,
        CASE kind
            WHEN 'rebalance_started' THEN 'PreparingRebalance'
            WHEN 'phase_joined' THEN 'CompletingRebalance'
            WHEN 'rebalance_completed' THEN 'Stable'
            WHEN 'group_emptied' THEN 'Empty'
            WHEN 'group_deleted' THEN 'Dead'
            WHEN 'group_recovered' THEN (body ->> 'state')
        END AS state,
        (body ->> 'assigned') IS NOT NULL AS assigns,
        kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty' AS is_first
    FROM control
), told AS (
    SELECT *,
        kind = 'group_recovered' AND state IN ('PreparingRebalance', 'CompletingRebalance')
            AS is_within,
        lag((state, generation)) OVER in_order IS NOT DISTINCT FROM (state, generation) AS is_same
    FROM states WHERE state IS NOT NULL
    WINDOW in_order AS (PARTITION BY grp ORDER BY pos)
), known AS (
    -- Whether it is told who owns what; within a rebalance, only lines that are all there tell it.
    SELECT *, CASE
        WHEN is_within THEN NULL
        WHEN kind IN ('rebalance_completed', 'group_recovered') THEN assigns
        WHEN kind = 'group_emptied' OR is_first THEN true
        WHEN kind = 'group_deleted' THEN false
    END AS knows
    FROM told
), parts AS (
    SELECT *, count(knows) OVER before AS part,
        last_value(knows IGNORE NULLS) OVER before AS knew
    FROM known
    WINDOW before AS (
        PARTITION BY grp ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT grp, pos, is_within FROM parts
WHERE kind = 'group_recovered'
QUALIFY coalesce(knew, false) AND is_same AND coalesce(bool_and(is_same) FILTER (is_within) OVER (
    PARTITION BY grp, part ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
), true)
