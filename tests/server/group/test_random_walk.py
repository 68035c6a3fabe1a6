"""Anything at all, in any order, with crashes: what must hold holds after every step."""

from __future__ import annotations

from typing import Any

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    LeaveGroupRequest,
    MemberIdentity,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie_server.group import GroupState, Refusal
from coterie_server.group.standing_rules import RULES
from tests.support.group_harness import Answer, Client, World, assigned
from tests.support.profiles import examples
from tests.support.warm_groups import ordered, report, reported

GROUPS = ("g", "h")
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",), ("x", "range"))
TOPICS = (("t",), ("u",), ("t", "u"), ())
INSTANCES = (None, None, None, "i1", "i2", "i3")

whom = st.integers(min_value=0, max_value=7)


class AnyWorld(RuleBasedStateMachine):
    """Clients that do anything, sensible or not, in a coordinator that crashes now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.clients: list[Client] = []

    @initialize(
        max_size=st.sampled_from([2**31 - 1, 3]),
        expansion_ms=st.sampled_from([0, 4_000]),
        registration_ms=st.sampled_from([0, 0, 15_000, 40_000]),
        guard=st.sampled_from(["off", "report", "enforce"]),
        delay_ms=st.sampled_from([0, 3_000]),
        first=st.lists(st.sampled_from(INSTANCES), max_size=4),
        settled=st.booleans(),
    )
    def begin(
        self,
        max_size: int,
        expansion_ms: int,
        registration_ms: int,
        guard: str,
        delay_ms: int,
        first: list[str | None],
        *,
        settled: bool,
    ) -> None:
        """Choose the settings, and perhaps who is there already."""
        self.world = World(
            max_size=max_size,
            static_expansion_timeout_ms=expansion_ms,
            static_registration_timeout_ms=registration_ms,
            ownership_guard=guard,
            initial_rebalance_delay_ms=delay_ms,
            new_member_join_timeout_ms=30_000,
            max_pending_members=4,
            max_tombstones=1,
            offsets_retention_ms=90_000,
            offsets_check_interval_ms=20_000,
        )
        for static in first:
            self.comes((10_000, 8_000), 9, static=static)
        if settled:
            self.settles("g", share=True)

    def client(self, number: int) -> Client:
        """One of the clients."""
        return self.clients[number % len(self.clients)]

    @rule(
        group=st.sampled_from(GROUPS),
        protocols=st.sampled_from(PROTOCOLS),
        topics=st.sampled_from(TOPICS),
        static=st.sampled_from(INSTANCES),
        version=st.sampled_from([0, 3, 5, 8, 9]),
        timeouts=st.sampled_from([(6_000, 10_000), (10_000, 8_000), (20_000, 0), (6_000, -5)]),
        follows=st.booleans(),
        metadata=st.sampled_from([None, None, None, b"?", reported(report({0: 5, 1: -3}))]),
    )
    def comes(self, timeouts: tuple[int, int], version: int, **attributes: Any) -> None:
        """A new member joins."""
        if version < 5:
            attributes["static"] = None
        client = self.world.member(
            f"c{len(self.clients)}",
            version=version,
            session_ms=timeouts[0],
            rebalance_ms=timeouts[1],
            **attributes,
        )
        self.clients.append(client)
        client.join_once()

    @precondition(lambda self: self.clients)
    @rule(number=whom)
    def joins(self, number: int) -> None:
        """A client joins, for the first time or again."""
        self.client(number).join_once()

    @precondition(lambda self: self.clients)
    @rule(number=whom)
    def starts_over(self, number: int) -> None:
        """A client whose id is not known any more, or who was restarted, joins without one."""
        client = self.client(number)
        client.id = ""
        client.join_once()

    @precondition(lambda self: self.clients)
    @rule(
        number=whom,
        protocols=st.sampled_from(PROTOCOLS),
        topics=st.sampled_from(TOPICS),
        owned=st.sets(st.tuples(st.just("t"), st.integers(0, 3))),
    )
    def changes_its_mind(self, number: int, **attributes: Any) -> None:
        """A client joins again with something else."""
        client = self.client(number)
        for name, value in attributes.items():
            setattr(client, name, value)
        client.owned_generation = client.generation
        client.join_once()

    @precondition(lambda self: self.clients)
    @rule(
        number=whom,
        plan=st.dictionaries(whom, st.sets(st.integers(0, 3))),
        junk=st.booleans(),
        copies=st.sampled_from([(), (), (0, 1), (2,)]),
    )
    def syncs(
        self, number: int, plan: dict[int, set[int]], copies: tuple[int, ...], *, junk: bool
    ) -> None:
        """A client syncs, with an assignment of whatever kind."""
        brought = {
            self.client(n): ordered(parts, copies) if copies else assigned("t", *parts)
            for n, parts in plan.items()
        }
        if junk and brought:
            brought[next(iter(brought))] = b"?"
        client = self.client(number)
        client.sync(brought, version=5 if client.protocol else 4)

    @rule(group=st.sampled_from(GROUPS), share=st.booleans())
    def settles(self, group: str, *, share: bool) -> None:
        """All clients do what good ones would, up to an assignment."""
        mine = [client for client in self.clients if client.group == group]
        for client in mine:
            answer = client.join()
            if not answer.is_parked and answer.error is ErrorCode.UNKNOWN_MEMBER_ID:
                client.id = ""
                client.join()
        self.world.sleep(3_000)
        plan = {client: assigned("t", number % 4) for number, client in enumerate(mine)}
        for client in sorted(mine, key=lambda client: not client.leads):
            client.sync(plan if share else {}, version=4)

    @precondition(lambda self: self.clients)
    @rule(number=whom)
    def heartbeats(self, number: int) -> None:
        """A client says that it is there."""
        self.client(number).heartbeat()

    @precondition(lambda self: self.clients)
    @rule(number=whom)
    def leaves(self, number: int) -> None:
        """A client goes."""
        self.client(number).leave()

    @precondition(lambda self: self.clients)
    @rule(numbers=st.lists(whom, max_size=4), instances=st.sets(st.sampled_from(["i1", "i9"])))
    def are_removed(self, numbers: list[int], instances: set[str]) -> None:
        """An administrator makes several go at once."""
        members = [MemberIdentity(member_id=self.client(n).id) for n in numbers]
        members += [MemberIdentity(member_id="", group_instance_id=i) for i in sorted(instances)]
        self.world.request(LeaveGroupRequest(group_id="g", members=tuple(members)), 5)

    @precondition(lambda self: self.clients)
    @rule(number=whom, as_member=st.booleans(), retention_ms=st.sampled_from([-1, 5_000]))
    def commits(self, number: int, *, as_member: bool, retention_ms: int) -> None:
        """Offsets are committed; those that are acknowledged can be fetched."""
        offset = self.world.now_ms
        wanted = {("t", 1): offset, ("u", 0): offset, ("nowhere", 0): 1}
        if as_member:
            client = self.client(number)
            group, answer = client.group, client.commit(wanted)
        else:
            group = "g"
            answer = self.world.commit(wanted, retention_time_ms=retention_ms, version=4)
        self.check_committed(group, answer, offset)

    def check_committed(self, group: str, answer: Answer, offset: int) -> None:
        """What was acknowledged is there."""
        for topic in answer.reply.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    stored = self.world.offsets(group)
                    assert stored[topic.name, partition.partition_index] == offset

    @rule(group=st.sampled_from(GROUPS), topic=st.sampled_from(["t", "u"]))
    def offsets_are_deleted(self, group: str, topic: str) -> None:
        """An administrator deletes offsets."""
        partitions = (OffsetDeleteRequestPartition(partition_index=1),)
        topics = (OffsetDeleteRequestTopic(name=topic, partitions=partitions),)
        self.world.request(OffsetDeleteRequest(group_id=group, topics=topics), 0)

    @rule(group=st.sampled_from(GROUPS))
    def group_is_deleted(self, group: str) -> None:
        """An administrator deletes a group; it works if and only if it has no members."""
        state = self.world.state(group)
        (error,) = self.world.delete(group)
        assert (error is ErrorCode.NONE) == (state is GroupState.EMPTY)

    @rule(group=st.sampled_from(GROUPS))
    def rebalance_is_forced(self, group: str) -> None:
        """An administrator wants a rebalance."""
        try:
            self.world.force_rebalance(group)
        except Refusal:
            return
        assert self.world.state(group) is not GroupState.STABLE

    @precondition(lambda self: self.clients)
    @rule(
        group=st.sampled_from(GROUPS),
        name=st.sampled_from(sorted(RULES)),
        number=whom,
        numbers=st.sets(st.integers(min_value=0, max_value=4), min_size=1),
        for_ms=st.sampled_from([None, 1, 20_000]),
    )
    def operation_is_asked_for(
        self, group: str, name: str, number: int, numbers: set[int], for_ms: int | None
    ) -> None:
        """An administrator orders something, or takes it back."""
        client = None if "freeze" in name else self.client(number)
        before = self.world.coordinator.groups.get(group)
        stood = before.operations if before is not None else ()
        try:
            self.world.order(name, client, group, numbers=numbers, for_ms=for_ms)
        except Refusal:
            assert before is None or before.operations == stood

    @rule(topic=st.sampled_from(["t", "u"]), change=st.sampled_from(["created", "deleted"]))
    def topic_changes(self, topic: str, change: str) -> None:
        """A topic comes or goes."""
        self.world.change_topic(topic, change, 4)

    @rule(ms=st.sampled_from([0, 1, 500, 3_000, 6_000, 11_000, 31_000, 100_000]))
    def time_passes(self, ms: int) -> None:
        """Nothing happens for a while."""
        self.world.sleep(ms)

    @rule(group=st.sampled_from(GROUPS))
    def somebody_looks(self, group: str) -> None:
        """The group is described."""
        assert self.world.describe(group).group_state == self.world.state(group).value

    @rule()
    def node_crashes(self) -> None:
        """All that was not stored is lost."""
        self.world.crash()

    def teardown(self) -> None:
        """In the end, with no client left alive, every group gets empty and no request waits."""
        for kind in {type(happened).__name__ for happened in self.world.events}:
            event(kind)  # shown by --hypothesis-show-statistics: how far the walks get
        self.world.sleep(600_000)
        assert not [answer for answer in self.world.answers.values() if answer.is_parked]
        assert all(not group.members for group in self.world.coordinator.groups.values())


TestAnyWorld = AnyWorld.TestCase
TestAnyWorld.settings = examples(60, stateful_step_count=40)
