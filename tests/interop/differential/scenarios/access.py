"""Users and ACLs: who is refused what, in which words, and what is answered all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.schema import NIL_UUID
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
from tests.interop.differential.differences import (
    CLIENTS_FAULT,
    REFUSALS,
    VALID_ACLS,
)
from tests.interop.differential.member import Member, cast, stable
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Script
from tests.interop.differential.transcript import ANY

_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_CLUSTER: Final = ResourceType.CLUSTER
_CLUSTER_NAME: Final = "kafka-cluster"
#: Longer than a broker takes to go by an ACL that it has acknowledged.
_KNOWN_S: Final = 0.5

_R, _W, _D = Operation.READ, Operation.WRITE, Operation.DESCRIBE


def _acl(
    user: str, operation: Operation, kind: ResourceType, name: str, **fields: Any
) -> m.AclCreation:
    values: dict[str, Any] = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": f"User:{user}",
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }
    return m.AclCreation(**values | fields)


async def _grant(s: Script, *acls: m.AclCreation) -> None:
    """Add ACLs, and wait until the broker goes by them."""
    answer = await s.learn(m.CreateAclsRequest(creations=acls), 3)
    assert all(result.error_code == 0 for result in answer.results), answer
    await asyncio.sleep(_KNOWN_S)


def _filter(kind: int = 1, name: str | None = None, pattern: int = 1, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return values | fields


# -- groups ------------------------------------------------------------------------------------


@scenario(Setup.GUARDED, each=ApiKey.JOIN_GROUP)
async def joining_a_foreign_group(s: Script, version: int) -> None:
    """Who may not read a group can't join it, in any version."""
    bob = await Member.of(s, "bob")
    await bob.join(version=version)


@scenario(Setup.GUARDED)
async def members_of_a_foreign_group(s: Script) -> None:
    """Without READ, a client can do nothing in the place of a member."""
    await _grant(s, _acl("ann", _R, _GROUP, s.group), _acl("bob", _D, _GROUP, s.group))
    ann, bob = await cast(s, "ann", "bob")
    await stable(ann)
    bob.id, bob.generation, bob.protocol = ann.id, ann.generation, ann.protocol
    for version in (0, 4):
        await bob.heartbeat(version=version)
    for version in (0, 3, 5):
        await bob.leave(version=version)
    for version in (0, 4, 5):
        await bob.sync(version=version)
    await bob.sync(version=5, protocol_name=None)
    await ann.heartbeat()


@scenario(Setup.GUARDED)
async def a_right_that_is_taken_away(s: Script) -> None:
    """A member that loses its right is refused from then on, and its heartbeats with it."""
    await _grant(s, _acl("ann", _R, _GROUP, s.group))
    (ann,) = await cast(s, "ann")
    await stable(ann)
    await ann.heartbeat()
    wanted = m.DeleteAclsFilter(**_filter(_GROUP, s.group))
    await s.learn(m.DeleteAclsRequest(filters=(wanted,)), 3)
    await asyncio.sleep(_KNOWN_S)
    await ann.heartbeat()
    await _grant(s, _acl("ann", Operation.ALL, _GROUP, s.group))
    await ann.heartbeat()


@scenario(Setup.GUARDED, each=ApiKey.FIND_COORDINATOR)
async def finding_the_coordinator_of_a_foreign_group(s: Script, version: int) -> None:
    """DESCRIBE on a group is needed to find it."""
    await _grant(s, _acl("ann", _W, _GROUP, f"{s.group}+w"), _acl("ann", _R, _GROUP, s.group))
    for user in ("ann", "bob"):
        if version < 4:
            await s.ask(m.FindCoordinatorRequest(key=s.group), version, user)
        else:
            keys = (f"{s.group}+x", s.group, f"{s.group}+w")
            await s.ask(m.FindCoordinatorRequest(coordinator_keys=keys), version, user)


