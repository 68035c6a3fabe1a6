-- What a holder owns from a line on: as it was given, as it claims, or nothing, as it is gone.
-- A closing is a line that ends what all holders own that it does not mention; a lapse is one that
-- ends only what those own who are no members any more.
CREATE TABLE closings AS
SELECT grp, pos, at_ms, kind FROM control AS c
WHERE (
    kind IN ('rebalance_completed', 'group_recovered', 'group_emptied', 'group_deleted')
    OR kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty'
) AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos AND r.is_within);

CREATE TABLE lapses AS
WITH listed AS (
    SELECT c.grp, c.pos, unnest(CAST(c.body -> 'members' AS VARCHAR[])) AS member
    FROM resumed AS r JOIN control AS c ON c.grp = r.grp AND c.pos = r.pos
    WHERE r.is_within
), staying AS (
    SELECT l.grp, l.pos, coalesce(p.instance, l.member) AS holder
    FROM listed AS l LEFT JOIN people AS p USING (grp, member)
)
SELECT DISTINCT r.grp, r.pos, coalesce(p.instance, p.member) AS holder
FROM resumed AS r JOIN people AS p USING (grp)
WHERE r.is_within AND NOT EXISTS (
    FROM staying AS s
    WHERE s.grp = r.grp AND s.pos = r.pos AND s.holder = coalesce(p.instance, p.member)
);

CREATE TABLE statements AS
WITH phases AS (
    SELECT c.grp, c.pos, c.at_ms, c.kind, CAST(c.body ->> 'generation' AS BIGINT) AS generation,
        c.node,
        greatest(m.started_ms, after(c.node, c.at_ms, -CAST(c.body ->> 'took_ms' AS BIGINT)))
            AS since_ms,
        unnest(json_transform(c.body -> 'members', '[{
            "member": "VARCHAR", "joined_after_ms": "BIGINT", "owned": "JSON"
        }]'), recursive := true)
    FROM control AS c JOIN moments AS m ON m.grp = c.grp AND m.joined_pos = c.pos
), said AS (
    SELECT grp, pos, at_ms, kind, generation, entry.key AS member, entry.value AS owns,
        NULL AS how, NULL AS silent_ms, NULL AS session_ms
    FROM assignments
    UNION ALL
    SELECT grp, pos, least(after(node, since_ms, joined_after_ms), at_ms), kind, generation, member,
        CAST(owned AS MAP(VARCHAR, BIGINT[])), NULL, NULL, NULL
    FROM phases WHERE joined_after_ms IS NOT NULL
    UNION ALL
    SELECT grp, pos, at_ms, kind, NULL, (body ->> 'member'), NULL, (body ->> 'how'),
        CAST(body ->> 'silent_ms' AS BIGINT), CAST(body ->> 'session_timeout_ms' AS BIGINT)
    FROM control WHERE kind = 'member_gone'
), held AS (
    SELECT s.*, p.instance, coalesce(p.instance, s.member) AS holder
    FROM said AS s LEFT JOIN people AS p USING (grp, member)
), followed AS (
    SELECT *, lead(pos) OVER of_holder AS own_pos, lag(kind) OVER of_holder AS former_kind
    FROM held WINDOW of_holder AS (PARTITION BY grp, holder ORDER BY pos, member)
), ended AS (
    SELECT f.*, least(c.pos, l.pos) AS closing_pos,
        closing_pos IS NOT NULL AND (f.own_pos IS NULL OR closing_pos < f.own_pos) AS is_closed
    FROM followed AS f
    ASOF LEFT JOIN closings AS c ON c.grp = f.grp AND f.pos < c.pos
    ASOF LEFT JOIN lapses AS l ON l.grp = f.grp AND l.holder = f.holder AND f.pos < l.pos
), words AS (
    -- A member that is away has not received assignments, although they name it.
    SELECT grp, holder, pos, at_ms FROM held WHERE kind IN ('phase_joined', 'member_gone')
)
SELECT e.*, w.at_ms AS heard_ms,
    -- A larger step than any that continues an interval.
    coalesce(sum(CASE WHEN is_closed THEN 4 ELSE 1 END) OVER (
        PARTITION BY e.grp, e.holder ORDER BY e.pos, e.member
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), 0) AS k
FROM ended AS e
ASOF LEFT JOIN words AS w ON w.grp = e.grp AND w.holder = e.holder AND e.own_pos < w.pos
