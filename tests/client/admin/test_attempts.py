"""Where an administrator's requests go, how often, and what is raised in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coterie_client.admin import Admin, MemberRef, NewTopic, Timing, silence
from coterie_client.errors import (
    BatchFailedError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    UnexpectedAnswerError,
    VersionNotSpokenError,
    WrongServerError,
)
from coterie_client.wire import NodeAddress, RetryOptions, network
from coterie_client.wire.dialling import dial_tcp
from coterie_protocol import API_VERSIONS, ApiKey, Request
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    BrokerNotAvailableError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    LeaderNotAvailableError,
    NotControllerError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from coterie_protocol.messages import (
    Coordinator,
    CreatableTopicResult,
    CreateTopicsResponse,
    DeletableGroupResult,
    DeletableTopicResult,
    DeleteGroupsResponse,
    DeleteTopicsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    LeaveGroupResponse,
    ListedGroup,
    ListGroupsResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    MemberResponse,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie_protocol.schema import VersionRange
from tests.client.wire.doubles import HANG_UP, SILENCE, FakeServer, metadata_of, soon

pytestmark = pytest.mark.asyncio

PROMPT = Timing(timeout_ms=60_000, retry=RetryOptions(base_ms=1, max_ms=1))
PATIENT = Timing(request_timeout_ms=60_000, retry=PROMPT.retry)
#: Time for many attempts on a quick machine, and for two on a very slow one.
SHORT = Timing(timeout_ms=1_500, retry=RetryOptions(base_ms=20, max_ms=20))


class Script:
    """Answers by API: each API's answers in turn, the last of them for good.

    An answer may be a function of the request. Who is not in the script has nothing to say.
    """

    def __init__(self, **answers: Any) -> None:
        self._answers = {
            ApiKey[api]: list(these) if isinstance(these, list) else [these]
            for api, these in answers.items()
        }

    async def answer(self, request: Request) -> Any:
        """Answer a request by what comes next."""
        answers = self._answers[request.api_key]
        chosen = answers.pop(0) if len(answers) > 1 else answers[0]
        return chosen(request) if callable(chosen) else chosen

    def now(self, **answers: Any) -> None:
        """Go on with other answers."""
        self.__init__(**answers)  # type: ignore[misc]  # begins anew


def coordinator(
    address: NodeAddress, node_id: int = 0
) -> Callable[[Request], FindCoordinatorResponse]:
    """A node that coordinates every group, told in the shape that was asked for."""
    host, port = address.host, address.port

    def find(request: Request) -> FindCoordinatorResponse:
        if request.api_version < 4:
            return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
        found = (
            Coordinator(key=k, node_id=node_id, host=host, port=port, error_message=None)
            for k in request.message.coordinator_keys
        )
        return FindCoordinatorResponse(coordinators=tuple(found))

    return find


def no_coordinator(request: Request) -> FindCoordinatorResponse:
    """Nothing coordinates any group yet."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = (
        Coordinator(key=k, node_id=-1, host="", port=-1, error_code=code, error_message="not yet")
        for k in request.message.coordinator_keys
    )
    return FindCoordinatorResponse(coordinators=tuple(found))


def deleted(**codes: int) -> DeleteGroupsResponse:
    """What became of groups."""
    results = (DeletableGroupResult(group_id=g, error_code=code) for g, code in codes.items())
    return DeleteGroupsResponse(results=tuple(results))


def created(code: int = 0) -> CreateTopicsResponse:
    """What became of a topic `t`."""
    topic = CreatableTopicResult(name="t", error_code=code, num_partitions=1)
    return CreateTopicsResponse(topics=(topic,))


def topic_of(*leaders: int, code: int = 0) -> MetadataResponseTopic:
    """A topic `t`, whose partitions have these leaders."""
    partitions = (
        MetadataResponsePartition(
            partition_index=n, leader_id=leader, replica_nodes=(0,), isr_nodes=(0,)
        )
        for n, leader in enumerate(leaders)
    )
    return MetadataResponseTopic(name="t", error_code=code, partitions=tuple(partitions))


def cluster(
    *addresses: NodeAddress, topic: MetadataResponseTopic | None = None, controller: int = 0
) -> MetadataResponse:
    """Some nodes, and a topic perhaps."""
    nodes = metadata_of(*addresses, controller=controller)
    return MetadataResponse(
        brokers=nodes.brokers,
        controller_id=nodes.controller_id,
        topics=() if topic is None else (topic,),
    )


