"""DescribeGroups and ListGroups."""

from __future__ import annotations

from coterie_protocol import ApiKey
from tests.interop.differential.member import Member, cast, stable, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


@scenario(each=ApiKey.DESCRIBE_GROUPS)
async def groups_are_described(s: Script, version: int) -> None:
    """A stable group with a static member, an empty one and a missing one."""
    a = await Member.of(s, "a", instance="i-a")
    b = await Member.of(s, "b")
    other = f"{s.group}+other"
    await stable(a, b)
    c = await Member.of(s, "c", group=other)
    await together(c)
    await s.describe(version=version)
    await s.describe(other, version=version)
    await c.leave()
    await s.describe(other, f"{s.group}+missing", s.group, version=version)
    await s.describe(s.group, s.group, version=version)
    if version >= 3:
        fields = {"include_authorized_operations": True}
        await s.describe(version=version, **fields)
        await s.describe(f"{s.group}+missing", version=version, **fields)


@scenario(each=ApiKey.LIST_GROUPS)
async def groups_are_listed(s: Script, version: int) -> None:
    """Groups in several states, with and without a type."""
    a, b = await cast(s, "a", "b")
    await s.list_groups(version=version)
    await stable(a)
    b.group, b.kind = f"{s.group}+2", "connect"
    await together(b)
    c = await Member.of(s, "c", group=f"{s.group}+3")
    await c.get_id()
    await c.commit(generation=-1, group_id=f"{s.group}+4", member_id="")
    await s.list_groups(version=version)
    join = await (await Member.of(s, "d")).begin()
    await s.list_groups(version=version)
    await a.join()
    await join
    await a.leave()
    await s.list_groups(version=version)


@scenario()
async def lists_are_filtered(s: Script) -> None:
    """States and types are names in any case; what is unknown matches nothing."""
    a, b = await cast(s, "a", "b")
    await stable(a)
    b.group = f"{s.group}+2"
    await together(b)
    c = await Member.of(s, "c", group=f"{s.group}+3")
    await c.get_id()
    for states in (
        ["Stable"],
        ["sTABLE ", " empty"],
        ["CompletingRebalance", "Stable"],
        ["PreparingRebalance"],
        ["Unheard"],
        ["Dead"],
        ["Unheard", "Stable"],
        [""],
    ):
        await s.list_groups(states, version=4)
        await s.list_groups(states)
    for types in (["classic"], ["CLASSIC"], ["consumer"], [" classic"], ["unheard"], [""]):
        await s.list_groups(types=types)
    await s.list_groups(["Stable"], ["consumer"])
    await s.list_groups(["Stable"], ["consumer", "Classic"])


@scenario()
async def members_show_their_last_assignment(s: Script) -> None:
    """Between Stable and the next sync, what members had is still shown; metadata are not."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await b.join(protocols={"range": b"new"}).parked()
    await s.describe()
    await a.join()
    await join
    await s.describe()
    await a.sync({a: b"only a"})
    await s.describe()
