"""What each request needs, how the rest of it is refused, and what of it is asked all the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import API_VERSIONS, ApiKey, encode_response, request_class
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.metrics import error_of
from coterie_server.only_told import to_be_made
from coterie_server.security import Principal
from coterie_server.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from coterie_server.security.authorizer import AccessConfig, Authorizer
from coterie_server.security.screening import (
    FREE,
    LOOK_AGAIN,
    PASS,
    Asking,
    Narrowed,
    Refusal,
    Refused,
    screen,
)
from tests.support.samples import filled
from tests.support.turns import finished

ANN: Final = Principal("User", "ann")
GROUP, TOPIC, CLUSTER = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER
NO_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ID: Final = uuid.UUID(int=7)
UNKNOWN_ID: Final = uuid.UUID(int=8)


class Topics:
    """A node that has the topics `mine` and `theirs`."""

    makes_topics = True
    deletes_topics = True

    def has_topic(self, name: str) -> bool:
        """Whether it is one of the two."""
        return name in ("mine", "theirs")

    def name_of(self, topic_id: uuid.UUID) -> str | None:
        """The id is that of `theirs`."""
        return "theirs" if topic_id == ID else None


class Desk:
    """Screens what Ann asks."""

    def __init__(self, *rights: tuple[ResourceType, str, Operation]) -> None:
        self.authorizer = Authorizer(AccessConfig())
        for kind, name, operation in rights:
            self.grant(kind, name, operation)
        self.topics = Topics()
        self.refusals: list[Refusal] = []

    def grant(self, kind: ResourceType, name: str, operation: Operation) -> None:
        """Allow Ann something more."""
        acl = Acl(kind, name, PatternType.LITERAL, str(ANN), "*", operation, Permission.ALLOW)
        self.authorizer.add(acl)

    def screen(self, message: Any, version: int, *, is_certain: bool = True) -> Any:
        """The verdict."""
        asking = Asking(
            self.authorizer,
            ANN,
            "/10.0.0.1",
            self.topics,
            self.refusals.append,
            is_certain=is_certain,
        )
        return finished(screen(asking, message, version))

    def refused(self, message: Any, version: int | None = None) -> Any:
        """The answer to a request of which nothing is asked; the client can read it."""
        version = _newest(message) if version is None else version
        verdict = self.screen(message, version)
        assert isinstance(verdict, Refused), verdict
        encode_response(verdict.answer, version, 1)
        return verdict.answer

    def narrowed(self, message: Any, version: int | None = None) -> Narrowed:
        """What is asked of a request, and how its answer is completed."""
        verdict = self.screen(message, _newest(message) if version is None else version)
        assert isinstance(verdict, Narrowed), verdict
        return verdict


def _newest(message: Any) -> int:
    (api,) = (api for api in API_VERSIONS if request_class(api) is type(message))
    return API_VERSIONS[api].last


def completed(verdict: Narrowed, answer: Any) -> Any:
    """What the client is answered."""
    return finished(verdict.complete(answer))


CHECKED = [api for api in ApiKey if request_class(api) not in FREE]


@pytest.mark.parametrize("api", CHECKED)
def test_a_client_without_rights_gets_nothing_in_any_version(api: ApiKey) -> None:
    desk = Desk()
    for version in range(API_VERSIONS[api].first, API_VERSIONS[api].last + 1):
        message = filled(request_class(api), version)
        verdict = desk.screen(message, version)
        if isinstance(verdict, Refused):
            assert error_of(verdict.answer) in {
                NO_GROUP,
                NO_TOPIC,
                NO_CLUSTER,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            }
            encode_response(verdict.answer, version, 1)
        else:
            # Nothing in these samples that could be allowed, or the answer is completed later.
            assert api in {
                ApiKey.DELETE_TOPICS,
                ApiKey.FETCH,
                ApiKey.FIND_COORDINATOR,
                ApiKey.LIST_GROUPS,
                ApiKey.METADATA,
                ApiKey.PRODUCE,
            }


@pytest.mark.parametrize("api", [api for api in ApiKey if request_class(api) in FREE])
def test_what_comes_before_authentication_is_free(api: ApiKey) -> None:
    assert Desk().screen(filled(request_class(api), 0), 0) is PASS


# -- groups ------------------------------------------------------------------------------------


def heartbeat(group: str) -> m.HeartbeatRequest:
    """One of a member."""
    return m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


def test_read_on_the_group_lets_a_member_be_one() -> None:
    desk = Desk((GROUP, "g", Operation.READ))
    assert desk.screen(heartbeat("g"), 4) is PASS
    assert desk.refused(heartbeat("h")).error_code == NO_GROUP
    leave = m.LeaveGroupRequest(group_id="h")
    assert desk.refused(leave).error_code == NO_GROUP
    assert desk.refusals == [Refusal(Operation.READ, GROUP, "h")] * 2


@pytest.mark.parametrize(("version", "protocol"), [(6, ""), (7, None)])
def test_a_refused_join_names_no_protocol(version: int, protocol: str | None) -> None:
    join = m.JoinGroupRequest(
        group_id="g", session_timeout_ms=1, member_id="m", protocol_type="c", protocols=()
    )
    answer = Desk().refused(join, version)
    found = (answer.error_code, answer.protocol_name, answer.member_id, answer.generation_id)
    assert found == (NO_GROUP, protocol, "", -1)


def test_a_sync_without_its_protocol_is_refused_for_that_first() -> None:
    sync = m.SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())
    assert Desk().screen(sync, 5) is PASS
    assert Desk().refused(sync, 4).error_code == NO_GROUP


def offsets(*topics: str) -> m.OffsetCommitRequest:
    """A commit."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=None
    )
    return m.OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            m.OffsetCommitRequestTopic(name=topic, partitions=(partition,)) for topic in topics
        ),
    )


