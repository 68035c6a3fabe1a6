"""Our assignors against Kafka's own, on the same groups."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from bench.support.java_assignors import JavaAssignors
from coterie_assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    Partitions,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    Weights,
    lead,
)
from coterie_protocol.consumer import flatten, group_by_topic
from coterie_protocol.loads import Load, LoadReport
from tests.assignors.world import assert_fair, far, loads, member, moved
from tests.interop.java_assignors import JAVA_ASSIGNORS, java_question
from tests.interop.java_tools import run_java_source

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java_compiler")]

TOPICS: Final = ["t0", "t1", "t10", "t2", "u"]
RACKS: Final = ["r0", "r1", "r2"]
GROUPS: Final = 400

Group = tuple[Cluster, dict[str, MemberInfo]]


def ask_java(name: str, groups: Iterable[Group]) -> list[dict[str, set[tuple[str, int]]]]:
    """Put groups to Kafka's assignor of this name."""
    questions = "".join(f"{json.dumps(java_question(name, *group))}\n" for group in groups)
    answers = run_java_source(JAVA_ASSIGNORS, stdin=questions).stdout.splitlines()
    return [
        {member: {(topic, number) for topic, number in pairs} for member, pairs in given.items()}
        for given in map(json.loads, answers)
    ]


def ours(assignor: Assignor, group: Group) -> dict[str, set[tuple[str, int]]]:
    """What our assignor answers."""
    return {name: set(flatten(given)) for name, given in assignor.assign(*group).items()}


def groups(
    seed: int, *, racks: bool = False, equal: bool = False, static: bool = False
) -> list[Group]:
    """Random groups, always the same ones for a seed."""
    dice = random.Random(seed)
    return [_group(dice, racks=racks, equal=equal, static=static) for _ in range(GROUPS)]


def _group(dice: random.Random, *, racks: bool, equal: bool, static: bool) -> Group:
    topics = {topic: dice.randint(1, 9) for topic in TOPICS if dice.random() < 0.7}
    where = {
        topic: [frozenset(dice.sample(RACKS, dice.randint(1, 2))) for _ in range(count)]
        for topic, count in topics.items()
    }
    members = {}
    for number in dice.sample(range(100), dice.randint(1, 7)):
        wanted = TOPICS if equal else dice.sample(TOPICS, dice.randint(0, len(TOPICS)))
        members[f"m{number}"] = member(
            f"m{number}",
            sorted(wanted),
            instance_id=f"i{99 - number}" if static and dice.random() < 0.5 else None,
            rack=dice.choice([*RACKS, None]) if racks else None,
        )
    return Cluster(topics, where if racks else {}), members


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()], ids=["range", "rr"])
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("equal", [False, True], ids=["differing", "equal"])
def test_same_as_kafka(assignor: Assignor, *, static: bool, equal: bool) -> None:
    asked = groups(1, equal=equal, static=static)
    assert [ours(assignor, group) for group in asked] == ask_java(assignor.name, asked)


@pytest.mark.parametrize("equal", [False, True], ids=["differing", "equal"])
def test_same_as_kafka_with_racks(*, equal: bool) -> None:
    asked = groups(2, racks=True, equal=equal, static=True)
    assert [ours(RangeAssignor(), group) for group in asked] == ask_java("range", asked)


def _settled(group: Group, assignor: Assignor, tell: Callable[..., MemberInfo]) -> Group:
    cluster, members = group
    given = assignor.assign(cluster, members)
    return cluster, {name: tell(info, given[name]) for name, info in members.items()}


def _by_user_data(info: MemberInfo, given: Partitions) -> MemberInfo:
    data = StickyAssignor().subscription_user_data(info.topics, given, 3)
    return replace(info, user_data=data)


def _by_subscription(info: MemberInfo, given: Partitions) -> MemberInfo:
    return replace(info, owned=given, generation=3)


def test_kafkas_sticky_leader_keeps_what_our_members_had() -> None:
    asked = [_settled(g, StickyAssignor(), _by_user_data) for g in groups(3, equal=True)]
    kept = [ours(StickyAssignor(), group) for group in asked]
    assert ask_java("sticky", asked) == kept


