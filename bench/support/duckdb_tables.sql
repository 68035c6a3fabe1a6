-- Four of the tables in plain SQL, without the care for the odd cases: what the same answers take
-- where one machine is enough.
CREATE TABLE events AS
    SELECT * FROM read_ndjson('{journal}/*.jsonl', columns = {
        ts: 'BIGINT', node: 'VARCHAR', seq: 'BIGINT', "group": 'VARCHAR', kind: 'VARCHAR',
        member: 'VARCHAR', generation: 'BIGINT', cause: 'VARCHAR', how: 'VARCHAR',
        client_id: 'VARCHAR', moved: 'BIGINT', assigned: 'MAP(VARCHAR, MAP(VARCHAR, BIGINT[]))',
        offsets: 'MAP(VARCHAR, MAP(VARCHAR, BIGINT))'
    });

CREATE TABLE rebalances AS
    SELECT "group", rebalance, min(ts) AS started_ms,
        max(ts) FILTER (kind = 'phase_joined') AS joined_ms,
        max(ts) FILTER (kind = 'rebalance_completed') AS ended_ms,
        any_value(cause) AS cause, max(generation) AS generation, max(moved) AS moved
    FROM (
        SELECT *, count(*) FILTER (kind = 'rebalance_started') OVER (
            PARTITION BY "group" ORDER BY ts, seq
        ) AS rebalance
        FROM events
        WHERE kind IN ('rebalance_started', 'phase_joined', 'rebalance_completed')
    )
    GROUP BY "group", rebalance;

CREATE TABLE ownership AS
    WITH held AS (
        SELECT "group", number, ts, next_ms, m.key AS member, t.key AS topic,
            unnest(t.value) AS partition
        FROM (
            SELECT *, unnest(map_entries(m.value)) AS t
            FROM (
                SELECT "group", ts, unnest(map_entries(assigned)) AS m,
                    row_number() OVER in_time AS number, lead(ts) OVER in_time AS next_ms
                FROM events WHERE kind = 'rebalance_completed'
                WINDOW in_time AS (PARTITION BY "group" ORDER BY ts, seq)
            )
        )
    ), runs AS (
        SELECT *, number - row_number() OVER (
            PARTITION BY "group", topic, partition, member ORDER BY number
        ) AS run
        FROM held
    )
    SELECT "group", topic, partition, member, min(ts) AS from_ms,
        max(coalesce(next_ms, (SELECT max(ts) FROM events))) AS to_ms
    FROM runs GROUP BY "group", topic, partition, member, run;

CREATE TABLE member_sessions AS
    SELECT "group", member, min(ts) FILTER (kind = 'member_joined') AS joined_ms,
        max(ts) FILTER (kind = 'member_gone') AS ended_ms, any_value(how) AS ended
    FROM events WHERE kind IN ('member_joined', 'member_gone') GROUP BY "group", member;

CREATE TABLE commits AS
    SELECT "group", topic, partition, ts - ts % 3600000 AS hour_ms, count(*) AS commits,
        max("offset") AS last_offset, sum(greatest(step, 0)) AS advanced,
        count(*) FILTER (step < 0) AS regressions
    FROM (
        SELECT *, "offset" - lag("offset") OVER (
            PARTITION BY "group", topic, partition ORDER BY ts, node, seq
        ) AS step
        FROM (
            SELECT "group", node, seq, ts, t.key AS topic, p.key::BIGINT AS partition,
                p.value AS "offset"
            FROM (
                SELECT *, unnest(map_entries(t.value)) AS p
                FROM (
                    SELECT "group", node, seq, ts, unnest(map_entries(offsets)) AS t
                    FROM events WHERE kind = 'offsets_committed'
                )
            )
        )
    )
    GROUP BY "group", topic, partition, hour_ms;
