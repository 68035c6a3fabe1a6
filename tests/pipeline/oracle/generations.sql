-- How many members each generation has, and since when.
CREATE TABLE generations AS
SELECT grp, rebalance,
    CASE WHEN outcome = 'emptied' THEN ended_ms ELSE joined_ms END AS from_ms,
    CASE WHEN outcome = 'emptied' THEN 0
        ELSE coalesce(json_array_length(joined -> 'members'), 0) END AS members
FROM moments
WHERE CASE WHEN outcome = 'emptied' THEN ended_ms ELSE joined_ms END IS NOT NULL
