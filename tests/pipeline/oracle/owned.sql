-- The times in which a partition has an owner, or several at once, each time counted once.
CREATE TABLE owned AS
WITH since AS (
    -- An owner that overlaps with no earlier one.
    SELECT DISTINCT grp, topic, partition, from_ms FROM intervals AS i
    WHERE NOT EXISTS (
        FROM intervals AS o
        WHERE o.grp = i.grp AND o.topic = i.topic AND o.partition = i.partition
            AND o.from_ms < i.from_ms AND o.to_ms >= i.from_ms
    )
), until AS (
    SELECT DISTINCT grp, topic, partition, to_ms FROM intervals AS i
    WHERE NOT EXISTS (
        FROM intervals AS o
        WHERE o.grp = i.grp AND o.topic = i.topic AND o.partition = i.partition
            AND o.from_ms <= i.to_ms AND o.to_ms > i.to_ms
    )
)
SELECT s.grp, s.topic, s.partition, s.from_ms, min(u.to_ms) AS to_ms
FROM since AS s
JOIN until AS u
    ON u.grp = s.grp AND u.topic = s.topic AND u.partition = s.partition AND u.to_ms >= s.from_ms
GROUP BY ALL