def _with_loads(info: MemberInfo, given: Partitions) -> MemberInfo:
    """As a member tells it that balances loads: its assignor's user data, and more behind it."""
    assignor = StickyAssignor(Weights())
    told = {pair: Load(len(pair[0]) * 1.5, 60_000) for pair in flatten(given)}
    assignor.note_loads(LoadReport(told, {("u", 77): Load(None, 5)}))
    return replace(info, user_data=assignor.subscription_user_data(info.topics, given, 3))


def test_kafkas_sticky_leader_reads_over_the_loads_that_our_members_tell() -> None:
    asked = groups(3, equal=True)
    plain = ask_java("sticky", [_settled(g, StickyAssignor(), _by_user_data) for g in asked])
    assert ask_java("sticky", [_settled(g, StickyAssignor(), _with_loads) for g in asked]) == plain


def test_kafkas_cooperative_leader_reads_over_the_loads_that_our_members_tell() -> None:
    def tell(info: MemberInfo, given: Partitions) -> MemberInfo:
        assignor = CooperativeStickyAssignor(Weights())
        assignor.note_loads(LoadReport({pair: Load(2.5, 9) for pair in flatten(given)}))
        data = assignor.subscription_user_data(info.topics, given, 3)
        return replace(info, owned=given, generation=3, user_data=data)

    assignor = CooperativeStickyAssignor()
    asked = groups(4, equal=True)
    plain = [_settled(group, assignor, _by_subscription) for group in asked]
    assert ask_java(
        "cooperative-sticky", [_settled(group, assignor, tell) for group in asked]
    ) == ask_java("cooperative-sticky", plain)


def test_kafkas_cooperative_leader_keeps_what_our_members_own() -> None:
    assignor = CooperativeStickyAssignor()
    asked = [_settled(g, assignor, _by_subscription) for g in groups(4, equal=True)]
    assert ask_java("cooperative-sticky", asked) == [ours(assignor, group) for group in asked]


def _disturbed(seed: int, *, equal: bool) -> list[Group]:
    """Settled groups that members then leave and join."""
    changed = []
    for cluster, members in groups(seed, equal=equal):
        if not all(info.topics for info in members.values()):
            continue  # Kafka's assignor gives partitions to some that want none
        cluster, settled = _settled(  # noqa: PLW2901  # the same group, later
            (cluster, members), CooperativeStickyAssignor(), _by_subscription
        )
        del settled[min(settled)]
        for new in ("x0", "x1"):
            settled[new] = member(new, TOPICS)
        changed.append((cluster, settled))
    return changed


def test_not_less_fair_and_not_less_sticky_than_kafka() -> None:
    asked = _disturbed(5, equal=True)
    eager = [(cluster, _as_eager(members)) for cluster, members in asked]
    for group, theirs in zip(asked, ask_java("sticky", eager), strict=True):
        given = CooperativeStickyAssignor().assign(*group)
        kafkas = {name: group_by_topic(pairs) for name, pairs in theirs.items()}
        assert sorted(loads(given).values()) == sorted(loads(kafkas).values())
        assert moved(group[1], given) <= moved(group[1], kafkas)


def test_not_less_fair_than_kafka_with_differing_subscriptions() -> None:
    """With differing subscriptions loads are never less even than Kafka's.

    And over all groups where they are equally even, no more partitions move.
    """
    asked = _disturbed(6, equal=False)
    eager = [(cluster, _as_eager(members)) for cluster, members in asked]
    ours_moved = kafkas_moved = 0
    for group, theirs in zip(asked, ask_java("sticky", eager), strict=True):
        given = CooperativeStickyAssignor().assign(*group)
        assert_fair(group[0].topics, group[1], given)
        kafkas = {name: group_by_topic(pairs) for name, pairs in theirs.items()}
        assert _unevenness(given) <= _unevenness(kafkas)
        if _unevenness(given) == _unevenness(kafkas):
            ours_moved += moved(group[1], given)
            kafkas_moved += moved(group[1], kafkas)
    assert 0 < ours_moved <= kafkas_moved


