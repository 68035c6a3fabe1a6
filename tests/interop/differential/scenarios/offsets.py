"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import Any

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from tests.interop.differential.differences import GENERATIONS
from tests.interop.differential.member import Member, cast, offsets, stable, subscribed, together
from tests.interop.differential.scenario import scenario
from tests.interop.differential.script import Script


async def _commit(
    s: Script, wanted: dict[tuple[str, int], int], *, version: int = 9, **fields: Any
) -> None:
    """Commit without being a member, as tools do that set offsets."""
    of_partition = {
        name: fields.pop(name)
        for name in ("committed_metadata", "committed_leader_epoch")
        if name in fields
    }
    values = {"group_id": s.group, "topics": offsets(wanted, **of_partition)}
    await s.ask(m.OffsetCommitRequest(**{**values, **fields}), version)


def _nothing_of(topic: str) -> tuple[m.OffsetCommitRequestTopic, ...]:
    return (m.OffsetCommitRequestTopic(name=topic, partitions=()),)


@scenario(each=ApiKey.OFFSET_COMMIT)
async def offsets_are_committed(s: Script, version: int) -> None:
    """A member's offsets are stored with epoch and metadata and replaced by later ones."""
    (a,) = await cast(s, "a")
    await stable(a)
    wanted = {(s.topic, 0): 5, (s.topic, 2): 2**40}
    topics = offsets(wanted, committed_leader_epoch=3, committed_metadata="from a")
    await a.commit(version=version, topics=topics)
    await s.fetch_offsets({s.topic: [0, 1, 2]})
    await a.commit({(s.topic, 0): 6}, version=version)
    await s.fetch_offsets()
    await a.commit(version=version, generation=0)
    await a.commit(version=version, member_id="stranger")


@scenario(each=ApiKey.OFFSET_COMMIT)
async def offsets_without_a_group(s: Script, version: int) -> None:
    """Without a generation a commit makes a group; with one it finds none."""
    (a,) = await cast(s, "a")
    await a.commit(version=version, generation=1, member_id="me")
    await s.describe()
    await a.commit(version=version)
    await s.describe()
    await s.list_groups()
    await s.fetch_offsets()


@scenario(each=ApiKey.OFFSET_FETCH)
async def offsets_are_fetched(s: Script, version: int) -> None:
    """Partitions with and without offsets, all topics, unknown topics and groups."""
    await _commit(s, {(s.topic, 0): 1, (s.topic, 2): 3}, committed_metadata="note")
    await s.fetch_offsets({s.topic: [2, 1, 0], "unknown": [0]}, version=version)
    await s.fetch_offsets({s.topic: [99, -1]}, version=version)
    await s.fetch_offsets({s.topic: []}, version=version)
    await s.fetch_offsets({}, version=version)
    await s.fetch_offsets({s.topic: [0]}, version=version, group=f"{s.group}+unknown")
    if version >= 2:
        await s.fetch_offsets(version=version)
        await s.fetch_offsets(version=version, group=f"{s.group}+unknown")
    if version >= 7:
        await s.fetch_offsets(version=version, require_stable=True)


@scenario()
async def offsets_of_many_groups(s: Script) -> None:
    """Since version 8 one request asks for many groups, each for other topics."""
    other = f"{s.group}+other"
    await _commit(s, {(s.topic, 0): 1})
    await _commit(s, {(s.topic, 1): 2}, group_id=other)
    some = (m.OffsetFetchRequestTopics(name=s.topic, partition_indexes=(0, 1)),)

    def group(group_id: str, topics: Any) -> m.OffsetFetchRequestGroup:
        return m.OffsetFetchRequestGroup(group_id=group_id, topics=topics)

    groups = (group(s.group, some), group(other, None), group(f"{s.group}+unknown", some))
    for version in (8, 9):
        await s.ask(m.OffsetFetchRequest(groups=groups), version)
        await s.ask(m.OffsetFetchRequest(groups=groups, require_stable=True), version)
        await s.ask(m.OffsetFetchRequest(groups=()), version)
        await s.ask(m.OffsetFetchRequest(groups=(groups[0], groups[0])), version)
    named = m.OffsetFetchRequestGroup(group_id=s.group, member_id="me", member_epoch=7, topics=some)
    await s.ask(m.OffsetFetchRequest(groups=(named,)), 9)