def times(server: FakeServer, api: ApiKey) -> int:
    """How often a server was asked."""
    return sum(request.api_key is api for request in server.received)


# -- coordinators --------------------------------------------------------------------------------


async def test_moved_coordinator_is_looked_up_again() -> None:
    first, second = Script(), Script()
    async with FakeServer(first.answer) as old, FakeServer(second.answer) as new:
        first.now(
            FIND_COORDINATOR=[coordinator(old.address), coordinator(new.address)],
            DELETE_GROUPS=deleted(g=ErrorCode.NOT_COORDINATOR),
        )
        second.now(DELETE_GROUPS=deleted(g=0))
        async with Admin(old.address, timing=PROMPT) as admin:
            await admin.groups.delete("g")
        assert (times(old, ApiKey.DELETE_GROUPS), times(new, ApiKey.DELETE_GROUPS)) == (1, 1)


async def test_node_that_names_a_dead_coordinator_is_not_asked_alone() -> None:
    """It may be cut off from the others."""
    stale, fresh = Script(), Script()
    async with FakeServer(stale.answer) as first, FakeServer(fresh.answer) as other:
        stale.now(FIND_COORDINATOR=coordinator(NodeAddress("127.0.0.1", 9), 1))
        fresh.now(FIND_COORDINATOR=coordinator(other.address), DELETE_GROUPS=deleted(g=0))
        async with Admin([first.address, other.address], timing=PROMPT) as admin:
            await admin.groups.delete("g")
        assert times(first, ApiKey.FIND_COORDINATOR) >= 1


async def test_node_that_names_a_dead_controller_is_not_asked_alone() -> None:
    stale, fresh, dead = Script(), Script(), NodeAddress("127.0.0.1", 9)
    async with FakeServer(stale.answer) as first, FakeServer(fresh.answer) as other:
        stale.now(METADATA=cluster(dead, first.address, other.address))
        fresh.now(
            METADATA=cluster(dead, first.address, other.address, controller=2),
            CREATE_TOPICS=created(),
        )
        async with Admin(first.address, timing=PROMPT) as admin:
            await admin.topics.create("t", 1)
        assert times(first, ApiKey.METADATA) >= 1


async def test_coordinator_is_looked_up_once() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(FIND_COORDINATOR=coordinator(server.address), DELETE_GROUPS=deleted(g=0))
        async with Admin(server.address, timing=PROMPT) as admin:
            await admin.groups.delete("g")
            await admin.groups.delete("g")
        assert times(server, ApiKey.FIND_COORDINATOR) == 1


async def test_only_items_without_a_final_result_are_retried() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DELETE_GROUPS=[
                deleted(a=0, b=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, c=ErrorCode.NON_EMPTY_GROUP),
                deleted(b=0),
            ],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            results = await admin.groups.delete_many(["a", "b", "c"])
        assert {group: result.ok for group, result in results.items()} == {
            "a": True,
            "b": True,
            "c": False,
        }
        asked = [r.message for r in server.received if r.api_key is ApiKey.DELETE_GROUPS]
        assert [message.groups_names for message in asked] == [("a", "b", "c"), ("b",)]


async def test_lookup_of_the_coordinator_is_retried() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=[no_coordinator, coordinator(server.address)],
            DELETE_GROUPS=deleted(g=0),
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            await admin.groups.delete("g")


async def test_lost_connection_is_retried() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DESCRIBE_GROUPS=[HANG_UP, HANG_UP, DescribeGroupsResponse(groups=(_group(),))],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            assert (await admin.groups.describe("g")).state == "Stable"
            assert admin.counters.connections_lost == 2


def _group(**values: Any) -> DescribedGroup:
    group = {"group_state": "Stable", "protocol_type": "consumer", "members": (), **values}
    return DescribedGroup(group_id="g", protocol_data="range", **group)


async def test_last_error_is_raised_with_a_note_on_the_attempts() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DELETE_GROUPS=deleted(g=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )
        async with Admin(server.address, timing=SHORT) as admin:
            with pytest.raises(CoordinatorLoadInProgressError, match="group g") as caught:
                await admin.groups.delete("g")
        asked = times(server, ApiKey.DELETE_GROUPS)
        assert asked > 1
        assert caught.value.__notes__ == [f"Given up after {asked} attempts within 1500 ms."]