def committed(error: int, topic: str) -> m.OffsetCommitResponseTopic:
    """What is answered of a topic."""
    partition = m.OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return m.OffsetCommitResponseTopic(name=topic, partitions=(partition,))


def test_a_commit_goes_on_without_the_topics_that_may_not_be_read() -> None:
    desk = Desk((GROUP, "g", Operation.READ), (TOPIC, "mine", Operation.READ))
    verdict = desk.narrowed(offsets("mine", "theirs"))
    assert verdict.message == offsets("mine")
    answer = completed(verdict, m.OffsetCommitResponse(topics=(committed(0, "mine"),)))
    assert answer.topics == (committed(0, "mine"), committed(NO_TOPIC, "theirs"))
    assert desk.screen(offsets("mine"), 9) is PASS
    assert desk.refused(offsets("theirs")).topics == (committed(NO_TOPIC, "theirs"),)


def test_a_commit_to_a_foreign_group_is_refused_at_each_partition() -> None:
    assert Desk().refused(offsets("mine")).topics == (committed(NO_GROUP, "mine"),)


def test_deleted_offsets_keep_the_groups_own_error() -> None:
    desk = Desk((GROUP, "g", Operation.DELETE))
    partition = m.OffsetDeleteRequestPartition(partition_index=3)
    topic = m.OffsetDeleteRequestTopic(name="theirs", partitions=(partition,))
    verdict = desk.narrowed(m.OffsetDeleteRequest(group_id="g", topics=(topic,)))
    assert verdict.message.topics == ()
    unknown = m.OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=())
    assert completed(verdict, unknown) == unknown
    (told,) = completed(verdict, m.OffsetDeleteResponse(topics=())).topics
    assert (told.name, told.partitions[0].error_code) == ("theirs", NO_TOPIC)


def test_fetched_offsets_of_all_topics_leave_out_those_that_may_not_be_known() -> None:
    desk = Desk((GROUP, "g", Operation.DESCRIBE), (TOPIC, "mine", Operation.WRITE))
    verdict = desk.narrowed(m.OffsetFetchRequest(group_id="g", topics=None), 7)
    both = tuple(m.OffsetFetchResponseTopic(name=n, partitions=()) for n in ("mine", "theirs"))
    answer = completed(verdict, m.OffsetFetchResponse(topics=both))
    assert [topic.name for topic in answer.topics] == ["mine"]
    assert desk.refusals == []


@pytest.mark.parametrize("version", [0, 1])
def test_early_clients_read_the_refusal_at_the_partition(version: int) -> None:
    topic = m.OffsetFetchRequestTopic(name="t", partition_indexes=(4,))
    answer = Desk().refused(m.OffsetFetchRequest(group_id="g", topics=(topic,)), version)
    (partition,) = answer.topics[0].partitions
    assert (partition.partition_index, partition.error_code) == (4, NO_GROUP)