@scenario()
async def commits_in_each_state(s: Script) -> None:
    """A member commits while others join and when all is stable, not between join and sync."""
    a, b = await cast(s, "a", "b")
    await a.commit(generation=0)
    await together(a, b)
    await a.commit()
    await a.commit(generation=1)
    await a.commit(member_id="stranger")
    await stable(a, b)
    await a.commit()
    join = await a.join().parked()
    await b.commit()
    await b.commit(generation=9)
    await b.commit(member_id="stranger")
    await b.join()
    await join
    await a.leave()
    await b.leave()
    await b.commit()
    await s.fetch_offsets()


@scenario()
async def commits_by_nobody_in_each_state(s: Script) -> None:
    """A commit without ids is for groups without members; it must not disturb one at work."""
    a, b = await cast(s, "a", "b")
    await _commit(s, {(s.topic, 0): 1})
    await together(a, b)
    await _commit(s, {(s.topic, 0): 2})
    await stable(a, b)
    await _commit(s, {(s.topic, 0): 3})
    join = await a.join().parked()
    await _commit(s, {(s.topic, 0): 4})
    await b.join()
    await join
    await a.leave()
    await b.leave()
    await _commit(s, {(s.topic, 0): 5})
    await s.fetch_offsets()


@scenario()
async def commits_with_half_an_identity(s: Script) -> None:
    """A generation without an id, an id without a generation, an instance without either."""
    a = await Member.of(s, "a", instance="i-a")
    await stable(a)
    await a.commit(generation=-1)
    await a.commit(generation=-1, group_instance_id=None)
    await a.commit(member_id="")
    await a.commit(member_id="", group_instance_id=None)
    await a.commit(generation=-1, member_id="")
    await a.commit(generation=-1, member_id="", group_instance_id="unknown")
    await a.leave()
    await a.commit(generation=-1)
    await a.commit(generation=2)
    await a.commit(generation=-1, member_id="", group_instance_id="unknown")
    await a.commit(generation=-1, member_id="stranger", group_instance_id=None)


@scenario()
async def metadata_of_all_sizes(s: Script) -> None:
    """Metadata may have 4096 UTF-16 units; what is too large fails alone."""
    for number, text in enumerate(("", "é" * 4096, "x" * 4097, "\U0001f600" * 2049)):
        await _commit(s, {(s.topic, number % 3): number}, committed_metadata=text)
    big = offsets({(s.topic, 0): 10}, committed_metadata="x" * 5000)
    small = offsets({(s.topic, 1): 11}, committed_metadata="\U0001f600" * 2048)
    await s.ask(m.OffsetCommitRequest(group_id=s.group, topics=(*big, *small)), 9)
    await s.fetch_offsets()


@scenario()
async def commits_for_unknown_topics(s: Script) -> None:
    """Unknown partitions fail alone, before the group is looked at."""
    (a,) = await cast(s, "a")
    await _commit(s, {("unknown", 0): 1})
    await _commit(s, {(s.topic, 3): 1, (s.topic, -1): 1})
    await _commit(s, {})
    await _commit(s, {}, topics=_nothing_of("unknown"))
    await _commit(s, {}, topics=_nothing_of(s.topic))
    await _commit(s, {}, topics=(*_nothing_of(s.topic), *offsets({("unknown", 0): 1})))
    await a.commit({("unknown", 0): 1}, generation=7, member_id="stranger")
    await s.describe()
    await _commit(s, {("unknown", 0): 1, (s.topic, 3): 1, (s.topic, 1): 1})
    await _commit(s, {(s.topic, 1): 1, (s.topic, 3): 1})
    await a.commit({(s.topic, 1): 1, ("unknown", 1): 1}, generation=7, member_id="stranger")
    await s.fetch_offsets()
    await s.describe()


@scenario()
async def odd_offsets(s: Script) -> None:
    """Offsets are not judged; of two for one partition the last counts."""
    await _commit(s, {(s.topic, 0): -7, (s.topic, 1): 2**63 - 1}, committed_leader_epoch=-5)
    first, second = offsets({(s.topic, 2): 1}), offsets({(s.topic, 2): 2})
    await s.ask(m.OffsetCommitRequest(group_id=s.group, topics=(*first, *second)), 9)
    await s.fetch_offsets()


