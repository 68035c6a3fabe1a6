-- What each node wrote, and what is missing of it.
WITH numbered AS (
    -- Lines that can't be read are not missing, if at least they have their numbers.
    SELECT DISTINCT node, seq FROM raw WHERE seq IS NOT NULL AND NOT is_void
), numbers AS (
    SELECT node, count(*) AS numbers, min(seq) AS first_seq, max(seq) AS last_seq
    FROM numbered GROUP BY node
), copies AS (
    SELECT node, seq, count(*) AS all_of_it, count(DISTINCT text) AS texts
    FROM raw WHERE why IS NULL GROUP BY ALL
), holes AS (
    SELECT node, seq FROM numbered AS n
    WHERE NOT EXISTS (FROM numbered AS m WHERE m.node = n.node AND m.seq = n.seq + 1)
), runs AS (
    SELECT node, seq, kind, (
        SELECT arg_max(p.kind, p.seq) FROM lines AS p
        WHERE p.node = l.node AND p.seq < l.seq AND p.kind IN ('node_started', 'node_stopped')
    ) AS before
    FROM lines AS l WHERE kind = 'node_started'
), backs AS (
    SELECT l.node, max(p.ts - l.ts) AS back_ms
    FROM lines AS l JOIN lines AS p ON p.node = l.node AND p.seq < l.seq AND p.ts > l.ts
    WHERE 'offsets_committed' NOT IN (l.kind, p.kind)
    GROUP BY ALL
), files AS (
    SELECT node, segment, min(seq) AS low, max(seq) AS high, min(ts) AS first_ms,
        max(ts) AS last_ms, count(*) AS copies, count(DISTINCT seq) AS numbers,
        bool_or(is_void) AS is_former
    FROM raw WHERE why IS NULL GROUP BY ALL
), whole_files AS (
    FROM files AS f
    WHERE NOT is_former AND copies = numbers AND numbers = high - low + 1 AND NOT EXISTS (
        FROM files AS o
        WHERE o.node = f.node AND o.segment <> f.segment AND o.low <= f.high AND o.high >= f.low
    )
), steps AS (
    SELECT node, max(-CAST(body ->> 'stepped_ms' AS BIGINT)) AS back_ms
    FROM lines WHERE kind = 'clock_stepped' GROUP BY node
), file_backs AS (
    -- From one file to a later one, commits count, too.
    SELECT l.node, max(p.last_ms - l.first_ms) AS back_ms
    FROM whole_files AS l
    JOIN whole_files AS p ON p.node = l.node AND p.low < l.low AND p.last_ms > l.first_ms
    GROUP BY ALL
), behinds AS (
    SELECT l.node, max(p.ts - l.ts) AS behind_ms
    FROM control AS l
    JOIN control AS p
        ON p.grp = l.grp AND p.stint < l.stint AND p.node <> l.node AND p.ts > l.ts
    GROUP BY ALL
)
SELECT
    node,
    count(*) AS lines,
    any_value(first_seq) AS first_seq,
    any_value(last_seq) AS last_seq,
    min(ts) AS first_ms,
    max(ts) AS last_ms,
    any_value(last_seq - first_seq + 1 - numbers) AS missing,
    (SELECT count(*) - 1 FROM holes WHERE holes.node = lines.node) AS gaps,
    (SELECT sum(all_of_it - texts) FROM copies WHERE copies.node = lines.node) AS duplicates,
    (SELECT count(*) FROM copies WHERE copies.node = lines.node AND texts > 1) AS conflicts,
    (SELECT count(*) FROM runs WHERE runs.node = lines.node) AS starts,
    (
        SELECT count(*) FROM runs WHERE runs.node = lines.node AND before = 'node_started'
    ) AS crashes,
    greatest(
        0,
        (SELECT back_ms FROM backs WHERE backs.node = lines.node),
        (SELECT back_ms FROM steps WHERE steps.node = lines.node),
        (SELECT back_ms FROM file_backs WHERE file_backs.node = lines.node)
    ) AS clock_back_ms,
    coalesce(
        (SELECT behind_ms FROM behinds WHERE behinds.node = lines.node), 0
    ) AS clock_behind_ms
FROM lines JOIN numbers USING (node)
GROUP BY node