def test_one_of_many_groups_may_be_fetched() -> None:
    desk = Desk((GROUP, "b", Operation.READ), (TOPIC, "mine", Operation.READ))
    topics = tuple(
        m.OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in ("theirs", "mine")
    )
    groups = tuple(
        m.OffsetFetchRequestGroup(group_id=group, topics=topics) for group in ("a", "b", "c")
    )
    verdict = desk.narrowed(m.OffsetFetchRequest(groups=groups))
    assert [(g.group_id, [t.name for t in g.topics]) for g in verdict.message.groups] == [
        ("b", ["mine"])
    ]
    fetched = m.OffsetFetchResponseTopics(name="mine", partitions=())
    own = m.OffsetFetchResponseGroup(group_id="b", topics=(fetched,))
    answer = completed(verdict, m.OffsetFetchResponse(groups=(own,)))
    assert [(g.group_id, g.error_code) for g in answer.groups] == [
        ("a", NO_GROUP),
        ("b", ErrorCode.NONE),
        ("c", NO_GROUP),
    ]
    assert [t.name for t in answer.groups[1].topics] == ["mine", "theirs"]
    assert answer.groups[1].topics[1].partitions[0].error_code == NO_TOPIC


def test_one_of_many_coordinators_may_be_found() -> None:
    desk = Desk((GROUP, "b", Operation.DESCRIBE))
    asked = m.FindCoordinatorRequest(key_type=0, coordinator_keys=("a", "b"))
    verdict = desk.narrowed(asked)
    assert verdict.message.coordinator_keys == ("b",)
    found = m.Coordinator(
        key="b", node_id=1, host="h", port=1, error_code=ErrorCode.NONE, error_message=""
    )
    answer = completed(verdict, m.FindCoordinatorResponse(coordinators=(found,)))
    assert [(each.key, each.error_code) for each in answer.coordinators] == [
        ("a", NO_GROUP),
        ("b", ErrorCode.NONE),
    ]
    one = desk.refused(m.FindCoordinatorRequest(key="a", key_type=0), 3)
    assert (one.error_code, one.node_id, one.error_message) == (
        NO_GROUP,
        -1,
        "Group authorization failed.",
    )


def described(group_id: str, error: int = 0) -> m.DescribedGroup:
    """What is told of a group."""
    return m.DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state="",
        protocol_type="",
        protocol_data="",
        members=(),
        authorized_operations=3400 if not error else -(2**31),
    )


def test_described_groups_say_what_may_be_done_with_them() -> None:
    desk = Desk((GROUP, "b", Operation.READ))
    asked = m.DescribeGroupsRequest(groups=("a", "b"), include_authorized_operations=True)
    verdict = desk.narrowed(asked)
    assert verdict.message.groups == ("b",)
    first, second = completed(verdict, m.DescribeGroupsResponse(groups=(described("b"),))).groups
    assert (first.group_id, first.error_code) == ("a", NO_GROUP)
    assert first.authorized_operations == -(2**31)
    assert second.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_groups_are_listed_that_may_be_described_or_all_of_the_cluster() -> None:
    listed = tuple(
        m.ListedGroup(group_id=name, protocol_type="", group_state="", group_type="")
        for name in ("a", "b")
    )
    some = Desk((GROUP, "b", Operation.READ))
    verdict = some.narrowed(m.ListGroupsRequest())
    answer = completed(verdict, m.ListGroupsResponse(groups=listed))
    assert [group.group_id for group in answer.groups] == ["b"]
    assert some.refusals == []
    all_of_them = Desk((CLUSTER, CLUSTER_NAME, Operation.DESCRIBE))
    assert all_of_them.screen(m.ListGroupsRequest(), 5) is PASS


def test_groups_are_deleted_that_may_be() -> None:
    desk = Desk((GROUP, "b", Operation.DELETE))
    verdict = desk.narrowed(m.DeleteGroupsRequest(groups_names=("a", "b", "a")))
    assert verdict.message.groups_names == ("b",)
    done = m.DeletableGroupResult(group_id="b", error_code=0)
    answer = completed(verdict, m.DeleteGroupsResponse(results=(done,)))
    assert [(r.group_id, r.error_code) for r in answer.results] == [("b", 0), ("a", NO_GROUP)]


# -- metadata ----------------------------------------------------------------------------------


def asked_for(*names: str, **fields: Any) -> m.MetadataRequest:
    """Metadata of topics."""
    topics = tuple(m.MetadataRequestTopic(name=name) for name in names)
    return m.MetadataRequest(topics=topics, **fields)


def told(name: str | None, error: int = 0, topic_id: uuid.UUID = ID) -> m.MetadataResponseTopic:
    """What is told of a topic."""
    return m.MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())