@scenario()
async def the_group_without_a_name(s: Script) -> None:
    """Offsets can be kept for it, and it can be described and deleted, but not joined.

    That has to be so whether it has offsets or not, and there is only one such group: no other
    scenario may commit for it.
    """
    (a,) = await cast(s, "a")
    await _have_no_members(s, a)
    await a.commit(group_id="", generation=-1)
    await _have_no_members(s, a)
    for version in range(2, 10):
        await a.commit(group_id="", generation=-1, version=version)
        await a.commit(group_id="", generation=1, member_id="me", version=version)
        await a.commit(group_id="", generation=-1, member_id="me", version=version)
    for version in range(1, 10):
        await s.fetch_offsets({s.topic: [0]}, version=version, group="")
    for version in range(7):
        await s.describe("", version=version)
    await s.delete_offsets({s.topic: [0]}, group="")
    for version in range(3):
        await a.commit(group_id="", generation=-1)
        await s.delete_groups("", version=version)
        await s.delete_groups("", version=version)
        await s.describe("")
    await s.fetch_offsets({s.topic: [0]}, group="")


async def _have_no_members(s: Script, a: Member) -> None:
    """Ask for the group without a name as a member would, in all versions."""
    for version in range(10):
        await a.join(group_id="", version=version)
        await a.join(group_id="", member_id="me", version=version)
    for version in range(6):
        await a.sync(group_id="", version=version, protocol_name="range")
        await a.sync(group_id="", version=version, protocol_name="range", member_id="me")
    for version in range(5):
        await a.heartbeat(group_id="", version=version)
        await a.heartbeat(group_id="", version=version, generation_id=0)
        await a.heartbeat(group_id="", version=version, member_id="me")
    for version in range(6):
        await a.leave(group_id="", version=version)
    await s.delete_offsets({s.topic: [1]}, group="")


@scenario()
async def commits_keep_alive(s: Script) -> None:
    """A commit is as good as a heartbeat, even if nothing of it is stored."""
    a, b = await cast(s, "a", "b")
    b.session_ms = 2500
    await stable(a, b)
    for metadata in ("", "x" * 5000, "", "x" * 5000):
        await b.commit(metadata=metadata)
        await a.beats(1.0)
    await b.heartbeat()
    await s.describe()


@scenario()
async def retention_in_the_request(s: Script) -> None:
    """Old versions may say how long an offset is to be kept."""
    for version in (2, 3, 4):
        await _commit(s, {(s.topic, 0): version}, version=version, retention_time_ms=60_000)
        await _commit(s, {(s.topic, 1): version}, version=version, retention_time_ms=-1)
    await s.fetch_offsets()


@scenario()
async def offsets_are_deleted(s: Script) -> None:
    """An empty group's offsets can all be deleted, whether there are any or not."""
    await s.delete_offsets({s.topic: [0]})
    await s.delete_offsets({"unknown": [0]})
    await _commit(s, {(s.topic, 0): 1, (s.topic, 1): 2})
    await s.delete_offsets({s.topic: [0, 2, 3], "unknown": [0]})
    await s.delete_offsets({"unknown": [0]})
    await s.delete_offsets({s.topic: []})
    await s.delete_offsets({"unknown": []})
    await s.delete_offsets({s.topic: [], "unknown": [0]})
    await s.delete_offsets({})
    await s.fetch_offsets()
    await s.delete_offsets({s.topic: [1]})
    await s.describe()


@scenario()
async def subscribed_offsets_are_not_deleted(s: Script) -> None:
    """Of a consumer group at work, only offsets of topics without subscribers can be deleted."""
    used, unused = await s.new_topic("used"), await s.new_topic("unused")
    a = await Member.of(s, "a", protocols={"range": subscribed(used)})
    b = await Member.of(s, "b", protocols={"range": subscribed(s.topic)})
    both: dict[str, Any] = {used: [0], unused: [0], s.topic: [0], "unknown": [0]}
    await stable(a, b)
    await a.commit({(used, 0): 1, (unused, 0): 2, (s.topic, 0): 3})
    await s.delete_offsets(both)
    await s.fetch_offsets()
    join = await a.join(protocols={"range": subscribed(unused)}).parked()
    await s.delete_offsets(both)
    await b.join()
    await join
    await s.delete_offsets(both)
    await a.leave()
    await b.leave()
    await s.delete_offsets(both)
    await s.fetch_offsets()