@scenario(Setup.GUARDED, each=ApiKey.DESCRIBE_GROUPS)
async def describing_foreign_groups(s: Script, version: int) -> None:
    """Each group needs DESCRIBE; what else is allowed is told if that is asked for."""
    await _grant(
        s,
        _acl("ann", _R, _GROUP, s.group),
        _acl("ann", Operation.DELETE, _GROUP, s.group),
        _acl("bob", _D, _GROUP, s.group),
    )
    (ann,) = await cast(s, "ann")
    await stable(ann)
    for user in ("ann", "bob", "cleo"):
        fields = {"include_authorized_operations": True} if version >= 3 else {}
        message = m.DescribeGroupsRequest(groups=(s.group, f"{s.group}+x"), **fields)
        await s.ask(message, version, user)


@scenario(Setup.GUARDED)
async def listing_foreign_groups(s: Script) -> None:
    """The groups are listed that may be described."""
    await _grant(s, _acl("ann", _R, _GROUP, s.group, resource_pattern_type=PatternType.PREFIXED))
    a = await Member.of(s, "ann")
    b = await Member.of(s, "ann", group=f"{s.group}+b")
    await stable(a)
    await stable(b)
    for user in ("ann", "bob", "admin"):
        await s.ask(m.ListGroupsRequest(), 4, user)


@scenario(Setup.GUARDED, each=ApiKey.DELETE_GROUPS)
async def deleting_foreign_groups(s: Script, version: int) -> None:
    """Each group needs DELETE, whether or not it exists."""
    await _grant(
        s,
        _acl("ann", _R, _GROUP, s.group),
        _acl("bob", Operation.DELETE, _GROUP, s.group),
        _acl("bob", Operation.DELETE, _GROUP, f"{s.group}+gone"),
    )
    (ann,) = await cast(s, "ann")
    await stable(ann)
    groups = (s.group, f"{s.group}+x", f"{s.group}+gone")
    for user in ("ann", "bob"):
        await s.ask(m.DeleteGroupsRequest(groups_names=groups), version, user)
    await ann.leave()
    await s.ask(m.DeleteGroupsRequest(groups_names=groups), version, "bob")


# -- offsets -----------------------------------------------------------------------------------


@scenario(Setup.GUARDED, each=ApiKey.OFFSET_COMMIT, since=2)
async def committing_to_foreign_topics(s: Script, version: int) -> None:
    """READ is needed on the group, then on each topic; unknown and foreign topics look alike."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(
        s,
        _acl("ann", _R, _GROUP, s.group),
        _acl("ann", _R, _TOPIC, mine),
        _acl("ann", _D, _TOPIC, theirs),
        _acl("bob", _R, _TOPIC, mine),
    )
    ann, bob = await cast(s, "ann", "bob")
    wanted = {(mine, 0): 1, (theirs, 0): 2, (mine, 9): 3, (f"{s.group}.no", 0): 4}
    await ann.commit(wanted, version=version)
    await ann.commit({(theirs, 0): 2}, version=version)
    await bob.commit(wanted, version=version)
    await ann.commit(wanted, version=version, generation=7)
    await s.fetch_offsets()


@scenario(Setup.GUARDED, each=ApiKey.OFFSET_FETCH, since=1)
async def fetching_foreign_offsets(s: Script, version: int) -> None:
    """DESCRIBE is needed on the group, then on each topic; foreign ones are left out of all."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(s, _acl("ann", _R, _GROUP, s.group), _acl("ann", _W, _TOPIC, mine))
    (admin,) = await cast(s, "admin")
    await admin.commit({(mine, 0): 1, (theirs, 0): 2})
    for user in ("ann", "bob"):
        for topics in _some_and_all((mine, theirs)) if version >= 2 else [(mine, theirs)]:
            await s.ask(_fetch(s.group, topics, version), version, user)
    if version >= 8:
        groups = (f"{s.group}+a", s.group, f"{s.group}+b")
        many = tuple(
            m.OffsetFetchRequestGroup(group_id=group, topics=_many((theirs, mine)))
            for group in groups
        )
        for user in ("ann", "bob"):
            await s.ask(m.OffsetFetchRequest(groups=many), version, user)