def metadata_of(*topics: m.MetadataResponseTopic) -> m.MetadataResponse:
    """What the catalogue answers."""
    return m.MetadataResponse(brokers=(), topics=topics)


def test_a_topic_that_may_not_be_described_is_not_asked_for() -> None:
    desk = Desk((TOPIC, "mine", Operation.DESCRIBE))
    verdict = desk.narrowed(asked_for("mine", "theirs"))
    assert [topic.name for topic in verdict.message.topics] == ["mine"]
    answer = completed(verdict, metadata_of(told("mine")))
    assert [(t.name, t.error_code, t.topic_id.int) for t in answer.topics] == [
        ("mine", 0, ID.int),
        ("theirs", NO_TOPIC, 0),
    ]


def test_of_all_topics_those_are_told_that_may_be_described() -> None:
    desk = Desk((TOPIC, "mine", Operation.DESCRIBE))
    for version, asked in ((12, m.MetadataRequest(topics=None)), (0, asked_for())):
        verdict = desk.narrowed(asked, version)
        answer = completed(verdict, metadata_of(told("mine"), told("theirs")))
        assert [topic.name for topic in answer.topics] == ["mine"]
    assert desk.refusals == []


def test_version_0_tells_nothing_more_when_nothing_may_be_asked() -> None:
    """Since an empty list asks for all topics."""
    verdict = Desk().narrowed(asked_for("theirs"), 0)
    answer = completed(verdict, metadata_of(told("mine"), told("theirs")))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("theirs", NO_TOPIC)]


def test_a_topic_by_its_id_keeps_its_name_to_itself() -> None:
    asked = m.MetadataRequest(topics=(m.MetadataRequestTopic(name=None, topic_id=ID),))
    verdict = Desk().narrowed(asked)
    assert verdict.message == asked
    (topic,) = completed(verdict, metadata_of(told("theirs"))).topics
    assert (topic.name, topic.topic_id, topic.error_code) == (None, ID, NO_TOPIC)


def test_no_topic_is_made_for_a_client_that_may_not_create_it() -> None:
    desk = Desk((TOPIC, "new", Operation.DESCRIBE), (TOPIC, "mine", Operation.DESCRIBE))
    verdict = desk.narrowed(asked_for("new", "mine"))
    assert [topic.name for topic in verdict.message.topics] == ["mine"]
    assert not verdict.message.allow_auto_topic_creation
    assert desk.refusals == [Refusal(Operation.CREATE, TOPIC, "new")]


def test_a_topic_is_made_for_a_client_that_may_create_it() -> None:
    desk = Desk((TOPIC, "new", Operation.DESCRIBE), (TOPIC, "new", Operation.CREATE))
    assert desk.screen(asked_for("new"), 12) is PASS
    everywhere = Desk((TOPIC, "new", Operation.DESCRIBE), (CLUSTER, CLUSTER_NAME, Operation.CREATE))
    assert everywhere.screen(asked_for("new"), 12) is PASS


def test_a_topic_that_is_there_is_not_made_anew_if_it_is_deleted_just_now() -> None:
    verdict = Desk((TOPIC, "mine", Operation.DESCRIBE)).narrowed(asked_for("mine"))
    assert not verdict.message.allow_auto_topic_creation


def test_a_topic_that_is_there_is_not_made_anew_along_with_one_that_may_be() -> None:
    rights = [(TOPIC, name, Operation.DESCRIBE) for name in ("mine", "new")]
    desk = Desk(*rights, (TOPIC, "new", Operation.CREATE))
    narrowed = desk.narrowed(asked_for("mine", "new")).message
    assert [topic.name for topic in narrowed.topics] == ["mine", "new"]
    assert to_be_made(narrowed) == ["new"]


def test_a_node_looks_again_before_it_refuses_to_make_what_it_has_not_heard_of() -> None:
    desk = Desk((TOPIC, "new", Operation.DESCRIBE))
    assert desk.screen(asked_for("new"), 12, is_certain=False) is LOOK_AGAIN


