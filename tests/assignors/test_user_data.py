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
    Weights,
)
from coterie_protocol.consumer import StickyData, encode_sticky_data, flatten, group_by_topic
from coterie_protocol.loads import Load, LoadReport, split_load_report
from tests.assignors.rivals import (
    StickyAssignorUserData,
    ask_aiokafka,
    kafka_python_sticky,
)
from tests.assignors.world import assigned, group, member

OWNED = group_by_topic([("t", 3), ("t", 0), ("u", 1)])


def test_range_and_round_robin_have_no_user_data() -> None:
    assert RangeAssignor().subscription_user_data(["t"], OWNED, 4) is None
    assert RoundRobinAssignor().subscription_user_data(["t"], OWNED, 4) is None


def test_kafka_python_reads_our_sticky_data() -> None:
    written = StickyAssignor().subscription_user_data(["t"], OWNED, 4)
    assert written is not None
    read = StickyAssignorUserData.decode(written, version=1, header=False)
    assert read.generation == 4
    assert {(t, p) for t, ps in read.previous_assignment for p in ps} == flatten(OWNED)


def test_our_leader_reads_kafka_pythons_sticky_data() -> None:
    written = StickyAssignorUserData([("t", [3, 0]), ("u", [1])], 4).encode()
    claim = StickyAssignor().claim(replace(member("m", ["t"]), user_data=written))
    assert (flatten(claim.owned), claim.generation) == (flatten(OWNED), 4)


def test_kafka_python_and_we_write_the_same_bytes() -> None:
    ours = StickyAssignor().subscription_user_data(["t"], OWNED, 4)
    pairs = [(entry.topic, list(entry.partitions)) for entry in OWNED]
    assert StickyAssignorUserData(pairs, 4).encode(header=False) == ours


def test_sticky_data_of_version_0_has_no_generation() -> None:
    data = encode_sticky_data(StickyData(previous_assignment=OWNED), 0)
    claim = StickyAssignor().claim(replace(member("m", ["t"]), user_data=data))
    assert claim == Claim(OWNED, -1)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff" * 40])
def test_unreadable_sticky_data_means_nothing_owned(data: bytes | None) -> None:
    assert StickyAssignor().claim(replace(member("m", ["t"]), user_data=data)) == Claim()


def test_eager_sticky_ignores_the_owned_partitions_of_the_subscription() -> None:
    assert StickyAssignor().claim(member("m", ["t"], [("t", 0)], 3)) == Claim()


def test_sticky_member_remembers_what_it_was_given() -> None:
    assignor = StickyAssignor()
    assignor.on_assignment(OWNED, 7)
    assert assignor.subscription_user_data(["t"], (), 8) == encode_sticky_data(
        StickyData(previous_assignment=OWNED, generation=7)
    )


def test_new_sticky_member_has_no_user_data() -> None:
    assert StickyAssignor().subscription_user_data(["t"], (), -1) is None


def test_cooperative_data_is_the_generation() -> None:
    written = CooperativeStickyAssignor().subscription_user_data(["t"], OWNED, 258)
    assert written == b"\x00\x00\x01\x02"


def test_generation_of_the_subscription_comes_before_user_data() -> None:
    asked = replace(member("m", ["t"], [("t", 0)], 5), user_data=b"\x00\x00\x00\x09")
    assert CooperativeStickyAssignor().claim(asked).generation == 5


def test_generation_comes_from_user_data_if_the_subscription_has_none() -> None:
    asked = replace(member("m", ["t"], [("t", 0)]), user_data=b"\x00\x00\x00\x09")
    assert CooperativeStickyAssignor().claim(asked) == Claim(group_by_topic([("t", 0)]), 9)


def test_cooperative_claim_with_librdkafkas_eager_user_data() -> None:
    data = encode_sticky_data(StickyData(previous_assignment=OWNED, generation=6))
    claim = CooperativeStickyAssignor().claim(
        replace(member("m", ["t"], [("t", 0)]), user_data=data)
    )
    assert claim == Claim(group_by_topic([("t", 0)]), 6)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\xff" * 9])
