-- The control lines of each group in their order, with a time that never goes back.  Lines that are
-- about offsets alone are left out.
CREATE TABLE own AS
WITH marked AS (
    SELECT *,
        CAST(body ->> 'generation' AS BIGINT) AS generation,
        kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty' AS is_first_start,
        lag(kind, 1, '') OVER in_order AS before
    FROM lines
    WHERE grp <> '' AND kind NOT IN ('offsets_committed', 'offsets_deleted', 'offsets_expired')
    WINDOW in_order AS (PARTITION BY grp, node ORDER BY seq)
), bounds AS (
    -- A node begins anew wherever it reads the group back, after a deletion, and where a first
    -- member comes.
    SELECT *,
        kind = 'group_recovered'
            OR before = 'group_deleted'
            OR is_first_start AND before <> 'member_joined'
            OR kind = 'member_joined' AND lead(is_first_start, 1, false) OVER in_order
            AS is_bound
    FROM marked WINDOW in_order AS (PARTITION BY grp, node ORDER BY seq)
)
SELECT *,
    count(*) FILTER (is_bound) OVER in_order AS reading,
    max(ts) OVER in_order AS clock_ms
FROM bounds WINDOW in_order AS (PARTITION BY grp, node ORDER BY seq);

CREATE TABLE readings AS
WITH found AS (
    SELECT grp, node, reading,
        arg_min(generation - CAST(kind IN ('phase_joined', 'group_emptied') AS INTEGER), seq)
            AS first_gen,
        coalesce(max(generation), -1) AS last_gen,
        coalesce(CAST(arg_min_null(body ->> 'fence', seq) AS BIGINT), 0) AS fence,
        arg_min(clock_ms, seq) AS since_ms,
        min(seq) AS first_seq,
        arg_max(kind, seq) = 'group_deleted' AS is_deletion,
        coalesce(arg_min(is_first_start OR kind = 'group_deleted', seq)
            FILTER (generation IS NOT NULL), false) AS is_new_life
    FROM own GROUP BY ALL
)
SELECT *,
    {
        'first_gen': coalesce(first_gen, -1), 'last_gen': last_gen, 'fence': fence,
        'since_ms': since_ms, 'node': node, 'first_seq': first_seq
    } AS told,
    coalesce(lag(last_gen) OVER of_node = last_gen AND NOT lag(is_deletion) OVER of_node, false)
        AS goes_on
FROM found WINDOW of_node AS (PARTITION BY grp, node ORDER BY first_seq);

CREATE TABLE stints AS
WITH sides AS (
    -- What a reading comes after whose own lines do not tell its place.
    SELECT r.grp, r.node, r.reading, coalesce(
        max(b.told) FILTER (b.since_ms <= r.since_ms),
        min(b.told) FILTER (r.first_gen IS NOT NULL AND NOT r.goes_on)
    ) AS before
    FROM readings AS r
    JOIN readings AS b ON b.grp = r.grp AND b.first_gen IS NOT NULL AND (
        r.first_gen IS NULL
        OR r.is_new_life AND r.first_gen = r.last_gen AND b.is_deletion AND NOT b.is_new_life
            AND b.first_gen = r.last_gen AND b.last_gen = r.last_gen
    )
    GROUP BY ALL
), places AS (
    SELECT *, {
        'told': coalesce(before, told), 'is_after': before IS NOT NULL, 'own': told
    } AS place
    FROM readings LEFT JOIN sides USING (grp, node, reading)
), firm AS (
    -- A node's own lines stay in order, and what is placed by its date alone moves no others.
    SELECT *,
        max(place) FILTER (first_gen IS NOT NULL) OVER (
            PARTITION BY grp, node ORDER BY first_seq
        ) AS least_place
    FROM places
), bounded AS (
    SELECT *,
        greatest(place, least_place) AS from_place,
        min(least_place) FILTER (first_gen IS NOT NULL) OVER (
            PARTITION BY grp, node ORDER BY first_seq DESC
        ) AS most_place
    FROM firm
)
SELECT grp, node, reading, first_gen, since_ms, first_seq, is_deletion, row_number() OVER (
    PARTITION BY grp ORDER BY least(from_place, most_place), node, first_seq
) AS stint
FROM bounded;

CREATE TABLE control AS
SELECT grp,
    row_number() OVER placed AS pos,
    max(ts) OVER placed AS at_ms,
    stint, node, seq, ts, kind, body
FROM own JOIN stints USING (grp, node, reading)
WINDOW placed AS (PARTITION BY grp ORDER BY stint, seq)
;

-- A rebalance that hangs goes on until the end of the journal of its node, or until that gives the
-- group's shard away.
CREATE TABLE horizons AS
WITH ends AS (
    SELECT node, max(ts) AS end_ms FROM lines GROUP BY node
), gifts AS (
    SELECT node, seq, ts, CAST(body ->> 'shard' AS BIGINT) AS shard,
        coalesce(CAST(body ->> 'shards' AS BIGINT), 50) AS shards
    FROM lines WHERE kind = 'shard_given'
), last_seqs AS (
    SELECT grp, node, max(seq) AS last_seq
    FROM lines WHERE grp <> '' AND kind <> 'offsets_committed' GROUP BY ALL
), gifts_of_groups AS (
    SELECT l.grp, l.node, arg_min(g.ts, g.seq) AS given_ms
    FROM last_seqs AS l
    JOIN gifts AS g ON g.node = l.node AND g.seq > l.last_seq
    WHERE g.shards > 0 AND crc_32(l.grp) % g.shards = g.shard
    GROUP BY ALL
), last_marks AS (
    SELECT grp, arg_max(node, pos) AS node, arg_max(
        kind IN ('rebalance_started', 'phase_joined')
            OR coalesce(
                (body ->> 'state') IN ('PreparingRebalance', 'CompletingRebalance'), false
            ), pos
    ) FILTER (kind IN (
        'rebalance_started', 'phase_joined', 'rebalance_completed', 'group_emptied',
        'group_deleted', 'group_recovered'
    )) AS hangs
    FROM control GROUP BY grp
), spans AS (
    SELECT grp, min(ts) AS first_ms, max(ts) AS last_ms FROM lines WHERE grp <> '' GROUP BY grp
)
SELECT grp, first_ms,
    greatest(last_ms, CASE WHEN hangs THEN coalesce(given_ms, end_ms) END) AS horizon_ms
FROM spans
LEFT JOIN last_marks USING (grp)
LEFT JOIN ends USING (node)
LEFT JOIN gifts_of_groups USING (grp, node)
