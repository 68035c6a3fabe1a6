-- The control lines of each group in their order, with a time that never goes back.
CREATE TABLE control AS
WITH own AS (
    -- A node begins anew wherever it reads the group back.
    SELECT *,
        count(*) FILTER (kind = 'group_recovered') OVER in_order AS reading,
        max(ts) OVER in_order AS clock_ms
    FROM lines WHERE grp <> '' AND kind <> 'offsets_committed'
    WINDOW in_order AS (PARTITION BY grp, node ORDER BY seq)
), readings AS (
    SELECT grp, node, reading,
        coalesce(arg_min(CAST(body ->> 'generation' AS BIGINT), seq), -1) AS generation,
        coalesce(CAST(arg_min_null(body ->> 'fence', seq) AS BIGINT), 0) AS fence,
        arg_min(clock_ms, seq) AS since_ms,
        min(seq) AS first_seq
    FROM own GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY grp ORDER BY generation, fence, since_ms, node, first_seq
    ) AS stint
    FROM readings
)
SELECT grp,
    row_number() OVER placed AS pos,
    max(ts) OVER placed AS at_ms,
    stint, node, ts, kind, body
FROM own JOIN ranked USING (grp, node, reading)
WINDOW placed AS (PARTITION BY grp ORDER BY stint, seq)