def test_owned_partitions_are_claimed_without_a_generation(data: bytes | None) -> None:
    asked = replace(member("m", ["t"], [("t", 0)]), user_data=data)
    assert CooperativeStickyAssignor().claim(asked) == Claim(group_by_topic([("t", 0)]), -1)


def test_sticky_group_keeps_everything_under_either_leader() -> None:
    members = group(member("a", ["t"]), member("b", ["t"]))
    first = StickyAssignor().assign(Cluster({"t": 5}), members)
    for name, partitions in first.items():
        data = StickyAssignor().subscription_user_data(["t"], partitions, 1)
        members[name] = replace(members[name], user_data=data)
    kept = {name: set(flatten(partitions)) for name, partitions in first.items()}
    assert assigned(StickyAssignor(), {"t": 5}, members) == kept
    assert ask_aiokafka("sticky", {"t": 5}, members) == kept


def test_names_are_those_of_stock_clients() -> None:
    assert RangeAssignor.name == "range"
    assert RoundRobinAssignor.name == "roundrobin"
    assert StickyAssignor.name == kafka_python_sticky.name == "sticky"
    assert CooperativeStickyAssignor.name == "cooperative-sticky"


# With weights, loads follow

LOADS = LoadReport({("t", 0): Load(2.5, 1000)}, {("u", 7): Load(None, 5)})


def telling(kind: type[CooperativeStickyAssignor | StickyAssignor]) -> bytes:
    """The user data of a member that tells loads."""
    assignor = kind(Weights())
    assignor.note_loads(LOADS)
    written = assignor.subscription_user_data(["t"], OWNED, 4)
    assert written is not None
    return written


@pytest.mark.parametrize("kind", [CooperativeStickyAssignor, StickyAssignor])
def test_loads_are_behind_what_is_written_without_them(
    kind: type[CooperativeStickyAssignor | StickyAssignor],
) -> None:
    plain = kind().subscription_user_data(["t"], OWNED, 4)
    assert split_load_report(telling(kind)) == (plain, LOADS)


def test_kafka_python_reads_sticky_data_with_loads_behind_it() -> None:
    read = StickyAssignorUserData.decode(telling(StickyAssignor), version=1, header=False)
    assert read.generation == 4
    assert {(t, p) for t, ps in read.previous_assignment for p in ps} == flatten(OWNED)


def test_leaders_of_other_makes_keep_what_members_had_that_tell_loads() -> None:
    members = group(member("a", ["t"]), member("b", ["t"]))
    first = StickyAssignor().assign(Cluster({"t": 5}), members)
    for name, partitions in first.items():
        assignor = StickyAssignor(Weights())
        assignor.note_loads(LoadReport({pair: Load(1.0, 5) for pair in flatten(partitions)}))
        data = assignor.subscription_user_data(["t"], partitions, 1)
        members[name] = replace(members[name], user_data=data)
    kept = {name: set(flatten(partitions)) for name, partitions in first.items()}
    assert ask_aiokafka("sticky", {"t": 5}, members) == kept
    assert assigned(StickyAssignor(), {"t": 5}, members) == kept


def test_new_sticky_member_with_weights_writes_that_it_had_nothing() -> None:
    """Without it, leaders of other makes would take the loads for what it had."""
    own, _ = split_load_report(StickyAssignor(Weights()).subscription_user_data(["t"], (), -1))
    assert own == encode_sticky_data(StickyData(previous_assignment=()))


def test_cooperative_generation_is_found_before_the_loads() -> None:
    data = telling(CooperativeStickyAssignor)
    asked = replace(member("m", ["t"], [("t", 0)]), user_data=data)
    assert CooperativeStickyAssignor().claim(asked).generation == 4