@scenario()
async def unreadable_subscriptions(s: Script) -> None:
    """A consumer group whose bytes can't be read counts as subscribed to everything."""
    a = await Member.of(s, "a", protocols={"range": b"?"})
    await stable(a)
    await a.commit()
    await s.delete_offsets({s.topic: [0]})
    await s.describe()


@scenario()
async def offsets_of_other_protocol_types(s: Script) -> None:
    """Of a group of another type nothing can be deleted while it has members."""
    a = await Member.of(s, "a", kind="connect", protocols={"default": b"x"})
    await together(a)
    await s.delete_offsets({s.topic: [0], "unknown": [0]})
    await a.sync({a: b""})
    await a.commit()
    await s.delete_offsets({s.topic: [0]})
    await s.delete_offsets({}, group=f"{s.group}+unknown")
    await a.leave()
    await s.delete_offsets({s.topic: [0]})


@scenario()
async def offsets_in_the_first_rebalance(s: Script) -> None:
    """Until the first generation, the subscriptions of a consumer group are unknown."""
    await _commit(s, {(s.topic, 0): 1})
    a, b = await cast(s, "a", "b")
    await b.get_id()
    join = await a.begin(version=3)
    await s.delete_offsets({s.topic: [0]})
    await join
    await s.delete_offsets({s.topic: [0]})


@scenario()
async def a_deleted_topic_takes_its_offsets(s: Script) -> None:
    """Offsets go with their topic, and do not come back with its name."""
    topic = await s.new_topic("gone")
    (a,) = await cast(s, "a")
    await stable(a)
    await a.commit({(topic, 0): 1, (s.topic, 0): 2})
    await s.learn(m.DeleteTopicsRequest(topic_names=(topic,), timeout_ms=10_000), 5)

    async def is_gone() -> bool:
        answer = await s.learn(m.OffsetFetchRequest(group_id=s.group, topics=None), 7)
        return len(answer.topics) == 1

    await s.until(is_gone, "the offsets are gone")
    await s.fetch_offsets({topic: [0], s.topic: [0]})
    await s.until_partitions(topic, 0)
    await s.new_topic("gone")
    await s.fetch_offsets({topic: [0]})
    await a.heartbeat()


@scenario(each=ApiKey.DELETE_GROUPS)
async def groups_are_deleted(s: Script, version: int) -> None:
    """Only groups without members can be deleted, with all that belongs to them."""
    a, b = await cast(s, "a", "b")
    await s.delete_groups(version=version)
    await b.join(group_id=f"{s.group}+pending")
    await s.delete_groups(f"{s.group}+pending", version=version)
    await b.join(group_id=f"{s.group}+pending")
    await together(a)
    await s.delete_groups(version=version)
    await a.sync({a: b""})
    await a.commit()
    await s.delete_groups(s.group, f"{s.group}+unknown", s.group, version=version)
    await a.leave()
    await s.delete_groups(s.group, f"{s.group}+unknown", version=version)
    await s.describe()
    await s.list_groups()
    await s.fetch_offsets()
    await a.heartbeat()


@scenario()
async def groups_are_not_deleted_while_members_join(s: Script) -> None:
    """A group in the first phase can't be deleted."""
    a, b = await cast(s, "a", "b")
    await stable(a, b)
    join = await a.join().parked()
    await s.delete_groups()
    await b.join()
    await join


@scenario()
async def generations_after_a_deletion(s: Script) -> None:
    """Kafka starts to count again when a group is deleted, Coterie goes on."""
    (a,) = await cast(s, "a")
    await stable(a)
    await a.leave()
    await s.delete_groups()
    again = await Member.of(s, "again")
    await again.get_id()
    reply = await again.join()
    reply.differs(GENERATIONS, "generation_id", kafka=1, coterie=3)
