-- Two owners, or none.
WITH pairs AS (
    SELECT
        a.grp, a.topic, a.partition,
        b.from_ms,
        least(a.released_ms, b.to_ms) AS to_ms,
        greatest(least(a.to_ms, b.to_ms) - b.from_ms, 0) AS sure_ms,
        least(a.released_ms, b.to_ms) - b.from_ms AS most_ms,
        CASE
            WHEN b.began = 'claimed' THEN 'claimed_twice'
            WHEN EXISTS (
                FROM given AS g
                WHERE g.grp = a.grp AND g.pos = b.began_pos AND g.topic = a.topic
                    AND g.partition = a.partition AND g.holder = a.holder
            ) THEN 'assigned_twice'
            WHEN b.from_ms < a.to_ms OR a.ended = 'taken' THEN 'taken_while_held'
            ELSE a.ended
        END AS cause,
        a.ended AS began,
        a.holder, b.holder AS next_holder, a.member, b.member AS next_member
    FROM intervals AS a
    JOIN intervals AS b
        ON b.grp = a.grp AND b.topic = a.topic AND b.partition = a.partition
        -- A process that was replaced is another one than that which has its instance now.
        AND (a.holder <> b.holder OR a.ended = 'replaced' AND a.member <> b.member)
        AND (a.from_ms, a.began_pos, a.holder) < (b.from_ms, b.began_pos, b.holder)
        AND b.from_ms < least(a.released_ms, b.to_ms)
)
SELECT
    p.grp AS "group", p.topic, p.partition, 'overlap' AS fault,
    p.from_ms, p.to_ms, p.sure_ms, p.most_ms, p.cause, p.began,
    CAST(NULL AS BIGINT) AS rebalance, false AS is_open, p.holder, p.next_holder,
    p.member, p.next_member
FROM pairs AS p
UNION ALL
SELECT
    grp, topic, partition, 'silence', from_ms, to_ms, to_ms - from_ms, to_ms - from_ms,
    ended, ended, rebalance, false, holder, NULL, member, NULL
FROM silences
UNION ALL
SELECT
    g.grp, g.topic, g.partition, 'gap',
    g.from_ms, g.to_ms, g.to_ms - g.from_ms, g.to_ms - g.from_ms,
    coalesce(
        (m.started ->> 'cause'), (m.joined ->> 'cause'), (m.completed ->> 'cause'), 'none'
    ),
    g.began,
    m.rebalance, g.is_open, g.holder, g.next_holder, g.member, g.next_member
FROM gaps AS g
LEFT JOIN moments AS m
    ON m.grp = g.grp AND m.rebalance = (
        SELECT max(r.rebalance) FROM moments AS r
        WHERE r.grp = g.grp AND CASE
            WHEN g.is_open THEN r.outcome = 'running'
            -- Of a partition that went with its topic: the one in which it was let go of.
            ELSE r.began_pos <= coalesce(g.to_pos, g.from_pos)
        END
    )