async def test_timeout_of_the_last_attempt_does_not_hide_the_error_before() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DELETE_GROUPS=[deleted(g=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), SILENCE],
        )
        async with Admin(server.address, timing=SHORT) as admin:
            with pytest.raises(CoordinatorLoadInProgressError):
                await admin.groups.delete("g")
        assert times(server, ApiKey.DELETE_GROUPS) == 2


async def test_unreachable_cluster_is_tried_until_the_timeout() -> None:
    async with FakeServer() as server:
        address = server.address
    async with Admin(address, timing=SHORT) as admin:
        with pytest.raises(ConnectionFailedError, match=str(address)):
            await admin.topics.list()
        assert admin.counters.connections_failed > 1


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid"])
async def test_client_that_fails_fast_attempts_once_to_reach_a_cluster(host: str) -> None:
    patient = Timing(timeout_ms=600_000, fail_fast=True)
    async with Admin(NodeAddress(host, 1), timing=patient) as admin:
        with pytest.raises(ConnectionFailedError):
            await admin.topics.list()
        with pytest.raises(ConnectionFailedError):
            await admin.groups.describe("g")
        assert admin.counters.connections_failed == 2


async def test_client_that_fails_fast_tries_every_node_it_was_given() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(METADATA=cluster(server.address))
        nodes = (NodeAddress("127.0.0.1", 1), server.address)
        async with Admin(nodes, timing=Timing(fail_fast=True)) as admin:
            assert await admin.topics.list() == ()


async def test_client_that_fails_fast_is_patient_with_a_cluster_it_has_reached() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(METADATA=cluster(server.address))
        timing = Timing(
            timeout_ms=10_000, retry=RetryOptions(base_ms=20, max_ms=20), fail_fast=True
        )
        async with Admin(server.address, timing=timing) as admin:
            await admin.topics.list()
            await server.stop()
            listing = asyncio.create_task(admin.topics.list())
            await soon(lambda: admin.counters.connections_failed > 1)
            await server.start()
            assert await listing == ()


async def test_client_that_fails_fast_says_which_server_named_an_address_that_refuses() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(FIND_COORDINATOR=coordinator(NodeAddress("127.0.0.1", 1)))
        patient = Timing(timeout_ms=600_000, fail_fast=True)
        async with Admin(server.address, timing=patient) as admin:
            with pytest.raises(ConnectionFailedError, match="A server of the cluster named") as it:
                await admin.groups.describe("g")
        assert it.value.is_advertised


async def test_server_of_another_kind_is_not_tried_again() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, Admin(NodeAddress(*server.sockets[0].getsockname())) as admin:
        with pytest.raises(WrongServerError, match="answers HTTP"):
            await admin.topics.list()
        assert admin.counters.connections_failed == 1


async def test_silent_node_costs_one_request_timeout() -> None:
    script = Script()
    timing = Timing(request_timeout_ms=100, retry=PROMPT.retry)
    async with FakeServer(script.answer) as server:
        script.now(METADATA=[SILENCE, cluster(server.address, topic=topic_of(0))])
        async with Admin(server.address, timing=timing) as admin:
            assert [topic.name for topic in await admin.topics.list()] == ["t"]
            assert admin.counters.timeouts >= 1


async def test_permanent_error_is_not_retried() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DELETE_GROUPS=deleted(g=ErrorCode.GROUP_AUTHORIZATION_FAILED),
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            with pytest.raises(GroupAuthorizationFailedError):
                await admin.groups.delete("g")
        assert times(server, ApiKey.DELETE_GROUPS) == 1


# -- the controller ------------------------------------------------------------------------------


async def test_moved_controller_is_looked_up_again() -> None:
    first, second = Script(), Script()
    async with FakeServer(first.answer) as old, FakeServer(second.answer) as new:
        nodes = (old.address, new.address)
        first.now(
            METADATA=[
                cluster(*nodes, controller=0),
                cluster(*nodes, controller=1),
                cluster(*nodes, controller=1, topic=topic_of(0)),
            ],
            CREATE_TOPICS=created(ErrorCode.NOT_CONTROLLER),
        )
        second.now(
            CREATE_TOPICS=created(), METADATA=cluster(*nodes, controller=1, topic=topic_of(0))
        )
        async with Admin(old.address, timing=PROMPT) as admin:
            await admin.topics.create("t", 1)
        assert (times(old, ApiKey.CREATE_TOPICS), times(new, ApiKey.CREATE_TOPICS)) == (1, 1)


