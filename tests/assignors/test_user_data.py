"""User data is what Kafka's assignors of the same name write, and what others write is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie_assignors import (
    Claim,
    Cluster,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from coterie_protocol.consumer import StickyData, encode_sticky_data, flatten, group_by_topic
from tests.assignors.rivals import (
    StickyAssignorUserData,
    ask_aiokafka,
    kafka_python_sticky,
)
from tests.assignors.world import assigned, group, member

OWNED = group_by_topic([("t", 3), ("t", 0), ("u", 1)])


def test_range_and_round_robin_have_none() -> None:
    """Assignors without memory tell nothing."""
    assert RangeAssignor().subscription_user_data(["t"], OWNED, 4) is None
    assert RoundRobinAssignor().subscription_user_data(["t"], OWNED, 4) is None


def test_kafka_python_reads_our_sticky_data() -> None:
    """What a member had, and in which generation, comes through to kafka-python's leader."""
    written = StickyAssignor().subscription_user_data(["t"], OWNED, 4)
    assert written is not None
    read = StickyAssignorUserData.decode(written, version=1, header=False)
    assert read.generation == 4
    assert {(t, p) for t, ps in read.previous_assignment for p in ps} == flatten(OWNED)


def test_we_read_kafka_pythons_sticky_data() -> None:
    """What kafka-python's member had comes through to our leader, although it writes a version."""
    written = StickyAssignorUserData([("t", [3, 0]), ("u", [1])], 4).encode()
    claim = StickyAssignor().claim(replace(member("m", ["t"]), user_data=written))
    assert (flatten(claim.owned), claim.generation) == (flatten(OWNED), 4)


def test_kafka_python_and_we_write_the_same_bytes() -> None:
    """For the same previous assignment the user data is the same, but for its version in front."""
    ours = StickyAssignor().subscription_user_data(["t"], OWNED, 4)
    pairs = [(entry.topic, list(entry.partitions)) for entry in OWNED]
    assert StickyAssignorUserData(pairs, 4).encode(header=False) == ours


def test_sticky_data_without_a_generation() -> None:
    """Version 0 of the user data has no generation; its claim is older than any that has one."""
    data = encode_sticky_data(StickyData(previous_assignment=OWNED), 0)
    claim = StickyAssignor().claim(replace(member("m", ["t"]), user_data=data))
    assert claim == Claim(OWNED, -1)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff" * 40])
def test_unreadable_sticky_data_means_nothing_had(data: bytes | None) -> None:
    """A member whose user data can't be read is treated as a new one."""
    assert StickyAssignor().claim(replace(member("m", ["t"]), user_data=data)) == Claim()


def test_eager_sticky_ignores_what_the_subscription_says_is_owned() -> None:
    """An eager member owns nothing while it joins; only the user data tells what it had."""
    assert StickyAssignor().claim(member("m", ["t"], [("t", 0)], 3)) == Claim()


def test_sticky_member_remembers_what_it_was_given() -> None:
    """Having revoked everything, it still tells what it was last given."""
    assignor = StickyAssignor()
    assignor.on_assignment(OWNED, 7)
    assert assignor.subscription_user_data(["t"], (), 8) == encode_sticky_data(
        StickyData(previous_assignment=OWNED, generation=7)
    )


def test_sticky_member_that_had_nothing_tells_nothing() -> None:
    """A new member has no user data, like Kafka's."""
    assert StickyAssignor().subscription_user_data(["t"], (), -1) is None


def test_cooperative_data_is_the_generation() -> None:
    """Four bytes, as Kafka's cooperative assignor writes them."""
    written = CooperativeStickyAssignor().subscription_user_data(["t"], OWNED, 258)
    assert written == b"\x00\x00\x01\x02"


def test_cooperative_claim_from_the_subscription() -> None:
    """A subscription that has the generation is believed; its user data is not asked."""
    asked = replace(member("m", ["t"], [("t", 0)], 5), user_data=b"\x00\x00\x00\x09")
    assert CooperativeStickyAssignor().claim(asked).generation == 5


def test_cooperative_claim_from_the_user_data() -> None:
    """A subscription of version 1 has no generation, but the user data does."""
    asked = replace(member("m", ["t"], [("t", 0)]), user_data=b"\x00\x00\x00\x09")
    assert CooperativeStickyAssignor().claim(asked) == Claim(group_by_topic([("t", 0)]), 9)


def test_cooperative_claim_with_eager_sticky_data() -> None:
    """What librdkafka's cooperative members write, the eager assignor's data, is understood."""
    data = encode_sticky_data(StickyData(previous_assignment=OWNED, generation=6))
    claim = CooperativeStickyAssignor().claim(
        replace(member("m", ["t"], [("t", 0)]), user_data=data)
    )
    assert claim == Claim(group_by_topic([("t", 0)]), 6)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff" * 9])
def test_cooperative_claim_without_a_generation(data: bytes | None) -> None:
    """kafka-python's cooperative members tell no generation; what they own is claimed anyway."""
    asked = replace(member("m", ["t"], [("t", 0)]), user_data=data)
    assert CooperativeStickyAssignor().claim(asked) == Claim(group_by_topic([("t", 0)]), -1)


def test_mixed_sticky_group_keeps_everything() -> None:
    """Whoever leads, ours or aiokafka's, members that told their data keep what they had."""
    members = group(member("a", ["t"]), member("b", ["t"]))
    first = StickyAssignor().assign(Cluster({"t": 5}), members)
    for name, partitions in first.items():
        data = StickyAssignor().subscription_user_data(["t"], partitions, 1)
        members[name] = replace(members[name], user_data=data)
    kept = {name: set(flatten(partitions)) for name, partitions in first.items()}
    assert assigned(StickyAssignor(), {"t": 5}, members) == kept
    assert ask_aiokafka("sticky", {"t": 5}, members) == kept


def test_names_are_kafkas() -> None:
    """Members vote by name, so the names are those that stock clients use."""
    assert RangeAssignor.name == "range"
    assert RoundRobinAssignor.name == "roundrobin"
    assert StickyAssignor.name == kafka_python_sticky.name == "sticky"
    assert CooperativeStickyAssignor.name == "cooperative-sticky"