def test_metadata_say_what_may_be_done() -> None:
    desk = Desk(
        (TOPIC, "mine", Operation.READ),
        (CLUSTER, CLUSTER_NAME, Operation.DESCRIBE),
    )
    asked = asked_for(
        "mine",
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = completed(desk.narrowed(asked, 10), metadata_of(told("mine")))
    assert answer.topics[0].topic_authorized_operations == (
        1 << Operation.READ | 1 << Operation.DESCRIBE
    )
    assert answer.cluster_authorized_operations == 1 << Operation.DESCRIBE
    stranger = Desk((TOPIC, "mine", Operation.READ)).narrowed(asked, 10)
    assert completed(stranger, metadata_of()).cluster_authorized_operations == 0


@pytest.mark.parametrize(
    ("topic", "version"),
    [
        (m.MetadataRequestTopic(name=None, topic_id=ID), 11),
        (m.MetadataRequestTopic(name=None), 11),
        (m.MetadataRequestTopic(name=None), 12),
    ],
)
def test_malformed_metadata_are_refused_as_such(
    topic: m.MetadataRequestTopic, version: int
) -> None:
    assert Desk().screen(m.MetadataRequest(topics=(topic,)), version) is PASS


# -- records -----------------------------------------------------------------------------------


def test_records_are_fetched_of_topics_that_may_be_read() -> None:
    desk = Desk((TOPIC, "mine", Operation.READ))
    partition = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    topics = tuple(m.FetchTopic(topic=name, partitions=(partition,)) for name in ("theirs", "mine"))
    message = m.FetchRequest(max_wait_ms=1, min_bytes=1, topics=topics)
    verdict = desk.narrowed(message, 12)
    assert [topic.topic for topic in verdict.message.topics] == ["mine"]
    (refused,) = completed(verdict, m.FetchResponse(responses=())).responses
    assert (refused.topic, refused.partitions[0].error_code) == ("theirs", NO_TOPIC)
    follower = replace(message, replica_id=2)
    assert len(desk.refused(follower, 12).responses) == 2
    by_id = tuple(
        m.FetchTopic(topic_id=topic_id, partitions=(partition,)) for topic_id in (ID, UNKNOWN_ID)
    )
    verdict = desk.narrowed(replace(message, topics=by_id), 13)
    assert [topic.topic_id for topic in verdict.message.topics] == [UNKNOWN_ID]
    assert desk.screen(replace(message, session_epoch=4), 12) is PASS


# -- changes of topics -------------------------------------------------------------------------


def creation(*names: str) -> m.CreateTopicsRequest:
    """Topics to be made."""
    return m.CreateTopicsRequest(
        topics=tuple(
            m.CreatableTopic(
                name=name, num_partitions=1, replication_factor=-1, assignments=(), configs=()
            )
            for name in names
        )
    )


def test_topics_are_created_that_may_be_and_settings_kept_from_those_who_may_not_see_them() -> None:
    desk = Desk((TOPIC, "a", Operation.CREATE))
    verdict = desk.narrowed(creation("a", "b", "twice", "twice"))
    assert [topic.name for topic in verdict.message.topics] == ["a", "twice", "twice"]
    done = m.CreatableTopicResult(
        name="a", error_message=None, num_partitions=1, replication_factor=1
    )
    first, second = completed(verdict, m.CreateTopicsResponse(topics=(done,))).topics
    assert (first.num_partitions, first.topic_config_error_code) == (-1, NO_TOPIC)
    assert (second.name, second.error_code) == ("b", NO_TOPIC)
    assert desk.refusals == [Refusal(Operation.CREATE, TOPIC, "b")]
    everywhere = Desk(
        (CLUSTER, CLUSTER_NAME, Operation.CREATE), (TOPIC, "b", Operation.ALTER_CONFIGS)
    )
    assert everywhere.screen(creation("b"), 7) is PASS


def deletion(*states: m.DeleteTopicState) -> m.DeleteTopicsRequest:
    """Topics to be deleted."""
    return m.DeleteTopicsRequest(topics=states, timeout_ms=1)


def by_name(name: str) -> m.DeleteTopicState:
    """A topic to be deleted, by its name."""
    return m.DeleteTopicState(name=name, topic_id=uuid.UUID(int=0))


def by_id(topic_id: uuid.UUID) -> m.DeleteTopicState:
    """A topic to be deleted, by its id."""
    return m.DeleteTopicState(topic_id=topic_id)


@pytest.mark.parametrize(
    ("rights", "state", "expected"),
    [
        ((), by_name("mine"), ("mine", 0, NO_TOPIC)),
        ((), by_name("missing"), ("missing", 0, NO_TOPIC)),
        ((Operation.DESCRIBE,), by_name("mine"), ("mine", 0, NO_TOPIC)),
        (
            (Operation.DESCRIBE,),
            by_name("missing"),
            ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ),
        ((), by_id(ID), (None, ID.int, NO_TOPIC)),
        ((Operation.DESCRIBE,), by_id(ID), ("theirs", ID.int, NO_TOPIC)),
        ((), by_id(UNKNOWN_ID), (None, UNKNOWN_ID.int, ErrorCode.UNKNOWN_TOPIC_ID)),
    ],
)
def test_a_deletion_that_is_refused_tells_no_more_than_its_client_may_know(
    rights: tuple[Operation, ...],
    state: m.DeleteTopicState,
    expected: tuple[str | None, int, ErrorCode],
) -> None:
    desk = Desk(
        *((TOPIC, name, right) for name in ("mine", "missing", "theirs") for right in rights)
    )
    (result,) = desk.refused(deletion(state)).responses
    assert (result.name, result.topic_id.int, result.error_code) == expected


def test_topics_are_deleted_that_may_be() -> None:
    desk = Desk((TOPIC, "mine", Operation.DELETE))
    verdict = desk.narrowed(deletion(by_name("theirs"), by_name("mine"), by_id(ID)))
    assert verdict.message.topics == (by_name("mine"),)
    old = desk.narrowed(m.DeleteTopicsRequest(topic_names=("theirs", "mine"), timeout_ms=1), 5)
    assert old.message.topic_names == ("mine",)
    everywhere = Desk((CLUSTER, CLUSTER_NAME, Operation.DELETE))
    assert everywhere.screen(deletion(by_id(ID)), 6) is PASS


def test_a_node_looks_again_for_ids_that_it_does_not_know() -> None:
    """Another node may know them, and would take the deletion for allowed."""
    assert Desk().screen(deletion(by_id(UNKNOWN_ID)), 6, is_certain=False) is LOOK_AGAIN


def test_what_can_never_be_deleted_is_refused_for_that() -> None:
    desk = Desk()
    desk.topics.deletes_topics = False
    assert desk.screen(deletion(by_name("mine")), 6) is PASS


# -- rights ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "operation"),
    [
        (ApiKey.DESCRIBE_ACLS, Operation.DESCRIBE),
        (ApiKey.CREATE_ACLS, Operation.ALTER),
        (ApiKey.DELETE_ACLS, Operation.ALTER),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, Operation.DESCRIBE_CONFIGS),
        (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, Operation.DESCRIBE),
        (ApiKey.ALTER_USER_SCRAM_CREDENTIALS, Operation.ALTER),
    ],
)
def test_rights_are_the_clusters(api: ApiKey, operation: Operation) -> None:
    version = API_VERSIONS[api].last
    message = filled(request_class(api), version)
    assert error_of(Desk().refused(message)) == NO_CLUSTER
    allowed = Desk((CLUSTER, CLUSTER_NAME, operation))
    assert allowed.screen(message, version) is PASS