async def test_unreachable_controller_is_looked_up_again() -> None:
    script = Script()
    async with FakeServer() as stopped:
        gone = stopped.address
    async with FakeServer(script.answer) as server:
        nodes = (gone, server.address)
        script.now(
            METADATA=[cluster(*nodes, controller=0), cluster(*nodes, controller=1)],
            CREATE_TOPICS=created(),
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            await admin.topics.create("t", 1, validate_only=True)
        assert times(server, ApiKey.METADATA) == 2


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        (MetadataResponse(brokers=(), controller_id=-1, topics=()), BrokerNotAvailableError),
        (metadata_of(NodeAddress("other", 1), controller=-1), NotControllerError),
    ],
    ids=["no nodes", "no controller"],
)
async def test_call_waits_for_a_controller(
    metadata: MetadataResponse, error: type[Exception]
) -> None:
    script = Script(METADATA=metadata)
    async with FakeServer(script.answer) as server, Admin(server.address, timing=SHORT) as admin:
        with pytest.raises(error):
            await admin.topics.create("t", 1)
        assert times(server, ApiKey.METADATA) > 1


# -- in doubt ------------------------------------------------------------------------------------


async def test_repeated_deletion_that_finds_nothing_succeeds() -> None:
    script = Script()
    gone = DeletableTopicResult(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    missing = topic_of(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with FakeServer(script.answer) as server:
        script.now(
            METADATA=cluster(server.address, topic=missing),
            DELETE_TOPICS=[HANG_UP, DeleteTopicsResponse(responses=(gone,))],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            await admin.topics.delete("t")
            with pytest.raises(UnknownTopicOrPartitionError):
                await admin.topics.delete("t")


async def test_repeated_creation_that_finds_the_topic_notes_the_doubt() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            METADATA=cluster(server.address, topic=topic_of(0)),
            CREATE_TOPICS=[HANG_UP, created(ErrorCode.TOPIC_ALREADY_EXISTS)],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            with pytest.raises(TopicAlreadyExistsError) as caught:
                await admin.topics.create("t", 1)
            assert "may have been carried out" in caught.value.__notes__[0]
            with pytest.raises(TopicAlreadyExistsError) as caught:
                await admin.topics.create("t", 1)
            assert not hasattr(caught.value, "__notes__")


async def test_create_waits_until_the_topic_is_visible() -> None:
    script = Script()
    missing = topic_of(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with FakeServer(script.answer) as server:
        script.now(
            METADATA=[
                cluster(server.address),
                cluster(server.address, topic=missing),
                cluster(server.address, topic=topic_of(0)),
            ],
            CREATE_TOPICS=created(),
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            assert (await admin.topics.create("t", 1)).partitions == 1
        assert times(server, ApiKey.METADATA) == 3


# -- many nodes ----------------------------------------------------------------------------------


def listed(*groups: str, code: int = 0) -> ListGroupsResponse:
    """The groups of one node."""
    each = (ListedGroup(group_id=g, protocol_type="consumer", group_state="Empty") for g in groups)
    return ListGroupsResponse(error_code=code, groups=tuple(each))


async def test_groups_of_all_nodes_are_listed() -> None:
    first, second = Script(), Script(LIST_GROUPS=listed("a", "c"))
    async with FakeServer(first.answer) as one, FakeServer(second.answer) as two:
        first.now(METADATA=cluster(one.address, two.address), LIST_GROUPS=listed("b"))
        async with Admin(one.address, timing=PROMPT) as admin:
            assert [group.group_id for group in await admin.groups.list()] == ["a", "b", "c"]


async def test_incomplete_list_of_groups_is_an_error() -> None:
    loading = listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first, second = Script(), Script()
    async with FakeServer(first.answer) as one, FakeServer(second.answer) as two:
        both = cluster(one.address, two.address)
        first.now(METADATA=both, LIST_GROUPS=listed("b"))
        second.now(METADATA=both, LIST_GROUPS=loading)
        async with Admin(one.address, timing=SHORT) as admin:
            with pytest.raises(BatchFailedError, match="1 of 2 failed"):
                await admin.groups.list()
        assert times(two, ApiKey.LIST_GROUPS) > 1


async def test_node_that_nobody_can_reach_is_told_of_at_once() -> None:
    """To a person who waits: it will not get better by itself."""
    script = Script()
    timing = Timing(retry=PROMPT.retry, fail_fast=True)
    async with FakeServer(script.answer) as server, FakeServer() as gone:
        await gone.stop()
        script.now(METADATA=cluster(server.address, gone.address), LIST_GROUPS=listed("a"))
        async with Admin(server.address, timing=timing) as admin:
            with pytest.raises(BatchFailedError, match="change what that server advertises"):
                await admin.groups.list()
        assert times(server, ApiKey.METADATA) == 1


async def test_groups_that_move_while_they_are_listed_are_listed() -> None:
    """From a node that could not answer to one that had answered before."""
    loading = listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    first, second = Script(), Script()
    async with FakeServer(first.answer) as one, FakeServer(second.answer) as two:
        both = cluster(one.address, two.address)
        first.now(METADATA=both, LIST_GROUPS=[listed("a"), listed("a", "b")])
        second.now(METADATA=both, LIST_GROUPS=[loading, listed()])
        async with Admin(one.address, timing=PROMPT) as admin:
            assert [group.group_id for group in await admin.groups.list()] == ["a", "b"]


async def test_groups_of_a_node_that_has_gone_are_listed_where_they_are_now() -> None:
    script = Script()
    async with FakeServer() as gone, FakeServer(script.answer) as server:
        both, one = cluster(server.address, gone.address), cluster(server.address)
        await gone.stop()
        script.now(METADATA=[both, both, one], LIST_GROUPS=[*[listed("a")] * 2, listed("a", "b")])
        async with Admin(server.address, timing=PROMPT) as admin:
            assert [group.group_id for group in await admin.groups.list()] == ["a", "b"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have others asked soon about a node that is silent."""
    monkeypatch.setattr(silence, "_LATE_S", 0.02)
    monkeypatch.setattr(network, "_SLOW_S", 0.02)


async def hang(_: Request) -> Any:
    """Answer nothing."""
    return SILENCE


def gone_once_it_has(
    requests: int, silent: FakeServer, server: FakeServer
) -> Callable[[Request], MetadataResponse]:
    """Name a silent node until so many groups were to be deleted there.

    How long a connection takes is up to the machine, and what was not sent is not in doubt.
    """

    def name(_: Request) -> MetadataResponse:
        is_gone = times(silent, ApiKey.DELETE_GROUPS) >= requests
        return cluster(server.address, *(() if is_gone else (silent.address,)))

    return name


@pytest.mark.usefixtures("impatient")
async def test_coordinator_that_is_silent_and_gone_is_given_up() -> None:
    """No connection tells of it: its process hangs, or its machine has lost its power."""
    script = Script()
    async with FakeServer(hang) as silent, FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=[coordinator(silent.address, 1), coordinator(server.address)],
            METADATA=[
                cluster(server.address, silent.address),
                gone_once_it_has(1, silent, server),
            ],
            DELETE_GROUPS=deleted(g=0),
        )
        async with Admin(server.address, timing=PATIENT) as admin:
            await admin.groups.delete("g")
        assert times(silent, ApiKey.DELETE_GROUPS) == 1
        assert times(server, ApiKey.METADATA) >= 2


@pytest.mark.usefixtures("impatient")
async def test_silent_node_is_not_asked_first_who_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it is the only one that is known by more than a bootstrap address."""
    monkeypatch.setattr(network, "_SLOW_S", 3_600)
    script = Script()

    async def answer(request: Request) -> Any:
        if request.api_key is ApiKey.FIND_COORDINATOR:
            return coordinator(silent.address, 1)(request)
        return SILENCE

    async with FakeServer(answer) as silent, FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            METADATA=cluster(server.address),
            DELETE_GROUPS=deleted(g=0),
        )
        async with Admin([silent.address, server.address], timing=PATIENT) as admin:
            await asyncio.wait_for(admin.groups.delete("g"), 10)


@pytest.mark.usefixtures("impatient")
async def test_request_that_was_never_sent_is_not_in_doubt() -> None:
    """What then does not exist was not there before either."""
    script, never = Script(), asyncio.Event()

    async def dial(make: Callable[[], asyncio.Protocol], to: NodeAddress, tls: Any) -> object:
        if to == dead:
            await never.wait()
        return await dial_tcp(make, to, tls)

    dead = NodeAddress("127.0.0.1", 9)
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=[coordinator(dead, 1), coordinator(server.address)],
            METADATA=cluster(server.address),
            DELETE_GROUPS=deleted(g=ErrorCode.GROUP_ID_NOT_FOUND),
        )
        async with Admin(server.address, timing=PATIENT, dial=dial) as admin:
            with pytest.raises(GroupIdNotFoundError):
                await admin.groups.delete("g")


@pytest.mark.usefixtures("impatient")
async def test_requests_that_were_sent_together_are_all_in_doubt() -> None:
    """The first to give up the node hangs up on it for all."""

    def find(request: Request) -> FindCoordinatorResponse:
        (group,) = request.message.coordinator_keys
        is_first = group not in looked_for
        looked_for.add(group)
        where = coordinator(silent.address, 1) if is_first else coordinator(server.address)
        return where(request)

    def delete(request: Request) -> DeleteGroupsResponse:
        return deleted(**dict.fromkeys(request.message.groups_names, ErrorCode.GROUP_ID_NOT_FOUND))

    looked_for, script = set[str](), Script()
    async with FakeServer(hang) as silent, FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=find,
            METADATA=gone_once_it_has(3, silent, server),
            DELETE_GROUPS=delete,
        )
        async with Admin(server.address, timing=PATIENT) as admin:
            await asyncio.gather(*(admin.groups.delete(group) for group in "ghi"))
        assert times(silent, ApiKey.DELETE_GROUPS) == 3


@pytest.mark.usefixtures("impatient")
async def test_all_groups_of_a_node_that_is_given_up_are_looked_for_anew() -> None:

    async def hang(_: Request) -> Any:
        return SILENCE if is_hanging else deleted(g=0, h=0)

    is_hanging, script = False, Script()
    async with FakeServer(hang) as silent, FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(silent.address, 1),
            METADATA=cluster(server.address, silent.address),
        )
        async with Admin(server.address, timing=PATIENT) as admin:
            await admin.groups.delete_many(["g", "h"])
            is_hanging = True
            script.now(
                FIND_COORDINATOR=coordinator(server.address),
                METADATA=cluster(server.address),
                DELETE_GROUPS=[deleted(g=0), deleted(h=0)],
            )
            await admin.groups.delete("g")
            await admin.groups.delete("h")
        assert times(silent, ApiKey.DELETE_GROUPS) == 2


@pytest.mark.parametrize("has_its_own_address", [True, False])
@pytest.mark.usefixtures("impatient")
async def test_coordinator_that_is_slow_but_there_is_waited_for(
    *, has_its_own_address: bool
) -> None:
    """On another of its listeners, the others name it by another address."""
    script = Script()
    async with FakeServer(script.answer) as server:

        async def answer(request: Request) -> Any:
            if request.api_key is not ApiKey.DELETE_GROUPS:
                return SILENCE
            await soon(lambda: times(server, ApiKey.METADATA) > 2)
            return deleted(g=0)

        async with FakeServer(answer) as slow:
            named = (server.address, slow.address) if has_its_own_address else (server.address,)
            script.now(
                FIND_COORDINATOR=coordinator(slow.address, len(named) - 1),
                METADATA=cluster(*named),
            )
            async with Admin(server.address, timing=PATIENT) as admin:
                await admin.groups.delete("g")
            assert times(slow, ApiKey.DELETE_GROUPS) == 1


def offsets(*numbers: int, code: int = 0) -> ListOffsetsResponse:
    """The ends of partitions of `t`."""
    partitions = (
        ListOffsetsPartitionResponse(partition_index=n, offset=10 + n, error_code=code)
        for n in numbers
    )
    topic = ListOffsetsTopicResponse(name="t", partitions=tuple(partitions))
    return ListOffsetsResponse(topics=(topic,))


async def test_ends_are_asked_of_each_partitions_leader() -> None:
    first, second = Script(), Script(LIST_OFFSETS=offsets(1))
    async with FakeServer(first.answer) as one, FakeServer(second.answer) as two:
        nodes = (one.address, two.address)
        first.now(
            METADATA=[
                cluster(*nodes, topic=topic_of(0, 0)),
                cluster(*nodes, topic=topic_of(0, -1)),
                cluster(*nodes, topic=topic_of(0, 1)),
            ],
            LIST_OFFSETS=_first_only,
        )
        async with Admin(one.address, timing=PROMPT) as admin:
            found = await admin.offsets.latest([("t", 0), ("t", 1)])
        assert found == {("t", 0): 10, ("t", 1): 11}
        assert (times(one, ApiKey.LIST_OFFSETS), times(two, ApiKey.LIST_OFFSETS)) == (1, 1)


def _first_only(_: Request) -> ListOffsetsResponse:
    good = offsets(0).topics[0].partitions
    moved = offsets(1, code=ErrorCode.NOT_LEADER_OR_FOLLOWER).topics[0].partitions
    return ListOffsetsResponse(
        topics=(ListOffsetsTopicResponse(name="t", partitions=good + moved),)
    )


async def test_partition_without_a_leader_is_waited_for() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(METADATA=cluster(server.address, topic=topic_of(-1)))
        async with Admin(server.address, timing=SHORT) as admin:
            with pytest.raises(LeaderNotAvailableError):
                await admin.offsets.latest([("t", 0)])
        assert times(server, ApiKey.METADATA) > 1


# -- answers that are odd, and servers that are old ----------------------------------------------


async def test_answer_without_the_item_is_an_unexpected_answer() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(FIND_COORDINATOR=coordinator(server.address), DELETE_GROUPS=deleted(other=0))
        async with Admin(server.address, timing=PROMPT) as admin:
            with pytest.raises(UnexpectedAnswerError, match="nothing about g"):
                await admin.groups.delete("g")


async def test_members_of_another_protocol_keep_their_bytes() -> None:
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"!", member_assignment=b"!"
    )
    group = _group(protocol_type="connect", members=(member,))
    broken = _group(members=(member,))
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DESCRIBE_GROUPS=[
                DescribeGroupsResponse(groups=(group,)),
                DescribeGroupsResponse(groups=(broken,)),
            ],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            for _ in range(2):
                (shown,) = await admin.members.list("g")
                assert (shown.topics, shown.partitions) == (None, None)
                assert (shown.metadata, shown.assignment) == (b"!", b"!")


async def test_unstable_offsets_are_waited_for_on_request() -> None:
    script = Script()
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            OFFSET_FETCH=_unstable,
        )
        async with Admin(server.address, timing=SHORT) as admin:
            with pytest.raises(UnstableOffsetCommitError, match="partition 0 of t"):
                await admin.offsets.fetch("g", require_stable=True)
        assert times(server, ApiKey.OFFSET_FETCH) > 1


