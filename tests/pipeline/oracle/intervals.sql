-- From when until when a holder had a partition.
CREATE TABLE intervals AS
WITH topics AS (
    SELECT *, unnest(map_entries(owns)) AS topic_of FROM statements WHERE owns IS NOT NULL
), owned AS (
    SELECT DISTINCT ON (grp, holder, k, topic, partition) *
    FROM (SELECT *, topic_of.key AS topic, unnest(topic_of.value) AS partition FROM topics)
), steps AS (
    SELECT *, k - lag(k) OVER (PARTITION BY grp, topic, partition, holder ORDER BY k) AS step
    FROM owned
), runs AS (
    -- What was taken from a holder that then claims it was never let go of.
    SELECT *, count(*) FILTER (NOT coalesce(
        step = 1
        OR step = 2 AND kind = 'phase_joined' AND former_kind = 'rebalance_completed', false
    )) OVER (PARTITION BY grp, topic, partition, holder ORDER BY k) AS run
    FROM steps
), whole AS (
    SELECT grp, topic, partition, holder, run,
        arg_min(member, k) AS member, arg_min_null(instance, k) AS instance,
        arg_min(pos, k) AS began_pos, arg_min(at_ms, k) AS from_ms, arg_min(kind, k) AS first_kind,
        arg_min_null(generation, k) AS generation,
        arg_max(is_closed, k) AS is_closed,
        arg_max_null(closing_pos, k) AS closing_pos,
        arg_max_null(own_pos, k) AS own_pos,
        arg_max_null(heard_ms, k) AS heard_ms,
        arg_max(generation, pos) FILTER (kind <> 'phase_joined') AS given_generation,
        max(at_ms) FILTER (kind <> 'phase_joined') AS last_given_ms
    FROM runs GROUP BY ALL
), stopped AS (
    SELECT w.*, h.horizon_ms,
        CASE WHEN w.is_closed THEN c.pos ELSE s.pos END AS ended_pos,
        CASE WHEN w.is_closed THEN c.at_ms ELSE s.at_ms END AS stop_ms,
        CASE
            WHEN coalesce(c.kind, s.kind) IS NULL THEN 'open'
            WHEN w.is_closed AND c.kind = 'group_emptied' THEN 'emptied'
            WHEN w.is_closed AND c.kind = 'group_deleted' THEN 'deleted'
            WHEN w.is_closed OR s.kind = 'group_recovered' THEN 'lost'
            WHEN s.kind = 'rebalance_completed' THEN 'taken'
            WHEN s.kind = 'phase_joined' THEN 'let_go'
            ELSE s.how
        END AS ended,
        s.silent_ms, s.session_ms
    FROM whole AS w
    JOIN horizons AS h ON h.grp = w.grp
    LEFT JOIN control AS c ON w.is_closed AND c.grp = w.grp AND c.pos = w.closing_pos
    LEFT JOIN (SELECT DISTINCT ON (grp, holder, pos) * FROM statements) AS s
        ON NOT w.is_closed AND s.grp = w.grp AND s.holder = w.holder AND s.pos = w.own_pos
), released AS (
    SELECT *, greatest(coalesce(stop_ms, horizon_ms), from_ms) AS to_ms,
        CASE
            WHEN ended = 'taken' THEN coalesce(heard_ms, horizon_ms)
            WHEN ended IN (
                'removed', 'rebalance_expired', 'sync_expired', 'join_expired', 'turned_away',
                'session_expired', 'registration_expired'
            ) THEN greatest(stop_ms, from_ms) - silent_ms + session_ms
        END AS at_most_ms
    FROM stopped
), refused AS (
    SELECT grp, (body ->> 'instance') AS instance, (body ->> 'member') AS member,
        max(at_ms) AS refused_ms
    FROM control WHERE kind = 'member_fenced' GROUP BY ALL
), returns AS (
    SELECT c.grp, c.pos, c.at_ms, (c.body ->> 'instance') AS instance,
        (c.body ->> 'member') AS member, (c.body ->> 'former_member') AS former, r.refused_ms
    FROM control AS c
    LEFT JOIN refused AS r
        ON r.grp = c.grp AND r.instance = (c.body ->> 'instance')
        AND r.member = (c.body ->> 'former_member')
    WHERE c.kind = 'member_replaced'
), edges AS (
    -- The beginnings of the parts into which returns of static members cut an interval.
    SELECT r.*, NULL AS cut_pos, NULL AS cut_ms, r.member AS part_member FROM released AS r
    UNION ALL
    SELECT r.*, b.pos, b.at_ms, b.member
    FROM released AS r
    JOIN returns AS b
        ON b.grp = r.grp AND b.instance = r.instance AND b.pos > r.began_pos
        AND (r.ended_pos IS NULL OR b.pos < r.ended_pos)
), parts AS (
    SELECT e.*, lead(cut_pos) OVER (
        PARTITION BY grp, topic, partition, holder, run ORDER BY cut_pos NULLS FIRST
    ) AS next_pos
    FROM edges AS e
)
SELECT p.grp, p.topic, p.partition, p.holder,
    coalesce(b.former, p.part_member) AS member,
    greatest(p.cut_ms, p.from_ms) AS from_ms,
    coalesce(p.cut_pos, p.began_pos) AS began_pos,
    CASE
        WHEN p.cut_pos IS NOT NULL THEN 'replaced'
        WHEN p.first_kind = 'phase_joined' THEN 'claimed'
        WHEN p.first_kind = 'group_recovered' THEN 'recovered'
        ELSE 'assigned'
    END AS began,
    p.generation,
    coalesce(CASE WHEN b.pos IS NULL THEN p.given_generation ELSE (
        SELECT arg_max(r.generation, r.pos) FROM runs AS r
        WHERE r.grp = p.grp AND r.topic = p.topic AND r.partition = p.partition
            AND r.holder = p.holder AND r.run = p.run AND r.kind <> 'phase_joined'
            AND r.pos < b.pos
    ) END, p.generation) AS last_generation,
    CASE WHEN b.pos IS NULL THEN p.to_ms ELSE greatest(b.at_ms, p.from_ms) END AS to_ms,
    coalesce(b.pos, p.ended_pos) AS ended_pos,
    CASE WHEN b.pos IS NULL THEN p.ended ELSE 'replaced' END AS ended,
    CASE WHEN b.pos IS NULL THEN greatest(p.to_ms, p.at_most_ms)
        ELSE greatest(b.at_ms, b.refused_ms, p.from_ms) END AS released_ms,
    -- Of what was only claimed, when it was last given to anyone.
    coalesce(p.last_given_ms, (
        SELECT max(r.at_ms) FROM runs AS r
        WHERE r.grp = p.grp AND r.topic = p.topic AND r.partition = p.partition
            AND r.kind <> 'phase_joined' AND r.pos < p.began_pos
    ), p.from_ms) AS given_ms
FROM parts AS p LEFT JOIN returns AS b ON b.grp = p.grp AND b.pos = p.next_pos
