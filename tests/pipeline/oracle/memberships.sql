-- From when to when a member is in the group.
CREATE TABLE memberships AS
WITH signs AS (
    SELECT grp, pos, at_ms, body, (body ->> 'member') AS member, 'came' AS what FROM control
    WHERE kind IN ('member_joined', 'member_replaced')
    UNION ALL
    SELECT grp, pos, at_ms, body, coalesce(body ->> 'former_member', body ->> 'member'), 'went'
    FROM control WHERE kind IN ('member_gone', 'member_replaced')
    UNION ALL
    SELECT grp, pos, at_ms, NULL, unnest(
        CASE kind
            WHEN 'phase_joined' THEN CAST(json_extract(body, '$.members[*].member') AS VARCHAR[])
            ELSE CAST(body -> 'members' AS VARCHAR[])
        END
    ), 'there'
    FROM control WHERE kind IN ('phase_joined', 'group_recovered')
), counted AS (
    SELECT * REPLACE (trim(member, '"') AS member), count(*) FILTER (what = 'came') OVER (
        PARTITION BY grp, trim(member, '"') ORDER BY pos, what = 'went'
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS n
    FROM signs
), found AS (
    SELECT grp, member, n,
        min(pos) AS began_pos,
        arg_min(at_ms, pos) AS known_ms,
        arg_min(body, pos) FILTER (what = 'came') AS begin,
        arg_min(at_ms, pos) FILTER (what = 'came') AS joined_ms,
        arg_min(body, pos) FILTER (what = 'went') AS "end",
        min(pos) FILTER (what = 'went') AS ended_pos,
        arg_min(at_ms, pos) FILTER (what = 'went') AS end_ms
    FROM counted GROUP BY ALL
), closed AS (
    -- Lines that end memberships without an end of their own.
    SELECT f.grp, f.member, f.n, min(c.pos) AS closing_pos
    FROM found AS f
    JOIN control AS c
        ON c.grp = f.grp AND c.pos > f.began_pos
        AND c.kind IN ('group_emptied', 'group_deleted', 'group_recovered')
        AND (
            c.kind <> 'group_recovered'
            OR NOT list_contains(CAST(c.body -> 'members' AS VARCHAR[]), f.member)
        )
    GROUP BY ALL
), all_of_them AS (
    SELECT f.*, p.instance, p.host, c.kind AS closing_kind, c.pos AS closing_pos, c.at_ms AS closing_ms,
        lead(f.joined_ms) OVER (PARTITION BY f.grp, f.member ORDER BY f.n) AS next_ms,
        lead(f.began_pos) OVER (PARTITION BY f.grp, f.member ORDER BY f.n) AS next_pos,
        (f.begin ->> 'client_id') AS client_id,
        CAST(f.begin ->> 'rebalance_timeout_ms' AS BIGINT) AS rebalance_timeout_ms,
        CAST(f.begin ->> 'session_timeout_ms' AS BIGINT) AS session_timeout_ms,
        CAST(f.begin -> 'protocols' AS VARCHAR[]) AS protocols,
        CAST(f.begin -> 'topics' AS VARCHAR[]) AS topics
    FROM found AS f
    LEFT JOIN people AS p USING (grp, member)
    LEFT JOIN closed USING (grp, member, n)
    LEFT JOIN control AS c ON c.grp = f.grp AND c.pos = closed.closing_pos
), inherited AS (
    -- A static member keeps what it told as it joined.
    SELECT * REPLACE (
        last_value(client_id IGNORE NULLS) OVER so_far AS client_id,
        last_value(rebalance_timeout_ms IGNORE NULLS) OVER so_far AS rebalance_timeout_ms,
        last_value(session_timeout_ms IGNORE NULLS) OVER so_far AS session_timeout_ms,
        last_value(protocols IGNORE NULLS) OVER so_far AS protocols,
        last_value(topics IGNORE NULLS) OVER so_far AS topics
    )
    FROM all_of_them
    WINDOW so_far AS (
        PARTITION BY grp, instance, CASE WHEN instance IS NULL THEN (member, n) END
        ORDER BY began_pos, member ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT grp, row_number() OVER (PARTITION BY grp ORDER BY began_pos, member, n) AS number,
    member, instance, host,
    CASE
        WHEN begin IS NULL THEN 'known'
        WHEN (begin ->> 'kind') = 'member_replaced' THEN 'replaced'
        ELSE 'joined'
    END AS began,
    began_pos, known_ms, joined_ms, client_id, rebalance_timeout_ms,
    coalesce(session_timeout_ms, CAST("end" ->> 'session_timeout_ms' AS BIGINT))
        AS session_timeout_ms,
    protocols, topics,
    (begin ->> 'reason') AS join_reason,
    CASE
        WHEN "end" IS NOT NULL THEN coalesce("end" ->> 'how', 'replaced')
        WHEN next_ms IS NOT NULL OR closing_kind = 'group_recovered' THEN 'lost'
        WHEN closing_kind = 'group_emptied' THEN 'emptied'
        WHEN closing_kind = 'group_deleted' THEN 'deleted'
        ELSE 'open'
    END AS ended,
    ended_pos,
    least(ended_pos, next_pos, closing_pos) AS over_pos,
    coalesce(end_ms, next_ms, closing_ms) AS ended_ms,
    CAST("end" ->> 'silent_ms' AS BIGINT) AS silent_ms,
    ("end" ->> 'reason') AS leave_reason
FROM inherited
