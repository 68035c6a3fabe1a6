-- One row for each thing to look into, without its sentence; the rules are in the order of the
-- documentation's.
WITH doubled AS (
    SELECT *, sure_ms > 0 AS is_sure FROM ownership_faults WHERE fault = 'overlap'
), double_owners AS (
    SELECT "group",
        CASE WHEN is_sure THEN 'overlap' ELSE 'possible_overlap' END AS rule,
        CASE WHEN is_sure THEN 'wrong' ELSE 'note' END AS severity,
        '' AS about, NULL AS saves_partition_ms, min(from_ms) AS from_ms, max(to_ms) AS to_ms,
        MAP {
            'times': said(count(*)),
            'partitions': said(count(DISTINCT (topic, partition))),
            'longest_ms': said(max(most_ms)),
            'causes': array_to_string(list_sort(list(DISTINCT cause)), ', ')
        } AS evidence
    FROM doubled GROUP BY "group", is_sure
), unowned AS (
    SELECT *, began = 'let_go' AND next_holder IS NOT DISTINCT FROM holder AS came_back
    FROM ownership_faults WHERE fault = 'gap'
), handed_back AS (
    SELECT "group", sum(most_ms) AS all_ms,
        sum(most_ms) FILTER (came_back) AS back_ms,
        count(*) FILTER (came_back) AS times,
        min(from_ms) FILTER (came_back) AS from_ms,
        max(to_ms) FILTER (came_back) AS to_ms
    FROM unowned GROUP BY "group"
), eager_protocols AS (
    SELECT "group", arg_max(protocol, rebalance) AS protocol FROM rebalances
    WHERE protocol IN ('range', 'roundrobin', 'sticky') GROUP BY "group"
), eager AS (
    SELECT "group", 'eager', 'costly', '', back_ms, from_ms, to_ms,
        MAP {'protocol': protocol, 'stopped_ms': said(all_ms), 'times': said(times)}
    FROM handed_back JOIN eager_protocols USING ("group")
    WHERE back_ms >= 1000 AND 10 * back_ms >= all_ms
), without_owner AS (
    SELECT "group", 'without_owner', 'wrong', '', NULL, min(from_ms), max(to_ms),
        MAP {
            'partitions': said(count(DISTINCT (topic, partition))),
            'stopped_ms': said(sum(most_ms))
        }
    FROM unowned WHERE is_open GROUP BY "group" HAVING max(to_ms) - min(from_ms) >= 10000
), latest_assignments AS (
    FROM rebalances WHERE outcome = 'completed' AND partitions IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY "group" ORDER BY rebalance DESC) = 1
), idle_members AS (
    SELECT "group", 'idle_members', 'note', '', NULL, ended_ms, ended_ms,
        MAP {'members': said(members), 'partitions': said(partitions)}
    FROM latest_assignments WHERE members > partitions AND partitions > 0
), silenced AS (
    SELECT *, silent_ms + back_after_ms AS silence_ms FROM member_sessions
    WHERE ended = 'session_expired' AND session_timeout_ms > 0
), silences AS (
    SELECT "group", identity, count(*) AS times, max(session_timeout_ms) AS limit_ms,
        list(silence_ms ORDER BY silence_ms) FILTER (back_after_ms <= 600000) AS all_ms,
        min(ended_ms) AS from_ms, max(ended_ms) AS to_ms
    FROM silenced GROUP BY ALL HAVING count(*) FILTER (back_after_ms <= 600000) >= 3
), proposals AS (
    SELECT s.*, min(p.s * 1000) AS proposal_ms
    FROM silences AS s
    JOIN unnest([6, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300]) AS p(s)
        ON p.s * 1000 > s.limit_ms
        -- How many four fifths are, if they are no whole number: one more.
        AND p.s * 1000 > s.all_ms[(4 * len(s.all_ms) + 4) // 5]
    GROUP BY ALL
), left_over AS (
    SELECT *, times - len([each for each in all_ms if each < proposal_ms]) AS still FROM proposals
), timed_out AS (
    SELECT "group", sum(stopped_partition_ms) AS stopped_ms,
        count(*) FILTER (root = rebalance) AS chains
    FROM rebalances WHERE root_cause = 'session_expired' GROUP BY "group"
), session_timeout AS (
    SELECT "group", 'session_timeout', 'costly', identity,
        stopped_ms * least(times - still, chains) // chains, from_ms, to_ms,
        MAP {
            'times': said(times), 'left': said(still), 'limit_ms': said(limit_ms),
            'proposal_ms': said(proposal_ms), 'silences_ms': array_to_string(all_ms[1:100], ', ')
        }
    FROM left_over LEFT JOIN timed_out USING ("group")
), rebalance_timeout AS (
    SELECT "group", 'rebalance_timeout', 'costly', arg_min(identity, (ended_ms, member)),
        NULL, min(ended_ms), max(ended_ms),
        MAP {
            'times': said(count(*)),
            'members': said(count(DISTINCT identity)),
            'limit_ms': said(nullif(max(rebalance_timeout_ms), 0))
        }
    FROM member_sessions WHERE ended IN ('rebalance_expired', 'sync_expired') GROUP BY "group"
), restarts AS (
    SELECT "group", 'restarts', 'costly', '', NULL, min(ended_ms), max(ended_ms),
        MAP {
            'times': said(count(*)),
            'members': said(count(DISTINCT identity)),
            'median_ms': said(CAST(floor(median(back_after_ms)) AS BIGINT)),
            'longest_ms': said(max(back_after_ms))
        }
    FROM member_sessions
    WHERE kind = 'dynamic' AND ended = 'left' AND back_after_ms <= 300000
    GROUP BY "group" HAVING count(*) >= 3
), flapping AS (
    SELECT "group", 'flapping', 'costly', identity, NULL,
        min(joined_ms), max(coalesce(ended_ms, joined_ms)),
        MAP {
            'times': said(count(*)),
            'within_hour': said(max(returns)),
            'how': said(arg_max(ended, (joined_ms, ended_ms)) FILTER (ended <> 'open'))
        }
    FROM member_sessions WHERE is_flapping GROUP BY "group", identity
), slowest AS (
    SELECT "group", started_ms, joined_ms, late[1].after_ms AS after_ms,
        coalesce(late[1].instance, nullif(late[1].host, ''), late[1].member) AS who
    -- If the first phase never ended, the last member to join is unknown.
    FROM rebalances WHERE late[1].after_ms >= 1000 AND joined_ms IS NOT NULL
), waits AS (
    SELECT "group", who, count(*) AS times, sum(after_ms) AS waited_ms,
        min(started_ms) AS from_ms, max(joined_ms) AS to_ms,
        sum(sum(after_ms)) OVER (PARTITION BY "group") AS all_ms
    FROM slowest GROUP BY "group", who
), slow_member AS (
    SELECT "group", 'slow_member', 'costly', who, NULL, from_ms, to_ms,
        MAP {'times': said(times), 'waited_ms': said(waited_ms), 'all_ms': said(all_ms)}
    FROM waits WHERE times >= 3 AND 2 * waited_ms >= all_ms
), refused AS (
    SELECT grp, at_ms, (body ->> 'instance') AS instance,
        [(body ->> 'host'), (body ->> 'holder_host')] AS hosts
    FROM control WHERE kind = 'member_fenced'
), one_name_for_two AS (
    SELECT grp, 'one_name_for_two', 'wrong', instance, NULL, min(at_ms), max(at_ms),
        MAP {
            'times': said(count(*)),
            'hosts': array_to_string(list_sort(list_distinct(
                [host for host in flatten(list(hosts)) if host <> '']
            )), ' and ')
        }
    FROM refused GROUP BY grp, instance
), offset_went_back AS (
    SELECT "group", 'offset_went_back', 'note', '', NULL, min(first_ms), max(last_ms),
        MAP {
            'times': said(sum(regressions)),
            'partitions': said(count(DISTINCT (topic, partition))),
            'deepest': said(max(deepest_regression))
        }
    FROM commits WHERE regressions > 0 GROUP BY "group"
), journal_gap AS (
    SELECT '', 'journal_gap', 'wrong', node, NULL, first_ms, last_ms,
        MAP {'missing': said(missing), 'gaps': said(gaps), 'conflicts': said(conflicts)}
    FROM nodes WHERE missing > 0 OR conflicts > 0
), clock AS (
    SELECT '', 'clock', 'note', node, NULL, first_ms, last_ms,
        MAP {'clock_back_ms': said(clock_back_ms), 'clock_behind_ms': said(clock_behind_ms)}
    FROM nodes WHERE clock_back_ms > 100 OR clock_behind_ms > 100
), unread_lines AS (
    SELECT '', 'unread_lines', 'note', min(segment), NULL, NULL, NULL,
        MAP {'why': why, 'lines': said(count(*)), 'files': said(count(DISTINCT segment))}
    FROM unread WHERE why <> 'torn' GROUP BY why
)
FROM double_owners
UNION ALL FROM eager
UNION ALL FROM without_owner
UNION ALL FROM idle_members
UNION ALL FROM session_timeout
UNION ALL FROM rebalance_timeout
UNION ALL FROM restarts
UNION ALL FROM flapping
UNION ALL FROM slow_member
UNION ALL FROM one_name_for_two
UNION ALL FROM offset_went_back
UNION ALL FROM journal_gap
UNION ALL FROM clock
UNION ALL FROM unread_lines
