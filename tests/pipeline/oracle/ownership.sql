-- One row for each interval.
SELECT
    grp AS "group", topic, partition, holder, member,
    p.instance, p.host,
    from_ms, to_ms, released_ms, generation, last_generation, began, ended
FROM intervals LEFT JOIN people AS p USING (grp, member)