def _unstable(_: Request) -> OffsetFetchResponse:
    partition = OffsetFetchResponsePartitions(
        partition_index=0,
        committed_offset=-1,
        metadata=None,
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=(partition,))
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=(topic,)),))


def _old_fetch() -> OffsetFetchResponse:
    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=7, metadata=None)
    topic = OffsetFetchResponseTopic(name="t", partitions=(partition,))
    return OffsetFetchResponse(topics=(topic,))


async def test_old_server_gets_requests_in_old_versions() -> None:
    old = {
        ApiKey.FIND_COORDINATOR: 2,
        ApiKey.OFFSET_FETCH: 5,
        ApiKey.DELETE_TOPICS: 3,
        ApiKey.DESCRIBE_GROUPS: 5,
        ApiKey.LEAVE_GROUP: 2,
        ApiKey.LIST_GROUPS: 3,
        ApiKey.METADATA: 7,
    }
    versions = {**API_VERSIONS, **{api: VersionRange(0, last) for api, last in old.items()}}
    script = Script()
    missing = topic_of(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    async with FakeServer(script.answer, versions=versions) as server:
        script.now(
            METADATA=cluster(server.address, topic=missing),
            FIND_COORDINATOR=coordinator(server.address),
            OFFSET_FETCH=_old_fetch(),
            DELETE_TOPICS=DeleteTopicsResponse(responses=(DeletableTopicResult(name="t"),)),
            DESCRIBE_GROUPS=DescribeGroupsResponse(groups=(_group(group_state="Dead"),)),
            LIST_GROUPS=listed("g"),
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            assert (await admin.offsets.fetch("g"))["t", 0].offset == 7
            await admin.topics.delete("t")
            with pytest.raises(GroupIdNotFoundError):
                await admin.groups.describe("g")
            with pytest.raises(VersionNotSpokenError, match="LeaveGroup"):
                await admin.members.remove("g", member_id="m")
            (group,) = await admin.groups.list()
            assert (group.state, group.type) == (None, None)
            with pytest.raises(VersionNotSpokenError, match="ListGroups"):
                await admin.groups.list(states=["Empty"])
        deletion = next(r for r in server.received if r.api_key is ApiKey.DELETE_TOPICS)
        assert deletion.message.topic_names == ("t",)


async def test_member_to_remove_needs_an_id() -> None:
    async with FakeServer() as server, Admin(server.address, timing=PROMPT) as admin:
        with pytest.raises(ConfigurationError):
            await admin.members.remove("g")
        with pytest.raises(ConfigurationError):
            await admin.members.remove_many("g", [MemberRef("m"), MemberRef()])


async def test_error_of_the_group_counts_for_each_member() -> None:
    script = Script()
    gone = MemberResponse(member_id="m", group_instance_id=None)
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            LEAVE_GROUP=[
                LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR),
                LeaveGroupResponse(members=(gone,)),
            ],
        )
        async with Admin(server.address, timing=PROMPT) as admin:
            await admin.members.remove("g", member_id="m", reason="too slow")
        asked = [r.message for r in server.received if r.api_key is ApiKey.LEAVE_GROUP]
        assert [message.members[0].reason for message in asked] == ["too slow"] * 2
        assert times(server, ApiKey.FIND_COORDINATOR) == 2


