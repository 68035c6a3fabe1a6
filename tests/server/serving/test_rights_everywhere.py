"""Several nodes on one store, in virtual time: what one of them is told of rights, all go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import structlog.testing

from coterie_protocol import API_VERSIONS, ApiKey, request_class
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.schema import NIL_UUID
from coterie_server.address import Address
from coterie_server.config.assembly import (
    RandomIds,
    access_config,
    catalogue_config,
    group_config,
)
from coterie_server.config.settings import Settings
from coterie_server.net import Exchange
from coterie_server.net.addresses import Peer
from coterie_server.net.fast_path import Sender
from coterie_server.security import Principal, ScramCredential, ScramMechanism
from coterie_server.security.acls import Operation, PatternType, Permission, ResourceType
from coterie_server.security.principal import NODE_KIND
from coterie_server.serving.access import Access
from coterie_server.serving.clock import Clock
from coterie_server.serving.cluster import CATALOGUE_SHARD, NodeNote
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.serving.peers import PeerError
from coterie_server.storage import StoreError
from coterie_server.topics import Catalogue
from coterie_server.turns import Unfinished, begin
from coterie_testing.virtual import Disk, Process, Scheduler
from coterie_testing.virtual.disk import DiskStore

ADMIN: Final = Principal("User", "admin")
ANN: Final = Principal("User", "ann")
PEER: Final = Principal(NODE_KIND, "9")
HOST: Final = "/10.0.0.1"
SHARDS: Final = 4
SETTINGS: Final = Settings(
    authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    super_users="User:admin; User:root",
)
#: Users who are there from the beginning.
FIRST: Final = {("root", ScramMechanism.SCRAM_SHA_256): ScramCredential(b"s", b"k", b"v", 4096)}
#: How soon a change is known everywhere.
KNOWN_WITHIN_S: Final = 1.0


class Asked:
    """Stands in for an exchange."""

    client_id = "c"
    host = HOST
    abandoned = False
    connected_ms = 2**60
    advertised = Address("clients", 9092)
    received_ms = 0

    def __init__(self, principal: Principal, message: Any, version: int, api: ApiKey) -> None:
        self.principal, self.message, self.version = principal, message, version
        self.request = SimpleNamespace(api_key=api)
        self.answer: Any = None
        self.closed = ""
        self._complete: Callable[[Any], Any] = lambda answer: answer

    def narrow(self, message: Any, complete: Callable[[Any], Any]) -> None:
        """Ask for less."""
        self.message, self._complete = message, complete

    def reply(self, message: Any) -> None:
        """Take the answer."""
        self.answer = whole(self._complete(whole(message)))

    def close(self, why: str) -> None:
        """Note why there is no answer."""
        self.closed = why

    def when_gone(self, forget: object) -> None:
        """Stay."""


def whole(message: Any) -> Any:
    """An answer that is made to its end."""
    while isinstance(message, Unfinished):
        message = begin(message.making)
    return message


class Machine:
    """One node."""

    def __init__(self, world: World, node_id: int, settings: Settings = SETTINGS) -> None:
        self.world, self.node_id, self.settings = world, node_id, settings
        self.process = Process(world.scheduler, f"node-{node_id}")
        self.access = Access(access_config(SETTINGS))
        self.node: Node | None = None
        self.process.create_task(self._serve())

    async def _serve(self) -> None:
        self.store = store = DiskStore(self.world.disk, self.process)
        await store.open()
        now_ns = lambda: round(self.world.scheduler.now_s * 1e9)  # noqa: E731  # as a clock
        options = NodeOptions(
            self.node_id,
            Address(f"h{self.node_id}", 9092),
            SHARDS,
            3_000,
            look_every_ms=100,
            access=self.access,
        )
        catalogue = catalogue_config(self.settings, options)
        node = Node(
            options,
            group_config(SETTINGS),
            store,
            Clock(elapsed_ns=now_ns, wall_ns=now_ns),
            make_ids=lambda _epoch: RandomIds(),
            make_catalogue=lambda ends: Catalogue(catalogue, RandomIds(), ends),
            observe=lambda _ts, _event: None,
        )
        node.ask = self._ask
        await node.start({"orders": 1}, FIRST)
        self.node = node

    async def _ask(self, peer: NodeNote, api: ApiKey, message: Any, version: int) -> Any:
        """Ask another node, which knows this one for a node."""
        other = next(each for each in self.world.machines if each.node_id == peer.node_id)
        asked = Asked(PEER, message, version, api)
        if other.node is None:
            raise PeerError("it does not answer")
        other.process.call_soon(other.node.handle, cast(Exchange, asked))
        async with asyncio.timeout(5):
            while asked.answer is None and not asked.closed:  # noqa: ASYNC110  # of another loop
                await asyncio.sleep(0.001)
        return asked.answer

    def cut_off(self) -> None:
        """Let the node reach the store no longer, while it reaches the other nodes."""

        async def fail(*_: object) -> Any:
            raise StoreError("the store can't be reached")

        for name in ("append", "claim", "load", "renew", "survey"):
            setattr(self.store, name, fail)

    @property
    def has_catalogue(self) -> bool:
        """Whether it is the one that changes rights."""
        assert self.node is not None
        return self.node.cluster.is_mine(CATALOGUE_SHARD)


class World:
    """Some nodes on a store."""

    def __init__(self, nodes: int) -> None:
        self.scheduler = Scheduler(1)
        self.disk = Disk(self.scheduler)
        self.machines: list[Machine] = []
        for number in range(1, nodes + 1):
            self.machines.append(Machine(self, number))
            self.until(lambda: self.machines[-1].node is not None)
        self.scheduler.run(10.0)  # until the shards are shared

    @property
    def owner(self) -> Machine:
        """The node that has the catalogue."""
        return next(each for each in self.machines if each.has_catalogue)

    @property
    def others(self) -> list[Machine]:
        """The nodes that have a copy."""
        return [each for each in self.machines if not each.has_catalogue]

    def until(self, happened: Callable[[], bool], within_s: float = 60.0) -> float:
        """Run until something happens; answer how long that took."""
        began_s = self.scheduler.now_s
        while not happened():
            assert self.scheduler.now_s - began_s < within_s
            self.scheduler.run(0.01)
        return self.scheduler.now_s - began_s

    def ask(self, machine: Machine, principal: Principal, message: Any) -> Any:
        """Ask a node, and await the answer."""
        (api,) = (api for api in API_VERSIONS if request_class(api) is type(message))
        asked = Asked(principal, message, API_VERSIONS[api].last, api)
        assert machine.node is not None
        machine.process.call_soon(machine.node.handle, cast(Exchange, asked))
        self.until(lambda: asked.answer is not None or bool(asked.closed))
        return asked.answer


@pytest.fixture(scope="module")
def world() -> World:
    """Three nodes."""
    return World(3)


def anns_right(operation: Operation, name: str, **fields: Any) -> m.AclCreation:
    """That Ann may do something with a topic."""
    usual: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": name,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": str(ANN),
        "host": "*",
        "operation": operation,
        "permission_type": Permission.ALLOW,
    }
    return m.AclCreation(**usual | fields)


def allowed_at(machine: Machine, operation: Operation, name: str) -> bool:
    """Whether a node lets Ann do something with a topic."""
    authorizer = machine.access.authorizer
    assert authorizer is not None
    return authorizer.allows(ANN, HOST, operation, ResourceType.TOPIC, name)


def filter_of(name: str) -> m.DeleteAclsFilter:
    """All ACLs about a topic."""
    return m.DeleteAclsFilter(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )


@pytest.mark.parametrize("at", ["the owner", "another"])
def test_a_change_of_rights_is_known_everywhere_within_a_second(world: World, at: str) -> None:
    asked = world.owner if at == "the owner" else world.others[0]
    topic = f"orders-{asked.node_id}"
    for _ in range(5):
        answer = world.ask(
            asked, ADMIN, m.CreateAclsRequest(creations=(anns_right(Operation.READ, topic),))
        )
        assert [each.error_code for each in answer.results] == [0]
        world.until(partial(_is_allowed_everywhere, world, topic, expected=True), KNOWN_WITHIN_S)
        gone = world.ask(asked, ADMIN, m.DeleteAclsRequest(filters=(filter_of(topic),)))
        assert len(gone.filter_results[0].matching_acls) == 1
        world.until(partial(_is_allowed_everywhere, world, topic, expected=False), KNOWN_WITHIN_S)


def _is_allowed_everywhere(world: World, topic: str, *, expected: bool) -> bool:
    return {allowed_at(each, Operation.READ, topic) for each in world.machines} == {expected}


def test_a_password_is_known_everywhere_within_a_second(world: World) -> None:
    upsertion = m.ScramCredentialUpsertion(
        name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted"
    )
    asked = m.AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
    answer = world.ask(world.others[0], ADMIN, asked)
    assert answer.results[0].error_code == 0
    mechanism = ScramMechanism.SCRAM_SHA_256

    def is_known() -> bool:
        found = (each.access.credential("ann", mechanism) for each in world.machines)
        return None not in found

    world.until(is_known, KNOWN_WITHIN_S)


def test_the_first_users_are_known_to_all_nodes(world: World) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    found = {each.access.credential("root", mechanism) for each in world.machines}
    assert found == set(FIRST.values())


def test_rights_are_told_by_each_node_as_soon_as_they_are_acknowledged(world: World) -> None:
    creation = anns_right(Operation.WRITE, "told")
    world.ask(world.owner, ADMIN, m.CreateAclsRequest(creations=(creation,)))
    wanted = m.DescribeAclsRequest(
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="told",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    for machine in world.machines:
        answer = world.ask(machine, ADMIN, wanted)
        assert [each.resource_name for each in answer.resources] == ["told"]


def test_a_client_without_rights_is_refused_by_each_node_and_that_is_logged(world: World) -> None:
    for machine in world.machines:
        with structlog.testing.capture_logs() as log:
            asked = m.MetadataRequest(topics=(m.MetadataRequestTopic(name="orders"),))
            (topic,) = world.ask(machine, ANN, asked).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (line,) = [line for line in log if line["event"] == "refused"]
        assert line == {
            "event": "refused",
            "log_level": "warning",
            "principal": "User:ann",
            "host": "10.0.0.1",
            "operation": "Describe",
            "resource": "Topic:orders",
            "request": "Metadata",
        }
        asked_for_all = world.ask(machine, ANN, m.MetadataRequest(topics=None))
        assert asked_for_all.topics == ()
        assert len(asked_for_all.brokers) == 3


def test_what_a_client_may_not_change_is_not_passed_on(world: World) -> None:
    for machine in world.machines:
        creation = anns_right(Operation.ALL, "orders")
        answer = world.ask(machine, ANN, m.CreateAclsRequest(creations=(creation,)))
        assert answer.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        state = m.DeleteTopicState(name="orders", topic_id=NIL_UUID)
        deleted = world.ask(machine, ANN, m.DeleteTopicsRequest(topics=(state,), timeout_ms=1000))
        assert deleted.responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (topic,) = world.ask(world.owner, ADMIN, m.MetadataRequest(topics=None)).topics
    assert (topic.name, topic.error_code) == ("orders", 0)


def test_only_those_who_may_be_members_are_heard_at_once(world: World) -> None:
    """The others go the long way, on which they are refused."""
    group = next(
        name
        for name in (f"g{number}" for number in range(100))
        if world.owner.node is not None and world.owner.node.group_shard(name).is_served
    )
    join = m.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=(m.JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    member_id = world.ask(world.owner, ADMIN, join).member_id
    sync = m.SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(m.SyncGroupRequestAssignment(member_id=member_id, assignment=b"x"),),
    )
    assert world.ask(world.owner, ADMIN, sync).error_code == 0
    beat = partial(m.HeartbeatRequest, group_id=group, generation_id=1, member_id=member_id)
    node = world.owner.node
    assert node is not None
    for principal, is_heard in ((ADMIN, True), (ANN, False)):
        sender = cast(Sender, SimpleNamespace(principal=principal, peer=Peer("10.0.0.1", 1)))
        assert (node.try_heartbeat(beat(), sender) is not None) is is_heard
    assert world.ask(world.owner, ADMIN, beat()).error_code == 0
    assert world.ask(world.owner, ANN, beat()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_node_that_cant_read_the_rights_changes_nothing_by_those_it_knew() -> None:
    world = World(2)
    owner, other = world.owner, world.others[0]
    may_alter = anns_right(Operation.ALTER, "kafka-cluster", resource_type=ResourceType.CLUSTER)
    world.ask(owner, ADMIN, m.CreateAclsRequest(creations=(may_alter,)))
    world.scheduler.run(1.0)
    other.cut_off()
    gone = replace(filter_of("kafka-cluster"), resource_type_filter=ResourceType.CLUSTER)
    world.ask(owner, ADMIN, m.DeleteAclsRequest(filters=(gone,)))
    world.scheduler.run(1.0)
    world.ask(other, ANN, m.CreateAclsRequest(creations=(anns_right(Operation.READ, "orders"),)))
    assert not allowed_at(owner, Operation.READ, "orders")


def test_a_node_that_deletes_no_topics_has_none_deleted_by_another() -> None:
    """While the setting is being changed, the nodes differ in it."""
    world = World(1)
    kept = Machine(world, 2, replace(SETTINGS, delete_topic_enable=False))
    world.machines.append(kept)
    world.until(lambda: kept.node is not None)
    world.scheduler.run(10.0)
    assert not kept.has_catalogue
    state = m.DeleteTopicState(name="orders", topic_id=NIL_UUID)
    for principal in (ANN, ADMIN):
        asked = m.DeleteTopicsRequest(topics=(state,), timeout_ms=1000)
        (deleted,) = world.ask(kept, principal, asked).responses
        assert deleted.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    (topic,) = world.ask(world.owner, ADMIN, m.MetadataRequest(topics=None)).topics
    assert topic.name == "orders"


def test_rights_outlive_the_node_that_was_told_of_them() -> None:
    world = World(2)
    creation = anns_right(Operation.READ, "orders")
    world.ask(world.owner, ADMIN, m.CreateAclsRequest(creations=(creation,)))
    dead, heir = world.owner, world.others[0]
    dead.process.kill()
    world.machines = [heir]
    world.until(lambda: heir.has_catalogue)
    world.scheduler.run(1.0)
    assert allowed_at(heir, Operation.READ, "orders")
    assert heir.access.is_known


def test_a_node_forgets_what_it_granted_itself_while_it_had_the_catalogue() -> None:
    """Though it reads the very rows that it had read before."""
    world = World(2)
    first, second = world.owner, world.others[0]
    _give_catalogue_to(world, second, first)
    creation = anns_right(Operation.READ, "orders")
    world.ask(second, ADMIN, m.CreateAclsRequest(creations=(creation,)))
    first.process.resume()
    world.scheduler.run(1.0)
    _give_catalogue_to(world, first, second)
    world.ask(first, ADMIN, m.DeleteAclsRequest(filters=(filter_of("orders"),)))
    second.process.resume()
    world.scheduler.run(5.0)
    assert not allowed_at(second, Operation.READ, "orders")


def _give_catalogue_to(world: World, heir: Machine, former: Machine) -> None:
    former.process.pause()
    assert heir.node is not None
    catalogue = heir.node.all_shards()[-1]
    world.until(lambda: catalogue.may_answer)
