-- One row for each rebalance.
WITH RECURSIVE
expected AS (
    -- Whom a rebalance waits for, under all names that they have meanwhile.
    SELECT grp, rebalance, unnest(CAST(started -> 'awaited' AS VARCHAR[])) AS member FROM moments
    UNION
    SELECT e.grp, e.rebalance, (r.body ->> 'member')
    FROM expected AS e
    JOIN moments AS m ON m.grp = e.grp AND m.rebalance = e.rebalance
    JOIN control AS r
        ON r.grp = e.grp AND r.kind = 'member_replaced' AND (r.body ->> 'former_member') = e.member
        AND r.pos BETWEEN m.began_pos AND m.phase_end_pos
), phases AS (
    SELECT m.grp, m.rebalance, m.joined_ms - m.started_ms AS prepare_ms,
        -- Joins count from when the group was read back, if it was.
        coalesce((
            SELECT max(r.at_ms) FROM control AS r
            WHERE r.grp = m.grp AND r.kind = 'group_recovered'
                AND r.pos BETWEEN m.began_pos AND m.joined_pos
        ) - m.started_ms, 0) AS before_ms,
        unnest(json_transform(m.joined -> 'members', '[{
            "member": "VARCHAR", "instance": "VARCHAR", "host": "VARCHAR",
            "joined_after_ms": "BIGINT"
        }]'), recursive := true)
    FROM moments AS m
), slow AS (
    SELECT grp, rebalance, member, instance, host,
        coalesce(before_ms + joined_after_ms, prepare_ms) AS after_ms,
        CASE WHEN joined_after_ms IS NULL THEN 'away' ELSE 'joined' END AS how
    FROM phases SEMI JOIN expected USING (grp, rebalance, member)
    WHERE joined_after_ms IS NULL OR before_ms + joined_after_ms > 0
    UNION ALL
    SELECT m.grp, m.rebalance, (g.body ->> 'member'), (g.body ->> 'instance'), (g.body ->> 'host'),
        g.at_ms - m.started_ms, (g.body ->> 'how')
    FROM moments AS m
    JOIN control AS g
        ON g.grp = m.grp AND g.pos BETWEEN m.began_pos AND m.phase_end_pos
        AND g.kind = 'member_gone'
    JOIN expected AS e
        ON e.grp = m.grp AND e.rebalance = m.rebalance AND e.member = (g.body ->> 'member')
    UNION ALL
    SELECT m.grp, m.rebalance, (u.body ->> 'member'), NULL, '', u.at_ms - m.started_ms, 'unclaimed'
    FROM moments AS m
    JOIN control AS u
        ON u.grp = m.grp AND u.pos BETWEEN m.began_pos AND m.phase_end_pos
        AND u.kind = 'id_unclaimed'
), late AS (
    SELECT grp, rebalance, list(
        {
            'member': member, 'instance': instance, 'host': host, 'after_ms': after_ms, 'how': how
        }
        ORDER BY after_ms DESC, member
    ) AS late
    FROM slow GROUP BY ALL
), moves AS (
    -- Who came and went before a generation, since the one before.
    SELECT m.grp, m.rebalance, c.pos, c.kind, c.body
    FROM moments AS m
    JOIN control AS c
        ON c.grp = m.grp AND c.pos < m.generation_pos
        AND c.kind IN ('member_joined', 'member_gone')
    WHERE NOT EXISTS (
        FROM control AS n
        WHERE n.grp = m.grp AND n.pos > c.pos AND n.pos < m.generation_pos
            AND (
                n.kind IN ('phase_joined', 'group_emptied')
                -- Members that were in no generation yet are not read back.
                OR n.kind = 'group_recovered' AND (
                    c.kind = 'member_joined'
                    OR (n.body ->> 'state') NOT IN ('PreparingRebalance', 'CompletingRebalance')
                )
            )
    )
), moved AS (
    SELECT grp, rebalance,
        list(body ->> 'member' ORDER BY pos) FILTER (kind = 'member_joined') AS came,
        list(body ->> 'member' ORDER BY pos) FILTER (kind = 'member_gone') AS went,
        max(CAST(body ->> 'silent_ms' AS BIGINT))
            FILTER (kind = 'member_gone' AND (body ->> 'how') IN ('session_expired', 'registration_expired')) AS detection_ms
    FROM moves GROUP BY ALL
), knowledge AS (
    -- From which line on who owns what is known, and from which one on it is not.
    SELECT grp, pos, kind IN ('rebalance_completed', 'group_recovered') AS tells,
        CASE kind
            WHEN 'rebalance_completed' THEN (body ->> 'assigned') IS NOT NULL
            WHEN 'group_recovered' THEN (body ->> 'assigned') IS NOT NULL
            WHEN 'group_deleted' THEN false
            ELSE true
        END AS is_told,
        -- If it goes on with a rebalance, it may be missing who went before, and with what.
        is_told AND NOT coalesce(kind = 'group_recovered'
            AND (body ->> 'state') IN ('PreparingRebalance', 'CompletingRebalance'), false
        ) AS is_known,
        kind IN ('group_emptied', 'rebalance_started')
            OR coalesce(kind = 'group_recovered' AND (body ->> 'state') = 'Empty', false) AS is_empty
    FROM control AS c
    WHERE (
        kind IN ('rebalance_completed', 'group_recovered', 'group_emptied', 'group_deleted')
        OR kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty'
    ) AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos AND r.is_within)
), earlier AS (
    SELECT m.grp, m.rebalance, k.pos, k.tells AND k.is_told AND NOT k.is_empty AS assigns,
        k.is_known, k.is_empty
    FROM moments AS m JOIN knowledge AS k ON k.grp = m.grp AND k.pos < m.ended_pos
    QUALIFY row_number() OVER (PARTITION BY m.grp, m.rebalance ORDER BY k.pos DESC) = 1
), stuck AS (
    SELECT m.grp, m.rebalance, sum(greatest(
        lasted(m.node, greatest(g.from_ms, coalesce(b.ended_ms, 0)), m.ended_ms), 0
    )) AS stopped
    FROM moments AS m
    LEFT JOIN moments AS b ON b.grp = m.grp AND b.rebalance = m.rebalance - 1
    JOIN gaps AS g
        ON g.grp = m.grp AND g.from_pos < m.ended_pos
        -- What goes with its topic was gone before the rebalance that this caused.
        AND (g.is_open OR g.to_pos >= m.ended_pos OR g.to_pos IS NULL AND g.to_ms > m.ended_ms)
    GROUP BY ALL
), taking AS (
    -- Assignments that leave out what a member has, which then gives it up and joins again.
    SELECT DISTINCT grp, ended_pos AS pos FROM intervals AS i
    WHERE ended = 'taken' AND NOT EXISTS (
        FROM intervals AS o
        WHERE o.grp = i.grp AND o.topic = i.topic AND o.partition = i.partition
            AND o.began_pos < i.ended_pos AND coalesce(o.ended_pos > i.ended_pos, true)
    )
), fresh_starts AS (
    -- After these, nothing is on its way to a member.
    SELECT grp, pos, kind = 'rebalance_completed' AS is_assignment FROM control AS c
    WHERE kind IN ('group_emptied', 'group_deleted')
        OR kind = 'group_recovered'
            AND NOT EXISTS (FROM resumed AS r WHERE r.grp = c.grp AND r.pos = c.pos)
        OR kind = 'rebalance_started' AND (body ->> 'from_state') = 'Empty'
        OR kind = 'rebalance_completed' AND (
            (body ->> 'assigned') IS NULL
            OR (body ->> 'needs_rejoin') = 'false'
                AND NOT EXISTS (FROM taking AS t WHERE t.grp = c.grp AND t.pos = c.pos)
        )
), named AS (
    -- Who was given what, by whichever member id, also where a group was read back.
    SELECT grp, pos, member, topic.key AS topic, unnest(topic.value) AS partition
    FROM (
        SELECT grp, pos, entry.key AS member, unnest(map_entries(entry.value)) AS topic
        FROM (
            SELECT grp, pos, unnest(map_entries(
                CAST(body -> 'assigned' AS MAP(VARCHAR, MAP(VARCHAR, BIGINT[])))
            )) AS entry
            FROM control
            WHERE kind IN ('rebalance_completed', 'group_recovered')
        )
    )
), forgotten AS (
    -- What was on its way as the group was read back, which its coordinator does not know.
    SELECT r.grp, r.pos, i.topic, i.partition, arg_max(i.member, i.ended_pos) AS member
    FROM resumed AS r
    JOIN intervals AS i ON i.grp = r.grp AND i.ended_pos < r.pos
    WHERE NOT EXISTS (
        FROM named AS n
        WHERE n.grp = r.grp AND n.pos = r.pos AND n.topic = i.topic AND n.partition = i.partition
    ) AND NOT EXISTS (
        FROM fresh_starts AS f
        WHERE f.grp = r.grp AND f.pos < r.pos
            AND (f.pos > i.ended_pos OR f.is_assignment AND f.pos = i.ended_pos)
    )
    GROUP BY ALL
), unseen AS (
    SELECT m.grp, m.rebalance, count(DISTINCT (n.topic, n.partition)) AS unseen
    FROM moments AS m
    JOIN named AS n ON n.grp = m.grp AND n.pos = m.completed_pos
    JOIN forgotten AS f
        ON f.grp = n.grp AND f.topic = n.topic AND f.partition = n.partition
        AND f.pos < n.pos AND f.member <> n.member
    -- Its coordinator learns who has it once it is given to anyone.
    WHERE NOT EXISTS (
        FROM named AS o
        WHERE o.grp = f.grp AND o.topic = f.topic AND o.partition = f.partition
            AND o.pos > f.pos AND o.pos < n.pos
    ) AND NOT EXISTS (
        FROM fresh_starts AS s WHERE s.grp = f.grp AND s.pos > f.pos AND s.pos < n.pos
    )
    GROUP BY ALL
), quiet AS (
    SELECT grp, rebalance, sum(to_ms - from_ms) AS quiet FROM silences GROUP BY ALL
), had AS (
    SELECT e.grp, e.rebalance, g.holder, g.topic, g.partition
    FROM earlier AS e JOIN given AS g ON g.grp = e.grp AND g.pos = e.pos AND e.assigns
), has AS (
    SELECT m.grp, m.rebalance, g.holder, g.topic, g.partition
    FROM moments AS m JOIN given AS g ON g.grp = m.grp AND g.pos = m.completed_pos
), kept AS (
    SELECT grp, rebalance, count(*) AS kept
    FROM had SEMI JOIN has USING (grp, rebalance, holder, topic, partition) GROUP BY ALL
), keepable AS (
    SELECT grp, rebalance, sum(least(before, after)) AS keepable
    FROM (SELECT grp, rebalance, holder, count(*) AS before FROM had GROUP BY ALL)
    JOIN (SELECT grp, rebalance, holder, count(*) AS after FROM has GROUP BY ALL)
        USING (grp, rebalance, holder)
    GROUP BY ALL
), caused AS (
    SELECT grp, rebalance, CAST(started ->> 'follows' AS BIGINT) AS follows,
        coalesce(started ->> 'cause', (joined ->> 'cause'), (completed ->> 'cause')) AS cause
    FROM moments
), rooted AS (
    SELECT c.*, (
        SELECT max(r.rebalance) FROM caused AS r
        WHERE r.grp = c.grp AND r.rebalance <= c.rebalance
            AND (r.follows IS NULL OR r.rebalance = 1)
    ) AS root
    FROM caused AS c
), chained AS (
    SELECT r.grp, r.rebalance, r.follows, r.cause, r.root,
        list(c.cause ORDER BY c.rebalance) AS cause_chain
    FROM rooted AS r
    JOIN caused AS c
        ON c.grp = r.grp AND c.rebalance BETWEEN r.root AND r.rebalance
    GROUP BY ALL
)
SELECT
    m.grp AS "group",
    m.rebalance,
    m.node,
    m.started_ms,
    m.joined_ms,
    m.ended_ms,
    m.outcome,
    (m.started ->> 'from_state') AS from_state,
    CAST(coalesce(
        CASE WHEN m.outcome = 'emptied' THEN (m.last_body ->> 'generation') END,
        (m.joined ->> 'generation'),
        (m.completed ->> 'generation'),
        (m.started ->> 'generation')
    ) AS BIGINT) AS generation,
    ch.cause,
    (m.started ->> 'detail') AS detail,
    ch.follows,
    ch.root,
    ch.cause_chain[1] AS root_cause,
    ch.cause_chain,
    (m.joined ->> 'protocol') AS protocol,
    (m.joined ->> 'leader') AS leader,
    json_array_length(m.joined -> 'members') AS members,
    coalesce(mv.came, []) AS came,
    coalesce(mv.went, []) AS went,
    coalesce(CAST(m.joined -> 'dropped' AS VARCHAR[]), []) AS dropped,
    CAST(m.started -> 'awaited' AS VARCHAR[]) AS awaited,
    coalesce(la.late, []) AS late,
    mv.detection_ms,
    lasted(m.node, m.started_ms, m.joined_ms) AS prepare_ms,
    CASE WHEN m.outcome = 'completed' THEN lasted(m.node, m.joined_ms, m.ended_ms) END AS complete_ms,
    lasted(m.node, m.started_ms, m.ended_ms) AS total_ms,
    CASE WHEN m.outcome = 'emptied' THEN 0 WHEN (m.completed ->> 'assigned') IS NOT NULL THEN (
        SELECT count(DISTINCT (topic, partition)) FROM has
        WHERE has.grp = m.grp AND has.rebalance = m.rebalance
    ) END AS partitions,
    CAST(m.completed ->> 'moved' AS BIGINT) + coalesce(un.unseen, 0) AS moved,
    CAST(m.completed ->> 'revoked' AS BIGINT) AS revoked,
    CASE
        WHEN m.outcome = 'emptied' THEN 0
        WHEN (e.assigns OR e.is_empty) AND (m.completed ->> 'assigned') IS NOT NULL
        THEN coalesce(k.kept, 0)
    END AS kept,
    CASE
        WHEN m.outcome = 'emptied' THEN 0
        WHEN (e.assigns OR e.is_empty) AND (m.completed ->> 'assigned') IS NOT NULL
        THEN coalesce(ka.keepable, 0)
    END AS keepable,
    CAST(m.completed ->> 'needs_rejoin' AS BOOLEAN) AS needs_rejoin,
    CASE WHEN m.outcome IN ('completed', 'superseded', 'emptied') AND e.is_known
        THEN coalesce(su.stopped, 0) END AS stopped_partition_ms,
    CASE WHEN m.outcome IN ('completed', 'superseded', 'emptied') AND e.is_known
        THEN coalesce(qu.quiet, 0) END AS silent_partition_ms
FROM moments AS m
JOIN chained AS ch USING (grp, rebalance)
LEFT JOIN moved AS mv USING (grp, rebalance)
LEFT JOIN late AS la USING (grp, rebalance)
LEFT JOIN earlier AS e USING (grp, rebalance)
LEFT JOIN kept AS k USING (grp, rebalance)
LEFT JOIN keepable AS ka USING (grp, rebalance)
LEFT JOIN stuck AS su USING (grp, rebalance)
LEFT JOIN unseen AS un USING (grp, rebalance)
LEFT JOIN quiet AS qu USING (grp, rebalance)