@pytest.mark.parametrize("equal", [False, True], ids=["differing", "equal"])
@pytest.mark.parametrize("when", ["first", "changed"])
def test_not_farther_than_kafka(*, equal: bool, when: str) -> None:
    """With racks, never more partitions are far from their member than with Kafka's (KIP-881).

    Kafka's loads are never more even; where they are less so, they can't be compared.
    """
    asked = groups(8, racks=True, equal=equal)
    if when == "changed":
        asked = _with_racks(_disturbed(8, equal=equal))
    asked = [group for group in asked if all(info.topics for info in group[1].values())]
    eager = [(cluster, _as_eager(members)) for cluster, members in asked]
    ours_far = kafkas_far = compared = 0
    for group, theirs in zip(asked, ask_java("sticky", eager), strict=True):
        given = CooperativeStickyAssignor().assign(*group)
        assert_fair(group[0].topics, group[1], given)
        kafkas = {name: group_by_topic(pairs) for name, pairs in theirs.items()}
        assert _unevenness(given) <= _unevenness(kafkas)
        if _unevenness(given) == _unevenness(kafkas):
            ours_here = far(*group, {name: flatten(each) for name, each in given.items()})
            kafkas_here = far(*group, theirs)
            assert ours_here <= kafkas_here
            ours_far, kafkas_far = ours_far + ours_here, kafkas_far + kafkas_here
            compared += 1
    assert compared > len(asked) / 2
    assert 0 < ours_far < kafkas_far


def test_not_more_moves_than_kafka_with_racks() -> None:
    asked = _with_racks(_disturbed(9, equal=True))
    eager = [(cluster, _as_eager(members)) for cluster, members in asked]
    ours_moved = kafkas_moved = 0
    for group, theirs in zip(asked, ask_java("sticky", eager), strict=True):
        given = CooperativeStickyAssignor().assign(*group)
        kafkas = {name: group_by_topic(pairs) for name, pairs in theirs.items()}
        ours_here = far(*group, {name: flatten(each) for name, each in given.items()})
        if ours_here == far(*group, theirs):
            assert moved(group[1], given) <= moved(group[1], kafkas)
            ours_moved += moved(group[1], given)
            kafkas_moved += moved(group[1], kafkas)
    assert 0 < ours_moved < kafkas_moved


def _with_racks(asked: Iterable[Group]) -> list[Group]:
    """The same groups, which now learn of racks that were not looked at before."""
    dice = random.Random(0)
    told = []
    for cluster, members in asked:
        where = {
            topic: [frozenset(dice.sample(RACKS, dice.randint(1, 2))) for _ in range(count)]
            for topic, count in cluster.topics.items()
        }
        racked = {
            name: replace(info, rack=dice.choice([*RACKS, None])) for name, info in members.items()
        }
        told.append((Cluster(cluster.topics, where), racked))
    return told


def _unevenness(assignment: Mapping[str, Partitions]) -> int:
    return sum(load * load for load in loads(assignment).values())


def _as_eager(members: Mapping[str, MemberInfo]) -> dict[str, MemberInfo]:
    return {
        name: replace(_by_user_data(info, info.owned), owned=(), generation=-1)
        for name, info in members.items()
    }


def test_kafka_withholds_what_we_withhold() -> None:
    asked = _disturbed(7, equal=True)
    for group, theirs in zip(asked, ask_java("cooperative-sticky", asked), strict=True):
        led = lead(CooperativeStickyAssignor(), *group)
        assert sum(loads(led.assignment).values()) == sum(map(len, theirs.values()))


def test_benchmark_times_kafkas_answer() -> None:
    with JavaAssignors() as java:
        for size in (2, 200):
            assert java.ask("range", *_equals(size))
            assert java.seconds(1.0) is not None


def _equals(size: int) -> Group:
    members = {f"m{n}": member(f"m{n}", TOPICS) for n in range(size)}
    return Cluster(dict.fromkeys(TOPICS, size)), members
