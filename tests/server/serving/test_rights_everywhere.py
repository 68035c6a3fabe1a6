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
from coterie_server.security.records import Credentials
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
PASSWORD: Final = m.ScramCredentialUpsertion(
    name="ann", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"salted"
)
#: How soon a change is known everywhere.
KNOWN_WITHIN_S: Final = 1.0


class Asked:
    """Stands in for an exchange."""

    client_id = "c"
    host = HOST
    abandoned = False
    comes_alone = True
    connected_ms = 2**60
    advertised = Address("clients", 9092)
    received_ms = 0

    def __init__(self, principal: Principal, message: Any, version: int, api: ApiKey) -> None:
        self.principal, self.message, self.version = principal, message, version
        self.request = SimpleNamespace(api_key=api)
        self.answer: Any = None
        self.closed = ""
        self._complete: Callable[[Any], Any] = lambda answer: answer
        #: What happens between the look at its rights and its being served.
        self.meanwhile: Callable[[], object] = lambda: None
        #: Told of the answer.
        self.then: Callable[[Asked], object] = lambda _: None

    def narrow(self, message: Any, complete: Callable[[Any], Any]) -> None:
        """Ask for less."""
        self.message, self._complete = message, complete
        self.meanwhile()

    def resume(self, action: Callable[[], None]) -> None:
        """Go on in the event loop's next turn."""
        asyncio.get_running_loop().call_soon(action)

    def reply(self, message: Any) -> None:
        """Take the answer."""
        self.answer = whole(self._complete(whole(message)))
        self.then(self)

    def close(self, why: str) -> None:
        """Note why there is no answer."""
        self.closed = why

    def when_gone(self, forget: object) -> None:
        """Stay."""

    def when_followed(self, answer: object) -> None:
        """Ask for nothing else."""


def whole(message: Any) -> Any:
    """An answer that is made to its end."""
    while isinstance(message, Unfinished):
        message = begin(message.making)
    return message


class Machine:
    """One node."""

    def __init__(
        self,
        world: World,
        node_id: int,
        settings: Settings = SETTINGS,
        users: Credentials = FIRST,
    ) -> None:
        self.world, self.node_id, self.settings, self.users = world, node_id, settings, users
        self.process = Process(world.scheduler, f"node-{node_id}")
        self.access = Access(access_config(settings))
        self.node: Node | None = None
        #: Whether it knew the first users when it began to serve.
        self.knew_users = False
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
        await node.start({"orders": 1}, self.users)
        (first,) = FIRST
        self.knew_users = self.access.credential(*first) is not None
        self.node = node

    async def _ask(self, peer: NodeNote, api: ApiKey, message: Any, version: int) -> Any:
        """Ask another node, which knows this one for a node."""
        other = next(each for each in self.world.machines if each.node_id == peer.node_id)
        asked = Asked(PEER, message, version, api)
        if other.node is None:
            raise PeerError("it does not answer")
        other.process.call_soon(other.node.handle, cast(Exchange, asked))
        async with asyncio.timeout(60):
            while asked.answer is None and not asked.closed:  # noqa: ASYNC110  # of another loop
                await asyncio.sleep(0.001)
        return asked.answer

    def take(self, asked: Asked) -> None:
        """Be asked by a client."""
        assert self.node is not None
        self.process.call_soon(self.node.handle, cast(Exchange, asked))

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
        asked = asked_by(principal, message)
        machine.take(asked)
        self.until(lambda: asked.answer is not None or bool(asked.closed))
        return asked.answer


def asked_by(principal: Principal, message: Any) -> Asked:
    """A request of the newest version."""
    (api,) = (api for api in API_VERSIONS if request_class(api) is type(message))
    return Asked(principal, message, API_VERSIONS[api].last, api)


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


@pytest.mark.parametrize("is_first", [True, False])
def test_rights_are_kept_from_clients_of_a_node_without_acls(*, is_first: bool) -> None:
    """Nor does it matter which of them carries out such changes."""
    world = World(0)
    settings = (Settings(), SETTINGS) if is_first else (SETTINGS, Settings())
    for number, each in enumerate(settings, 1):
        world.machines.append(Machine(world, number, each))
        world.until(lambda: world.machines[-1].node is not None)
    world.scheduler.run(10.0)
    lax, strict = world.machines if is_first else reversed(world.machines)
    creation = m.CreateAclsRequest(creations=(anns_right(Operation.ALL, "orders"),))
    change = m.AlterUserScramCredentialsRequest(deletions=(), upsertions=(PASSWORD,))
    question = m.DescribeUserScramCredentialsRequest(users=None)
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [each.error_code for each in world.ask(lax, ANN, creation).results] == [refused]
    assert [each.error_code for each in world.ask(lax, ANN, change).results] == [refused]
    assert world.ask(lax, ANN, question).error_code == refused
    assert [each.error_code for each in world.ask(strict, ADMIN, change).results] == [0]


def test_node_without_acls_among_its_like_has_its_passwords_changed() -> None:
    world = World(0)
    world.machines = [Machine(world, number, Settings()) for number in (1, 2)]
    world.until(lambda: all(each.node is not None for each in world.machines))
    world.scheduler.run(10.0)
    change = m.AlterUserScramCredentialsRequest(deletions=(), upsertions=(PASSWORD,))
    for each in world.machines:
        assert [each.error_code for each in world.ask(each, ANN, change).results] == [0]


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