def _some_and_all(topics: tuple[str, ...]) -> list[tuple[str, ...] | None]:
    return [topics, topics[1:], None]


def _many(topics: Sequence[str] | None) -> tuple[m.OffsetFetchRequestTopics, ...] | None:
    if topics is None:
        return None
    return tuple(m.OffsetFetchRequestTopics(name=t, partition_indexes=(0,)) for t in topics)


def _fetch(group: str, topics: Sequence[str] | None, version: int) -> m.OffsetFetchRequest:
    if version >= 8:
        one = m.OffsetFetchRequestGroup(group_id=group, topics=_many(topics))
        return m.OffsetFetchRequest(groups=(one,))
    asked = (
        None
        if topics is None
        else tuple(m.OffsetFetchRequestTopic(name=t, partition_indexes=(0,)) for t in topics)
    )
    return m.OffsetFetchRequest(group_id=group, topics=asked)


@scenario(Setup.GUARDED)
async def deleting_foreign_offsets(s: Script) -> None:
    """DELETE is needed on the group, then READ on each topic."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(
        s,
        _acl("ann", Operation.DELETE, _GROUP, s.group, resource_pattern_type=PatternType.PREFIXED),
        _acl("ann", _R, _TOPIC, mine),
        _acl("bob", _R, _GROUP, s.group),
    )
    (admin,) = await cast(s, "admin")
    await admin.commit({(mine, 0): 1, (theirs, 0): 2})
    for user, group, topics in (
        ("bob", s.group, (mine,)),
        ("ann", s.group, (theirs,)),
        ("ann", s.group, (mine, theirs)),
        ("ann", f"{s.group}+x", (mine, theirs)),
    ):
        asked = tuple(
            m.OffsetDeleteRequestTopic(
                name=topic, partitions=(m.OffsetDeleteRequestPartition(partition_index=0),)
            )
            for topic in topics
        )
        await s.ask(m.OffsetDeleteRequest(group_id=group, topics=asked), 0, user)
    await s.fetch_offsets()


# -- topics ------------------------------------------------------------------------------------


@scenario(Setup.GUARDED, each=ApiKey.METADATA)
async def metadata_of_foreign_topics(s: Script, version: int) -> None:
    """Foreign topics are refused by name, as unknown ones are, and left out of all."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    unknown = f"{s.group}.unknown"
    await _grant(s, _acl("ann", _D, _TOPIC, mine), _acl("ann", _W, _TOPIC, unknown))
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["allow_auto_topic_creation"] = False
    if version >= 8:
        fields["include_topic_authorized_operations"] = True
    if 8 <= version <= 10:
        fields["include_cluster_authorized_operations"] = True
    names = (mine, theirs, f"{s.group}.none")
    for user in ("ann", "bob"):
        asked = tuple(m.MetadataRequestTopic(name=name) for name in names)
        await s.ask(m.MetadataRequest(topics=asked, **fields), version, user)
        everything = None if version else ()
        await s.ask(m.MetadataRequest(topics=everything, **fields), version, user)