# -- all of them -------------------------------------------------------------------------------


def _topics_of(message: Any) -> list[str]:
    return [topic.name for topic in message.topics]


#: Requests about named things, the right that each of them needs, and the names in the request and
#: in a refusal.
NAMED: Final[dict[str, tuple[Callable[..., Any], Operation, Callable[[Any], list[str]]]]] = {
    "commit": (offsets, Operation.READ, _topics_of),
    "create": (creation, Operation.CREATE, _topics_of),
    "describe": (
        lambda *names: m.DescribeGroupsRequest(groups=names),
        Operation.DESCRIBE,
        lambda message: [getattr(each, "group_id", each) for each in message.groups],
    ),
    "find": (
        lambda *names: m.FindCoordinatorRequest(coordinator_keys=names),
        Operation.DESCRIBE,
        lambda message: [
            getattr(each, "key", each)
            for each in getattr(message, "coordinator_keys", ())
            or getattr(message, "coordinators", ())
        ],
    ),
}


@pytest.mark.parametrize("kind", NAMED)
@given(
    names=st.lists(st.sampled_from("abcdef"), min_size=1, unique=True),
    allowed=st.sets(st.sampled_from("abcdef")),
)
def test_what_is_asked_is_what_is_allowed(kind: str, names: list[str], allowed: set[str]) -> None:
    make, operation, names_in = NAMED[kind]
    desk = Desk((GROUP, "g", Operation.READ))
    for name in allowed:
        for about in (GROUP, TOPIC):
            for right in (operation, Operation.ALTER_CONFIGS):
                desk.grant(about, name, right)
    message = make(*names)
    verdict = desk.screen(message, _newest(message))
    passed = [name for name in names if name in allowed]
    if verdict is PASS:
        assert passed == names
    elif isinstance(verdict, Refused):
        assert not passed
        assert sorted(names_in(verdict.answer)) == sorted(names)
    else:
        assert names_in(verdict.message) == passed