def test_a_node_serves_no_client_before_it_knows_the_first_users() -> None:
    world = World(0)
    world.machines = [Machine(world, number) for number in (1, 2, 3)]
    world.until(lambda: all(each.node is not None for each in world.machines))
    assert [each.knew_users for each in world.machines] == [True] * 3


def test_a_node_that_has_other_first_users_does_not_wait_for_its_own() -> None:
    world = World(1)
    (stored,) = FIRST.values()
    late = Machine(world, 2, users={("deleted", ScramMechanism.SCRAM_SHA_256): stored})
    assert world.until(lambda: late.node is not None) < 5


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


@pytest.mark.parametrize("at", ["the owner", "another"])
def test_a_topic_that_is_deleted_just_now_is_not_made_anew_along_with_another(at: str) -> None:
    world = World(2)
    owner = world.owner
    asked_node = owner if at == "the owner" else world.others[0]
    rights = ((Operation.DESCRIBE, "orders"), (Operation.ALL, "new"))
    creations = tuple(anns_right(*each) for each in rights)
    world.ask(owner, ADMIN, m.CreateAclsRequest(creations=creations))
    world.scheduler.run(1.0)
    state = m.DeleteTopicState(name="orders", topic_id=NIL_UUID)
    deletion = asked_by(ADMIN, m.DeleteTopicsRequest(topics=(state,), timeout_ms=1000))

    def delete() -> None:
        if asked_node is owner:
            _node_of(owner).handle(cast(Exchange, deletion))
        else:
            owner.take(deletion)
            _read_later(asked_node, lambda: "orders" not in _node_of(owner).topics)

    topics = tuple(m.MetadataRequestTopic(name=name) for name in ("orders", "new"))
    asked = asked_by(ANN, m.MetadataRequest(topics=topics))
    asked.meanwhile = delete
    asked_node.take(asked)
    world.until(lambda: asked.answer is not None)
    told = {topic.name: topic.error_code for topic in asked.answer.topics}
    assert told == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new": 0}
    world.until(lambda: deletion.answer is not None)
    (topic,) = world.ask(owner, ADMIN, m.MetadataRequest(topics=None)).topics
    assert topic.name == "new"


def _node_of(machine: Machine) -> Node:
    assert machine.node is not None
    return machine.node


def _read_later(machine: Machine, happened: Callable[[], bool]) -> None:
    """Have a node read its store only when something has happened."""
    read = machine.store.load

    async def load(shard: int) -> Any:
        while not happened():  # noqa: ASYNC110  # of another loop
            await asyncio.sleep(0.001)
        return await read(shard)

    setattr(machine.store, "load", load)  # noqa: B010  # mypy takes it for a method


MANY: Final = 2_000
ALL_ABOUT_TOPICS: Final = m.DescribeAclsRequest(
    resource_type_filter=ResourceType.TOPIC,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


def _asked_for_many() -> Asked:
    creations = tuple(anns_right(Operation.READ, f"t{number}") for number in range(MANY))
    return asked_by(ADMIN, m.CreateAclsRequest(creations=creations))


def test_only_requests_about_rights_wait_while_very_many_are_changed() -> None:
    world = World(2)
    owner, other = world.owner, world.others[0]
    creation, shown = _asked_for_many(), asked_by(ADMIN, ALL_ABOUT_TOPICS)
    topics = asked_by(ADMIN, m.MetadataRequest(topics=None))
    answered: list[Asked] = []
    for asked in (creation, shown, topics):
        asked.then = answered.append
        owner.take(asked)
    world.until(lambda: shown.answer is not None)
    assert answered == [topics, creation, shown]
    assert [each.error_code for each in creation.answer.results] == [0] * MANY
    assert len(shown.answer.resources) == MANY
    world.until(lambda: allowed_at(other, Operation.READ, f"t{MANY - 1}"), KNOWN_WITHIN_S)
    filters = tuple(filter_of(f"t{number}") for number in range(MANY))
    gone = world.ask(other, ADMIN, m.DeleteAclsRequest(filters=filters))
    assert {len(each.matching_acls) for each in gone.filter_results} == {1}
    assert world.ask(owner, ADMIN, ALL_ABOUT_TOPICS).resources == ()


def test_a_change_of_very_many_rights_that_breaks_off_is_in_doubt() -> None:
    world = World(1)
    owner = world.owner
    creation, shown = _asked_for_many(), asked_by(ADMIN, ALL_ABOUT_TOPICS)
    append = owner.store.append

    async def append_once(*stored: Any) -> None:
        owner.cut_off()
        await append(*stored)

    setattr(owner.store, "append", append_once)  # noqa: B010  # mypy takes it for a method
    for asked in (creation, shown):
        owner.take(asked)
    world.until(lambda: shown.answer is not None)
    assert allowed_at(owner, Operation.READ, "t0")
    assert not allowed_at(owner, Operation.READ, f"t{MANY - 1}")
    (error,) = {each.error_code for each in creation.answer.results}
    assert error == ErrorCode.REQUEST_TIMED_OUT
    assert shown.answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


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