@scenario(Setup.GUARDED)
async def metadata_of_foreign_topics_by_id(s: Script) -> None:
    """An id is no secret; the name that belongs to it is."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(s, _acl("ann", _R, _TOPIC, mine))
    told = await s.learn(m.MetadataRequest(topics=_named(mine, theirs)), 12)
    ids = tuple(
        m.MetadataRequestTopic(name=None, topic_id=topic.topic_id)
        for topic in sorted(told.topics, key=lambda topic: str(topic.name))
    )
    for user in ("ann", "bob"):
        await s.ask(m.MetadataRequest(topics=ids), 12, user)


def _named(*names: str) -> tuple[m.MetadataRequestTopic, ...]:
    return tuple(m.MetadataRequestTopic(name=name) for name in names)


@scenario(Setup.GUARDED)
async def topics_that_may_not_be_made(s: Script) -> None:
    """A topic is only made by itself for those who may create it; others are refused."""
    new = f"{s.group}.new"
    await _grant(s, _acl("ann", _D, _TOPIC, new))
    await s.ask(m.MetadataRequest(topics=_named(new)), 9, "ann")
    await s.ask(m.MetadataRequest(topics=_named(new), allow_auto_topic_creation=False), 9, "admin")


def _creation(*names: str, **fields: Any) -> m.CreateTopicsRequest:
    topics = tuple(
        m.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    )
    return m.CreateTopicsRequest(topics=topics, **fields)


@scenario(Setup.GUARDED, each=ApiKey.CREATE_TOPICS, since=2)
async def creating_foreign_topics(s: Script, version: int) -> None:
    """CREATE is needed on each topic; who may not see its settings is not told them."""
    ok, other = f"{s.group}.ok", f"{s.group}.other"
    await _grant(s, _acl("ann", Operation.CREATE, _TOPIC, ok))
    await s.ask(_creation(ok, other, validate_only=True), version, "ann")
    await s.ask(_creation(other, "__cluster_metadata"), version, "ann")
    await s.ask(_creation(ok, other), version, "bob")
    await s.ask(_creation(ok), version, "ann")
    await s.ask(_creation(ok), version, "ann")


@scenario(Setup.GUARDED, each=ApiKey.DELETE_TOPICS, since=1)
async def deleting_foreign_topics(s: Script, version: int) -> None:
    """DELETE is needed on each topic; without DESCRIBE, a client can't find out what exists."""
    mine, theirs, seen = [await s.new_topic(name) for name in ("mine", "theirs", "seen")]
    gone, nothing = f"{s.group}.gone", f"{s.group}.nothing"
    await _grant(
        s,
        _acl("ann", Operation.DELETE, _TOPIC, mine),
        _acl("ann", Operation.DELETE, _TOPIC, gone),
        _acl("ann", _D, _TOPIC, seen),
        _acl("ann", _D, _TOPIC, nothing),
    )
    names = (mine, theirs, seen, gone, nothing, f"{s.group}.x", theirs, theirs)[:6]
    told = await s.learn(m.MetadataRequest(topics=_named(mine, theirs, seen)), 12)
    if version < 6:
        await s.ask(m.DeleteTopicsRequest(topic_names=names, timeout_ms=5000), version, "ann")
        return
    by_name = tuple(m.DeleteTopicState(name=name, topic_id=NIL_UUID) for name in names)
    by_id = tuple(
        m.DeleteTopicState(name=None, topic_id=topic.topic_id)
        for topic in sorted(told.topics, key=lambda topic: str(topic.name))
        if topic.name != mine
    )
    for topics in (by_id, by_name):
        await s.ask(m.DeleteTopicsRequest(topics=topics, timeout_ms=5000), version, "ann")