# -- the end -------------------------------------------------------------------------------------


async def test_empty_batches_send_nothing() -> None:
    async with FakeServer() as server, Admin(server.address, timing=PROMPT) as admin:
        assert await admin.groups.describe_many([]) == {}
        assert await admin.topics.create_many([]) == {}
        await admin.offsets.set("g", {})
        assert await admin.offsets.latest([]) == {}
        assert server.accepted == 0


async def test_closed_client_fails_pending_and_later_calls() -> None:
    script = Script(METADATA=SILENCE)
    async with FakeServer(script.answer) as server:
        admin = Admin(server.address, timing=PROMPT)
        task = asyncio.create_task(admin.topics.list())
        await soon(lambda: bool(server.received))
        await admin.aclose()
        with pytest.raises(ClientClosedError):
            await task
        with pytest.raises(ClientClosedError):
            await admin.topics.create_many([NewTopic("t")])  # and not as an error of the topic


async def test_cancelled_call_ends_at_once() -> None:
    script = Script()
    slow = Timing(retry=RetryOptions(base_ms=60_000, max_ms=60_000))
    async with FakeServer(script.answer) as server:
        script.now(
            FIND_COORDINATOR=coordinator(server.address),
            DELETE_GROUPS=deleted(g=ErrorCode.NOT_COORDINATOR),
        )
        async with Admin(
            server.address, timing=Timing(timeout_ms=200_000, retry=slow.retry)
        ) as admin:
            task = asyncio.create_task(admin.groups.delete("g"))
            await soon(lambda: times(server, ApiKey.DELETE_GROUPS) == 1)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()


@pytest.mark.parametrize("timing", [{"timeout_ms": 0}, {"request_timeout_ms": -1}])
async def test_invalid_timing_is_refused(timing: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Timing(**timing)


async def test_invalid_reset_is_refused() -> None:
    nowhere: Any = "middle"
    async with FakeServer() as server, Admin(server.address, timing=PROMPT) as admin:
        with pytest.raises(
            ConfigurationError, match="to must be 'earliest' or 'latest', got 'middle'"
        ):
            await admin.offsets.reset("g", nowhere)
        assert server.accepted == 0


async def test_single_name_is_refused_for_a_batch() -> None:
    async with FakeServer() as server, Admin(server.address, timing=PROMPT) as admin:
        for call in (
            admin.topics.delete_many,
            admin.groups.delete_many,
            admin.groups.describe_many,
        ):
            with pytest.raises(ConfigurationError, match=r"a collection of names, .* got 'ab'"):
                await call("ab")
        assert server.accepted == 0
