-- By member id, the instance id and the address that it came from last.
CREATE TABLE people AS
WITH phases AS (
    SELECT grp, pos, unnest(json_transform(body -> 'members', '[{
        "member": "VARCHAR", "instance": "VARCHAR", "host": "VARCHAR"
    }]'), recursive := true)
    FROM control WHERE kind = 'phase_joined'
), named AS (
    SELECT grp, pos, (body ->> 'member') AS member, (body ->> 'instance') AS instance,
        (body ->> 'host') AS host
    FROM control
    WHERE kind IN ('member_joined', 'member_gone', 'member_replaced', 'member_fenced')
    UNION ALL
    SELECT grp, pos, (body ->> 'former_member'), (body ->> 'instance'), (body ->> 'former_host')
    FROM control WHERE kind = 'member_replaced'
    UNION ALL
    SELECT grp, pos, member, instance, host FROM phases
)
SELECT grp, member, max(instance) AS instance, arg_max(host, pos) AS host
FROM named GROUP BY ALL