@scenario(Setup.GUARDED)
async def growing_foreign_topics(s: Script) -> None:
    """ALTER is needed on each topic."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(s, _acl("ann", Operation.ALTER, _TOPIC, mine))
    topics = tuple(
        m.CreatePartitionsTopic(name=name, count=2, assignments=None)
        for name in (mine, theirs, f"{s.group}.none")
    )
    for user in ("ann", "bob"):
        message = m.CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=True)
        await s.ask(message, 3, user)


@scenario(Setup.GUARDED, each=ApiKey.LIST_OFFSETS)
async def listing_foreign_offsets(s: Script, version: int) -> None:
    """DESCRIBE is needed on each topic."""
    mine, theirs = await s.new_topic("mine"), await s.new_topic("theirs")
    await _grant(s, _acl("ann", _D, _TOPIC, mine))
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    for names in ((mine, theirs), (theirs,)):
        topics = tuple(m.ListOffsetsTopic(name=n, partitions=(partition,)) for n in names)
        await s.ask(m.ListOffsetsRequest(replica_id=-1, topics=topics), version, "ann")


@scenario(Setup.GUARDED, each=ApiKey.FETCH, since=4)
async def fetching_foreign_records(s: Script, version: int) -> None:
    """READ is needed on each topic."""
    theirs = await s.new_topic("theirs")
    await _grant(s, _acl("ann", _D, _TOPIC, theirs))
    told = await s.learn(m.MetadataRequest(topics=_named(theirs)), 12)
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    by_id = {"topic_id": told.topics[0].topic_id} if version >= 13 else {"topic": theirs}
    message = m.FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=(m.FetchTopic(partitions=(partition,), **by_id),),
    )
    await s.ask(message, version, "ann")


# -- ACLs --------------------------------------------------------------------------------------


@scenario(Setup.GUARDED)
async def what_acls_come_to(s: Script) -> None:
    """Denials win, whatever their patterns; hosts, prefixes and all users count."""
    group = s.group
    prefixed = {"resource_pattern_type": PatternType.PREFIXED}
    denied = {"permission_type": Permission.DENY}
    await _grant(
        s,
        _acl("*", _R, _GROUP, f"{group}+all"),
        _acl("bob", _R, _GROUP, f"{group}+all", **denied),
        _acl("ann", Operation.ALL, _GROUP, f"{group}+pre", **prefixed),
        _acl("ann", _R, _GROUP, f"{group}+pre-but", **denied),
        _acl("ann", _D, _GROUP, f"{group}+pre-secret", **denied, **prefixed),
        _acl("ann", _R, _GROUP, f"{group}+here", host="127.0.0.1"),
        _acl("ann", _R, _GROUP, f"{group}+there", host="10.9.8.7"),
        _acl("ann", _R, _GROUP, f"{group}+nothere"),
        _acl("ann", _R, _GROUP, f"{group}+nothere", host="127.0.0.1", **denied),
    )
    suffixes = ("all", "pre", "pre-x", "pre-but", "pre-secret-1", "here", "there", "nothere", "pr")
    for user in ("ann", "bob"):
        for suffix in suffixes:
            name = f"{group}+{suffix}"
            beat = m.HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
            await s.ask(beat, 4, user)
            fields = {"include_authorized_operations": True}
            await s.ask(m.DescribeGroupsRequest(groups=(name,), **fields), 5, user)


@scenario(Setup.GUARDED)
async def acls_of_all_resources(s: Script) -> None:
    """A literal star is every resource of a type, and the cluster has rights of its own."""
    topic = await s.new_topic("t")
    await _grant(
        s,
        _acl("wild", _R, _GROUP, "*"),
        _acl("wild", _D, _TOPIC, "*"),
        _acl("wild", Operation.CREATE, _CLUSTER, _CLUSTER_NAME),
    )
    beat = m.HeartbeatRequest(group_id=s.group, generation_id=1, member_id="m")
    await s.ask(beat, 4, "wild")
    await s.ask(m.MetadataRequest(topics=_named(topic)), 9, "wild")
    await s.ask(_creation(f"{s.group}.new", validate_only=True), 5, "wild")
    refused = await s.ask(m.DescribeAclsRequest(**_filter(_GROUP, "nothing")), 3, "wild")
    refused.differs(REFUSALS, "error_message", kafka=ANY, coterie=_DENIED_TEXT)


_DENIED_TEXT: Final = "Cluster authorization failed."


@scenario(Setup.GUARDED, each=ApiKey.DESCRIBE_ACLS, since=1)
async def acls_are_told(s: Script, version: int) -> None:
    """By resource, to those who may describe the cluster."""
    prefixed = {"resource_pattern_type": PatternType.PREFIXED}
    await _grant(
        s,
        _acl("ann", _R, _GROUP, f"{s.group}-x"),
        _acl("bob", _D, _GROUP, f"{s.group}-x", host="10.0.0.1"),
        _acl("ann", _R, _TOPIC, f"{s.group}-x"),
        _acl("ann", _W, _GROUP, s.group, **prefixed),
        _acl("ann", _W, _GROUP, f"{s.group}-y", permission_type=Permission.DENY),
    )
    asked = f"{s.group}-x"
    for wanted in (
        _filter(1, asked, 3),
        _filter(_GROUP, asked, 1),
        _filter(_GROUP, asked, 2, principal_filter="User:ann"),
        _filter(_GROUP, s.group, 4),
        _filter(_GROUP, f"{s.group}-y", 3, permission_type=2),
        _filter(_GROUP, asked, 3, operation=3),
        _filter(_GROUP, asked, 3, host_filter="10.0.0.1"),
        _filter(_GROUP, asked, 3, principal_filter="User:*"),
    ):
        await s.ask(m.DescribeAclsRequest(**wanted), version)
    answer = await s.ask(m.DescribeAclsRequest(**_filter()), version, "ann")
    answer.differs(REFUSALS, "error_message", kafka=ANY, coterie=_DENIED_TEXT)


@scenario(Setup.GUARDED, each=ApiKey.CREATE_ACLS, since=1)
async def acls_are_added(s: Script, version: int) -> None:
    """Each for itself; what makes no sense is refused, and what is there already is fine."""
    good = _acl("ann", _R, _GROUP, s.group)
    await s.ask(
        m.CreateAclsRequest(
            creations=(
                good,
                _acl("ann", _R, _GROUP, ""),
                _acl("ann", _R, _CLUSTER, "mine"),
            )
        ),
        version,
    )
    for senseless in (
        _acl("ann", _R, ResourceType.ANY, s.group),
        _acl("ann", Operation.ANY, _GROUP, s.group),
        _acl("ann", _R, _GROUP, s.group, permission_type=Permission.ANY),
        _acl("ann", _R, _GROUP, s.group, resource_pattern_type=PatternType.MATCH),
    ):
        answer = await s.ask(m.CreateAclsRequest(creations=(senseless,)), version)
        answer.differs(CLIENTS_FAULT, "results[0].error_code", kafka=-1, coterie=42)
        answer.differs(CLIENTS_FAULT, "results[0].error_message", kafka=None, coterie=ANY)
    await s.ask(m.CreateAclsRequest(creations=(good, good)), version)
    no_clients = _acl("", _R, _GROUP, s.group, principal="Group:staff")
    await s.ask(m.CreateAclsRequest(creations=(no_clients,)), version)
    answer = await s.ask(m.CreateAclsRequest(creations=(good,)), version, "ann")
    answer.differs(REFUSALS, "results[0].error_message", kafka=ANY, coterie=_DENIED_TEXT)
    odd = _acl("ann", _R, _GROUP, s.group, host="10.*")
    answer = await s.ask(m.CreateAclsRequest(creations=(odd,)), version)
    answer.differs(VALID_ACLS, "results[0].error_code", kafka=0, coterie=42)
    answer.differs(VALID_ACLS, "results[0].error_message", kafka="", coterie=ANY)


@scenario(Setup.GUARDED, each=ApiKey.DELETE_ACLS, since=1)
async def acls_are_deleted(s: Script, version: int) -> None:
    """All that match a filter, and each filter tells which."""
    await _grant(
        s, _acl("ann", _R, _GROUP, s.group), _acl("bob", _R, _GROUP, s.group, host="10.0.0.1")
    )
    filters = (
        m.DeleteAclsFilter(**_filter(_TOPIC, s.group)),
        m.DeleteAclsFilter(**_filter(_GROUP, s.group, principal_filter="User:ann")),
        m.DeleteAclsFilter(**_filter(_GROUP, s.group, host_filter="*")),
    )
    refused = await s.ask(m.DeleteAclsRequest(filters=filters), version, "ann")
    for place in range(len(filters)):
        where = f"filter_results[{place}].error_message"
        refused.differs(REFUSALS, where, kafka=ANY, coterie=_DENIED_TEXT)
    await s.ask(m.DeleteAclsRequest(filters=filters), version)
    await asyncio.sleep(_KNOWN_S)
    await s.ask(m.DescribeAclsRequest(**_filter(_GROUP, s.group)), version)


# -- users -------------------------------------------------------------------------------------


def _password(name: str, **fields: Any) -> m.ScramCredentialUpsertion:
    values: dict[str, Any] = {
        "name": name,
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"some salt",
        "salted_password": b"x" * 32,
    }
    return m.ScramCredentialUpsertion(**values | fields)


@scenario(Setup.GUARDED)
async def users_are_altered_and_told(s: Script) -> None:
    """Passwords are set and deleted, once in a request, and only their mechanisms are told."""
    a, b, c = (f"{s.group}-{letter}" for letter in "abc")
    gone = m.ScramCredentialDeletion(name=b, mechanism=1)
    for deletions, upsertions in (
        ((), (_password(a), _password(b, mechanism=2, iterations=16384))),
        ((), (_password(a, mechanism=2),)),
        ((gone,), (_password(c),)),
        ((), (_password(a, iterations=4095), _password(c, iterations=16385))),
        ((), (_password(a, mechanism=0), _password(""), _password(c, mechanism=7))),
        ((), (_password(a), _password(a))),
        ((m.ScramCredentialDeletion(name=b, mechanism=2),), (_password(b),)),
        ((m.ScramCredentialDeletion(name=b, mechanism=2),), ()),
    ):
        message = m.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        await s.ask(message, 0)
        await asyncio.sleep(_KNOWN_S)
        users = tuple(m.UserName(name=name) for name in (a, b, c, c))
        await s.ask(m.DescribeUserScramCredentialsRequest(users=users), 0)


@scenario(Setup.GUARDED)
async def users_are_the_clusters(s: Script) -> None:
    """DESCRIBE and ALTER on the cluster are needed."""
    message = m.AlterUserScramCredentialsRequest(deletions=(), upsertions=(_password("x"),))
    answer = await s.ask(message, 0, "ann")
    answer.differs(REFUSALS, "results[0].error_message", kafka=ANY, coterie=_DENIED_TEXT)
    asked = m.DescribeUserScramCredentialsRequest(users=(m.UserName(name="x"),))
    await s.ask(asked, 0, "ann")


@scenario(Setup.GUARDED, each=ApiKey.DESCRIBE_CLIENT_QUOTAS)
async def quotas_that_there_are_none_of(s: Script, version: int) -> None:
    """DESCRIBE_CONFIGS on the cluster is needed, and a filter that makes sense."""
    names = ("user", 0, "x"), ("user", 1, None), ("user", 2, None), ("ip", 0, "127.0.0.1")
    for asked in ((), *((name,) for name in names), (("user", 0, "x"), ("client-id", 2, None))):
        await s.ask(_quotas(*asked), version)
        await s.ask(_quotas(*asked), version, "ann")
    for asked in (
        (("", 0, "x"),),
        (("group", 0, "x"),),
        (("user", 0, None),),
        (("user", 1, "x"),),
        (("user", 2, "x"),),
        (("user", 3, None),),
        (("user", 0, "x"), ("user", 2, None)),
        (("user", 2, None), ("ip", 2, None)),
    ):
        answer = await s.learn(_quotas(*asked), version)
        s.note(str(asked), [answer.error_code, answer.entries])


def _quotas(*filters: tuple[str, int, str | None]) -> m.DescribeClientQuotasRequest:
    components = tuple(
        m.QuotaFilter(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in filters
    )
    return m.DescribeClientQuotasRequest(components=components, strict=False)
